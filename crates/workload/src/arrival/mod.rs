//! When requests are sent in an open loop: renewal arrivals under a rate profile, on an absolute schedule.
//!
//! Gap `i` is drawn from element `i` of a named stream with mean one, and the gaps are summed; the running
//! sum is carried into time by the inverse of the rate's integral, so ramps and steps leave the law of the
//! gaps alone. Nothing is rescaled to hit N/rate, since that would condition the process on its end (only
//! [`GapLaw::GammaRescaled`] does it, because vLLM's client does).
//!
//! Where the first arrival falls: one gap after the start for the random laws (the start counts as an arrival
//! that is not sent, as in a Poisson process seen from time zero); at the start itself for the constant law,
//! so that rate R over D seconds offers exactly R*D requests.
//!
//! Never reads a clock, never waits, and never knows what is sent.

use goodput_core::plan::{Arrivals, GapLaw, Plan, RampShape, RateProfile, Stop, Warmup};
use goodput_core::rate::RateIntegral;
use goodput_core::rng::{Seed, Stream};
use goodput_core::schedule::Schedule;
use goodput_core::time::Nanos;
use thiserror::Error;

/// An arrival process that cannot be scheduled.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ArrivalError {
    /// A schedule without an end.
    #[error("an open loop needs an end: give a number of requests, a duration, or both")]
    Unbounded,
    /// An infinite rate without a count.
    #[error("at an infinite rate only a number of requests is an end: give one")]
    InfiniteNeedsRequests,
    /// A warm-up of a duration at an infinite rate.
    #[error("at an infinite rate a warm-up time has no number of requests: give the warm-up as a number")]
    InfiniteWarmup,
    /// A warm-up before a ramp from zero.
    #[error(
        "the warm-up runs at the rate the profile starts with, which is zero: start above zero or drop it"
    )]
    WarmupAtRest,
    /// A rate that is not a rate.
    #[error("{rate} is not a rate here: give a finite number of requests per second, {}", if *.may_rest { "zero or more" } else { "more than zero" })]
    Rate {
        /// What was given, in requests per second.
        rate: f64,
        /// Whether zero would have been allowed in its place.
        may_rest: bool,
    },
    /// A profile without a request in it.
    #[error("the rate is zero all along: at least one step or one end of the ramp must be above zero")]
    AlwaysAtRest,
    /// A shape that no gamma law has.
    #[error(
        "{0} is not a burstiness: it must be positive and finite (1 is Poisson; use the constant law for evenly spaced arrivals)"
    )]
    Burstiness(f64),
    /// The rescaled law without what it rescales to.
    #[error(
        "the rescaled law puts the last of N arrivals on N/rate: it needs a number of requests and one steady rate"
    )]
    RescaledNeedsCount,
}

/// The whole schedule of `plan`; empty for a closed loop.
///
/// The measured instants, counted from `measured_from`, do not depend on the warm-up, and those of a shorter
/// run are a prefix of those of a longer one (the rescaled law excepted). The warm-up runs under the same law
/// at the rate the profile starts with, from streams of its own. After a warm-up by number, `measured_from`
/// is the end of its last gap; after one by duration, that duration. A duration is a half-open interval: an
/// arrival exactly at its end is not in it.
///
/// # Errors
/// [`ArrivalError`] if the process has no end, or a rate or shape is not one.
pub fn schedule(plan: &Plan) -> Result<Schedule, ArrivalError> {
    let Some(arrivals) = &plan.load.arrivals else { return Ok(Schedule::default()) };
    if plan.stop.requests.is_none() {
        match (&arrivals.rate, plan.stop.duration) {
            (RateProfile::Infinite, _) => return Err(ArrivalError::InfiniteNeedsRequests),
            (_, None) => return Err(ArrivalError::Unbounded),
            _ => {}
        }
    }
    let (warmup, measured_from) = warm_up(plan.seed, arrivals, plan.warmup)?;
    let measured = Measured::new(plan.seed, arrivals, plan.stop, measured_from)?.collect();
    Ok(Schedule { warmup, measured, measured_from })
}

/// The measured arrivals of an open loop one by one, for runs too long to hold; endless if `stop` sets no
/// end.
#[derive(Debug)]
pub struct Measured {
    areas: Areas,
    /// `None` at an infinite rate.
    integral: Option<RateIntegral>,
    stop: Stop,
    from: Nanos,
    rescale: f64,
    drawn: u64,
}

