//! Counting and making tokens: a model's `tokenizer.json`, tiktoken's vocabularies, plain bytes, or the
//! server itself.
//!
//! Everything here encodes without special tokens: what a chat template or a beginning-of-text mark adds is
//! the server's, and is known from its usage counts. Never opens a file or a socket: bytes and functions are
//! handed in.
//!
//! `tokenizer.json` is read by the crate `tokenizers` with its pure Rust regular expressions (`fancy-regex`),
//! which are not promised to split exactly as the reference engine does; the server's own counts have the
//! last word.

use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;
use tiktoken_rs::CoreBPE;

/// A tokenizer. Thread-safe; one per run.
pub enum Tokenizer {
    /// A model file of Hugging Face.
    HuggingFace(HuggingFace),
    /// A vocabulary shipped by tiktoken.
    Tiktoken(Tiktoken),
    /// One byte, one token: builds prompts of a size without any model's vocabulary, and never counts output.
    Bytes,
    /// The server's `/tokenize`.
    Server(ServerTokenizer),
}

/// A loaded `tokenizer.json`.
pub struct HuggingFace {
    name: String,
    model: Box<tokenizers::Tokenizer>,
    /// Special tokens that the model's own post-processing adds to one text.
    added_to_a_text: u32,
}

/// A vocabulary of tiktoken.
pub struct Tiktoken {
    name: &'static str,
    /// Ids from here on are not ordinary tokens.
    ordinary_end: u32,
    model: &'static CoreBPE,
}

/// Asks a server for the tokens of a text.
pub type Tokenize = Box<dyn Fn(&str) -> Result<Vec<u32>, String> + Send + Sync>;

/// The server's `/tokenize`, as a function of the caller's.
pub struct ServerTokenizer {
    name: String,
    tokenize: Tokenize,
}

/// A tokenizer that cannot be loaded or did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenizerError {
    /// Not a `tokenizer.json`.
    #[error("{name} is not a tokenizer.json that can be read: {reason}")]
    Load {
        /// Where it came from.
        name: String,
        /// What the reader said.
        reason: String,
    },
    /// No such vocabulary.
    #[error("tiktoken has no vocabulary `{0}`: use cl100k_base, o200k_base, p50k_base or r50k_base")]
    UnknownVocabulary(String),
    /// An encoding or decoding failed.
    #[error("the tokenizer {name} failed: {reason}")]
    Failed {
        /// The tokenizer.
        name: String,
        /// What it said.
        reason: String,
    },
}

type LoadVocabulary = fn() -> &'static CoreBPE;

/// tiktoken's vocabularies: name, first id that is not an ordinary token, loader. The sizes are those of the
/// vocabulary files; special ids that lie below the end are found and left out when the vocabulary is listed.
const VOCABULARIES: [(&str, u32, LoadVocabulary); 4] = [
    ("cl100k_base", 100_256, tiktoken_rs::cl100k_base_singleton),
    ("o200k_base", 199_998, tiktoken_rs::o200k_base_singleton),
    ("p50k_base", 50_281, tiktoken_rs::p50k_base_singleton),
    ("r50k_base", 50_256, tiktoken_rs::r50k_base_singleton),
];

impl Tokenizer {
    /// Loads the bytes of a `tokenizer.json`. `name` says in messages where they came from.
    ///
    /// Truncation and padding that the file asks for are switched off, since they would falsify counts.
    ///
    /// # Errors
    /// [`TokenizerError::Load`].
    pub fn from_json(name: &str, bytes: &[u8]) -> Result<Self, TokenizerError> {
        let load = |reason: tokenizers::Error| TokenizerError::Load {
            name: name.to_owned(),
            reason: reason.to_string(),
        };
        let mut model = tokenizers::Tokenizer::from_bytes(bytes).map_err(load)?;
        model.with_truncation(None).map_err(load)?.with_padding(None);
        let added = model.encode_fast("", true).map_err(load)?.len();
        let added_to_a_text = u32::try_from(added).unwrap_or(u32::MAX);
        Ok(Self::HuggingFace(HuggingFace { name: name.to_owned(), model: Box::new(model), added_to_a_text }))
    }

