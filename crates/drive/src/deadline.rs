//! The limits of one request as a rule without a clock.
//!
//! Total, first-token and connect limits count from the release; the idle limit counts from the last body byte, and
//! from sending until the first one. A keep-alive comment is a byte but not a token. The loop around it tells what
//! arrived before it asks for what ran out, so that something arriving exactly at a limit is in time.

use goodput_core::outcome::TimeoutPhase;
use goodput_core::plan::Timeouts;
use goodput_core::time::Nanos;

/// The limits of one request, as absolute instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    connect: Option<Nanos>,
    first_token: Option<Nanos>,
    idle: Option<Nanos>,
    total: Option<Nanos>,
    idle_limit: Option<Nanos>,
}

impl Deadlines {
    /// The limits of a request released at `released` that has no connection yet.
    #[must_use]
    pub fn new(timeouts: &Timeouts, released: Nanos) -> Self {
        let from_release = |limit: Option<Nanos>| limit.map(|limit| released.saturating_add(limit));
        Self {
            connect: from_release(timeouts.connect),
            first_token: from_release(timeouts.first_token),
            idle: None,
            total: from_release(timeouts.total),
            idle_limit: timeouts.idle,
        }
    }

    /// The request has a usable connection, new or reused.
    pub fn connected(&mut self) {
        self.connect = None;
    }

    /// The request went out at `now`: the server's silence counts from here.
    pub fn on_sent(&mut self, now: Nanos) {
        self.connect = None;
        self.idle = self.idle_limit.map(|limit| now.saturating_add(limit));
    }

    /// Body bytes arrived at `now`.
    pub fn on_byte(&mut self, now: Nanos) {
        self.on_sent(now);
    }

    /// Body bytes with a token arrived at `now`.
    pub fn on_token(&mut self, now: Nanos) {
        self.on_byte(now);
        self.first_token = None;
    }

    /// The limit that runs out next, and when. Of several at one instant the most specific is named: connect, first
    /// token, idle, total.
    #[must_use]
    pub fn next(&self) -> Option<(Nanos, TimeoutPhase)> {
        [
            (self.connect, TimeoutPhase::Connect),
            (self.first_token, TimeoutPhase::FirstToken),
            (self.idle, TimeoutPhase::Idle),
            (self.total, TimeoutPhase::Total),
        ]
        .into_iter()
        .filter_map(|(at, phase)| Some((at?, phase)))
        .min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Timeouts = Timeouts {
        total: Some(Nanos(100)),
        first_token: Some(Nanos(40)),
        idle: Some(Nanos(30)),
        connect: Some(Nanos(10)),
    };

    #[test]
    fn each_step_disarms_its_limit() {
        let mut d = Deadlines::new(&ALL, Nanos(1_000));
        assert_eq!(d.next(), Some((Nanos(1_010), TimeoutPhase::Connect)));
        d.connected();
        assert_eq!(d.next(), Some((Nanos(1_040), TimeoutPhase::FirstToken)), "idle counts from sending only");
        d.on_sent(Nanos(1_005));
        assert_eq!(d.next(), Some((Nanos(1_035), TimeoutPhase::Idle)));
        d.on_byte(Nanos(1_030));
        assert_eq!(d.next(), Some((Nanos(1_040), TimeoutPhase::FirstToken)), "a comment is not a token");
        d.on_token(Nanos(1_035));
        assert_eq!(d.next(), Some((Nanos(1_065), TimeoutPhase::Idle)));
        d.on_byte(Nanos(1_090));
        assert_eq!(d.next(), Some((Nanos(1_100), TimeoutPhase::Total)));
    }

    #[test]
    fn no_limit_is_no_deadline() {
        let mut d = Deadlines::new(&Timeouts::default(), Nanos(5));
        d.on_sent(Nanos(6));
        d.on_byte(Nanos(7));
        assert_eq!(d.next(), None);
    }

    #[test]
    fn the_most_specific_of_equal_limits_is_named() {
        let same = Timeouts { total: Some(Nanos(9)), first_token: Some(Nanos(9)), ..Timeouts::default() };
        assert_eq!(Deadlines::new(&same, Nanos(0)).next(), Some((Nanos(9), TimeoutPhase::FirstToken)));
    }

    #[test]
    fn sums_stop_at_the_end_of_time() {
        let long = Timeouts { total: Some(Nanos::MAX), ..Timeouts::default() };
        assert_eq!(Deadlines::new(&long, Nanos(1)).next(), Some((Nanos::MAX, TimeoutPhase::Total)));
    }
}
