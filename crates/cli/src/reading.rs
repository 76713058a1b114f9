//! From a stored run to its summary: the same path for `run`, right after measuring, and for `show`, at any time
//! later.

use crate::args::{IntervalsArg, ReadingArgs, WindowArg};
use crate::exit::{Exit, Failure};
use crate::host;
use crate::truth::TruthFile;
use goodput_core::interval::IntervalMethod;
use goodput_core::load_check::LoadContext;
use goodput_core::ruler::Ruler;
use goodput_core::slo::{DEFAULT_ATTAINMENT, Slo};
use goodput_core::summarise::{SummaryRequest, summarise};
use goodput_core::summary::Summary;
use goodput_core::truth::TruthReport;
use goodput_core::window::WindowKind;
use goodput_report::findings::{ClientFacts, FindingContext, findings};
use goodput_store::manifest::{Manifest, SloText};
use goodput_store::reader::RunReader;
use std::fs;
use std::path::Path;

/// How a run is to be read, resolved from the flags.
pub(crate) struct Reading {
    pub(crate) slo: Option<Slo>,
    /// The SLO as it was given, to be kept with the run.
    pub(crate) slo_text: Option<SloText>,
    truth: Option<TruthFile>,
    percentiles: Vec<f64>,
    window: WindowKind,
    intervals: Option<IntervalMethod>,
}

impl Reading {
    /// Reads the SLO, inline or from its file; without one, that of the stored run counts.
    pub(crate) fn resolve(args: &ReadingArgs, stored: Option<&Manifest>) -> Result<Self, Failure> {
        let intervals = args.intervals.map(|choice| match choice {
            IntervalsArg::Order => IntervalMethod::OrderStatistics,
            IntervalsArg::Blocks => IntervalMethod::TimeBlocks,
        });
        let slo_text = match &args.slo {
            Some(text) => Some(read_slo(text)?),
            None => stored.and_then(|manifest| manifest.slo.clone()),
        };
        let slo = slo_text.as_ref().map(|text| slo(text, args.slo.as_deref())).transpose()?;
        let window = window(args.window, slo.as_ref())?;
        let truth = args.truth.as_deref().map(|path| TruthFile::open(path, stored.is_none())).transpose()?;
        Ok(Self { slo, slo_text, truth, percentiles: args.percentiles.clone(), window, intervals })
    }

    /// How far the run is from the server's own record, if there is one. No ruler changes that.
    pub(crate) fn truth(&self, run: &RunReader) -> Result<Option<TruthReport>, Failure> {
        self.truth.as_ref().map(|file| file.join(run)).transpose()
    }

    /// The summary of one stored run under one ruler, with its findings.
    pub(crate) fn summary(&self, run: &RunReader, ruler: &Ruler) -> Result<Summary, Failure> {
        let request = SummaryRequest {
            ruler,
            profile: run.plan().load.arrivals.as_ref().map(|a| (&a.rate, run.plan().warmup)),
            window: self.window,
            slo: self.slo.as_ref(),
            percentiles: self.percentiles.clone(),
            intervals: self.intervals,
            run: Some(run.run().name()),
            partial: run.is_partial(),
            never_released: run.manifest().never_released,
            warmup_by_hand: run.manifest().warmup_by_hand,
            ..SummaryRequest::new(LoadContext::from_plan(run.plan()))
        };
        let mut summary = summarise(run, &request).map_err(|e| Failure::input(e.to_string()))?;
        let client = client_facts(run.manifest());
        let context = FindingContext {
            summary: &summary,
            plan: Some(run.plan()),
            client: Some(&client),
            workload: Some(&run.manifest().workload),
        };
        let found = findings(&context);
        summary.findings.extend(found);
        summary.findings.sort_by_key(|finding| finding.severity);
        Ok(summary)
    }
}

/// An SLO file says over which window it holds; over another one it would be another SLO.
fn window(asked: Option<WindowArg>, slo: Option<&Slo>) -> Result<WindowKind, Failure> {
    let asked = asked.map(|window| match window {
        WindowArg::Whole => WindowKind::Whole,
        WindowArg::Steady => WindowKind::Steady,
    });
    match (asked, slo.and_then(|slo| slo.window)) {
        (Some(asked), Some(meant)) if asked != meant => {
            let (asked, meant) = (asked.name(), meant.name());
            Err(Failure::input(format!("--window {asked}, but the SLO is meant for the {meant} window"))
                .hint("drop --window, or change the SLO file"))
        }
        (asked, meant) => Ok(asked.or(meant).unwrap_or(WindowKind::Whole)),
    }
}

/// A file if there is one of this name, else the inline form.
fn read_slo(text: &str) -> Result<SloText, Failure> {
    if !Path::new(text).is_file() {
        return Ok(SloText::Inline(text.to_owned()));
    }
    let content = fs::read_to_string(text).map_err(|e| Failure::input(format!("cannot read {text}: {e}")))?;
    Ok(SloText::File(content))
}

/// `given` is what was typed, if it was typed now and not when the run was made.
fn slo(text: &SloText, given: Option<&str>) -> Result<Slo, Failure> {
    match text {
        SloText::Inline(inline) => Slo::parse(inline).map_err(|e| {
            Failure::input(format!("--slo {inline}: {e}")).hint("a file of this name is not there either")
        }),
        SloText::File(content) => Slo::from_toml(content)
            .map_err(|e| Failure::input(format!("{}: {e}", given.unwrap_or("the run's SLO file")))),
    }
}

fn client_facts(manifest: &Manifest) -> ClientFacts {
    let client = &manifest.client;
    ClientFacts {
        cores_used: client.cores_used,
        host_cores: manifest.host.cores.map(f64::from).or_else(|| Some(host::usable_cores())),
        kernel_stamp_share: match (client.stamped_reads, client.reads) {
            (Some(stamped), Some(reads)) if reads > 0 => Some(stamped as f64 / reads as f64),
            _ => None,
        },
        sink_stalls: client.record_stalls.unwrap_or(0),
        opening_failure: client.connect_failure.clone(),
        usage_refused: client.usage_refused.unwrap_or(false),
        warm_connections: client.warm_connections.unwrap_or(0),
        connect_p50_ms: client.connect_p50_ms,
        connect_max_ms: client.connect_max_ms,
        requests_that_connected: client.requests_that_connected.unwrap_or(0),
        checked_loads: manifest
            .self_check
            .as_ref()
            .map(|check| check.good.iter().map(|load| (load.streams, load.chunks_per_s)).collect()),
    }
}

/// Whether the SLO was missed: attainment under its target, or a percentile that failed. Undecided is not missed.
pub(crate) fn misses(summary: &Summary, slo: &Slo) -> bool {
    let Some(goodput) = &summary.goodput else { return false };
    let target = slo.attainment.unwrap_or(DEFAULT_ATTAINMENT);
    let judged = slo.per_request().next().is_some();
    let under = judged && goodput.attainment.value.is_none_or(|value| value < target);
    under || goodput.verdicts.iter().any(|v| v.verdict == "fail")
}

/// The exit code that a finished run deserves.
pub(crate) fn verdict(summary: &Summary, slo: Option<&Slo>, gate: bool, strict: bool) -> Exit {
    if summary.counts.ok == 0 || (strict && summary.load.client_limited) {
        Exit::Invalid
    } else if gate && slo.is_some_and(|slo| misses(summary, slo)) {
        Exit::Gate
    } else {
        Exit::Done
    }
}
