//! `goodput run`: one load point, from the command line to the report.

use crate::args::{OutputArgs, RunArgs};
use crate::commands::explain::find_ruler;
use crate::commands::show::{text_context, to_json};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;
use crate::progress::ProgressLine;
use crate::reading::{Reading, verdict};
use crate::record::Recorder;
use crate::scene::{self, Scene};
use goodput_core::outcome::CancelCause;
use goodput_core::plan::{Load, Plan, RateProfile, Stop, Warmup};
use goodput_core::time::Nanos;
use goodput_drive::driver::DriverConfig;
use goodput_net::feed::FeedBounds;
use goodput_net::run::{PreparedRun, RunConfig, RunHandle};
use goodput_net::source::PlanSource;
use goodput_report::text;
use goodput_store::layout::RunDir;
use goodput_store::manifest::Status;
use goodput_store::reader::RunReader;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::time::Duration;

/// Requests kept encoded ahead of the release thread at least.
const AHEAD: u64 = 256;
/// Connections opened beforehand at most when only the rate says how many may be needed.
const WARM_MAX: u64 = 512;
/// How long opening connections beforehand may take.
const OPENING_LIMIT: Duration = Duration::from_secs(10);

/// Measures, stores, reads back and reports.
pub(crate) fn run(args: &RunArgs, printer: Printer) -> Result<Exit, Failure> {
    let ruler = find_ruler(&args.reading.ruler)?;
    let reading = Reading::resolve(&args.reading, None)?;
    let scene = scene::prepare(args)?;
    let prepared = prepare_load(args, &scene)?;
    let run = create_dir(&args.output)?;
    printer.notice(format_args!("run directory: {}", run.path().display()));
    let recorder = Recorder::begin(&run, &scene, args, &reading)?;
    let interrupted = measure(prepared, recorder, &run, printer)?;
    let stored = RunReader::open(run.path()).map_err(|e| Failure::invalid(e.to_string()))?;
    let mut summary = reading.summary(&stored, ruler)?;
    // A record that cannot be joined is told after the report, which holds without it.
    let truth = reading.truth(&stored);
    summary.truth = truth.as_ref().ok().cloned().flatten();
    goodput_store::summary::write_summary(&run, &summary).map_err(|e| Failure::invalid(e.to_string()))?;
    if args.output.json {
        printer.result(to_json(&summary)?);
    } else {
        printer.raw(&text::report(&summary, &text_context(&stored)));
    }
    truth?;
    if interrupted {
        return Ok(Exit::Interrupted);
    }
    Ok(verdict(&summary, reading.slo.as_ref(), args.verdict.gate, args.verdict.strict))
}

fn create_dir(output: &OutputArgs) -> Result<RunDir, Failure> {
    RunDir::create(&output.out, output.name.as_deref()).map_err(|e| Failure::input(e.to_string()))
}

/// Encodes the first requests and opens connections. What this machine refuses is refused here, before there is a
/// run directory.
pub(crate) fn prepare_load(args: &RunArgs, scene: &Scene) -> Result<PreparedRun, Failure> {
    let source =
        PlanSource::new(scene.plan.clone(), scene.workload.clone(), &scene.targets, scene.headers.clone())
            .map_err(|e| Failure::input(e.to_string()))?;
    PreparedRun::prepare(run_config(args, scene), Arc::new(source)).map_err(|e| Failure::input(e.to_string()))
}

/// Runs the load and stores what happened. Says whether the user broke it off.
fn measure(
    prepared: PreparedRun,
    mut recorder: Recorder,
    run: &RunDir,
    printer: Printer,
) -> Result<bool, Failure> {
    listen_for_interrupts(prepared.handle(), printer)?;
    let line = ProgressLine::start(prepared.handle(), printer.quiet);
    let result = prepared.execute(|record| recorder.take(record));
    drop(line);
    match result {
        Ok(facts) => {
            let interrupted = facts.progress.is_some_and(|p| p.cut_by == Some(CancelCause::Interrupt));
            let status = if interrupted { Status::Interrupted } else { Status::Complete };
            recorder.end(Some(&facts), status)?;
            Ok(interrupted)
        }
        Err(error) => {
            let failure = Failure::invalid(error.to_string())
                .hint(format!("what was measured is kept in {}", run.path().display()));
            // What broke the run is told first, even if its record cannot be closed either.
            Err(match recorder.end(None, Status::Failed { reason: error.to_string() }) {
                Ok(()) => failure,
                Err(also) => failure.hint(also.to_string()),
            })
        }
    }
}

