//! The texts that random prompts are put together from: ordinary tokens that stay one token beside each
//! other.
//!
//! Random ids of a whole vocabulary do not survive being sent as text: neighbours merge or split, and the
//! count comes out wrong. Here a piece is a blank followed by letters that encodes to one token between
//! neighbours of the same kind. If, besides, no ordinary token has a blank behind a letter, then no token of
//! a joined text can reach over the border of two pieces, whatever the algorithm (byte pairs, unigram, word
//! pieces: their tokens are all substrings of the text). Joining n such pieces then gives exactly n tokens;
//! the set is called *closed*, and the claim is still checked on whole prompts before it is relied on. Where
//! it fails, every prompt is tokenised and adjusted.

use crate::tokenizer::{Tokenizer, TokenizerError};
use rayon::prelude::*;

/// With fewer words than this a vocabulary is searched for any text at all.
const WORDS_MIN: usize = 64;

/// Words that are single tokens nearly everywhere, for a server that does not list its vocabulary.
const COMMON_WORDS: &str = "the of and to in is was for that it on as with be by at from are this his have an which not \
    or had were has their its but they one all been who her more when two other some into also time only after can than \
    about first may any over these such our most year between many where those both must before through back now same \
    work down life own even under last right state world still three long great people way house day place man school \
    small number part home water night city system group power order point form set line name family point end hand \
    high left side head south north river land road light war law book story local public social general large early \
    young open free full real true white black red green blue book music game team player best second third next old new \
    good little big later again never always often once here there then very just well much each every found made used";

/// Texts to join.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Each starts with a blank, where there are words at all.
    pub(super) inner: Vec<Box<str>>,
    /// Texts for the very beginning: without a blank in front, since servers strip it.
    pub(super) heads: Vec<Box<str>>,
    /// Whether n joined pieces are n tokens by construction.
    pub(super) closed: bool,
}

impl Pieces {
    /// The pieces of a vocabulary. Empty if there is no text in it.
    pub(super) fn of(tokenizer: &Tokenizer) -> Result<Self, TokenizerError> {
        let (texts, border_is_safe) = match tokenizer {
            Tokenizer::Server(_) => {
                let words: std::collections::BTreeSet<&str> = COMMON_WORDS.split_whitespace().collect();
                // The vocabulary is not known, so nothing is known about borders either.
                (words.into_iter().map(|word| format!(" {word}").into()).collect(), false)
            }
            _ => vocabulary_texts(tokenizer)?,
        };
        let words: Vec<Box<str>> = texts.iter().filter(|text| is_word(text)).cloned().collect();
        let (candidates, are_words) = if words.len() >= WORDS_MIN { (words, true) } else { (texts, false) };
        let Some(neighbour) = neighbour(&candidates, tokenizer)? else {
            return Ok(Self { inner: Vec::new(), heads: Vec::new(), closed: false });
        };
        // Without its blank in front: some tokenizers put one there themselves.
        let before = neighbour.trim_start();
        let alone = tokenizer.count(&format!("{before}{neighbour}"))?;
        let stable = keep(&candidates, |piece| {
            Ok(tokenizer.count(&format!("{before}{piece}{neighbour}"))? == alone + 1)
        })?;
        let inner = if stable.is_empty() { candidates } else { stable };
        let bare: Vec<Box<str>> = inner.iter().map(|piece| piece.trim_start().into()).collect();
        let single = keep(&bare, |head| Ok(tokenizer.count(head)? == 1))?;
        let closed = are_words && border_is_safe && alone == 2 && !single.is_empty();
        Ok(Self { inner, heads: if single.is_empty() { bare } else { single }, closed })
    }
}

/// A candidate to put beside the others: one that is a single token, if there is one among the first.
fn neighbour(candidates: &[Box<str>], tokenizer: &Tokenizer) -> Result<Option<Box<str>>, TokenizerError> {
    for candidate in candidates.iter().take(WORDS_MIN) {
        let text = candidate.trim_start();
        if tokenizer.count(text)? == 1 && tokenizer.count(&format!("{text}{candidate}"))? == 2 {
            return Ok(Some(candidate.clone()));
        }
    }
    Ok(candidates.first().cloned())
}

