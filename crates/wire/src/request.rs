//! Requests as bytes: JSON bodies and HTTP/1.1 heads.
//!
//! It never sends anything and never decides what to ask: the caller says everything.

use goodput_core::plan::Protocol;
use serde::Serialize;
use serde_json::{Map, Value};

/// What usage figures to ask the server for in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UsageAsk {
    /// Once, at the end (`stream_options.include_usage`).
    Always,
    /// With every chunk (`continuous_usage_stats` too), so that tokens per chunk are known.
    Continuous,
    /// Not at all, for servers that refuse the option.
    None,
}

/// The prompt, as the protocol needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptRef<'a> {
    /// Plain text. For chat it becomes one user message.
    Text(&'a str),
    /// Chat messages as (role, content).
    Messages(&'a [(String, String)]),
    /// Token ids.
    TokenIds(&'a [u32]),
}

/// Everything a request body says.
#[derive(Debug, Clone, Copy)]
pub struct BodySpec<'a> {
    /// The endpoint's protocol.
    pub protocol: Protocol,
    /// Model name. SGLang's native protocol has no place for it.
    pub model: &'a str,
    /// The prompt.
    pub prompt: PromptRef<'a>,
    /// Output tokens asked for. `None` leaves the server's default.
    pub max_tokens: Option<u32>,
    /// Tell the server to ignore end-of-sequence.
    pub ignore_eos: bool,
    /// Ask for a stream.
    pub stream: bool,
    /// Usage figures to ask for. Only streams of the OpenAI protocols have the option.
    pub usage: UsageAsk,
    /// Members merged over everything else by the rule of JSON Merge Patch (RFC 7396): objects merge, other
    /// values replace, `null` removes.
    pub extra: Option<&'a Map<String, Value>>,
}

/// Why a request could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The protocol cannot carry this kind of prompt.
    #[error("protocol {protocol} cannot carry {kind}; use another protocol or data source")]
    Prompt {
        /// The protocol's name.
        protocol: &'static str,
        /// The kind of prompt.
        kind: &'static str,
    },
    /// A header name that is not an HTTP token, or one that the client must set by itself.
    #[error(
        "header name {name:?} cannot be used: expected an HTTP token other than content-length and transfer-encoding"
    )]
    HeaderName {
        /// The name.
        name: String,
    },
    /// A header value, path or host with a control character in it.
    #[error("value of {name} holds a control character (a line break, perhaps); remove it")]
    HeaderValue {
        /// The header, or `path`, `host`, `method`.
        name: String,
    },
    /// The body could not be written as JSON.
    #[error("request body cannot be written as JSON: {0}")]
    Json(String),
}

/// The request body for one prompt.
///
/// # Errors
/// [`RequestError::Prompt`] if the protocol has no place for this kind of prompt.
pub fn encode_body(spec: &BodySpec<'_>) -> Result<Vec<u8>, RequestError> {
    let json = |e: serde_json::Error| RequestError::Json(e.to_string());
    let body = Body::of(spec)?;
    match spec.extra {
        None => serde_json::to_vec(&body).map_err(json),
        Some(extra) => {
            let mut value = serde_json::to_value(&body).map_err(json)?;
            if let Value::Object(members) = &mut value {
                merge(members, extra);
            }
            serde_json::to_vec(&value).map_err(json)
        }
    }
}

