//! Fixtures of this crate's tests.

use goodput_core::plan::{
    Data, HttpVersion, LengthLaw, Load, PLAN_VERSION, Plan, Protocol, RequestShape, Stop, Target, Timeouts,
    TokenizerChoice, Warmup, Workload,
};
use goodput_core::rng::Seed;

/// A closed loop over random prompts of 8 bytes.
pub(crate) fn plan() -> Plan {
    Plan {
        version: PLAN_VERSION.into(),
        seed: Seed(7),
        salt: None,
        target: Target {
            urls: vec!["http://127.0.0.1:8000".into()],
            protocol: Protocol::OpenaiChat,
            model: "m".into(),
            http: HttpVersion::Http1,
            header_names: vec![],
            verify_tls: true,
        },
        load: Load { arrivals: None, concurrency: Some(1) },
        stop: Stop { requests: Some(10), duration: None, drain: None, error_budget: None },
        warmup: Warmup::None,
        timeouts: Timeouts::default(),
        workload: Workload {
            data: Data::Random,
            input_tokens: Some(LengthLaw::Fixed { tokens: 8 }),
            output_tokens: None,
            prefix_tokens: 0,
            tokenizer: TokenizerChoice::Bytes,
            data_sha256: None,
        },
        request: RequestShape {
            max_tokens: None,
            ignore_eos: false,
            stream: true,
            continuous_usage: false,
            body: None,
        },
    }
}

/// A small byte-pair model as Hugging Face writes them: single letters, the merges that build six words after
/// a blank, a beginning-of-text mark added to every text, and a truncation to 4 tokens that a count must not
/// follow.
pub(crate) fn tiny_json() -> String {
    let words = ["river", "lake", "sea", "and", "stone", "wind"];
    let mut vocabulary: Vec<String> = vec!["\u{120}".into()];
    vocabulary.extend(('a'..='z').map(String::from));
    let mut merges: Vec<String> = Vec::new();
    for word in words {
        // First the word letter by letter, then the blank in front of the whole word.
        let mut left = word[..1].to_owned();
        for letter in word[1..].chars() {
            merges.push(format!("{left} {letter}"));
            left.push(letter);
            vocabulary.push(left.clone());
        }
        merges.push(format!("\u{120} {word}"));
        vocabulary.push(format!("\u{120}{word}"));
    }
    merges.push("\u{120} a".into());
    vocabulary.push("\u{120}a".into());
    let mut seen = std::collections::BTreeSet::new();
    vocabulary.retain(|token| seen.insert(token.clone()));
    merges.retain(|merge| seen.insert(merge.clone()));
    let ids: serde_json::Map<String, serde_json::Value> =
        vocabulary.into_iter().zip(1..).map(|(token, id)| (token, id.into())).collect();
    let mark = serde_json::json!({"id": "<s>", "type_id": 0});
    serde_json::json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": null,
        "added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                          "normalized": false, "special": true}],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": mark}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": ids, "merges": merges}
    })
    .to_string()
}

/// A byte-pair model in the manner of SentencePiece: blanks are marks inside tokens, one is put in front of
/// the text, and nothing splits the text beforehand. A hundred words of three letters; with `superword`, one
/// pair of them is a token of its own.
pub(crate) fn sentencepiece_json(superword: bool) -> String {
    let letters = || 'a'..='j';
    let pairs: Vec<(char, char)> = letters().flat_map(|a| letters().map(move |b| (a, b))).collect();
    let mut merges: Vec<(String, String)> = Vec::new();
    merges.extend(pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())));
    merges.extend(pairs.iter().map(|(a, b)| (format!("{a}{b}"), "x".to_owned())));
    merges.extend(pairs.iter().map(|(a, b)| ("\u{2581}".to_owned(), format!("{a}{b}x"))));
    if superword {
        merges.push(("\u{2581}aax".to_owned(), "\u{2581}abx".to_owned()));
    }
    let single = letters().chain(['x', '\u{2581}']).map(String::from);
    let vocabulary = single.chain(merges.iter().map(|(left, right)| format!("{left}{right}")));
    let ids: serde_json::Map<String, serde_json::Value> =
        vocabulary.zip(0..).map(|(t, id)| (t, id.into())).collect();
    let merges: Vec<String> = merges.into_iter().map(|(left, right)| format!("{left} {right}")).collect();
    let replace = |from: &str, to: &str| serde_json::json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u{2581}"},
                                                           replace(" ", "\u{2581}")]},
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [replace("\u{2581}", " "), {"type": "Fuse"},
                                                     {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": ids, "merges": merges}
    })
    .to_string()
}
