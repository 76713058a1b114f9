//! `goodput sim run` and `goodput sim profiles`: the simulated engine in virtual time, from the command line.

use crate::goodput::{Ended, figure, goodput, only_run, runs};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::tempdir;

fn sim(out: &Path, args: &str) -> Ended {
    let out = out.display().to_string();
    let fixed = ["sim", "run", "--json", "--quiet", "--out", &out].map(str::to_owned);
    goodput(fixed.into_iter().chain(args.split_whitespace().map(str::to_owned)))
}

fn summary(args: &str) -> Value {
    let out = tempdir().expect("a folder");
    sim(out.path(), args).with_code(0).json()
}

/// Every file of the one run in a folder; the manifest without its command line, which names the folder.
fn content(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut content = BTreeMap::new();
    for file in runs(&only_run(out)).into_iter().filter(|path| path.is_file()) {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        content.insert(name, fs::read(&file).expect("a file"));
    }
    let mut manifest: Value = serde_json::from_slice(&content["manifest.json"]).expect("JSON");
    manifest["command_line"] = Value::Null;
    content.insert("manifest.json".to_owned(), manifest.to_string().into_bytes());
    content
}

const CHAT: &str =
    "--profile llama-3.1-8b-h100 --rate 4 --requests 60 --input-tokens 1800 --output-tokens 50";

#[test]
fn the_same_arguments_give_the_same_bytes() {
    let (a, b) = (tempdir().unwrap(), tempdir().unwrap());
    let noisy = format!("{CHAT} --seed 1 --noise-cv 0.1 --num-speculative-tokens 3");
    let first = sim(a.path(), &noisy).with_code(0);
    let second = sim(b.path(), &noisy).with_code(0);
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(content(a.path()), content(b.path()));
    // Once more into the same folder is another run of the same figures, and overwrites nothing.
    sim(a.path(), &noisy).with_code(0);
    assert_eq!(runs(a.path()).len(), 2);
    // The schedule is that of a real run: the tokenizer has no part in it.
    let bytes = tempdir().unwrap();
    sim(bytes.path(), &format!("{noisy} --tokenizer bytes")).with_code(0);
    assert_eq!(content(bytes.path())["schedule.csv"], content(b.path())["schedule.csv"]);
    // Another seed is another run.
    let other =
        sim(b.path(), &format!("{CHAT} --seed 2 --noise-cv 0.1 --num-speculative-tokens 3")).with_code(0);
    assert_ne!(other.json()["metrics"], first.json()["metrics"]);
}

