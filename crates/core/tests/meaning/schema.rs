//! The stable names of `summary.json`.

use crate::build::{due, open, stream, summary};
use goodput_core::load_check::LoadContext;
use goodput_core::outcome::{Outcome, TimeoutPhase};
use goodput_core::plan::GapLaw;
use goodput_core::slo::Slo;
use goodput_core::summarise::SummaryRequest;
use goodput_core::time::Nanos;
use goodput_core::timeline::{ChunkFlags, Timeline};
use goodput_core::truth::{RequestTruth, ServerTruth, TruthReport, join};
use serde_json::Value;
use std::collections::BTreeSet;

/// A run that fills every part of a summary.
fn full() -> Value {
    let mut requests: Vec<Timeline> = (0..100)
        .map(f64::from)
        .map(|i| due(stream(i * 100.0, 50.0 + i % 7.0, &[10.0, 900.0]), i * 100.0))
        .collect();
    requests[0].server.cached_tokens = Some(3);
    requests[2].outcome = Outcome::Timeout { phase: TimeoutPhase::Total };
    requests[1].instants.connect_start = Some(requests[1].instants.released.since(Nanos::from_millis(1)));
    requests[1].instants.connected = requests[1].instants.sent;
    for chunk in requests.iter_mut().flat_map(|t| &mut t.chunks) {
        chunk.flags |= ChunkFlags::KERNEL_STAMP;
    }
    let slo = Slo::parse("ttft:500ms,tpot:50ms,ttft.p95:1s").expect("valid");
    let load = LoadContext { asked_rps: Some(10.0), law: Some(GapLaw::Poisson), ..open() };
    let request = SummaryRequest { slo: Some(&slo), run: Some("a".into()), ..SummaryRequest::new(load) };
    let mut summary = summary(&requests, &request);
    summary.truth = Some(truth(&requests));
    serde_json::to_value(summary).expect("a summary is JSON")
}

/// A server that wrote what the client saw.
fn truth(requests: &[Timeline]) -> TruthReport {
    let mut server = ServerTruth::default();
    let written = vec![Nanos::from_millis(50); 3];
    server.add(Some("0".into()), RequestTruth { due: written.clone(), written, chunks: 3 });
    let Ok(report) = join(&server, requests, |t| t.index.to_string());
    report
}

/// Every path in a JSON value, arrays as `[]`.
fn paths(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(k, v)| paths(v, &format!("{at}.{k}"), into)),
        Value::Array(items) if !items.is_empty() => {
            items.iter().for_each(|v| paths(v, &format!("{at}[]"), into))
        }
        _ => {
            into.insert(at.trim_start_matches('.').to_owned());
        }
    }
}

#[test]
fn names_do_not_change_unnoticed() {
    let json = full();
    let mut found = BTreeSet::new();
    paths(&json, "", &mut found);
    // Every metric has the members of every other; its own name is listed once.
    let found: BTreeSet<String> = found
        .into_iter()
        .flat_map(|path| match path.strip_prefix("metrics.").and_then(|rest| rest.split_once('.')) {
            Some((metric, member)) => vec![format!("metrics.{metric}"), format!("metrics.<m>.{member}")],
            None => vec![path],
        })
        .collect();
    let found: Vec<String> = found.into_iter().collect();
    let recorded = include_str!("schema.txt");
    assert_eq!(
        found.join("\n"),
        recorded.trim_end(),
        "a key of summary.json came, went or was renamed: raise the schema version and write the new list"
    );
}

#[test]
fn the_promised_names_are_there() {
    let json = full();
    let promised = [
        "/schema",
        "/ruler",
        "/counts/issued",
        "/counts/ok",
        "/counts/outcomes/ok",
        "/counts/censored",
        "/window/kind",
        "/window/start_s",
        "/window/end_s",
        "/window/duration_s",
        "/load/kind",
        "/load/asked_rps",
        "/load/scheduled_rps",
        "/load/offered_rps",
        "/load/lateness_ms/p50",
        "/load/lateness_ms/p99",
        "/load/lateness_ms/max",
        "/load/read_lateness_ms/p99",
        "/load/error_bound_ms/ttft_p99",
        "/load/error_bound_ms/itl_p99",
        "/load/client_limited",
        "/load/reasons",
        "/throughput/requests_per_s",
        "/throughput/input_tokens_per_s",
        "/throughput/output_tokens_per_s",
        "/throughput/total_tokens_per_s",
        "/concurrency/mean",
        "/concurrency/peak",
        "/concurrency/little_ratio",
        "/tokens/input",
        "/tokens/output",
        "/tokens/sources/server",
        "/tokens/sources/ids",
        "/tokens/sources/retokenised",
        "/tokens/sources/chunks",
        "/tokens/chunks_per_token",
        "/metrics/ttft/p50/value",
        "/metrics/tpot/p95/low",
        "/metrics/itl/p99/high",
        "/metrics/chunk_gap/n",
        "/metrics/e2e/p50/support",
        "/metrics/client_queue/p50/method",
        "/metrics/e2e/unit",
        "/metrics/e2e/mean",
        "/metrics/e2e/std",
        "/metrics/e2e/min",
        "/metrics/e2e/max",
        "/goodput/slo",
        "/goodput/request_per_s",
        "/goodput/token_per_s",
        "/goodput/attainment/value",
        "/goodput/attainment/low",
        "/goodput/attainment/high",
        "/goodput/per_objective",
        "/goodput/vacuous",
        "/goodput/not_evaluable",
        "/truth/ttft_ms/p99",
        "/truth/chunk_gap_ms/p99",
        "/findings",
    ];
    for pointer in promised {
        assert!(json.pointer(pointer).is_some(), "{pointer}");
    }
    assert_eq!(json["schema"], "goodput.summary/1.1");
}
