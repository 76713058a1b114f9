//! Asking a server who it is, before and after a run: plain, blocking requests that are no part of the load.

use crate::connection::TlsSettings;
use crate::target::{Target, TargetError};
use goodput_core::plan::Protocol;
use goodput_wire::http1::{Http1Event, Http1Reader};
use goodput_wire::request::encode_head;
use rustls::{ClientConnection, StreamOwned};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use thiserror::Error;

/// How long a probe may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Largest answer read.
const BODY_MAX: usize = 16 << 20;

/// A probe that got no answer.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The connection.
    #[error("asking {url}{path}: {source}")]
    Io {
        /// Server root.
        url: String,
        /// Path asked.
        path: String,
        /// What happened.
        source: io::Error,
    },
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body, at most 16 MiB.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON, if the status is 200 and it is JSON.
    #[must_use]
    pub fn json(&self) -> Option<Value> {
        if self.status == 200 { serde_json::from_slice(&self.body).ok() } else { None }
    }
}

/// A server that can be asked.
#[derive(Debug, Clone)]
pub struct Prober {
    target: Target,
    headers: Vec<(String, String)>,
}

impl Prober {
    /// Resolves the root; `headers` go with every question (authorization, for one).
    ///
    /// # Errors
    /// [`ProbeError::Target`].
    pub fn new(root: &str, tls: &TlsSettings, headers: Vec<(String, String)>) -> Result<Self, ProbeError> {
        Ok(Self { target: Target::resolve(root, tls, false)?, headers })
    }

    /// The resolved target.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// One question: GET without a body, POST with one.
    ///
    /// # Errors
    /// [`ProbeError::Io`] for anything that kept the answer from coming.
    pub fn ask(&self, path: &str, body: Option<&[u8]>) -> Result<Answer, ProbeError> {
        let path = self.target.path(path);
        self.exchange(&path, body).map_err(|source| ProbeError::Io {
            url: self.target.url.clone(),
            path,
            source,
        })
    }

    fn exchange(&self, path: &str, body: Option<&[u8]>) -> io::Result<Answer> {
        let tcp = TcpStream::connect_timeout(&self.target.address, LIMIT)?;
        tcp.set_read_timeout(Some(LIMIT))?;
        tcp.set_write_timeout(Some(LIMIT))?;
        match &self.target.tls {
            None => self.talk(tcp, path, body),
            Some(tls) => {
                let mut config = (*tls.config).clone();
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                let client = ClientConnection::new(config.into(), tls.server_name.clone())
                    .map_err(|e| io::Error::other(format!("TLS: {e}")))?;
                self.talk(StreamOwned::new(client, tcp), path, body)
            }
        }
    }

    fn talk(&self, mut stream: impl Read + Write, path: &str, body: Option<&[u8]>) -> io::Result<Answer> {
        let mut headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        headers.push(("connection", "close"));
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        let method = if body.is_some() { "POST" } else { "GET" };
        let length = body.map(<[u8]>::len);
        let mut request = encode_head(method, path, &self.target.host, &headers, length)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
        request.extend_from_slice(body.unwrap_or_default());
        stream.write_all(&request)?;
        read_answer(stream)
    }
}

fn read_answer(mut stream: impl Read) -> io::Result<Answer> {
    let invalid =
        |e: goodput_wire::http1::Http1Error| io::Error::new(io::ErrorKind::InvalidData, e.to_string());
    let mut reader = Http1Reader::new();
    let mut answer = Answer { status: 0, body: Vec::new() };
    let mut buffer = [0; 16 << 10];
    while !reader.is_done() {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            if reader.eof() {
                break;
            }
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer was cut off"));
        }
        let mut input = &buffer[..read];
        while let Some(event) = reader.next(&mut input).map_err(invalid)? {
            match event {
                Http1Event::Head(head) => answer.status = head.status,
                Http1Event::Body(bytes) if answer.body.len() < BODY_MAX => {
                    answer.body.extend_from_slice(bytes)
                }
                Http1Event::Body(_) | Http1Event::End => {}
            }
        }
    }
    Ok(answer)
}

/// What the server says about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EngineFacts {
    /// `vllm`, `sglang`, `llama.cpp`, `goodput-sim`, or `unknown`.
    pub engine: String,
    /// Its version, as it says it.
    pub version: Option<String>,
    /// Model names it serves.
    pub models: Vec<String>,
    /// Longest context it allows, if it says.
    pub max_model_len: Option<u64>,
    /// The answers this was read from, by path, shortened to what describes the server.
    pub answers: std::collections::BTreeMap<String, Value>,
}

/// Asks a server who it is. Unanswered questions leave their fields empty; only an unreachable server is an error.
///
/// # Errors
/// [`ProbeError`] if the first question gets no answer at all.
pub fn identify(prober: &Prober) -> Result<EngineFacts, ProbeError> {
    let mut facts = EngineFacts { engine: "unknown".into(), ..EngineFacts::default() };
    let models = prober.ask("/v1/models", None)?;
    if let Some(list) = models.json() {
        read_models(&list, &mut facts);
        facts.answers.insert("/v1/models".into(), list);
    }
    for path in ["/version", "/get_server_info", "/server_info", "/props"] {
        if facts.version.is_some() && facts.engine != "unknown" {
            break;
        }
        if let Some(answer) = prober.ask(path, None).ok().and_then(|a| a.json()) {
            read_identity(path, &answer, &mut facts);
            facts.answers.insert(path.into(), without_bulk(answer));
        }
    }
    Ok(facts)
}

