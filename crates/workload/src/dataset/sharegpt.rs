//! ShareGPT files: one JSON array of conversations.
//!
//! The format has no specification; what is accepted is what circulates: the turns under `conversations` or
//! `messages`, the speaker under `from` or `role`, the text under `value` or `content`. Two ways to pick the
//! prompt exist, and they differ in what they measure: by roles (ours), or the first two turns whoever speaks
//! (vLLM's `bench serve` 0.33 and SGLang's `bench_serving`). Limits on lengths are a second step, see
//! [`crate::workload`].

use super::elements::Elements;
use super::source::damage_inside;
use super::{Break, DatasetError, Loaded, OutputHint, Reason};
use crate::prompt::{Message, Prompt};
use goodput_core::plan::SharegptFilter;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::io::BufRead;

/// Reads a ShareGPT file and picks the prompts by `filter`'s rule on turns.
///
/// # Errors
/// [`DatasetError::Damaged`] if the file breaks and `salvage` is off; [`DatasetError::Read`].
pub fn read(reader: impl BufRead, filter: SharegptFilter, salvage: bool) -> Result<Loaded, DatasetError> {
    let mut loaded = Loaded::default();
    match read_into(&mut loaded, reader, filter) {
        Ok(()) => Ok(loaded),
        Err(broken) => loaded.end_at(broken, salvage),
    }
}

fn read_into(loaded: &mut Loaded, reader: impl BufRead, filter: SharegptFilter) -> Result<(), Break> {
    let mut elements = Elements::new(reader)?;
    let mut bytes = Vec::new();
    while let Some(start) = elements.next(&mut bytes)? {
        let entry = entry(&bytes, filter).map_err(|error| damage_inside(&bytes, start, &error))?;
        loaded.push(entry);
    }
    Ok(())
}

/// What one entry gives; the outer error is a text that is not JSON.
fn entry(
    bytes: &[u8],
    filter: SharegptFilter,
) -> Result<Result<(Prompt, OutputHint), Reason>, serde_json::Error> {
    let entry: Entry<'_> = match serde_json::from_slice(bytes) {
        Ok(entry) => entry,
        Err(error) if error.is_data() => {
            // The shape is wrong, but is it JSON to its end?
            serde_json::from_slice::<IgnoredAny>(bytes)?;
            return Ok(Err(Reason::Malformed));
        }
        Err(error) => return Err(error),
    };
    let Some(turns) = entry.conversations.or(entry.messages) else { return Ok(Err(Reason::NoConversation)) };
    let Ok(turns) = serde_json::from_str::<Vec<Turn>>(turns.get()) else { return Ok(Err(Reason::Malformed)) };
    Ok(match filter {
        SharegptFilter::Roles => by_roles(turns),
        SharegptFilter::Vllm | SharegptFilter::Sglang => first_two(turns),
    })
}

/// An entry as it stands in the file.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    conversations: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
}

/// A turn as it stands in the file.
#[derive(Deserialize)]
struct Turn {
    from: Option<String>,
    role: Option<String>,
    value: Option<String>,
    content: Option<String>,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Assistant,
    System,
    Other,
}

impl Turn {
    fn speaker(&self) -> Speaker {
        match self.from.as_deref().or(self.role.as_deref()) {
            Some("human" | "user") => Speaker::User,
            Some("gpt" | "chatgpt" | "bing" | "bard" | "assistant") => Speaker::Assistant,
            Some("system") => Speaker::System,
            _ => Speaker::Other,
        }
    }

    fn text(self) -> String {
        self.value.or(self.content).unwrap_or_default()
    }
}

/// The first user turn followed at once by an assistant turn; system messages before it go with it.
fn by_roles(turns: Vec<Turn>) -> Result<(Prompt, OutputHint), Reason> {
    let mut system: Vec<Message> = Vec::new();
    let mut user: Option<String> = None;
    let mut spoken = 0;
    let mut pair: Option<(String, String)> = None;
    for turn in turns {
        match turn.speaker() {
            Speaker::System => {
                let content = turn.text();
                if pair.is_none() && !content.trim().is_empty() {
                    system.push(Message { role: "system".into(), content });
                }
                continue;
            }
            Speaker::User => user = Some(turn.text()),
            Speaker::Assistant => {
                if let (None, Some(prompt)) = (&pair, user.take()) {
                    pair = Some((prompt, turn.text()));
                }
            }
            Speaker::Other => user = None,
        }
        spoken += 1;
    }
    match pair {
        _ if spoken < 2 => Err(Reason::TooFewTurns),
        None => Err(Reason::NoPair),
        Some((prompt, _)) if prompt.trim().is_empty() => Err(Reason::EmptyPrompt),
        Some((_, answer)) if answer.trim().is_empty() => Err(Reason::EmptyCompletion),
        Some((prompt, answer)) => {
            let prompt = if system.is_empty() {
                Prompt::Text(prompt.into())
            } else {
                system.push(Message { role: "user".into(), content: prompt });
                Prompt::Messages(system.into())
            };
            Ok((prompt, OutputHint::Answer(answer.into())))
        }
    }
}

