//! What a request body asks for: the few fields that decide about the answer.
//!
//! Unknown fields are skipped, and prompts are measured, not kept. One byte is one token here, for text; a list of
//! token ids counts its elements.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The body of a generation or tokenize request.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Ask {
    pub(crate) model: Option<String>,
    #[serde(default)]
    stream: Option<bool>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    ignore_eos: Option<bool>,
    return_token_ids: Option<bool>,
    pub(crate) priority: Option<i32>,
    pub(crate) stream_options: Option<StreamOptions>,
    sampling_params: Option<SamplingParams>,
    prompt: Option<Extent>,
    messages: Option<Extent>,
    text: Option<Extent>,
    input_ids: Option<Extent>,
}

/// `stream_options` of the OpenAI protocols.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct StreamOptions {
    pub(crate) include_usage: Option<bool>,
    pub(crate) continuous_usage_stats: Option<bool>,
}

/// `sampling_params` of SGLang's protocol.
#[derive(Debug, Default, Deserialize)]
struct SamplingParams {
    max_new_tokens: Option<u32>,
    ignore_eos: Option<bool>,
}

impl Ask {
    /// Reads a body.
    pub(crate) fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }

    pub(crate) fn stream(&self) -> bool {
        self.stream == Some(true)
    }

    /// The limit on output tokens, if any.
    pub(crate) fn limit(&self) -> Option<u32> {
        let native = self.sampling_params.as_ref().and_then(|s| s.max_new_tokens);
        self.max_completion_tokens.or(self.max_tokens).or(native)
    }

    /// Whether the answer is to go on to its limit.
    pub(crate) fn ignore_eos(&self) -> bool {
        let native = self.sampling_params.as_ref().and_then(|s| s.ignore_eos);
        self.ignore_eos.or(native) == Some(true)
    }

    /// Input tokens: bytes of text, or the number of ids.
    pub(crate) fn prompt_tokens(&self) -> u64 {
        [&self.prompt, &self.messages, &self.text, &self.input_ids].into_iter().flatten().map(|e| e.0).sum()
    }

    /// vLLM: whether chunks are to carry the ids of their tokens.
    pub(crate) fn return_token_ids(&self) -> bool {
        self.return_token_ids == Some(true)
    }

    pub(crate) fn include_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|o| o.include_usage == Some(true))
    }

    pub(crate) fn continuous_usage(&self) -> bool {
        self.include_usage()
            && self.stream_options.as_ref().is_some_and(|o| o.continuous_usage_stats == Some(true))
    }
}

/// The size of a prompt in tokens, whatever its form: text, ids, texts, lists of ids, or messages whose content is
/// text or typed parts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Extent(u64);

impl<'de> Deserialize<'de> for Extent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ExtentVisitor)
    }
}

struct ExtentVisitor;

impl<'de> Visitor<'de> for ExtentVisitor {
    type Value = Extent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prompt: text, token ids or messages")
    }

    fn visit_str<E>(self, text: &str) -> Result<Extent, E> {
        Ok(Extent(text.len() as u64))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Extent, E> {
        Ok(Extent(1))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Extent, E> {
        Ok(Extent(1))
    }

    fn visit_unit<E>(self) -> Result<Extent, E> {
        Ok(Extent(0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Extent, A::Error> {
        let mut total = 0;
        while let Some(Extent(part)) = list.next_element()? {
            total += part;
        }
        Ok(Extent(total))
    }

    /// A message or a part of its content.
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Extent, A::Error> {
        let mut total = 0;
        while let Some(key) = fields.next_key::<String>()? {
            if key == "content" || key == "text" {
                total += fields.next_value::<Extent>()?.0;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Extent(total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_measured_in_every_form() {
        for (body, tokens) in [
            (r#"{"prompt":"h\u00e9llo"}"#, 6),
            (r#"{"prompt":[1,2,3]}"#, 3),
            (r#"{"prompt":["ab","c"]}"#, 3),
            (r#"{"prompt":[[1,2],[3]]}"#, 3),
            (r#"{"text":"abc"}"#, 3),
            (r#"{"input_ids":[7,8]}"#, 2),
            (r#"{"messages":[{"role":"system","content":"ab"},{"role":"user","content":"cde"}]}"#, 5),
            (r#"{"messages":[{"role":"user","content":[{"type":"text","text":"abcd"}]}]}"#, 4),
            (r#"{"messages":[{"role":"assistant","content":null}],"extra":{"deep":[1.5,true]}}"#, 0),
            ("{}", 0),
        ] {
            assert_eq!(Ask::read(body.as_bytes()).unwrap().prompt_tokens(), tokens, "{body}");
        }
        assert!(Ask::read(b"{\"prompt\":").is_err());
        assert!(Ask::read(b"{\"prompt\":true}").is_err());
    }

    #[test]
    fn limits_come_from_either_protocol() {
        for (body, limit, ignore) in [
            (r#"{"max_tokens":5}"#, Some(5), false),
            (r#"{"max_tokens":5,"max_completion_tokens":6,"ignore_eos":true}"#, Some(6), true),
            (r#"{"sampling_params":{"max_new_tokens":7,"ignore_eos":true}}"#, Some(7), true),
            (r#"{"max_tokens":null}"#, None, false),
        ] {
            let ask = Ask::read(body.as_bytes()).unwrap();
            assert_eq!((ask.limit(), ask.ignore_eos()), (limit, ignore), "{body}");
        }
    }

    #[test]
    fn usage_is_asked_for_in_two_steps() {
        for (options, asked) in [
            ("", (false, false)),
            (r#","stream_options":{"include_usage":true}"#, (true, false)),
            (r#","stream_options":{"include_usage":true,"continuous_usage_stats":true}"#, (true, true)),
            (r#","stream_options":{"continuous_usage_stats":true}"#, (false, false)),
        ] {
            let ask = Ask::read(format!(r#"{{"stream":true{options}}}"#).as_bytes()).unwrap();
            assert!(ask.stream());
            assert_eq!((ask.include_usage(), ask.continuous_usage()), asked, "{options}");
        }
    }
}
