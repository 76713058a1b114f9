//! `goodput selfcheck`: how far this client is off on this host, how much it can take, and what is in the way of
//! more. The exact server runs in a process of its own and keeps its own truth; the client is the one of `run`, down
//! to the record on disk.

mod bench;
pub(crate) mod cache;
mod ceiling;
mod grid;
mod limits;
mod pacing;
mod report;
mod table;
mod timer;
mod verdict;

use crate::args::SelfcheckArgs;
use crate::commands::show::to_json;
use crate::exit::{Exit, Failure};
use crate::host;
use crate::pin::{CpuList, pin};
use crate::printer::Printer;
use crate::progress::StepLine;
use bench::{Bench, Measured};
use goodput_core::time::Nanos;
use grid::Load;
use limits::{Around, CpuTimes};
use report::{HostKey, Report, SCHEMA, Stamps};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long is looked at what else runs here before the check.
const LOOK: Duration = Duration::from_millis(200);
/// What one load takes besides the time for which it is offered: warm-up, drain, start and reading back.
const BESIDE: f64 = 0.8;
/// Fewer reads than this share with a kernel stamp, and latencies are those of reading.
const STAMPED_SHARE: f64 = 0.99;

/// How much is measured, resolved from the flags.
struct Extent {
    loads: Vec<Load>,
    duration: Nanos,
    /// Rates of the open loops, and for how long each.
    arrivals: (Vec<f64>, Nanos),
    /// For how long each of the two ceilings.
    ceiling: Nanos,
}

impl Extent {
    fn of(args: &SelfcheckArgs) -> Self {
        let (streams, rates, duration, part) = if args.quick {
            (vec![64, 1_000], vec![100.0], Nanos::from_secs(1), Nanos::from_millis(800))
        } else {
            (vec![1, 64, 256, 1_000], vec![10.0, 100.0], Nanos::from_secs(3), Nanos::from_millis(1_500))
        };
        let or = |given: &[u32], usual: Vec<u32>| if given.is_empty() { usual } else { given.to_vec() };
        let part = args.duration.unwrap_or(part);
        let rates = if args.rate.is_empty() { rates } else { args.rate.clone() };
        Self {
            loads: grid::loads(&or(&args.streams, streams), &rates),
            duration: args.duration.unwrap_or(duration),
            arrivals: (vec![400.0, 2_000.0], part),
            ceiling: part,
        }
    }

    /// About how long all of it takes, in seconds.
    fn seconds(&self) -> f64 {
        let loads = self.loads.len() as f64 * (self.duration.as_secs_f64() + BESIDE);
        let arrivals = self.arrivals.0.len() as f64 * (self.arrivals.1.as_secs_f64() + BESIDE);
        loads + arrivals + 2.0 * (self.ceiling.as_secs_f64() + BESIDE)
    }
}

/// Measures, prints, and keeps what was found.
pub(crate) fn run(args: &SelfcheckArgs, printer: Printer) -> Result<Exit, Failure> {
    let report = check(args)?;
    let json = to_json(&report)?;
    if args.json {
        printer.result(&json);
    } else {
        printer.raw(&table::text(&report));
    }
    if !args.no_cache {
        keep(&report, &json, printer);
    }
    Ok(if report.verdict.fit { Exit::Done } else { Exit::Invalid })
}

fn check(args: &SelfcheckArgs) -> Result<Report, Failure> {
    let extent = Extent::of(args);
    let mut line = StepLine::start("goodput selfcheck", extent.seconds(), args.quiet);
    let began = Instant::now();
    let before = CpuTimes::now().inspect(|_| std::thread::sleep(LOOK)).zip(CpuTimes::now());
    let cores = host::usable_cores();
    if let Some(cpus) = &args.client_cpus {
        pin(cpus)?;
    }
    let timer = timer::trial()?;
    let bench = Bench::new(args.server_cpus.clone())?;
    let (mut cells, mut reads, mut real_time) = (Vec::new(), (0, 0), true);
    for load in &extent.loads {
        let step = format!("{} streams at {} tokens/s", load.streams, load.rate);
        line.step(&step, extent.duration.as_secs_f64() + BESIDE);
        let (cell, measured) = grid::measure(&bench, *load, extent.duration)?;
        reads = add_reads(reads, &measured);
        real_time &= measured.facts.release.real_time;
        cells.push(cell);
    }
    let (rates, lasts) = &extent.arrivals;
    let mut pacing = Vec::new();
    for rate in rates {
        line.step(&format!("{rate} arrivals/s"), lasts.as_secs_f64() + BESIDE);
        pacing.push(pacing::measure(&bench, *rate, *lasts)?);
    }
    line.step("as much as goes through", extent.ceiling.as_secs_f64() + BESIDE);
    let mut ceiling = vec![ceiling::batched(&bench, extent.ceiling)?];
    line.step("near saturation", extent.ceiling.as_secs_f64() + BESIDE);
    ceiling.extend(ceiling::paced(&bench, &cells, extent.ceiling)?);
    let during = before.map(|(_, start)| start).zip(CpuTimes::now());
    let limits = limits::limits(&Around { cores, real_time, before, during });
    Ok(Report {
        schema: SCHEMA.to_owned(),
        host: HostKey::of(&host::host()),
        at_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        quick: args.quick,
        took_s: began.elapsed().as_secs_f64(),
        server_cpus: args.server_cpus.as_ref().map(CpuList::to_string),
        client_cpus: args.client_cpus.as_ref().map(CpuList::to_string),
        verdict: verdict::verdict(&cells, &pacing, &limits),
        stamps: stamps(reads),
        cells,
        pacing,
        ceiling,
        timer,
        limits,
    })
}

/// Reads with a kernel stamp, and all.
fn add_reads((stamped, all): (u64, u64), measured: &Measured) -> (u64, u64) {
    let receive = &measured.facts.receive;
    (stamped + receive.stamped_reads, all + receive.reads)
}

fn stamps((stamped, all): (u64, u64)) -> Stamps {
    let share = (all > 0).then(|| stamped as f64 / all as f64);
    let kernel = share.is_some_and(|share| share >= STAMPED_SHARE);
    Stamps { source: if kernel { "kernel" } else { "user space" }.to_owned(), kernel_share: share }
}

/// A check that cannot be kept is one all the same.
fn keep(report: &Report, json: &str, printer: Printer) {
    let Some(path) = cache::path() else {
        printer.notice("not kept for later runs: neither XDG_CACHE_HOME nor HOME is set");
        return;
    };
    let shown = path.display();
    match cache::keep(json, &report.host, report.quick, &path) {
        Ok(true) => printer.notice(format_args!("kept for later runs in {shown}")),
        Ok(false) => printer.notice(format_args!("not kept: {shown} holds a longer check of this host")),
        Err(error) => printer.notice(format_args!("not kept for later runs: cannot write {shown}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_the_kernels_where_nearly_all_are() {
        assert_eq!(stamps((99, 100)).source, "kernel");
        assert_eq!(stamps((98, 100)).source, "user space");
        assert_eq!(stamps((0, 0)).kernel_share, None);
    }
}
