//! `goodput show` and `goodput explain`: what is on disk, read again.

use crate::goodput::{TINY, exact, goodput, json_file, run_args, runs};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use tempfile::{TempDir, tempdir};

/// Two runs, made once for all tests of this file, which only read them.
fn two_runs() -> &'static Path {
    static RUNS: OnceLock<TempDir> = OnceLock::new();
    let made = RUNS.get_or_init(|| {
        let (_server, url) = exact(10, 2, 8, &[]);
        let out = tempdir().expect("a folder");
        for name in ["zulu", "alpha"] {
            let args = format!("--concurrency 5 --requests 40 {TINY} --name {name} --quiet");
            goodput(run_args(&url, out.path(), &args)).with_code(0);
        }
        out
    });
    made.path()
}

fn show(path: &Path, args: &[&str]) -> crate::goodput::Ended {
    goodput(["show", path.to_str().expect("UTF-8")].iter().chain(args))
}

#[test]
fn a_run_is_shown_from_what_is_on_disk() {
    let run = two_runs().join("zulu");
    let shown = show(&run, &["--json"]).with_code(0);
    assert_eq!(shown.stderr, "");
    assert_eq!(shown.json(), json_file(&run.join("summary.json")));
    let report = show(&run, &[]).with_code(0).stdout;
    assert!(report.contains("TTFT") && report.contains("40"), "{report}");
}

#[test]
fn of_a_folder_the_newest_run_is_shown_and_named() {
    let shown = show(two_runs(), &["--json"]).with_code(0);
    assert_eq!(shown.json()["run"], "alpha", "started last, whatever the names say");
    assert!(shown.stderr.contains("alpha") && shown.stderr.contains("newest of 2"), "{}", shown.stderr);
}

#[test]
fn flags_of_reading_work_on_stored_runs() {
    let run = two_runs().join("zulu");
    let args = ["--json", "--slo", "ttft:20s,tpot:20s", "--percentiles", "50,90", "--window", "steady"];
    let shown = show(&run, &args).with_code(0).json();
    assert_eq!(shown["window"]["kind"], "steady");
    assert!(shown["metrics"]["ttft"]["p90"].is_object() && shown["metrics"]["ttft"]["p99"].is_null());
    assert_eq!(shown["goodput"]["attainment"]["value"], 1.0);

    let all = show(&run, &["--rulers", "--json"]).with_code(0).json();
    let names: Vec<_> =
        all.as_array().unwrap().iter().map(|summary| summary["ruler"].as_str().unwrap()).collect();
    assert!(["canonical", "vllm", "vllm-rs", "sglang", "sglang-oai"].iter().all(|name| names.contains(name)));
    assert!(show(&run, &["--rulers", "--ruler", "vllm"]).with_code(2).stderr.contains("--ruler"));
}

#[test]
fn an_slo_file_brings_its_window() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("slo.toml");
    let text = "window = \"steady\"\nworkload = \"tiny\"\nattainment = 0.9\n[load]\nconcurrency = 5\n\
                [[objective]]\nmetric = \"ttft\"\nlimit = \"20s\"\n";
    fs::write(&file, text).unwrap();
    let run = two_runs().join("zulu");
    let slo = file.to_str().unwrap();
    let shown = show(&run, &["--json", "--slo", slo]).with_code(0).json();
    assert_eq!((&shown["window"]["kind"], &shown["goodput"]["inline"]), (&json!("steady"), &json!(false)));
    let refused = show(&run, &["--slo", slo, "--window", "whole"]).with_code(2);
    assert!(
        refused.stderr.contains("--window whole") && refused.stderr.contains("steady"),
        "{}",
        refused.stderr
    );
    fs::write(&file, text.replace("workload", "work")).unwrap();
    let refused = show(&run, &["--slo", slo]).with_code(2);
    assert!(refused.stderr.contains("slo.toml"), "{}", refused.stderr);
}

#[test]
fn what_is_no_run_is_refused_with_the_reason() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("results.json"), "{}").unwrap();
    let file = folder.path().join("results.json");
    let missing = folder.path().join("nothing");
    for (path, reason) in
        [(folder.path(), "no manifest.json"), (&file, "is a file"), (&missing, "does not exist")]
    {
        let ended = show(path, &[]).with_code(2);
        assert_eq!(ended.stdout, "");
        assert!(
            ended.stderr.contains(path.to_str().unwrap()) && ended.stderr.contains(reason),
            "{}",
            ended.stderr
        );
    }
}

