//! Marks of how well a sample carries a percentile, and what they mean.

use crate::findings::samples_needed;
use crate::layout::paragraph;
use crate::number::{count, figure};
use goodput_core::summary::{Distribution, Quantile};

/// Behind a value with 3 to 10 samples beyond it.
pub(super) const WEAK: &str = "~";
/// In place of a value with fewer than 3 samples beyond it.
pub(super) const ANECDOTE: &str = "?";
/// Before a value that is a lower limit.
const AT_LEAST: &str = ">=";
/// What the method of a percentile says when it falls on a request that was given up.
const LOWER_LIMIT: &str = "a lower limit";

/// The value with its mark.
pub(super) fn shown(q: &Quantile) -> String {
    let at_least = if q.method.contains(LOWER_LIMIT) { AT_LEAST } else { "" };
    match (q.value, q.support.as_str()) {
        (None, _) => "-".into(),
        (Some(_), "anecdote") => ANECDOTE.into(),
        (Some(value), "weak") => format!("{at_least}{}{WEAK}", figure(value)),
        (Some(value), _) => format!("{at_least}{}", figure(value)),
    }
}

/// One percentile in a table.
struct Cell<'a> {
    title: &'a str,
    percentile: &'a str,
    quantile: &'a Quantile,
}

/// How the percentiles of a table's rows were made, and the marks that occur; empty if no cell has a value.
pub(super) fn legend(rows: &[(&str, &Distribution)], percentiles: &[String]) -> String {
    let cells: Vec<Cell<'_>> = rows
        .iter()
        .flat_map(|(title, d)| {
            d.percentiles.iter().map(move |(percentile, quantile)| Cell { title, percentile, quantile })
        })
        .filter(|cell| cell.quantile.value.is_some())
        .collect();
    if cells.is_empty() {
        return String::new();
    }
    let occurs = |support: &str| cells.iter().any(|cell| cell.quantile.support == support);
    let unbounded = |q: &Quantile| q.support != "anecdote" && (q.low.is_none() || q.high.is_none());
    let mut parts = methods(&cells);
    if cells.iter().any(|cell| unbounded(cell.quantile)) {
        parts.push("- in an interval: the sample gives no bound".into());
    }
    if occurs("weak") {
        parts.push(format!("{WEAK} weak: 3 to 10 samples beyond"));
    }
    if cells.iter().any(|cell| cell.quantile.method.contains(LOWER_LIMIT)) {
        parts.push(format!("{AT_LEAST} a lower limit: it falls on a request that was given up"));
    }
    if occurs("anecdote") {
        parts.push(format!("{ANECDOTE} under 3 samples beyond, not shown ({})", needed(&cells, percentiles)));
    }
    paragraph("marks       ", &parts.join("; "))
}

/// The samples it takes to show the percentiles that are not shown.
fn needed(cells: &[Cell<'_>], percentiles: &[String]) -> String {
    let thin = |name: &str| cells.iter().any(|c| c.percentile == name && c.quantile.support == "anecdote");
    let parts: Vec<String> = percentiles
        .iter()
        .filter(|name| thin(name))
        .filter_map(|name| samples_needed(name).map(|(ok, weak)| (name, ok, weak)))
        .map(|(name, ok, weak)| format!("{name} from {} on, plainly from {}", count(weak), count(ok)))
        .collect();
    parts.join("; ")
}

/// The method that all share, and what some rows add to it. Lower limits have a mark of their own.
fn methods(cells: &[Cell<'_>]) -> Vec<String> {
    let shared = cells.iter().map(|cell| cell.quantile.method.as_str()).min_by_key(|method| method.len());
    let shared = shared.unwrap_or_default();
    let mut additions: Vec<(String, Vec<&str>)> = Vec::new();
    for cell in cells {
        let method = &cell.quantile.method;
        let words = method.strip_prefix(shared).unwrap_or(method).split(", ");
        let own: Vec<&str> = words.filter(|words| !words.is_empty() && *words != LOWER_LIMIT).collect();
        let own = own.join(", ");
        match additions.iter_mut().find(|(known, _)| *known == own) {
            _ if own.is_empty() => {}
            Some((_, titles)) if titles.contains(&cell.title) => {}
            Some((_, titles)) => titles.push(cell.title),
            None => additions.push((own, vec![cell.title])),
        }
    }
    let mut parts = vec![format!("percentiles {shared}")];
    parts.extend(additions.iter().map(|(own, titles)| format!("{own} ({})", titles.join(", "))));
    parts
}
