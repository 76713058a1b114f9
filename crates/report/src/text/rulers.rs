//! One stored run under all rulers, and which choice of a ruler causes which difference.

use super::marks::{ANECDOTE, WEAK};
use crate::layout::{WIDTH, paragraph, table, table_width};
use crate::number::{count, figure};
use goodput_core::ruler::{ChoiceDiff, Ruler, diff_choices, ruler};
use goodput_core::summary::Summary;

/// Values whose ratio is this close to 1 are the same figure.
const SAME: f64 = 1e-9;

/// One row of the table.
struct Row {
    title: &'static str,
    /// The names by which a ruler's choices say that they move it, its own first.
    moved_by: &'static [&'static str],
    value: Value,
}

/// Where a row's figure comes from.
enum Value {
    Percentile(&'static str, &'static str),
    Rate(fn(&Summary) -> Option<f64>),
    Count(fn(&Summary) -> u64),
}

const fn latency(
    title: &'static str,
    metric: &'static str,
    percentile: &'static str,
    moved_by: &'static [&'static str],
) -> Row {
    Row { title, moved_by, value: Value::Percentile(metric, percentile) }
}

const TTFT: &[&str] = &["ttft", "every latency", "every percentile"];
const TPOT: &[&str] = &["tpot", "every latency", "every percentile"];
const ITL: &[&str] = &["itl", "every latency", "every percentile"];
const E2E: &[&str] = &["e2e", "every latency", "every percentile"];

const ROWS: &[Row] = &[
    latency("TTFT p50, ms", "ttft", "p50", TTFT),
    latency("TTFT p99, ms", "ttft", "p99", TTFT),
    latency("TPOT p50, ms", "tpot", "p50", TPOT),
    latency("TPOT p99, ms", "tpot", "p99", TPOT),
    latency("ITL p50, ms", "itl", "p50", ITL),
    latency("ITL p99, ms", "itl", "p99", ITL),
    latency("E2E p50, ms", "e2e", "p50", E2E),
    latency("E2E p99, ms", "e2e", "p99", E2E),
    Row {
        title: "output tok/s",
        moved_by: &["output_tokens_per_s", "every rate", "ok"],
        value: Value::Rate(|s| s.throughput.output_tokens_per_s),
    },
    Row { title: "ok", moved_by: &["ok"], value: Value::Count(|s| s.counts.ok) },
    Row {
        title: "output tokens",
        moved_by: &["output_tokens", "ok"],
        value: Value::Count(|s| s.tokens.output),
    },
];

impl Row {
    fn number(&self, s: &Summary) -> Option<f64> {
        match self.value {
            Value::Percentile(metric, name) => s.metrics.get(metric)?.percentiles.get(name)?.value,
            Value::Rate(rate) => rate(s),
            Value::Count(n) => Some(n(s) as f64),
        }
    }

    /// The figure with its mark. Weak and thin percentiles are shown here, because definitions are compared and not
    /// samples.
    fn cell(&self, s: &Summary) -> String {
        let Some(value) = self.number(s) else { return "-".into() };
        match self.value {
            Value::Count(n) => count(n(s)),
            Value::Rate(_) => figure(value),
            Value::Percentile(metric, name) => {
                let support =
                    s.metrics.get(metric).and_then(|d| d.percentiles.get(name)).map(|q| q.support.as_str());
                let mark = match support {
                    Some("anecdote") => ANECDOTE,
                    Some("weak") => WEAK,
                    _ => "",
                };
                format!("{}{mark}", figure(value))
            }
        }
    }

    fn differs(&self, a: &Summary, b: &Summary) -> bool {
        match (self.number(a), self.number(b)) {
            (Some(a), Some(b)) => (a - b).abs() > SAME * a.abs().max(b.abs()),
            (a, b) => a.is_some() != b.is_some(),
        }
    }
}

/// One table with the main figures under every ruler, and below it, for each ruler that differs from the canonical one
/// (or from the first, without it), the choices that cause the differences. Ends with a newline; empty without a summary.
#[must_use]
pub fn rulers_table(summaries: &[Summary]) -> String {
    let Some(base) = summaries.iter().find(|s| s.ruler == "canonical").or(summaries.first()) else {
        return String::new();
    };
    let mut text = tables(summaries);
    text += &legend(summaries);
    for other in summaries.iter().filter(|s| s.ruler != base.ruler) {
        text.push('\n');
        text += &differences(base, other);
    }
    text
}

