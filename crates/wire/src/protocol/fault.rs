//! How servers spell errors, in streams and in bodies.
//!
//! The shapes in use: `{"error":{"message":...}}` (OpenAI, vLLM, llama.cpp, SGLang in streams), `{"error":"..."}`
//! (gateways), a flat `{"object":"error","message":...}` (SGLang), and `{"detail":...}` (FastAPI).

use serde_json::Value;

/// Longest message kept, in characters.
const MAX_MESSAGE_CHARS: usize = 300;

/// One line, its white space collapsed, cut to a sensible length.
pub(crate) fn shorten(text: &str) -> String {
    let mut out = String::new();
    for (n, c) in text.split_whitespace().flat_map(|w| w.chars().chain([' '])).enumerate() {
        if n == MAX_MESSAGE_CHARS {
            out.push_str("...");
            break;
        }
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    out
}

/// What an `error` member says; `None` if it is empty, which some servers send in every event.
pub(crate) fn error_member(json: &str) -> Option<String> {
    let value: Value = serde_json::from_str(json).ok()?;
    error_value(&value)
}

fn error_value(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(shorten(text)),
        Value::Object(members) if members.is_empty() => None,
        Value::Object(members) => match members.get("message") {
            Some(Value::String(text)) if !text.is_empty() => Some(shorten(text)),
            _ => Some(shorten(&value.to_string())),
        },
        other => Some(shorten(&other.to_string())),
    }
}

/// The message in the body of an answer with an error status.
pub(crate) fn body_message(body: &[u8]) -> String {
    let known = serde_json::from_slice::<Value>(body).ok().and_then(|value| {
        let message = value.get("message").filter(|m| m.is_string());
        let found = value.get("error").and_then(error_value);
        found.or_else(|| message.and_then(error_value)).or_else(|| value.get("detail").and_then(error_value))
    });
    match known {
        Some(message) => message,
        None if body.trim_ascii().is_empty() => "no message in the body".to_owned(),
        None => shorten(&String::from_utf8_lossy(body)),
    }
}

/// Whether an error body complains about the options that ask for usage figures.
pub(crate) fn refuses_usage(status: u16, body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    matches!(status, 400 | 422)
        && ["stream_options", "include_usage", "continuous_usage"].iter().any(|option| text.contains(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_has_its_message() {
        for (body, message) in [
            (r#"{"error":{"message":"no such model","code":404}}"#, "no such model"),
            (r#"{"error":"overloaded"}"#, "overloaded"),
            (r#"{"object":"error","message":"too long","code":400}"#, "too long"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (r#"{"detail":[{"loc":["body"],"msg":"x"}]}"#, r#"[{"loc":["body"],"msg":"x"}]"#),
            (r#"{"error":{"code":7}}"#, r#"{"code":7}"#),
            ("<html>\n  busy</html>", "<html> busy</html>"),
            (" ", "no message in the body"),
        ] {
            assert_eq!(body_message(body.as_bytes()), message);
        }
    }

    #[test]
    fn empty_members_are_no_errors() {
        for json in ["null", "{}", r#""""#, "false", "{ }"] {
            assert_eq!(error_member(json), None, "{json}");
        }
        assert_eq!(error_member("true").as_deref(), Some("true"));
        assert_eq!(error_member("[]").as_deref(), Some("[]"));
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let long = "é".repeat(1000);
        assert_eq!(shorten(&long), format!("{}...", "é".repeat(MAX_MESSAGE_CHARS)));
        assert_eq!(shorten(" a\n b "), "a b");
    }

    #[test]
    fn a_refused_usage_option_is_seen() {
        let body =
            br#"{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#;
        assert!(refuses_usage(422, body));
        assert!(!refuses_usage(500, body));
        assert!(!refuses_usage(400, br#"{"error":"usage limit reached"}"#));
    }
}
