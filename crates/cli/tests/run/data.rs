//! Prompts from files, and the tokenizers that count them.

use crate::goodput::{TINY, exact, figure, goodput, json_file, only_run, run_args, testdata};
use crate::recorder::Recorder;
use serde_json::json;
use std::fs;
use std::path::Path;
use tempfile::tempdir;

const CLOSED: &str = "--concurrency 2 --warmup 0 --json --quiet";

#[test]
fn sharegpt_entries_are_used_and_every_dropped_one_is_counted() {
    let (_server, url) = exact(5, 0, 2, &[]);
    let out = tempdir().unwrap();
    let file = testdata("cases/42-sharegpt-mixed-entries/sharegpt.json");
    let args = format!("{CLOSED} --requests 9 --data sharegpt --data-path {file} --tokenizer bytes");
    let summary = goodput(run_args(&url, out.path(), &args)).with_code(0).json();
    assert_eq!(figure(&summary, "/counts/ok"), 9.0);
    let workload = json_file(&only_run(out.path()).join("workload.json"));
    assert_eq!(workload["entries_read"], 16, "{workload:#}");
    assert_eq!(
        workload["dropped"],
        json!({"too_few_turns": 2, "no_conversation": 1, "empty_prompt": 2, "empty_completion": 1, "malformed": 1})
    );
}

#[test]
fn a_cut_file_is_refused_with_the_place_and_the_way_on() {
    let (_server, url) = exact(5, 0, 2, &[]);
    let out = tempdir().unwrap();
    let whole = fs::read(testdata("cases/42-sharegpt-mixed-entries/sharegpt.json")).unwrap();
    let cut = whole.len() * 3 / 4;
    let file = out.path().join("cut.json");
    fs::write(&file, &whole[..cut]).unwrap();
    let runs = out.path().join("runs");
    let args =
        format!("{CLOSED} --requests 4 --data sharegpt --data-path {} --tokenizer bytes", file.display());

    let ended = goodput(run_args(&url, &runs, &args)).with_code(2);
    for word in ["cut.json", &format!("byte {cut}"), "whole entries before it", "--salvage"] {
        assert!(ended.stderr.contains(word), "no {word:?} in {}", ended.stderr);
    }
    assert!(!runs.exists());

    let summary = goodput(run_args(&url, &runs, &format!("{args} --salvage"))).with_code(0).json();
    assert_eq!(figure(&summary, "/counts/ok"), 4.0);
    let workload = json_file(&only_run(&runs).join("workload.json"));
    assert_eq!(workload["damaged"]["byte"], cut, "{workload:#}");
    assert!(workload["dropped"]["too_few_turns"].as_u64() >= Some(1), "{workload:#}");
    let found = summary["findings"].as_array().unwrap();
    assert!(found.iter().any(|finding| finding["rule"] == "data_damaged"), "{found:#?}");
}

#[test]
fn lines_of_json_are_sent_as_they_are() {
    let (server, _) = exact(5, 0, 8, &[]);
    let recorder = Recorder::before(server.addr);
    let out = tempdir().unwrap();
    let file = out.path().join("prompts.jsonl");
    let lines = [
        json!({"prompt": "One river", "output_tokens": 3}),
        json!({"messages": [{"role": "system", "content": "Short."}, {"role": "user", "content": "One lake"}]}),
    ];
    fs::write(&file, format!("{}\n{}\n", lines[0], lines[1])).unwrap();
    let args = format!(
        "{CLOSED} --requests 2 --max-tokens 5 --salt none --data jsonl --data-path {} --tokenizer bytes",
        file.display()
    );
    let summary = goodput(run_args(&recorder.url(), &out.path().join("runs"), &args)).with_code(0).json();
    assert_eq!(figure(&summary, "/tokens/output"), 3.0 + 5.0);
    let bodies = recorder.bodies().join("\n");
    for text in ["One river", "Short.", "One lake", "\"max_tokens\":3", "\"max_tokens\":5"] {
        assert!(bodies.contains(text), "no {text} in {bodies}");
    }
}

/// The exact server counts bytes, and words of more than one byte cannot be joined to any number of them: a prompt
/// may miss its length by a word, and then the schedule says the length it has.
#[test]
fn the_schedule_has_the_lengths_that_the_server_counts() {
    let (_server, url) = exact(5, 0, 2, &[]);
    for (tokenizer, off_by) in [("bytes", 0), ("server", 10)] {
        let out = tempdir().unwrap();
        let args = format!("{CLOSED} --requests 6 --data random --input-tokens 40 --tokenizer {tokenizer}");
        let summary = goodput(run_args(&url, out.path(), &args)).with_code(0).json();
        let lengths = scheduled_lengths(&only_run(out.path()));
        assert_eq!(figure(&summary, "/tokens/input"), f64::from(lengths.iter().sum::<u32>()), "{tokenizer}");
        assert!(lengths.iter().all(|length| length.abs_diff(40) <= off_by), "{tokenizer}: {lengths:?}");
    }
}

#[test]
fn a_vocabulary_that_ships_with_the_program_needs_no_file() {
    let (_server, url) = exact(5, 0, 2, &[]);
    let out = tempdir().unwrap();
    let args =
        format!("{CLOSED} --requests 6 --data random --input-tokens 40 --tokenizer tiktoken:cl100k_base");
    goodput(run_args(&url, out.path(), &args)).with_code(0);
    let run = only_run(out.path());
    assert_eq!(scheduled_lengths(&run), [40; 6]);
    let workload = json_file(&run.join("workload.json"));
    assert_eq!((&workload["lengths_checked"], &workload["length_misses"]), (&json!(6), &json!(0)));
}

fn scheduled_lengths(run: &Path) -> Vec<u32> {
    let schedule = fs::read_to_string(run.join("schedule.csv")).expect("a schedule");
    let length =
        |line: &str| line.split(',').nth(3).and_then(|length| length.parse().ok()).expect("a length");
    schedule.lines().skip(1).map(length).collect()
}

#[test]
fn own_members_of_the_body_win() {
    let (server, _) = exact(5, 0, 2, &[]);
    let recorder = Recorder::before(server.addr);
    let out = tempdir().unwrap();
    let args = format!(
        "--concurrency 1 --requests 1 {TINY} --quiet --body {{\"temperature\":0.25,\"model\":\"mine\"}}"
    );
    goodput(run_args(&recorder.url(), out.path(), &args)).with_code(0);
    let bodies = recorder.bodies();
    let body: serde_json::Value = serde_json::from_str(&bodies[0]).unwrap();
    assert_eq!((&body["temperature"], &body["model"]), (&json!(0.25), &json!("mine")));
}