impl Measured {
    /// The arrivals of `arrivals` under `seed`, from the instant `from` on.
    ///
    /// # Errors
    /// [`ArrivalError`] if a rate or shape is not one, or the rescaled law lacks its number of requests.
    pub fn new(seed: Seed, arrivals: &Arrivals, stop: Stop, from: Nanos) -> Result<Self, ArrivalError> {
        check(arrivals)?;
        let areas = Areas::new(seed, "arrivals", arrivals.law);
        let rescale = match (arrivals.law, &arrivals.rate, stop.requests) {
            (GapLaw::GammaRescaled { .. }, RateProfile::Steady { .. }, Some(n)) => {
                let last = areas.clone().take(usize::try_from(n).unwrap_or(usize::MAX)).last();
                last.map_or(1.0, |last| n as f64 / last)
            }
            (GapLaw::GammaRescaled { .. }, RateProfile::Infinite, _) => 1.0,
            (GapLaw::GammaRescaled { .. }, ..) => return Err(ArrivalError::RescaledNeedsCount),
            _ => 1.0,
        };
        let integral = RateIntegral::of(&arrivals.rate);
        Ok(Self { areas, integral, stop, from, rescale, drawn: 0 })
    }
}

impl Iterator for Measured {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        if self.stop.requests.is_some_and(|n| self.drawn >= n) {
            return None;
        }
        let offset = match &self.integral {
            None => Nanos::ZERO,
            Some(integral) => Nanos::from_secs_f64(integral.instant(self.areas.next()? * self.rescale)?),
        };
        if self.stop.duration.is_some_and(|duration| offset >= duration) {
            return None;
        }
        self.drawn += 1;
        Some(self.from.saturating_add(offset))
    }
}

/// Arrivals expected in the first `duration` of `profile`: what was asked for, before chance. `None` at an
/// infinite rate.
#[must_use]
pub fn expected_arrivals(profile: &RateProfile, duration: Nanos) -> Option<f64> {
    RateIntegral::of(profile).map(|integral| integral.area(duration.as_secs_f64()))
}

/// Warm-up arrivals and the instant at which measuring begins.
fn warm_up(seed: Seed, arrivals: &Arrivals, warmup: Warmup) -> Result<(Vec<Nanos>, Nanos), ArrivalError> {
    check(arrivals)?;
    let rate = match RateIntegral::of(&arrivals.rate) {
        Some(integral) => integral.initial_rate(),
        None => f64::INFINITY,
    };
    let areas = Areas::new(seed, "warm-up arrivals", arrivals.law);
    match warmup {
        Warmup::None | Warmup::Requests(0) | Warmup::Duration(Nanos::ZERO) => Ok((Vec::new(), Nanos::ZERO)),
        _ if rate == 0.0 => Err(ArrivalError::WarmupAtRest),
        Warmup::Duration(_) if rate.is_infinite() => Err(ArrivalError::InfiniteWarmup),
        Warmup::Requests(n) => {
            let mut instants = areas.map(|area| Nanos::from_secs_f64(area / rate));
            let count = usize::try_from(n).unwrap_or(usize::MAX);
            let sent: Vec<Nanos> = instants.by_ref().take(count).collect();
            let end = match arrivals.law {
                GapLaw::Constant => instants.next(),
                _ => sent.last().copied(),
            };
            Ok((sent, end.unwrap_or(Nanos::ZERO)))
        }
        Warmup::Duration(duration) => {
            let instants = areas.map(|area| Nanos::from_secs_f64(area / rate));
            Ok((instants.take_while(|at| *at < duration).collect(), duration))
        }
    }
}

/// The arrivals of a process of rate one: running sums of gaps with mean one. Never ends.
#[derive(Debug, Clone)]
struct Areas {
    stream: Stream,
    law: GapLaw,
    index: u64,
    sum: f64,
}

impl Areas {
    fn new(seed: Seed, name: &str, law: GapLaw) -> Self {
        Self { stream: seed.stream(name), law, index: 0, sum: 0.0 }
    }
}

impl Iterator for Areas {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let index = self.index;
        self.index += 1;
        self.sum += match self.law {
            GapLaw::Constant => return Some(index as f64),
            GapLaw::Poisson => self.stream.at(index).exponential(),
            GapLaw::Gamma { burstiness } | GapLaw::GammaRescaled { burstiness } => {
                self.stream.at(index).gamma(burstiness)
            }
        };
        Some(self.sum)
    }
}

/// Refuses rates and shapes that are not ones.
fn check(arrivals: &Arrivals) -> Result<(), ArrivalError> {
    if let GapLaw::Gamma { burstiness } | GapLaw::GammaRescaled { burstiness } = arrivals.law
        && !(burstiness > 0.0 && burstiness.is_finite())
    {
        return Err(ArrivalError::Burstiness(burstiness));
    }
    let (rates, may_rest) = match &arrivals.rate {
        RateProfile::Infinite => return Ok(()),
        RateProfile::Steady { rate } => (vec![*rate], false),
        RateProfile::Ramp { from, to, shape, .. } => (vec![*from, *to], *shape == RampShape::Linear),
        RateProfile::Steps { steps } => (steps.iter().map(|step| step.rate).collect(), true),
    };
    let refused =
        rates.iter().find(|rate| !(rate.is_finite() && (**rate > 0.0 || may_rest && **rate == 0.0)));
    match refused {
        Some(rate) => Err(ArrivalError::Rate { rate: *rate, may_rest }),
        None if rates.iter().all(|rate| *rate == 0.0) => Err(ArrivalError::AlwaysAtRest),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
