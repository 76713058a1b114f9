//! Takes secrets out of what is stored: API keys, credential headers, user names and passwords in URLs.
//!
//! A secret is known by the name it goes under (`--api-key X`, `Authorization: X`, `?token=X`, `"api_key":
//! "X"`), by its place (before the `@` of a URL), or by its own looks (`Bearer X`, `sk-...`). When in doubt
//! the value goes: a command line that cannot be pasted back is better than a key in a shared folder.

use serde_json::Value;

/// What stands where a secret was.
const REDACTED: &str = "[redacted]";

/// Words that make the name they stand in that of a secret.
const SECRET_WORDS: [&str; 16] = [
    "apikey",
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "key",
    "pass",
    "passwd",
    "password",
    "pwd",
    "secret",
    "signature",
    "sig",
    "token",
];

/// Beginnings by which issued keys are known wherever they stand.
const SECRET_PREFIXES: [&str; 8] = ["sk-", "hf_", "ghp_", "gho_", "nvapi-", "xoxb-", "AKIA", "eyJ"];

/// Flags whose value is a header.
const HEADER_FLAGS: [&str; 2] = ["--header", "-H"];

/// How deep names can stand in each other: `--header=X-Api-Key=...` is two.
const NAMES_MAX: u32 = 4;

/// A key of one of [`SECRET_PREFIXES`] is at least this long; shorter words are words.
const SECRET_LENGTH_MIN: usize = 16;

/// The command line with every secret replaced by `[redacted]`, argument by argument.
#[must_use]
pub fn redact_command_line(arguments: &[String]) -> Vec<String> {
    let (mut next_is_secret, mut next_is_header) = (false, false);
    let redact = |argument: &String| {
        let secret = std::mem::replace(&mut next_is_secret, is_secret_flag(argument));
        let header = std::mem::replace(&mut next_is_header, HEADER_FLAGS.contains(&argument.as_str()));
        match argument.strip_prefix("--header=") {
            _ if secret => REDACTED.to_owned(),
            _ if header => redact_header(argument),
            Some(header) => format!("--header={}", redact_header(header)),
            None => redact_text(argument),
        }
    };
    arguments.iter().map(redact).collect()
}

/// A header keeps its name only: gateways take keys under any name.
fn redact_header(header: &str) -> String {
    let before = named_value(header).map_or("", |(_, value)| &header[..header.len() - value.len()]);
    format!("{before}{REDACTED}")
}

/// One argument, URL, header or JSON document without its secrets.
#[must_use]
pub fn redact_text(text: &str) -> String {
    redact_named(text, NAMES_MAX)
}

/// `name=value` inside `name=value`, at most `names` deep.
fn redact_named(text: &str, names: u32) -> String {
    let named = if names > 0 { named_value(text) } else { None };
    if let Some((name, value)) = named {
        let before = &text[..text.len() - value.len()];
        let value = if is_secret_name(name) { REDACTED.to_owned() } else { redact_named(value, names - 1) };
        return format!("{before}{value}");
    }
    match serde_json::from_str::<Value>(text) {
        Ok(json @ (Value::Object(_) | Value::Array(_))) => {
            let mut redacted = json.clone();
            redact_json(&mut redacted);
            // Without a secret in it a document keeps its own spelling.
            if redacted == json { text.to_owned() } else { redacted.to_string() }
        }
        _ => redact_words(&redact_urls(text)),
    }
}

/// `--api-key`: its value is the next argument.
fn is_secret_flag(argument: &str) -> bool {
    let Some(name) = argument.strip_prefix("--") else { return false };
    // `--first-token-timeout` is no secret: a flag says what it is in its last word.
    name.rsplit(['-', '_']).next().is_some_and(|word| SECRET_WORDS.contains(&word.to_lowercase().as_str()))
}

/// Splits `name=value` and `Name: value`, if what stands before the sign can be a name.
fn named_value(text: &str) -> Option<(&str, &str)> {
    let at = text.find(['=', ':'])?;
    let (name, rest) = (&text[..at], &text[at + 1..]);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let is_url = rest.starts_with("//");
    (is_name && !is_url).then(|| (name, rest.trim_start()))
}

/// Whether a header, query member, JSON member or flag of this name holds a secret.
fn is_secret_name(name: &str) -> bool {
    if name.starts_with("--") {
        return is_secret_flag(name);
    }
    let name = name.strip_prefix("-H").unwrap_or(name);
    words(name).iter().any(|word| SECRET_WORDS.contains(&word.as_str()))
}

/// The words of `X-Api-Key`, `api_key` and `apiKey`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (after_small && c.is_ascii_uppercase()) {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric() {
            words.iter_mut().next_back().expect("starts with one word").push(c.to_ascii_lowercase());
        }
        after_small = c.is_ascii_lowercase();
    }
    words
}

