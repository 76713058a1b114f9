//! `goodput sim`: the built-in server as a program of its own.

use crate::goodput::{Started, TINY, command, exact, figure, goodput, run_args, start, testdata, wait_for};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use tempfile::{TempDir, tempdir};

/// A server process and its URL.
pub(crate) struct Serving {
    process: Started,
    pub(crate) url: String,
    /// Holds what it prints, which has to be read while it runs.
    _folder: TempDir,
}

/// `goodput sim` on a free port.
pub(crate) fn serve(args: &[&str]) -> Serving {
    let folder = tempdir().expect("a folder");
    let printed = folder.path().join("stdout");
    let mut server = command(["sim"].iter().chain(args).chain(&["--port", "0"]));
    let process = start(&mut server, Some(File::create(&printed).expect("a file")));
    let url = wait_for("the server to listen", || {
        let said = fs::read_to_string(&printed).expect("text");
        said.strip_prefix("listening on ")?.strip_suffix('\n').map(str::to_owned)
    });
    Serving { process, url, _folder: folder }
}

fn run(url: &str, out: &Path, args: &str) -> Value {
    goodput(run_args(url, out, &format!("{TINY} --json --quiet {args}"))).with_code(0).json()
}

#[test]
fn a_server_of_exact_timing_serves_and_gives_account() {
    let out = tempdir().unwrap();
    let truth = out.path().join("truth.jsonl");
    let flags =
        ["fixed", "--ttft", "20ms", "--itl", "2ms", "--tokens", "8", "--truth", truth.to_str().unwrap()];
    let server = serve(&flags);
    let summary = run(&server.url, out.path(), "--concurrency 2 --requests 10");
    assert_eq!((figure(&summary, "/counts/ok"), figure(&summary, "/tokens/output")), (10.0, 80.0));
    assert!(figure(&summary, "/metrics/ttft/min") >= 19.9);

    server.process.signal("TERM");
    let ended = server.process.ended().with_code(0);
    assert!(ended.stderr.contains("served 10 requests (10 finished"), "{}", ended.stderr);
    let lines = fs::read_to_string(&truth).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 10);
    assert!(lines.iter().all(|line| line["fate"] == "finished" && line["tokens"] == 8), "{lines:#?}");
}

/// The role comes after 90 ms and the first of four tokens after 1,390 ms.
#[test]
fn a_byte_script_is_played_to_a_run() {
    let script = testdata("cases/11-role-chunk-before-first-token/stream.replay");
    let server = serve(&["script", &script]);
    let out = tempdir().unwrap();
    let load = "--protocol openai-chat --model m --concurrency 1 --requests 2";
    let summary = run(&server.url, out.path(), load);
    assert_eq!((figure(&summary, "/counts/ok"), figure(&summary, "/tokens/output")), (2.0, 8.0));
    assert!(figure(&summary, "/metrics/ttft/min") >= 1_389.9, "{}", summary["metrics"]["ttft"]);
    assert!(figure(&summary, "/metrics/first_chunk/min") < 1_000.0, "{}", summary["metrics"]["first_chunk"]);
    let folder = out.path().to_str().unwrap();
    let old = goodput(["show", folder, "--ruler", "vllm-0.32", "--json"]).with_code(0).json();
    assert!(figure(&old, "/metrics/ttft/min") < 1_000.0, "to which the role was a token");
}

#[test]
fn a_port_that_is_taken_is_refused_with_a_hint() {
    let (taken, _) = exact(1, 0, 1, &[]);
    let port = taken.addr.port().to_string();
    let ended = goodput(["sim", "fixed", "--port", &port]).with_code(2);
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.contains(&port) && ended.stderr.contains("--port"), "{}", ended.stderr);
}

#[test]
fn what_cannot_be_served_is_refused() {
    let out = tempdir().unwrap();
    let broken = out.path().join("broken.replay");
    fs::write(&broken, "AT_MS soon | x\n").unwrap();
    for (args, words) in [
        (&["sim", "script", "no/such"][..], &["no/such"][..]),
        (&["sim", "script", broken.to_str().unwrap()], &["broken.replay", "line 1"]),
        (&["sim", "fixed", "--fault", "nonsense"], &["nonsense", "error_after"]),
        (&["sim", "fixed", "--stall", "soon"], &["--stall", "soon"]),
        (&["sim", "fixed", "--ttft", "50"], &["--ttft", "50ms"]),
    ] {
        let ended = goodput(args).with_code(2);
        for word in words {
            assert!(ended.stderr.contains(word), "`{args:?}` does not say {word:?}:\n{}", ended.stderr);
        }
    }
}