/// The first two turns, whoever speaks.
fn first_two(turns: Vec<Turn>) -> Result<(Prompt, OutputHint), Reason> {
    let mut texts = turns.into_iter().map(Turn::text);
    match (texts.next(), texts.next()) {
        (Some(prompt), Some(answer)) => Ok((Prompt::Text(prompt.into()), OutputHint::Answer(answer.into()))),
        _ => Err(Reason::TooFewTurns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Damage, Dropped};
    use proptest::prelude::*;

    const CASE_42: &[u8] = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/cases/42-sharegpt-mixed-entries/sharegpt.json"
    ));

    fn load(bytes: &[u8], filter: SharegptFilter) -> Loaded {
        read(bytes, filter, false).expect("whole")
    }

    #[test]
    fn case_42_is_read_entry_by_entry() {
        let expected: serde_json::Value = serde_json::from_slice(include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../testdata/cases/42-sharegpt-mixed-entries/expected.json"
        )))
        .expect("json");
        let mut elements = Elements::new(CASE_42).expect("text");
        let mut bytes = Vec::new();
        let (mut kept, mut skipped) = (Vec::new(), serde_json::Map::new());
        while elements.next(&mut bytes).expect("whole").is_some() {
            let id = serde_json::from_slice::<serde_json::Value>(&bytes).expect("json")["id"].clone();
            match entry(&bytes, SharegptFilter::Roles).expect("json") {
                Ok(_) => kept.push(id),
                Err(reason) => {
                    skipped.insert(id.as_str().expect("text").into(), reason.name().into());
                }
            }
        }
        assert_eq!(serde_json::Value::from(kept), expected["kept"]);
        assert_eq!(serde_json::Value::from(skipped), expected["skipped"]);
    }

    #[test]
    fn case_42_pairs_are_the_right_ones() {
        let loaded = load(CASE_42, SharegptFilter::Roles);
        assert_eq!(loaded.entries_read, 16);
        let pairs: Vec<(u64, String, &OutputHint)> = loaded
            .candidates
            .iter()
            .filter(|candidate| candidate.position != 13)
            .map(|candidate| (candidate.position, candidate.prompt.as_text().into_owned(), &candidate.output))
            .collect();
        let answer = |text: &str| OutputHint::Answer(text.into());
        let expected = [
            (0, "Hi", answer("Hello there")),
            (4, "Name a river", answer("The Elbe")),
            (5, "Be brief\n\nName a lake", answer("Lake Garda")),
            (6, "Name a sea", answer("The North Sea")),
            (10, "One", answer("1")),
            (11, "Other keys", answer("Same thing")),
            (12, "Hello", answer("Old name for the model")),
            (14, "Hi", answer("Hello there")),
        ];
        let expected: Vec<(u64, String, &OutputHint)> = expected
            .iter()
            .map(|(position, prompt, output)| (*position, (*prompt).to_owned(), output))
            .collect();
        assert_eq!(pairs, expected);
    }

    #[test]
    fn the_harnesses_take_the_first_two_turns_whoever_speaks() {
        for filter in [SharegptFilter::Vllm, SharegptFilter::Sglang] {
            let loaded = load(CASE_42, filter);
            let dropped: Dropped =
                [(Reason::Malformed, 1), (Reason::NoConversation, 1), (Reason::TooFewTurns, 2)].into();
            assert_eq!(loaded.dropped, dropped);
            let greeting = loaded.candidates.iter().find(|c| c.position == 6).expect("kept");
            assert_eq!(greeting.prompt.as_text(), "Welcome back");
            assert_eq!(greeting.output, OutputHint::Answer("Name a sea".into()));
        }
    }

    #[test]
    fn entries_of_other_shapes_are_dropped_by_reason() {
        let turn = |from: &str| format!(r#"{{"from":"{from}","value":"x"}}"#);
        let talk = |turns: &[&str]| {
            let turns: Vec<String> = turns.iter().map(|from| turn(from)).collect();
            format!(r#"{{"conversations":[{}]}}"#, turns.join(","))
        };
        let cases = [
            ("7".to_owned(), Some(Reason::Malformed)),
            ("null".to_owned(), Some(Reason::Malformed)),
            (r#"{"conversations":[{"from":"human","value":7}]}"#.to_owned(), Some(Reason::Malformed)),
            (r#"{"conversations":["hi","ho"]}"#.to_owned(), Some(Reason::Malformed)),
            (r#"{"conversations":null}"#.to_owned(), Some(Reason::NoConversation)),
            (talk(&["system", "human"]), Some(Reason::TooFewTurns)),
            (talk(&["gpt", "human"]), Some(Reason::NoPair)),
            (talk(&["human", "tool", "gpt"]), Some(Reason::NoPair)),
            (talk(&["human", "human", "gpt"]), None),
            (talk(&["human", "system", "bard"]), None),
        ];
        for (text, reason) in cases {
            let found = entry(text.as_bytes(), SharegptFilter::Roles).expect("json");
            assert_eq!(found.err(), reason, "{text}");
        }
    }

    #[test]
    fn a_broken_entry_names_its_place() {
        let text = b"[{\"id\":1},\n{\"id\":2,\n \"x\": nope}, {}]";
        let error = read(&text[..], SharegptFilter::Roles, false).expect_err("broken");
        let DatasetError::Damaged(damage) = &error else { panic!("{error}") };
        let byte = text.iter().position(|b| *b == b'n').expect("there") as u64 + 1;
        assert_eq!((damage.whole_before, damage.line), (1, 3));
        assert!(damage.byte.abs_diff(byte) <= 1, "{damage:?}");
        let message = error.to_string();
        assert!(message.contains("whole entries before it: 1") && message.contains("--salvage"), "{message}");
        let salvaged = read(&text[..], SharegptFilter::Roles, true).expect("salvaged");
        assert_eq!((salvaged.entries_read, salvaged.damaged), (1, Some(damage.clone())));
    }

    #[test]
    fn wrong_shape_and_broken_json_in_one_entry_is_damage() {
        let error =
            read(&b"[{\"conversations\": 5, \"conversations\": ]}]"[..], SharegptFilter::Roles, false);
        assert!(matches!(error, Err(DatasetError::Damaged(Damage { whole_before: 0, .. }))), "{error:?}");
    }

    #[test]
    fn a_file_that_fails_to_read_is_not_taken_for_damaged() {
        struct Failing;
        impl std::io::Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("disk on fire"))
            }
        }
        let chain = std::io::Read::chain(&b"[{}, "[..], Failing);
        let error = read(std::io::BufReader::new(chain), SharegptFilter::Roles, true).expect_err("fails");
        assert_eq!(error, DatasetError::Read { byte: 5, reason: "disk on fire".into() });
    }

    /// Every cut of a file: what is salvaged is exactly the entries that ended before the cut.
    #[test]
    fn every_cut_gives_the_whole_entries_before_it() {
        let e14 = CASE_42.windows(5).position(|w| w == b"\"e14\"").expect("there");
        // Without the large entry, so that cutting at every byte stays quick.
        let start = CASE_42[..e14].iter().rposition(|b| *b == b'{').expect("there");
        let text = [&CASE_42[..start], b"{\"id\": \"\\\"]}\\\\\", \"messages\": []}\n]"].concat();
        let mut ends = Vec::new();
        let mut elements = Elements::new(&text[..]).expect("text");
        let mut bytes = Vec::new();
        while let Some((byte, _)) = elements.next(&mut bytes).expect("whole") {
            ends.push(byte + bytes.len() as u64);
        }
        assert_eq!(ends.len(), 14);
        let whole = load(&text, SharegptFilter::Roles);
        for cut in 0..text.len() {
            let before = ends.iter().filter(|end| **end <= cut as u64).count() as u64;
            let salvaged = read(&text[..cut], SharegptFilter::Roles, true).expect("salvaged");
            let kept = whole.candidates.iter().filter(|c| c.position < before);
            assert!(salvaged.candidates.iter().eq(kept), "cut at {cut}");
            assert_eq!(salvaged.entries_read, before, "cut at {cut}");
            let damage = salvaged.damaged.expect("the array is not closed");
            assert_eq!((damage.byte, damage.whole_before), (cut as u64, before));
            assert_eq!(read(&text[..cut], SharegptFilter::Roles, false), Err(DatasetError::Damaged(damage)));
        }
    }

    proptest! {
        /// Foreign bytes never panic, and what is salvaged is consistent.
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200),
                                  json in "[\\[\\]{}\",:a\\\\ ]{0,60}") {
            for text in [&bytes[..], json.as_bytes()] {
                let loaded = read(text, SharegptFilter::Roles, true).unwrap();
                let booked = loaded.candidates.len() as u64 + loaded.dropped.values().sum::<u64>();
                prop_assert_eq!(booked, loaded.entries_read);
            }
        }
    }
}
