//! A server with exact timing, for virtual time: a first token, evenly spaced further ones, and a number of slots.
//!
//! A first-come-first-served queue with deterministic service in front of parallel slots (G/D/c in Kendall's notation).
//! It knows its own truth to the nanosecond, so what a driver and a ruler make of it can be checked exactly. It models
//! no engine: no batching, no memory, no prefill.

use crate::driver::RequestId;
use crate::virtual_time::{SimEvent, SimServer};
use goodput_core::outcome::Outcome;
use goodput_core::time::Nanos;
use goodput_core::timeline::{ChunkFlags, ServerSaid};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The exact server. A request holds a slot from its admission to its last token.
#[derive(Debug)]
pub struct FixedServer {
    ttft: Nanos,
    itl: Nanos,
    tokens: u32,
    slots: usize,
    /// Requests without a slot, with the instant of their submission.
    queue: VecDeque<(RequestId, Nanos)>,
    running: HashMap<RequestId, Running>,
    /// The next token of each running request, by time and then by admission.
    due: BTreeMap<(Nanos, u64), RequestId>,
    admissions: u64,
}

/// A request in a slot.
#[derive(Debug)]
struct Running {
    /// Its key in `due`.
    key: (Nanos, u64),
    /// Tokens said so far.
    said: u32,
    /// Time spent in the queue.
    queued: Nanos,
}

impl FixedServer {
    /// An idle server: the first token `ttft` after admission, each further one `itl` after the one before, `tokens` in
    /// all. `None` slots are as many as there are requests.
    #[must_use]
    pub fn new(ttft: Nanos, itl: Nanos, tokens: u32, slots: Option<u32>) -> Self {
        Self {
            ttft,
            itl,
            tokens,
            slots: slots.map_or(usize::MAX, |slots| slots as usize),
            queue: VecDeque::new(),
            running: HashMap::new(),
            due: BTreeMap::new(),
            admissions: 0,
        }
    }

    fn admit(&mut self, now: Nanos) {
        while self.running.len() < self.slots
            && let Some((id, submitted)) = self.queue.pop_front()
        {
            let key = (now + self.ttft, self.admissions);
            self.admissions += 1;
            self.due.insert(key, id);
            self.running.insert(id, Running { key, said: 0, queued: now - submitted });
        }
    }

    /// Says the next token of `id`, and the end with the last one.
    fn say(&mut self, id: RequestId, out: &mut Vec<SimEvent>) {
        let running = self.running.get_mut(&id).expect("what is due is running");
        let has_token = running.said < self.tokens;
        running.said += u32::from(has_token);
        let is_last = running.said == self.tokens;
        if has_token {
            let text = ChunkFlags::CHOICES | ChunkFlags::TEXT;
            let flags = if is_last { text | ChunkFlags::FINISH } else { text };
            out.push(SimEvent::Chunk { id, tokens: 1, flags });
        }
        if is_last {
            let outcome = if has_token { Outcome::Ok } else { Outcome::NoTokens };
            let said = ServerSaid {
                completion_tokens: Some(self.tokens),
                queue: Some(running.queued),
                ..ServerSaid::default()
            };
            out.push(SimEvent::Chunk { id, tokens: 0, flags: ChunkFlags::DONE });
            out.push(SimEvent::End { id, outcome, said });
            self.running.remove(&id);
        } else {
            running.key.0 += self.itl;
            self.due.insert(running.key, id);
        }
    }
}

impl SimServer for FixedServer {
    fn submit(&mut self, now: Nanos, id: RequestId) {
        self.queue.push_back((id, now));
        self.admit(now);
    }

    fn cancel(&mut self, now: Nanos, id: RequestId) {
        match self.running.remove(&id) {
            Some(running) => {
                self.due.remove(&running.key);
            }
            None => self.queue.retain(|(waiting, _)| *waiting != id),
        }
        self.admit(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<SimEvent>) {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            let id = entry.remove();
            self.say(id, out);
        }
        self.admit(now);
    }
}