/// One table, or several with fewer rulers each where one would be too wide.
fn tables(summaries: &[Summary]) -> String {
    let cut =
        |per_table: usize| -> Vec<Vec<Vec<String>>> { summaries.chunks(per_table).map(one_table).collect() };
    let fits = |tables: &Vec<Vec<Vec<String>>>| tables.iter().all(|table| table_width(table) <= WIDTH);
    let chosen = (1..=summaries.len()).rev().map(cut).find(fits).unwrap_or_else(|| cut(1));
    chosen.iter().map(|rows| table(rows)).collect::<Vec<_>>().join("\n")
}

fn one_table(summaries: &[Summary]) -> Vec<Vec<String>> {
    let line = |title: &str, cells: &dyn Fn(&Summary) -> String| {
        std::iter::once(title.to_owned()).chain(summaries.iter().map(cells)).collect()
    };
    let mut rows = vec![line("ruler", &|s| s.ruler.clone())];
    rows.extend(ROWS.iter().map(|row| line(row.title, &|s| row.cell(s))));
    rows
}

fn legend(summaries: &[Summary]) -> String {
    let support = |wanted: &str| {
        let mut all = summaries.iter().flat_map(|s| s.metrics.values()).flat_map(|d| d.percentiles.values());
        all.any(|q| q.value.is_some() && q.support == wanted)
    };
    let mut parts = Vec::new();
    if support("weak") {
        parts.push(format!("{WEAK} weak: 3 to 10 samples beyond"));
    }
    if support("anecdote") {
        parts.push(format!("{ANECDOTE} an anecdote: under 3 samples beyond, good for comparing rulers only"));
    }
    if parts.is_empty() { String::new() } else { paragraph("marks  ", &parts.join("; ")) }
}

fn differences(base: &Summary, other: &Summary) -> String {
    let label = format!("{}: ", other.ruler);
    let rows: Vec<&Row> = ROWS.iter().filter(|row| row.differs(base, other)).collect();
    if rows.is_empty() {
        return paragraph(&label, &format!("the same figures as {}", base.ruler));
    }
    let titles: Vec<&str> = rows.iter().map(|row| row.title.trim_end_matches(", ms")).collect();
    let mut text = paragraph(&label, &format!("differs from {} in {}", base.ruler, titles.join(", ")));
    if let Some((a, b)) = ruler(&base.ruler).zip(ruler(&other.ruler)) {
        let is_count = |row: &&Row| matches!(row.value, Value::Count(_));
        let same: Vec<&Row> = ROWS.iter().filter(is_count).filter(|row| !row.differs(base, other)).collect();
        for cause in causes(a, b, &rows, &same) {
            text += &paragraph("    ", &cause);
        }
    }
    text
}

/// The choices of `b` that move one of the rows, in words. A choice that moves a count which is the same under both rulers
/// explains nothing. Token events of several protocols with the same words are one cause.
fn causes(a: &Ruler, b: &Ruler, rows: &[&Row], same: &[&Row]) -> Vec<String> {
    let moves = |diff: &ChoiceDiff, row: &Row| row.moved_by.iter().any(|name| diff.moves.contains(name));
    let mut merged: Vec<(Vec<&str>, ChoiceDiff)> = Vec::new();
    for diff in diff_choices(a, b) {
        let idle = same.iter().any(|row| diff.moves.contains(&row.moved_by[0]));
        if idle || !rows.iter().any(|row| moves(&diff, row)) {
            continue;
        }
        match merged.iter_mut().find(|(_, known)| (&known.a, &known.b) == (&diff.a, &diff.b)) {
            Some((choices, _)) => choices.push(diff.choice),
            None => merged.push((vec![diff.choice], diff)),
        }
    }
    merged
        .into_iter()
        .map(|(choices, diff)| format!("{}: {} ({}: {})", choices.join(" / "), diff.b, a.name, diff.a))
        .collect()
}
