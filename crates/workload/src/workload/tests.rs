use super::*;
use crate::dataset::Reason;
use crate::testing::{plan, tiny_json};
use goodput_core::plan::{Arrivals, GapLaw, RateProfile, SharegptFilter};
use goodput_core::time::Nanos;
use std::collections::BTreeSet;

const CASE_42: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../testdata/cases/42-sharegpt-mixed-entries/sharegpt.json"
));

fn prepare(plan: &Plan, data: &[u8], tokenizer: Tokenizer) -> Result<Workload, WorkloadError> {
    let mut data = data;
    Workload::prepare(plan, Inputs { data: Some(&mut data), tokenizer })
}

fn random(plan: &Plan) -> Workload {
    Workload::prepare(plan, Inputs { data: None, tokenizer: Tokenizer::Bytes }).expect("prepares")
}

fn sharegpt(filter: SharegptFilter, requests: u64) -> Plan {
    let mut plan = plan();
    plan.workload.data = Data::Sharegpt { path: "chats.json".into(), filter, salvage: false };
    plan.workload.input_tokens = None;
    plan.stop.requests = Some(requests);
    plan
}

fn jsonl(requests: u64) -> Plan {
    Plan {
        workload: goodput_core::plan::Workload {
            data: Data::Jsonl { path: "lines.jsonl".into(), salvage: false },
            ..sharegpt(SharegptFilter::Roles, requests).workload
        },
        ..sharegpt(SharegptFilter::Roles, requests)
    }
}

fn lines(count: usize) -> Vec<u8> {
    (0..count)
        .map(|i| format!("{{\"prompt\":\"line {i}\",\"output_len\":{}}}\n", i + 1))
        .collect::<String>()
        .into()
}

fn cl100k() -> Tokenizer {
    Tokenizer::tiktoken("cl100k_base").expect("ships")
}

fn texts(workload: &Workload, phase: Phase, count: u64) -> Vec<String> {
    (0..count).map(|i| workload.request(phase, i).expect("built").prompt.as_text().into_owned()).collect()
}

#[test]
fn workloads_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Workload>();
}

#[test]
fn case_42_totals_and_duplicates() {
    let workload = prepare(&sharegpt(SharegptFilter::Roles, 100), CASE_42, cl100k()).expect("prepares");
    let report = workload.report();
    assert_eq!((report.entries_read, report.examined, report.kept, report.duplicates), (16, 9, 9, 1));
    let dropped = [
        (Reason::TooFewTurns, 2),
        (Reason::NoConversation, 1),
        (Reason::EmptyPrompt, 2),
        (Reason::EmptyCompletion, 1),
        (Reason::Malformed, 1),
    ];
    assert_eq!(report.dropped, Dropped::from(dropped));
    assert_eq!((report.oversampled, workload.oversampled(30)), (Some(91), 21));
    let first: BTreeSet<String> = texts(&workload, Phase::Measured, 9).into_iter().collect();
    assert_eq!(first.len(), 8, "nine entries without replacement, two of them alike");
    assert_eq!(texts(&workload, Phase::Measured, 18)[9..], texts(&workload, Phase::Measured, 9));
}

#[test]
fn case_42_with_a_limit_drops_the_long_one() {
    let mut loaded = dataset::sharegpt::read(CASE_42, SharegptFilter::Roles, false).expect("whole");
    let limits = Limits { prompt_max: 8_000, ..Limits::NONE };
    let tokenizer = Tokenizer::Bytes;
    let rules =
        Rules { tokenizer: &tokenizer, limits, salt: None, output: None, seed: Seed(1), shuffle: true };
    order(&mut loaded, &rules);
    let wanted = Wanted { warmup: Some(0), measured: None };
    let entries = Entries::take(&loaded.candidates, &rules, wanted).expect("counts");
    assert_eq!((entries.measured.len(), entries.dropped), (8, [(Reason::TooLong, 1)].into()));
}

