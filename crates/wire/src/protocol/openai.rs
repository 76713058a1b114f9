//! Events of `/v1/chat/completions` and `/v1/completions`, as vLLM, SGLang, llama.cpp and their like send them,
//! and the same answers as one body.

use super::Piece;
use super::json::{Finish, Length, Number, Text};
use crate::reply::ChoiceText;
use goodput_core::time::Nanos;
use goodput_core::timeline::{ChunkFlags, ServerSaid};
use serde::Deserialize;
use serde_json::value::RawValue;

/// One event, or one whole body.
#[derive(Debug, Deserialize)]
pub(crate) struct Frame<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub(crate) usage: Option<Usage>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
    /// vLLM's timings of the request; anything at all elsewhere, so it is looked into only on demand.
    #[serde(borrow, default)]
    metrics: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) object: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) message: Text<'a>,
}

/// Token counts, cumulative.
#[derive(Debug, Deserialize)]
pub(crate) struct Usage {
    #[serde(default)]
    prompt_tokens: Number,
    #[serde(default)]
    pub(crate) completion_tokens: Number,
    /// SGLang has it here, the others among the details.
    #[serde(default)]
    reasoning_tokens: Number,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
    #[serde(default)]
    completion_tokens_details: Option<Details>,
}

#[derive(Debug, Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Number,
    #[serde(default)]
    reasoning_tokens: Number,
}

#[derive(Deserialize)]
struct Metrics {
    #[serde(default)]
    queue_time_ms: Number,
    #[serde(default)]
    time_to_first_token_ms: Number,
}

/// One choice of one event.
#[derive(Debug, Deserialize)]
pub(crate) struct Choice<'a> {
    #[serde(default)]
    index: Number,
    /// Chat: what is new. In a whole body it is called `message`.
    #[serde(borrow, default, alias = "message")]
    delta: Option<Delta<'a>>,
    /// Completions: the new text.
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    finish_reason: Finish<'a>,
    #[serde(default)]
    logprobs: Option<Logprobs>,
    #[serde(default)]
    token_ids: Length,
    /// vLLM: the stop string that was hit, or the number of a stop token.
    #[serde(borrow, default)]
    stop_reason: Text<'a>,
    /// SGLang's name for the same.
    #[serde(borrow, default)]
    matched_stop: Text<'a>,
}

#[derive(Debug, Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    role: Text<'a>,
    #[serde(borrow, default)]
    content: Text<'a>,
    #[serde(borrow, default)]
    reasoning: Text<'a>,
    #[serde(borrow, default)]
    reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
    #[serde(borrow, default)]
    function_call: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    arguments: Text<'a>,
}

/// Entries per token: `content` and `refusal` in chat, `tokens` in completions.
#[derive(Debug, Deserialize)]
struct Logprobs {
    #[serde(default)]
    content: Length,
    #[serde(default)]
    refusal: Length,
    #[serde(default)]
    tokens: Length,
}

impl<'a> Frame<'a> {
    /// The choices; none in a usage-only event.
    pub(crate) fn choices(&self) -> &[Choice<'a>] {
        self.choices.as_deref().unwrap_or_default()
    }

    /// Writes down what the server says about the request as a whole.
    pub(crate) fn server_said(&self, server: &mut ServerSaid) {
        if let Some(usage) = &self.usage {
            let cached = usage.prompt_tokens_details.as_ref().map(|d| d.cached_tokens);
            let reasoning = usage.completion_tokens_details.as_ref().map(|d| d.reasoning_tokens);
            set(&mut server.prompt_tokens, usage.prompt_tokens.count());
            set(&mut server.completion_tokens, usage.completion_tokens.count());
            set(&mut server.reasoning_tokens, usage.reasoning_tokens.count());
            set(&mut server.reasoning_tokens, reasoning.and_then(Number::count));
            set(&mut server.cached_tokens, cached.and_then(Number::count));
        }
        let metrics = self.metrics.map(RawValue::get).filter(|json| json.starts_with('{'));
        if let Some(metrics) = metrics.and_then(|json| serde_json::from_str::<Metrics>(json).ok()) {
            let span = |ms: Number| ms.get().map(|ms| Nanos::from_secs_f64(ms / 1e3));
            set(&mut server.queue, span(metrics.queue_time_ms));
            set(&mut server.first_token, span(metrics.time_to_first_token_ms));
        }
    }
}

/// A newer value replaces an older one, an absent one does not.
fn set<T>(slot: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *slot = value;
    }
}

impl<'a> Choice<'a> {
    /// The facts of this choice. `count` is the server's cumulative count if this event has one.
    pub(crate) fn piece(&self, count: Option<u32>) -> Piece<'_> {
        let mut flags = ChunkFlags::CHOICES;
        let mut flag = |yes: bool, bit: ChunkFlags| {
            if yes {
                flags |= bit;
            }
        };
        let empty = |text: &Text<'_>| text.get() == Some("");
        flag(self.text.is_filled(), ChunkFlags::TEXT);
        flag(empty(&self.text), ChunkFlags::EMPTY_TEXT);
        if let Some(delta) = &self.delta {
            flag(delta.role.is_filled(), ChunkFlags::ROLE);
            flag(delta.content.is_filled(), ChunkFlags::TEXT);
            flag(empty(&delta.content), ChunkFlags::EMPTY_TEXT);
            flag(delta.reasoning.is_filled(), ChunkFlags::REASONING);
            flag(delta.reasoning_content.is_filled(), ChunkFlags::REASONING_CONTENT);
            flag(delta.refusal.is_filled(), ChunkFlags::REFUSAL);
            flag(delta.functions().any(Function::is_filled), ChunkFlags::TOOL);
        }
        let finish = self.finish_reason.kind().map(|_| &self.finish_reason);
        flag(finish.is_some(), ChunkFlags::FINISH);
        flag(self.token_ids.0 > 0, ChunkFlags::IDS);
        Piece {
            index: self.index.count().unwrap_or(0),
            flags,
            ids: self.token_ids.0,
            logprobs: self.logprobs.as_ref().map_or(0, Logprobs::entries),
            count,
            finish,
            stop_string: self.stop_reason.is_filled() || self.matched_stop.is_filled(),
        }
    }

    /// Appends the new text.
    pub(crate) fn append_to(&self, out: &mut ChoiceText) {
        out.text.push_str(self.text.or_empty());
        if let Some(delta) = &self.delta {
            out.text.push_str(delta.content.or_empty());
            out.text.push_str(delta.refusal.or_empty());
            out.reasoning.push_str(delta.reasoning_text());
            for function in delta.functions() {
                out.tool_args.push_str(function.arguments.or_empty());
            }
        }
    }
}

impl<'a> Delta<'a> {
    fn functions(&self) -> impl Iterator<Item = &Function<'a>> {
        let calls = self.tool_calls.iter().flatten().filter_map(|call| call.function.as_ref());
        calls.chain(&self.function_call)
    }

    /// The reasoning text under either name; a server that sends both sends the same text twice.
    fn reasoning_text(&self) -> &str {
        if self.reasoning_content.is_filled() {
            self.reasoning_content.or_empty()
        } else {
            self.reasoning.or_empty()
        }
    }
}

impl Function<'_> {
    fn is_filled(&self) -> bool {
        self.name.is_filled() || self.arguments.is_filled()
    }
}

impl Logprobs {
    fn entries(&self) -> u32 {
        self.content.0 + self.refusal.0 + self.tokens.0
    }
}
