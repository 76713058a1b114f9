//! The routes of both engines that generate nothing.

use super::Simulated;
use crate::http::Request;
use crate::route;
use crate::shape::{Dialect, error_body};
use goodput_core::time::Nanos;
use serde::Deserialize;
use serde_json::{Value, json};

/// A body with its status and content type.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

/// The body of `/detokenize`.
#[derive(Deserialize)]
struct Ids {
    tokens: Vec<u32>,
}

impl Simulated {
    /// The answer to a request for one of these routes; none to any other.
    pub(crate) fn reply(&mut self, request: &Request, now: Nanos) -> Option<Reply> {
        let is_get = request.method == "GET";
        let path = request.path.as_str();
        Some(match (self.dialect, is_get, path) {
            (_, true, "/v1/models") => json(&self.models(now)),
            (_, true, "/metrics") => {
                self.tell_page();
                let accept = request.accept.as_deref().unwrap_or_default();
                let (content_type, page) = self.told.scrape(now, accept, &self.wall.cluster);
                Reply { status: 200, content_type, body: page.into_bytes() }
            }
            (_, _, "/health") | (Dialect::Vllm, _, "/ping") | (Dialect::Sglang, true, "/health_generate") => {
                text("")
            }
            (_, false, "/start_profile" | "/stop_profile") => text(""),
            (_, true, "/version") => Reply { body: route::version(), ..json(&Value::Null) },
            (_, false, "/tokenize") => sized(route::tokenize(request, self.config.config.max_model_len)),
            (_, false, "/detokenize") => sized(detokenize(&request.body)),
            (Dialect::Vllm, true, "/load") => json(&json!({ "server_load": self.flights.len() })),
            (Dialect::Vllm, false, "/reset_prefix_cache") => self.forget(""),
            (Dialect::Sglang, _, "/flush_cache") => self.forget("Cache flushed.\n"),
            (Dialect::Sglang, true, "/model_info" | "/get_model_info") => json(&self.model_info()),
            (Dialect::Sglang, true, "/server_info" | "/get_server_info") => json(&self.server_info()),
            _ => return None,
        })
    }

    fn forget(&mut self, said: &str) -> Reply {
        self.wall.cluster.forget_prefixes();
        text(said)
    }

    fn models(&self, now: Nanos) -> Value {
        let model = &self.config.model;
        json!({"object": "list", "data": [{
            "id": model, "object": "model", "created": self.unix(now).0 / 1_000_000_000, "owned_by": "goodput-sim",
            "root": model, "parent": null, "max_model_len": self.config.config.max_model_len,
        }]})
    }

    fn model_info(&self) -> Value {
        let model = &self.config.model;
        json!({"model_path": model, "tokenizer_path": model, "is_generation": true, "simulated": true,
               "preferred_sampling_params": null, "weight_version": "default"})
    }

    fn server_info(&self) -> Value {
        let (config, counters) = (&self.config.config, self.wall.cluster.counters());
        // Tokens that a decode step gives a request, on average.
        let accepted =
            (counters.drafts > 0).then(|| 1.0 + counters.accepted_tokens as f64 / counters.drafts as f64);
        json!({"model_path": self.config.model, "served_model_name": self.config.model, "simulated": true,
               "version": route::VERSION, "max_total_num_tokens": config.kv_tokens(),
               "max_running_requests": config.max_num_seqs, "context_length": config.max_model_len,
               "page_size": config.block_size, "dp_size": self.config.replicas,
               "internal_states": [{"avg_spec_accept_length": accepted}]})
    }
}

fn json(body: &Value) -> Reply {
    Reply { status: 200, content_type: "application/json", body: body.to_string().into_bytes() }
}

fn sized((status, body): (u16, Vec<u8>)) -> Reply {
    Reply { status, content_type: "application/json", body }
}

fn text(body: &str) -> Reply {
    Reply { status: 200, content_type: "text/plain; charset=utf-8", body: body.as_bytes().to_vec() }
}

/// Ids are bytes, as `/tokenize` gives them.
fn detokenize(body: &[u8]) -> (u16, Vec<u8>) {
    let ids = serde_json::from_slice::<Ids>(body).map_err(|error| error.to_string());
    let bytes = ids.and_then(|ids| {
        let byte =
            |id: u32| u8::try_from(id).map_err(|_| format!("token id {id} is out of vocabulary (0 to 255)"));
        ids.tokens.into_iter().map(byte).collect::<Result<Vec<u8>, _>>()
    });
    match bytes {
        Ok(bytes) => (200, json!({"prompt": String::from_utf8_lossy(&bytes)}).to_string().into_bytes()),
        Err(error) => (400, error_body(400, "BadRequestError", &error)),
    }
}
