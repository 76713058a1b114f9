//! From the plan and the workload to request bytes.

use crate::feed::{Head, Prepared, RequestSource};
use crate::target::Target;
use goodput_core::plan::{Plan, Protocol};
use goodput_core::timeline::Phase;
use goodput_drive::driver::RequestId;
use goodput_wire::reply::ReplyConfig;
use goodput_wire::request::{BodySpec, PromptRef, RequestError, UsageAsk, encode_body, encode_head};
use goodput_workload::{Prompt, Request, Workload};
use serde_json::{Map, Value};
use std::sync::Arc;
use thiserror::Error;

/// Why requests cannot be encoded.
#[derive(Debug, Error)]
pub enum SourceError {
    /// `--body` is not a JSON object.
    #[error("--body is not a JSON object: {0}; expected something like '{{\"temperature\": 0}}'")]
    Extra(String),
    /// The server's tokenizer failed.
    #[error("cannot build a prompt: {0}")]
    Tokenizer(String),
    /// A body or head cannot be written.
    #[error("cannot write a request: {0}")]
    Request(#[from] RequestError),
}

/// The header by which a server's own record of a request can be joined to ours.
pub const REQUEST_ID: &str = "x-request-id";

/// Requests of one plan, as bytes for its targets.
pub struct PlanSource {
    plan: Plan,
    workload: Arc<Workload>,
    extra: Option<Map<String, Value>>,
    choices: u32,
    destinations: Vec<Destination>,
}

struct Destination {
    host: String,
    head: Arc<Head>,
}

impl PlanSource {
    /// Checks that every kind of request of this plan can be written. `headers` go with every request.
    ///
    /// # Errors
    /// [`SourceError`] that names the flag.
    pub fn new(
        plan: Plan,
        workload: Arc<Workload>,
        targets: &[Target],
        headers: Vec<(String, String)>,
    ) -> Result<Self, SourceError> {
        let extra = plan.request.body.as_deref().map(parse_extra).transpose()?;
        let choices = number(extra.as_ref(), "n").unwrap_or(1).max(1);
        let destinations = targets
            .iter()
            .map(|target| Destination {
                host: target.host.clone(),
                head: Arc::new(Head {
                    path: target.path(plan.target.protocol.path()),
                    headers: headers.clone(),
                }),
            })
            .collect();
        let source = Self { plan, workload, extra, choices, destinations };
        for destination in &source.destinations {
            source.head_bytes(destination, 0, "")?;
        }
        let first = source.request(RequestId { phase: Phase::Measured, index: 0 })?;
        source.encode(&first, true)?;
        Ok(source)
    }

    fn request(&self, id: RequestId) -> Result<Request, SourceError> {
        self.workload.request(id.phase, id.index).map_err(|e| SourceError::Tokenizer(e.to_string()))
    }

    fn head_bytes(
        &self,
        destination: &Destination,
        length: usize,
        request_id: &str,
    ) -> Result<Vec<u8>, RequestError> {
        let mut headers: Vec<(&str, &str)> =
            destination.head.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        headers.push((REQUEST_ID, request_id));
        encode_head("POST", &destination.head.path, &destination.host, &headers, Some(length))
    }

    /// What the answer is read against. Members of `--body` win, as they do in the body itself.
    fn reply_config(&self, request: &Request) -> ReplyConfig {
        let shape = &self.plan.request;
        let extra = self.extra.as_ref();
        let flag = |name: &str| extra.and_then(|e| e.get(name)).and_then(Value::as_bool);
        let limit = ["max_completion_tokens", "max_tokens"].iter().find_map(|name| number(extra, name));
        ReplyConfig {
            stream: flag("stream").unwrap_or(shape.stream),
            max_tokens: limit.or(request.max_tokens).or(shape.max_tokens),
            ignore_eos: flag("ignore_eos").unwrap_or(shape.ignore_eos),
            choices: self.choices,
            ..ReplyConfig::new(self.plan.target.protocol)
        }
    }

    fn encode(&self, request: &Request, ask_usage: bool) -> Result<Vec<u8>, RequestError> {
        let shape = &self.plan.request;
        let (messages, text);
        let prompt = match &request.prompt {
            Prompt::Messages(list) if self.plan.target.protocol == Protocol::OpenaiChat => {
                messages = list.iter().map(|m| (m.role.clone(), m.content.clone())).collect::<Vec<_>>();
                PromptRef::Messages(&messages)
            }
            prompt => {
                text = prompt.as_text();
                PromptRef::Text(&text)
            }
        };
        encode_body(&BodySpec {
            protocol: self.plan.target.protocol,
            model: &self.plan.target.model,
            prompt,
            max_tokens: request.max_tokens.or(shape.max_tokens),
            ignore_eos: shape.ignore_eos,
            stream: shape.stream,
            usage: match (ask_usage, shape.continuous_usage) {
                (false, _) => UsageAsk::None,
                (true, false) => UsageAsk::Always,
                (true, true) => UsageAsk::Continuous,
            },
            extra: self.extra.as_ref(),
        })
    }
}

impl RequestSource for PlanSource {
    /// # Panics
    /// If a prompt cannot be written although the first one could: all prompts of a data set are of one kind, and
    /// the protocols refuse kinds, not contents.
    fn build(&self, id: RequestId, ask_usage: bool) -> Prepared {
        let request =
            self.request(id).expect("a prompt: only the server's tokenizer can fail, and it is asked before");
        let target = usize::try_from(id.index).unwrap_or(0) % self.destinations.len();
        let destination = &self.destinations[target];
        let request_id = self.plan.request_id(id.phase, id.index);
        let body = self.encode(&request, ask_usage).expect("a prompt of a kind that could be written before");
        let mut bytes = self
            .head_bytes(destination, body.len(), &request_id)
            .expect("headers that could be written before");
        let body_at = bytes.len();
        bytes.extend_from_slice(&body);
        Prepared {
            id,
            target,
            session: request.session,
            turn: request.turn,
            head: destination.head.clone(),
            request_id,
            bytes,
            body_at,
            reply: self.reply_config(&request),
            planned_input: Some(request.input_tokens),
            asks_usage: ask_usage,
        }
    }
}

fn parse_extra(text: &str) -> Result<Map<String, Value>, SourceError> {
    serde_json::from_str(text).map_err(|e| SourceError::Extra(e.to_string()))
}

fn number(extra: Option<&Map<String, Value>>, name: &str) -> Option<u32> {
    u32::try_from(extra?.get(name)?.as_u64()?).ok()
}
