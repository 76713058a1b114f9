//! Laws that hold for every load, every server and every lateness of the surrounding loop.

use crate::world::{ScriptServer, UNTIL_ALL_END, answer, capped, closed, open, refusal, sim};
use goodput_core::plan::{Stop, Warmup};
use goodput_core::time::Nanos;
use goodput_core::timeline::Phase;
use goodput_drive::driver::{Action, Driver, DriverConfig, Event, RequestId};
use goodput_drive::fixed_server::FixedServer;
use goodput_drive::phase::Stage;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashSet};

/// Cumulated gaps. Small ones, so that many things happen at one instant.
fn instants(gaps: &[u64]) -> Vec<Nanos> {
    gaps.iter()
        .scan(0, |at, gap| {
            *at += gap;
            Some(Nanos(*at))
        })
        .collect()
}

fn schedule() -> impl Strategy<Value = (Vec<Nanos>, usize)> {
    prop::collection::vec(0..6_u64, 0..60)
        .prop_map(|gaps| instants(&gaps))
        .prop_flat_map(|all| (0..=all.len()).prop_map(move |warmups| (all.clone(), warmups)))
}

fn stop() -> impl Strategy<Value = Stop> {
    let maybe = |most: u64| prop::option::of(1..most);
    (maybe(60), maybe(200), maybe(40), maybe(6)).prop_map(|(requests, duration, drain, error_budget)| Stop {
        requests,
        duration: duration.map(Nanos),
        drain: drain.map(Nanos),
        error_budget,
    })
}

fn open_config() -> impl Strategy<Value = DriverConfig> {
    (schedule(), prop::option::of(1..5_u32), stop(), any::<bool>()).prop_map(
        |((all, warmups), cap, stop, burst)| {
            let (warmup, measured) = all.split_at(warmups);
            let from = warmup.last().copied().unwrap_or_default();
            let mut config = open(warmup.to_vec(), measured.to_vec(), from);
            if burst {
                config.load.arrivals = crate::world::burst(0, 0).load.arrivals;
            }
            config.load.concurrency = cap;
            config.stop = stop;
            config
        },
    )
}

fn closed_config() -> impl Strategy<Value = DriverConfig> {
    let warmup = prop_oneof![
        Just(Warmup::None),
        (0..9_u64).prop_map(Warmup::Requests),
        (0..40_u64).prop_map(|lasts| Warmup::Duration(Nanos(lasts))),
    ];
    (1..6_u32, stop(), warmup, 1..80_u64).prop_map(|(slots, mut stop, warmup, count)| {
        // Without an end of either kind a closed loop runs for ever.
        stop.requests = stop.requests.or(stop.duration.is_none().then_some(count));
        DriverConfig { warmup, ..closed(slots, stop) }
    })
}

/// How a surrounding loop treats the driver.
#[derive(Debug, Clone)]
struct Treatment {
    /// Service times by order of release; an odd one fails. At least 1, so that time goes on.
    services: Vec<u64>,
    /// How late each tick comes.
    lateness: Vec<u64>,
    /// When the user interrupts, if at all.
    interrupt: Option<Nanos>,
}

fn treatment() -> impl Strategy<Value = Treatment> {
    (
        prop::collection::vec(1..30_u64, 1..9),
        prop::collection::vec(0..4_u64, 1..5),
        prop::option::of(0..150_u64),
    )
        .prop_map(|(services, lateness, interrupt)| Treatment {
            services,
            lateness,
            interrupt: interrupt.map(Nanos),
        })
}

/// A release as the loop saw it.
#[derive(Debug, Clone, Copy)]
struct Released {
    id: RequestId,
    scheduled: Option<Nanos>,
    at: Nanos,
}

/// A surrounding loop that calls late, and checks after every call what must always hold.
struct LateLoop {
    driver: Driver,
    slots: u64,
    closed: bool,
    treatment: Treatment,
    running: BTreeSet<(Nanos, RequestId)>,
    released: Vec<Released>,
    finished: u32,
}

impl LateLoop {
    fn new(config: &DriverConfig, treatment: Treatment) -> Self {
        Self {
            driver: Driver::new(config.clone()),
            slots: config.load.concurrency.map_or(u64::MAX, u64::from),
            closed: config.load.arrivals.is_none(),
            treatment,
            running: BTreeSet::new(),
            released: vec![],
            finished: 0,
        }
    }

