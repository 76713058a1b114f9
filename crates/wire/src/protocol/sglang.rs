//! Frames of SGLang's native `/generate`, and the same answer as one body.
//!
//! `text` and `output_ids` hold everything so far, or only what is new if the server was started with
//! `--incremental-streaming-output`. The frames do not say which, so it is found out: [`Growth`].

use super::json::{Finish, Length, Number, Text};
use goodput_core::time::Nanos;
use goodput_core::timeline::ServerSaid;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One frame, or one whole body.
#[derive(Debug, Deserialize)]
pub(crate) struct Frame<'a> {
    #[serde(borrow, default)]
    pub(crate) text: Text<'a>,
    #[serde(default)]
    output_ids: Length,
    #[serde(borrow, default)]
    meta_info: Option<Meta<'a>>,
    #[serde(default)]
    index: Number,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) object: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) message: Text<'a>,
}

#[derive(Debug, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default)]
    finish_reason: Finish<'a>,
    #[serde(default)]
    prompt_tokens: Number,
    #[serde(default)]
    completion_tokens: Number,
    #[serde(default)]
    cached_tokens: Number,
    #[serde(default)]
    reasoning_tokens: Number,
    /// Seconds.
    #[serde(default)]
    queue_time: Number,
    /// Seconds.
    #[serde(default)]
    first_token_latency: Number,
}

impl<'a> Frame<'a> {
    /// Whether this is a frame of output at all.
    pub(crate) fn is_output(&self) -> bool {
        self.meta_info.is_some() || self.text.get().is_some() || self.output_ids.0 > 0
    }

    /// Number of the answer in a batch.
    pub(crate) fn index(&self) -> u32 {
        self.index.count().unwrap_or(0)
    }

    /// Token ids in the frame.
    pub(crate) fn ids(&self) -> u32 {
        self.output_ids.0
    }

    /// The server's cumulative count of output tokens.
    pub(crate) fn count(&self) -> Option<u32> {
        self.meta_info.as_ref().and_then(|m| m.completion_tokens.count())
    }

    /// The finish reason, if there is one.
    pub(crate) fn finish(&self) -> Option<&Finish<'a>> {
        self.meta_info.as_ref().map(|m| &m.finish_reason).filter(|f| f.kind().is_some())
    }

    /// Writes down what the server says about the request as a whole.
    pub(crate) fn server_said(&self, server: &mut ServerSaid) {
        let Some(meta) = &self.meta_info else { return };
        let span = |seconds: Number| seconds.get().map(Nanos::from_secs_f64);
        server.prompt_tokens = meta.prompt_tokens.count().or(server.prompt_tokens);
        server.completion_tokens = meta.completion_tokens.count().or(server.completion_tokens);
        server.reasoning_tokens = meta.reasoning_tokens.count().or(server.reasoning_tokens);
        server.cached_tokens = meta.cached_tokens.count().or(server.cached_tokens);
        server.queue = span(meta.queue_time).or(server.queue);
        server.first_token = span(meta.first_token_latency).or(server.first_token);
    }
}

/// How the frames of one answer grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Every frame repeats everything before it.
    Cumulative,
    /// Every frame has only what is new.
    Incremental,
}

/// Follows one answer and tells what is new in each frame.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    mode: Option<Mode>,
    /// Frames seen that had any output.
    frames: u32,
    /// Token ids of the last frame.
    ids: u32,
    /// The last cumulative count.
    count: u32,
}

/// What is new in one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct New {
    /// Whether there is new text.
    pub(crate) text: bool,
    /// New token ids.
    pub(crate) ids: u32,
}