    /// A vocabulary that tiktoken ships, by name.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownVocabulary`].
    pub fn tiktoken(name: &str) -> Result<Self, TokenizerError> {
        let (name, ordinary_end, load) = VOCABULARIES
            .into_iter()
            .find(|(known, ..)| *known == name)
            .ok_or_else(|| TokenizerError::UnknownVocabulary(name.to_owned()))?;
        Ok(Self::Tiktoken(Tiktoken { name, ordinary_end, model: load() }))
    }

    /// The tokenizer behind `tokenize`, which must leave special tokens out. `name` says in messages who that
    /// is.
    #[must_use]
    pub fn server(name: &str, tokenize: Tokenize) -> Self {
        Self::Server(ServerTokenizer { name: name.to_owned(), tokenize })
    }

    /// What it is called in messages and records.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::HuggingFace(file) => &file.name,
            Self::Tiktoken(vocabulary) => vocabulary.name,
            Self::Bytes => "bytes",
            Self::Server(server) => &server.name,
        }
    }

    /// Whether its counts may stand for a model's output tokens: false for stand-ins.
    #[must_use]
    pub const fn counts_output(&self) -> bool {
        !matches!(self, Self::Bytes)
    }

    /// Special tokens that the model's own tokenizer would add to one text (a beginning-of-text mark,
    /// usually); 0 where that is not known.
    #[must_use]
    pub const fn added_to_a_text(&self) -> u32 {
        match self {
            Self::HuggingFace(file) => file.added_to_a_text,
            Self::Tiktoken(_) | Self::Bytes | Self::Server(_) => 0,
        }
    }

    /// The ids of `text`, without special tokens.
    ///
    /// # Errors
    /// [`TokenizerError::Failed`].
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        match self {
            Self::HuggingFace(file) => {
                let encoding = file.model.encode_fast(text, false).map_err(|e| self.failed(&e))?;
                Ok(encoding.get_ids().to_vec())
            }
            Self::Tiktoken(vocabulary) => Ok(vocabulary.model.encode_ordinary(text)),
            Self::Bytes => Ok(text.bytes().map(u32::from).collect()),
            Self::Server(server) => (server.tokenize)(text).map_err(|e| self.failed(&e)),
        }
    }

    /// The number of tokens of `text`, without special tokens.
    ///
    /// # Errors
    /// [`TokenizerError::Failed`].
    pub fn count(&self, text: &str) -> Result<u32, TokenizerError> {
        let count = match self {
            Self::HuggingFace(file) => {
                file.model.encode_fast(text, false).map_err(|e| self.failed(&e))?.len()
            }
            Self::Tiktoken(vocabulary) => vocabulary.model.count_ordinary(text),
            Self::Bytes => text.len(),
            Self::Server(_) => self.encode(text)?.len(),
        };
        u32::try_from(count).map_err(|e| self.failed(&e))
    }

    /// The text of `ids`. Bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// [`TokenizerError::Failed`] for an unknown id, and for a server, which is only asked to encode.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        match self {
            Self::HuggingFace(file) => file.model.decode(ids, false).map_err(|e| self.failed(&e)),
            Self::Tiktoken(vocabulary) => {
                let bytes = vocabulary.model.decode_bytes(ids).map_err(|e| self.failed(&e))?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Self::Bytes => {
                let bytes: Result<Vec<u8>, _> = ids.iter().map(|id| u8::try_from(*id)).collect();
                Ok(String::from_utf8_lossy(&bytes.map_err(|e| self.failed(&e))?).into_owned())
            }
            Self::Server(_) => Err(self.failed(&"a server is only asked to encode")),
        }
    }

    /// The ordinary ids in rising order: without special tokens, and without other added tokens, which are
    /// marks of the template rather than text. Printable ASCII for [`Tokenizer::Bytes`]; empty for a server,
    /// which does not say.
    #[must_use]
    pub fn vocabulary(&self) -> Vec<u32> {
        match self {
            Self::HuggingFace(file) => {
                let added = file.model.get_added_tokens_decoder();
                let known = file.model.get_vocab(false);
                let mut ids: Vec<u32> = known.into_values().filter(|id| !added.contains_key(id)).collect();
                ids.sort_unstable();
                ids
            }
            Self::Tiktoken(vocabulary) => {
                let model = vocabulary.model;
                let marks = model.special_tokens().into_iter();
                let special: BTreeSet<u32> =
                    marks.flat_map(|mark| model.encode_with_special_tokens(mark)).collect();
                let ordinary = |id: &u32| !special.contains(id) && model.decode_bytes(&[*id]).is_ok();
                (0..vocabulary.ordinary_end).filter(ordinary).collect()
            }
            Self::Bytes => (u32::from(b' ')..=u32::from(b'~')).collect(),
            Self::Server(_) => Vec::new(),
        }
    }

    fn failed(&self, reason: &dyn fmt::Display) -> TokenizerError {
        TokenizerError::Failed { name: self.name().to_owned(), reason: reason.to_string() }
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tokenizer").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tiny_json;

    #[test]
    fn tiktoken_counts_are_the_published_ones() {
        // `tiktoken is great!` is the example of OpenAI's cookbook: 6 tokens in cl100k_base.
        let cl100k = Tokenizer::tiktoken("cl100k_base").expect("ships");
        let ids = cl100k.encode("tiktoken is great!").expect("encodes");
        assert_eq!(ids, [83, 1609, 5963, 374, 2294, 0]);
        assert_eq!(cl100k.count("tiktoken is great!"), Ok(6));
        assert_eq!(cl100k.decode(&ids).expect("decodes"), "tiktoken is great!");
    }

    #[test]
    fn special_ids_are_not_in_the_vocabulary() {
        // Sizes of the vocabularies without their special tokens; p50k_base has its <|endoftext|> in the
        // middle.
        for (name, size) in [("cl100k_base", 100_256), ("r50k_base", 50_256), ("p50k_base", 50_280)] {
            let tokenizer = Tokenizer::tiktoken(name).expect("ships");
            let vocabulary = tokenizer.vocabulary();
            assert_eq!(vocabulary.len(), size, "{name}");
            let end_of_text = if name == "cl100k_base" { 100_257 } else { 50_256 };
            assert!(!vocabulary.contains(&end_of_text), "{name}");
        }
        let tiny = Tokenizer::from_json("tiny", tiny_json().as_bytes()).expect("loads");
        let texts: Vec<String> =
            tiny.vocabulary().iter().map(|id| tiny.decode(&[*id]).expect("known")).collect();
        assert!(!texts.iter().any(|text| text.contains('<')), "{texts:?}");
        assert!(texts.contains(&"river".to_owned()), "{texts:?}");
    }

    #[test]
    fn special_texts_count_as_text() {
        let cl100k = Tokenizer::tiktoken("cl100k_base").expect("ships");
        assert!(cl100k.count("<|endoftext|>").expect("counts") > 1);
    }

    #[test]
    fn a_model_file_neither_truncates_nor_adds() {
        let tiny = Tokenizer::from_json("tiny", tiny_json().as_bytes()).expect("loads");
        assert_eq!(tiny.count("a river and a lake and a river"), Ok(8));
        assert_eq!(tiny.added_to_a_text(), 1);
        assert_eq!(tiny.decode(&tiny.encode("a river").expect("encodes")).expect("decodes"), "a river");
        assert_eq!((tiny.name(), tiny.counts_output()), ("tiny", true));
    }

    #[test]
    fn bytes_are_bytes() {
        assert_eq!(Tokenizer::Bytes.count("h\u{e9}"), Ok(3));
        assert_eq!(Tokenizer::Bytes.decode(&[72, 105]).expect("bytes"), "Hi");
        assert!(Tokenizer::Bytes.decode(&[256]).is_err());
        assert!(!Tokenizer::Bytes.counts_output());
        assert_eq!(Tokenizer::Bytes.vocabulary().len(), 95);
    }

    #[test]
    fn a_server_is_asked_and_may_fail() {
        let words = Tokenizer::server("words", Box::new(|text| Ok(text.split(' ').map(|_| 1).collect())));
        assert_eq!(words.count("a b c"), Ok(3));
        assert!(words.vocabulary().is_empty());
        let broken = Tokenizer::server("http://x/tokenize", Box::new(|_| Err("404".into())));
        assert_eq!(
            broken.count("a").expect_err("fails").to_string(),
            "the tokenizer http://x/tokenize failed: 404"
        );
    }

    #[test]
    fn what_is_no_tokenizer_is_refused() {
        let message = Tokenizer::from_json("x.json", b"{}").expect_err("no model").to_string();
        assert!(message.starts_with("x.json is not a tokenizer.json"), "{message}");
        let message = Tokenizer::tiktoken("gpt9").expect_err("unknown").to_string();
        assert!(message.contains("cl100k_base"), "{message}");
    }
}
