//! From timelines to [`Summary`]: two passes over a source, one ruler, one window.
//!
//! The first pass keeps a few facts per request, from which the windows are found; the second pools samples of the
//! requests in the window. Both are made in as many parts as the source likes, and what the parts gathered is whole
//! numbers only, so that the summary is the same to the last bit. Memory is bounded by the number of requests (128 bytes each) and by the samplers (24 MB a
//! metric, and the blocks of time of those that have such intervals), never by the number of tokens. Nothing here is
//! averaged over percentiles; undefined is `None`, and a failed request has no latency.

mod distribution;
mod findings;
mod pools;

use crate::facts::Fact;
use crate::gap_check::AskedRate;
use crate::interval::IntervalMethod;
use crate::load_check::{self, LoadContext, Scale};
use crate::metric::Metric;
use crate::plan::{RateProfile, Warmup};
use crate::rate::RateIntegral;
use crate::ruler::{CANONICAL, Ruler};
use crate::slo::Slo;
use crate::summary::{SCHEMA, Summary};
use crate::time::Nanos;
use crate::timeline::{Phase, Timeline};
use crate::window::{self, NoSteady, Span, WindowKind};
use crate::{concurrency, throughput};
use goodput_stats::Method;
use pools::Pools;
use std::convert::Infallible;

pub use findings::{RULES, Rule};

/// Chunk gaps longer than this are stalls, unless something else is asked.
pub const STALL_THRESHOLD: Nanos = Nanos::from_millis(500);

/// Percentiles that are given unless others are asked for.
pub const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];

/// Where timelines come from: memory, or a file that is read twice.
pub trait TimelineSource {
    /// Why reading failed.
    type Error;

    /// Visits every timeline, in any order; the same ones in the same order each time.
    ///
    /// # Errors
    /// Whatever the source meets.
    fn for_each(&self, visit: &mut dyn FnMut(&Timeline)) -> Result<(), Self::Error>;

    /// Visits every timeline in parts, which a source may read at the same time: consecutive timelines, gathered by a
    /// value of their own, and the values in the order of the parts. This one is a single part.
    ///
    /// # Errors
    /// Whatever the source meets.
    fn fold<P: Send>(
        &self,
        begin: impl Fn() -> P + Sync,
        visit: impl Fn(&mut P, &Timeline) + Sync,
    ) -> Result<Vec<P>, Self::Error> {
        let mut part = begin();
        self.for_each(&mut |timeline| visit(&mut part, timeline))?;
        Ok(vec![part])
    }
}

impl TimelineSource for [Timeline] {
    type Error = Infallible;

    fn for_each(&self, visit: &mut dyn FnMut(&Timeline)) -> Result<(), Infallible> {
        self.iter().for_each(visit);
        Ok(())
    }
}

impl TimelineSource for Vec<Timeline> {
    type Error = Infallible;

    fn for_each(&self, visit: &mut dyn FnMut(&Timeline)) -> Result<(), Infallible> {
        self.as_slice().for_each(visit)
    }
}

/// What a summary is asked to be.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryRequest<'a> {
    /// The conventions.
    pub ruler: &'a Ruler,
    /// What was asked of the load driver.
    pub load: LoadContext,
    /// The rate over time and what came before it, where the rate is not the steady one that `load` has.
    pub profile: Option<(&'a RateProfile, Warmup)>,
    /// The window the figures cover. Where there is no steady state, the whole run is given with a finding.
    pub window: WindowKind,
    /// The objectives, if any.
    pub slo: Option<&'a Slo>,
    /// Percentiles as people write them, each in (0, 100).
    pub percentiles: Vec<f64>,
    /// Run name.
    pub run: Option<String>,
    /// Whether the run was cut off before its end.
    pub partial: bool,
    /// Arrivals that the schedule had and that were never released.
    pub never_released: u64,
    /// Whether the warm-up was chosen by hand, so that the steady window of an open loop begins with the first
    /// measured request.
    pub warmup_by_hand: bool,
    /// Chunk gaps longer than this are stalls.
    pub stall_threshold: Nanos,
    /// How the intervals of percentiles are made; `None` is [`IntervalMethod::usual`] for each metric.
    pub intervals: Option<IntervalMethod>,
}

impl<'a> SummaryRequest<'a> {
    /// The defaults: canonical ruler, whole run, no SLO, [`PERCENTILES`], [`STALL_THRESHOLD`].
    #[must_use]
    pub fn new(load: LoadContext) -> SummaryRequest<'a> {
        Self {
            ruler: &CANONICAL,
            load,
            profile: None,
            window: WindowKind::Whole,
            slo: None,
            percentiles: PERCENTILES.to_vec(),
            run: None,
            partial: false,
            never_released: 0,
            warmup_by_hand: false,
            stall_threshold: STALL_THRESHOLD,
            intervals: None,
        }
    }
}

