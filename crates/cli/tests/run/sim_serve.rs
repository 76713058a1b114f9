//! `goodput sim serve`: the simulated engine over sockets, held against the client, its own truth and its metrics page.
//! How long anything took is no test's business here.

use crate::goodput::{figure, goodput, run_args};
use crate::sim::serve;
use goodput_observe::expose::{Format, read};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use tempfile::tempdir;

/// The body of `GET path`.
fn get(url: &str, path: &str) -> String {
    let host = url.strip_prefix("http://").expect("an HTTP address");
    let mut stream = TcpStream::connect(host).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in UTF-8");
    answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
}

fn agrees(engine: &str, protocol: &str, names: [&str; 3]) {
    let folder = tempdir().expect("a folder");
    let (truth, out) = (folder.path().join("truth.jsonl"), folder.path().join("runs"));
    let truth = truth.to_str().expect("UTF-8");
    let flags = ["serve", "--engine", engine, "--profile", "illustrative", "--speed", "50"];
    let server = serve(&[&flags[..], &["--max-num-seqs", "3", "--truth", truth]].concat());
    let load =
        "--concurrency 4 --requests 20 --warmup 0 --input-tokens 40 --output-tokens 12 --tokenizer bytes";
    let args = format!(
        "{load} --data random --protocol {protocol} --ignore-eos --prefix-tokens 32 --json --quiet --truth {truth}"
    );
    let summary = goodput(run_args(&server.url, &out, &args)).with_code(0).json();
    let expected = [
        ("/counts/ok", 20.0),
        ("/tokens/output", 240.0),
        ("/truth/matched", 20.0),
        ("/truth/without_truth", 0.0),
    ];
    for (pointer, value) in expected {
        assert_eq!(figure(&summary, pointer), value, "{engine}: {pointer}");
    }
    let account: Value = serde_json::from_str(&get(&server.url, "/truth")).expect("JSON");
    assert_eq!(account["requests"]["finished"], 20);
    assert_eq!(account["tokens"], 240);
    assert_eq!(
        (&account["engine"]["finished"], &account["engine"]["generated_tokens"]),
        (&20.into(), &240.into())
    );
    let page = read(get(&server.url, "/metrics").as_bytes(), Format::Text).whole().expect("a page");
    let value = |name: &str| page.samples(name).map(|sample| sample.value).sum::<f64>();
    assert_eq!(names.map(value), [20.0, 240.0, figure(&summary, "/tokens/input")], "{engine}");
    let lines = fs::read_to_string(truth).expect("text");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let cached: u64 =
        lines.iter().map(|line| line["engine"]["cached_tokens"].as_u64().expect("a count")).sum();
    assert_eq!(account["engine"]["prefix_hit_tokens"], cached, "{engine}");
    assert!(cached > 0, "the prompts share a prefix");
}

#[test]
fn vllms_client_truth_and_page_agree() {
    let names = ["vllm:request_success_total", "vllm:generation_tokens_total", "vllm:prompt_tokens_total"];
    agrees("vllm", "openai-completions", names);
}

#[test]
fn sglangs_client_truth_and_page_agree() {
    let names = ["sglang:num_requests_total", "sglang:generation_tokens_total", "sglang:prompt_tokens_total"];
    agrees("sglang", "sglang", names);
}

#[test]
fn what_cannot_be_served_is_refused() {
    for (flags, said) in [
        (&["--profile", "nope"][..], "illustrative"),
        (&["--profile", "illustrative", "--speed", "0"], "0.001"),
        (&["--profile", "illustrative", "--bucket-time-to-first-token", "2", "1"], "rising"),
        (&["--profile", "illustrative", "--fault", "nope"], "clock_step"),
    ] {
        let ended = goodput(["sim", "serve", "--port", "0"].iter().chain(flags)).with_code(2);
        assert!(ended.stderr.contains(said), "{flags:?}: {}", ended.stderr);
    }
}
