//! Prompts: what they are, their salt, their tokens, and the random ones.
//!
//! Never reads a file and never knows the protocol: a chat template is the server's.

mod pieces;
pub(crate) mod random;

use crate::tokenizer::{Tokenizer, TokenizerError};
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;

/// What a request asks, before any chat template. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Prompt {
    /// One text: the prompt of a completion, the one user message of a chat.
    Text(Arc<str>),
    /// The messages of a chat, in order.
    Messages(Arc<[Message]>),
}

/// One message of a chat.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, or what the data says.
    pub role: String,
    /// Its text.
    pub content: String,
}

impl Prompt {
    /// The prompt as one text: messages joined by blank lines, for protocols that know no roles.
    #[must_use]
    pub fn as_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Messages(messages) => {
                let contents: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
                Cow::Owned(contents.join("\n\n"))
            }
        }
    }

    /// Whether no part of it has a character that is not blank.
    pub(crate) fn is_blank(&self) -> bool {
        match self {
            Self::Text(text) => text.trim().is_empty(),
            Self::Messages(messages) => messages.iter().all(|message| message.content.trim().is_empty()),
        }
    }

    /// Tokens of its text, or of its messages' contents summed. Special tokens and the template's own are not
    /// in it.
    pub(crate) fn count(&self, tokenizer: &Tokenizer) -> Result<u32, TokenizerError> {
        match self {
            Self::Text(text) => tokenizer.count(text),
            Self::Messages(messages) => messages
                .iter()
                .try_fold(0_u32, |sum, message| Ok(sum.saturating_add(tokenizer.count(&message.content)?))),
        }
    }

    /// The prompt with `[salt] ` at its very beginning, where a prefix cache starts to compare.
    pub(crate) fn salted(&self, salt: &str) -> Self {
        match self {
            Self::Text(text) => Self::Text(format!("[{salt}] {text}").into()),
            Self::Messages(messages) => {
                let mut salted = messages.to_vec();
                if let Some(first) = salted.first_mut() {
                    first.content.insert_str(0, &format!("[{salt}] "));
                }
                Self::Messages(salted.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, content: &str) -> Message {
        Message { role: role.into(), content: content.into() }
    }

    #[test]
    fn the_salt_comes_first_and_is_counted() {
        let text = Prompt::Text("Hi".into()).salted("0f");
        assert_eq!(text.as_text(), "[0f] Hi");
        assert_eq!(text.count(&Tokenizer::Bytes), Ok(7));
        let chat = Prompt::Messages(Arc::new([message("system", "Be brief"), message("user", "Hi")]));
        assert_eq!(chat.salted("0f").as_text(), "[0f] Be brief\n\nHi");
        assert_eq!(chat.count(&Tokenizer::Bytes), Ok(10));
    }

    #[test]
    fn blanks_are_seen_through() {
        assert!(Prompt::Text(" \n".into()).is_blank());
        assert!(Prompt::Messages(Arc::new([message("user", " ")])).is_blank());
        assert!(!Prompt::Messages(Arc::new([message("system", ""), message("user", "x")])).is_blank());
    }
}
