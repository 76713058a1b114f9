//! Everything a run needs before its first byte: the server asked, the plan frozen, the workload ready.

use crate::args::{RunArgs, TargetArgs};
use crate::exit::Failure;
use crate::resolve;
use goodput_core::plan::{
    Data, HttpVersion, PLAN_VERSION, Plan, Protocol, Target as PlanTarget, TokenizerChoice,
};
use goodput_core::rng::Seed;
use goodput_core::schedule::Schedule;
use goodput_core::timeline::Phase;
use goodput_net::connection::TlsSettings;
use goodput_net::probe::{self, EngineFacts, ProbeError, Prober};
use goodput_net::target::{Target, TargetError};
use goodput_workload::arrival::{self, ArrivalError};
use goodput_workload::tokenizer::Tokenizer;
use goodput_workload::{Inputs, Workload};
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// Prompts built before the run at most; later ones are built while it runs, off the receive path.
const PREPARED_MAX: u64 = 20_000;

/// A run, ready to go.
pub(crate) struct Scene {
    pub(crate) plan: Plan,
    pub(crate) targets: Vec<Target>,
    pub(crate) engine: EngineFacts,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) workload: Arc<Workload>,
    pub(crate) schedule: Schedule,
}

/// Asks the server, freezes the plan and prepares the workload.
pub(crate) fn prepare(args: &RunArgs) -> Result<Scene, Failure> {
    let stored = args.client.plan.as_deref().map(stored_plan).transpose()?;
    let urls = if args.target.url.is_empty() {
        stored.as_ref().map_or_else(Vec::new, |plan| plan.target.urls.clone())
    } else {
        args.target.url.clone()
    };
    if let Some(path) = &args.target.ca {
        File::open(path).map_err(|e| Failure::input(format!("--ca: cannot read {}: {e}", path.display())))?;
    }
    let tls = TlsSettings { ca_file: args.target.ca.clone(), insecure: args.target.insecure };
    let headers = headers(&args.target);
    let first = urls.first().ok_or_else(|| Failure::input("no --url given"))?;
    let prober = Prober::new(first, &tls, headers.clone()).map_err(|e| unreachable(&e))?;
    let engine = probe::identify(&prober).map_err(|e| unreachable(&e))?;
    let mut plan = match stored {
        Some(plan) => Plan { target: PlanTarget { urls, ..plan.target }, ..plan },
        None => fresh_plan(args, urls, &prober, &engine)?,
    };
    let http2 = plan.target.http == HttpVersion::Http2;
    let targets = plan
        .target
        .urls
        .iter()
        .map(|url| Target::resolve(url, &tls, http2))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| unreachable(&ProbeError::Target(e)))?;
    let schedule = arrival::schedule(&plan).map_err(|e| no_schedule(&e))?;
    let tokenizer = tokenizer(&plan, &prober)?;
    let workload = workload(&plan, tokenizer)?;
    plan.workload.data_sha256 = workload.report().data_sha256.clone();
    Ok(Scene { plan, targets, engine, headers, workload: Arc::new(workload), schedule })
}

/// Why there is no schedule, and what to do.
pub(crate) fn no_schedule(error: &ArrivalError) -> Failure {
    let failure = Failure::input(error.to_string());
    match error {
        ArrivalError::Unbounded | ArrivalError::InfiniteNeedsRequests | ArrivalError::RescaledNeedsCount => {
            failure.hint("--requests N says how many")
        }
        ArrivalError::InfiniteWarmup | ArrivalError::WarmupAtRest => {
            failure.hint("for example --warmup 20, or --warmup 0 for none")
        }
        _ => failure,
    }
}

fn unreachable(error: &ProbeError) -> Failure {
    match error {
        ProbeError::Target(TargetError::Url { .. } | TargetError::Tls(_)) => {
            Failure::input(error.to_string())
        }
        ProbeError::Io { url, .. } if url.starts_with("https:") => Failure::invalid(error.to_string()).hint(
            "a server without TLS is http://; for a certificate of your own there are --ca and --insecure",
        ),
        _ => Failure::invalid(error.to_string()),
    }
}

fn headers(args: &TargetArgs) -> Vec<(String, String)> {
    let mut headers = args.headers.clone();
    let has_authorization = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if let Some(key) = args.api_key.as_ref().filter(|key| !key.is_empty() && !has_authorization) {
        headers.push(("authorization".to_owned(), format!("Bearer {key}")));
    }
    headers
}

/// The plan of an earlier run: the file itself, or the run directory that holds it.
fn stored_plan(path: &Path) -> Result<Plan, Failure> {
    let file = if path.is_dir() {
        let run = goodput_store::layout::RunDir::open(path).map_err(|e| Failure::input(e.to_string()))?;
        run.file(goodput_store::layout::PLAN)
    } else {
        path.to_owned()
    };
    let shown = file.display();
    let text = fs::read_to_string(&file).map_err(|e| Failure::input(format!("cannot read {shown}: {e}")))?;
    Plan::from_toml(&text).map_err(|e| Failure::input(format!("{shown}: {e}")))
}

