//! Pages generated from the tables: metrics, rulers, rules and the keys of `summary.json`.
//!
//! The pages are committed under `docs/`; a test holds them to what is generated here, so that a definition lives once.

mod keys;

pub use keys::{Key, SUMMARY_KEYS};

use crate::findings::RULES;
use goodput_core::metric::METRICS;
use goodput_core::ruler::{CANONICAL, RULERS, describe, diff_choices};
use goodput_core::summarise;
use goodput_core::summary::{SCHEMA, Severity};

/// `docs/metrics.md`: every metric.
#[must_use]
pub fn metrics_markdown() -> String {
    let mut page = head(
        "Metrics",
        "Every number that a report or `summary.json` names. Each is a span between two named instants of one request; the \
         definitions are those of the `canonical` ruler, and [rulers.md](rulers.md) says how other tools read the same record. \
         What is undefined is `null`, never 0. A request that failed has no latency.",
    );
    page += "| name | title | unit | a sample is one | since |\n| --- | --- | --- | --- | --- |\n";
    for m in METRICS {
        let (unit, sample) = (m.unit.name(), m.sample.name());
        page +=
            &format!("| [`{0}`](#{0}) | {1} | {unit} | {sample} | {2} |\n", m.name, cell(m.title), m.since);
    }
    for m in METRICS {
        page += &format!("\n## {}\n\n**{}.** {}.\n\n", m.name, m.title, sentence(m.formula));
        page += &format!("- Undefined when {}.\n", m.undefined_when);
        page += &format!("- Sampled over {}.\n", m.counts);
        page += &format!("- Source: {}.\n", m.source);
    }
    page
}

/// `docs/rulers.md`: every ruler, and what each does otherwise than the canonical one.
#[must_use]
pub fn rulers_markdown() -> String {
    let mut page = head(
        "Rulers",
        "A ruler is the set of conventions by which a tool turns instants into numbers. One stored run can be read under any of \
         them: `goodput show RUN --ruler NAME`, and `goodput show RUN --rulers` for all at once. A ruler that repeats a fault of \
         its tool on purpose says so.",
    );
    page += "| name | tool | version |\n| --- | --- | --- |\n";
    for r in RULERS {
        page +=
            &format!("| [`{}`](#{}) | {} | {} |\n", r.name, r.name.replace('.', ""), cell(r.tool), r.version);
    }
    for r in RULERS {
        let text = describe(r);
        // The first line is the heading's, the second the summary, which stands above the block.
        let body: Vec<&str> = text.lines().skip(2).collect();
        page += &format!("\n## {}\n\n{}\n\n```text\n{}\n```\n", r.name, r.summary, body.join("\n"));
        let differs = diff_choices(&CANONICAL, r);
        if !differs.is_empty() {
            page += "\nOtherwise than `canonical`:\n\n| choice | here | canonical | moves |\n| --- | --- | --- | --- |\n";
        }
        for d in differs {
            let moves = d.moves.join(", ");
            page += &format!("| {} | {} | {} | {moves} |\n", cell(d.choice), cell(&d.b), cell(&d.a));
        }
    }
    page
}

/// `docs/findings.md`: the rules that read a summary.
#[must_use]
pub fn findings_markdown() -> String {
    let mut page = head(
        "Findings",
        "What a report says in words. A finding has a stable rule id, a severity, the figures that led to it, the members of \
         `summary.json` that must be read with it in mind, and what to do. `invalid`: do not use what it touches. `warning`: \
         read it with this in mind. `note`: worth knowing.",
    );
    page += "## About the measurement\n\nRules over the record itself.\n\n";
    page += FINDINGS_HEAD;
    for rule in summarise::RULES {
        page += &finding_row(rule.id, rule.severity, [rule.fires_when, rule.remedy], rule.invalidates);
    }
    page += "\n## About the run\n\nRules over the finished summary.\n\n";
    page += FINDINGS_HEAD;
    for rule in RULES {
        page += &finding_row(rule.id, rule.severity, [rule.fires_when, rule.remedy], rule.invalidates);
    }
    page
}

const FINDINGS_HEAD: &str =
    "| rule | severity | fires when | touches | what to do |\n| --- | --- | --- | --- | --- |\n";

fn finding_row(id: &str, severity: Severity, [when, remedy]: [&str; 2], invalidates: &[&str]) -> String {
    let severity = match severity {
        Severity::Invalid => "invalid",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let touches: Vec<String> = invalidates.iter().map(|member| format!("`{member}`")).collect();
    format!("| `{id}` | {severity} | {} | {} | {} |\n", cell(when), touches.join(", "), cell(remedy))
}

/// `docs/summary.md`: every key of `summary.json`.
#[must_use]
pub fn summary_markdown() -> String {
    let mut page = head(
        "summary.json",
        &format!(
            "Schema `{SCHEMA}`. `goodput run --json` and `goodput show RUN --json` print the same. Undefined is `null`; there is no \
             NaN and no infinity. New keys may come in minor versions, and a key never changes its meaning. `*` stands for a name, \
             `p*` for a percentile such as `p99`, `[]` for each element of a list."
        ),
    );
    page += "| key | type | meaning |\n| --- | --- | --- |\n";
    for key in SUMMARY_KEYS {
        page += &format!("| `{}` | {} | {} |\n", key.path, key.kind, cell(key.meaning));
    }
    page
}

fn head(title: &str, text: &str) -> String {
    format!(
        "# {title}\n\n<!-- Generated from the tables in the source; GOODPUT_BLESS=1 cargo test -p goodput-report writes it. -->\n\n{text}\n\n"
    )
}

/// Text that may stand in a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Text with a capital at its beginning.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
