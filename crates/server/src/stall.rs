//! Pauses of the served engine: an engine clock that stands still during each stall.
//!
//! A chunk is due at an *engine* time; the wall time is later by every stall that began before it. So a stall
//! delays everything after it alike, and a request that arrives inside one starts when it ends.

use goodput_core::time::Nanos;
use goodput_core::units::parse_duration;
use std::rc::Rc;
use std::str::FromStr;
use thiserror::Error;

/// One pause of all streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// When it begins, after the first request.
    pub at: Nanos,
    /// How long it lasts.
    pub span: Nanos,
}

/// Text that is not a stall.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a stall: write `AT:FOR`, two durations such as `10s:800ms`")]
pub struct StallError(pub String);

/// Reads `AT:FOR`, two durations.
impl FromStr for Stall {
    type Err = StallError;
    fn from_str(text: &str) -> Result<Self, StallError> {
        let fail = || StallError(text.to_owned());
        let (at, span) = text.split_once(':').ok_or_else(fail)?;
        let read = |part: &str| parse_duration(part).map_err(|_| fail());
        Ok(Self { at: read(at)?, span: read(span)? })
    }
}

/// Maps engine time to wall time and back. Both count from the server's start.
#[derive(Debug, Clone)]
pub(crate) struct EngineClock {
    /// Wall time of the first request.
    epoch: Nanos,
    /// In order of `at`, not overlapping.
    stalls: Rc<[Stall]>,
}

/// Orders stalls and joins those that overlap: a pause inside a pause is one pause.
pub(crate) fn disjoint(stalls: &[Stall]) -> Rc<[Stall]> {
    let mut sorted = stalls.to_vec();
    sorted.sort_by_key(|stall| stall.at);
    let mut joined: Vec<Stall> = Vec::new();
    for stall in sorted {
        match joined.last_mut() {
            Some(last) if stall.at <= last.at.saturating_add(last.span) => {
                let end = stall.at.saturating_add(stall.span).max(last.at.saturating_add(last.span));
                last.span = end - last.at;
            }
            _ => joined.push(stall),
        }
    }
    joined.into()
}

impl EngineClock {
    /// A clock whose stalls (made [`disjoint`]) count from `epoch`.
    pub(crate) fn new(epoch: Nanos, stalls: Rc<[Stall]>) -> Self {
        Self { epoch, stalls }
    }

    /// The engine time at a wall time not before the epoch.
    pub(crate) fn engine(&self, wall: Nanos) -> Nanos {
        let mut lost = Nanos::ZERO;
        for stall in &*self.stalls {
            let begin = self.epoch.saturating_add(stall.at);
            lost += wall.since(begin).min(stall.span);
        }
        wall.since(lost)
    }

    /// The wall time at which an engine time is reached. What falls on the very start of a stall waits for its end.
    pub(crate) fn wall(&self, engine: Nanos) -> Nanos {
        let mut wall = engine;
        for stall in &*self.stalls {
            if wall >= self.epoch.saturating_add(stall.at) {
                wall = wall.saturating_add(stall.span);
            }
        }
        wall
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stall(at: u64, span: u64) -> Stall {
        Stall { at: Nanos(at), span: Nanos(span) }
    }

    #[test]
    fn text_is_two_durations() {
        assert_eq!("10s:800ms".parse(), Ok(stall(10_000_000_000, 800_000_000)));
        for bad in ["", "10s", "10:800", "1s:2s:3s"] {
            assert_eq!(bad.parse::<Stall>(), Err(StallError(bad.to_owned())), "{bad}");
        }
    }

    #[test]
    fn a_stall_shifts_what_follows_it() {
        let clock = EngineClock::new(Nanos(100), disjoint(&[stall(50, 30)]));
        let wall: Vec<u64> = [100, 149, 150, 160].map(|t| clock.wall(Nanos(t)).0).into();
        assert_eq!(wall, [100, 149, 180, 190]);
        let engine: Vec<u64> = [149, 150, 165, 180, 190].map(|t| clock.engine(Nanos(t)).0).into();
        assert_eq!(engine, [149, 150, 150, 150, 160]);
    }

    #[test]
    fn overlapping_stalls_are_one() {
        assert_eq!(*disjoint(&[stall(20, 10), stall(5, 10), stall(12, 4)]), [stall(5, 11), stall(20, 10)]);
        assert_eq!(*disjoint(&[stall(0, 10), stall(2, 3)]), [stall(0, 10)]);
    }

    proptest! {
        #[test]
        fn wall_undoes_engine(
            stalls in prop::collection::vec((0_u64..1_000, 0_u64..200), 0..5),
            epoch in 0_u64..500,
            after in 0_u64..3_000,
            step in 0_u64..500,
        ) {
            let stalls: Vec<Stall> = stalls.into_iter().map(|(at, span)| stall(at, span)).collect();
            let clock = EngineClock::new(Nanos(epoch), disjoint(&stalls));
            let engine = Nanos(epoch + after);
            let wall = clock.wall(engine);
            prop_assert_eq!(clock.engine(wall), engine);
            prop_assert!(clock.wall(engine + Nanos(step)) >= wall + Nanos(step), "time never runs faster");
        }
    }
}
