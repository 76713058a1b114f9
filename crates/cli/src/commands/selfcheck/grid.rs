//! The grid: streams by token rate, in a closed loop, each cell against the server's own truth.

use super::bench::{Answers, Bench, Measured};
use super::report::{Cell, Judgement};
use super::verdict::judge;
use crate::exit::Failure;
use goodput_core::time::Nanos;

/// About how long an answer takes, so that every stream makes several requests.
const ANSWER: Nanos = Nanos::from_millis(250);

/// One load of the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// Answers at the same time.
    pub(super) streams: u32,
    /// Tokens per second of each.
    pub(super) rate: f64,
}

impl Load {
    /// Tokens per second of all.
    pub(super) fn chunks_per_s(self) -> f64 {
        f64::from(self.streams) * self.rate
    }

    /// Answers at this rate. The first token comes after one gap, so that a stream that goes on without a pause has the
    /// rate exactly.
    fn answers(self) -> Answers {
        let gap = Nanos::from_secs_f64(1.0 / self.rate);
        let tokens = (ANSWER.as_secs_f64() * self.rate).ceil().clamp(2.0, 1e6);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 2 and a million"
        )]
        let tokens = tokens as u32;
        Answers { ttft: gap, itl: gap, tokens }
    }
}

/// Every load, small ones first.
pub(super) fn loads(streams: &[u32], rates: &[f64]) -> Vec<Load> {
    let mut loads: Vec<Load> =
        streams.iter().flat_map(|&streams| rates.iter().map(move |&rate| Load { streams, rate })).collect();
    loads.sort_by(|a, b| a.streams.cmp(&b.streams).then(a.rate.total_cmp(&b.rate)));
    loads.dedup();
    loads
}

/// Measures one load.
pub(super) fn measure(bench: &Bench, load: Load, duration: Nanos) -> Result<(Cell, Measured), Failure> {
    let measured = bench.measure(load.answers(), &format!("--concurrency {}", load.streams), duration)?;
    let truth = measured.truth.as_ref();
    let cell = Cell {
        streams: load.streams.into(),
        rate_per_stream: load.rate,
        offered_s: duration.as_secs_f64(),
        asked_chunks_per_s: load.chunks_per_s(),
        got_chunks_per_s: measured.chunks_per_s,
        requests: measured.summary.counts.ok,
        failed: measured.summary.counts.issued - measured.summary.counts.ok,
        ttft_ms: truth.and_then(|truth| truth.ttft_ms),
        itl_ms: truth.and_then(|truth| truth.chunk_gap_ms),
        read_late_p99_ms: measured.summary.load.read_lateness_ms.as_ref().map(|late| late.p99),
        server_late_p99_ms: truth.and_then(|truth| Some(truth.server_late_ms.as_ref()?.p99)),
        cores_used: measured.facts.cores_used,
        cpu_us_per_chunk: measured.cpu_us_per_chunk(),
        judgement: Judgement::Undecided,
        reasons: Vec::new(),
    };
    Ok((judge(cell), measured))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_goes_on_has_its_rate() {
        let slow = Load { streams: 1, rate: 10.0 }.answers();
        assert_eq!((slow.ttft, slow.itl, slow.tokens), (Nanos::from_millis(100), Nanos::from_millis(100), 3));
        let fast = Load { streams: 1, rate: 100.0 }.answers();
        assert_eq!((fast.ttft, fast.tokens), (Nanos::from_millis(10), 25));
        assert_eq!(Load { streams: 1, rate: 0.1 }.answers().tokens, 2, "a gap takes two tokens");
    }

    #[test]
    fn the_grid_is_every_pair_once() {
        let loads = loads(&[64, 1, 64], &[100.0, 10.0]);
        let pairs: Vec<(u32, f64)> = loads.iter().map(|load| (load.streams, load.rate)).collect();
        assert_eq!(pairs, [(1, 10.0), (1, 100.0), (64, 10.0), (64, 100.0)]);
        assert_eq!(loads[3].chunks_per_s(), 6_400.0);
    }
}