fn run_config(args: &RunArgs, scene: &Scene) -> RunConfig {
    let Plan { load, stop, warmup, timeouts, target, .. } = &scene.plan;
    let slots = u64::from(load.concurrency.unwrap_or(0));
    let burst = match &load.arrivals {
        Some(arrivals) if arrivals.rate == RateProfile::Infinite => stop.requests.unwrap_or(0),
        _ => 0,
    };
    let ahead = AHEAD.max(slots).max(burst.min(8_192));
    RunConfig {
        targets: scene.targets.clone(),
        driver: DriverConfig {
            load: load.clone(),
            stop: *stop,
            warmup: *warmup,
            schedule: scene.schedule.clone(),
        },
        timeouts: *timeouts,
        http: target.http,
        connections: args.client.connections.unwrap_or_else(|| warm_connections(load, stop, scene)),
        opening_limit: OPENING_LIMIT,
        receive_threads: usize::from(args.client.receive_threads.unwrap_or_else(default_threads)),
        receive_work: args.client.receive_work.map(|work| Duration::from_nanos(work.0)),
        feed: FeedBounds {
            warmup: match (warmup, &load.arrivals) {
                (Warmup::None, _) => Some(0),
                (Warmup::Requests(n), _) => Some(*n),
                (Warmup::Duration(_), Some(_)) => Some(scene.schedule.warmup.len() as u64),
                (Warmup::Duration(_), None) => None,
            },
            measured: match &load.arrivals {
                Some(_) => Some(scene.schedule.measured.len() as u64),
                None => stop.requests,
            },
            ahead: usize::try_from(ahead).unwrap_or(usize::MAX),
        },
    }
}

/// Connections worth having before the start: one a slot; in an open loop a second's worth of arrivals.
fn warm_connections(load: &Load, stop: &Stop, scene: &Scene) -> usize {
    let needed = match (&load.arrivals, load.concurrency) {
        (None, slots) => u64::from(slots.unwrap_or(1)),
        (Some(arrivals), cap) => {
            let guess = match &arrivals.rate {
                RateProfile::Infinite => stop.requests.unwrap_or(1),
                _ => (busiest_second(&scene.schedule.measured) + 16).min(WARM_MAX),
            };
            guess.min(cap.map_or(u64::MAX, u64::from))
        }
    };
    let total = (scene.schedule.warmup.len() + scene.schedule.measured.len()) as u64;
    let useful =
        if load.arrivals.is_some() { needed.min(total) } else { needed.min(stop.requests.unwrap_or(needed)) };
    usize::try_from(useful.max(1)).unwrap_or(1)
}

/// Most arrivals within one second.
fn busiest_second(arrivals: &[Nanos]) -> u64 {
    let (mut first, mut most) = (0, 0);
    for (last, at) in arrivals.iter().enumerate() {
        while arrivals[first].saturating_add(Nanos::from_secs(1)) < *at {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most as u64
}

/// One thread absorbs more than most engines give; more threads only take cores from a local engine.
fn default_threads() -> u16 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if cores > 8 { u16::try_from(cores / 8).unwrap_or(1).clamp(1, 8) } else { 1 }
}

fn listen_for_interrupts(handle: RunHandle, printer: Printer) -> Result<(), Failure> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|e| Failure::input(format!("cannot handle signals: {e}")))?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            printer.notice("interrupted: ending the run, its record is kept (once more to stop waiting)");
            handle.interrupt();
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_second_is_found() {
        let at = |ms: &[u64]| ms.iter().map(|ms| Nanos::from_millis(*ms)).collect::<Vec<_>>();
        assert_eq!(busiest_second(&at(&[0, 900, 1_500, 1_600, 2_400, 9_000])), 3);
        assert_eq!(busiest_second(&[]), 0);
    }
}
