use super::*;
use crate::testing::plan;
use goodput_core::plan::{Load, RateStep};
use proptest::prelude::*;

const LAWS: [GapLaw; 4] =
    [GapLaw::Constant, GapLaw::Poisson, GapLaw::Gamma { burstiness: 0.4 }, GapLaw::Gamma { burstiness: 5.0 }];

fn open(law: GapLaw, rate: RateProfile, requests: Option<u64>, duration_s: Option<u64>) -> Plan {
    let mut plan = plan();
    plan.load = Load { arrivals: Some(Arrivals { law, rate }), concurrency: None };
    plan.stop.requests = requests;
    plan.stop.duration = duration_s.map(Nanos::from_secs);
    plan
}

fn steady(law: GapLaw, rate: f64, requests: u64) -> Plan {
    open(law, RateProfile::Steady { rate }, Some(requests), None)
}

fn gaps_s(instants: &[Nanos]) -> Vec<f64> {
    instants.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect()
}

fn mean_and_cv(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt() / mean)
}

/// Kolmogorov's distance of gaps, already divided by their mean, from the exponential law.
fn distance_from_exponential(gaps: &[f64]) -> f64 {
    let mut sorted = gaps.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let steps = sorted.iter().enumerate().map(|(rank, gap)| {
        let law = 1.0 - (-gap).exp();
        (law - rank as f64 / n).abs().max((law - (rank as f64 + 1.0) / n).abs())
    });
    steps.fold(0.0, f64::max)
}

#[test]
fn constant_arrivals_are_a_lattice_from_the_start() {
    let found =
        schedule(&open(GapLaw::Constant, RateProfile::Steady { rate: 4.0 }, None, Some(2))).expect("ok");
    let lattice: Vec<Nanos> = (0..8).map(|i| Nanos::from_millis(250 * i)).collect();
    assert_eq!(found.measured, lattice);
}

#[test]
fn a_closed_loop_has_no_schedule() {
    assert_eq!(schedule(&plan()), Ok(Schedule::default()));
}

#[test]
fn everything_at_once_is_at_the_start() {
    let mut plan = open(GapLaw::Poisson, RateProfile::Infinite, Some(3), None);
    plan.warmup = Warmup::Requests(2);
    let found = schedule(&plan).expect("ok");
    assert_eq!((found.warmup, found.measured), (vec![Nanos::ZERO; 2], vec![Nanos::ZERO; 3]));
}

#[test]
fn first_random_arrival_comes_after_one_gap() {
    let first: Vec<f64> = (0..4_000)
        .map(|seed| {
            let mut plan = steady(GapLaw::Poisson, 10.0, 1);
            plan.seed = Seed(seed);
            schedule(&plan).expect("ok").measured[0].as_secs_f64()
        })
        .collect();
    let (mean, cv) = mean_and_cv(&first);
    assert!((mean - 0.1).abs() < 0.006 && (cv - 1.0).abs() < 0.06, "{mean} {cv}");
}

/// With n = 20,000 the 0.1 % point of Kolmogorov's distance is 1.95 / sqrt(n).
#[test]
fn poisson_gaps_are_exponential_and_counts_disperse_like_it() {
    let n = 20_000;
    let found = schedule(&steady(GapLaw::Poisson, 50.0, n)).expect("ok").measured;
    let gaps: Vec<f64> = gaps_s(&found).iter().map(|gap| gap * 50.0).collect();
    let distance = distance_from_exponential(&gaps);
    assert!(distance < 1.95 / (n as f64).sqrt(), "{distance}");

    // Counts in 400 one-second windows: variance over mean is 1, with a standard error of sqrt(2 / 400).
    let mut counts = vec![0.0; 390];
    for at in &found {
        if let Some(count) = counts.get_mut(usize::try_from(at.0 / 1_000_000_000).expect("small")) {
            *count += 1.0;
        }
    }
    let (mean, cv) = mean_and_cv(&counts);
    let dispersion = cv * cv * mean;
    assert!((dispersion - 1.0).abs() < 4.0 * (2.0_f64 / 390.0).sqrt(), "{dispersion}");
}

#[test]
fn gamma_gaps_have_the_cv_of_their_burstiness() {
    for burstiness in [0.25, 1.0, 4.0, 100.0] {
        let found = schedule(&steady(GapLaw::Gamma { burstiness }, 20.0, 30_000)).expect("ok").measured;
        let (mean, cv) = mean_and_cv(&gaps_s(&found));
        let expected = 1.0 / burstiness.sqrt();
        assert!((cv / expected - 1.0).abs() < 0.06, "{burstiness}: {cv} instead of {expected}");
        assert!((mean * 20.0 - 1.0).abs() < 0.05 * expected.max(0.2), "{burstiness}: {mean}");
    }
}

