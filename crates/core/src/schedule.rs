//! The scheduled instants of one load point: what an arrival process and a seed come to.
//!
//! Computed once from the plan, before anything is sent, so that the same plan gives the same instants to the
//! nanosecond. A closed loop has no schedule: both lists are empty there.

use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// When every request of an open loop is to start, as absolute instants of the run (the run's epoch is the instant
/// at which the load begins).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Schedule {
    /// Warm-up arrivals, in order. None is later than `measured_from`.
    pub warmup: Vec<Nanos>,
    /// Measured arrivals, in order. None is earlier than `measured_from`.
    pub measured: Vec<Nanos>,
    /// Where the measured part of the arrival process begins. A duration is counted from here.
    pub measured_from: Nanos,
}

impl Schedule {
    /// Checks the order that every schedule has: both lists never go back, and `measured_from` lies between them.
    ///
    /// # Errors
    /// The name of the first rule that is broken.
    pub fn check_order(&self) -> Result<(), &'static str> {
        if !self.warmup.is_sorted() {
            Err("warm-up arrivals never go back")
        } else if !self.measured.is_sorted() {
            Err("measured arrivals never go back")
        } else if self.warmup.last().is_some_and(|last| *last > self.measured_from) {
            Err("warm-up arrivals are not later than measured_from")
        } else if self.measured.first().is_some_and(|first| *first < self.measured_from) {
            Err("measured arrivals are not earlier than measured_from")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_checked() {
        let good = Schedule {
            warmup: vec![Nanos(1), Nanos(1), Nanos(4)],
            measured: vec![Nanos(5), Nanos(5), Nanos(9)],
            measured_from: Nanos(4),
        };
        assert_eq!(good.check_order(), Ok(()));
        let late_warmup = Schedule { measured_from: Nanos(3), ..good.clone() };
        assert_eq!(late_warmup.check_order(), Err("warm-up arrivals are not later than measured_from"));
        let early_measured = Schedule { measured_from: Nanos(6), ..good.clone() };
        assert_eq!(early_measured.check_order(), Err("measured arrivals are not earlier than measured_from"));
        let back = Schedule { measured: vec![Nanos(9), Nanos(5)], ..good };
        assert_eq!(back.check_order(), Err("measured arrivals never go back"));
    }
}
