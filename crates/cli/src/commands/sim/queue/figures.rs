//! What was seen of the queue, request by request, with intervals that know that requests remember each other.

use goodput_core::metric::Metric;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Phase, Timeline};
use goodput_drive::queue_server::{QueueRun, QueueRunError};
use goodput_stats::Interval;
use goodput_stats::batch::batch_means;

/// Batches of an interval: as many as leave each of them far longer than a queue below 0.95 remembers.
const BATCHES: usize = 20;
/// Of the intervals.
const CONFIDENCE: f64 = 0.95;
/// How they are made, in words.
pub(super) const METHOD: &str = "batch means 95 %, 20 batches";

/// A mean with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mean {
    pub(super) value: f64,
    pub(super) interval: Option<Interval>,
}

/// The waits and residences of the measured requests.
#[derive(Debug)]
pub(super) struct Seen {
    /// In seconds, in the order of arrival.
    wait: Vec<f64>,
    residence: Vec<f64>,
    /// Request-nanoseconds by the client's account, warm-up included.
    watched: u128,
    /// The same by the line's own account.
    occupancy: u128,
    /// When the last request left.
    pub(super) end: Nanos,
}

impl Seen {
    /// Runs the queue once.
    pub(super) fn of(run: &QueueRun, requests: u64) -> Result<Self, QueueRunError> {
        let n = usize::try_from(requests).unwrap_or(usize::MAX);
        let (mut wait, mut residence, mut watched) = (vec![0.0; n], vec![0.0; n], 0);
        let account = run.run(|t| {
            let (waited, stayed) = spans(&t);
            watched += u128::from(stayed.0);
            if let (Phase::Measured, Ok(index)) = (t.phase, usize::try_from(t.index)) {
                (wait[index], residence[index]) = (waited.as_secs_f64(), stayed.as_secs_f64());
            }
        })?;
        Ok(Self { wait, residence, watched, occupancy: account.occupancy, end: account.end })
    }

    pub(super) fn mean_wait(&self) -> Mean {
        mean(&self.wait)
    }

    pub(super) fn mean_residence(&self) -> Mean {
        mean(&self.residence)
    }

    /// The share of requests that had to wait.
    pub(super) fn p_wait(&self) -> Mean {
        mean(&self.wait.iter().map(|wait| f64::from(u8::from(*wait > 0.0))).collect::<Vec<_>>())
    }

    /// The share of requests whose wait (TTFT) or residence (E2E) is within `limit_s`; `None` for other metrics.
    pub(super) fn share_within(&self, metric: Metric, limit_s: f64) -> Option<Mean> {
        let series = match metric {
            Metric::Ttft => &self.wait,
            Metric::E2e => &self.residence,
            _ => return None,
        };
        Some(mean(&series.iter().map(|t| f64::from(u8::from(*t <= limit_s))).collect::<Vec<_>>()))
    }

    /// Little's law between two accounts of the same requests: time in the system as the client saw it (lambda W) over
    /// the integral of the number in the line (L).
    pub(super) fn little_ratio(&self) -> f64 {
        self.watched as f64 / self.occupancy as f64
    }
}

/// Waiting and residence; the first token comes when service begins.
fn spans(t: &Timeline) -> (Nanos, Nanos) {
    let since = |at: Option<Nanos>| at.map_or(Nanos::ZERO, |at| at.since(t.instants.released));
    (since(t.first_event()), since(t.instants.closed))
}

fn mean(series: &[f64]) -> Mean {
    let value = series.iter().sum::<f64>() / series.len() as f64;
    Mean { value, interval: batch_means(series, BATCHES, CONFIDENCE) }
}
