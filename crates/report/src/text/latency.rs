//! The table of latencies and the line on stalls.

use super::marks::{legend, shown};
use crate::layout::{WIDTH, paragraph, table, table_width};
use crate::number::{count, counted, figure, given, interval, optional};
use goodput_core::metric::Metric;
use goodput_core::summary::{Distribution, Quantile, Summary};

/// Titles longer than this would push the percentiles off the page; such a row has the metric's name instead.
const TITLE_MAX: usize = 14;

/// The rows every report has.
const MAIN: [Metric; 5] = [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::ChunkGap, Metric::E2e];
/// Differences and waits up to this are not worth a row, in milliseconds.
const WORTH_A_ROW_MS: f64 = 1.0;

/// The value with its mark and interval.
fn shown_with_interval(q: &Quantile) -> String {
    match q.value {
        Some(value) if q.support != "anecdote" => format!("{} {}", shown(q), interval(value, q.low, q.high)),
        _ => shown(q),
    }
}

/// Names of a distribution's percentiles in ascending order of level (`p5` before `p50`, `p99` before `p99.9`).
fn percentile_names(s: &Summary) -> Vec<String> {
    let mut names: Vec<(f64, String)> = s
        .metrics
        .values()
        .flat_map(|d| d.percentiles.keys())
        .filter_map(|name| Some((name.strip_prefix('p')?.parse().ok()?, name.clone())))
        .collect();
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    names.dedup();
    names.into_iter().map(|(_, name)| name).collect()
}

/// The rows: the main ones, and those that tell something the main ones do not.
fn rows(s: &Summary) -> Vec<(&'static str, &Distribution)> {
    let get = |metric: Metric| s.metrics.get(metric.name());
    let mut rows = Vec::new();
    for metric in MAIN {
        rows.extend(get(metric).map(|d| (title(metric), d)));
        let beside: &[Metric] = match metric {
            Metric::Ttft => &[Metric::TtftSent, Metric::Ttfa],
            Metric::E2e => &[Metric::E2eCensored],
            _ => &[],
        };
        let differs = |other: &Distribution| get(metric).is_some_and(|d| tail_gap(d, other) > WORTH_A_ROW_MS);
        rows.extend(
            beside
                .iter()
                .filter_map(|&m| get(m).map(|d| (m, d)))
                .filter(|(m, d)| *m == Metric::E2eCensored || differs(d))
                .map(|(m, d)| (title(m), d)),
        );
    }
    // Without a cap nothing waits for a slot; what is left is the client's own lateness, which has its line already.
    let capped = s.load.concurrency.is_some();
    let waits: &[Metric] =
        if capped { &[Metric::ClientQueue, Metric::CapWait] } else { &[Metric::ClientQueue] };
    for &metric in waits {
        rows.extend(
            get(metric).filter(|d| tail(d).is_some_and(|ms| ms > WORTH_A_ROW_MS)).map(|d| (title(metric), d)),
        );
    }
    rows
}

fn title(metric: Metric) -> &'static str {
    let def = metric.def();
    if def.title.len() > TITLE_MAX { def.name } else { def.title }
}

/// The p99, else the maximum where p99 was not asked for.
fn tail(d: &Distribution) -> Option<f64> {
    d.percentiles.get("p99").map_or(d.max, |q| q.value)
}

fn tail_gap(a: &Distribution, b: &Distribution) -> f64 {
    tail(a).zip(tail(b)).map_or(0.0, |(a, b)| (a - b).abs())
}

/// Table, stalls and marks.
pub(super) fn section(s: &Summary) -> String {
    let names = percentile_names(s);
    let rows = rows(s);
    let mut text = tables(&rows, &names).join("\n");
    text += &stalls(s);
    text += &legend(&rows, &names);
    text
}

/// One table, or several with fewer percentiles each where one would be too wide.
fn tables(rows: &[(&str, &Distribution)], names: &[String]) -> Vec<String> {
    let most = names.len().max(1);
    let cut = |per_table: usize| -> Vec<Vec<Vec<String>>> {
        let groups: Vec<&[String]> = names.chunks(per_table).collect();
        let last = groups.len().saturating_sub(1);
        groups.iter().enumerate().map(|(i, group)| one_table(rows, group, i == last)).collect()
    };
    let fits = |tables: &Vec<Vec<Vec<String>>>| tables.iter().all(|table| table_width(table) <= WIDTH);
    let chosen = (1..=most).rev().map(cut).find(fits).unwrap_or_else(|| cut(1));
    chosen.iter().map(|rows| table(rows)).collect()
}

fn one_table(rows: &[(&str, &Distribution)], names: &[String], with_max: bool) -> Vec<Vec<String>> {
    let mut head = vec!["latency, ms".to_owned(), "n".to_owned()];
    head.extend(names.iter().cloned());
    if with_max {
        head.push("max".into());
    }
    let body = rows.iter().map(|(title, d)| {
        let mut row = vec![(*title).to_owned(), count(d.n)];
        row.extend(
            names
                .iter()
                .map(|name| d.percentiles.get(name).map_or_else(|| "-".to_owned(), shown_with_interval)),
        );
        if with_max {
            row.push(optional(d.max));
        }
        row
    });
    std::iter::once(head).chain(body).collect()
}

/// The longest gap, always: percentiles of pooled gaps do not show it.
fn stalls(s: &Summary) -> String {
    let stalls = &s.stalls;
    let Some(longest) = stalls.max_itl_ms else { return String::new() };
    let of = stalls.max_itl_request.map_or_else(String::new, |request| format!(" in request {request}"));
    let over = if stalls.count == 0 {
        format!("no gap over {} ms", given(stalls.threshold_ms))
    } else {
        format!(
            "{} over {} ms in {}, {} ms in all",
            counted(stalls.count, "gap"),
            given(stalls.threshold_ms),
            counted(stalls.requests, "request"),
            figure(stalls.total_ms)
        )
    };
    paragraph("stalls      ", &format!("max ITL {} ms{of}; {over}", figure(longest)))
}
