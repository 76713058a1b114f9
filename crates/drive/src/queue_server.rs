//! A textbook queue as a server for virtual time: c servers, one line, a service law.
//!
//! The first token of an answer comes when its service begins and the last one when it ends, so that every figure has a
//! meaning in theory: TTFT is the wait, the one gap between tokens (ITL, TPOT) is the service time, E2E is the residence.
//! Driver, timelines, ruler and statistics can thus be held against queueing theory as they are. It models no engine.
//!
//! The law and the line are those of `goodput_model`; here they meet the driver's requests.

use crate::driver::{Driver, DriverConfig, RequestId};
use crate::virtual_time::{self, SimEvent, SimServer, Stuck};
use goodput_core::outcome::Outcome;
use goodput_core::plan::{Arrivals, Load, Stop, Timeouts, Warmup};
use goodput_core::rng::Seed;
use goodput_core::schedule::Schedule;
use goodput_core::summarise::TimelineSource;
use goodput_core::time::Nanos;
use goodput_core::timeline::{ChunkFlags, Phase, ServerSaid, Timeline};
use goodput_model::laws::{LawError, ServiceLaw, ServiceTimes};
use goodput_model::queueing::station::{Station, StationEvent};

/// Tokens of every answer: one when service begins, one when it ends.
pub const TOKENS: u32 = 2;

/// The queue. The service time of a request depends on the seed, its phase and its index alone.
#[derive(Debug)]
pub struct QueueServer {
    station: Station<RequestId>,
    warmup: ServiceTimes,
    measured: ServiceTimes,
}

impl QueueServer {
    /// An idle queue: `servers` servers, service times of this law and mean.
    ///
    /// # Errors
    /// [`LawError`] if the law is none.
    pub fn new(law: ServiceLaw, mean: Nanos, servers: u32, seed: Seed) -> Result<Self, LawError> {
        Ok(Self {
            station: Station::new(servers),
            warmup: ServiceTimes::new(law, mean, seed.stream("warm-up service"))?,
            measured: ServiceTimes::new(law, mean, seed.stream("service"))?,
        })
    }

    /// The line and its own account of who was in it.
    #[must_use]
    pub const fn station(&self) -> &Station<RequestId> {
        &self.station
    }
}

impl SimServer for QueueServer {
    fn submit(&mut self, now: Nanos, id: RequestId) {
        let times = match id.phase {
            Phase::Warmup => &self.warmup,
            Phase::Measured => &self.measured,
        };
        self.station.submit(now, id, times.of(id.index));
    }

    fn cancel(&mut self, now: Nanos, id: RequestId) {
        self.station.cancel(now, id);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.station.next_event()
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<SimEvent>) {
        const TOKEN: ChunkFlags = ChunkFlags(ChunkFlags::CHOICES.0 | ChunkFlags::TEXT.0);
        self.station.advance(now, |event| match event {
            StationEvent::Begun { id, .. } => out.push(SimEvent::Chunk { id, tokens: 1, flags: TOKEN }),
            StationEvent::Ended { id, waited } => {
                let said = ServerSaid {
                    completion_tokens: Some(TOKENS),
                    queue: Some(waited),
                    ..ServerSaid::default()
                };
                out.extend([
                    SimEvent::Chunk { id, tokens: 1, flags: TOKEN | ChunkFlags::FINISH },
                    SimEvent::Chunk { id, tokens: 0, flags: ChunkFlags::DONE },
                    SimEvent::End { id, outcome: Outcome::Ok, said },
                ]);
            }
        });
    }
}

/// An open loop on the queue: what is offered and who serves. It keeps nothing of a run, since running it again gives
/// the same timelines: whoever reads them twice has it run twice, and a run of any length fits in memory.
#[derive(Debug, Clone)]
pub struct QueueRun {
    /// When requests arrive, and under which law.
    pub arrivals: Arrivals,
    /// The instants that a seed drew from it.
    pub schedule: Schedule,
    /// The law of service times.
    pub law: ServiceLaw,
    /// Their mean.
    pub service: Nanos,
    /// How many serve.
    pub servers: u32,
    /// Seed of the service times.
    pub seed: Seed,
}

/// The line's own account of a run from the first arrival to the last departure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// When the last request left.
    pub end: Nanos,
    /// The integral of the number in the system, in request-nanoseconds.
    pub occupancy: u128,
}

/// Why a queue cannot be run.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum QueueRunError {
    /// The service law is none.
    #[error(transparent)]
    Law(#[from] LawError),
    /// The server left requests unanswered.
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

impl QueueRun {
    /// Runs it to its end and hands each timeline to `sink` as its request leaves.
    ///
    /// # Errors
    /// [`QueueRunError`] if the service law is none.
    pub fn run(&self, sink: impl FnMut(Timeline)) -> Result<Account, QueueRunError> {
        let mut driver = Driver::new(DriverConfig {
            load: Load { arrivals: Some(self.arrivals.clone()), concurrency: None },
            stop: Stop {
                requests: Some(self.schedule.measured.len() as u64),
                duration: None,
                drain: None,
                error_budget: None,
            },
            warmup: Warmup::Requests(self.schedule.warmup.len() as u64),
            schedule: self.schedule.clone(),
        });
        let mut server = QueueServer::new(self.law, self.service, self.servers, self.seed)?;
        let end = virtual_time::run(&mut driver, &mut server, &Timeouts::default(), sink)?;
        Ok(Account { end, occupancy: server.station().occupancy() })
    }
}

impl TimelineSource for QueueRun {
    type Error = QueueRunError;

    fn for_each(&self, visit: &mut dyn FnMut(&Timeline)) -> Result<(), QueueRunError> {
        self.run(|timeline| visit(&timeline)).map(|_| ())
    }
}
