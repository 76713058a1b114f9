//! Whether the stream that was sent follows the arrival law that was asked for.
//!
//! Two tests, because one does not see what the other sees:
//! - the gaps one by one against the law at the *asked* rate (Kolmogorov-Smirnov): a client that adds a little to every
//!   gap fails here;
//! - the counts in windows ([`Dispersion`]): a stream whose gaps are each of the right law but come in the wrong order,
//!   so that it bursts or evens itself out, fails here.
//!
//! A stream of the law is called a failure with a probability of at most [`LEVEL`], which the two tests share
//! (Bonferroni). An instant of sending is known, and can be kept, to [`RESOLUTION`] only: the wake-up of a timer and the
//! writing of the request before it. With many gaps the test would find that, so gaps count as equal up to it.
//!
//! A rate that changes has no one law of its gaps in seconds, but one in expected arrivals: an instant is taken to the
//! integral of the asked rate up to it ([`RateIntegral`]), in which the process has a rate of one whatever the profile
//! (the time-rescaling theorem: Brown, Barbieri, Ventura, Kass and Frank, Neural Computation 14, 2002). A steady rate is
//! the case in which that is a change of unit. A closed loop has no law.
//!
//! Constant gaps have no law to test by: their coefficient of variation and the dispersion of their counts are bounded.
//! A cap of an open loop is no part of the law. Where it held requests back, what was sent is what the cap let through;
//! the verdict is on that, and the reasons name the cap. A steady window is a contiguous part of the stream, to which
//! the law applies as to the whole.

use crate::facts::Fact;
use crate::load_check::{ENOUGH, LATE_MS, LoadContext};
use crate::plan::GapLaw;
use crate::rate::RateIntegral;
use crate::summary::GapCheck;
use crate::time::Nanos;
use goodput_stats::Dispersion;
use goodput_stats::gof::{
    KsTest, coefficient_of_variation, exponential_cdf, gamma_cdf, kolmogorov_smirnov_within,
};

/// Streams of the law are called failures at most once in a thousand runs.
const LEVEL: f64 = 0.001;
/// What each of the two tests may spend of it.
const EACH: f64 = LEVEL / 2.0;
/// Gaps are equal up to this: a timer's wake-up and the writing of a request.
const RESOLUTION: Nanos = Nanos(50_000);
/// Largest coefficient of variation that still counts as constant gaps, at a rate where [`RESOLUTION`] does not matter.
const CONSTANT_CV: f64 = 0.1;

/// The asked rate over time, and where on the run's clock it begins.
#[derive(Debug, Clone)]
pub(crate) struct AskedRate {
    /// Expected arrivals.
    pub(crate) integral: RateIntegral,
    /// The instant from which the profile counts.
    pub(crate) from: Nanos,
}

impl AskedRate {
    /// Instants in expected arrivals, and what [`RESOLUTION`] is there at the rate that the average arrival has.
    fn rescale(&self, sent: &[Nanos]) -> (Vec<f64>, f64) {
        let areas: Vec<f64> =
            sent.iter().map(|at| self.integral.area(at.since(self.from).as_secs_f64())).collect();
        let rates = areas.windows(2).zip(sent.windows(2)).filter_map(|(area, at)| {
            let seconds = at[1].since(at[0]).as_secs_f64();
            (seconds > 0.0).then(|| (area[1] - area[0]) / seconds)
        });
        let (sum, n) = rates.fold((0.0, 0_u32), |(sum, n), rate| (sum + rate, n + 1));
        (areas, RESOLUTION.as_secs_f64() * sum / f64::from(n.max(1)))
    }
}

