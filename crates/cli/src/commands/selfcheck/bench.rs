//! One load of a self-check: the exact server started in a process of its own, the real client path run against it
//! (release, receive, record, Parquet, summary), and both records joined.

use crate::args::{Cli, Command, RunArgs};
use crate::commands::run::prepare_load;
use crate::exact_server::ExactServer;
use crate::exit::Failure;
use crate::pin::CpuList;
use crate::reading::Reading;
use crate::record::Recorder;
use crate::scene;
use crate::truth::TruthFile;
use clap::Parser;
use goodput_core::ruler::CANONICAL;
use goodput_core::summarise::TimelineSource;
use goodput_core::summary::Summary;
use goodput_core::time::Nanos;
use goodput_core::truth::TruthReport;
use goodput_net::run::RunFacts;
use goodput_store::layout::RunDir;
use goodput_store::manifest::Status;
use goodput_store::reader::RunReader;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Flags of every load: short prompts that need no vocabulary, answers of the length that is asked for.
const WORKLOAD: &str = "--protocol openai-chat --data random --input-tokens 8 --tokenizer bytes --ignore-eos --quiet \
                        --intervals order --name run";

/// Where loads are run and their records kept for a moment.
pub(super) struct Bench {
    folder: TempDir,
    server_cpus: Option<CpuList>,
    stopped: Arc<AtomicBool>,
}

/// How the server answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Answers {
    /// Time to the first token.
    pub(super) ttft: Nanos,
    /// Time between tokens; zero for as fast as it can.
    pub(super) itl: Nanos,
    /// Tokens of each.
    pub(super) tokens: u32,
}

/// What a load came to.
pub(super) struct Measured {
    pub(super) summary: Summary,
    /// `None` for answers without time, of which the server keeps no record.
    pub(super) truth: Option<TruthReport>,
    pub(super) facts: RunFacts,
    /// Token-carrying events in all, warm-up included.
    chunks: u64,
    /// Those that arrived per second while measured load was offered.
    pub(super) chunks_per_s: f64,
}

impl Measured {
    /// CPU time of the whole client over its chunks, in microseconds.
    pub(super) fn cpu_us_per_chunk(&self) -> Option<f64> {
        (self.chunks > 0).then(|| self.facts.cpu_ns as f64 / 1e3 / self.chunks as f64)
    }

    /// Share of the run in which the receive threads were busy, of one core each.
    pub(super) fn receive_busy(&self) -> f64 {
        let span = self.facts.end_anchor.0.as_secs_f64().max(1e-9);
        self.facts.receive.cpu_ns as f64 / 1e9 / span / self.facts.receive_threads.max(1) as f64
    }
}

impl Bench {
    /// A place for loads. SIGINT and SIGTERM end the one that runs.
    pub(super) fn new(server_cpus: Option<CpuList>) -> Result<Self, Failure> {
        let folder = TempDir::with_prefix("goodput-selfcheck-")
            .map_err(|e| Failure::input(format!("cannot create a temporary folder: {e}")))?;
        let stopped = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, stopped.clone())
                .map_err(|e| Failure::input(format!("cannot handle signals: {e}")))?;
        }
        Ok(Self { folder, server_cpus, stopped })
    }

    /// Runs one load; `load` are flags of `goodput run` that say how much, `offered` for how long.
    pub(super) fn measure(&self, answers: Answers, load: &str, offered: Nanos) -> Result<Measured, Failure> {
        self.go_on()?;
        let truth = self.folder.path().join("truth.jsonl");
        let mut flags = vec![
            format!("--ttft={}ns", answers.ttft.0),
            format!("--itl={}ns", answers.itl.0),
            format!("--tokens={}", answers.tokens),
        ];
        let timed = answers.itl > Nanos::ZERO;
        if timed {
            flags.push(format!("--truth={}", truth.display()));
        }
        let server = ExactServer::start(&flags, self.server_cpus.as_ref())?;
        let tail = format!("--max-tokens {} --duration {}ns {load}", answers.tokens, offered.0);
        let args = run_args(&server.url, &self.folder, &tail)?;
        let (run, facts) = self.run(&args)?;
        server.stop()?;
        let stored = RunReader::open(run.path()).map_err(|e| Failure::invalid(e.to_string()))?;
        let measured = Measured {
            summary: Reading::resolve(&args.reading, Some(stored.manifest()))?
                .summary(&stored, &CANONICAL)?,
            truth: timed.then(|| TruthFile::open(&truth, false)?.join(&stored)).transpose()?,
            chunks: 0,
            chunks_per_s: 0.0,
            facts,
        };
        let measured = count_chunks(measured, &stored, offered)?;
        std::fs::remove_dir_all(run.path())
            .map_err(|e| Failure::invalid(format!("cannot remove a temporary run: {e}")))?;
        Ok(measured)
    }

    /// The way of `goodput run` up to the stored run.
    fn run(&self, args: &RunArgs) -> Result<(RunDir, RunFacts), Failure> {
        let reading = Reading::resolve(&args.reading, None)?;
        let scene = scene::prepare(args)?;
        let prepared = prepare_load(args, &scene)?;
        let run = RunDir::create(&args.output.out, args.output.name.as_deref())
            .map_err(|e| Failure::input(e.to_string()))?;
        let mut recorder = Recorder::begin(&run, &scene, args, &reading)?;
        let facts = prepared.execute(|record| match self.stopped.load(Ordering::Relaxed) {
            true => Err("interrupted".to_owned()),
            false => recorder.take(record),
        });
        self.go_on()?;
        let facts = facts.map_err(|e| Failure::invalid(e.to_string()))?;
        recorder.end(Some(&facts), Status::Complete)?;
        Ok((run, facts))
    }

    fn go_on(&self) -> Result<(), Failure> {
        if self.stopped.load(Ordering::Relaxed) { Err(Failure::interrupted("interrupted")) } else { Ok(()) }
    }
}

fn run_args(url: &str, folder: &TempDir, flags: &str) -> Result<RunArgs, Failure> {
    let out = folder.path().display().to_string();
    let fixed = ["goodput", "run", "--url", url, "--out", out.as_str()];
    let line = fixed.into_iter().chain(WORKLOAD.split_whitespace()).chain(flags.split_whitespace());
    let cli = Cli::try_parse_from(line).map_err(|e| Failure::input(e.to_string()))?;
    match cli.command {
        Command::Run(args) => Ok(*args),
        _ => Err(Failure::input("the self-check's own command line is broken")),
    }
}

/// Counts token events: all of them, and those within the time for which measured load was offered, in which a closed
/// loop has all its slots taken.
fn count_chunks(mut measured: Measured, run: &RunReader, offered: Nanos) -> Result<Measured, Failure> {
    let start = measured.facts.release.measured_from.unwrap_or_default();
    let span = start..start.saturating_add(offered);
    let (mut all, mut within) = (0_u64, 0_u64);
    run.for_each(&mut |t| {
        for chunk in t.token_chunks() {
            all += 1;
            within += u64::from(span.contains(&chunk.at));
        }
    })
    .map_err(|e| Failure::invalid(e.to_string()))?;
    measured.chunks = all;
    measured.chunks_per_s = within as f64 / offered.as_secs_f64().max(1e-9);
    Ok(measured)
}
