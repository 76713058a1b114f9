//! The record of a simulated run: the same directory as a real one's, without a date, a host or a client.

use super::engine::SimEngine;
use crate::args::SimRunArgs;
use crate::exit::Failure;
use crate::reading::Reading;
use crate::record::schedule_rows;
use goodput_core::plan::Plan;
use goodput_core::schedule::Schedule;
use goodput_core::time::Nanos;
use goodput_core::timeline::Timeline;
use goodput_drive::driver::Progress;
use goodput_model::event::Counters;
use goodput_model::request::Truth;
use goodput_store::StoreError;
use goodput_store::layout::{RunDir, WORKLOAD};
use goodput_store::log::LogWriter;
use goodput_store::manifest::{Anchor, Clock, Engine, Manifest, Status};
use goodput_store::parquet::{LogAfter, convert};
use goodput_store::redact::redact_command_line;
use goodput_workload::Workload;
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write};

/// Writes plan, schedule and manifest at the start, a record for every request, and the Parquet files at the end.
pub(crate) struct VirtualRecord {
    run: RunDir,
    manifest: Manifest,
    log: LogWriter,
    /// Where the engine's own account goes, if it is asked for.
    truth: Option<BufWriter<File>>,
    planned: u64,
}

impl VirtualRecord {
    /// Writes everything that is known before the first request.
    pub(crate) fn begin(
        run: &RunDir,
        (plan, schedule, workload): (&Plan, &Schedule, &Workload),
        (args, engine, reading): (&SimRunArgs, &SimEngine, &Reading),
    ) -> Result<Self, Failure> {
        let zero = Anchor { unix_ns: 0, run_ns: 0 };
        let mut manifest = Manifest::starting(plan, Clock::starting("virtual time", zero, None));
        manifest.command_line = redact_command_line(&std::env::args().collect::<Vec<_>>());
        manifest.engine = described(engine);
        manifest.tags = args.output.tags.iter().cloned().collect();
        manifest.slo.clone_from(&reading.slo_text);
        manifest.warmup_by_hand = args.load.warmup.is_some();
        manifest.workload = serde_json::to_value(workload.report()).unwrap_or_default();
        manifest
            .notes
            .push("simulated: no server was asked, and the instants are those of a model".to_owned());
        let write = || -> Result<LogWriter, StoreError> {
            run.write_plan(plan)?;
            run.write_schedule(schedule_rows(plan, schedule, workload))?;
            run.write_json(WORKLOAD, workload.report())?;
            manifest.write(run)?;
            LogWriter::create(run)
        };
        let log = write().map_err(|e| Failure::input(e.to_string()))?;
        let truth = args.engine_truth.as_deref().map(|path| {
            File::create(path)
                .map(BufWriter::new)
                .map_err(|e| Failure::input(format!("--engine-truth: cannot create {}: {e}", path.display())))
        });
        let planned = schedule.measured.len() as u64;
        Ok(Self { run: run.clone(), manifest, log, truth: truth.transpose()?, planned })
    }

    /// Takes one request that ended, and the engine's accounts of those that left it since the last.
    pub(crate) fn take(
        &mut self,
        timeline: &Timeline,
        truths: &mut Vec<(usize, Truth)>,
    ) -> Result<(), Failure> {
        self.log.append(timeline).map_err(|e| Failure::invalid(e.to_string()))?;
        for (replica, truth) in truths.drain(..) {
            if let Some(file) = &mut self.truth {
                let line = json!({ "replica": replica, "request": truth });
                writeln!(file, "{line}").map_err(|e| Failure::invalid(format!("--engine-truth: {e}")))?;
            }
        }
        Ok(())
    }

    /// Notes how the run went: when it was over, what was never sent, and the engines' counters.
    pub(crate) fn note(&mut self, over: Nanos, progress: Progress, counters: &Counters) {
        let unreached = self.planned.saturating_sub(progress.offered);
        self.manifest.never_released = progress.never_released + unreached;
        self.manifest.clock.close(Anchor { unix_ns: over.0, run_ns: over.0 });
        let counted = serde_json::to_value(counters).unwrap_or_default();
        self.manifest.engine.facts.insert("counters".to_owned(), counted);
    }

    /// Closes the log, turns it into Parquet and completes the manifest.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        let failed = |e: StoreError| Failure::invalid(e.to_string());
        if let Some(mut file) = self.truth.take() {
            file.flush().map_err(|e| Failure::invalid(format!("--engine-truth: {e}")))?;
        }
        self.log.finish().map_err(failed)?;
        self.manifest.status = Status::Complete;
        convert(&self.run, LogAfter::Delete).map_err(failed)?;
        self.manifest.write(&self.run).map_err(failed)
    }
}

/// The engine as the manifest has it: what was configured, in place of what a server would tell.
fn described(engine: &SimEngine) -> Engine {
    let SimEngine { profile, resolved, sources } = engine;
    let facts = [
        ("profile", json!({ "name": profile.name, "about": profile.about, "sources": sources })),
        ("knobs", json!(resolved.knobs)),
        ("config", json!(resolved.config)),
        ("replicas", json!(resolved.replicas)),
    ];
    Engine {
        name: Some(format!("simulated {}", resolved.config.policy.engine().name())),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        model: Some(resolved.model.clone()),
        max_model_tokens: Some(u64::from(resolved.config.max_model_len)),
        facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}