fn read_models(list: &Value, facts: &mut EngineFacts) {
    for model in list["data"].as_array().into_iter().flatten() {
        facts.models.extend(model["id"].as_str().map(str::to_owned));
        let length = model["max_model_len"].as_u64().or_else(|| model["meta"]["n_ctx_train"].as_u64());
        facts.max_model_len = facts.max_model_len.or(length);
        match model["owned_by"].as_str() {
            Some("vllm") => facts.engine = "vllm".into(),
            Some("sglang") => facts.engine = "sglang".into(),
            Some("llamacpp") => facts.engine = "llama.cpp".into(),
            Some("goodput-sim") => facts.engine = "goodput-sim".into(),
            _ => {}
        }
    }
}

fn read_identity(path: &str, answer: &Value, facts: &mut EngineFacts) {
    let text = |key: &str| answer[key].as_str().map(str::to_owned);
    match path {
        "/version" => {
            // The built-in server puts its name before its version, so that nobody takes it for vLLM.
            facts.version = text("version").map(|v| v.trim_start_matches("goodput-sim-").to_owned());
            if facts.engine == "unknown" && facts.version.is_some() {
                facts.engine = text("engine").unwrap_or_else(|| "vllm".into());
            }
        }
        "/get_server_info" | "/server_info" => {
            facts.version = text("version");
            facts.engine = "sglang".into();
        }
        _ => {
            facts.version = text("build_info");
            if facts.version.is_some() {
                facts.engine = "llama.cpp".into();
            }
        }
    }
}

/// Drops members that are long and describe nothing (chat templates, states of slots).
fn without_bulk(mut answer: Value) -> Value {
    const MEMBER_MAX: usize = 2_000;
    if let Some(members) = answer.as_object_mut() {
        members.retain(|_, value| value.to_string().len() <= MEMBER_MAX);
    }
    answer
}

/// Finds the protocol to speak without generating anything. Engines that say who they are have chat; of others the
/// first endpoint that answers a GET with anything but "not found" exists.
///
/// # Errors
/// [`ProbeError`] if the server cannot be asked.
pub fn find_protocol(prober: &Prober, engine: &EngineFacts) -> Result<Option<Protocol>, ProbeError> {
    if matches!(engine.engine.as_str(), "vllm" | "sglang" | "llama.cpp" | "goodput-sim") {
        return Ok(Some(Protocol::OpenaiChat));
    }
    for protocol in [Protocol::OpenaiChat, Protocol::OpenaiCompletions, Protocol::Sglang] {
        if prober.ask(protocol.path(), None)?.status != 404 {
            return Ok(Some(protocol));
        }
    }
    // A server that lists models speaks the OpenAI protocols, even if it hides POST endpoints from a GET.
    Ok((!engine.models.is_empty()).then_some(Protocol::OpenaiChat))
}

/// Token ids of a text, by the server's own `/tokenize`. vLLM takes `prompt`, SGLang too, llama.cpp `content`;
/// each ignores the other's member.
///
/// # Errors
/// A sentence for the user.
pub fn tokenize(prober: &Prober, model: &str, text: &str) -> Result<Vec<u32>, String> {
    let body = serde_json::json!({
        "model": model, "prompt": text, "content": text, "add_special_tokens": false, "add_special": false,
    });
    let answer = prober.ask("/tokenize", Some(body.to_string().as_bytes())).map_err(|e| e.to_string())?;
    let tokens = answer.json().and_then(|json| {
        json["tokens"].as_array()?.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect()
    });
    tokens.ok_or_else(|| {
        format!(
            "the server's /tokenize answered {} without a list of tokens; use --tokenizer FILE",
            answer.status
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn engines_are_known_by_what_they_say() {
        let mut facts = EngineFacts { engine: "unknown".into(), ..EngineFacts::default() };
        read_models(&json!({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 2048}]}), &mut facts);
        assert_eq!((facts.engine.as_str(), facts.max_model_len), ("vllm", Some(2048)));
        read_identity("/version", &json!({"version": "0.33.0"}), &mut facts);
        assert_eq!(facts.version.as_deref(), Some("0.33.0"));

        let mut facts = EngineFacts { engine: "unknown".into(), ..EngineFacts::default() };
        read_identity("/props", &json!({"build_info": "b11434"}), &mut facts);
        assert_eq!(facts.engine, "llama.cpp");
    }

    #[test]
    fn answers_are_read_whole() {
        let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n0\r\n\r\n";
        let answer = read_answer(&bytes[..]).unwrap();
        assert_eq!(answer.json(), Some(json!({"a": 1})));
    }
}
