//! The server's memory of its own run: histograms in bounded memory, and one JSON line per request if asked.
//!
//! Times come in as the server measured them; nothing here reads a clock except to place the run in Unix time.

use crate::answer::Carried;
use crate::clock::Clock;
use crate::histogram::Histogram;
use crate::truth::{Arrivals, Connections, Instants, Requests, Spread, Truth};
use crate::truth_file::{EngineInstants, Fate, TruthLine};
use goodput_core::time::Nanos;
use std::io::{self, BufWriter, Write};

/// Arrivals whose instants are kept: 8 MiB.
const INSTANTS_KEPT: usize = 1 << 20;

/// Where the JSON lines go.
pub(crate) type TruthFile = Box<dyn Write + Send>;

/// One request for an answer.
#[derive(Debug)]
pub(crate) struct Record {
    /// Number since the start or the last reset, from 0.
    pub(crate) n: u64,
    request_id: Option<String>,
    connection: u64,
    accepted: Nanos,
    arrived: Nanos,
    /// Which reset it belongs to.
    era: u64,
    /// Whether the answer is a stream; known from its first chunk on.
    stream: bool,
    /// First and last chunk, due and written.
    first: Option<Moment>,
    last: Option<Moment>,
    tokens: u64,
    chunks: u64,
    /// Every chunk, if there is a file to write it to.
    moments: Vec<Moment>,
    /// What the simulated engine says of it.
    pub(crate) engine: Option<EngineInstants>,
}

/// One chunk.
#[derive(Debug, Clone, Copy)]
struct Moment {
    due: Nanos,
    written: Nanos,
    tokens: u32,
}

/// An arrival.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) at: Nanos,
    /// Whether `at` is the kernel's.
    pub(crate) kernel: bool,
    /// Number of the connection.
    pub(crate) connection: u64,
    /// When the connection was accepted.
    pub(crate) accepted: Nanos,
}

/// Figures since the last reset.
#[derive(Debug, Default)]
struct Tally {
    requests: Requests,
    kernel_stamped: u64,
    first_arrival: Option<Nanos>,
    last_arrival: Option<Nanos>,
    /// Every arrival, up to [`INSTANTS_KEPT`].
    instants: Vec<Nanos>,
    last_write: Option<Nanos>,
    /// Welford's running mean and sum of squares of the gaps, seconds.
    gaps: u64,
    gap_mean: f64,
    gap_squares: f64,
    tokens: u64,
    chunks: u64,
    ttft: Histogram,
    ttft_due: Histogram,
    tpot: Histogram,
    itl: Histogram,
    itl_due: Histogram,
    e2e: Histogram,
    lateness: Histogram,
}

/// The whole account.
pub(crate) struct Ledger {
    mode: &'static str,
    clock: Clock,
    file: Option<BufWriter<TruthFile>>,
    /// Whether lines wait in the file's buffer.
    unflushed: bool,
    connections: Connections,
    era: u64,
    tally: Tally,
}

impl Ledger {
    pub(crate) fn new(mode: &'static str, clock: Clock, file: Option<TruthFile>) -> Self {
        let file = file.map(|file| BufWriter::with_capacity(64 * 1024, file));
        Self {
            mode,
            clock,
            file,
            unflushed: false,
            connections: Connections::default(),
            era: 0,
            tally: Tally::default(),
        }
    }

    /// Forgets everything but what is open now; requests in flight count in no figure any more.
    pub(crate) fn reset(&mut self) {
        self.era += 1;
        self.tally = Tally::default();
        self.connections.accepted = 0;
        self.connections.peak = self.connections.open;
    }

    /// Counts a new connection.
    pub(crate) fn accepted(&mut self) {
        self.connections.accepted += 1;
        self.connections.open += 1;
        self.connections.peak = self.connections.peak.max(self.connections.open);
    }

    /// Counts a closed one.
    pub(crate) fn closed(&mut self) {
        self.connections.open -= 1;
    }

