//! A run that goes well: what is on stdout, on stderr and on disk.

use crate::goodput::{TINY, command, exact, figure, goodput, json_file, only_run, run_args, start};
use tempfile::tempdir;

#[test]
fn json_and_quiet_print_the_summary_and_nothing_else() {
    let (server, url) = exact(20, 2, 8, &[]);
    let out = tempdir().unwrap();
    let args = run_args(&url, out.path(), &format!("--rate 100 --requests 60 {TINY} --json --quiet"));
    let ended = goodput(args).with_code(0);
    assert_eq!(ended.stderr, "");
    let summary = ended.json();
    assert_eq!(summary["schema"], "goodput.summary/1.1");
    assert_eq!((&summary["ruler"], &summary["partial"]), (&"canonical".into(), &false.into()));
    for pointer in
        ["/counts/issued", "/counts/ok", "/counts/outcomes/ok", "/metrics/ttft/n", "/metrics/e2e/n"]
    {
        assert_eq!(figure(&summary, pointer), 60.0, "{pointer}");
    }
    assert_eq!(figure(&summary, "/counts/never_released"), 0.0);
    assert_eq!(figure(&summary, "/tokens/output"), 480.0);
    assert_eq!(figure(&summary, "/tokens/sources/server"), 60.0);
    // Nothing can be faster than the server is.
    assert!(figure(&summary, "/metrics/ttft/min") >= 19.9, "{}", summary["metrics"]["ttft"]);
    assert_eq!(server.stop().unwrap().requests.finished, 60);

    let run = only_run(out.path());
    assert_eq!(summary["run"], run.file_name().unwrap().to_str().unwrap());
    assert_eq!(json_file(&run.join("summary.json")), summary, "the file says what was printed");
    for file in
        ["plan.toml", "schedule.csv", "workload.json", "manifest.json", "requests.parquet", "chunks.parquet"]
    {
        assert!(run.join(file).is_file(), "{file}");
    }
    assert!(!run.join("log").exists(), "the log has become Parquet");
}

#[test]
fn a_reader_gets_a_report_and_is_told_where_the_run_is() {
    let (_server, url) = exact(10, 1, 8, &[]);
    let out = tempdir().unwrap();
    let args = run_args(&url, out.path(), &format!("--concurrency 4 --requests 40 {TINY} --slo ttft:500ms"));
    let ended = goodput(args).with_code(0);
    let run = only_run(out.path());
    assert!(ended.stderr.contains(&run.display().to_string()), "{}", ended.stderr);
    for word in ["TTFT", "TPOT", "ITL", "E2E", "p99", "goodput", &url, "goodput-sim"] {
        assert!(ended.stdout.contains(word), "no {word} in the report:\n{}", ended.stdout);
    }
    // Piped output has no colours and no progress line in it.
    assert!(!ended.stdout.contains('\x1b') && !ended.stderr.contains('\x1b'));
}

/// The two commands whose spelling is fixed, the first for a shorter time.
#[test]
fn the_documented_commands_work_as_they_are_written() {
    let (_server, url) = exact(50, 10, 64, &[]);
    let (a, b) = (tempdir().unwrap(), tempdir().unwrap());
    let open = run_args(
        &url,
        a.path(),
        "--protocol openai-chat --model m --rate 100 --duration 1s --data random --input-tokens 32 \
         --tokenizer bytes --max-tokens 64 --json --quiet",
    );
    let summary = goodput(open).with_code(0).json();
    assert!(figure(&summary, "/counts/issued") > 50.0);
    assert_eq!(summary["counts"]["ok"], summary["counts"]["issued"]);
    assert_eq!(figure(&summary, "/metrics/input_tokens/min"), 32.0);
    assert_eq!(figure(&summary, "/metrics/output_tokens/min"), 64.0);

    let closed = run_args(
        &url,
        b.path(),
        "--model m --requests 1 --concurrency 1 --warmup 0 --data random --input-tokens 8 --tokenizer bytes \
         --max-tokens 64 --ignore-eos --json",
    );
    let ended = goodput(closed).with_code(0);
    assert_eq!(figure(&ended.json(), "/counts/ok"), 1.0);
    assert!(ended.stderr.contains(&only_run(b.path()).display().to_string()));

    let folder = a.path().to_str().unwrap();
    let vllm = goodput(["show", folder, "--ruler", "vllm", "--json"]).with_code(0).json();
    assert_eq!(vllm["ruler"], "vllm");
    let all = goodput(["show", folder, "--rulers"]).with_code(0).stdout;
    for ruler in ["canonical", "vllm", "vllm-rs", "sglang", "sglang-oai"] {
        assert!(all.contains(ruler), "{all}");
    }
    let explained = goodput(["explain", "tpot", "--ruler", "sglang"]).with_code(0).stdout;
    assert!(explained.contains("TPOT") && explained.contains("sglang"), "{explained}");
}