fn fresh_plan(
    args: &RunArgs,
    urls: Vec<String>,
    prober: &Prober,
    engine: &EngineFacts,
) -> Result<Plan, Failure> {
    let load = resolve::load(&args.load)?;
    let protocol = match args.target.protocol {
        Some(protocol) => protocol,
        None => find_protocol(prober, engine)?,
    };
    let model = match (&args.target.model, engine.models.first()) {
        (Some(model), _) | (None, Some(model)) => model.clone(),
        (None, None) if protocol == Protocol::Sglang => "default".to_owned(),
        (None, None) => return Err(no_model(prober)),
    };
    Ok(Plan {
        version: PLAN_VERSION.to_owned(),
        seed: Seed(args.workload.seed),
        salt: salt(&args.workload.salt),
        target: PlanTarget {
            urls,
            protocol,
            model,
            http: args.target.http,
            header_names: args.target.headers.iter().map(|(name, _)| name.clone()).collect(),
            verify_tls: !args.target.insecure,
        },
        stop: resolve::stop(&args.load, &load),
        warmup: resolve::warmup(&args.load, &load)?,
        load,
        timeouts: resolve::timeouts(&args.limits),
        workload: resolve::workload(&args.workload)?,
        request: resolve::request_shape(&args.workload),
    })
}

/// Why there is no model to ask for: a server that wants a key lists none either.
fn no_model(prober: &Prober) -> Failure {
    let url = &prober.target().url;
    match prober.ask("/v1/models", None).map(|answer| answer.status) {
        Ok(status @ (401 | 403)) => {
            Failure::invalid(format!("{url} refuses to list its models (status {status})"))
                .hint("give a key with --api-key or in OPENAI_API_KEY")
        }
        _ => Failure::input(format!("{url} lists no model")).hint("name one with --model"),
    }
}

fn find_protocol(prober: &Prober, engine: &EngineFacts) -> Result<Protocol, Failure> {
    probe::find_protocol(prober, engine).map_err(|e| unreachable(&e))?.ok_or_else(|| {
        Failure::invalid(format!("{} has none of the endpoints that can be measured", prober.target().url))
            .hint("tried /v1/chat/completions, /v1/completions and /generate; give --protocol if one is there after all")
    })
}

/// A new salt is entropy, which the pure crates cannot have; it is drawn here and stored in the plan.
fn salt(text: &str) -> Option<String> {
    match text {
        "none" => None,
        "auto" => {
            let entropy = std::collections::hash_map::RandomState::new().build_hasher().finish();
            Some(format!("{entropy:016x}"))
        }
        own => Some(own.to_owned()),
    }
}

fn tokenizer(plan: &Plan, prober: &Prober) -> Result<Tokenizer, Failure> {
    if plan.workload.tokenizer != TokenizerChoice::Server {
        return local_tokenizer(&plan.workload.tokenizer);
    }
    let (prober, model) = (prober.clone(), plan.target.model.clone());
    let tokenize = move |text: &str| probe::tokenize(&prober, &model, text);
    tokenize("hello").map_err(Failure::invalid)?;
    Ok(Tokenizer::server("server", Box::new(tokenize)))
}

/// A tokenizer that needs no server.
pub(crate) fn local_tokenizer(choice: &TokenizerChoice) -> Result<Tokenizer, Failure> {
    match choice {
        TokenizerChoice::Bytes => Ok(Tokenizer::Bytes),
        TokenizerChoice::Tiktoken(name) => {
            Tokenizer::tiktoken(name).map_err(|e| Failure::input(format!("--tokenizer: {e}")))
        }
        TokenizerChoice::File(path) => {
            let path = Path::new(path);
            let file = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
            let shown = file.display().to_string();
            let bytes = fs::read(&file).map_err(|e| {
                Failure::input(format!("cannot read the tokenizer {shown}: {e}"))
                    .hint("expected a tokenizer.json, `tiktoken:NAME`, `bytes` or `server`")
            })?;
            Tokenizer::from_json(&shown, &bytes).map_err(|e| Failure::input(format!("{shown}: {e}")))
        }
        TokenizerChoice::Server => Err(Failure::input("--tokenizer server needs a server to ask")
            .hint("give the model's tokenizer.json, tiktoken:NAME, or bytes")),
    }
}

/// Reads the data and builds the prompts.
pub(crate) fn workload(plan: &Plan, tokenizer: Tokenizer) -> Result<Workload, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::input(e.to_string());
    let mut workload = match &plan.workload.data {
        Data::Random => Workload::prepare(plan, Inputs { data: None, tokenizer }).map_err(|e| wrong(&e))?,
        Data::Sharegpt { path, .. } | Data::Jsonl { path, .. } => {
            let file = File::open(path).map_err(|e| Failure::input(format!("cannot open {path}: {e}")))?;
            let mut reader = BufReader::with_capacity(1 << 20, file);
            let inputs = Inputs { data: Some(&mut reader), tokenizer };
            Workload::prepare(plan, inputs).map_err(|e| wrong(&e))?
        }
    };
    // Prompts are built before the run, so that building them takes no core from it.
    for phase in [Phase::Warmup, Phase::Measured] {
        let count = workload.announced(phase).unwrap_or(0).min(PREPARED_MAX);
        workload.prepare_first(phase, count).map_err(|e| wrong(&e))?;
    }
    Ok(workload)
}
