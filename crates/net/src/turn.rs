//! Since when nothing can have been waiting unseen on the sockets of a thread that polls them: arithmetic on instants
//! that the thread has noted, without a clock of its own.
//!
//! Several events that were read together have one stamp, that of the newest. How much earlier the others can have come
//! depends on how long the thread may have left bytes waiting, and on nothing that can be seen in the bytes. One turn of
//! its loop is: call of the poll, its return, reading, parsing. The argument, for Linux:
//!
//! 1. The kernel puts a socket on the ready list of the poll in the moment in which its bytes arrive
//!    (`ep_poll_callback`), and wakes the thread if it sleeps in the poll. A poll does not go to sleep while the list is
//!    not empty. So between the arrival of a byte and the return of the poll that reports it, the thread was never
//!    asleep: it was running, or it was waiting for a core.
//! 2. The time it waited for a core is counted by the kernel (the run delay, second number of
//!    `/proc/thread-self/schedstat`). Running, it was inside a poll, for the few microseconds that [`SLACK`] stands for,
//!    or busy with the turn before: from the return of that turn's poll to the call of this one.
//! 3. So if a poll took longer than run delay and slack account for, the thread has slept in it, the list was empty
//!    then, and nothing that this poll reports came earlier than its return less run delay and slack.
//! 4. Else what this poll reports was not on the list when the poll before took everything off it: it came after that
//!    poll's call; and not earlier than this poll's return less run delay, slack and the time busy in between.
//! 5. A poll that filled its buffer may have left sockets on the list, and an interrupted one takes nothing off: what
//!    the next poll reports can be as old as what this one could report, so the older bound is kept.
//! 6. A socket that the poll did not watch yet at those instants may have been readable all the time; nothing is said
//!    of it but after a sleep (3), before which it would have been reported.
//!
//! What this cannot see: a hypervisor that takes the core away from the whole machine, and a core that takes longer than
//! the slack to wake. Nor is a pause of this thread without effect on what comes after it: bytes that are not read are
//! acknowledged late, and a sender that has used up its congestion window (ten segments at first) holds back what it
//! would have sent. That takes a pause of several events of one stream; the lateness of reading shows it. Bytes that the
//! network stack holds back before they reach the socket have not arrived by any measure of a program. Where the run
//! delay is not counted (another system, some sandboxes) the first half of 4 still holds.

use goodput_core::time::Nanos;

/// Time between the arrival of a byte and the return of the poll that reports it, apart from the run delay: the wake-up
/// of an idle core, and the work of the poll itself.
pub(crate) const SLACK: Nanos = Nanos::from_micros(50);
/// A run delay that was read longer ago than this is read anew before the next poll, so that a bound is not made worse
/// by waits that have nothing to do with it.
const READING_LASTS: Nanos = Nanos::from_millis(10);

/// One poll: when it was called and when it returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Polled {
    called: Nanos,
    returned: Nanos,
}

/// The turns of a thread's loop, up to the one it is in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns {
    /// The poll of this turn.
    this: Polled,
    /// The last poll before it that took everything off the list, and the one right after that. These are the turn
    /// before and this one, unless polls in between left something behind.
    emptied: Polled,
    after_emptied: Polled,
    /// Whether the poll of this turn may have left something behind.
    left_behind: bool,
    delay: RunDelay,
}

/// Readings of the thread's total run delay, in nanoseconds. A reading that was taken in one turn was taken before the
/// poll of the next turn and is a baseline for the one after that, in which that poll is the one that emptied the list.
#[derive(Debug, Clone, Copy, Default)]
struct RunDelay {
    baseline: Option<u64>,
    /// Of the turn before this one.
    before: Option<u64>,
    /// Of this turn.
    now: Option<u64>,
    read_at: Option<Nanos>,
}

impl Turns {
    /// A poll has returned. `left_behind`: its buffer was full, or it was interrupted.
    pub(crate) fn polled(&mut self, called: Nanos, returned: Nanos, left_behind: bool) {
        let poll = Polled { called, returned };
        if !self.left_behind {
            self.emptied = self.this;
            self.after_emptied = poll;
            self.delay.baseline = self.delay.before.take().or(self.delay.baseline);
        }
        self.delay.before = self.delay.now.take().or(self.delay.before);
        self.this = poll;
        self.left_behind = left_behind;
    }

