//! How long building a workload takes on this machine.
//!
//!     cargo run --release -p goodput-workload --example build_prompts -- random tiktoken:cl100k_base 10000 1000
//!     cargo run --release -p goodput-workload --example build_prompts -- random path/to/tokenizer.json 10000 1000
//!     cargo run --release -p goodput-workload --example build_prompts -- sharegpt tiktoken:cl100k_base 1000 path/to/sharegpt.json
//!
//! Prints seconds and what was built. After random prompts, every one of them is tokenised again, outside the
//! time that is measured, to show that the counts are exact.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use goodput_core::plan::{
    Data, HttpVersion, LengthLaw, Load, PLAN_VERSION, Plan, Protocol, RequestShape, SharegptFilter, Stop,
    Target, Timeouts, TokenizerChoice, Warmup,
};
use goodput_core::rng::Seed;
use goodput_core::timeline::Phase;
use goodput_workload::{Inputs, Tokenizer, Workload};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, tokenizer, requests, last] = arguments.as_slice() else {
        return Err("usage: build_prompts random|sharegpt TOKENIZER REQUESTS TOKENS|FILE".into());
    };
    let requests: u64 = requests.parse()?;
    let started = Instant::now();
    let loaded = load(tokenizer)?;
    println!("{:7.3} s  load {}", started.elapsed().as_secs_f64(), loaded.name());
    if kind == "random" {
        random(&plan(Data::Random, Some(last.parse()?), requests), loaded, requests)
    } else {
        sharegpt(last, loaded, requests)
    }
}

fn load(name: &str) -> Result<Tokenizer, Box<dyn Error>> {
    Ok(match name.strip_prefix("tiktoken:") {
        Some(vocabulary) => Tokenizer::tiktoken(vocabulary)?,
        None => Tokenizer::from_json(name, &std::fs::read(name)?)?,
    })
}

fn random(plan: &Plan, tokenizer: Tokenizer, requests: u64) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let mut workload = Workload::prepare(plan, Inputs { data: None, tokenizer })?;
    println!("{:7.3} s  prepare (vocabulary, checks)", started.elapsed().as_secs_f64());
    workload.prepare_first(Phase::Measured, requests)?;
    println!("{:7.3} s  prepare and build {requests} prompts", started.elapsed().as_secs_f64());
    let mut exact = 0;
    for index in 0..requests {
        let request = workload.request(Phase::Measured, index)?;
        exact += u64::from(workload.tokenizer().count(&request.prompt.as_text())? == request.planned_tokens);
    }
    println!("{exact} of {requests} exact, {} known misses", workload.report().length_misses);
    Ok(())
}

fn sharegpt(path: &str, tokenizer: Tokenizer, requests: u64) -> Result<(), Box<dyn Error>> {
    let data = Data::Sharegpt { path: path.into(), filter: SharegptFilter::Vllm, salvage: true };
    let started = Instant::now();
    let mut file = BufReader::with_capacity(1 << 16, std::fs::File::open(path)?);
    let data_in: &mut dyn BufRead = &mut file;
    let workload = Workload::prepare(&plan(data, None, requests), Inputs { data: Some(data_in), tokenizer })?;
    println!("{:7.3} s  prepare", started.elapsed().as_secs_f64());
    println!("{}", serde_json::to_string_pretty(workload.report())?);
    Ok(())
}

fn plan(data: Data, input_tokens: Option<u32>, requests: u64) -> Plan {
    Plan {
        version: PLAN_VERSION.into(),
        seed: Seed(1),
        salt: Some("5a17".into()),
        target: Target {
            urls: vec!["http://127.0.0.1:8000".into()],
            protocol: Protocol::OpenaiChat,
            model: "model".into(),
            http: HttpVersion::Http1,
            header_names: vec![],
            verify_tls: true,
        },
        load: Load { arrivals: None, concurrency: Some(1) },
        stop: Stop { requests: Some(requests), duration: None, drain: None, error_budget: None },
        warmup: Warmup::None,
        timeouts: Timeouts::default(),
        workload: goodput_core::plan::Workload {
            data,
            input_tokens: input_tokens.map(|tokens| LengthLaw::Fixed { tokens }),
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
