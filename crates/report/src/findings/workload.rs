//! Rules about what was sent, from the plan and from the workload's report about itself.

use super::{FindingContext, Seen};
use crate::number::{count, counted, part};
use goodput_core::plan::{Data, SIMULATED};
use serde_json::Value;

/// A count in the workload's report.
fn number(c: &FindingContext<'_>, key: &str) -> Option<u64> {
    c.workload?.get(key)?.as_u64().filter(|n| *n > 0)
}

pub(super) fn data_damaged(c: &FindingContext<'_>) -> Option<Seen> {
    let damage = c.workload?.get("damaged").filter(|damage| damage.is_object())?;
    let text = |key: &str| damage.get(key).and_then(Value::as_str).unwrap_or("unknown reason").to_owned();
    let at = |key: &str| damage.get(key).and_then(Value::as_u64).map_or_else(|| "?".into(), count);
    Some(
        Seen::new(format!(
            "the data file is damaged; the {} whole entries before the break were used",
            at("whole_before")
        ))
        .evidence(format!("byte {} (line {}): {}", at("byte"), at("line"), text("reason"))),
    )
}

pub(super) fn entries_dropped(c: &FindingContext<'_>) -> Option<Seen> {
    let dropped = c.workload?.get("dropped")?.as_object()?;
    let reasons: Vec<(&String, u64)> =
        dropped.iter().filter_map(|(reason, n)| n.as_u64().filter(|n| *n > 0).map(|n| (reason, n))).collect();
    let total: u64 = reasons.iter().map(|(_, n)| n).sum();
    let of = number(c, "entries_read").unwrap_or(total);
    (total > 0).then(|| {
        let seen = Seen::new(format!("{} entries of the data were not used", part(total, of)));
        reasons.iter().fold(seen, |seen, (reason, n)| seen.evidence(format!("{reason}: {n}")))
    })
}

pub(super) fn repeated_prompts(c: &FindingContext<'_>) -> Option<Seen> {
    let repeated = number(c, "oversampled")?;
    Some(
        Seen::new(format!(
            "{} repeat a prompt of this run because the data has too few entries: a prefix cache may answer them",
            counted(repeated, "request")
        ))
        .evidence(format!("entries in use: {}", count(number(c, "kept").unwrap_or(0)))),
    )
}

pub(super) fn lengths_missed(c: &FindingContext<'_>) -> Option<Seen> {
    let missed = number(c, "length_misses")?;
    let checked = number(c, "lengths_checked").unwrap_or(missed);
    Some(Seen::new(format!(
        "{} prompts do not have exactly the planned number of tokens",
        part(missed, checked)
    )))
}

/// The same seed gives the same prompts, which an earlier run may have left in the server's cache.
pub(super) fn simulated(c: &FindingContext<'_>) -> Option<Seen> {
    let target = &c.plan?.target;
    let profile = target.urls.first()?.strip_prefix(SIMULATED)?;
    Some(Seen::new(format!(
        "every instant is that of a model (profile {profile}); no server, no network and no client is in it"
    )))
}

pub(super) fn unsalted(c: &FindingContext<'_>) -> Option<Seen> {
    let plan = c.plan?;
    // A simulated server begins with an empty cache.
    (plan.salt.is_none() && !plan.target.is_simulated()).then(|| {
        let what = match plan.workload.data {
            Data::Random => "the same seed sends the same prompts again",
            Data::Sharegpt { .. } | Data::Jsonl { .. } => "every run sends the same prompts again",
        };
        Seen::new(format!(
            "prompts carry no salt: {what}, and a prefix cache warmed by an earlier run helps this one"
        ))
    })
}