/// JSON Merge Patch (RFC 7396) of one object over another.
fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (target.get_mut(key), value) {
            (_, Value::Null) => {
                target.remove(key);
            }
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (_, Value::Object(new)) => {
                let mut fresh = Map::new();
                merge(&mut fresh, new);
                target.insert(key.clone(), Value::Object(fresh));
            }
            _ => {
                target.insert(key.clone(), value.clone());
            }
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    OpenAi(OpenAiBody<'a>),
    Sglang(SglangBody<'a>),
}

#[derive(Serialize)]
struct OpenAiBody<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<Prompt<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Message<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ignore_eos: bool,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct SglangBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_ids: Option<&'a [u32]>,
    sampling_params: SamplingParams,
    stream: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Prompt<'a> {
    Text(&'a str),
    TokenIds(&'a [u32]),
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: &'a str,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    continuous_usage_stats: bool,
}

#[derive(Serialize)]
struct SamplingParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_new_tokens: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ignore_eos: bool,
}

impl<'a> Body<'a> {
    fn of(spec: &BodySpec<'a>) -> Result<Self, RequestError> {
        let refuse = |kind| Err(RequestError::Prompt { protocol: spec.protocol.name(), kind });
        let openai = |prompt, messages| {
            Ok(Self::OpenAi(OpenAiBody {
                model: spec.model,
                prompt,
                messages,
                max_tokens: spec.max_tokens,
                ignore_eos: spec.ignore_eos,
                stream: spec.stream,
                stream_options: stream_options(spec),
            }))
        };
        let sglang = |text, input_ids| {
            let sampling_params =
                SamplingParams { max_new_tokens: spec.max_tokens, ignore_eos: spec.ignore_eos };
            Ok(Self::Sglang(SglangBody { text, input_ids, sampling_params, stream: spec.stream }))
        };
        match (spec.protocol, spec.prompt) {
            (Protocol::OpenaiChat, PromptRef::Text(content)) => {
                openai(None, Some(vec![Message { role: "user", content }]))
            }
            (Protocol::OpenaiChat, PromptRef::Messages(list)) => {
                let messages = list.iter().map(|(role, content)| Message { role, content }).collect();
                openai(None, Some(messages))
            }
            (Protocol::OpenaiChat, PromptRef::TokenIds(_)) => refuse("token ids"),
            (Protocol::OpenaiCompletions, PromptRef::Text(text)) => openai(Some(Prompt::Text(text)), None),
            (Protocol::OpenaiCompletions, PromptRef::TokenIds(ids)) => {
                openai(Some(Prompt::TokenIds(ids)), None)
            }
            (Protocol::Sglang, PromptRef::Text(text)) => sglang(Some(text), None),
            (Protocol::Sglang, PromptRef::TokenIds(ids)) => sglang(None, Some(ids)),
            (Protocol::OpenaiCompletions | Protocol::Sglang, PromptRef::Messages(_)) => {
                refuse("chat messages")
            }
        }
    }
}

fn stream_options(spec: &BodySpec<'_>) -> Option<StreamOptions> {
    let continuous_usage_stats = match spec.usage {
        UsageAsk::None => return None,
        UsageAsk::Always => false,
        UsageAsk::Continuous => true,
    };
    spec.stream.then_some(StreamOptions { include_usage: true, continuous_usage_stats })
}

/// An HTTP/1.1 request head, blank line included.
///
/// `headers` come after `host`; a `host` or `content-type` among them replaces ours. With a `content_length` the
/// head also says that the body is JSON, unless the caller says something else.
///
/// # Errors
/// [`RequestError::HeaderName`] and [`RequestError::HeaderValue`] for anything that could break out of its line.
pub fn encode_head(
    method: &str,
    path_and_query: &str,
    host: &str,
    headers: &[(&str, &str)],
    content_length: Option<usize>,
) -> Result<Vec<u8>, RequestError> {
    for (name, value) in [("method", method), ("path", path_and_query)] {
        if value.is_empty() || value.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(RequestError::HeaderValue { name: name.to_owned() });
        }
    }
    let given = |wanted: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    let mut out = format!("{method} {path_and_query} HTTP/1.1\r\n").into_bytes();
    if !given("host") {
        push_header(&mut out, "host", host)?;
    }
    for (name, value) in headers {
        let ours = ["content-length", "transfer-encoding"];
        if !is_token(name) || ours.iter().any(|o| name.eq_ignore_ascii_case(o)) {
            return Err(RequestError::HeaderName { name: (*name).to_owned() });
        }
        push_header(&mut out, name, value)?;
    }
    if let Some(length) = content_length {
        if !given("content-type") {
            push_header(&mut out, "content-type", "application/json")?;
        }
        push_header(&mut out, "content-length", &length.to_string())?;
    }
    out.extend_from_slice(b"\r\n");
    Ok(out)
}

fn push_header(out: &mut Vec<u8>, name: &str, value: &str) -> Result<(), RequestError> {
    if value.bytes().any(|b| (b < b' ' && b != b'\t') || b == 0x7f) {
        return Err(RequestError::HeaderValue { name: name.to_owned() });
    }
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    Ok(())
}

/// A token of RFC 9110, section 5.6.2.
fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(protocol: Protocol, prompt: PromptRef<'_>) -> BodySpec<'_> {
        BodySpec {
            protocol,
            model: "m",
            prompt,
            max_tokens: Some(64),
            ignore_eos: true,
            stream: true,
            usage: UsageAsk::Always,
            extra: None,
        }
    }

    fn body(spec: &BodySpec<'_>) -> Value {
        serde_json::from_slice(&encode_body(spec).unwrap()).unwrap()
    }

    #[test]
    fn every_protocol_has_its_body() {
        let chat = spec(Protocol::OpenaiChat, PromptRef::Text("hi"));
        assert_eq!(
            String::from_utf8(encode_body(&chat).unwrap()).unwrap(),
            r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":64,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}"#
        );
        let talk = [("system".to_owned(), "be brief".to_owned()), ("user".to_owned(), "hi".to_owned())];
        assert_eq!(
            body(&spec(Protocol::OpenaiChat, PromptRef::Messages(&talk)))["messages"],
            json!([{"role":"system","content":"be brief"},{"role":"user","content":"hi"}])
        );
        let ids = spec(Protocol::OpenaiCompletions, PromptRef::TokenIds(&[5, 6]));
        assert_eq!(
            body(&BodySpec { usage: UsageAsk::Continuous, max_tokens: None, ignore_eos: false, ..ids }),
            json!({"model":"m","prompt":[5,6],"stream":true,
                   "stream_options":{"include_usage":true,"continuous_usage_stats":true}})
        );
        assert_eq!(
            body(&spec(Protocol::Sglang, PromptRef::Text("hi"))),
            json!({"text":"hi","sampling_params":{"max_new_tokens":64,"ignore_eos":true},"stream":true})
        );
    }

    #[test]
    fn usage_is_asked_of_streams_only() {
        let chat = spec(Protocol::OpenaiChat, PromptRef::Text("hi"));
        assert!(body(&BodySpec { stream: false, ..chat }).get("stream_options").is_none());
        assert!(body(&BodySpec { usage: UsageAsk::None, ..chat }).get("stream_options").is_none());
    }

    #[test]
    fn a_prompt_without_a_place_is_refused() {
        let wrong = spec(Protocol::OpenaiChat, PromptRef::TokenIds(&[1]));
        assert_eq!(
            encode_body(&wrong).unwrap_err().to_string(),
            "protocol openai-chat cannot carry token ids; use another protocol or data source"
        );
        assert!(encode_body(&spec(Protocol::Sglang, PromptRef::Messages(&[]))).is_err());
    }

    #[test]
    fn extra_members_win() {
        let extra = json!({"temperature":0,"max_tokens":7,"stream_options":null,
                           "nested":{"gone":null,"kept":1}});
        let chat = spec(Protocol::OpenaiCompletions, PromptRef::Text("hi"));
        assert_eq!(
            body(&BodySpec { extra: extra.as_object(), ..chat }),
            json!({"model":"m","prompt":"hi","max_tokens":7,"ignore_eos":true,"stream":true,"temperature":0,
                   "nested":{"kept":1}})
        );
        let native = spec(Protocol::Sglang, PromptRef::Text("hi"));
        let deep = json!({"sampling_params":{"temperature":0.5}});
        assert_eq!(
            body(&BodySpec { extra: deep.as_object(), ..native })["sampling_params"],
            json!({"max_new_tokens":64,"ignore_eos":true,"temperature":0.5})
        );
    }

    #[test]
    fn a_head_is_exact() {
        let head =
            encode_head("POST", "/v1/x?y=1", "h:80", &[("authorization", "Bearer k")], Some(3)).unwrap();
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "POST /v1/x?y=1 HTTP/1.1\r\nhost: h:80\r\nauthorization: Bearer k\r\n\
             content-type: application/json\r\ncontent-length: 3\r\n\r\n"
        );
        let head = encode_head("GET", "/", "h", &[("Host", "other")], None).unwrap();
        assert_eq!(String::from_utf8(head).unwrap(), "GET / HTTP/1.1\r\nHost: other\r\n\r\n");
    }

    #[test]
    fn nothing_breaks_out_of_its_line() {
        for (name, value) in
            [("a", "x\r\ny: z"), ("a", "x\n"), ("a", "\0"), ("b c", "x"), ("", "x"), ("a:", "x")]
        {
            assert!(encode_head("GET", "/", "h", &[(name, value)], None).is_err(), "{name:?} {value:?}");
        }
        assert!(encode_head("GET", "/ x", "h", &[], None).is_err());
        assert!(encode_head("GET", "/", "h\r\n", &[], None).is_err());
        assert!(encode_head("GET", "/", "h", &[("Content-Length", "5")], None).is_err());
    }
}
