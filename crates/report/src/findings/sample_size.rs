//! Rules about how much the figures can carry.

use super::{FindingContext, Seen};
use crate::number::count;
use goodput_core::summary::Distribution;
use goodput_stats::{Support, support};

/// The metrics a reader looks at first.
const MAIN: [&str; 5] = ["ttft", "tpot", "itl", "chunk_gap", "e2e"];

/// The samples that a percentile needs to be shown plainly and to be shown as weak, from its name (`p99.9`).
pub(crate) fn samples_needed(percentile: &str) -> Option<(u64, u64)> {
    let percent: f64 = percentile.strip_prefix('p')?.parse().ok()?;
    let level = Some(percent / 100.0).filter(|level| 0.0 < *level && *level < 1.0)?;
    Some((least_samples(level, Support::Ok), least_samples(level, Support::Weak)))
}

/// The least number of samples that carries a percentile so well: found by halving, so that the rule stays where it is.
fn least_samples(level: f64, wanted: Support) -> u64 {
    let enough = |n: u64| support(n, level) >= wanted;
    let (mut less, mut enough_at) = (0, 1_u64);
    while !enough(enough_at) {
        (less, enough_at) = (enough_at, enough_at.saturating_mul(2));
    }
    while enough_at - less > 1 {
        let middle = less + (enough_at - less) / 2;
        if enough(middle) { enough_at = middle } else { less = middle }
    }
    enough_at
}

/// The marks in the report say which figures are thin; here is what the most demanding of them needs.
pub(super) fn few_samples(c: &FindingContext<'_>) -> Option<Seen> {
    let thin = |d: &Distribution| -> Option<(u64, String)> {
        let thin = d.percentiles.iter().filter(|(_, q)| q.value.is_some() && q.support != "ok");
        thin.filter_map(|(name, _)| samples_needed(name).map(|(ok, _)| (ok, name.clone()))).max()
    };
    let metrics: Vec<(&str, u64, (u64, String))> =
        MAIN.iter().filter_map(|&name| c.metric(name).and_then(|d| Some((name, d.n, thin(d)?)))).collect();
    let (needed, percentile) = metrics.iter().map(|(_, _, thin)| thin).max()?;
    let seen =
        Seen::new(format!("there are too few samples for {percentile}, which needs {}", count(*needed)));
    Some(metrics.iter().fold(seen, |seen, (name, n, _)| seen.evidence(format!("{name} has {}", count(*n)))))
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
}
