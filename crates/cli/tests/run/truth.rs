//! `--truth`: a run held against the server's own record. How large an error is, is no test's business here.

use crate::goodput::{Ended, TINY, figure, goodput, only_run, run_args};
use crate::sim::{Serving, serve};
use std::fs;
use std::path::Path;
use tempfile::tempdir;

const LOAD: &str = "--concurrency 2 --requests 10 --quiet";

fn serve_with(truth: &Path) -> Serving {
    let truth = truth.to_str().expect("UTF-8");
    serve(&["fixed", "--ttft", "20ms", "--itl", "2ms", "--tokens", "8", "--truth", truth])
}

/// Runs against `url` with runs in `out`; `truth` is the file to hold it against.
fn run(url: &str, out: &Path, truth: &Path, more: &str) -> Ended {
    goodput(run_args(url, out, &format!("{LOAD} {TINY} {more} --truth {}", truth.display())))
}

#[test]
fn a_run_is_held_against_the_servers_own_record() {
    let folder = tempdir().unwrap();
    let (truth, out) = (folder.path().join("truth.jsonl"), folder.path().join("runs"));
    let server = serve_with(&truth);
    // While the server runs on.
    let summary = run(&server.url, &out, &truth, "--json").with_code(0).json();
    for (pointer, n) in [
        ("/truth/matched", 10.0),
        ("/truth/without_truth", 0.0),
        ("/truth/server_only", 0.0),
        ("/truth/unaligned", 0.0),
        ("/truth/ttft_ms/n", 10.0),
        ("/truth/chunk_gap_ms/n", 70.0),
    ] {
        assert_eq!(figure(&summary, pointer), n, "{pointer}");
    }
    assert!(figure(&summary, "/truth/ttft_ms/server_p99") >= 19.9, "the server waits 20 ms");
    assert!(figure(&summary, "/truth/ttft_ms/client_p99") >= 19.9, "and nothing can come earlier");

    let (stored, file) = (only_run(&out), truth.to_str().unwrap());
    let stored = stored.to_str().unwrap();
    let again = goodput(["show", stored, "--truth", file, "--json"]).with_code(0).json();
    assert_eq!(again["truth"], summary["truth"], "the same join later");
    let plain = goodput(["show", stored, "--json"]).with_code(0).json();
    assert!(plain["truth"].is_null(), "only where it is asked for");
    let report = goodput(["show", stored, "--truth", file]).with_code(0).stdout;
    assert!(report.contains("against the server's own record: 10 of 10"), "{report}");
}

#[test]
fn a_record_that_cannot_be_joined_is_refused_by_name() {
    let folder = tempdir().unwrap();
    let (truth, out) = (folder.path().join("truth.jsonl"), folder.path().join("runs"));
    let server = serve_with(&truth);
    let missing = run(&server.url, &out, &folder.path().join("nowhere"), "").with_code(2);
    assert!(missing.stderr.contains("cannot read") && missing.stderr.contains("hint"), "{}", missing.stderr);
    assert!(!out.exists(), "refused before anything is sent");

    let other = folder.path().join("other.jsonl");
    fs::write(&other, "{\"n\": 1}\n").unwrap();
    let ended = run(&server.url, &out, &other, "").with_code(2);
    assert!(ended.stderr.contains("line 1 is not one of a truth file"), "{}", ended.stderr);
    assert!(ended.stdout.contains("TTFT"), "the report holds without it: {}", ended.stdout);
    let first = only_run(&out);

    // The record of a later run only.
    let (late_truth, late_out) = (folder.path().join("late.jsonl"), folder.path().join("late"));
    let late = serve_with(&late_truth);
    run(&late.url, &late_out, &late_truth, "").with_code(0);
    let ended =
        goodput(["show", first.to_str().unwrap(), "--truth", late_truth.to_str().unwrap()]).with_code(2);
    assert!(ended.stderr.contains("none of the 10 requests"), "{}", ended.stderr);
}