/// Two slots of 100 ms complete 20 requests a second. Of 50 a second the last of 40 waits for 1.2 s, and a tool that
/// starts its clock when a request is sent never sees that.
#[test]
fn a_cap_shows_the_wait_that_other_rulers_hide() {
    let (_server, url) = exact(100, 0, 1, &[]);
    let out = tempdir().unwrap();
    let load = "--rate 50 --arrivals constant --concurrency 2 --requests 40 --json --quiet";
    let own = goodput(run_args(&url, out.path(), &format!("{load} {TINY}"))).with_code(0).json();
    assert!(figure(&own, "/metrics/cap_wait/max") > 800.0, "{}", own["metrics"]["cap_wait"]);
    assert!(figure(&own, "/metrics/ttft/max") > 900.0, "{}", own["metrics"]["ttft"]);
    assert!(figure(&own, "/load/lateness_ms/max") > 800.0);
    assert!(figure(&own, "/concurrency/peak") <= 2.0);

    let folder = out.path().to_str().unwrap();
    let vllm = goodput(["show", folder, "--ruler", "vllm", "--json"]).with_code(0).json();
    let hidden = figure(&vllm, "/metrics/ttft/p50/value");
    let shown = figure(&own, "/metrics/ttft/p50/value");
    assert!(shown > 400.0 && shown > 2.0 * hidden, "{hidden} ms under vllm, {shown} ms here");
}

#[test]
fn closed_loops_and_bursts_send_what_was_asked() {
    let (_server, url) = exact(5, 0, 2, &[]);
    let out = tempdir().unwrap();
    for (load, kind, peak) in [("--concurrency 3", "closed", 3.0), ("--rate inf", "open", 30.0)] {
        let args = run_args(&url, out.path(), &format!("{load} --requests 30 {TINY} --json --quiet"));
        let summary = goodput(args).with_code(0).json();
        assert_eq!(summary["load"]["kind"], kind);
        assert_eq!(figure(&summary, "/counts/ok"), 30.0);
        assert!(figure(&summary, "/concurrency/peak") <= peak, "{load}");
    }
}

#[test]
fn every_protocol_and_whole_answers() {
    let (_server, url) = exact(5, 1, 4, &[]);
    let out = tempdir().unwrap();
    for extra in
        ["--protocol openai-chat", "--protocol openai-completions", "--protocol sglang", "--no-stream"]
    {
        let args = run_args(
            &url,
            out.path(),
            &format!("--concurrency 2 --requests 6 {TINY} {extra} --json --quiet"),
        );
        let summary = goodput(args).with_code(0).json();
        assert_eq!(
            (figure(&summary, "/counts/ok"), figure(&summary, "/tokens/output")),
            (6.0, 24.0),
            "{extra}"
        );
        let with_ttft = if extra == "--no-stream" { 0.0 } else { 6.0 };
        assert_eq!(figure(&summary, "/metrics/ttft/n"), with_ttft, "{extra}");
    }
}

#[test]
fn requests_take_turns_among_replicas() {
    let (one, first) = exact(5, 0, 2, &[]);
    let (two, second) = exact(5, 0, 2, &[]);
    let out = tempdir().unwrap();
    let mut args = run_args(&first, out.path(), &format!("--concurrency 2 --requests 20 {TINY} --quiet"));
    args.extend(["--url".to_owned(), second]);
    goodput(args).with_code(0);
    assert_eq!((one.stop().unwrap().requests.finished, two.stop().unwrap().requests.finished), (10, 10));
}

#[test]
fn help_and_completions_are_complete() {
    let help = goodput(["--help"]).with_code(0).stdout;
    for part in ["run", "show", "explain", "sim", "demo", "Exit codes", "130"] {
        assert!(help.contains(part), "{help}");
    }
    let script = goodput(["completions", "bash"]).with_code(0).stdout;
    assert!(script.contains("--first-token-timeout") && script.contains("complete"));
    let version = goodput(["--version"]).with_code(0).stdout;
    assert_eq!(version.trim(), concat!("goodput ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    for args in [["run", "--help"], ["run", "--nonsense"]] {
        let ended = start(command(args).env("NO_COLOR", "1"), None).ended();
        assert!(!ended.stdout.contains('\x1b') && !ended.stderr.contains('\x1b'));
    }
}
