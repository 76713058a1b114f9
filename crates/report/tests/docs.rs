//! The committed pages are what the tables say, and `docs/summary.md` names every key.

mod bless;
mod sample;

use goodput_core::metric::Metric;
use goodput_core::summary::{Finding, Severity};
use goodput_report::docs;
use serde_json::Value;
use std::collections::BTreeMap;

#[test]
fn the_committed_pages_are_current() {
    bless::check("../../docs/metrics.md", &docs::metrics_markdown());
    bless::check("../../docs/rulers.md", &docs::rulers_markdown());
    bless::check("../../docs/findings.md", &docs::findings_markdown());
    bless::check("../../docs/summary.md", &docs::summary_markdown());
}

/// Members whose keys are names and not part of the schema.
const NAMED: [&str; 3] = ["counts.outcomes", "tokens.sources", "metrics"];

/// Every path of a value in the notation of the table, with the value that stands there.
fn paths<'a>(value: &'a Value, path: &str, found: &mut BTreeMap<String, &'a Value>) {
    if !path.is_empty() {
        found.insert(path.to_owned(), value);
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let is_percentile = path == "metrics.*"
                    && name.strip_prefix('p').is_some_and(|level| level.parse::<f64>().is_ok());
                let name = match name.as_str() {
                    _ if NAMED.contains(&path) => "*",
                    _ if is_percentile => "p*",
                    name => name,
                };
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                paths(member, &path, found);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|e| paths(e, &format!("{path}[]"), found)),
        _ => {}
    }
}

/// A member that is only there to hold others, always: the others say all of it.
fn holds_only(value: &Value, path: &str, known: &[&str]) -> bool {
    matches!(value, Value::Object(_)) && !known.contains(&path) || path.ends_with("[]")
}

#[test]
fn the_table_of_keys_is_that_of_a_summary() {
    let mut summary = sample::summary();
    summary.findings.push(Finding {
        rule: "hidden_stall".into(),
        severity: Severity::Note,
        message: "m".into(),
        evidence: vec!["e".into()],
        invalidates: vec!["metrics".into()],
        remedy: "r".into(),
    });
    summary.load.concurrency = Some(64);
    summary.load.error_bound_ms.ttft_unknown = Some("no answer has a first token".into());
    summary.load.error_bound_ms.itl_unknown = Some("no answer has two token events".into());
    summary.truth = Some(sample::truth());
    summary.metrics.insert("fluidity".into(), sample::distribution(Metric::Fluidity, 100, [1.0; 3], 1.0));
    let json = serde_json::to_value(&summary).expect("a summary is JSON");
    let mut found = BTreeMap::new();
    paths(&json, "", &mut found);
    let known: Vec<&str> = docs::SUMMARY_KEYS.iter().map(|key| key.path).collect();
    let missing: Vec<&String> = found
        .iter()
        .filter(|(path, value)| !known.contains(&path.as_str()) && !holds_only(value, path, &known))
        .map(|(path, _)| path)
        .collect();
    assert!(missing.is_empty(), "keys without a line in SUMMARY_KEYS: {missing:?}");
    for key in docs::SUMMARY_KEYS {
        let value = found.get(key.path).unwrap_or_else(|| panic!("{} is no key of a summary", key.path));
        let fits = match key.kind.trim_end_matches(" or null") {
            "text" => value.is_string(),
            "integer" => value.is_u64(),
            "number" => value.is_number(),
            "true or false" => value.is_boolean(),
            "object" => value.is_object(),
            "list" => value.is_array(),
            kind => panic!("{} has the unknown type {kind}", key.path),
        };
        assert!(fits, "{} is {value}, not {}", key.path, key.kind);
        assert_eq!(known.iter().filter(|path| **path == key.path).count(), 1, "{} is listed twice", key.path);
    }
}
