//! The integral of a rate over time, and its inverse: the time change that turns a process of rate one into a
//! process with any rate profile. Arrivals are drawn through the one and held against their law through the other.
//!
//! If arrivals fall at `S_1, S_2, ...` in a process of rate one, they fall at the instants `t` with `A(t) =
//! S_i` under the rate `a(t)`, where `A` is the integral of `a` from zero. The law of the gaps stays what it
//! was, measured in expected arrivals instead of seconds; for a Poisson process this is the inhomogeneous
//! Poisson process of that rate (Cinlar 1975, Introduction to Stochastic Processes, section 4.7).

use crate::plan::{RampShape, RateProfile};

/// A stretch of time with one formula for the rate. The rate is `from` at its start.
#[derive(Debug, Clone, Copy)]
struct Piece {
    starts_s: f64,
    lasts_s: f64,
    area_before: f64,
    from: f64,
    change: Change,
}

/// How the rate moves within a piece.
#[derive(Debug, Clone, Copy)]
enum Change {
    Flat,
    /// Requests per second, per second.
    Linear(f64),
    /// The exponent, per second.
    Exponential(f64),
}

impl Piece {
    /// Expected arrivals in the first `seconds` of the piece.
    fn area(&self, seconds: f64) -> f64 {
        if seconds <= 0.0 {
            return 0.0;
        }
        match self.change {
            Change::Flat if self.from == 0.0 => 0.0,
            Change::Flat => self.from * seconds,
            Change::Linear(slope) => seconds * (self.from + 0.5 * slope * seconds),
            Change::Exponential(growth) => self.from * (growth * seconds).exp_m1() / growth,
        }
    }

    /// The inverse of [`Piece::area`], in the forms that lose no digits for small areas.
    fn seconds(&self, area: f64) -> f64 {
        if area <= 0.0 {
            return 0.0;
        }
        let seconds = match self.change {
            Change::Flat => area / self.from,
            Change::Linear(slope) => {
                // Rounding may push a falling ramp's last arrival a hair under zero.
                let end_rate = self.from.mul_add(self.from, 2.0 * slope * area).max(0.0).sqrt();
                2.0 * area / (self.from + end_rate)
            }
            Change::Exponential(growth) => (growth * area / self.from).ln_1p() / growth,
        };
        seconds.min(self.lasts_s)
    }
}

/// `A(t)` of a finite rate profile, for `t` from zero.
#[derive(Debug, Clone)]
pub struct RateIntegral {
    pieces: Vec<Piece>,
}

impl RateIntegral {
    /// The integral of `profile`; `None` if it is the infinite one, which has no integral.
    #[must_use]
    pub fn of(profile: &RateProfile) -> Option<Self> {
        let mut integral = Self { pieces: Vec::new() };
        match profile {
            RateProfile::Infinite => return None,
            RateProfile::Steady { rate } => integral.push(*rate, Change::Flat, f64::INFINITY),
            RateProfile::Ramp { from, to, over, shape } => {
                let over_s = over.as_secs_f64();
                let change = match shape {
                    _ if from.total_cmp(to).is_eq() => Change::Flat,
                    RampShape::Linear => Change::Linear((to - from) / over_s),
                    RampShape::Exponential => Change::Exponential((to / from).ln() / over_s),
                };
                if over_s > 0.0 {
                    integral.push(*from, change, over_s);
                }
                integral.push(*to, Change::Flat, f64::INFINITY);
            }
            RateProfile::Steps { steps } => {
                for (position, step) in steps.iter().enumerate() {
                    let last = position + 1 == steps.len();
                    let lasts_s = if last { f64::INFINITY } else { step.lasts.as_secs_f64() };
                    integral.push(step.rate, Change::Flat, lasts_s);
                }
            }
        }
        Some(integral)
    }

    fn push(&mut self, from: f64, change: Change, lasts_s: f64) {
        let (starts_s, area_before) = match self.pieces.last() {
            Some(last) => (last.starts_s + last.lasts_s, last.area_before + last.area(last.lasts_s)),
            None => (0.0, 0.0),
        };
        self.pieces.push(Piece { starts_s, lasts_s, area_before, from, change });
    }

