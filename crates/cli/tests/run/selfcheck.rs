//! `goodput selfcheck` from the outside: what it says, not how good this machine is.

use crate::goodput::{Ended, TINY, command, exact, only_run, run_args, start};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use tempfile::tempdir;

/// The program with a cache of its own.
fn with_cache<S: AsRef<OsStr>>(cache: &Path, args: impl IntoIterator<Item = S>) -> Ended {
    start(command(args).env("XDG_CACHE_HOME", cache), None).ended()
}

/// The smallest check there is; a busy machine may be found unfit, which is 3.
fn check(cache: &Path, more: &[&str]) -> Ended {
    let args = ["selfcheck", "--quick", "--streams", "2", "--rate", "50", "--duration", "300ms"];
    let ended = with_cache(cache, args.iter().chain(more));
    assert!(matches!(ended.code, Some(0 | 3)), "{ended:#?}");
    ended
}

#[test]
fn a_quick_check_says_what_it_found_and_keeps_it_for_runs() {
    let cache = tempdir().unwrap();
    let ended = check(cache.path(), &["--json"]);
    let report = ended.json();
    assert_eq!((&report["schema"], &report["quick"]), (&"goodput.selfcheck/1.0".into(), &true.into()));
    let fit = report["verdict"]["fit"].as_bool().expect("a verdict");
    assert_eq!(ended.code, Some(if fit { 0 } else { 3 }));
    assert_eq!(
        fit,
        !report["verdict"]["good"].as_array().unwrap().is_empty() && report["pacing"][0]["good"] == true
    );

    let [cell] = &report["cells"].as_array().unwrap()[..] else { panic!("one load: {report:#}") };
    assert_eq!((&cell["streams"], &cell["asked_chunks_per_s"]), (&2.into(), &100.0.into()));
    assert_eq!(cell["failed"], 0, "{cell:#}");
    for pointer in [
        "/ttft_ms/n",
        "/ttft_ms/p99",
        "/itl_ms/p50",
        "/itl_ms/max",
        "/server_late_p99_ms",
        "/cpu_us_per_chunk",
    ] {
        assert!(cell.pointer(pointer).is_some_and(Value::is_number), "{pointer} in {cell:#}");
    }
    assert_eq!(cell["itl_ms"]["n"], cell["ttft_ms"]["n"].as_u64().unwrap() * 12, "13 tokens an answer");
    let pacing: Vec<f64> =
        report["pacing"].as_array().unwrap().iter().map(|row| row["asked_rps"].as_f64().unwrap()).collect();
    assert_eq!(pacing, [400.0, 2_000.0]);
    let ceiling: Vec<&Value> = report["ceiling"].as_array().unwrap().iter().map(|row| &row["kind"]).collect();
    assert_eq!(ceiling, ["batched", "paced"]);
    assert!(report["stamps"]["kernel_share"].is_number() && report["timer"]["n"] == 300, "{report:#}");
    assert!(!report["limits"].as_array().unwrap().is_empty());

    let kept: Value =
        serde_json::from_slice(&std::fs::read(cache.path().join("goodput/selfcheck.json")).unwrap()).unwrap();
    assert_eq!(kept, report, "what is kept is what was said");
    let sentence = report["verdict"]["sentence"].as_str().unwrap();
    let (_server, url) = exact(5, 0, 2, &[]);
    let out = tempdir().unwrap();
    let run =
        with_cache(cache.path(), run_args(&url, out.path(), &format!("--concurrency 1 --requests 2 {TINY}")));
    let words: Vec<&str> = run.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains(&format!("a quick one: {sentence}")), "{}", run.stdout);
}

#[test]
fn without_a_check_a_run_says_so_and_a_check_can_leave_no_trace() {
    let cache = tempdir().unwrap();
    let ended = check(cache.path(), &["--no-cache", "--quiet"]);
    assert!(ended.stderr.is_empty(), "{}", ended.stderr);
    for word in ["TTFT error", "Poisson/s", "ceiling", "stamps", "timer", "open files"] {
        assert!(ended.stdout.contains(word), "no `{word}` in\n{}", ended.stdout);
    }
    assert!(!cache.path().join("goodput").exists());

    let (_server, url) = exact(5, 0, 2, &[]);
    let out = tempdir().unwrap();
    let args = run_args(&url, out.path(), &format!("--concurrency 1 --requests 2 {TINY} --quiet"));
    let run = with_cache(cache.path(), args).with_code(0);
    assert!(run.stdout.contains("no self-check of this host yet: goodput selfcheck"), "{}", run.stdout);
    let manifest = only_run(out.path()).join("manifest.json");
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    assert!(manifest["self_check"].is_null());
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let cache = tempdir().unwrap();
    for (args, said) in [
        (["--rate", "0"], "between 0.1 and 10000"),
        (["--streams", "0"], "--streams"),
        (["--client-cpus", "x"], "such as 0, 1-3"),
        (["--client-cpus", "1023"], "cannot run on CPU 1023"),
    ] {
        let ended = with_cache(cache.path(), ["selfcheck", "--quick"].iter().chain(&args)).with_code(2);
        assert!(ended.stderr.contains(said), "{args:?}: {}", ended.stderr);
    }
}
