//! `goodput sim run`: the driver against the simulated engine in virtual time, stored and reported like a real run.
//!
//! Nothing here takes time but computing it, and nothing but the command line enters it: the same arguments give the
//! same schedule, records and summary, byte for byte. So the run has no date and no host, and its name follows from what
//! was asked.

use super::engine::{self, SimEngine};
use super::virtual_record::VirtualRecord;
use crate::args::SimRunArgs;
use crate::commands::explain::find_ruler;
use crate::commands::show::{text_context, to_json};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;
use crate::reading::{Reading, verdict};
use crate::{resolve, scene};
use goodput_core::plan::{Data, HttpVersion, PLAN_VERSION, Plan, Protocol, SIMULATED, Target};
use goodput_core::rng::Seed;
use goodput_core::schedule::Schedule;
use goodput_core::timeline::Phase;
use goodput_drive::driver::{Driver, DriverConfig, RequestId};
use goodput_drive::engine_server::{Ask, EngineServer};
use goodput_drive::virtual_time;
use goodput_model::cluster::Cluster;
use goodput_model::event::EventKind;
use goodput_model::prefix::block_hashes;
use goodput_report::text;
use goodput_store::StoreError;
use goodput_store::layout::RunDir;
use goodput_store::reader::RunReader;
use goodput_workload::{Tokenizer, Workload, arrival};
use std::cell::RefCell;
use std::collections::HashMap;

/// Output tokens of a request for which nothing says how many: the default of the completions API.
const DEFAULT_OUTPUT: u32 = 16;
/// Runs of one name in one folder.
const NAMES_MAX: u32 = 10_000;

/// Simulates, stores, reads back and reports.
pub(crate) fn run(args: &SimRunArgs, printer: Printer) -> Result<Exit, Failure> {
    let ruler = find_ruler(&args.reading.ruler)?;
    let reading = Reading::resolve(&args.reading, None)?;
    let engine = engine::resolve(&args.engine)?;
    let mut plan = plan(args, &engine)?;
    let schedule = arrival::schedule(&plan).map_err(|e| scene::no_schedule(&e))?;
    // A model reads no text: a random prompt is its length, which no tokenizer changes, and is made of bytes.
    let tokenizer = match plan.workload.data {
        Data::Random => Tokenizer::Bytes,
        Data::Sharegpt { .. } | Data::Jsonl { .. } => scene::local_tokenizer(&plan.workload.tokenizer)?,
    };
    let workload = scene::workload(&plan, tokenizer)?;
    plan.workload.data_sha256.clone_from(&workload.report().data_sha256);
    let run = create_dir(args, &plan, &engine)?;
    printer.notice(format_args!("run directory: {} (simulated)", run.path().display()));
    let mut record = VirtualRecord::begin(&run, (&plan, &schedule, &workload), (args, &engine, &reading))?;
    simulate(args, (&plan, &schedule, &workload), &engine, &mut record)?;
    record.end()?;
    let stored = RunReader::open(run.path()).map_err(|e| Failure::invalid(e.to_string()))?;
    let summary = reading.summary(&stored, ruler)?;
    goodput_store::summary::write_summary(&run, &summary).map_err(|e| Failure::invalid(e.to_string()))?;
    if args.output.json {
        printer.result(to_json(&summary)?);
    } else {
        printer.raw(&text::report(&summary, &text_context(&stored)));
    }
    Ok(verdict(&summary, reading.slo.as_ref(), args.verdict.gate, args.verdict.strict))
}

/// The plan of a run that asks no server. Prompts need no salt against warm caches, since a simulated one begins cold.
fn plan(args: &SimRunArgs, engine: &SimEngine) -> Result<Plan, Failure> {
    let load = resolve::load(&args.load)?;
    let mut request = resolve::request_shape(&args.workload);
    if !request.stream || request.body.is_some() {
        return Err(Failure::input(
            "--no-stream and --body mean nothing to a simulated engine, which has no HTTP",
        ));
    }
    // It always generates as many tokens as are asked for.
    request.ignore_eos = true;
    Ok(Plan {
        version: PLAN_VERSION.to_owned(),
        seed: Seed(args.workload.seed),
        salt: Some(args.workload.salt.clone()).filter(|salt| salt != "auto" && salt != "none"),
        target: Target {
            urls: vec![format!("{SIMULATED}{}", engine.profile.name)],
            protocol: Protocol::OpenaiCompletions,
            model: engine.resolved.model.clone(),
            http: HttpVersion::Http1,
            header_names: Vec::new(),
            verify_tls: true,
        },
        stop: resolve::stop(&args.load, &load),
        warmup: resolve::warmup(&args.load, &load)?,
        load,
        timeouts: resolve::timeouts(&args.limits),
        workload: resolve::workload(&args.workload)?,
        request,
    })
}