    /// Opens the record of a request.
    pub(crate) fn arrived(&mut self, arrival: Arrival, request_id: Option<String>) -> Record {
        let tally = &mut self.tally;
        let n = tally.requests.arrived;
        tally.requests.arrived += 1;
        tally.requests.in_flight += 1;
        tally.requests.in_flight_peak = tally.requests.in_flight_peak.max(tally.requests.in_flight);
        tally.kernel_stamped += u64::from(arrival.kernel);
        if let Some(last) = tally.last_arrival {
            tally.add_gap(arrival.at.since(last).as_secs_f64());
        }
        tally.first_arrival.get_or_insert(arrival.at);
        if tally.instants.len() < INSTANTS_KEPT {
            tally.instants.push(arrival.at);
        }
        // Two requests can be read in another order than they arrived.
        tally.last_arrival = tally.last_arrival.max(Some(arrival.at));
        Record {
            n,
            request_id,
            connection: arrival.connection,
            accepted: arrival.accepted,
            arrived: arrival.at,
            era: self.era,
            stream: false,
            first: None,
            last: None,
            tokens: 0,
            chunks: 0,
            moments: Vec::new(),
            engine: None,
        }
    }

    /// Notes how many requests wait for a slot.
    pub(crate) fn waiting(&mut self, count: usize) {
        self.tally.requests.waiting_peak = self.tally.requests.waiting_peak.max(count as u64);
    }

    /// Notes a write that carried chunks. `stream` is false for an answer in one piece, which has no first token.
    pub(crate) fn wrote(
        &mut self,
        record: &mut Record,
        times: (Nanos, Nanos),
        carried: Carried,
        stream: bool,
    ) {
        let (due, written) = times;
        let moment = Moment { due, written, tokens: carried.tokens };
        if self.file.is_some() {
            record.moments.push(moment);
        }
        record.tokens += u64::from(carried.tokens);
        record.chunks += u64::from(carried.chunks);
        record.stream = stream;
        let before = record.last.replace(moment);
        record.first.get_or_insert(moment);
        if record.era != self.era {
            return;
        }
        let tally = &mut self.tally;
        tally.tokens += u64::from(carried.tokens);
        tally.chunks += u64::from(carried.chunks);
        tally.last_write = tally.last_write.max(Some(written));
        tally.lateness.add(written.since(due));
        if !stream {
            return;
        }
        if let Some(before) = before {
            tally.itl.add(written.since(before.written));
            tally.itl_due.add(due.since(before.due));
        } else {
            tally.ttft.add(written.since(record.arrived));
            tally.ttft_due.add(due.since(record.arrived));
        }
        // Chunks that share a write follow each other at once.
        for _ in 1..carried.chunks {
            tally.itl.add(Nanos::ZERO);
            tally.itl_due.add(Nanos::ZERO);
        }
    }

    /// Closes the record of a request.
    pub(crate) fn ended(&mut self, record: &Record, fate: Fate) -> io::Result<()> {
        if record.era == self.era {
            let tally = &mut self.tally;
            match fate {
                Fate::Finished => {
                    tally.requests.finished += 1;
                    if let Some(last) = record.last {
                        tally.e2e.add(last.written.since(record.arrived));
                    }
                    if let Some(pace) = record.pace() {
                        tally.tpot.add(pace);
                    }
                }
                Fate::Disconnected => tally.requests.disconnected += 1,
                Fate::Open => {}
            }
            if fate != Fate::Open {
                tally.requests.in_flight -= 1;
            }
        }
        match &mut self.file {
            Some(file) => {
                self.unflushed = true;
                serde_json::to_writer(&mut *file, &line(record, fate, &self.clock))?;
                file.write_all(b"\n")
            }
            None => Ok(()),
        }
    }

