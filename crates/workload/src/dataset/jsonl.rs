//! JSON lines: one object a line with `prompt` (a text) or `messages` (a chat), and optionally the length of
//! the answer under `output_tokens`, `output_len` or `max_tokens` (the first one that is there). Other keys
//! are ignored. Blank lines are passed over. File order is kept.

use super::source::{Source, damage_inside};
use super::{Break, DatasetError, Loaded, OutputHint, Reason};
use crate::prompt::{Message, Prompt};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::io::BufRead;

/// Reads a file of JSON lines.
///
/// # Errors
/// [`DatasetError::Damaged`] at the first line that is not JSON, if `salvage` is off; [`DatasetError::Read`].
pub fn read(reader: impl BufRead, salvage: bool) -> Result<Loaded, DatasetError> {
    let mut loaded = Loaded::default();
    match read_into(&mut loaded, reader) {
        Ok(()) => Ok(loaded),
        Err(broken) => loaded.end_at(broken, salvage),
    }
}

fn read_into(loaded: &mut Loaded, reader: impl BufRead) -> Result<(), Break> {
    let mut source = Source::new(reader)?;
    let mut line = Vec::new();
    loop {
        let start = (source.byte(), source.line());
        if !next_line(&mut source, &mut line)? {
            return Ok(());
        }
        if !line.trim_ascii().is_empty() {
            loaded.push(entry(&line).map_err(|error| damage_inside(&line, start, &error))?);
        }
    }
}

/// Reads one line with its end into `line`; false at the end of the file.
fn next_line<R: BufRead>(source: &mut Source<R>, line: &mut Vec<u8>) -> Result<bool, Break> {
    line.clear();
    loop {
        let chunk = source.chunk()?;
        if chunk.is_empty() {
            return Ok(!line.is_empty());
        }
        let newline = memchr::memchr(b'\n', chunk);
        let count = newline.map_or(chunk.len(), |position| position + 1);
        source.take(count, line)?;
        if newline.is_some() {
            return Ok(true);
        }
    }
}

/// What one line gives; the outer error is a text that is not JSON.
fn entry(bytes: &[u8]) -> Result<Result<(Prompt, OutputHint), Reason>, serde_json::Error> {
    match serde_json::from_slice::<Line<'_>>(bytes) {
        Ok(line) => Ok(usable(line)),
        Err(error) if error.is_data() => {
            serde_json::from_slice::<IgnoredAny>(bytes)?;
            Ok(Err(Reason::Malformed))
        }
        Err(error) => Err(error),
    }
}

/// A line as it stands in the file.
#[derive(Deserialize)]
struct Line<'a> {
    prompt: Option<String>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    output_tokens: Option<u32>,
    output_len: Option<u32>,
    max_tokens: Option<u32>,
}

/// A message as it stands in the file.
#[derive(Deserialize)]
struct RawMessage {
    role: String,
    content: Option<String>,
}

