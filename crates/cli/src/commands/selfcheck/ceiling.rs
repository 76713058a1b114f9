//! How much goes through: as fast as the server writes, and paced just below what the client can take.

use super::bench::{Answers, Bench, Measured};
use super::grid::{self, Load};
use super::report::{Ceiling, Cell};
use crate::exit::Failure;
use goodput_core::time::Nanos;

/// Streams of the batched load.
const BATCHED_STREAMS: u32 = 64;
/// Tokens of each of its answers.
const BATCHED_TOKENS: u32 = 1_000;
/// Share of the client's estimated ceiling at which the paced load runs.
const NEAR: f64 = 0.85;
/// A receive thread that is busy for this share of the time is the limit.
const SATURATED: f64 = 0.9;
/// Bounds of the paced rate of one stream, in tokens per second.
const RATES: (f64, f64) = (10.0, 1_000.0);

/// As many chunks as go through, many a read.
pub(super) fn batched(bench: &Bench, duration: Nanos) -> Result<Ceiling, Failure> {
    let answers = Answers { ttft: Nanos::ZERO, itl: Nanos::ZERO, tokens: BATCHED_TOKENS };
    let measured = bench.measure(answers, &format!("--concurrency {BATCHED_STREAMS}"), duration)?;
    let limited_by = limit_of(&measured, false);
    Ok(Ceiling {
        kind: "batched".to_owned(),
        streams: BATCHED_STREAMS.into(),
        asked_chunks_per_s: None,
        got_chunks_per_s: measured.chunks_per_s,
        cores_used: measured.facts.cores_used,
        cpu_us_per_chunk: measured.cpu_us_per_chunk(),
        itl_p99_ms: None,
        server_late_p99_ms: None,
        limited_by,
    })
}

/// Near what the client can take, one event a read, over as many streams as the largest cell of the grid.
pub(super) fn paced(bench: &Bench, cells: &[Cell], duration: Nanos) -> Result<Option<Ceiling>, Failure> {
    let Some(load) = near_saturation(cells) else { return Ok(None) };
    let (cell, measured) = grid::measure(bench, load, duration)?;
    let kept_up = cell.got_chunks_per_s >= 0.95 * cell.asked_chunks_per_s;
    Ok(Some(Ceiling {
        kind: "paced".to_owned(),
        streams: cell.streams,
        asked_chunks_per_s: Some(cell.asked_chunks_per_s),
        got_chunks_per_s: cell.got_chunks_per_s,
        cores_used: cell.cores_used,
        cpu_us_per_chunk: cell.cpu_us_per_chunk,
        itl_p99_ms: cell.itl_ms.map(|itl| itl.p99),
        server_late_p99_ms: cell.server_late_p99_ms,
        limited_by: limit_of(&measured, kept_up),
    }))
}

/// The load that would keep one core busy for [`NEAR`] of the time at the cost per chunk of the busiest cell.
fn near_saturation(cells: &[Cell]) -> Option<Load> {
    let busiest = cells.iter().max_by(|a, b| a.got_chunks_per_s.total_cmp(&b.got_chunks_per_s))?;
    let cost_us = busiest.cpu_us_per_chunk.filter(|cost| *cost > 0.0)?;
    let streams = cells.iter().map(|cell| cell.streams).max()?;
    let rate = NEAR * 1e6 / cost_us / streams as f64;
    Some(Load { streams: u32::try_from(streams).ok()?, rate: rate.clamp(RATES.0, RATES.1) })
}

fn limit_of(measured: &Measured, kept_up: bool) -> String {
    let busy = measured.receive_busy();
    let share = format!("receive threads {:.0} % busy", busy * 100.0);
    if kept_up {
        format!("nothing: all that was asked came ({share})")
    } else if busy >= SATURATED {
        format!("this client ({share})")
    } else {
        format!("the server, or cores that both share ({share})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::selfcheck::report::Judgement;

    fn cell(streams: u64, got: f64, cost: Option<f64>) -> Cell {
        Cell {
            streams,
            rate_per_stream: 100.0,
            offered_s: 3.0,
            asked_chunks_per_s: got,
            got_chunks_per_s: got,
            requests: 1,
            failed: 0,
            ttft_ms: None,
            itl_ms: None,
            read_late_p99_ms: None,
            server_late_p99_ms: None,
            cores_used: 0.5,
            cpu_us_per_chunk: cost,
            judgement: Judgement::Good,
            reasons: Vec::new(),
        }
    }

    #[test]
    fn the_paced_load_is_just_below_one_core() {
        let cells = [cell(1, 100.0, Some(40.0)), cell(1_000, 60_000.0, Some(8.5))];
        assert_eq!(near_saturation(&cells), Some(Load { streams: 1_000, rate: 100.0 }));
        assert_eq!(
            near_saturation(&[cell(1, 100.0, Some(40.0))]).map(|load| load.rate),
            Some(1_000.0),
            "no more"
        );
        assert_eq!(near_saturation(&[cell(1, 100.0, None)]), None);
        assert_eq!(near_saturation(&[]), None);
    }
}
