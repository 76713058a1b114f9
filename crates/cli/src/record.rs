//! The recorder: the one writer of a run's directory.

use crate::args::RunArgs;
use crate::commands::selfcheck::cache;
use crate::exit::Failure;
use crate::host;
use crate::reading::Reading;
use crate::scene::Scene;
use goodput_core::plan::{HttpVersion, Plan, TokenizerChoice};
use goodput_core::schedule::Schedule;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Phase, Timeline};
use goodput_core::tokens::{TokenCount, TokenSource};
use goodput_net::clock::RunClock;
use goodput_net::receive::Finished;
use goodput_net::run::{Record, RunFacts};
use goodput_store::StoreError;
use goodput_store::layout::{RunDir, ScheduleRow, WORKLOAD};
use goodput_store::log::LogWriter;
use goodput_store::manifest::{Anchor, Clock, Engine, Manifest, Status};
use goodput_store::parquet::{LogAfter, convert};
use goodput_store::redact::redact_command_line;
use goodput_workload::{Tokenizer, Workload};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Writes plan, schedule and manifest at the start, a record for every request, and the Parquet files at the end.
pub(crate) struct Recorder {
    run: RunDir,
    manifest: Manifest,
    log: Option<LogWriter>,
    /// Counts output tokens where the server does not, if it has the model's own tokenizer.
    counter: Option<Arc<Workload>>,
    started: Instant,
    planned: u64,
}

impl Recorder {
    /// Writes everything that is known before the first request.
    pub(crate) fn begin(
        run: &RunDir,
        scene: &Scene,
        args: &RunArgs,
        reading: &Reading,
    ) -> Result<Self, Failure> {
        let clock = RunClock::start();
        let (run_ns, unix_ns) = clock.anchor();
        let start = Anchor { unix_ns, run_ns: run_ns.0 };
        let mut manifest =
            Manifest::starting(&scene.plan, Clock::starting("CLOCK_MONOTONIC", start, Some(clock.cost_ns())));
        manifest.command_line = redact_command_line(&std::env::args().collect::<Vec<_>>());
        manifest.engine = Engine {
            name: (scene.engine.engine != "unknown").then(|| scene.engine.engine.clone()),
            version: scene.engine.version.clone(),
            model: scene.engine.models.first().cloned(),
            max_model_tokens: scene.engine.max_model_len,
            facts: scene.engine.answers.clone(),
        };
        manifest.tags = args.output.tags.iter().cloned().collect();
        manifest.slo = reading.slo_text.clone();
        manifest.warmup_by_hand = args.load.warmup.is_some();
        manifest.host = host::host();
        manifest.self_check = cache::last(&manifest.host);
        let report = scene.workload.report();
        manifest.workload = serde_json::to_value(report).unwrap_or_default();
        let addresses = scene.targets.iter().map(|t| format!("{} is {}", t.url, t.address));
        manifest.notes.extend(addresses);
        let write = || -> Result<LogWriter, StoreError> {
            run.write_plan(&scene.plan)?;
            run.write_schedule(schedule_rows(&scene.plan, &scene.schedule, &scene.workload))?;
            run.write_json(WORKLOAD, report)?;
            manifest.write(run)?;
            LogWriter::create(run)
        };
        let log = write().map_err(|e| Failure::input(e.to_string()))?;
        Ok(Self {
            run: run.clone(),
            manifest,
            log: Some(log),
            counter: counts_output(scene).then(|| scene.workload.clone()),
            started: Instant::now(),
            planned: scene.schedule.measured.len() as u64,
        })
    }

    /// Takes one record of a running run.
    pub(crate) fn take(&mut self, record: Record) -> Result<(), String> {
        let now = Nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let Some(log) = &mut self.log else { return Ok(()) };
        if let Record::Finished(finished) = record {
            let timeline = with_counted_tokens(*finished, self.counter.as_deref().map(Workload::tokenizer));
            log.append(&timeline).map_err(|e| e.to_string())?;
        }
        log.tick(now).map_err(|e| e.to_string())
    }

    /// Closes the log, turns it into Parquet and completes the manifest. A run that failed has no facts about its
    /// client; they stay unknown.
    pub(crate) fn end(mut self, facts: Option<&RunFacts>, status: Status) -> Result<(), Failure> {
        let failed = |e: StoreError| Failure::invalid(e.to_string());
        if let Some(log) = self.log.take() {
            log.finish().map_err(failed)?;
        }
        if let Some(facts) = facts {
            self.note_client(facts);
        }
        self.manifest.status = status;
        convert(&self.run, LogAfter::Delete).map_err(failed)?;
        self.manifest.write(&self.run).map_err(failed)
    }

