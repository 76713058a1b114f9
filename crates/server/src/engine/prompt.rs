//! What a prompt is, token by token: the content by which the prefix cache knows it again.
//!
//! The tokens are those that [`Ask::prompt_tokens`](crate::ask::Ask::prompt_tokens) counts: bytes of text, or ids.

use goodput_model::prefix::block_hashes;
use serde::Deserialize;
use serde_json::{Value, json};

/// The parts of a body that are prompt, in the order in which they are counted.
#[derive(Debug, Default, Deserialize)]
struct Prompt {
    prompt: Option<Value>,
    messages: Option<Value>,
    text: Option<Value>,
    input_ids: Option<Value>,
}

/// The chained hashes of the whole blocks of a body's prompt; none for a body that cannot be read.
pub(crate) fn prefix(body: &[u8], block_size: u32) -> Vec<u64> {
    block_hashes(tokens(body), block_size)
}

/// The ids of a body's prompt, as a JSON list.
pub(crate) fn ids(body: &[u8]) -> String {
    json!(tokens(body)).to_string()
}

fn tokens(body: &[u8]) -> Vec<u64> {
    let prompt: Prompt = serde_json::from_slice(body).unwrap_or_default();
    let mut tokens = Vec::new();
    for part in [prompt.prompt, prompt.messages, prompt.text, prompt.input_ids].iter().flatten() {
        collect(part, &mut tokens);
    }
    tokens
}

fn collect(part: &Value, tokens: &mut Vec<u64>) {
    match part {
        Value::String(text) => tokens.extend(text.bytes().map(u64::from)),
        Value::Number(id) => tokens.push(id.as_u64().unwrap_or(u64::MAX)),
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, tokens)),
        Value::Object(fields) => {
            ["content", "text"]
                .iter()
                .filter_map(|key| fields.get(*key))
                .for_each(|part| collect(part, tokens));
        }
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Ask;

    #[test]
    fn tokens_are_those_that_are_counted() {
        for body in [
            r#"{"prompt":"h\u00e9llo"}"#,
            r#"{"prompt":[1,2,3]}"#,
            r#"{"prompt":[[1,2],[3]]}"#,
            r#"{"text":"abc"}"#,
            r#"{"input_ids":[7,8]}"#,
            r#"{"messages":[{"role":"system","content":"ab"},{"role":"user","content":[{"type":"text","text":"cd"}]}]}"#,
            r#"{"messages":[{"role":"assistant","content":null}]}"#,
            "{}",
        ] {
            let counted = Ask::read(body.as_bytes()).unwrap().prompt_tokens();
            assert_eq!(tokens(body.as_bytes()).len() as u64, counted, "{body}");
        }
    }

    #[test]
    fn the_same_content_is_the_same_prefix() {
        let of = |body: &str| prefix(body.as_bytes(), 4);
        let (long, other) = (of(r#"{"prompt":"abcdefghij"}"#), of(r#"{"text":"abcdXfgh"}"#));
        assert_eq!((long.len(), other.len()), (2, 2));
        assert_eq!(long[0], other[0]);
        assert_ne!(long[1], other[1]);
        assert_eq!(of(r#"{"prompt":[97,98,99,100]}"#)[0], long[0], "a byte is its id");
        assert_eq!(ids(br#"{"prompt":"ab"}"#), "[97,98]");
    }
}
