//! From the plan and the workload to request bytes.

use crate::feed::{Head, Prepared, RequestSource};
use crate::target::Target;
use goodput_core::plan::Plan;
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
    /// A body or head cannot be written.
    #[error("cannot write a request: {0}")]
    Request(#[from] RequestError),
}

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
        let choices = extra.as_ref().and_then(|e| e.get("n")).and_then(Value::as_u64).unwrap_or(1);
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
        let source =
            Self { plan, workload, extra, choices: u32::try_from(choices).unwrap_or(1).max(1), destinations };
        for destination in &source.destinations {
            source.head_bytes(destination, 0)?;
        }
        source.encode(&source.workload.request(goodput_core::timeline::Phase::Measured, 0), true)?;
        Ok(source)
    }

    fn head_bytes(&self, destination: &Destination, length: usize) -> Result<Vec<u8>, RequestError> {
        let headers: Vec<(&str, &str)> =
            destination.head.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        encode_head("POST", &destination.head.path, &destination.host, &headers, Some(length))
    }

    fn encode(&self, request: &Request, ask_usage: bool) -> Result<Vec<u8>, RequestError> {
        let shape = &self.plan.request;
        let messages: Vec<(String, String)>;
        let prompt = match &request.prompt {
            Prompt::Text(text) => PromptRef::Text(text),
            Prompt::Messages(list) => {
                messages = list.iter().map(|m| (m.role.clone(), m.content.clone())).collect();
                PromptRef::Messages(&messages)
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
        let request = self.workload.request(id.phase, id.index);
        let target = usize::try_from(id.index).unwrap_or(0) % self.destinations.len();
        let destination = &self.destinations[target];
        let body = self.encode(&request, ask_usage).expect("a prompt of a kind that could be written before");
        let mut bytes = self
            .head_bytes(destination, body.len())
            .expect("headers that could be written before");
        let body_at = bytes.len();
        bytes.extend_from_slice(&body);
        let shape = &self.plan.request;
        Prepared {
            id,
            target,
            session: request.session,
            turn: request.turn,
            head: destination.head.clone(),
            bytes,
            body_at,
            reply: ReplyConfig {
                stream: shape.stream,
                max_tokens: request.max_tokens.or(shape.max_tokens),
                ignore_eos: shape.ignore_eos,
                choices: self.choices,
                ..ReplyConfig::new(self.plan.target.protocol)
            },
            planned_input: Some(request.input_tokens),
            asks_usage: ask_usage,
        }
    }
}

fn parse_extra(text: &str) -> Result<Map<String, Value>, SourceError> {
    serde_json::from_str(text).map_err(|e| SourceError::Extra(e.to_string()))
}