    /// Writes out what is buffered, if anything is.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.unflushed) {
            return Ok(());
        }
        self.file.as_mut().map_or(Ok(()), BufWriter::flush)
    }

    /// When every request arrived.
    pub(crate) fn instants(&self) -> Instants {
        let kept = &self.tally.instants;
        Instants {
            unix_ns: kept.iter().map(|&at| self.clock.unix(at)).collect(),
            left_out: self.tally.requests.arrived - kept.len() as u64,
        }
    }

    /// The account so far.
    pub(crate) fn truth(&self) -> Truth {
        let tally = &self.tally;
        let ms = |histogram| Spread::of(histogram, 1e6);
        Truth {
            mode: self.mode.to_owned(),
            wall_step_ns: self.clock.wall_step(),
            connections: self.connections,
            requests: tally.requests,
            arrivals: tally.arrivals(&self.clock),
            tokens: tally.tokens,
            chunks: tally.chunks,
            last_write_unix_ns: tally.last_write.map(|at| self.clock.unix(at)),
            ttft_ms: ms(&tally.ttft),
            ttft_due_ms: ms(&tally.ttft_due),
            tpot_ms: ms(&tally.tpot),
            itl_ms: ms(&tally.itl),
            itl_due_ms: ms(&tally.itl_due),
            e2e_ms: ms(&tally.e2e),
            lateness_us: Spread::of(&tally.lateness, 1e3),
            engine: None,
        }
    }
}

impl Record {
    /// Mean time per token after the first of a stream.
    fn pace(&self) -> Option<Nanos> {
        let (first, last) = (self.first?, self.last?);
        (self.stream && self.tokens > 1)
            .then(|| Nanos(last.written.since(first.written).0 / (self.tokens - 1)))
    }
}

impl Tally {
    fn add_gap(&mut self, gap: f64) {
        self.gaps += 1;
        let delta = gap - self.gap_mean;
        self.gap_mean += delta / self.gaps as f64;
        self.gap_squares += delta * (gap - self.gap_mean);
    }

    fn arrivals(&self, clock: &Clock) -> Arrivals {
        let span = match (self.first_arrival, self.last_arrival) {
            (Some(first), Some(last)) => last.since(first).as_secs_f64(),
            _ => 0.0,
        };
        let variance = self.gap_squares / self.gaps.max(1) as f64;
        Arrivals {
            rate_per_s: (span > 0.0).then(|| self.gaps as f64 / span),
            gap_cv: (self.gaps >= 2 && self.gap_mean > 0.0).then(|| variance.sqrt() / self.gap_mean),
            first_unix_ns: self.first_arrival.map(|at| clock.unix(at)),
            last_unix_ns: self.last_arrival.map(|at| clock.unix(at)),
            kernel_stamped: self.kernel_stamped,
        }
    }
}