#[test]
fn vllm_limits_are_inclusive_and_count_special_tokens() {
    // The tiny tokenizer counts one token a word and adds one mark to a text.
    let words = |count: usize| vec![" river"; count].concat();
    let chat = |prompt: usize, answer: usize| {
        serde_json::json!({"conversations": [{"from": "human", "value": words(prompt)},
                                             {"from": "gpt", "value": words(answer)}]})
    };
    let cases = [
        (chat(2, 10), Some(Reason::PromptTooShort)),
        (chat(3, 3), None),
        (chat(3, 2), Some(Reason::CompletionTooShort)),
        (chat(1023, 1023), None),
        (chat(1023, 1024), Some(Reason::TooLong)),
        (chat(1024, 5), Some(Reason::TooLong)),
    ];
    for (chat, reason) in cases {
        let tiny = Tokenizer::from_json("tiny", tiny_json().as_bytes()).expect("loads");
        let data = serde_json::Value::from(vec![chat.clone()]).to_string();
        let found = prepare(&sharegpt(SharegptFilter::Vllm, 1), data.as_bytes(), tiny);
        match (found, reason) {
            (Ok(workload), None) => {
                assert_eq!(workload.report().kept, 1);
            }
            (Err(WorkloadError::NothingUsable { dropped, .. }), Some(reason)) => {
                assert_eq!(dropped, format!("1 {}", reason.name()));
            }
            (found, reason) => panic!("{reason:?}: {:?}", found.map(|w| w.report().clone())),
        }
    }
}

#[test]
fn an_answer_length_that_is_asked_for_has_no_minimum_with_vllm() {
    let data = r#"[{"conversations":[{"from":"x","value":"one two three four"},{"from":"y","value":"a"}]}]"#;
    let mut plan = sharegpt(SharegptFilter::Vllm, 1);
    assert!(prepare(&plan, data.as_bytes(), cl100k()).is_err());
    plan.workload.output_tokens = Some(LengthLaw::Fixed { tokens: 1 });
    let request = prepare(&plan, data.as_bytes(), cl100k()).expect("kept").request(Phase::Measured, 0);
    assert_eq!(request.expect("built").max_tokens, Some(1));
    plan.workload.output_tokens = Some(LengthLaw::Fixed { tokens: 2_045 });
    let error = prepare(&plan, data.as_bytes(), cl100k()).expect_err("4 + 2,045 tokens").to_string();
    assert!(error.contains("1 too_long"), "{error}");
}

#[test]
fn the_answer_of_the_data_is_the_length_asked_for() {
    let workload = prepare(&sharegpt(SharegptFilter::Roles, 9), CASE_42, cl100k()).expect("prepares");
    let requests: Vec<Request> =
        (0..9).map(|i| workload.request(Phase::Measured, i).expect("built")).collect();
    let lake = requests.iter().find(|r| r.prompt.as_text().ends_with("Name a lake")).expect("kept");
    let Prompt::Messages(messages) = &lake.prompt else { panic!("a chat with a system message") };
    let roles: Vec<&str> = messages.iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["system", "user"]);
    assert_eq!(lake.max_tokens, Some(cl100k().count("Lake Garda").expect("counts")));
    assert_eq!(lake.input_tokens, 2 + 3);
    // A stand-in does not pretend to know it.
    let mut plan = sharegpt(SharegptFilter::Roles, 9);
    plan.request.max_tokens = Some(77);
    let bytes = prepare(&plan, CASE_42, Tokenizer::Bytes).expect("prepares");
    assert_eq!(bytes.request(Phase::Measured, 0).expect("built").max_tokens, Some(77));
}

#[test]
fn warm_up_entries_are_not_measured() {
    let mut plan = jsonl(1_000);
    plan.warmup = Warmup::Requests(5);
    let workload = prepare(&plan, &lines(100), cl100k()).expect("prepares");
    let warm: BTreeSet<String> = texts(&workload, Phase::Warmup, 5).into_iter().collect();
    let measured: BTreeSet<String> = texts(&workload, Phase::Measured, 200).into_iter().collect();
    assert_eq!((warm.len(), measured.len()), (5, 95));
    assert!(warm.is_disjoint(&measured));
    assert_eq!(workload.report().kept_for_warmup, 5);
    assert!(!workload.report().warmup_shares_entries);

    // A prompt that the file has twice is not sent beforehand, wherever the two stand.
    let twice = [lines(20), b"{\"prompt\":\"line 0\"}\n".repeat(2)].concat();
    let workload = prepare(&plan, &twice, cl100k()).expect("prepares");
    assert_eq!(texts(&workload, Phase::Warmup, 2), ["line 19", "line 18"]);
    assert_eq!((workload.report().kept_for_warmup, workload.report().duplicates), (2, 2));

    let alone = prepare(&plan, &lines(1), cl100k()).expect("prepares");
    assert!(alone.report().warmup_shares_entries);
    assert_eq!(texts(&alone, Phase::Warmup, 1), texts(&alone, Phase::Measured, 1));
}