#[test]
fn a_run_is_stored_like_a_real_one_and_says_that_it_is_simulated() {
    let out = tempdir().unwrap();
    let summary = sim(out.path(), CHAT).with_code(0).json();
    assert_eq!((figure(&summary, "/counts/ok"), figure(&summary, "/tokens/output")), (60.0, 3_000.0));
    let run = runs(out.path()).pop().expect("a run");
    for file in
        ["plan.toml", "schedule.csv", "manifest.json", "requests.parquet", "chunks.parquet", "summary.json"]
    {
        assert!(run.join(file).is_file(), "{file}");
    }
    let shown = goodput(["show", &run.display().to_string(), "--json"]).with_code(0).json();
    assert_eq!(shown, summary);
    let text = goodput(["show", &run.display().to_string()]).with_code(0).stdout;
    assert!(text.contains("simulated:llama-3.1-8b-h100") && text.contains("simulated vllm"), "{text}");
    assert!(text.contains("every instant is that of a model"), "{text}");
    let manifest: Value = serde_json::from_slice(&fs::read(run.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(
        manifest.pointer("/engine/facts/counters/finished"),
        Some(&Value::from(70)),
        "warm-up included"
    );
}

#[test]
fn chunked_prefill_takes_the_stalls_and_costs_a_little() {
    let load =
        "--profile illustrative --rate 0.5 --requests 60 --input-tokens 16000 --output-tokens 200 --warmup 0";
    let whole = summary(load);
    let chunked = summary(&format!("{load} --enable-chunked-prefill --max-num-batched-tokens 1024"));
    let worst = |summary: &Value| figure(summary, "/metrics/max_itl/max");
    // Whole: 20 ms and 16,000 x 45.166 us are 742.7 ms; chunked: 20 ms and 1,023 x 45.166 us are 66.2 ms.
    assert!(worst(&whole) > 740.0, "{}", worst(&whole));
    assert!(worst(&chunked) < 67.0, "{}", worst(&chunked));
    let ttft = |summary: &Value| figure(summary, "/metrics/ttft/p50/value");
    assert!(ttft(&chunked) > ttft(&whole), "each chunk costs a step");
}

#[test]
fn a_shared_prefix_lowers_ttft_where_caching_is_on() {
    let load = format!("{CHAT} --prefix-tokens 1600");
    let (on, off) = (summary(&load), summary(&format!("{load} --no-enable-prefix-caching")));
    let ttft = |summary: &Value| figure(summary, "/metrics/ttft/p50/value");
    assert!(ttft(&on) < 0.5 * ttft(&off), "{} and {}", ttft(&on), ttft(&off));
    assert_eq!(figure(&on, "/tokens/cached_input"), 60.0 * 1_600.0, "the warm-up has filled the cache");
    assert_eq!(figure(&off, "/tokens/cached_input"), 0.0);
}

#[test]
fn speculation_parts_chunk_gaps_from_token_latency() {
    let load = "--profile illustrative --rate 1 --requests 40 --input-tokens 100 --output-tokens 200";
    let summary = summary(&format!("{load} --num-speculative-tokens 3 --acceptance 0.8"));
    let gap = figure(&summary, "/metrics/chunk_gap/mean");
    let token = figure(&summary, "/metrics/itl/mean");
    // (1 - 0.8^4) / (1 - 0.8) = 2.952 tokens a step.
    assert!((gap / token / 2.952 - 1.0).abs() < 0.05, "{gap} and {token}");
}

#[test]
fn pressure_on_the_cache_shows_as_preemptions() {
    let out = tempdir().unwrap();
    let tight = "--profile llama-3.1-8b-h100 --rate inf --requests 60 --input-tokens 1800 --output-tokens 400 \
                 --num-gpu-blocks-override 2100";
    for (engine, least) in [("vllm", 1.0), ("sglang", 0.0)] {
        sim(out.path(), &format!("{tight} --engine {engine} --name {engine}")).with_code(0);
        let path = out.path().join(engine).join("manifest.json");
        let manifest: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let preemptions = figure(&manifest, "/engine/facts/counters/preemptions");
        assert!(preemptions >= least, "{engine}: {preemptions}");
    }
}

#[test]
fn a_full_queue_refuses_and_failures_stay_in_the_denominator() {
    let summary = summary(
        "--profile illustrative --rate inf --requests 50 --input-tokens 100 --output-tokens 20 --warmup 0 \
         --max-num-queued-reqs 30",
    );
    assert_eq!(figure(&summary, "/counts/outcomes/http_error"), 20.0);
    assert_eq!((figure(&summary, "/counts/issued"), figure(&summary, "/counts/ok")), (50.0, 30.0));
}

#[test]
fn the_engine_gives_its_own_account() {
    let out = tempdir().unwrap();
    let truth = out.path().join("truth.jsonl");
    let flags = format!("{CHAT} --engine-truth {}", truth.display());
    sim(out.path(), &flags).with_code(0);
    let lines: Vec<Value> =
        fs::read_to_string(&truth).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 70);
    for line in &lines {
        let at = |key: &str| line.pointer(&format!("/request/{key}")).and_then(Value::as_u64).expect(key);
        assert!(at("arrived") <= at("admitted") && at("admitted") < at("prefilled"));
        assert_eq!(line.pointer("/request/tokens").and_then(Value::as_array).map(Vec::len), Some(50));
    }
}

#[test]
fn mistakes_say_what_is_known() {
    let (out, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    let refused = |args: &str| sim(out.path(), args).with_code(2).stderr;
    assert!(refused("--profile gpt --rate 1").contains("llama-3.1-8b-h100"));
    let own = elsewhere.path().join("own.toml");
    fs::write(&own, "name = \"x\"\nabout = \"y\"\nmodell = \"z\"\n").unwrap();
    let said = refused(&format!("--profile {} --rate 1", own.display()));
    assert!(said.contains("own.toml:3: unknown field `modell`") && said.contains("`model`"), "{said}");
    assert!(
        refused("--profile illustrative --rate 1 --max-num-batched-tokens 100").contains("max-model-len")
    );
    assert!(refused("--profile illustrative").contains("--rate"));
    assert!(runs(out.path()).is_empty());
}

#[test]
fn profiles_are_listed_with_their_sources() {
    let text = goodput(["sim", "profiles"]).with_code(0).stdout;
    for part in
        ["llama-3.1-8b-h100", "llama-3.1-70b-8xl4", "illustrative", "datasheet", "assumed, not measured"]
    {
        assert!(text.contains(part), "{part}");
    }
    let json = goodput(["sim", "profiles", "--json"]).with_code(0).json();
    let profiles = json.as_array().expect("a list");
    assert!(profiles.len() >= 8);
    assert!(profiles.iter().all(|profile| profile["sources"].as_array().is_some_and(|s| !s.is_empty())));
}