    /// Whether the run delay should be read before the next poll.
    pub(crate) fn wants_run_delay(&self, now: Nanos) -> bool {
        self.delay.read_at.is_none_or(|at| now.since(at) > READING_LASTS)
    }

    /// The thread's total run delay, read at `now` in this turn.
    pub(crate) fn run_delay_is(&mut self, total_ns: u64, now: Nanos) {
        self.delay.now = Some(total_ns);
        self.delay.read_at = Some(now);
    }

    /// The reading of this turn, if there is one already: it is as good as any other of the same turn.
    pub(crate) const fn run_delay(&self) -> Option<u64> {
        self.delay.now
    }

    /// An instant before which no byte can have come that this turn found on a socket, which the poll has watched since
    /// `watched`. `None` if nothing is known.
    pub(crate) fn quiet_until(&self, watched: Nanos) -> Option<Nanos> {
        let delay = self.delay.now.zip(self.delay.baseline);
        let delay = delay.map(|(now, baseline)| Nanos(now.saturating_sub(baseline)) + SLACK);
        if let Some(delay) = delay
            && self.this.returned.since(self.this.called) >= delay
        {
            return Some(Nanos(self.this.returned.0 - delay.0));
        }
        if watched > self.emptied.called {
            return None;
        }
        let busy = self.after_emptied.called.since(self.emptied.returned);
        let awake_since =
            delay.map(|delay| Nanos(self.after_emptied.returned.0.saturating_sub((delay + busy).0)));
        Some(awake_since.unwrap_or_default().max(self.emptied.called))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    /// Turns in microseconds: (called, returned, left behind, total run delay if it is read in that turn).
    fn after(turns: &[(u64, u64, bool, Option<u64>)]) -> Turns {
        let mut all = Turns::default();
        for &(called, returned, left_behind, delay) in turns {
            all.polled(us(called), us(returned), left_behind);
            if let Some(delay) = delay {
                all.run_delay_is(us(delay).0, us(returned));
            }
        }
        all
    }

    /// Three turns; the run delay is read in all of them.
    fn third(called: u64, returned: u64, delay: u64) -> Turns {
        after(&[
            (100, 1_000, false, Some(7)),
            (1_100, 2_000, false, Some(7)),
            (called, returned, false, Some(7 + delay)),
        ])
    }

    #[test]
    fn after_a_sleep_nothing_has_waited_longer_than_for_a_core() {
        assert_eq!(third(2_010, 9_000, 0).quiet_until(us(2_005)), Some(us(8_950)), "the slack alone");
        assert_eq!(third(2_010, 9_000, 3_000).quiet_until(us(2_005)), Some(us(5_950)));
        assert_eq!(
            third(2_010, 9_000, 6_940).quiet_until(us(2_005)),
            Some(us(2_010)),
            "as early as the call"
        );
    }

    #[test]
    fn without_a_sleep_the_turn_before_counts() {
        // Busy from 2 000 to 2 700, and then the poll returned at once.
        assert_eq!(third(2_700, 2_710, 0).quiet_until(us(50)), Some(us(1_960)));
        // Nor was it asleep for the rest of this time.
        assert_eq!(third(2_700, 9_000, 6_260).quiet_until(us(50)), Some(us(1_990)));
        // Never before the call of the poll that would have reported it.
        assert_eq!(third(2_700, 2_710, 5_000).quiet_until(us(50)), Some(us(1_100)));
    }

    #[test]
    fn a_socket_that_was_not_watched_may_have_been_readable_all_along() {
        assert_eq!(third(2_700, 2_710, 0).quiet_until(us(1_100)), Some(us(1_960)));
        assert_eq!(third(2_700, 2_710, 0).quiet_until(us(1_101)), None);
    }

    #[test]
    fn without_a_run_delay_the_poll_before_is_the_bound() {
        let turns =
            after(&[(100, 1_000, false, None), (1_100, 2_000, false, None), (2_700, 9_000, false, None)]);
        assert_eq!(turns.quiet_until(us(50)), Some(us(1_100)));
        assert_eq!(turns.quiet_until(us(1_200)), None, "whether it slept is not known");
        // The first turn has none before it.
        assert_eq!(after(&[(100, 1_000, false, None)]).quiet_until(Nanos::ZERO), Some(Nanos::ZERO));
    }

    #[test]
    fn a_reading_of_the_turn_before_is_no_baseline() {
        // The thread lost its core for 400 after it had emptied the list and before it could read the clock. The reading
        // after that must not hide it.
        let turns = after(&[
            (100, 1_000, false, Some(0)),
            (1_100, 2_000, false, Some(400)),
            (2_700, 2_710, false, Some(400)),
        ]);
        assert_eq!(turns.quiet_until(us(50)), Some(us(1_560)));
    }

    #[test]
    fn what_a_full_poll_left_behind_is_as_old_as_what_it_reported() {
        let turns = after(&[
            (100, 1_000, false, Some(0)),
            (1_100, 2_000, false, Some(0)),
            (2_700, 2_710, true, Some(0)),
            (2_900, 2_910, true, Some(5)),
            (3_300, 3_310, false, Some(5)),
        ]);
        assert_eq!(turns.quiet_until(us(50)), Some(us(1_955)));
        let mut next = turns.clone();
        next.polled(us(3_500), us(3_510), false);
        next.run_delay_is(5_000, us(3_510));
        assert_eq!(next.quiet_until(us(50)), Some(us(3_300)), "and no longer than that");
    }

    #[test]
    fn the_run_delay_is_read_anew_now_and_then() {
        let mut turns = Turns::default();
        assert!(turns.wants_run_delay(us(1)));
        turns.run_delay_is(0, us(1));
        assert!(!turns.wants_run_delay(us(10_001)));
        assert!(turns.wants_run_delay(us(10_002)));
    }

    /// One turn of a simulated thread, in microseconds: work after the poll, waits for a core during that work and
    /// during the poll, and arrivals by their distance from the one before.
    #[derive(Debug, Clone)]
    struct Step {
        work: u64,
        preempted: u64,
        delayed: u64,
        reads_delay: bool,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = (0u64..400, prop_oneof![3 => Just(0), 1 => 0u64..3_000], 0u64..500, any::<bool>());
        prop::collection::vec(
            step.prop_map(|(work, preempted, delayed, reads_delay)| Step {
                work,
                preempted,
                delayed,
                reads_delay,
            }),
            1..40,
        )
    }

    proptest! {
        /// A thread in exact time, whose poll takes at most `room` sockets off the list: no arrival that a turn reports
        /// came before the instant that the turn says.
        #[test]
        fn nothing_comes_before_it_is_quiet(
            steps in steps(),
            gaps in prop::collection::vec(0u64..600, 200),
            room in 1usize..6,
        ) {
            let arrivals: Vec<u64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            let (mut now, mut total, mut taken) = (0, 0, 0);
            let mut turns = Turns::default();
            for step in steps {
                let called = now;
                let Some(&next) = arrivals.get(taken) else { break };
                // Asleep until something comes, then for some time on the run queue.
                let woken = next.max(called);
                total += step.delayed;
                let harvested = woken + step.delayed;
                let there = arrivals.partition_point(|at| *at <= harvested);
                let upto = there.min(taken + room);
                // Preempted on the way out of the poll.
                total += step.preempted / 2;
                let returned = harvested + step.preempted / 2;
                turns.polled(us(called), us(returned), upto - taken == room);
                now = returned + step.work + (step.preempted - step.preempted / 2);
                total += step.preempted - step.preempted / 2;
                if step.reads_delay {
                    turns.run_delay_is(us(total).0, us(now));
                }
                let quiet = turns.quiet_until(Nanos::ZERO).expect("always watched");
                for at in &arrivals[taken..upto] {
                    prop_assert!(quiet <= us(*at), "{quiet:?} {at}");
                }
                taken = upto;
            }
        }
    }
}