    /// The rate at time zero.
    #[must_use]
    pub fn initial_rate(&self) -> f64 {
        self.pieces.first().map_or(0.0, |piece| piece.from)
    }

    /// Expected arrivals up to `seconds`.
    #[must_use]
    pub fn area(&self, seconds: f64) -> f64 {
        let piece = self.pieces.iter().rev().find(|piece| piece.starts_s <= seconds);
        piece.map_or(0.0, |piece| piece.area_before + piece.area(seconds - piece.starts_s))
    }

    /// The latest instant, in seconds, by which no more than `area` arrivals are expected: an arrival that
    /// would fall on the edge of a pause comes after it. `None` if the profile ends at a rate of zero and
    /// never comes to more than that many.
    #[must_use]
    pub fn instant(&self, area: f64) -> Option<f64> {
        let next = self.pieces.partition_point(|piece| piece.area_before <= area);
        let piece = &self.pieces[next.checked_sub(1)?];
        let ends_at_rest = piece.lasts_s.is_infinite() && piece.from == 0.0;
        (!ends_at_rest).then(|| piece.starts_s + piece.seconds(area - piece.area_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::RateStep;
    use crate::time::Nanos;
    use proptest::prelude::*;

    fn ramp(from: f64, to: f64, over_s: u64, shape: RampShape) -> RateProfile {
        RateProfile::Ramp { from, to, over: Nanos::from_secs(over_s), shape }
    }

    fn step(rate: f64, lasts_s: u64) -> RateStep {
        RateStep { rate, lasts: Nanos::from_secs(lasts_s) }
    }

    #[test]
    fn areas_are_the_textbook_ones() {
        let cases = [
            (RateProfile::Steady { rate: 5.0 }, 4.0, 20.0),
            // A straight ramp from 0 to 10 in 10 s has the area of its triangle, then 10 each second.
            (ramp(0.0, 10.0, 10, RampShape::Linear), 10.0, 50.0),
            (ramp(0.0, 10.0, 10, RampShape::Linear), 12.0, 70.0),
            (ramp(10.0, 0.0, 10, RampShape::Linear), 20.0, 50.0),
            // From 1 to e in 1 s: the integral of exp(t).
            (ramp(1.0, std::f64::consts::E, 1, RampShape::Exponential), 1.0, std::f64::consts::E - 1.0),
            (ramp(7.0, 7.0, 3, RampShape::Exponential), 2.0, 14.0),
            (RateProfile::Steps { steps: vec![step(2.0, 3), step(0.0, 4), step(5.0, 1)] }, 9.0, 16.0),
        ];
        for (profile, seconds, area) in cases {
            let found = RateIntegral::of(&profile).expect("finite").area(seconds);
            assert!((found - area).abs() < 1e-9, "{profile:?}: {found}");
        }
        assert!(RateIntegral::of(&RateProfile::Infinite).is_none());
    }

    #[test]
    fn a_profile_that_ends_at_rest_never_comes_to_more() {
        let integral = RateIntegral::of(&ramp(10.0, 0.0, 10, RampShape::Linear)).expect("finite");
        assert_eq!(integral.instant(37.5), Some(5.0));
        assert_eq!(integral.instant(50.0), None);
    }

    #[test]
    fn a_pause_moves_arrivals_behind_it() {
        let steps = vec![step(2.0, 3), step(0.0, 4), step(5.0, 1)];
        let integral = RateIntegral::of(&RateProfile::Steps { steps }).expect("finite");
        assert_eq!(integral.instant(5.0), Some(2.5));
        assert_eq!(integral.instant(6.0), Some(7.0));
        assert_eq!(integral.instant(7.0), Some(7.2));
    }

    proptest! {
        #[test]
        fn the_inverse_inverts(from in 0.01..500.0_f64, to in 0.01..500.0_f64, over_s in 1_u64..100,
                               exponential: bool, area in 0.0..5_000.0_f64) {
            let shape = if exponential { RampShape::Exponential } else { RampShape::Linear };
            let integral = RateIntegral::of(&ramp(from, to, over_s, shape)).expect("finite");
            let seconds = integral.instant(area).expect("the rate stays positive");
            prop_assert!((integral.area(seconds) - area).abs() <= 1e-8 * (1.0 + area), "{}", integral.area(seconds));
        }
    }
}
