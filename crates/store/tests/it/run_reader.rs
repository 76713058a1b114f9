//! A whole run directory: finished, killed, interrupted, foreign.

use crate::timelines::{new_run, plain, write_log};
use goodput_core::plan::Plan;
use goodput_core::summarise::TimelineSource;
use goodput_store::StoreError;
use goodput_store::layout::{LOG, MANIFEST, RunDir};
use goodput_store::manifest::{Anchor, Clock, Manifest, Status};
use goodput_store::parquet::{LogAfter, convert};
use goodput_store::reader::RunReader;
use std::fs;

/// A plan with something in every part.
pub(crate) fn plan() -> Plan {
    let text = r#"
        version = "1.0"
        seed = 7
        salt = "00ff"
        [target]
        urls = ["http://me:secret@127.0.0.1:9001"]
        protocol = "openai-chat"
        model = "m"
        http = "1"
        verify_tls = true
        [load]
        concurrency = 64
        arrivals = { law = { kind = "poisson" }, rate = { kind = "steady", rate = 100.0 } }
        [stop]
        requests = 1200
        [warmup]
        kind = "none"
        [timeouts]
        [workload]
        data = { kind = "random" }
        input_tokens = { kind = "uniform", min = 16, max = 64 }
        output_tokens = { kind = "lognormal", mean = 500.0, cv = 1.2 }
        prefix_tokens = 0
        tokenizer = { kind = "bytes" }
        [request]
        max_tokens = 64
        ignore_eos = true
        stream = true
        continuous_usage = false
    "#;
    Plan::from_toml(text).unwrap()
}

/// Plan and manifest of a run in this state.
pub(crate) fn write_head(run: &RunDir, status: &Status) {
    run.write_plan(&plan()).unwrap();
    let start = Anchor { unix_ns: 1_767_323_045_000_000_000, run_ns: 0 };
    let mut manifest = Manifest::starting(&plan(), Clock::starting("CLOCK_MONOTONIC", start, Some(21.5)));
    manifest.status = status.clone();
    manifest.write(run).unwrap();
}

#[test]
fn manifests_survive_their_file_and_hold_what_was_asked() {
    let (_guard, run) = new_run();
    let start = Anchor { unix_ns: 1_000_000_000_000, run_ns: 500 };
    let mut manifest = Manifest::starting(&plan(), Clock::starting("CLOCK_MONOTONIC", start, None));
    manifest.clock.close(Anchor { unix_ns: 1_002_000_000_000, run_ns: 2_000_000_750 });
    assert_eq!(manifest.clock.drift_ns, Some(-250));
    manifest.status = Status::Failed { reason: "the disk is full".into() };
    manifest.tags.insert("quantisation".into(), "fp8".into());
    manifest.engine.version = Some("0.11.0".into());
    manifest.engine.facts.insert("/version".into(), serde_json::json!({"version": "0.11.0"}));
    manifest.write(&run).unwrap();
    assert_eq!(Manifest::read(&run).unwrap(), manifest);
    let json: serde_json::Value = serde_json::from_slice(&fs::read(run.file(MANIFEST)).unwrap()).unwrap();
    let cases = [
        ("/format", serde_json::json!("1.1")),
        ("/status/state", serde_json::json!("failed")),
        ("/asked/seed", serde_json::json!(7)),
        ("/asked/salted", serde_json::json!(true)),
        ("/asked/urls/0", serde_json::json!("http://[redacted]@127.0.0.1:9001")),
        ("/asked/arrivals/law/kind", serde_json::json!("poisson")),
        ("/asked/arrivals/rate/rate", serde_json::json!(100.0)),
        ("/asked/input_tokens", serde_json::json!("uniform(16,64)")),
        ("/asked/output_tokens", serde_json::json!("lognormal(mean=500,cv=1.2)")),
    ];
    for (pointer, expected) in cases {
        assert_eq!(json.pointer(pointer), Some(&expected), "{pointer}");
    }
}

#[test]
fn a_later_minor_manifest_is_read_and_what_it_adds_is_skipped() {
    let (_guard, run) = new_run();
    write_head(&run, &Status::Complete);
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(run.file(MANIFEST)).unwrap()).unwrap();
    json["format"] = "1.9".into();
    json["novelty"] = true.into();
    json["host"]["novelty"] = 3.into();
    run.write_json(MANIFEST, &json).unwrap();
    assert_eq!(Manifest::read(&run).unwrap().format.to_string(), "1.9");
}

