//! The loop's dealings with the simulated engine: its turn, its news, its share of the account.

use super::EventLoop;
use crate::answer::Answer;
use crate::conn::State;
use crate::engine::{News, Simulated, What};
use crate::truth::Truth;
use std::io;

impl EventLoop {
    /// Lets the engine go on, and carries what it says to the connections.
    pub(super) fn play_engine(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        match &mut self.engine {
            Some(engine) if engine.due().is_some_and(|due| due <= now) => engine.advance(now),
            _ => return Ok(()),
        }
        self.deliver()?;
        self.engine.as_mut().map(Simulated::tell_page);
        Ok(())
    }

    /// Hands the engine's news to the answers that wait for them.
    pub(super) fn deliver(&mut self) -> io::Result<()> {
        let news = self.engine.as_mut().map(Simulated::take_news).unwrap_or_default();
        for News { waiter, id, at, what } in news {
            if !self.is_current(waiter.place, waiter.number) {
                continue;
            }
            let Some(conn) = &mut self.conns[waiter.place] else { continue };
            let State::Playing(playing) = &mut conn.state else { continue };
            let Answer::Engine(answer) = &mut playing.answer else { continue };
            if answer.id != id {
                continue;
            }
            match what {
                What::Refused(reason) => answer.refuse(at, reason),
                What::Tokens { tokens, seen, end } => {
                    answer.tokens(at, tokens, end.is_some(), seen);
                    if let Some(record) = &mut playing.record {
                        record.engine = end;
                    }
                }
            }
            self.advance(waiter.place)?;
        }
        Ok(())
    }

    /// Takes the request of an answer that ends out of the engine, if it is still there.
    pub(super) fn drop_from_engine(&mut self, answer: &Answer) {
        if let (Some(engine), Answer::Engine(answer)) = (&mut self.engine, answer) {
            engine.cancel(self.clock.now(), answer.id);
        }
    }

    /// The account, with the engine's own if there is one.
    pub(super) fn truth(&self) -> Truth {
        Truth { engine: self.engine.as_ref().map(Simulated::account), ..self.ledger.truth() }
    }
}
