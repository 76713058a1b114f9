//! The goodput block: request goodput, token goodput, attainment and percentile verdicts, each under its own name.

use super::marks::shown;
use crate::layout::paragraph;
use crate::number::{count, counted, figure, given, interval, optional, percent};
use goodput_core::metric::{Metric, Unit};
use goodput_core::summary::{
    Attainment, Distribution, GoodputReport, ObjectiveReport, PercentileVerdict, Summary,
};

/// Empty without an SLO.
pub(super) fn section(s: &Summary) -> String {
    let Some(g) = &s.goodput else { return String::new() };
    let inline = if g.inline { " (inline: says no window, workload or load)" } else { "" };
    let mut text = paragraph("SLO         ", &format!("{}{inline}", g.slo));
    if !g.per_objective.is_empty() {
        text += &paragraph("goodput     ", &rates(g));
        text += &paragraph("attainment  ", &attained(g));
    }
    for objective in &g.per_objective {
        text += &paragraph("            ", &objective_line(objective));
    }
    if let Some(fluidity) = s.metrics.get(Metric::Fluidity.name()).filter(|fluidity| fluidity.n > 0) {
        text += &paragraph("fluidity    ", &fluidity_line(fluidity));
    }
    for verdict in &g.verdicts {
        text += &paragraph("verdict     ", &verdict_line(verdict));
    }
    text
}

fn rates(g: &GoodputReport) -> String {
    format!("{} requests/s, {} output tok/s", optional(g.request_per_s), optional(g.token_per_s))
}

fn attained(g: &GoodputReport) -> String {
    let mut text = format!(
        "{} ({} of {} requests kept every limit, failed ones count)",
        share(&g.attainment),
        count(g.good),
        count(g.evaluated)
    );
    let beside = [
        (g.vacuous, "kept a limit that cannot apply to them"),
        (g.not_evaluable, "could not be evaluated and are in neither count"),
        (g.censored, "were cut off by the run's end and are in neither count"),
    ];
    for (n, what) in beside.iter().filter(|(n, _)| *n > 0) {
        text += &format!("; {} {what}", count(*n));
    }
    text
}

fn share(a: &Attainment) -> String {
    let percent = |share: Option<f64>| share.map_or_else(|| "-".into(), percent);
    format!("{} [{}, {}]", percent(a.value), percent(a.low), percent(a.high))
}

fn objective_line(o: &ObjectiveReport) -> String {
    let metric = Metric::from_name(&o.metric).map(Metric::def);
    let title = metric.map_or(o.metric.as_str(), |def| def.title);
    let limit = match metric.map(|def| def.unit) {
        Some(Unit::Milliseconds) => format!("<= {} ms", given(o.limit)),
        Some(Unit::Share) => format!(">= {}", given(o.limit)),
        _ => format!("<= {}", given(o.limit)),
    };
    let share = o.attainment.map_or_else(|| "-".into(), percent);
    format!("{title} {limit}: {share}, {} kept it, {} broke it", counted(o.met, "request"), count(o.broken))
}

/// The low tail is the bad one here, so the least stands beside the median.
fn fluidity_line(d: &Distribution) -> String {
    let p50 = d.percentiles.get("p50").map_or_else(|| "-".into(), shown);
    format!("p50 {p50}, least {} of a request's tokens in time, {}", optional(d.min), counted(d.n, "request"))
}

fn verdict_line(v: &PercentileVerdict) -> String {
    let Some(value) = v.value else {
        return format!(
            "{}: {} (no value: it falls on a failed request or there is no sample)",
            v.objective, v.verdict
        );
    };
    let name = v.objective.split(['.', ':']).next().unwrap_or_default();
    let unit = match Metric::from_name(name).map(|metric| metric.def().unit) {
        Some(Unit::Milliseconds) => " ms",
        _ => "",
    };
    format!("{}: {}, {} {}{unit}", v.objective, v.verdict, figure(value), interval(value, v.low, v.high))
}