/// A copy of a run with another manifest.
fn with_manifest(change: impl FnOnce(&mut Value)) -> TempDir {
    let copy = tempdir().expect("a folder");
    for entry in fs::read_dir(two_runs().join("zulu")).expect("a run") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, copy.path().join(path.file_name().expect("a file"))).expect("copied");
    }
    let manifest = copy.path().join("manifest.json");
    let mut content = json_file(&manifest);
    change(&mut content);
    fs::write(&manifest, content.to_string()).expect("written");
    copy
}

#[test]
fn another_major_format_is_refused_and_another_minor_is_read() {
    let mut current = Value::Null;
    let future = with_manifest(|manifest| current = std::mem::replace(&mut manifest["format"], json!("2.0")));
    let ended = show(future.path(), &[]).with_code(2);
    for word in ["manifest.json", "2.0", current.as_str().expect("a text")] {
        assert!(ended.stderr.contains(word), "{}", ended.stderr);
    }
    let newer = with_manifest(|manifest| {
        manifest["format"] = json!("1.7");
        manifest["a_key_of_tomorrow"] = json!(true);
    });
    show(newer.path(), &[]).with_code(0);
}

#[test]
fn a_damaged_run_names_the_file() {
    let damaged = with_manifest(|_| {});
    let requests = damaged.path().join("requests.parquet");
    let bytes = fs::read(&requests).unwrap();
    fs::write(&requests, &bytes[..bytes.len() / 2]).unwrap();
    let ended = show(damaged.path(), &[]).with_code(2);
    assert!(ended.stderr.contains("requests.parquet"), "{}", ended.stderr);
}

#[test]
fn everything_in_the_lists_can_be_explained() {
    let list = goodput(["explain"]).with_code(0).stdout;
    for name in ["ttft", "tpot", "itl", "e2e", "cap_wait", "canonical", "vllm", "sglang-oai"] {
        assert!(list.contains(name), "{list}");
        let explained = goodput(["explain", name]).with_code(0).stdout;
        assert!(explained.len() > 100, "{name}: {explained}");
    }
    let ended = goodput(["explain", "speed"]).with_code(2);
    assert!(ended.stderr.contains("speed") && ended.stderr.contains("ttft"), "{}", ended.stderr);
    assert_eq!(runs(two_runs()).len(), 2, "reading makes no runs");
}

#[test]
fn a_run_remembers_the_slo_it_was_made_for() {
    let (_server, url) = exact(10, 2, 8, &[]);
    let out = tempdir().expect("a folder");
    let file = out.path().join("slo.toml");
    for (name, slo) in [("inline", "ttft:20s,tpot:20s"), ("file", file.to_str().expect("UTF-8"))] {
        fs::write(&file, SLO_FILE).expect("a file");
        let args = format!("--concurrency 2 --requests 4 {TINY} --name {name} --slo {slo} --quiet --json");
        let made = goodput(run_args(&url, out.path(), &args)).with_code(0).json();
        // The file may be gone when the run is read again.
        fs::remove_file(&file).expect("the file");
        let run = out.path().join(name);
        assert_eq!(made["goodput"]["attainment"]["value"], 1.0);
        assert_eq!(show(&run, &["--json"]).with_code(0).json()["goodput"], made["goodput"]);
        let other = show(&run, &["--json", "--slo", "ttft:1ns"]).with_code(0).json();
        assert_eq!(other["goodput"]["good"], 0, "another SLO on the command line wins");
    }
}

const SLO_FILE: &str = r#"
window = "whole"
workload = "eight random tokens"
attainment = 0.9

[load]
concurrency = 2

[[objective]]
metric = "ttft"
limit = "20s"
"#;

/// What the client says of itself is about the run, not about the program's start and end.
#[test]
fn the_manifest_accounts_for_the_run_alone() {
    let manifest = json_file(&two_runs().join("zulu/manifest.json"));
    let (client, clock) = (&manifest["client"], &manifest["clock"]);
    let run_ns = clock["end"]["run_ns"].as_f64().unwrap() - clock["start"]["run_ns"].as_f64().unwrap();
    let cores = client["cpu_ns"].as_f64().unwrap() / run_ns;
    assert!((cores - client["cores_used"].as_f64().unwrap()).abs() < 1e-6, "{client}");
    assert!(client["receive_path"].as_str().unwrap().contains("recvmsg"));
}