    fn note_client(&mut self, facts: &RunFacts) {
        let ms = |d: &Duration| d.as_secs_f64() * 1e3;
        let mut opening: Vec<f64> = facts.opening.iter().map(ms).collect();
        opening.sort_by(f64::total_cmp);
        let client = &mut self.manifest.client;
        let path = match self.manifest.asked.http {
            HttpVersion::Http1 => "threads that poll their own sockets, recvmsg",
            HttpVersion::Http2 => "one thread for all HTTP/2 streams, the time of the read",
        };
        client.receive_path = Some(path.to_owned());
        let priority =
            if facts.release.real_time { "at real-time priority" } else { "without real-time priority" };
        client.timer = Some(format!("thread that waits for the next absolute instant, {priority}"));
        client.kernel_stamps = Some(facts.receive.stamped_reads > 0);
        client.receive_threads = u32::try_from(facts.receive_threads).ok();
        client.receive_work_ns = facts.receive_work.and_then(|work| u64::try_from(work.as_nanos()).ok());
        client.cpu_ns = Some(facts.cpu_ns);
        client.memory_peak_bytes = host::memory_peak();
        client.cores_used = Some(facts.cores_used);
        // HTTP/2 does not poll its sockets itself, and counts none.
        client.wakeups = (facts.receive.wakeups > 0).then_some(facts.receive.wakeups);
        client.reads = Some(facts.receive.reads);
        client.stamped_reads = Some(facts.receive.stamped_reads);
        client.warm_connections = Some(facts.warm_connections as u64);
        client.connect_p50_ms = opening.get(opening.len() / 2).copied();
        client.connect_p99_ms = opening.get(opening.len() * 99 / 100).copied();
        client.connect_max_ms = opening.last().copied();
        client.connect_failure = facts.opening_failure.clone();
        client.requests_on_ready_connections = Some(facts.release.reused);
        client.requests_that_connected = Some(facts.release.opened);
        client.stale_connections_dropped = Some(facts.release.stale_dropped);
        client.record_stalls = Some(facts.receive.sink_stalls);
        client.usage_refused = Some(facts.usage_refused);
        if let Some(progress) = facts.progress {
            // In an open loop the plan knows more arrivals than may ever have become due.
            let unreached = self.planned.saturating_sub(progress.offered);
            self.manifest.never_released = progress.never_released + unreached;
        }
        self.manifest.clock.start = Anchor { unix_ns: facts.wall_at_epoch_ns, run_ns: 0 };
        let (run_ns, unix_ns) = facts.end_anchor;
        self.manifest.clock.close(Anchor { unix_ns, run_ns: run_ns.0 });
    }
}

/// Only a file is known to be the model's tokenizer: tiktoken's vocabularies are the default for building prompts,
/// and asking the server for every answer would load it.
fn counts_output(scene: &Scene) -> bool {
    matches!(scene.plan.workload.tokenizer, TokenizerChoice::File(_))
        && scene.workload.tokenizer().counts_output()
}

/// Where the server gave no count, the text is counted with the model's own tokenizer, whole and never by chunk.
fn with_counted_tokens(finished: Finished, tokenizer: Option<&Tokenizer>) -> Timeline {
    let Finished { mut timeline, texts } = finished;
    let estimated = timeline.output.is_some_and(|output| output.source.is_estimate());
    if let (true, Some(tokenizer)) = (estimated, tokenizer) {
        let mut count = 0;
        for choice in &texts {
            for text in [&choice.reasoning, &choice.text, &choice.tool_args] {
                count += tokenizer.count(text).unwrap_or(0);
            }
        }
        if count > 0 {
            timeline.output = Some(TokenCount { count, source: TokenSource::Retokenised });
        }
    }
    timeline
}

/// The schedule as it will be stored. A closed loop has no instants, and rows only where their number is known.
pub(crate) fn schedule_rows(
    plan: &Plan,
    schedule: &Schedule,
    workload: &Workload,
) -> impl Iterator<Item = ScheduleRow> {
    let row = |phase: Phase, request: u64, at: Option<Nanos>| {
        // Only a server's tokenizer can fail here; the request itself will then say so.
        let planned = workload.request(phase, request).ok();
        let max_tokens = planned.as_ref().and_then(|p| p.max_tokens);
        ScheduleRow {
            request,
            phase,
            scheduled_ns: at.map(|at| at.0),
            input_tokens: planned.map(|p| p.input_tokens),
            max_tokens: max_tokens.or(plan.request.max_tokens),
        }
    };
    let timed = [(Phase::Warmup, &schedule.warmup), (Phase::Measured, &schedule.measured)];
    let open = timed.into_iter().flat_map(move |(phase, instants)| {
        (0_u64..).zip(instants).map(move |(request, at)| row(phase, request, Some(*at)))
    });
    let counted = if plan.load.arrivals.is_none() { plan.stop.requests.unwrap_or(0) } else { 0 };
    open.chain((0..counted).map(move |request| row(Phase::Measured, request, None)))
}