/// The directory under the name that was given, or under one that follows from the plan and the engine.
fn create_dir(args: &SimRunArgs, plan: &Plan, engine: &SimEngine) -> Result<RunDir, Failure> {
    let out = &args.output.out;
    let failed = |e: StoreError| Failure::input(e.to_string());
    if let Some(name) = &args.output.name {
        return RunDir::create(out, Some(name)).map_err(failed);
    }
    let decided = format!("{}{:?}{:?}", plan.to_toml(), engine.resolved, args.engine.routing);
    let length = u32::try_from(decided.len()).unwrap_or(u32::MAX);
    let hash = block_hashes(decided.bytes().map(u64::from), length).first().copied().unwrap_or(0);
    let base = format!("sim-{}-{:08x}", engine.profile.name, hash >> 32);
    let mut last = RunDir::create(out, Some(&base));
    for number in 2..NAMES_MAX {
        match last {
            Err(StoreError::Exists { .. }) => last = RunDir::create(out, Some(&format!("{base}-{number}"))),
            _ => break,
        }
    }
    last.map_err(failed)
}

/// What a request turned out to ask for, from its arrival to its end.
type Asked = RefCell<HashMap<RequestId, (u32, u32)>>;

/// Runs the plan to its end.
fn simulate(
    args: &SimRunArgs,
    (plan, schedule, workload): (&Plan, &Schedule, &Workload),
    engine: &SimEngine,
    record: &mut VirtualRecord,
) -> Result<(), Failure> {
    let cluster = Cluster::new(
        &engine.resolved.config,
        engine.resolved.replicas,
        args.engine.routing.into(),
        plan.seed,
    )
    .map_err(|e| Failure::input(e.to_string()))?;
    let asked = Asked::default();
    let prompts = Prompts { plan, workload, block_size: engine.resolved.config.block_size };
    let ask = |id: RequestId| {
        let ask = prompts.ask(id);
        asked.borrow_mut().insert(id, (ask.prompt_tokens, ask.output_tokens));
        ask
    };
    let truths = RefCell::new(Vec::new());
    let mut server = EngineServer::new(cluster, ask, |routed| {
        if let EventKind::Finished(truth) = &routed.event.kind {
            truths.borrow_mut().push((routed.replica, (**truth).clone()));
        }
    });
    let mut driver = Driver::new(DriverConfig {
        load: plan.load.clone(),
        stop: plan.stop,
        warmup: plan.warmup,
        schedule: schedule.clone(),
    });
    let mut lost = None;
    let over = virtual_time::run(&mut driver, &mut server, &plan.timeouts, |mut timeline| {
        let id = RequestId { phase: timeline.phase, index: timeline.index };
        if let Some((input, output)) = asked.borrow_mut().remove(&id) {
            timeline.planned_input = Some(input);
            timeline.max_tokens = Some(output);
        }
        timeline.ignore_eos = plan.request.ignore_eos;
        if let Err(failure) = record.take(&timeline, &mut truths.borrow_mut()) {
            lost.get_or_insert(failure);
        }
    });
    record.note(
        over.map_err(|e| Failure::input(e.to_string()))?,
        driver.progress(),
        &server.cluster().counters(),
    );
    lost.map_or(Ok(()), Err)
}

/// What the engine is told of a prompt.
struct Prompts<'a> {
    plan: &'a Plan,
    workload: &'a Workload,
    block_size: u32,
}

impl Prompts<'_> {
    fn ask(&self, id: RequestId) -> Ask {
        // No tokenizer of a simulated run can fail: the server's is refused beforehand.
        let request = self.workload.request(id.phase, id.index).ok();
        let prompt_tokens = request.as_ref().map_or(0, |request| request.input_tokens);
        let asked = request.as_ref().and_then(|request| request.max_tokens);
        let output_tokens = asked.or(self.plan.request.max_tokens).unwrap_or(DEFAULT_OUTPUT);
        let text = request.as_ref().map(|request| request.prompt.as_text());
        let prefix = text.map_or_else(Vec::new, |text| self.names(id, &text, prompt_tokens));
        Ask { prompt_tokens, output_tokens, priority: 0, prefix: prefix.into() }
    }

    /// Names of the prompt's blocks. Random prompts share their prefix and nothing else, which needs no tokenizing.
    fn names(&self, id: RequestId, text: &str, tokens: u32) -> Vec<u64> {
        if self.plan.workload.data == Data::Random {
            let shared = u64::from(self.plan.workload.prefix_tokens);
            let own = id.index << 1 | u64::from(id.phase == Phase::Measured);
            let identity = |place: u64| if place < shared { place } else { (own + 1) << 32 | place };
            return block_hashes((0..u64::from(tokens)).map(identity), self.block_size);
        }
        let ids = self.workload.tokenizer().encode(text).unwrap_or_default();
        block_hashes(ids.into_iter().map(u64::from), self.block_size)
    }
}
