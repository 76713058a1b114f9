//! How a run ends: killed, interrupted, refused, failed, or past a gate.

use crate::goodput::{TINY, command, exact, figure, goodput, only_run, run_args, start, wait_for};
use goodput_server::Running;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use tempfile::tempdir;

/// Requests that the server had finished well before this returns: 150 more have been finished since, which takes
/// 1.5 s. Even a client that gets a core late has read and stored them.
fn long_finished(server: &Running) -> f64 {
    let finished = |at_least: u64| {
        wait_for("requests to finish", || {
            let finished = server.truth().expect("a server").requests.finished;
            (finished >= at_least).then_some(finished)
        })
    };
    let before = finished(40);
    finished(before + 150);
    before as f64
}

fn long_run(url: &str, out: &Path) -> Vec<String> {
    run_args(url, out, &format!("--rate 100 --duration 50s {TINY} --json --quiet"))
}

#[test]
fn a_killed_run_keeps_the_requests_that_were_finished() {
    let (server, url) = exact(20, 5, 4, &[]);
    let out = tempdir().unwrap();
    let run = start(&mut command(long_run(&url, out.path())), None);
    let before = long_finished(&server);
    run.signal("KILL");
    assert_eq!(run.ended().code, None, "killed by a signal");

    let shown = goodput(["show", out.path().to_str().unwrap(), "--json"]).with_code(0).json();
    assert_eq!(shown["partial"], true);
    assert!(figure(&shown, "/counts/ok") >= before, "{before} finished in time: {}", shown["counts"]);
    let report = goodput(["show", out.path().to_str().unwrap()]).with_code(0).stdout;
    assert!(report.contains("killed"), "{report}");
}

#[test]
fn an_interrupted_run_is_saved_and_says_so() {
    let (server, url) = exact(20, 5, 4, &[]);
    let out = tempdir().unwrap();
    let run = start(&mut command(long_run(&url, out.path())), None);
    let before = long_finished(&server);
    run.signal("INT");
    let ended = run.ended().with_code(130);
    let summary = ended.json();
    assert_eq!(summary["partial"], true);
    assert!(figure(&summary, "/counts/ok") >= before, "{before} finished in time: {}", summary["counts"]);
    assert!(figure(&summary, "/counts/never_released") > 1_000.0);
    assert!(only_run(out.path()).join("requests.parquet").is_file());
    let shown = goodput(["show", out.path().to_str().unwrap(), "--json"]).with_code(0).json();
    assert_eq!(shown, summary, "what is on disk says the same");
}

/// Arguments that are refused before anything is sent: what the message must name and explain.
#[test]
fn wrong_input_is_refused_with_the_flag_and_what_was_expected() {
    let (server, url) = exact(5, 0, 2, &[]);
    let out = tempdir().unwrap();
    let cases = [
        ("--nonsense", &["--nonsense"][..]),
        ("--rate fast", &["--rate", "fast", "300/min"]),
        ("--rate 0", &["--rate", "0"]),
        ("--rate -5", &["--rate", "-5", "300/min"]),
        ("", &["--rate", "--concurrency"]),
        ("--rate 5 --duration soon", &["--duration", "soon", "20s"]),
        ("--rate inf --duration 5s", &["infinite rate", "--requests"]),
        ("--concurrency 0", &["--concurrency", "0"]),
        ("--ramp 5:50", &["--ramp", "5:50:30s"]),
        ("--steps 10,20", &["--steps", "10:30s"]),
        ("--rate 5 --slo ttft", &["--slo", "ttft:500ms"]),
        ("--rate 5 --slo latency:5s", &["latency", "ttft"]),
        ("--rate 5 --gate", &["--slo"]),
        ("--rate 5 --burstiness -1", &["--burstiness", "positive"]),
        ("--rate 5 --warmup some", &["--warmup", "some", "--warmup 0"]),
        ("--rate 5 --percentiles 50,200", &["--percentiles", "50,95,99.9"]),
        ("--rate 5 --protocol grpc", &["--protocol", "openai-chat"]),
        ("--rate 5 --ruler inches", &["inches", "canonical"]),
        ("--rate 5 --header colourless", &["--header", "KEY=VALUE"]),
        ("--rate 5 --input-tokens many", &["--input-tokens", "uniform(100,900)"]),
        ("--rate 5 --output-tokens empirical(no/such)", &["--output-tokens", "no/such"]),
        ("--rate 5 --tokenizer no/such", &["no/such", "tiktoken:NAME"]),
        ("--rate 5 --tokenizer tiktoken:none", &["tiktoken", "none", "cl100k_base"]),
        ("--rate 5 --data sharegpt", &["--data-path"]),
        ("--rate 5 --data sharegpt --data-path no/such --tokenizer bytes", &["no/such"]),
        ("--rate 5 --data-path some.json", &["--data-path", "--data"]),
        ("--rate 5 --body [1]", &["--body", "object"]),
        ("--plan no/such", &["no/such"]),
        ("--plan no/such --rate 5", &["--plan", "--rate"]),
        ("--plan no/such --model m", &["--plan", "--model"]),
        ("--plan no/such --timeout 5s", &["--plan", "--timeout"]),
        ("--plan no/such --data random", &["--plan", "--data"]),
        ("--rate 5 --ca no/such", &["--ca", "no/such"]),
        ("--rate 5 --header a/b=c", &["--header", "a/b"]),
        ("--concurrency 2 --arrivals constant", &["--arrivals", "--rate"]),
        ("--concurrency 2 --burstiness 0.5", &["--burstiness", "--rate"]),
        ("--rate 5 --salvage", &["--data-path"]),
        (&format!("--concurrency 999999999 --requests 2 {TINY}"), &["--concurrency", "open files", "ulimit"]),
    ];
    for (args, words) in cases {
        let ended = goodput(run_args(&url, out.path(), args)).with_code(2);
        assert_eq!(ended.stdout, "", "{args}");
        for word in words {
            assert!(ended.stderr.contains(word), "`{args}` does not say {word:?}:\n{}", ended.stderr);
        }
    }
    assert_eq!(out.path().read_dir().unwrap().count(), 0, "a refused run leaves nothing behind");
    assert_eq!(server.stop().unwrap().requests.arrived, 0, "nothing was measured");
}

