//! Script mode: byte scripts (`goodput_wire::replay`) played exactly.
//!
//! A connection plays one script, for the first request that is not one of the server's own GET routes, and then
//! closes as the script says. Scripts are handed out in the order of those first requests.

use crate::answer::{Carried, End};
use crate::http::{BodyEnd, LAST_CHUNK, write_chunk, write_head};
use goodput_core::time::Nanos;
use goodput_wire::replay::{Close, Framing, Replay};
use std::sync::Arc;

/// Which connection plays which script.
#[derive(Debug, Clone)]
pub enum ScriptPlan {
    /// Every connection plays this one.
    Same(Replay),
    /// Connection `k` (by its first request) plays script `k` modulo their number.
    PerConnection(Vec<Replay>),
}

/// Hands scripts to connections.
#[derive(Debug)]
pub(crate) struct Scripts {
    scripts: Vec<Arc<Replay>>,
    handed: usize,
}

impl Scripts {
    /// `None` if there is no script to play.
    pub(crate) fn new(plan: ScriptPlan) -> Option<Self> {
        let scripts = match plan {
            ScriptPlan::Same(script) => vec![script],
            ScriptPlan::PerConnection(scripts) => scripts,
        };
        (!scripts.is_empty())
            .then(|| Self { scripts: scripts.into_iter().map(Arc::new).collect(), handed: 0 })
    }

    /// The answer to a request that was whole at `arrived`.
    pub(crate) fn next(&mut self, arrived: Nanos) -> ScriptAnswer {
        let script = Arc::clone(&self.scripts[self.handed % self.scripts.len()]);
        self.handed += 1;
        ScriptAnswer { script, arrived, position: Position::Head }
    }
}

/// A script being played.
#[derive(Debug)]
pub(crate) struct ScriptAnswer {
    script: Arc<Replay>,
    arrived: Nanos,
    position: Position,
}

#[derive(Debug, Clone, Copy)]
enum Position {
    Head,
    Step(usize),
    Closing,
    Over,
}

impl ScriptAnswer {
    pub(crate) fn due(&self) -> Option<Nanos> {
        let offset = match self.position {
            Position::Head => Nanos::ZERO,
            Position::Step(index) => self.script.steps[index].offset,
            Position::Closing => self.script.closes_at(),
            Position::Over => return None,
        };
        Some(self.arrived.saturating_add(offset))
    }

    pub(crate) fn emit(&mut self, out: &mut Vec<u8>) -> Carried {
        match self.position {
            Position::Head => {
                self.head(out);
                self.position = self.after(0);
                Carried::default()
            }
            Position::Step(index) => {
                let bytes = &self.script.steps[index].bytes;
                match self.script.framing {
                    Framing::Chunked => write_chunk(out, bytes),
                    Framing::Close | Framing::Raw => out.extend_from_slice(bytes),
                }
                self.position = self.after(index + 1);
                Carried { chunks: 1, tokens: 0 }
            }
            Position::Closing | Position::Over => {
                if self.script.framing == Framing::Chunked && self.script.close == Close::Clean {
                    out.extend_from_slice(LAST_CHUNK);
                }
                self.position = Position::Over;
                Carried::default()
            }
        }
    }

    pub(crate) fn end(&self) -> End {
        match self.script.close {
            Close::Clean => End::Close,
            Close::Reset => End::Reset,
        }
    }

    fn after(&self, index: usize) -> Position {
        if index < self.script.steps.len() { Position::Step(index) } else { Position::Closing }
    }

    fn head(&self, out: &mut Vec<u8>) {
        let body = match self.script.framing {
            Framing::Raw => return,
            Framing::Chunked => BodyEnd::Chunked,
            Framing::Close => BodyEnd::Close,
        };
        let lines: Vec<String> = self.script.headers.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        write_head(out, self.script.status, &lines, body, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(text: &str) -> (Vec<(u64, String)>, End) {
        let script = Replay::parse(text).unwrap();
        let mut answer = Scripts::new(ScriptPlan::Same(script)).unwrap().next(Nanos(1_000_000));
        let mut writes = Vec::new();
        while let Some(due) = answer.due() {
            let mut out = Vec::new();
            answer.emit(&mut out);
            writes.push((due.0 / 1_000_000, String::from_utf8(out).unwrap()));
        }
        (writes, answer.end())
    }

    fn expect(writes: &[(u64, &str)], end: End) -> (Vec<(u64, String)>, End) {
        (writes.iter().map(|&(at, text)| (at, text.to_owned())).collect(), end)
    }

    #[test]
    fn each_framing_and_close_is_played() {
        let head =
            "HTTP/1.1 503 Service Unavailable\r\nx: y\r\ncontent-type: text/event-stream; charset=utf-8\r\n";
        let chunked = "#! status 503\n#! header x: y\n#! close_at_ms 9\nAT_MS 2 | a\\n\nAT_MS 2 | b";
        assert_eq!(
            play(chunked),
            expect(
                &[
                    (1, &format!("{head}transfer-encoding: chunked\r\nconnection: close\r\n\r\n")),
                    (3, "2\r\na\n\r\n"),
                    (3, "1\r\nb\r\n"),
                    (10, "0\r\n\r\n"),
                ],
                End::Close
            )
        );
        let closed = "#! status 503\n#! header x: y\n#! framing close\n#! close reset\nAT_MS 2 | a";
        assert_eq!(
            play(closed),
            expect(&[(1, &format!("{head}connection: close\r\n\r\n")), (3, "a"), (3, "")], End::Reset)
        );
        let raw = "#! framing raw\nAT_MS 4 | HTTP/1.1 200 OK\\r\\n\\r\\n";
        assert_eq!(play(raw), expect(&[(1, ""), (5, "HTTP/1.1 200 OK\r\n\r\n"), (5, "")], End::Close));
    }

    #[test]
    fn scripts_go_round_the_connections() {
        let script = |text: &str| Replay::parse(&format!("#! framing raw\nAT_MS 0 | {text}")).unwrap();
        let mut scripts = Scripts::new(ScriptPlan::PerConnection(vec![script("a"), script("b")])).unwrap();
        let played: Vec<Vec<u8>> = (0..3)
            .map(|_| {
                let mut answer = scripts.next(Nanos::ZERO);
                let mut out = Vec::new();
                answer.emit(&mut out);
                answer.emit(&mut out);
                out
            })
            .collect();
        assert_eq!(played, [b"a", b"b", b"a"]);
        assert!(Scripts::new(ScriptPlan::PerConnection(Vec::new())).is_none());
    }
}