#[test]
fn only_the_rescaled_law_ends_on_n_over_rate() {
    for seed in 0..20 {
        let mut rescaled = steady(GapLaw::GammaRescaled { burstiness: 1.0 }, 8.0, 100);
        rescaled.seed = Seed(seed);
        let plain =
            Plan { load: steady(GapLaw::Gamma { burstiness: 1.0 }, 8.0, 100).load, ..rescaled.clone() };
        let (rescaled, plain) = (schedule(&rescaled).expect("ok"), schedule(&plain).expect("ok"));
        assert_eq!(rescaled.measured.last(), Some(&Nanos::from_millis(12_500)));
        assert_ne!(plain.measured.last(), Some(&Nanos::from_millis(12_500)));
        // The same gaps, stretched by one factor; and the first request is delayed by its own gap.
        let stretch = |s: &Schedule| s.measured[50].as_secs_f64() / s.measured[0].as_secs_f64();
        assert!((stretch(&rescaled) / stretch(&plain) - 1.0).abs() < 1e-6);
        assert!(rescaled.measured[0] > Nanos::ZERO);
    }
}

#[test]
fn a_ramp_offers_its_area() {
    // 0 to 200 per second in 60 s: 6,000 expected, standard deviation 77 for a Poisson process.
    let ramp =
        RateProfile::Ramp { from: 0.0, to: 200.0, over: Nanos::from_secs(60), shape: RampShape::Linear };
    assert_eq!(expected_arrivals(&ramp, Nanos::from_secs(60)), Some(6_000.0));
    let poisson = schedule(&open(GapLaw::Poisson, ramp.clone(), None, Some(60))).expect("ok").measured;
    assert!((poisson.len() as f64 - 6_000.0).abs() < 4.0 * 77.5, "{}", poisson.len());
    let half = poisson.iter().filter(|at| **at < Nanos::from_secs(30)).count();
    assert!((half as f64 - 1_500.0).abs() < 4.0 * 38.7, "{half}");
    // The time change leaves the law alone: areas between arrivals are exponential with mean one.
    let areas: Vec<f64> = poisson.iter().map(|at| at.as_secs_f64().powi(2) * 200.0 / 120.0).collect();
    let between: Vec<f64> = areas.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(distance_from_exponential(&between) < 1.95 / (between.len() as f64).sqrt());

    let constant = schedule(&open(GapLaw::Constant, ramp, None, Some(60))).expect("ok").measured;
    assert_eq!(constant.len(), 6_000);
}

#[test]
fn steps_hold_their_rates_and_pauses_are_empty() {
    let steps =
        [(10.0, 5), (0.0, 5), (40.0, 5)].map(|(rate, s)| RateStep { rate, lasts: Nanos::from_secs(s) });
    let profile = RateProfile::Steps { steps: steps.to_vec() };
    let found = schedule(&open(GapLaw::Constant, profile, None, Some(20))).expect("ok").measured;
    let count = |from: u64, to: u64| {
        found.iter().filter(|at| (Nanos::from_secs(from)..Nanos::from_secs(to)).contains(at)).count()
    };
    assert_eq!([count(0, 5), count(5, 10), count(10, 15), count(15, 20)], [50, 0, 200, 200]);
}

#[test]
fn a_warm_up_by_number_hands_over_without_a_hole() {
    let mut plan = steady(GapLaw::Constant, 10.0, 5);
    plan.warmup = Warmup::Requests(3);
    let found = schedule(&plan).expect("ok");
    assert_eq!(found.warmup, [0, 100, 200].map(Nanos::from_millis));
    assert_eq!(found.measured, [300, 400, 500, 600, 700].map(Nanos::from_millis));
    assert_eq!(found.measured_from, Nanos::from_millis(300));
}

#[test]
fn a_warm_up_by_time_runs_at_the_first_rate() {
    let steps = [(100.0, 1), (1.0, 1)].map(|(rate, s)| RateStep { rate, lasts: Nanos::from_secs(s) });
    let mut plan = open(GapLaw::Poisson, RateProfile::Steps { steps: steps.to_vec() }, Some(10), None);
    plan.warmup = Warmup::Duration(Nanos::from_secs(20));
    let found = schedule(&plan).expect("ok");
    assert!((found.warmup.len() as f64 - 2_000.0).abs() < 4.0 * 45.0, "{}", found.warmup.len());
    assert_eq!(found.measured_from, Nanos::from_secs(20));
}