#[test]
fn warm_up_prompts_of_random_data_are_their_own() {
    let mut plan = plan();
    plan.workload.input_tokens = Some(LengthLaw::Fixed { tokens: 64 });
    let workload = random(&plan);
    let warm: BTreeSet<String> = texts(&workload, Phase::Warmup, 50).into_iter().collect();
    assert!(texts(&workload, Phase::Measured, 50).iter().all(|text| !warm.contains(text)));
}

#[test]
fn request_i_does_not_depend_on_the_length_of_the_run() {
    let short = prepare(&sharegpt(SharegptFilter::Roles, 3), CASE_42, cl100k()).expect("prepares");
    let long = prepare(&sharegpt(SharegptFilter::Roles, 9), CASE_42, cl100k()).expect("prepares");
    assert_eq!(short.report().examined, 3);
    assert_eq!(texts(&short, Phase::Measured, 3), texts(&long, Phase::Measured, 3));
    assert_eq!(short.report().fingerprint, long.report().fingerprint);
}

#[test]
fn the_number_of_requests_follows_from_the_arrivals() {
    let mut plan = jsonl(1);
    plan.load.arrivals = Some(Arrivals { law: GapLaw::Constant, rate: RateProfile::Steady { rate: 10.0 } });
    plan.stop.requests = None;
    plan.stop.duration = Some(Nanos::from_secs(12));
    plan.warmup = Warmup::Duration(Nanos::from_secs(2));
    let workload = prepare(&plan, &lines(100), cl100k()).expect("prepares");
    assert_eq!(workload.announced(Phase::Measured), Some(120));
    assert_eq!(workload.announced(Phase::Warmup), Some(20));
    assert_eq!(workload.report().oversampled, Some(120 - 90));
    plan.load.arrivals = None;
    let closed = prepare(&plan, &lines(100), cl100k()).expect("prepares");
    assert_eq!(closed.report().oversampled, None);
    assert_eq!(closed.announced(Phase::Measured), None);
}

#[test]
fn lines_keep_their_order_and_lengths() {
    let workload = prepare(&jsonl(3), &lines(3), cl100k()).expect("prepares");
    assert_eq!(texts(&workload, Phase::Measured, 4), ["line 0", "line 1", "line 2", "line 0"]);
    assert_eq!(workload.request(Phase::Measured, 1).expect("built").max_tokens, Some(2));
}

#[test]
fn lengths_asked_for_win_over_the_data_and_both_over_the_default() {
    let mut plan = jsonl(3);
    plan.request.max_tokens = Some(500);
    let max = |plan: &Plan, data: &[u8]| {
        prepare(plan, data, cl100k())
            .expect("prepares")
            .request(Phase::Measured, 0)
            .expect("built")
            .max_tokens
    };
    assert_eq!(max(&plan, b"{\"prompt\":\"a\"}"), Some(500));
    assert_eq!(max(&plan, &lines(1)), Some(1));
    plan.workload.output_tokens = Some(LengthLaw::Fixed { tokens: 9 });
    assert_eq!(max(&plan, &lines(1)), Some(9));
}

#[test]
fn the_salt_changes_what_is_sent_and_not_the_fingerprint() {
    for (mut plan, data) in [(jsonl(3), lines(3)), (plan(), vec![])] {
        plan.workload.output_tokens = Some(LengthLaw::Uniform { min: 1, max: 100 });
        let bare = prepare(&plan, &data, Tokenizer::Bytes).expect("prepares");
        plan.salt = Some("00ff".into());
        let salted = prepare(&plan, &data, Tokenizer::Bytes).expect("prepares");
        let request = salted.request(Phase::Measured, 0).expect("built");
        assert_ne!(bare.request(Phase::Measured, 0).expect("built").prompt, request.prompt);
        assert_eq!(request.input_tokens as usize, request.prompt.as_text().len());
        assert_eq!(bare.report().fingerprint, salted.report().fingerprint);
        assert_eq!(bare.report().fingerprint.len(), 64);
        plan.seed = Seed(8);
        let other = prepare(&plan, &data, Tokenizer::Bytes).expect("prepares");
        assert_ne!(other.report().fingerprint, salted.report().fingerprint);
    }
}

#[test]
fn prepared_requests_are_the_same_ones() {
    let mut plan = plan();
    plan.salt = Some("00ff".into());
    plan.workload.input_tokens = Some(LengthLaw::Lognormal { mean: 40.0, cv: 1.0, max: Some(200) });
    let mut workload = random(&plan);
    let before: Vec<Request> =
        (0..40).map(|i| workload.request(Phase::Measured, i).expect("built")).collect();
    workload.prepare_first(Phase::Measured, 30).expect("prepares");
    workload.prepare_first(Phase::Warmup, 5).expect("prepares");
    let after: Vec<Request> = (0..40).map(|i| workload.request(Phase::Measured, i).expect("built")).collect();
    assert_eq!(before, after);
    assert_eq!((workload.report().lengths_checked, workload.report().length_misses), (35, 0));
}

