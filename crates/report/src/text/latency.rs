//! The table of latencies, the line on stalls, and what the marks in them mean.

use crate::findings::samples_needed;
use crate::layout::{WIDTH, paragraph, table, table_width};
use crate::number::{count, counted, figure, optional};
use goodput_core::metric::Metric;
use goodput_core::summary::{Distribution, Quantile, Summary};

/// Behind a value with 3 to 10 samples beyond it.
pub(super) const WEAK: &str = "~";
/// In place of a value with fewer than 3 samples beyond it.
pub(super) const ANECDOTE: &str = "?";

/// The rows every report has.
const MAIN: [Metric; 5] = [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::ChunkGap, Metric::E2e];
/// Differences and waits up to this are not worth a row, in milliseconds.
const WORTH_A_ROW_MS: f64 = 1.0;

/// The value with its mark.
pub(super) fn shown(q: &Quantile) -> String {
    match (q.value, q.support.as_str()) {
        (None, _) => "-".into(),
        (Some(_), "anecdote") => ANECDOTE.into(),
        (Some(value), "weak") => format!("{}{WEAK}", figure(value)),
        (Some(value), _) => figure(value),
    }
}

/// The value with its mark and interval.
fn shown_with_interval(q: &Quantile) -> String {
    let value = shown(q);
    if q.value.is_none() || q.support == "anecdote" {
        return value;
    }
    format!("{value} [{}, {}]", optional(q.low), optional(q.high))
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
        rows.extend(get(metric).map(|d| (metric.def().title, d)));
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
                .map(|(m, d)| (m.def().title, d)),
        );
    }
    for metric in [Metric::ClientQueue, Metric::CapWait] {
        rows.extend(
            get(metric)
                .filter(|d| tail(d).is_some_and(|ms| ms > WORTH_A_ROW_MS))
                .map(|d| (metric.def().title, d)),
        );
    }
    rows
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
    text += &marks(&rows, &names);
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
        format!("no gap over {} ms", figure(stalls.threshold_ms))
    } else {
        format!(
            "{} over {} ms in {}, {} ms in all",
            counted(stalls.count, "gap"),
            figure(stalls.threshold_ms),
            counted(stalls.requests, "request"),
            figure(stalls.total_ms)
        )
    };
    paragraph("stalls      ", &format!("max ITL {} ms{of}; {over}", figure(longest)))
}

/// How the percentiles were made, and the marks that occur.
fn marks(rows: &[(&str, &Distribution)], names: &[String]) -> String {
    let all = || rows.iter().flat_map(|(_, d)| d.percentiles.iter()).filter(|(_, q)| q.value.is_some());
    let occurs = |support: &str| all().any(|(_, q)| q.support == support);
    let mut parts = vec![format!("percentiles {}", methods(rows))];
    if all().any(|(_, q)| q.support != "anecdote" && (q.low.is_none() || q.high.is_none())) {
        parts.push("[, -] the sample gives no bound".into());
    }
    if occurs("weak") {
        parts.push(format!("{WEAK} weak: 3 to 10 samples beyond"));
    }
    if occurs("anecdote") {
        let thin = |name: &&String| all().any(|(n, q)| n == *name && q.support == "anecdote");
        let needs: Vec<String> = names
            .iter()
            .filter(thin)
            .filter_map(|name| samples_needed(name).map(|(ok, weak)| (name, ok, weak)))
            .map(|(name, ok, weak)| {
                format!("{name} needs {} samples, {} to be shown plainly", count(weak), count(ok))
            })
            .collect();
        parts.push(format!("{ANECDOTE} not shown, under 3 samples beyond: {}", needs.join("; ")));
    }
    if all().any(|_| true) { paragraph("marks       ", &parts.join("; ")) } else { String::new() }
}

/// The methods, the most common once and the others with their metrics.
fn methods(rows: &[(&str, &Distribution)]) -> String {
    let mut by_method: Vec<(&str, Vec<&str>)> = Vec::new();
    for (title, d) in rows {
        for q in d.percentiles.values().filter(|q| q.value.is_some()) {
            let at = by_method.iter().position(|(method, _)| *method == q.method).unwrap_or_else(|| {
                by_method.push((&q.method, Vec::new()));
                by_method.len() - 1
            });
            if by_method[at].1.last() != Some(title) {
                by_method[at].1.push(title);
            }
        }
    }
    if let [(method, _)] = by_method.as_slice() {
        return (*method).to_owned();
    }
    let named = by_method.iter().map(|(method, titles)| format!("{method} ({})", titles.join(", ")));
    named.collect::<Vec<_>>().join("; ")
}