#[test]
fn what_cannot_be_scheduled_is_refused_with_the_way_out() {
    let steady = |rate| RateProfile::Steady { rate };
    let ramp = |from, to, shape| RateProfile::Ramp { from, to, over: Nanos::from_secs(1), shape };
    let gamma = |burstiness| GapLaw::Gamma { burstiness };
    let cases = [
        (open(GapLaw::Poisson, steady(1.0), None, None), "needs an end"),
        (open(GapLaw::Poisson, RateProfile::Infinite, None, Some(1)), "number of requests"),
        (open(GapLaw::Poisson, steady(0.0), Some(1), None), "more than zero"),
        (open(GapLaw::Poisson, steady(f64::NAN), Some(1), None), "more than zero"),
        (open(GapLaw::Poisson, steady(-2.0), Some(1), None), "-2 is not a rate"),
        (open(GapLaw::Poisson, ramp(0.0, 5.0, RampShape::Exponential), Some(1), None), "more than zero"),
        (open(GapLaw::Poisson, ramp(-1.0, 5.0, RampShape::Linear), Some(1), None), "zero or more"),
        (open(GapLaw::Poisson, ramp(0.0, 0.0, RampShape::Linear), Some(1), None), "zero all along"),
        (open(GapLaw::Poisson, RateProfile::Steps { steps: vec![] }, Some(1), None), "zero all along"),
        (open(gamma(0.0), steady(1.0), Some(1), None), "0 is not a burstiness"),
        (open(gamma(f64::INFINITY), steady(1.0), Some(1), None), "use the constant law"),
        (open(GapLaw::GammaRescaled { burstiness: 1.0 }, steady(1.0), None, Some(9)), "rescaled"),
        (
            Plan {
                warmup: Warmup::Requests(1),
                ..open(GapLaw::Poisson, ramp(0.0, 1.0, RampShape::Linear), Some(1), None)
            },
            "which is zero",
        ),
        (
            Plan {
                warmup: Warmup::Duration(Nanos(1)),
                ..open(GapLaw::Poisson, RateProfile::Infinite, Some(1), None)
            },
            "give the warm-up as a number",
        ),
    ];
    for (plan, part) in cases {
        let message = schedule(&plan).expect_err("not a schedule").to_string();
        assert!(message.contains(part), "{message}");
    }
}

/// A stored seed must mean the same run for ever.
#[test]
fn first_arrivals_are_pinned() {
    let first =
        |law| schedule(&steady(law, 1.0, 3)).expect("ok").measured.iter().map(|at| at.0).collect::<Vec<_>>();
    assert_eq!(first(GapLaw::Poisson), PINNED_POISSON);
    assert_eq!(first(GapLaw::Gamma { burstiness: 0.5 }), PINNED_GAMMA);
}
const PINNED_POISSON: [u64; 3] = [598_851_376, 2_438_143_630, 2_491_279_178];
const PINNED_GAMMA: [u64; 3] = [1_146_714_082, 1_223_246_505, 6_004_634_083];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn schedules_are_functions_of_the_seed_and_prefixes_of_each_other(
        seed: u64, law in 0..LAWS.len(), rate in 0.1..1_000.0_f64, n in 1_u64..200, more in 1_u64..200,
        warm in 0_u64..30,
    ) {
        let mut short = steady(LAWS[law], rate, n);
        short.seed = Seed(seed);
        short.warmup = Warmup::Requests(warm);
        let mut long = short.clone();
        long.stop.requests = Some(n + more);
        let (a, b) = (schedule(&short).unwrap(), schedule(&long).unwrap());
        prop_assert_eq!(&a, &schedule(&short).unwrap());
        prop_assert_eq!(a.check_order(), Ok(()));
        prop_assert_eq!(a.measured.len() as u64, n);
        prop_assert_eq!(a.warmup.len() as u64, warm);
        prop_assert_eq!(&a.measured[..], &b.measured[..a.measured.len()]);

        // The warm-up shifts the measured set and changes nothing in it.
        let cold = schedule(&Plan { warmup: Warmup::None, ..short.clone() }).unwrap();
        let shifted: Vec<Nanos> = cold.measured.iter().map(|at| a.measured_from + *at).collect();
        prop_assert_eq!(&a.measured, &shifted);

        // The iterator says the same as the list.
        let arrivals = short.load.arrivals.as_ref().unwrap();
        let one_by_one: Vec<Nanos> =
            Measured::new(short.seed, arrivals, short.stop, a.measured_from).unwrap().collect();
        prop_assert_eq!(&one_by_one, &a.measured);
    }

    #[test]
    fn a_duration_is_half_open(seed: u64, law in 0..LAWS.len(), duration_s in 1_u64..20) {
        let mut plan = open(LAWS[law], RateProfile::Steady { rate: 20.0 }, None, Some(duration_s));
        plan.seed = Seed(seed);
        plan.warmup = Warmup::Duration(Nanos::from_secs(1));
        let found = schedule(&plan).unwrap();
        let end = found.measured_from + Nanos::from_secs(duration_s);
        prop_assert!(found.measured.iter().all(|at| *at < end));
        let arrivals = plan.load.arrivals.as_ref().unwrap();
        let endless = goodput_core::plan::Stop { duration: None, ..plan.stop };
        let next = Measured::new(plan.seed, arrivals, endless, found.measured_from)
            .unwrap().nth(found.measured.len());
        prop_assert!(next.unwrap() >= end);
    }
}