/// The check of requests that were sent at `sent` (ascending); `None` where the load has no law or no rate.
pub(crate) fn gap_check(
    facts: &[&Fact],
    sent: &[Nanos],
    load: &LoadContext,
    asked: Option<&AskedRate>,
) -> Option<GapCheck> {
    let (law, asked) = load.law.zip(asked)?;
    let (name, asked_cv) = match law {
        GapLaw::Constant => ("constant", 0.0),
        GapLaw::Poisson => ("poisson", 1.0),
        GapLaw::Gamma { burstiness } => ("gamma", burstiness.sqrt().recip()),
        GapLaw::GammaRescaled { burstiness } => ("gamma, rescaled", burstiness.sqrt().recip()),
    };
    if !asked_cv.is_finite() {
        return None;
    }
    let (arrivals, resolution) = asked.rescale(sent);
    let mut gaps: Vec<f64> = arrivals.windows(2).map(|w| w[1] - w[0]).collect();
    let cv = coefficient_of_variation(&gaps)?;
    gaps.sort_by(f64::total_cmp);
    let ks = against_law(&gaps, law, resolution);
    let largest_cv = CONSTANT_CV + resolution;
    let dispersion = match law {
        GapLaw::Constant => Dispersion::of_constant(&arrivals, largest_cv),
        _ => Dispersion::of_renewal(&arrivals, asked_cv * asked_cv, EACH),
    };
    let broken = [
        ks.and_then(off_the_law),
        (law == GapLaw::Constant && cv > largest_cv).then(|| uneven(cv, largest_cv)),
        dispersion.as_ref().and_then(clusters),
    ];
    let reasons: Vec<String> = broken.into_iter().flatten().collect();
    let (verdict, reasons) = match (gaps.len() < ENOUGH, reasons.is_empty()) {
        (true, _) => ("too_few", Vec::new()),
        (false, true) => ("pass", reasons),
        (false, false) => ("fail", with_cap(reasons, facts, load)),
    };
    Some(GapCheck {
        law: name.into(),
        cv,
        asked_cv,
        ks: ks.map(|ks| ks.statistic),
        ks_p: ks.map(|ks| ks.p_value),
        resolution_ms: RESOLUTION.as_millis_f64(),
        dispersion: dispersion.map(|d| d.index),
        dispersion_low: dispersion.map(|d| d.low),
        dispersion_high: dispersion.map(|d| d.high),
        dispersion_windows: dispersion.map(|d| d.windows as u64),
        verdict: verdict.into(),
        reasons,
    })
}

/// The test of sorted gaps of mean one against a law that has a distribution to test by.
fn against_law(gaps: &[f64], law: GapLaw, resolution: f64) -> Option<KsTest> {
    match law {
        GapLaw::Constant => None,
        GapLaw::Poisson => kolmogorov_smirnov_within(gaps, exponential_cdf(1.0)?, resolution),
        GapLaw::Gamma { burstiness } | GapLaw::GammaRescaled { burstiness } => {
            kolmogorov_smirnov_within(gaps, gamma_cdf(burstiness, 1.0)?, resolution)
        }
    }
}

fn off_the_law(ks: KsTest) -> Option<String> {
    let KsTest { statistic, p_value } = ks;
    let p = if p_value < 1e-15 { "p < 1e-15".to_owned() } else { format!("p = {p_value:.1e}") };
    (p_value < EACH)
        .then(|| format!("the gaps are off the law by {statistic:.4} (Kolmogorov-Smirnov), which has {p}"))
}

fn uneven(cv: f64, largest: f64) -> String {
    format!("the coefficient of variation of the gaps is {cv:.3}, over {largest:.3}")
}

fn clusters(dispersion: &Dispersion) -> Option<String> {
    let Dispersion { index, windows, low, high } = *dispersion;
    let what = if index > high { "cluster" } else { "even themselves out" };
    (!dispersion.is_within()).then(|| {
        format!("arrivals {what}: their dispersion over {windows} windows is {index:.3}, outside of {low:.3} to {high:.3}")
    })
}

