//! `summary.json` is strict JSON or an error.

use crate::timelines::new_run;
use goodput_core::summary::Summary;
use goodput_store::layout::SUMMARY;
use goodput_store::summary::{read_summary, write_summary};
use serde_json::json;
use std::fs;

fn summary() -> Summary {
    let throughput = json!({
        "requests_per_s": 10.5, "input_tokens_per_s": null, "output_tokens_per_s": null,
        "total_tokens_per_s": null, "peak_output_tokens_per_s": null,
    });
    let value = json!({
        "schema": "goodput.summary/1.0", "run": "a", "ruler": "canonical", "partial": false,
        "counts": {
            "issued": 1, "ok": 1, "outcomes": {"ok": 1}, "censored": 0, "warmup": 0, "never_released": 0,
            "stale_retries": 0,
        },
        "window": {
            "kind": "whole", "start_s": 0.0, "end_s": 2.0, "duration_s": 2.0, "requests": 1, "how": "all of it",
        },
        "windows": [],
        "load": {
            "kind": "open", "asked_rps": 100.0, "scheduled_rps": null, "offered_rps": null, "concurrency": null,
            "lateness_ms": null, "gaps": null, "client_limited": false, "reasons": [],
        },
        "throughput": throughput,
        "concurrency": {"mean": 1.0, "peak": 1, "little_ratio": 1.0},
        "tokens": {
            "input": 8, "output": 64, "sources": {"server": 1}, "chunks_per_token": 1.0, "cached_input": null,
            "mismatched": 0,
        },
        "metrics": {},
        "stalls": {
            "threshold_ms": 100.0, "count": 0, "requests": 0, "total_ms": 0.0, "max_itl_ms": null,
            "max_itl_request": null,
        },
        "goodput": null,
        "findings": [],
    });
    serde_json::from_value(value).unwrap()
}

#[test]
fn summaries_survive_their_file() {
    let (_guard, run) = new_run();
    write_summary(&run, &summary()).unwrap();
    assert_eq!(read_summary(&run).unwrap(), summary());
}

#[test]
fn a_number_that_json_cannot_hold_is_an_error_and_writes_nothing() {
    let (_guard, run) = new_run();
    let mut optional = summary();
    optional.throughput.requests_per_s = Some(f64::INFINITY);
    let mut required = summary();
    required.window.end_s = f64::NAN;
    for wrong in [optional, required] {
        let said = write_summary(&run, &wrong).unwrap_err().to_string();
        assert!(said.contains("summary.json is not strict JSON"), "{said}");
        assert!(!run.file(SUMMARY).exists());
    }
}

#[test]
fn another_schema_is_refused() {
    let (_guard, run) = new_run();
    for (schema, readable) in
        [("goodput.summary/1.7", true), ("goodput.summary/2.0", false), ("other/1.0", false)]
    {
        let mut summary = summary();
        summary.schema = schema.into();
        run.write_json(SUMMARY, &summary).unwrap();
        assert_eq!(read_summary(&run).is_ok(), readable, "{schema}");
    }
    fs::write(run.file(SUMMARY), "{").unwrap();
    assert!(read_summary(&run).unwrap_err().to_string().contains("is not a summary"));
}