/// Blanks the members of secret names, at any depth, and treats every other string as text.
fn redact_json(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if is_secret_name(name) && !member.is_number() {
                    *member = REDACTED.into();
                } else {
                    redact_json(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact_json),
        Value::String(text) => *text = redact_words(&redact_urls(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Takes `user:password@` and secret query members out of every URL in the text.
fn redact_urls(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (scheme, after) = rest.split_at(at + 3);
        let end = after.find(|c: char| c.is_whitespace() || "\"'<>,".contains(c)).unwrap_or(after.len());
        done.push_str(scheme);
        done.push_str(&redact_url(&after[..end]));
        rest = &after[end..];
    }
    done + rest
}

/// One URL after its scheme.
fn redact_url(url: &str) -> String {
    let authority_end = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, path) = url.split_at(authority_end);
    let mut done = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{REDACTED}@{host}"),
        None => authority.to_owned(),
    };
    for (position, part) in path.split_inclusive(['?', '&', ';', '#']).enumerate() {
        match part.split_once('=') {
            Some((name, value)) if position > 0 && is_secret_name(name) => {
                done.push_str(name);
                done.push('=');
                done.push_str(REDACTED);
                done.extend(value.chars().last().filter(|c| "?&;#".contains(*c)));
            }
            _ => done.push_str(part),
        }
    }
    done
}

/// Takes out what looks like a credential by itself: the word after `Bearer` or `Basic`, and issued keys.
fn redact_words(text: &str) -> String {
    let mut after_scheme = false;
    let redact = |piece: &str| {
        let word = piece.trim_end();
        let looks = word.len() >= SECRET_LENGTH_MIN && SECRET_PREFIXES.iter().any(|p| word.starts_with(p));
        let secret =
            std::mem::replace(&mut after_scheme, matches!(word, "Bearer" | "Basic" | "bearer" | "basic"));
        if (looks || secret) && !word.is_empty() {
            format!("{REDACTED}{}", &piece[word.len()..])
        } else {
            piece.to_owned()
        }
    };
    text.split_inclusive([' ', '"', '\'', ',']).map(redact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &[&str], expected: &[&str]) {
        let line: Vec<String> = line.iter().map(|&a| a.to_owned()).collect();
        assert_eq!(redact_command_line(&line), expected);
    }

    #[test]
    fn keys_go_with_their_flags() {
        check(
            &["goodput", "run", "--api-key", "abc", "--rate", "5"],
            &["goodput", "run", "--api-key", "[redacted]", "--rate", "5"],
        );
        check(&["--api-key=abc"], &["--api-key=[redacted]"]);
        check(&["--api-key", "-abc=d"], &["--api-key", "[redacted]"]);
        check(&["--hf_token", "abc", "--password=x"], &["--hf_token", "[redacted]", "--password=[redacted]"]);
    }

    #[test]
    fn token_counts_are_not_secrets() {
        let line = [
            "goodput",
            "run",
            "--url",
            "http://127.0.0.1:9001",
            "--max-tokens",
            "64",
            "--max-tokens=64",
            "--tokenizer",
            "tiktoken:cl100k_base",
            "--first-token-timeout",
            "5s",
            "--first-token-timeout=5s",
            "--arrivals=poisson",
            "--output-tokens",
            "lognormal(mean=500,cv=1.2)",
            "--slo",
            "ttft:500ms,tpot:50ms",
            "--data-path",
            "/data/sharegpt.json",
            "--tag",
            "quantisation=fp8",
        ];
        check(&line, &line);
    }

    #[test]
    fn headers_lose_their_values() {
        check(&["--header", "Authorization=Bearer abc"], &["--header", "Authorization=[redacted]"]);
        check(&["-H", "Authorization: Bearer abc"], &["-H", "Authorization: [redacted]"]);
        check(&["-HAuthorization: Basic abc"], &["-HAuthorization: [redacted]"]);
        check(&["--header=X-Api-Key=abc"], &["--header=X-Api-Key=[redacted]"]);
        check(
            &["--header", "X-Amz-Security-Token: a:b=c"],
            &["--header", "X-Amz-Security-Token: [redacted]"],
        );
        check(&["--header", "Cookie=session=1; theme=2"], &["--header", "Cookie=[redacted]"]);
        check(&["--header", "X-Team=a"], &["--header", "X-Team=[redacted]"]);
        check(&["--header=X-Team=a", "b=c"], &["--header=X-Team=[redacted]", "b=c"]);
        check(&["--header", "abc"], &["--header", "[redacted]"]);
    }

    #[test]
    fn urls_lose_credentials() {
        check(&["--url", "https://me:pw@host:8000/v1"], &["--url", "https://[redacted]@host:8000/v1"]);
        check(&["--url=https://me:p@w@host/v1"], &["--url=https://[redacted]@host/v1"]);
        check(
            &["http://h/v1?model=m&api_key=abc&n=1#frag"],
            &["http://h/v1?model=m&api_key=[redacted]&n=1#frag"],
        );
        check(&["http://h/?token=abc"], &["http://h/?token=[redacted]"]);
        check(&["http://h/?accessToken=abc"], &["http://h/?accessToken=[redacted]"]);
        check(&["http://a:b@h,http://c:d@i"], &["http://[redacted]@h,http://[redacted]@i"]);
        check(&["http://h/@me?mail=a@b"], &["http://h/@me?mail=a@b"]);
    }

    #[test]
    fn bodies_lose_secret_members() {
        check(
            &["--body", r#"{"temperature":0,"extra":[{"api_key":"abc","max_tokens":4}]}"#],
            &["--body", r#"{"extra":[{"api_key":"[redacted]","max_tokens":4}],"temperature":0}"#],
        );
        check(&["--body", r#"{"z": 1, "a":  2}"#], &["--body", r#"{"z": 1, "a":  2}"#]);
    }

    #[test]
    fn issued_keys_are_known_by_their_looks() {
        check(&["--tag", "note=use sk-abcdefghijklmnop please"], &["--tag", "note=use [redacted] please"]);
        check(&["hf_abcdefghijklmnopq"], &["[redacted]"]);
        check(&["sk-short"], &["sk-short"]);
        let nested = "a=".repeat(50_000);
        check(&[&nested], &[&nested]);
    }
}
