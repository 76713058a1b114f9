//! Which request asks for what, and the answers that need no timing.

use crate::fixed::MODEL_LEN;
use crate::http::Request;
use crate::shape::{Shape, error_body};
use serde::Deserialize;
use serde_json::json;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Generate(Shape),
    Models,
    Health,
    Version,
    Tokenize,
    Truth,
    TruthArrivals,
    TruthReset,
    Unknown,
}

impl Route {
    /// The route of a request. `incremental` is the form of SGLang's frames.
    pub(crate) fn of(request: &Request, incremental: bool) -> Self {
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v1/chat/completions") => Self::Generate(Shape::Chat),
            ("POST", "/v1/completions") => Self::Generate(Shape::Completions),
            ("POST", "/generate") => Self::Generate(Shape::Generate { incremental }),
            ("GET", "/v1/models") => Self::Models,
            ("GET", "/health") => Self::Health,
            ("GET", "/version") => Self::Version,
            ("POST", "/tokenize") => Self::Tokenize,
            ("GET", "/truth") => Self::Truth,
            ("GET", "/truth/arrivals") => Self::TruthArrivals,
            ("GET" | "POST", "/truth/reset") => Self::TruthReset,
            _ => Self::Unknown,
        }
    }

    /// Whether script mode answers it itself: what a client may ask besides the scripted request.
    pub(crate) fn is_own(self) -> bool {
        match self {
            Self::Models | Self::Health | Self::Version => true,
            Self::Truth | Self::TruthArrivals | Self::TruthReset => true,
            Self::Generate(_) | Self::Tokenize | Self::Unknown => false,
        }
    }
}

/// `/v1/models`.
pub(crate) fn models(model: &str) -> Vec<u8> {
    let card = json!({"id": model, "object": "model", "owned_by": "goodput-sim", "max_model_len": MODEL_LEN});
    json!({"object": "list", "data": [card]}).to_string().into_bytes()
}

/// The version of every server here: always labelled as simulated.
pub(crate) const VERSION: &str = concat!("goodput-sim-", env!("CARGO_PKG_VERSION"));

/// `/version`.
pub(crate) fn version() -> Vec<u8> {
    json!({"version": VERSION, "simulated": true}).to_string().into_bytes()
}

/// The body of `/tokenize`.
#[derive(Deserialize)]
struct Text {
    prompt: String,
}

/// `/tokenize`: one byte is one token. Status and body.
pub(crate) fn tokenize(request: &Request, max_model_len: u32) -> (u16, Vec<u8>) {
    match serde_json::from_slice::<Text>(&request.body) {
        Ok(text) => {
            let tokens = text.prompt.as_bytes();
            let body = json!({"count": tokens.len(), "max_model_len": max_model_len, "tokens": tokens});
            (200, body.to_string().into_bytes())
        }
        Err(error) => (400, error_body(400, "BadRequestError", &error.to_string())),
    }
}

/// A path that is not served.
pub(crate) fn unknown(request: &Request) -> Vec<u8> {
    error_body(404, "NotFoundError", &format!("{} {} is not served", request.method, request.path))
}
