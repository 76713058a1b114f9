//! What the tests share: loads, a server that follows a script, and one call that runs both.

use goodput_core::outcome::Outcome;
use goodput_core::plan::{Arrivals, GapLaw, Load, RateProfile, Stop, Timeouts, Warmup};
use goodput_core::schedule::Schedule;
use goodput_core::time::Nanos;
use goodput_core::timeline::{ChunkFlags, Phase, ServerSaid, Timeline};
use goodput_drive::driver::{Driver, DriverConfig, Progress, RequestId};
use goodput_drive::fixed_server::FixedServer;
use goodput_drive::virtual_time::{SimEvent, SimServer, run};
use std::collections::BTreeMap;

pub(crate) const TEXT: ChunkFlags = ChunkFlags(ChunkFlags::CHOICES.0 | ChunkFlags::TEXT.0);
pub(crate) const UNTIL_ALL_END: Stop =
    Stop { requests: None, duration: None, drain: None, error_budget: None };
pub(crate) const NO_LIMITS: Timeouts = Timeouts { total: None, first_token: None, idle: None, connect: None };

pub(crate) const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

pub(crate) fn all_ms<const N: usize>(instants: [u64; N]) -> Vec<Nanos> {
    instants.map(ms).into()
}

pub(crate) fn measured(index: u64) -> RequestId {
    RequestId { phase: Phase::Measured, index }
}

pub(crate) fn warmup(index: u64) -> RequestId {
    RequestId { phase: Phase::Warmup, index }
}

/// An open loop that follows these instants; the law behind them does not matter to the driver.
pub(crate) fn open(warmup: Vec<Nanos>, measured: Vec<Nanos>, measured_from: Nanos) -> DriverConfig {
    let rate = RateProfile::Steady { rate: 1.0 };
    DriverConfig {
        load: Load { arrivals: Some(Arrivals { law: GapLaw::Poisson, rate }), concurrency: None },
        stop: UNTIL_ALL_END,
        warmup: if warmup.is_empty() { Warmup::None } else { Warmup::Requests(warmup.len() as u64) },
        schedule: Schedule { warmup, measured, measured_from },
    }
}

/// Everything at once, `warmup` requests first.
pub(crate) fn burst(warmup: usize, requests: usize) -> DriverConfig {
    let mut config = open(vec![Nanos::ZERO; warmup], vec![Nanos::ZERO; requests], Nanos::ZERO);
    config.load.arrivals = Some(Arrivals { law: GapLaw::Constant, rate: RateProfile::Infinite });
    config
}

/// A closed loop of `slots`.
pub(crate) fn closed(slots: u32, stop: Stop) -> DriverConfig {
    DriverConfig {
        load: Load { arrivals: None, concurrency: Some(slots) },
        stop,
        warmup: Warmup::None,
        schedule: Schedule::default(),
    }
}

pub(crate) fn capped(mut config: DriverConfig, slots: u32) -> DriverConfig {
    config.load.concurrency = Some(slots);
    config
}

/// A server that answers each request with one token after `service`.
pub(crate) fn serving(service: Nanos) -> FixedServer {
    FixedServer::new(service, Nanos::ZERO, 1, None)
}

/// What a run left behind.
pub(crate) struct Ran {
    /// In order of their ends.
    pub(crate) timelines: Vec<Timeline>,
    pub(crate) progress: Progress,
    pub(crate) measured_from: Option<Nanos>,
    pub(crate) finished: Nanos,
}

impl Ran {
    /// The timelines of one phase in order of release.
    pub(crate) fn of(&self, phase: Phase) -> Vec<&Timeline> {
        let mut of: Vec<&Timeline> = self.timelines.iter().filter(|t| t.phase == phase).collect();
        of.sort_by_key(|t| t.index);
        assert!(of.iter().zip(0..).all(|(t, index)| t.index == index), "indices have no hole");
        of
    }

    pub(crate) fn measured(&self) -> Vec<&Timeline> {
        self.of(Phase::Measured)
    }

    /// The most requests in flight at once: half-open intervals, departures before arrivals.
    pub(crate) fn peak(&self) -> i64 {
        let mut steps: Vec<(Nanos, i64)> = self
            .timelines
            .iter()
            .flat_map(|t| [(t.instants.released, 1), (t.instants.closed.unwrap(), -1)])
            .collect();
        steps.sort_unstable();
        let mut now = 0;
        steps
            .iter()
            .map(|(_, step)| {
                now += step;
                now
            })
            .max()
            .unwrap_or(0)
    }
}

pub(crate) fn sim(config: DriverConfig, server: &mut impl SimServer) -> Ran {
    sim_limited(config, server, &NO_LIMITS)
}

pub(crate) fn sim_limited(config: DriverConfig, server: &mut impl SimServer, limits: &Timeouts) -> Ran {
    let mut driver = Driver::new(config);
    let mut timelines = Vec::new();
    let finished = run(&mut driver, server, limits, |timeline| timelines.push(timeline)).unwrap();
    for timeline in &timelines {
        assert_eq!(timeline.check_order(), Ok(()), "{timeline:?}");
    }
    Ran { timelines, progress: driver.progress(), measured_from: driver.measured_from(), finished }
}

/// One line of a script.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    Chunk(u32, ChunkFlags),
    End(Outcome),
}

/// What happens to one request, at offsets from its submission.
pub(crate) type Script = Vec<(Nanos, Say)>;

pub(crate) fn answer(service: Nanos) -> Script {
    vec![(service, Say::Chunk(1, TEXT)), (service, Say::End(Outcome::Ok))]
}

pub(crate) fn refusal(after: Nanos) -> Script {
    vec![(after, Say::End(Outcome::HttpError { status: 503, message: "busy".into() }))]
}

/// A server that gives the i-th request it sees the i-th script, and begins again after the last.
pub(crate) struct ScriptServer {
    scripts: Vec<Script>,
    submitted: usize,
    said: u64,
    due: BTreeMap<(Nanos, u64), (RequestId, Say)>,
}

impl ScriptServer {
    pub(crate) fn new(scripts: Vec<Script>) -> Self {
        Self { scripts, submitted: 0, said: 0, due: BTreeMap::new() }
    }
}

impl SimServer for ScriptServer {
    fn submit(&mut self, now: Nanos, id: RequestId) {
        let script = &self.scripts[self.submitted % self.scripts.len()];
        self.submitted += 1;
        for (offset, say) in script {
            self.due.insert((now + *offset, self.said), (id, say.clone()));
            self.said += 1;
        }
    }

    fn cancel(&mut self, _: Nanos, id: RequestId) {
        self.due.retain(|_, (of, _)| *of != id);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<SimEvent>) {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            let (id, say) = entry.remove();
            out.push(match say {
                Say::Chunk(tokens, flags) => SimEvent::Chunk { id, tokens, flags },
                Say::End(outcome) => SimEvent::End { id, outcome, said: ServerSaid::default() },
            });
        }
    }
}

/// A JSON file of a case.
pub(crate) fn case(path: &str) -> serde_json::Value {
    let path = format!("{}/../../testdata/cases/{path}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