/// The texts for which `wanted` holds, in their order.
fn keep<F>(texts: &[Box<str>], wanted: F) -> Result<Vec<Box<str>>, TokenizerError>
where
    F: Fn(&str) -> Result<bool, TokenizerError> + Sync,
{
    let kept: Result<Vec<Option<Box<str>>>, _> =
        texts.par_iter().map(|text| Ok(wanted(text)?.then(|| text.clone()))).collect();
    Ok(kept?.into_iter().flatten().collect())
}

/// The text of each ordinary id in the middle of a text, and whether none of them has a blank behind a
/// letter.
fn vocabulary_texts(tokenizer: &Tokenizer) -> Result<(Vec<Box<str>>, bool), TokenizerError> {
    let ids = tokenizer.vocabulary();
    let word = |id: &u32| {
        let text = tokenizer.decode(&[*id]).unwrap_or_default();
        let letters = text.trim();
        !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    let Some(before) = ids.iter().copied().find(word) else { return Ok((Vec::new(), false)) };
    let head = tokenizer.decode(&[before])?;
    // Decoded behind another token, because decoders drop or add a blank at the beginning of a text.
    let texts: Result<Vec<String>, _> = ids.par_iter().map(|id| tokenizer.decode(&[before, *id])).collect();
    let texts: Vec<Box<str>> =
        texts?.iter().filter_map(|text| text.strip_prefix(head.as_str())).map(Into::into).collect();
    let border_is_safe = !texts.iter().any(|text| has_blank_behind_letter(text));
    Ok((texts.iter().filter(|text| is_sound(text)).cloned().collect(), border_is_safe))
}

/// Text that survives being sent: not blank, no control characters, no half characters.
fn is_sound(text: &str) -> bool {
    !text.trim().is_empty() && !text.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER)
}

fn has_blank_behind_letter(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| pair[0].is_ascii_alphabetic() && pair[1] == b' ')
}

/// A blank and ASCII letters.
fn is_word(text: &str) -> bool {
    text.strip_prefix(' ')
        .is_some_and(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{sentencepiece_json, tiny_json};

    #[test]
    fn a_large_vocabulary_is_closed() {
        let tokenizer = Tokenizer::tiktoken("cl100k_base").expect("ships");
        let pieces = Pieces::of(&tokenizer).expect("counts");
        assert!(pieces.closed);
        assert!(pieces.inner.len() > 20_000 && pieces.heads.len() > 5_000);
        assert!(pieces.inner.iter().all(|piece| is_word(piece)));
        let joined = pieces.inner.iter().step_by(7).map(AsRef::as_ref).collect::<String>();
        assert_eq!(tokenizer.count(&joined).expect("counts") as usize, pieces.inner.len().div_ceil(7));
    }

    #[test]
    fn a_model_that_puts_a_blank_in_front_is_closed_too() {
        let tokenizer = Tokenizer::from_json("sp", sentencepiece_json(false).as_bytes()).expect("loads");
        let pieces = Pieces::of(&tokenizer).expect("counts");
        assert!(pieces.closed);
        assert_eq!((pieces.inner.len(), pieces.heads.len()), (100, 100));
    }

    #[test]
    fn one_token_over_two_words_opens_the_set() {
        let tokenizer = Tokenizer::from_json("sp", sentencepiece_json(true).as_bytes()).expect("loads");
        assert_eq!(tokenizer.count("aax abx aax abx aax"), Ok(3));
        assert!(!Pieces::of(&tokenizer).expect("counts").closed);
    }

    #[test]
    fn a_small_vocabulary_is_used_as_it_is() {
        let tokenizer = Tokenizer::from_json("tiny", tiny_json().as_bytes()).expect("loads");
        let pieces = Pieces::of(&tokenizer).expect("counts");
        assert!(!pieces.closed);
        assert!(pieces.inner.contains(&" river".into()), "{pieces:?}");
        assert!(!pieces.inner.iter().any(|piece| piece.contains('<')), "{pieces:?}");
    }

    #[test]
    fn a_server_is_never_taken_for_closed() {
        let count = |text: &str| Ok(text.split_whitespace().map(|_| 0).collect());
        let pieces = Pieces::of(&Tokenizer::server("words", Box::new(count))).expect("counts");
        assert!(!pieces.closed && pieces.inner.len() > WORDS_MIN, "{}", pieces.inner.len());
    }

    #[test]
    fn blanks_behind_letters_are_found() {
        assert!(has_blank_behind_letter(" of the"));
        assert!(!has_blank_behind_letter("  the") && !has_blank_behind_letter(", the"));
    }
}