/// Names the cap as well, if it held requests back.
fn with_cap(mut reasons: Vec<String>, facts: &[&Fact], load: &LoadContext) -> Vec<String> {
    let held = |f: &&&Fact| f.scheduled.is_some_and(|due| f.released.since(due).as_millis_f64() > LATE_MS);
    let held_back = facts.iter().filter(held).count();
    if let Some(cap) = load.concurrency.filter(|_| held_back > 0) {
        reasons.push(format!("the cap of {cap} held {held_back} of {} requests back", facts.len()));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_check::LoadKind;
    use crate::plan::{Protocol, RampShape, RateProfile};
    use crate::rng::Seed;

    fn load(law: GapLaw, rate: f64) -> LoadContext {
        LoadContext {
            kind: LoadKind::Open,
            protocol: Protocol::OpenaiChat,
            asked_rps: Some(rate),
            law: Some(law),
            concurrency: None,
            offering_began: None,
        }
    }

    /// `n` gaps in seconds of a law with mean 1/rate.
    fn gaps(law: GapLaw, rate: f64, n: u64, seed: u64) -> Vec<f64> {
        let draws = Seed(seed).stream("gap-check");
        let gap = |i| match law {
            GapLaw::Constant => 1.0,
            GapLaw::Poisson => draws.at(i).exponential(),
            GapLaw::Gamma { burstiness } | GapLaw::GammaRescaled { burstiness } => {
                draws.at(i).gamma(burstiness)
            }
        };
        (0..n).map(|i| gap(i) / rate).collect()
    }

    fn instants(gaps: &[f64]) -> Vec<Nanos> {
        let mut at = 1.0;
        let step = |gap: &f64| {
            at += gap;
            Nanos::from_secs_f64(at)
        };
        gaps.iter().map(step).collect()
    }

    fn asked(rate: &RateProfile, from: Nanos) -> AskedRate {
        AskedRate { integral: RateIntegral::of(rate).expect("finite"), from }
    }

    fn steady(rate: f64) -> AskedRate {
        asked(&RateProfile::Steady { rate }, Nanos::ZERO)
    }

    fn check(gaps: &[f64], law: GapLaw, rate: f64) -> GapCheck {
        gap_check(&[], &instants(gaps), &load(law, rate), Some(&steady(rate))).expect("a steady law")
    }

    #[test]
    fn streams_of_the_law_pass() {
        for law in [GapLaw::Poisson, GapLaw::Gamma { burstiness: 0.3 }, GapLaw::Gamma { burstiness: 3.0 }] {
            for seed in 0..40 {
                let found = check(&gaps(law, 100.0, 1_000, seed), law, 100.0);
                assert_eq!(found.verdict, "pass", "{seed}: {found:?}");
            }
            let long = check(&gaps(law, 100.0, 15_000, 1), law, 100.0);
            let squared = Some(long.asked_cv.powi(2));
            assert!(long.dispersion_low < squared && squared < long.dispersion_high, "{long:?}");
            assert!(long.dispersion_windows > Some(100), "{long:?}");
        }
    }

    #[test]
    fn a_timer_of_a_few_tens_of_microseconds_passes_at_two_thousand_a_second() {
        // Each request leaves at the next of the timer's ticks, and takes the client 10 us to write.
        let due = instants(&gaps(GapLaw::Poisson, 2_000.0, 40_000, 3));
        let mut free = Nanos::ZERO;
        let sent: Vec<Nanos> = due
            .iter()
            .map(|at| {
                let at = Nanos(at.0.next_multiple_of(30_000)).max(free);
                free = at + Nanos(10_000);
                at
            })
            .collect();
        let found = gap_check(&[], &sent, &load(GapLaw::Poisson, 2_000.0), Some(&steady(2_000.0)))
            .expect("a steady law");
        assert_eq!(found.verdict, "pass", "{found:?}");
        assert!(found.reasons.is_empty());
    }

    #[test]
    fn a_millisecond_added_to_every_gap_fails_at_any_rate() {
        for (rate, n) in [(2_000.0, 2_000), (400.0, 2_000), (50.0, 10_000)] {
            let slow: Vec<f64> = gaps(GapLaw::Poisson, rate, n, 4).iter().map(|gap| gap + 0.001).collect();
            let found = check(&slow, GapLaw::Poisson, rate);
            assert_eq!(found.verdict, "fail", "{rate}/s: {found:?}");
            assert!(found.reasons[0].contains("Kolmogorov-Smirnov"), "{found:?}");
        }
    }

    #[test]
    fn another_rate_fails() {
        assert_eq!(check(&gaps(GapLaw::Poisson, 100.0, 2_000, 5), GapLaw::Poisson, 120.0).verdict, "fail");
    }

    /// The gaps themselves are untouched, so that the test of each by itself cannot see it.
    #[test]
    fn the_right_gaps_in_the_wrong_order_fail() {
        let right = gaps(GapLaw::Poisson, 100.0, 4_000, 6);
        assert_eq!(check(&right, GapLaw::Poisson, 100.0).verdict, "pass");
        let mut bursts = right.clone();
        bursts.chunks_mut(200).for_each(|part| part.sort_by(f64::total_cmp));
        let mut even = right.clone();
        even.sort_by(f64::total_cmp);
        // A long gap follows each short one: the shortest and the longest make a pair, and so on, pairs in no order.
        let pairs = (0..2_000).map(|i| i * 787 % 2_000);
        let even: Vec<f64> = pairs.flat_map(|i| [even[i], even[3_999 - i]]).collect();
        for (wrong, words) in [(bursts, "arrivals cluster"), (even, "even themselves out")] {
            let found = check(&wrong, GapLaw::Poisson, 100.0);
            assert!(found.ks_p > Some(0.5), "{found:?}");
            assert_eq!((found.verdict.as_str(), found.reasons.len()), ("fail", 1), "{found:?}");
            assert!(found.reasons[0].contains(words), "{found:?}");
        }
    }

    #[test]
    fn constant_gaps_may_not_drift() {
        let even = check(&[0.01; 1_000], GapLaw::Constant, 100.0);
        assert_eq!((even.verdict.as_str(), even.ks), ("pass", None), "{even:?}");
        let drift: Vec<f64> = (0..1_000).map(|i| if i < 500 { 0.009_2 } else { 0.010_8 }).collect();
        let found = check(&drift, GapLaw::Constant, 100.0);
        assert!(found.cv < CONSTANT_CV && found.verdict == "fail", "{found:?}");
        let uneven: Vec<f64> = (0..1_000).map(|i| if i % 2 == 0 { 0.008 } else { 0.012 }).collect();
        let found = check(&uneven, GapLaw::Constant, 100.0);
        assert!(found.reasons[0].contains("coefficient of variation"), "{found:?}");
    }

    #[test]
    fn a_cap_that_held_requests_back_is_named_where_the_law_is_broken() {
        let context = LoadContext { concurrency: Some(8), ..load(GapLaw::Poisson, 100.0) };
        let due = instants(&gaps(GapLaw::Poisson, 100.0, 500, 7));
        let facts = |released: &dyn Fn(usize) -> Nanos| -> Vec<Fact> {
            let fact = |(i, at): (usize, &Nanos)| Fact {
                scheduled: Some(*at),
                released: released(i),
                sent: Some(released(i)),
                connecting: Nanos::ZERO,
                reused: true,
                start: *at,
                end: *at,
                e2e_end: None,
                settle_ms: None,
                success: true,
                client_fault: false,
                output_tokens: 1,
                input_tokens: 1,
            };
            due.iter().enumerate().map(fact).collect()
        };
        // The cap lets one go every 12 ms.
        let held = facts(&|i| due[i].max(Nanos::from_secs(1) + Nanos::from_millis(12 * i as u64)));
        let sent: Vec<Nanos> = held.iter().filter_map(|f| f.sent).collect();
        let held: Vec<&Fact> = held.iter().collect();
        let found = gap_check(&held, &sent, &context, Some(&steady(100.0))).expect("a steady law");
        assert_eq!(found.verdict, "fail");
        assert!(found.reasons.last().expect("reasons").starts_with("the cap of 8 held "), "{found:?}");
        // A cap that held nothing back changes nothing.
        let free = facts(&|i| due[i]);
        let free: Vec<&Fact> = free.iter().collect();
        assert_eq!(
            gap_check(&free, &due, &context, Some(&steady(100.0))).expect("a steady law").verdict,
            "pass"
        );
    }

    #[test]
    fn a_changing_rate_is_held_against_its_own_profile() {
        // From 10/s to 190/s in 20 s: 2,000 arrivals, drawn by the inverse of the integral.
        let over = Nanos::from_secs(20);
        let ramp = RateProfile::Ramp { from: 10.0, to: 190.0, over, shape: RampShape::Linear };
        let from = Nanos::from_secs(3);
        let asked_ramp = asked(&ramp, from);
        let mut area = 0.0;
        let sent: Vec<Nanos> = gaps(GapLaw::Poisson, 1.0, 1_990, 9)
            .iter()
            .filter_map(|gap| {
                area += gap;
                asked_ramp.integral.instant(area)
            })
            .map(|seconds| from + Nanos::from_secs_f64(seconds))
            .collect();
        let context = LoadContext { asked_rps: None, ..load(GapLaw::Poisson, 100.0) };
        let verdict =
            |asked: &AskedRate| gap_check(&[], &sent, &context, Some(asked)).expect("a law").verdict;
        assert_eq!(verdict(&asked_ramp), "pass");
        assert_eq!(verdict(&steady(100.0)), "fail", "the same number of arrivals, but not steady");
    }

    #[test]
    fn few_gaps_and_loads_without_a_law() {
        let few = check(&gaps(GapLaw::Poisson, 100.0, 15, 8), GapLaw::Poisson, 300.0);
        assert_eq!((few.verdict.as_str(), few.reasons.len()), ("too_few", 0), "{few:?}");
        let at_once = LoadContext { asked_rps: None, law: None, ..load(GapLaw::Poisson, 100.0) };
        assert_eq!(gap_check(&[], &instants(&[0.01; 50]), &at_once, None), None);
    }
}
