//! Rules about how much the figures can carry.

use super::{FindingContext, Seen};
use crate::number::count;
use goodput_core::summary::Distribution;

/// Samples beyond a percentile from which it is shown plainly.
const BEYOND_OK: f64 = 10.0;
/// Samples beyond a percentile below which it is an anecdote.
const BEYOND_WEAK: f64 = 3.0;
/// The metrics a reader looks at first.
const MAIN: [&str; 5] = ["ttft", "tpot", "itl", "chunk_gap", "e2e"];

/// The samples that a percentile needs to be shown plainly and to be shown as weak, from its name (`p99.9`).
pub(crate) fn samples_needed(percentile: &str) -> Option<(u64, u64)> {
    let percent: f64 = percentile.strip_prefix('p')?.parse().ok()?;
    // In steps of a millionth of a percent, as exact as the names are, so that 10 / (1 - 0.99) is 1,000 and not 1,001.
    let beyond = (percent.min(100.0 - percent) * 1e6).round();
    let needed = |samples: f64| (beyond > 0.0).then(|| (samples * 1e8 / beyond).ceil());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number of samples"
    )]
    let whole = |n: f64| n as u64;
    needed(BEYOND_OK).zip(needed(BEYOND_WEAK)).map(|(ok, weak)| (whole(ok), whole(weak)))
}

pub(super) fn few_samples(c: &FindingContext<'_>) -> Option<Seen> {
    let thin = |d: &Distribution| -> Vec<String> {
        let not_ok = d.percentiles.iter().filter(|(_, q)| q.value.is_some() && q.support != "ok");
        not_ok.map(|(name, q)| format!("{name} {}", q.support)).collect()
    };
    let metrics: Vec<(&str, &Distribution)> =
        MAIN.iter().filter_map(|&name| c.metric(name).map(|d| (name, d))).collect();
    let evidence: Vec<String> = metrics
        .iter()
        .map(|(name, d)| (name, d.n, thin(d)))
        .filter(|(_, _, thin)| !thin.is_empty())
        .map(|(name, n, thin)| format!("{name}: {} from {} samples", thin.join(", "), count(n)))
        .collect();
    let thinnest = metrics
        .iter()
        .flat_map(|(_, d)| d.percentiles.iter())
        .filter(|(_, q)| q.value.is_some() && q.support != "ok")
        .filter_map(|(name, _)| samples_needed(name).map(|(ok, _)| (ok, name)))
        .max()?;
    let message = format!("there are too few samples for {}, which needs {}", thinnest.1, count(thinnest.0));
    Some(evidence.into_iter().fold(Seen::new(message), Seen::evidence))
}

pub(super) fn inline_slo(c: &FindingContext<'_>) -> Option<Seen> {
    let goodput = c.summary.goodput.as_ref().filter(|goodput| goodput.inline)?;
    Some(
        Seen::new(
            "the SLO says neither window nor workload nor load, so its goodput holds for this run only",
        )
        .evidence(format!("slo {}", goodput.slo)),
    )
}

#[cfg(test)]
mod tests {
    use super::samples_needed;

    #[test]
    fn needed_samples_follow_the_rule_of_ten_and_three() {
        let cases = [
            ("p50", Some((20, 6))),
            ("p90", Some((100, 30))),
            ("p95", Some((200, 60))),
            ("p99", Some((1_000, 300))),
            ("p99.9", Some((10_000, 3_000))),
            ("p1", Some((1_000, 300))),
            ("p100", None),
            ("median", None),
        ];
        for (name, needed) in cases {
            assert_eq!(samples_needed(name), needed, "{name}");
        }
    }

    #[test]
    fn needed_samples_are_those_that_change_the_support() {
        for (name, level) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)] {
            let (ok, weak) = samples_needed(name).expect("a percentile");
            let support = |n| goodput_stats::support(n, level).name();
            assert_eq!([support(ok), support(ok - 1)], ["ok", "weak"], "{name}");
            assert_eq!([support(weak), support(weak - 1)], ["weak", "anecdote"], "{name}");
        }
    }
}