#[test]
fn lengths_that_cannot_be_had_are_counted() {
    let pairs = Box::new(|text: &str| Ok(text.split_whitespace().flat_map(|_| [1, 2]).collect()));
    let mut plan = plan();
    plan.workload.input_tokens = Some(LengthLaw::Empirical { values: vec![7, 8] });
    let tokenizer = Tokenizer::server("pairs", pairs);
    let mut workload = Workload::prepare(&plan, Inputs { data: None, tokenizer }).expect("prepares");
    workload.prepare_first(Phase::Measured, 50).expect("prepares");
    let odd =
        (0..50).filter(|i| workload.request(Phase::Measured, *i).expect("built").planned_tokens == 7).count();
    assert_eq!(workload.report().length_misses, odd as u64);
    assert!((10..40).contains(&odd));
}

#[test]
fn a_cut_file_is_refused_or_salvaged_as_asked() {
    let cut = &CASE_42[..600];
    let mut plan = sharegpt(SharegptFilter::Roles, 5);
    let message = prepare(&plan, cut, cl100k()).expect_err("cut").to_string();
    for part in [
        "chats.json: damaged at byte 600",
        "ends inside the entry",
        "whole entries before it: 5",
        "--salvage",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    plan.workload.data =
        Data::Sharegpt { path: "chats.json".into(), filter: SharegptFilter::Roles, salvage: true };
    let workload = prepare(&plan, cut, cl100k()).expect("salvaged");
    let damage = workload.report().damaged.as_ref().expect("on record");
    assert_eq!((damage.byte, damage.whole_before, workload.report().entries_read), (600, 5, 5));
}

#[test]
fn the_file_hash_covers_the_part_behind_the_damage() {
    let mut plan = jsonl(1);
    plan.workload.data = Data::Jsonl { path: "lines.jsonl".into(), salvage: true };
    let hash = |data: &[u8]| {
        let workload = prepare(&plan, data, cl100k()).expect("salvaged");
        workload.report().data_sha256.clone().expect("of a file")
    };
    let damaged = b"{\"prompt\":\"a\"}\noops\nrest";
    assert_ne!(hash(damaged), hash(&damaged[..20]));
    assert_eq!(hash(damaged), hash(damaged));
}

#[test]
fn reports_are_strict_json_with_stable_names() {
    let workload = prepare(&sharegpt(SharegptFilter::Roles, 9), CASE_42, cl100k()).expect("prepares");
    let json = serde_json::to_value(workload.report()).expect("json");
    assert_eq!(json["dropped"]["too_few_turns"], 2);
    assert_eq!(json["damaged"], serde_json::Value::Null);
    assert_eq!(json["oversampled"], 0);
}

#[test]
fn what_cannot_be_prepared_is_refused_with_the_way_out() {
    let with = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan();
        change(&mut plan);
        plan
    };
    let fixed = |tokens| Some(LengthLaw::Fixed { tokens });
    let cases = [
        (with(&|p| p.workload.input_tokens = None), "--input-tokens"),
        (with(&|p| p.workload.input_tokens = fixed(0)), "at least 1 token"),
        (with(&|p| p.workload.output_tokens = fixed(0)), "at least 1 token"),
        (with(&|p| p.workload.prefix_tokens = 8), "a prefix of 8 tokens"),
        (with(&|p| *p = Plan { workload: jsonl(1).workload, ..p.clone() }), "was not opened"),
    ];
    for (plan, part) in cases {
        let inputs = Inputs { data: None, tokenizer: Tokenizer::Bytes };
        let message = Workload::prepare(&plan, inputs).expect_err(part).to_string();
        assert!(message.contains(part), "{message}");
    }
    let with_data = [
        (Plan { workload: with(&|p| p.workload.input_tokens = fixed(5)).workload, ..jsonl(1) }, None),
        (jsonl(1), Some("none of 1 entries can be used (1 no_prompt)")),
        (sharegpt(SharegptFilter::Vllm, 1), Some("--tokenizer")),
    ];
    for (mut plan, part) in with_data {
        if part.is_none() {
            plan.workload.data = jsonl(1).workload.data;
        }
        let message = prepare(&plan, b"{}", Tokenizer::Bytes).expect_err("refused").to_string();
        assert!(message.contains(part.unwrap_or("sent as they are")), "{message}");
    }
}