    fn run(&mut self) {
        let mut now = Nanos::ZERO;
        let mut ticks = 0;
        while self.finished == 0 {
            let end = self.running.first().map(|(at, _)| *at);
            let wakeup = self.driver.next_wakeup();
            let next = [end, wakeup, self.treatment.interrupt].into_iter().flatten().min().unwrap();
            if self.treatment.interrupt == Some(next) {
                self.treatment.interrupt = None;
                now = now.max(next);
                self.tell(now, Event::Interrupt);
            } else if end == Some(next) {
                let (at, id) = self.running.pop_first().unwrap();
                now = now.max(at);
                let failed = self.service(id) % 2 == 1;
                self.tell(now, Event::Ended { id, failed });
            } else {
                now = now.max(next) + Nanos(self.treatment.lateness[ticks % self.treatment.lateness.len()]);
                ticks += 1;
                self.tell(now, Event::Tick);
                assert!(
                    self.driver.next_wakeup().is_none_or(|next| next > now),
                    "a tick settles all that is due"
                );
            }
        }
    }

    fn service(&self, id: RequestId) -> u64 {
        self.treatment.services[id.index as usize % self.treatment.services.len()]
    }

    fn tell(&mut self, now: Nanos, event: Event) {
        let mut actions = vec![];
        self.driver.on(now, event, &mut actions);
        let mut cancelled = vec![];
        for action in actions {
            assert_eq!(self.finished, 0, "nothing follows the end");
            match action {
                Action::Release { id, scheduled } => {
                    self.running.insert((now + Nanos(self.service(id)), id));
                    self.released.push(Released { id, scheduled, at: now });
                }
                Action::CancelAll { .. } => cancelled.extend(std::mem::take(&mut self.running)),
                Action::Finished => self.finished += 1,
            }
        }
        self.check(cancelled.len() as u64);
        for (_, id) in cancelled {
            self.tell(now, Event::Ended { id, failed: false });
        }
    }

    /// What holds after every call. `cancelled` requests have not been reported back yet.
    fn check(&self, cancelled: u64) {
        let p = self.driver.progress();
        assert!(p.in_flight <= self.slots);
        if p.stage != Stage::Cancelling {
            assert_eq!(p.in_flight, self.running.len() as u64 + cancelled);
        }
        assert_eq!(p.in_flight, p.released - p.ended + p.warmup_released - p.warmup_ended);
        assert!(p.waiting == 0 || p.in_flight == self.slots, "nothing waits beside a free slot");
        assert!(!self.closed || p.stage != Stage::Offering || p.in_flight == self.slots, "no slot is idle");
        assert!(p.failed <= p.ended && p.ended <= p.released && p.released <= p.offered);
        assert!(p.planned_requests.is_none_or(|planned| p.offered <= planned));
    }
}

/// Each phase's requests go out once, in order, without a hole, never before their instants.
fn check_releases(released: &[Released]) {
    for phase in [Phase::Warmup, Phase::Measured] {
        let of: Vec<&Released> = released.iter().filter(|r| r.id.phase == phase).collect();
        assert!(of.iter().zip(0..).all(|(r, index)| r.id.index == index));
        assert!(of.is_sorted_by_key(|r| r.scheduled));
        assert!(of.iter().all(|r| r.scheduled.is_none_or(|scheduled| scheduled <= r.at)));
    }
    assert!(released.is_sorted_by_key(|r| r.id.phase), "measured requests follow the warm-up");
    let ids: HashSet<RequestId> = released.iter().map(|r| r.id).collect();
    assert_eq!(ids.len(), released.len());
}