/// The line of one request.
fn line(record: &Record, fate: Fate, clock: &Clock) -> TruthLine {
    let unix = |at: Nanos| clock.unix(at);
    let written = |moment: Option<Moment>| moment.map(|m| unix(m.written));
    let each = |part: fn(&Moment) -> Nanos| -> Vec<u64> {
        record.moments.iter().map(|m| part(m).since(record.arrived).0).collect()
    };
    TruthLine {
        n: record.n,
        request_id: record.request_id.clone(),
        connection: record.connection,
        fate,
        accepted_unix_ns: unix(record.accepted),
        arrived_unix_ns: unix(record.arrived),
        first_unix_ns: written(record.first),
        last_unix_ns: written(record.last),
        tokens: record.tokens,
        chunks: record.chunks,
        due_ns: each(|m| m.due),
        written_ns: each(|m| m.written),
        chunk_tokens: record.moments.iter().map(|m| m.tokens).collect(),
        engine: record.engine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn arrival(ms: u64) -> Arrival {
        Arrival { at: Nanos::from_millis(ms), kernel: true, connection: 3, accepted: Nanos::from_millis(1) }
    }

    fn at(due_ms: u64, written_ms: u64) -> (Nanos, Nanos) {
        (Nanos::from_millis(due_ms), Nanos::from_millis(written_ms))
    }

    const ONE: Carried = Carried { chunks: 1, tokens: 1 };

    #[test]
    fn a_request_gives_its_intervals_and_its_line() {
        let shared = Shared::default();
        let clock = Clock::start();
        let mut ledger = Ledger::new("fixed", clock, Some(Box::new(shared.clone())));
        let mut record = ledger.arrived(arrival(10), Some("r".to_owned()));
        ledger.wrote(&mut record, at(60, 61), ONE, true);
        ledger.wrote(&mut record, at(70, 70), Carried { chunks: 2, tokens: 5 }, true);
        ledger.ended(&record, Fate::Finished).unwrap();
        ledger.flush().unwrap();

        let truth = ledger.truth();
        assert_eq!((truth.ttft_ms.n, truth.ttft_ms.max, truth.ttft_due_ms.max), (1, 51.0, 50.0));
        assert_eq!(
            (truth.itl_ms.n, truth.itl_ms.min, truth.itl_ms.max, truth.itl_due_ms.max),
            (2, 0.0, 9.0, 10.0)
        );
        assert_eq!((truth.lateness_us.n, truth.lateness_us.max, truth.e2e_ms.max), (2, 1_000.0, 60.0));
        assert_eq!((truth.tokens, truth.chunks), (6, 3));
        // From 61 to 70 ms, five tokens after the first.
        assert_eq!((truth.tpot_ms.n, truth.tpot_ms.max), (1, 1.8));
        assert_eq!(truth.last_write_unix_ns, Some(clock.unix(Nanos::from_millis(70))));
        let requests = Requests { arrived: 1, finished: 1, in_flight_peak: 1, ..Requests::default() };
        assert_eq!(truth.requests, requests);

        let line: serde_json::Value = serde_json::from_slice(&shared.0.lock().unwrap()).unwrap();
        assert_eq!(line["arrived_unix_ns"], clock.unix(Nanos::from_millis(10)));
        assert_eq!(line["written_ns"], json!([51_000_000, 60_000_000]));
        assert_eq!(line["due_ns"], json!([50_000_000, 60_000_000]));
        assert_eq!((&line["request_id"], &line["fate"]), (&json!("r"), &json!("finished")));
    }

    #[test]
    fn arrivals_have_a_rate_and_a_spread() {
        let mut ledger = Ledger::new("fixed", Clock::start(), None);
        assert_eq!(ledger.truth().arrivals.rate_per_s, None);
        for ms in [0, 100, 200, 600] {
            ledger.arrived(arrival(ms), None);
        }
        let arrivals = ledger.truth().arrivals;
        assert_eq!(arrivals.rate_per_s, Some(5.0));
        // Gaps 100, 100, 400: mean 200, population deviation sqrt(20000).
        assert!((arrivals.gap_cv.unwrap() - 0.5_f64.sqrt()).abs() < 1e-12);
        assert_eq!(ledger.truth().requests.in_flight_peak, 4);
        let instants = ledger.instants();
        let ms: Vec<u64> = instants.unix_ns.iter().map(|at| (at - instants.unix_ns[0]) / 1_000_000).collect();
        assert_eq!((ms, instants.left_out), (vec![0, 100, 200, 600], 0));
        ledger.reset();
        assert_eq!(ledger.instants(), Instants::default());
    }

    #[test]
    fn a_reset_forgets_what_is_in_flight() {
        let mut ledger = Ledger::new("fixed", Clock::start(), None);
        let mut old = ledger.arrived(arrival(0), None);
        ledger.reset();
        ledger.wrote(&mut old, at(1, 1), ONE, true);
        ledger.ended(&old, Fate::Finished).unwrap();
        let truth = ledger.truth();
        assert_eq!((truth.requests, truth.tokens, truth.ttft_ms.n), (Requests::default(), 0, 0));
        assert_eq!(ledger.arrived(arrival(2), None).n, 0);
    }

    #[test]
    fn an_answer_in_one_piece_has_no_first_token() {
        let mut ledger = Ledger::new("fixed", Clock::start(), None);
        let mut record = ledger.arrived(arrival(0), None);
        ledger.wrote(&mut record, at(5, 5), Carried { chunks: 1, tokens: 9 }, false);
        ledger.ended(&record, Fate::Disconnected).unwrap();
        let truth = ledger.truth();
        assert_eq!(
            (truth.ttft_ms.n, truth.tokens, truth.requests.disconnected, truth.e2e_ms.n, truth.tpot_ms.n),
            (0, 9, 1, 0, 0)
        );
    }
}