#[test]
fn a_url_that_is_none_is_bad_input_and_one_without_a_server_an_invalid_run() {
    let out = tempdir().unwrap();
    let ended = goodput(run_args("not a url", out.path(), &format!("--rate 5 {TINY}"))).with_code(2);
    assert!(ended.stderr.contains("not a url"), "{}", ended.stderr);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let ended = goodput(run_args(&url, out.path(), &format!("--rate 5 {TINY}"))).with_code(3);
    assert!(ended.stderr.contains(&url), "{}", ended.stderr);
}

/// A server that answers everything with this status.
fn always(status: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("a bound socket"));
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            // Probes fit into one segment, and one that only connects reads nothing.
            if client.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                drop(client.write_all(answer.as_bytes()));
            }
        }
    });
    url
}

#[test]
fn a_server_without_models_says_what_is_missing() {
    let out = tempdir().unwrap();
    for (status, code, words) in
        [(401, 3, ["401", "--api-key"]), (404, 3, ["none of the endpoints", "--protocol"])]
    {
        let ended =
            goodput(run_args(&always(status), out.path(), &format!("--rate 5 {TINY}"))).with_code(code);
        for word in words {
            assert!(ended.stderr.contains(word), "{status}: no {word:?} in {}", ended.stderr);
        }
    }
    let chat = format!("--rate 5 {TINY} --protocol openai-chat");
    let ended = goodput(run_args(&always(404), out.path(), &chat)).with_code(2);
    assert!(ended.stderr.contains("--model"), "{}", ended.stderr);
}

#[test]
fn tls_that_cannot_work_says_what_to_do() {
    let (server, _) = exact(5, 0, 2, &[]);
    let url = format!("https://{}", server.addr);
    let out = tempdir().unwrap();
    let ended = goodput(run_args(&url, out.path(), &format!("--rate 5 {TINY}"))).with_code(3);
    assert!(ended.stderr.contains("http://") && ended.stderr.contains("--ca"), "{}", ended.stderr);
    let ca = out.path().join("ca.pem");
    std::fs::write(&ca, "no certificate").unwrap();
    let args = format!("--rate 5 {TINY} --ca {}", ca.display());
    let ended = goodput(run_args(&url, out.path(), &args)).with_code(2);
    assert!(ended.stderr.contains("ca.pem") && ended.stderr.contains("PEM"), "{}", ended.stderr);
}

#[test]
fn a_run_is_never_overwritten() {
    let (_server, url) = exact(5, 0, 2, &[]);
    let out = tempdir().unwrap();
    let args =
        || run_args(&url, out.path(), &format!("--concurrency 1 --requests 2 --name one {TINY} --quiet"));
    goodput(args()).with_code(0);
    let ended = goodput(args()).with_code(2);
    assert!(
        ended.stderr.contains("--name") && ended.stderr.contains("never overwritten"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_gate_turns_a_missed_slo_into_exit_code_1() {
    let (_server, url) = exact(20, 1, 4, &[]);
    let out = tempdir().unwrap();
    for (slo, gate, code) in [
        ("ttft:1ms", "--gate", 1),
        ("ttft:1ms", "", 0),
        ("ttft:20s", "--gate", 0),
        ("ttft.p50:1ms", "--gate", 1),
        ("ttft.p50:20s", "--gate", 0),
    ] {
        let load = format!("--concurrency 10 --requests 40 {TINY} --slo {slo} {gate} --json --quiet");
        goodput(run_args(&url, out.path(), &load)).with_code(code);
    }
}