proptest! {
    #[test]
    fn nothing_is_lost(config in prop_oneof![open_config(), closed_config()], treatment in treatment()) {
        let mut late = LateLoop::new(&config, treatment);
        late.run();
        check_releases(&late.released);
        let p = late.driver.progress();
        prop_assert_eq!((late.finished, p.stage, p.in_flight), (1, Stage::Finished, 0));
        let measured = late.released.iter().filter(|r| r.id.phase == Phase::Measured).count() as u64;
        prop_assert_eq!(measured, p.released);
        prop_assert_eq!((p.ended, p.warmup_ended), (p.released, p.warmup_released));
        prop_assert_eq!(p.released + p.never_released, p.offered);
        if p.cut_by.is_none() {
            prop_assert_eq!(p.never_released, 0);
            if config.load.arrivals.is_some() {
                prop_assert_eq!(Some(p.offered), p.planned_requests);
            }
        }
    }

    #[test]
    fn lateness_of_the_loop_never_moves_a_schedule(config in open_config(), mut treatment in treatment()) {
        prop_assume!(config.load.arrivals.as_ref().unwrap().rate != goodput_core::plan::RateProfile::Infinite);
        treatment.interrupt = None;
        let mut late = LateLoop::new(&config, treatment);
        late.run();
        for released in &late.released {
            let list = match released.id.phase {
                Phase::Warmup => &config.schedule.warmup,
                Phase::Measured => &config.schedule.measured,
            };
            prop_assert_eq!(released.scheduled, Some(list[released.id.index as usize]));
        }
    }

    /// Waits under a cap are those of the first-come-first-served queue with as many servers (Kiefer and Wolfowitz's
    /// recursion; with one server, Lindley's).
    #[test]
    fn waits_under_a_cap_are_those_of_the_queue(
        gaps in prop::collection::vec(0..20_u64, 1..80), cap in 1..5_u32, services in prop::collection::vec(0..50_u64, 1..9)
    ) {
        let schedule = instants(&gaps);
        let scripts = services.iter().map(|s| answer(Nanos(*s))).collect();
        let ran = sim(capped(open(vec![], schedule.clone(), Nanos::ZERO), cap), &mut ScriptServer::new(scripts));
        let mut free_at = vec![Nanos::ZERO; cap as usize];
        for ((timeline, at), k) in ran.measured().iter().zip(&schedule).zip(0..) {
            free_at.sort_unstable();
            let start = free_at[0].max(*at);
            prop_assert_eq!(timeline.instants.scheduled, Some(*at));
            prop_assert_eq!(timeline.instants.released, start);
            free_at[0] = start + Nanos(services[k % services.len()]);
            prop_assert_eq!(timeline.instants.closed, Some(free_at[0]));
        }
    }

    /// Whether requests wait before the wire or behind it, they end at the same nanosecond.
    #[test]
    fn a_cap_and_server_slots_are_the_same_queue(
        gaps in prop::collection::vec(0..20_u64, 1..60), slots in 1..5_u32, itl in 0..9_u64, tokens in 1..5_u32
    ) {
        let config = open(vec![], instants(&gaps), Nanos::ZERO);
        let server = |slots| FixedServer::new(Nanos(7), Nanos(itl), tokens, slots);
        let at_client = sim(capped(config.clone(), slots), &mut server(None));
        let at_server = sim(config, &mut server(Some(slots)));
        for (a, b) in at_client.measured().iter().zip(at_server.measured()) {
            prop_assert_eq!(&a.chunks, &b.chunks);
            prop_assert_eq!(a.instants.scheduled, b.instants.scheduled);
            prop_assert_eq!(a.instants.closed, b.instants.closed);
        }
    }

    #[test]
    fn virtual_time_repeats_itself(config in prop_oneof![open_config(), closed_config()], services in
        prop::collection::vec(1..30_u64, 1..9)
    ) {
        let script = |s: &u64| if s % 2 == 1 { refusal(Nanos(*s)) } else { answer(Nanos(*s)) };
        let once = || sim(config.clone(), &mut ScriptServer::new(services.iter().map(script).collect()));
        let (a, b) = (once(), once());
        prop_assert_eq!(&a.timelines, &b.timelines);
        prop_assert_eq!(a.timelines.len() as u64, a.progress.ended + a.progress.warmup_ended);
        let cap = config.load.concurrency.map_or(i64::MAX, i64::from);
        prop_assert!(a.peak() <= cap);
    }

    /// A closed loop never rests: with equal service the k-th request starts with its round.
    #[test]
    fn closed_rounds_follow_without_a_gap(slots in 1..9_u32, requests in 1..60_u64, service in 1..50_u64) {
        let stop = Stop { requests: Some(requests), ..UNTIL_ALL_END };
        let ran = sim(closed(slots, stop), &mut crate::world::serving(Nanos(service)));
        for (timeline, k) in ran.measured().iter().zip(0..) {
            prop_assert_eq!(timeline.instants.released, Nanos(k / u64::from(slots) * service));
        }
    }
}
