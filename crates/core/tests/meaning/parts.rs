//! A summary does not depend on how a run was divided among those who read it.

use crate::build::{by_name, closed, due, event, failed, ms, ok, open, stream, text};
use goodput_core::outcome::{CancelCause, Outcome, TimeoutPhase};
use goodput_core::ruler::RULERS;
use goodput_core::slo::Slo;
use goodput_core::summarise::{SummaryRequest, TimelineSource, summarise};
use goodput_core::timeline::{ChunkFlags, Phase, Timeline};
use goodput_core::window::WindowKind;
use proptest::prelude::*;
use std::convert::Infallible;

/// Timelines that are visited in parts, each of which ends before one of these places.
struct Parts<'a> {
    timelines: &'a [Timeline],
    cuts: &'a [usize],
}

impl TimelineSource for Parts<'_> {
    type Error = Infallible;

    fn for_each(&self, visit: &mut dyn FnMut(&Timeline)) -> Result<(), Infallible> {
        self.timelines.for_each(visit)
    }

    fn fold<P: Send>(
        &self,
        begin: impl Fn() -> P + Sync,
        visit: impl Fn(&mut P, &Timeline) + Sync,
    ) -> Result<Vec<P>, Infallible> {
        let mut bounds: Vec<usize> = self.cuts.iter().map(|cut| cut % (self.timelines.len() + 1)).collect();
        bounds.extend([0, self.timelines.len()]);
        bounds.sort_unstable();
        let part = |bounds: &[usize]| {
            let mut gathered = begin();
            self.timelines[bounds[0]..bounds[1]].iter().for_each(|t| visit(&mut gathered, t));
            gathered
        };
        Ok(bounds.windows(2).map(part).collect())
    }
}

/// Any outcome that leaves a mark of its own in a summary, and gaps up to stalls, with ties.
fn timeline() -> impl Strategy<Value = Timeline> {
    let gap = prop_oneof![3 => 0.0..30.0_f64, 1 => Just(10.0), 1 => 400.0..900.0_f64];
    let parts = (0.0..5_000.0_f64, 1.0..80.0_f64, prop::collection::vec(gap, 0..12), 0_u32..9);
    parts.prop_map(|(at, ttft, gaps, kind)| match kind {
        0 => failed(at, at + ttft, Outcome::Reset),
        1 => failed(at, at + 1_000.0 + ttft, Outcome::Timeout { phase: TimeoutPhase::Total }),
        2 => failed(at, at + ttft, Outcome::Cancelled { cause: CancelCause::RunEnd }),
        3 => Timeline { phase: Phase::Warmup, ..stream(at, ttft, &gaps) },
        4 => {
            let usage = event(at + ttft + 9.0, ChunkFlags::USAGE, 0);
            ok(at, vec![text(at + ttft, 3), text(at + ttft + 7.5, 2), usage])
        }
        _ => {
            let mut t = due(stream(at, ttft, &gaps), (at - 1.0).max(0.0));
            for (i, chunk) in t.chunks.iter_mut().enumerate() {
                chunk.late_ns = (i as u32 + 1) * 1_234;
                chunk.early_ns = if i % 3 == 0 { 777 * i as u32 } else { 0 };
                chunk.flags |= ChunkFlags::KERNEL_STAMP;
            }
            t.instants.connect_start = (kind == 5).then_some(t.instants.released);
            t.server.cached_tokens = (kind == 6).then_some(4);
            t
        }
    })
}

proptest! {
    /// To the last bit, under every ruler, with and without an SLO, in an open and in a closed loop.
    #[test]
    fn a_summary_in_parts_is_the_summary(
        mut timelines in prop::collection::vec(timeline(), 0..60),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        ruler in prop::sample::select(RULERS.iter().map(|ruler| ruler.name).collect::<Vec<_>>()),
        steady: bool,
        is_open: bool,
        with_slo: bool,
    ) {
        for (index, t) in (0..).zip(&mut timelines) {
            t.index = index;
            t.instants.released = t.instants.scheduled.map_or(t.instants.released, |due| due.max(ms(0.0)));
        }
        let slo = Slo::parse("ttft:60ms,tpot:20ms,e2e.p95:300ms,chunk_gap.p99:50ms").expect("is right");
        let request = SummaryRequest {
            ruler: by_name(ruler),
            window: if steady { WindowKind::Steady } else { WindowKind::Whole },
            slo: with_slo.then_some(&slo),
            ..SummaryRequest::new(if is_open { open() } else { closed() })
        };
        let json = |summary| serde_json::to_string(&summary).expect("a summary is JSON");
        let whole = json(summarise(&timelines, &request).expect("memory cannot fail"));
        let in_parts = Parts { timelines: &timelines, cuts: &cuts };
        prop_assert_eq!(json(summarise(&in_parts, &request).expect("memory cannot fail")), whole);
    }
}