#[test]
fn foreign_and_future_directories_are_refused_with_a_reason() {
    let (_guard, run) = new_run();
    let cases = [
        (r#"{"format": "3.1"}"#, "written by format 3.1, this program reads 1.1"),
        (r#"{"name": "some-package"}"#, "not written by goodput"),
        (r#"{"format": "1.0"}"#, "is not a manifest"),
        (r#"{"format": "1.0", "#, "is not JSON"),
    ];
    for (text, expected) in cases {
        fs::write(run.file(MANIFEST), text).unwrap();
        let said = RunReader::open(run.path()).unwrap_err().to_string();
        assert!(said.contains(expected) && said.contains("run"), "{said}");
    }
    fs::remove_file(run.file(MANIFEST)).unwrap();
    assert!(matches!(RunReader::open(run.path()), Err(StoreError::NotARun { .. })));
}

#[test]
fn a_killed_run_keeps_its_finished_requests_and_says_so() {
    let (_guard, run) = new_run();
    write_head(&run, &Status::Running);
    write_log(&run, &[plain(0, 3), plain(1, 4)]);
    let segment = run.file(LOG).join("00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes.extend_from_slice(b"gpf\nhalf");
    fs::write(&segment, bytes).unwrap();
    let reader = RunReader::open(run.path()).unwrap();
    assert!(reader.is_partial());
    let why = reader.why_partial().unwrap();
    assert!(
        why.contains("killed") && why.contains("2 finished requests") && why.contains("8 bytes are lost"),
        "{why}"
    );
    for _ in 0..2 {
        let mut indices = Vec::new();
        reader.for_each(&mut |timeline| indices.push(timeline.index)).unwrap();
        assert_eq!(indices, [0, 1]);
    }
    // Killed before anything finished, or before the log was there.
    fs::remove_file(&segment).unwrap();
    assert_eq!(RunReader::open(run.path()).unwrap().requests(), 0);
    fs::remove_dir(run.file(LOG)).unwrap();
    assert_eq!(RunReader::open(run.path()).unwrap().requests(), 0);
}

#[test]
fn damage_in_the_middle_is_an_error_after_what_precedes_it() {
    let (_guard, run) = new_run();
    write_head(&run, &Status::Running);
    write_log(&run, &[plain(0, 3), plain(1, 4), plain(2, 5)]);
    let segment = run.file(LOG).join("00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&segment, bytes).unwrap();
    let reader = RunReader::open(run.path()).unwrap();
    assert_eq!((reader.requests(), reader.damage()), (1, None));
    let mut visited = 0;
    let said = reader.for_each(&mut |_| visited += 1).unwrap_err().to_string();
    assert_eq!(visited, 1);
    assert!(
        said.contains("00000001.seg is damaged at byte") && said.contains("1 requests before it"),
        "{said}"
    );
}

#[test]
fn a_finished_run_is_not_partial_and_every_other_end_is() {
    let (_guard, run) = new_run();
    write_log(&run, &[plain(0, 3)]);
    convert(&run, LogAfter::Delete).unwrap();
    let cases = [
        (Status::Complete, None),
        (Status::Running, Some("killed")),
        (Status::Interrupted, Some("interrupted")),
        (Status::Failed { reason: "no space".into() }, Some("no space")),
    ];
    for (status, expected) in cases {
        write_head(&run, &status);
        let reader = RunReader::open(run.path()).unwrap();
        assert_eq!(reader.plan(), &plan());
        let why = reader.why_partial();
        assert_eq!(why.is_some(), expected.is_some(), "{why:?}");
        assert!(expected.is_none_or(|word| why.unwrap().contains(word)));
    }
}

#[test]
fn a_cut_log_is_kept_after_conversion() {
    let (_guard, run) = new_run();
    write_log(&run, &[plain(0, 3), plain(1, 3)]);
    let segment = run.file(LOG).join("00000001.seg");
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..bytes.len() - 1]).unwrap();
    let converted = convert(&run, LogAfter::Delete).unwrap();
    assert_eq!(converted.requests, 1);
    assert!(converted.damage.is_some() && segment.exists());
}
