//! Texts that people and files hand in: plans, SLOs, replay files, durations, rates, length laws.
#![no_main]

use goodput_core::plan::Plan;
use goodput_core::slo::Slo;
use goodput_core::units::{parse_duration, parse_rate};
use goodput_wire::replay::Replay;
use goodput_workload::length;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(plan) = Plan::from_toml(text) {
        assert_eq!(Plan::from_toml(&plan.to_toml()).as_ref(), Ok(&plan), "a plan survives its file");
    }
    if let Ok(slo) = Slo::parse(text) {
        assert!(Slo::parse(&slo.to_string()).is_ok(), "an SLO is printed in a form that can be read");
    }
    drop(Slo::from_toml(text));
    drop(Replay::parse(text));
    drop(length::parse(text));
    drop(parse_duration(text));
    if let Ok(rate) = parse_rate(text) {
        assert!(rate > 0.0);
    }
});
