//! The queue itself: c servers behind one line, first come, first served, in exact integer time.
//!
//! A state machine that knows no law and draws nothing: whoever submits a request says how long it is to be served. Of
//! what is due at one instant the ends come before the begins they make room for, in the order of their making.
//!
//! It keeps an account of its own of the number in the system, so that Little's law can be checked between two
//! accounts: the line's and that of whoever watched the requests.

use goodput_core::time::Nanos;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// What happens at a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StationEvent<K> {
    /// A request begins to be served.
    Begun {
        /// Which one.
        id: K,
        /// How long it waited.
        waited: Nanos,
    },
    /// A request has been served and leaves.
    Ended {
        /// Which one.
        id: K,
        /// How long it had waited.
        waited: Nanos,
    },
}

/// A request in the line.
#[derive(Debug, Clone, Copy)]
struct Waiting<K> {
    id: K,
    since: Nanos,
    service: Nanos,
}

/// Servers and their line.
#[derive(Debug)]
pub struct Station<K> {
    servers: usize,
    line: VecDeque<Waiting<K>>,
    /// What is going to happen, by time and then in the order of its making.
    due: BTreeMap<(Nanos, u64), StationEvent<K>>,
    /// Key in `due` of the end of each request in service.
    serving: HashMap<K, (Nanos, u64)>,
    made: u64,
    now: Nanos,
    /// Request-nanoseconds spent in the system so far.
    occupancy: u128,
}

impl<K: Copy + Eq + Hash> Station<K> {
    /// An idle station with this many servers, at least one.
    #[must_use]
    pub fn new(servers: u32) -> Self {
        Self {
            servers: servers.max(1) as usize,
            line: VecDeque::new(),
            due: BTreeMap::new(),
            serving: HashMap::new(),
            made: 0,
            now: Nanos::ZERO,
            occupancy: 0,
        }
    }

    /// A request arrives, to be served for `service` once a server is free.
    pub fn submit(&mut self, now: Nanos, id: K, service: Nanos) {
        self.pass(now);
        self.line.push_back(Waiting { id, since: now, service });
        self.begin();
    }

    /// A request leaves unserved, from the line or from its server; one that is not here is no matter.
    pub fn cancel(&mut self, now: Nanos, id: K) {
        self.pass(now);
        if let Some(end) = self.serving.remove(&id) {
            self.due.remove(&end);
            self.due
                .retain(|_, event| !matches!(event, StationEvent::Begun { id: begun, .. } if *begun == id));
        } else {
            self.line.retain(|waiting| waiting.id != id);
        }
        self.begin();
    }

