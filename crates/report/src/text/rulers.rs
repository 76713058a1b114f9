//! One stored run under all rulers, and which choice of a ruler causes which difference.

use super::marks::{ANECDOTE, WEAK};
use crate::layout::{WIDTH, paragraph, table, table_width};
use crate::number::{count, figure};
use goodput_core::ruler::{ChoiceDiff, diff_choices, ruler};
use goodput_core::summary::Summary;

/// Values whose ratio is this close to 1 are the same figure.
const SAME: f64 = 1e-9;

/// One row of the table.
struct Row {
    title: &'static str,
    /// The names by which a ruler's choices say that they move it.
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
            (Some(a), Some(b)) => !same(a, b),
            (a, b) => a.is_some() != b.is_some(),
        }
    }
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME * a.abs().max(b.abs())
}

/// One table with the main figures under every ruler, and below it the choices behind the differences: those of the
/// canonical ruler (or of the first, without it) once, then those of each other ruler. A choice that cannot have acted in
/// this run is left out. Ends with a newline; empty without a summary.
#[must_use]
pub fn rulers_table(summaries: &[Summary]) -> String {
    let Some(base) = summaries.iter().find(|s| s.ruler == "canonical").or(summaries.first()) else {
        return String::new();
    };
    let others: Vec<Difference<'_>> = summaries
        .iter()
        .filter(|s| s.ruler != base.ruler)
        .map(|other| Difference::between(base, other))
        .collect();
    let mut text = tables(summaries);
    text += &legend(summaries);
    let mut own: Vec<ChoiceDiff> = Vec::new();
    for cause in others.iter().flat_map(|other| &other.causes) {
        if !own.iter().any(|known| known.choice == cause.choice) {
            own.push(cause.clone());
        }
    }
    if !own.is_empty() {
        text += &format!("\n{}:\n", base.ruler);
        text += &choices(&own, |choice| &choice.a);
    }
    for other in &others {
        text.push('\n');
        text += &other.text(base);
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

/// What one ruler makes otherwise than another, and why.
struct Difference<'a> {
    other: &'a Summary,
    rows: Vec<&'static str>,
    causes: Vec<ChoiceDiff>,
}

impl<'a> Difference<'a> {
    fn between(base: &Summary, other: &'a Summary) -> Self {
        let rows: Vec<&Row> = ROWS.iter().filter(|row| row.differs(base, other)).collect();
        let moves = |diff: &ChoiceDiff| {
            rows.iter().any(|row| row.moved_by.iter().any(|name| diff.moves.contains(name)))
        };
        let diffs = ruler(&base.ruler).zip(ruler(&other.ruler)).map(|(a, b)| diff_choices(a, b));
        let causes = diffs.unwrap_or_default().into_iter();
        let causes = causes.filter(|diff| moves(diff) && !is_idle(diff, base, other)).collect();
        let rows = rows.iter().map(|row| row.title.trim_end_matches(", ms")).collect();
        Self { other, rows, causes }
    }

    fn text(&self, base: &Summary) -> String {
        let label = format!("{}: ", self.other.ruler);
        if self.rows.is_empty() {
            return paragraph(&label, &format!("the same figures as {}", base.ruler));
        }
        let head = format!("differs from {} in {}, by", base.ruler, self.rows.join(", "));
        paragraph(&label, &head) + &choices(&self.causes, |choice| &choice.b)
    }
}

/// Whether a choice cannot have acted in this run, because something is unmoved that it cannot act without moving: the
/// requests taken as ok, the tokens counted, or the span and the number of the gaps between token events.
fn is_idle(diff: &ChoiceDiff, a: &Summary, b: &Summary) -> bool {
    let same_samples = |metric: &str| match (a.metrics.get(metric), b.metrics.get(metric)) {
        (Some(a), Some(b)) => a.n > 0 && a.n == b.n && a.mean.zip(b.mean).is_some_and(|(a, b)| same(a, b)),
        _ => false,
    };
    diff.moves.iter().any(|name| match *name {
        "ok" => a.counts.ok == b.counts.ok,
        "output_tokens" => a.tokens.output == b.tokens.output,
        "tpot" => same_samples("tpot") && same_samples("chunk_gap"),
        _ => false,
    })
}

/// Choices in words, a line each. Token events that are the same for several protocols are one line.
fn choices(diffs: &[ChoiceDiff], words: fn(&ChoiceDiff) -> &str) -> String {
    let mut lines: Vec<(String, &str)> = Vec::new();
    for diff in diffs {
        let (group, member) = diff.choice.split_once(", ").unwrap_or((diff.choice, ""));
        let known = lines
            .iter_mut()
            .find(|(label, what)| *what == words(diff) && !member.is_empty() && label.starts_with(group));
        match known {
            Some((label, _)) => *label += &format!(" and {member}"),
            None => lines.push((diff.choice.to_owned(), words(diff))),
        }
    }
    lines.iter().map(|(label, what)| paragraph("    ", &format!("{label}: {what}"))).collect()
}