fn usable(line: Line<'_>) -> Result<(Prompt, OutputHint), Reason> {
    let prompt = match (line.prompt, line.messages) {
        (None, None) => return Err(Reason::NoPrompt),
        // Which of the two is meant cannot be known.
        (Some(_), Some(_)) => return Err(Reason::Malformed),
        (Some(prompt), None) => Prompt::Text(prompt.into()),
        (None, Some(messages)) => {
            let messages: Vec<RawMessage> =
                serde_json::from_str(messages.get()).map_err(|_| Reason::Malformed)?;
            let message = |m: RawMessage| Message { role: m.role, content: m.content.unwrap_or_default() };
            Prompt::Messages(messages.into_iter().map(message).collect())
        }
    };
    if prompt.is_blank() {
        return Err(Reason::EmptyPrompt);
    }
    match line.output_tokens.or(line.output_len).or(line.max_tokens) {
        Some(0) => Err(Reason::Malformed),
        Some(tokens) => Ok((prompt, OutputHint::Tokens(tokens))),
        None => Ok((prompt, OutputHint::None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_shapes_and_all_names_of_the_length() {
        let text = concat!(
            "{\"prompt\":\"a\",\"output_tokens\":5,\"max_tokens\":9}\r\n",
            "\n",
            "{\"prompt\":\"b\",\"output_len\":6}\n",
            "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"}],\"max_tokens\":7}\n",
            "{\"prompt\":\"d\",\"id\":[1]}",
        );
        let loaded = read(text.as_bytes(), false).expect("whole");
        let found: Vec<(String, OutputHint)> =
            loaded.candidates.into_iter().map(|c| (c.prompt.as_text().into_owned(), c.output)).collect();
        let expected = [
            ("a", OutputHint::Tokens(5)),
            ("b", OutputHint::Tokens(6)),
            ("s\n\nu", OutputHint::Tokens(7)),
            ("d", OutputHint::None),
        ];
        assert_eq!(found, expected.map(|(text, output)| (text.to_owned(), output)));
    }

    #[test]
    fn lines_of_other_shapes_are_dropped_by_reason() {
        let cases = [
            ("{}", Reason::NoPrompt),
            ("{\"prompt\":null}", Reason::NoPrompt),
            ("[1]", Reason::Malformed),
            ("{\"prompt\":5}", Reason::Malformed),
            ("{\"prompt\":\"a\",\"messages\":[]}", Reason::Malformed),
            ("{\"messages\":\"hi\"}", Reason::Malformed),
            ("{\"messages\":[]}", Reason::EmptyPrompt),
            ("{\"prompt\":\"  \"}", Reason::EmptyPrompt),
            ("{\"prompt\":\"a\",\"output_len\":0}", Reason::Malformed),
            ("{\"prompt\":\"a\",\"output_len\":-1}", Reason::Malformed),
            ("{\"prompt\":\"a\",\"output_len\":1.5}", Reason::Malformed),
        ];
        for (text, reason) in cases {
            assert_eq!(entry(text.as_bytes()).expect("json").err(), Some(reason), "{text}");
        }
    }

    #[test]
    fn a_line_that_is_not_json_names_its_place() {
        let text = b"{\"prompt\":\"a\"}\n\n{\"prompt\": oops}\n{\"prompt\":\"c\"}\n";
        let error = read(&text[..], false).expect_err("broken").to_string();
        assert!(error.contains("(line 3)") && error.contains("whole entries before it: 1"), "{error}");
        let salvaged = read(&text[..], true).expect("salvaged");
        assert_eq!(salvaged.candidates.len(), 1);
        let byte = salvaged.damaged.expect("on record").byte;
        assert_eq!(text[usize::try_from(byte).expect("small")], b'o');
    }

    #[test]
    fn every_cut_gives_the_whole_lines_before_it() {
        let text = b"{\"prompt\":\"a\"}\n{\"prompt\":\"b }\\\"\"}\n\n{\"prompt\":\"c\"}\n";
        let ends: Vec<usize> = (1..=text.len())
            .filter(|end| text[..*end].ends_with(b"\"}"))
            .filter(|end| text[*end] == b'\n')
            .collect();
        assert_eq!(ends.len(), 3);
        for cut in 0..=text.len() {
            let before = ends.iter().filter(|end| **end <= cut).count();
            let salvaged = read(&text[..cut], true).expect("salvaged");
            assert_eq!(salvaged.candidates.len(), before, "cut at {cut}");
            let inside = !ends.contains(&cut) && cut > 0 && text[cut - 1] != b'\n';
            assert_eq!(salvaged.damaged.is_some(), inside, "cut at {cut}");
            assert_eq!(read(&text[..cut], false).is_err(), inside, "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let loaded = read(&bytes[..], true).unwrap();
            let booked = loaded.candidates.len() as u64 + loaded.dropped.values().sum::<u64>();
            prop_assert_eq!(booked, loaded.entries_read);
        }
    }
}