    /// When something happens next; `None` while nobody is here.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// All that happens up to `now`, in order.
    pub fn advance(&mut self, now: Nanos, mut happens: impl FnMut(StationEvent<K>)) {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            let ((at, _), event) = entry.remove_entry();
            self.pass(at);
            if let StationEvent::Ended { id, .. } = &event {
                self.serving.remove(id);
                self.begin();
            }
            happens(event);
        }
    }

    /// Requests here, waiting or in service.
    #[must_use]
    pub fn in_system(&self) -> usize {
        self.line.len() + self.serving.len()
    }

    /// Request-nanoseconds spent here up to the last event: the integral of [`Self::in_system`] over time.
    #[must_use]
    pub const fn occupancy(&self) -> u128 {
        self.occupancy
    }

    fn pass(&mut self, now: Nanos) {
        self.occupancy += u128::from(now.since(self.now).0) * self.in_system() as u128;
        self.now = self.now.max(now);
    }

    /// Fills free servers from the line.
    fn begin(&mut self) {
        while self.serving.len() < self.servers
            && let Some(Waiting { id, since, service }) = self.line.pop_front()
        {
            let waited = self.now.since(since);
            self.put(self.now, StationEvent::Begun { id, waited });
            let end = self.put(self.now.saturating_add(service), StationEvent::Ended { id, waited });
            self.serving.insert(id, end);
        }
    }

    fn put(&mut self, at: Nanos, event: StationEvent<K>) -> (Nanos, u64) {
        let key = (at, self.made);
        self.made += 1;
        self.due.insert(key, event);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// Runs arrivals (instant, service) through a station; wait and end of each, in order of the arrivals.
    fn serve(servers: u32, arrivals: &[(Nanos, Nanos)]) -> (Vec<(Nanos, Nanos)>, Station<usize>) {
        let mut station = Station::new(servers);
        let mut ends = vec![(Nanos::ZERO, Nanos::ZERO); arrivals.len()];
        let mut run = |station: &mut Station<usize>, until: Option<Nanos>| {
            while let Some(at) = station.next_event().filter(|at| until.is_none_or(|until| *at <= until)) {
                station.advance(at, |event| {
                    if let StationEvent::Ended { id, waited } = event {
                        ends[id] = (waited, at);
                    }
                });
            }
        };
        for (id, (at, service)) in arrivals.iter().enumerate() {
            run(&mut station, Some(*at));
            station.submit(*at, id, *service);
        }
        run(&mut station, None);
        (ends, station)
    }

    #[test]
    fn one_server_serves_in_order() {
        let arrivals = [(ms(0), ms(10)), (ms(4), ms(10)), (ms(5), ms(1)), (ms(30), ms(2))];
        let (ends, station) = serve(1, &arrivals);
        assert_eq!(ends, [(ms(0), ms(10)), (ms(6), ms(20)), (ms(15), ms(21)), (ms(0), ms(32))]);
        assert_eq!(station.occupancy(), u128::from(ms(10 + 16 + 16 + 2).0));
        assert_eq!((station.in_system(), station.next_event()), (0, None));
    }

    #[test]
    fn a_departure_makes_room_for_an_arrival_at_the_same_instant() {
        let (ends, _) = serve(2, &[(ms(0), ms(10)), (ms(0), ms(20)), (ms(10), ms(5)), (ms(10), ms(5))]);
        assert_eq!(ends, [(ms(0), ms(10)), (ms(0), ms(20)), (ms(0), ms(15)), (ms(5), ms(20))]);
    }

    #[test]
    fn who_gives_up_leaves_the_line_or_frees_the_server() {
        let mut station = Station::new(1);
        for id in 0..4 {
            station.submit(ms(0), id, ms(10));
        }
        station.cancel(ms(2), 1);
        station.cancel(ms(4), 0);
        station.cancel(ms(4), 77);
        let mut seen = Vec::new();
        while let Some(at) = station.next_event() {
            station.advance(at, |event| seen.push((at, event)));
        }
        let expected = [
            (ms(4), StationEvent::Begun { id: 2, waited: ms(4) }),
            (ms(14), StationEvent::Ended { id: 2, waited: ms(4) }),
            (ms(14), StationEvent::Begun { id: 3, waited: ms(14) }),
            (ms(24), StationEvent::Ended { id: 3, waited: ms(14) }),
        ];
        assert_eq!(seen, expected, "the begin of 0 was not heard before it gave up");
        assert_eq!(station.occupancy(), u128::from(ms(4 + 2 + 14 + 24).0));
    }

    proptest! {
        /// Lindley's recursion, wait = max(0, wait before + service before - gap), is another way to the same waits.
        #[test]
        fn one_server_follows_lindley(steps in proptest::collection::vec((0_u64..50, 0_u64..50), 1..60)) {
            let mut at = 0;
            let arrivals: Vec<(Nanos, Nanos)> = steps.iter().map(|(gap, service)| {
                at += gap;
                (Nanos(at), Nanos(*service))
            }).collect();
            let (ends, station) = serve(1, &arrivals);
            let mut wait = 0_u64;
            for (i, ((arrival, service), (waited, end))) in arrivals.iter().zip(&ends).enumerate() {
                if i > 0 {
                    let gap = arrival.0 - arrivals[i - 1].0.0;
                    wait = (wait + arrivals[i - 1].1.0).saturating_sub(gap);
                }
                prop_assert_eq!((waited.0, end.0), (wait, arrival.0 + wait + service.0));
            }
            let residence: u128 = arrivals.iter().zip(&ends).map(|((a, _), (_, e))| u128::from(e.0 - a.0)).sum();
            prop_assert_eq!(station.occupancy(), residence, "Little's law, exactly");
        }
    }
}