impl Growth {
    /// Takes the next frame; `whole` is all text so far and is brought up to date.
    pub(crate) fn take(&mut self, frame: &Frame<'_>, whole: &mut String) -> New {
        let text = frame.text.or_empty();
        let (ids, count) = (frame.ids(), frame.count());
        if self.mode.is_none() && self.frames > 0 {
            self.mode = self.detect(text, ids, count, whole);
        }
        let new = match self.mode {
            Some(Mode::Cumulative) => {
                let kept = common_prefix(whole, text);
                whole.truncate(kept);
                whole.push_str(&text[kept..]);
                New { text: text.len() > kept, ids: ids.saturating_sub(self.ids) }
            }
            Some(Mode::Incremental) | None => {
                whole.push_str(text);
                New { text: !text.is_empty(), ids }
            }
        };
        if !text.is_empty() || ids > 0 {
            self.frames += 1;
        }
        self.ids = ids;
        self.count = count.unwrap_or(self.count);
        new
    }

    /// Ids against the count decide where both are given: only a cumulative frame has as many ids as tokens were
    /// counted. Else a text that extends the one before is cumulative. `None`: nothing to decide by yet.
    fn detect(&self, text: &str, ids: u32, count: Option<u32>, before: &str) -> Option<Mode> {
        if let Some(count) = count
            && ids > 0
            && self.ids > 0
            && self.count > 0
        {
            return Some(if ids == count { Mode::Cumulative } else { Mode::Incremental });
        }
        if text.is_empty() || before.is_empty() {
            return None;
        }
        Some(if text.starts_with(before) { Mode::Cumulative } else { Mode::Incremental })
    }
}

/// Bytes of the longest common prefix that ends between characters.
fn common_prefix(a: &str, b: &str) -> usize {
    if b.starts_with(a) {
        return a.len();
    }
    let same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    (0..=same).rev().find(|&n| b.is_char_boundary(n) && a.is_char_boundary(n)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (text, ids, count) of each frame -> (new text?, new ids) of each, and all text.
    fn follow(frames: &[(&str, u32, Option<u32>)]) -> (Vec<(bool, u32)>, String) {
        let mut growth = Growth::default();
        let mut whole = String::new();
        let mut new = Vec::new();
        for (text, ids, count) in frames {
            let ids: Vec<u32> = (0..*ids).collect();
            let json = serde_json::json!({
                "text": text, "output_ids": ids, "meta_info": {"completion_tokens": count}
            })
            .to_string();
            let frame: Frame<'_> = serde_json::from_str(&json).unwrap();
            let n = growth.take(&frame, &mut whole);
            new.push((n.text, n.ids));
        }
        (new, whole)
    }

    #[test]
    fn cumulative_frames() {
        let (new, whole) =
            follow(&[("a", 1, Some(1)), ("ab", 2, Some(2)), ("ab", 3, Some(3)), ("abc", 5, Some(5))]);
        assert_eq!(new, [(true, 1), (true, 1), (false, 1), (true, 2)]);
        assert_eq!(whole, "abc");
    }

    #[test]
    fn incremental_frames_even_if_they_repeat() {
        let (new, whole) =
            follow(&[("ha", 1, Some(1)), ("ha", 1, Some(2)), ("hah", 2, Some(4)), ("", 1, Some(5))]);
        assert_eq!(new, [(true, 1), (true, 1), (true, 2), (false, 1)]);
        assert_eq!(whole, "hahahah");
    }

    #[test]
    fn without_ids_the_text_decides() {
        let (new, whole) = follow(&[("a", 0, Some(1)), ("ab", 0, Some(2)), ("abc", 0, None)]);
        assert_eq!((new, whole.as_str()), (vec![(true, 0); 3], "abc"));
        let (_, whole) = follow(&[("a", 0, Some(1)), ("b", 0, Some(2)), ("bc", 0, Some(3))]);
        assert_eq!(whole, "abbc");
    }

    #[test]
    fn a_revised_end_is_replaced() {
        let (new, whole) = follow(&[("é", 1, Some(1)), ("éè", 2, Some(2)), ("éêx", 3, Some(3))]);
        assert_eq!(new, [(true, 1), (true, 1), (true, 1)]);
        assert_eq!(whole, "éêx");
    }
}