/// The windows of a run: the one that is covered, and the other one or why there is none.
struct Windows {
    covered: Span,
    other: Option<Span>,
    /// Why there is no steady window, where one was looked for in vain.
    no_steady: Option<NoSteady>,
}

impl Windows {
    fn find(facts: &[Fact], request: &SummaryRequest<'_>) -> Self {
        let whole = window::whole(facts, request.ruler, &request.load);
        match (window::steady(facts, &request.load, request.warmup_by_hand), request.window) {
            (Ok(steady), WindowKind::Steady) => Self { covered: steady, other: Some(whole), no_steady: None },
            (Ok(steady), WindowKind::Whole) => Self { covered: whole, other: Some(steady), no_steady: None },
            (Err(why), _) => Self { covered: whole, other: None, no_steady: Some(why) },
        }
    }
}

/// Computes every number of a run.
///
/// # Errors
/// Only what the source returns; a run without a single request gives a summary full of `null`.
pub fn summarise<S: TimelineSource + ?Sized>(
    source: &S,
    request: &SummaryRequest<'_>,
) -> Result<Summary, S::Error> {
    let first = FirstPass::of(source.fold(FirstPass::default, |first, t| first.add(t, request))?);
    let windows = Windows::find(&first.facts, request);
    let begin = || Pools::new(request, &windows.covered, &first.facts);
    let parts = source.fold(begin, |pools, t| {
        if t.phase == Phase::Measured {
            pools.add(t);
        }
    })?;
    let pools = parts.into_iter().reduce(Pools::merged).unwrap_or_else(begin);
    let mut summary = assemble(pools, &first.facts, windows, request, first.warmup_end);
    summary.counts.warmup = first.warmup;
    Ok(summary)
}

/// What the first pass gathers.
#[derive(Default)]
struct FirstPass {
    facts: Vec<Fact>,
    warmup: u64,
    /// The last scheduled instant of the warm-up.
    warmup_end: Nanos,
}

impl FirstPass {
    fn add(&mut self, t: &Timeline, request: &SummaryRequest<'_>) {
        match t.phase {
            Phase::Warmup => {
                self.warmup += 1;
                self.warmup_end = self.warmup_end.max(t.instants.scheduled.unwrap_or_default());
            }
            Phase::Measured => {
                self.facts.push(Fact::of(t, &request.ruler.measure(t, request.load.protocol)));
            }
        }
    }

    /// The parts, put together in their order.
    fn of(parts: Vec<Self>) -> Self {
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        for part in parts {
            all.facts.reserve_exact(part.facts.len());
            all.facts.extend(part.facts);
            all.warmup += part.warmup;
            all.warmup_end = all.warmup_end.max(part.warmup_end);
        }
        all
    }
}

/// The asked rate over time; `None` where none was asked. After a warm-up by number the profile counts from the end of
/// its last gap.
fn asked_rate(request: &SummaryRequest<'_>, warmup_end: Nanos) -> Option<AskedRate> {
    let steady = request.load.asked_rps.map(|rate| RateProfile::Steady { rate });
    let (profile, warmup) = request.profile.or(steady.as_ref().map(|rate| (rate, Warmup::None)))?;
    let from = match warmup {
        Warmup::None => Nanos::ZERO,
        Warmup::Duration(duration) => duration,
        Warmup::Requests(_) => warmup_end,
    };
    RateIntegral::of(profile).map(|integral| AskedRate { integral, from })
}

fn assemble(
    pools: Pools<'_>,
    facts: &[Fact],
    windows: Windows,
    request: &SummaryRequest<'_>,
    warmup_end: Nanos,
) -> Summary {
    let span = &windows.covered;
    let members: Vec<&Fact> = facts.iter().filter(|f| span.holds(f.start)).collect();
    let pooled = pools.finish(request, span.seconds());
    let at = |metric: Metric, level| {
        pooled.gathered[metric as usize].sorted.quantile(level, Method::Linear).unwrap_or_default()
    };
    let scale = Scale { ttft_p50: at(Metric::Ttft, 0.5), gap_p99: at(Metric::ChunkGap, 0.99) };
    let asked = asked_rate(request, warmup_end);
    let mut summary = Summary {
        schema: SCHEMA.into(),
        run: request.run.clone(),
        ruler: request.ruler.name.into(),
        partial: request.partial,
        counts: pooled.counts,
        window: span.report(facts),
        windows: windows.other.iter().map(|w| w.report(facts)).collect(),
        load: load_check::report(&members, &request.load, asked.as_ref(), pooled.reading, scale),
        connections: load_check::connections(&members),
        throughput: throughput::report(facts, span, pooled.peak_output),
        concurrency: concurrency::report(facts, span, request.ruler),
        tokens: pooled.tokens,
        metrics: pooled.metrics,
        stalls: pooled.stalls,
        goodput: pooled.goodput,
        truth: None,
        findings: Vec::new(),
    };
    summary.counts.never_released = request.never_released;
    summary.findings = findings::of(&summary, request, windows.no_steady);
    summary
}
