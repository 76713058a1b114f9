//! Random prompts of an exact number of tokens.
//!
//! Prompt `i` is a pure function of (seed, salt, phase, i). Its pieces are drawn independently (never
//! consecutive ids), special tokens cannot occur, and the shared prefix counts inside the length. A count
//! that cannot be hit within a few rounds of adjusting is kept as it is, and is reported as a miss.

use super::pieces::Pieces;
use crate::tokenizer::{Tokenizer, TokenizerError};
use goodput_core::rng::{Draw, Seed};
use goodput_core::timeline::Phase;

/// Rounds of tokenising and adjusting before a prompt is kept with the count it has.
const ROUNDS_MAX: usize = 10;

/// Letters and, one time in six, a blank: the alphabet of prompts measured in bytes.
const ALPHABET: &[u8; 31] = b"abcdefghijklmnopqrstuvwxyz     ";

/// A generator of random prompts.
#[derive(Debug)]
pub(crate) struct RandomPrompts {
    seed: Seed,
    prefix_tokens: u32,
    /// `None` for bytes.
    pieces: Option<Pieces>,
}

/// A prompt and the tokens it really has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Built {
    pub(crate) text: String,
    pub(crate) tokens: u32,
}

impl RandomPrompts {
    /// A generator over the vocabulary of `tokenizer`; `None` if there is no text in it.
    pub(crate) fn new(
        seed: Seed,
        prefix_tokens: u32,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Self>, TokenizerError> {
        let pieces = match tokenizer {
            Tokenizer::Bytes => None,
            _ => Some(Pieces::of(tokenizer)?),
        };
        let empty = pieces.as_ref().is_some_and(|pieces| pieces.inner.is_empty());
        let mut prompts = Self { seed, prefix_tokens, pieces };
        if empty {
            return Ok(None);
        }
        prompts.confirm_closed(tokenizer)?;
        Ok(Some(prompts))
    }

    /// Prompt `index` of `phase` with `tokens` tokens.
    pub(crate) fn prompt(
        &self,
        tokenizer: &Tokenizer,
        salt: Option<&str>,
        at: (Phase, u64),
        tokens: u32,
    ) -> Result<Built, TokenizerError> {
        let salt = salt.unwrap_or_default();
        let (phase, index) = at;
        let name = match phase {
            Phase::Warmup => "warm-up prompts",
            Phase::Measured => "prompts",
        };
        let mut shared = self.seed.stream(&format!("prefix/{salt}")).at(0);
        let mut own = self.seed.stream(&format!("{name}/{salt}")).at(index);
        let shared_tokens = self.prefix_tokens.min(tokens);
        match &self.pieces {
            None => Ok(bytes_prompt((shared_tokens, &mut shared), (tokens, &mut own))),
            Some(pieces) => {
                let mut joined = Joined::new(pieces);
                joined.push(shared_tokens, &mut shared);
                if !pieces.closed && shared_tokens > 0 {
                    joined.adjust(tokenizer, (0, shared_tokens), &mut shared)?;
                }
                let kept = joined.ends.len();
                joined.push(tokens - shared_tokens, &mut own);
                let found = match pieces.closed {
                    true => tokens,
                    false => joined.adjust(tokenizer, (kept, tokens), &mut own)?,
                };
                Ok(Built { text: joined.text, tokens: found })
            }
        }
    }

    /// Tokenises whole prompts; if one of them is off, the claim that the pieces are closed is dropped.
    fn confirm_closed(&mut self, tokenizer: &Tokenizer) -> Result<(), TokenizerError> {
        for (index, tokens) in (0..).zip([1, 2, 3, 7, 64, 500, 2_000, 2_000]) {
            let built = self.prompt(tokenizer, Some("check"), (Phase::Measured, index), tokens)?;
            if let Some(pieces) = self.pieces.as_mut().filter(|pieces| pieces.closed)
                && tokenizer.count(&built.text)? != tokens
            {
                pieces.closed = false;
            }
        }
        Ok(())
    }
}

/// Printable text of exactly as many bytes, first and last a letter, since blanks there may be stripped on
/// the way.
fn bytes_prompt(shared: (u32, &mut Draw), own: (u32, &mut Draw)) -> Built {
    let (tokens, own_draw) = own;
    let mut text = String::with_capacity(tokens as usize);
    for position in 0..tokens {
        let draw = if position < shared.0 { &mut *shared.1 } else { &mut *own_draw };
        let edge = position == 0 || position + 1 == tokens;
        let choices = if edge { 26 } else { ALPHABET.len() as u64 };
        text.push(char::from(ALPHABET[draw.below(choices) as usize]));
    }
    Built { text, tokens }
}

/// A text being joined, with the end of each piece.
struct Joined<'a> {
    pieces: &'a Pieces,
    text: String,
    ends: Vec<usize>,
}

impl<'a> Joined<'a> {
    fn new(pieces: &'a Pieces) -> Self {
        Self { pieces, text: String::new(), ends: Vec::new() }
    }

    fn push(&mut self, count: u32, draw: &mut Draw) {
        for _ in 0..count {
            let from = if self.text.is_empty() { &self.pieces.heads } else { &self.pieces.inner };
            self.text.push_str(&from[draw.below(from.len() as u64) as usize]);
            self.ends.push(self.text.len());
        }
    }

    fn truncate(&mut self, pieces: usize) {
        self.ends.truncate(pieces);
        self.text.truncate(self.ends.last().copied().unwrap_or_default());
    }

    /// Tokenises, then drops or adds pieces for the tokens that are too many or too few, and again; the first
    /// `kept` pieces stay. Ends with the wanted number of tokens, or after [`ROUNDS_MAX`] with the closest
    /// text there was. Returns the number of tokens.
    fn adjust(
        &mut self,
        tokenizer: &Tokenizer,
        (kept, wanted): (usize, u32),
        draw: &mut Draw,
    ) -> Result<u32, TokenizerError> {
        let mut closest: Option<(u32, String, Vec<usize>)> = None;
        for _ in 0..ROUNDS_MAX {
            let tokens = tokenizer.count(&self.text)?;
            let off = tokens.abs_diff(wanted);
            if off == 0 {
                return Ok(tokens);
            }
            if closest.as_ref().is_none_or(|(best, ..)| off < best.abs_diff(wanted)) {
                closest = Some((tokens, self.text.clone(), self.ends.clone()));
            }
            // As many pieces as that many tokens are here, where a piece may be several tokens or a part of
            // one.
            let pieces = match tokens {
                0 => u64::from(off),
                _ => (u64::from(off) * self.ends.len() as u64 / u64::from(tokens)).max(1),
            };
            if tokens < wanted {
                self.push(u32::try_from(pieces).unwrap_or(off), draw);
            } else {
                let left = self.ends.len().saturating_sub(pieces as usize).max(kept);
                if left == self.ends.len() {
                    break;
                }
                self.truncate(left);
            }
        }
        let (tokens, text, ends) = closest.unwrap_or_default();
        (self.text, self.ends) = (text, ends);
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{sentencepiece_json, tiny_json};
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static CL100K: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::tiktoken("cl100k_base").expect("ships"));
    static TINY: LazyLock<Tokenizer> =
        LazyLock::new(|| Tokenizer::from_json("tiny", tiny_json().as_bytes()).expect("loads"));

    fn generator(prefix_tokens: u32, tokenizer: &Tokenizer) -> RandomPrompts {
        RandomPrompts::new(Seed(5), prefix_tokens, tokenizer).expect("counts").expect("has text")
    }
    static OF_CL100K: LazyLock<RandomPrompts> = LazyLock::new(|| generator(6, &CL100K));
    static OF_TINY: LazyLock<RandomPrompts> = LazyLock::new(|| generator(6, &TINY));

    fn measured(prompts: &RandomPrompts, tokenizer: &Tokenizer, index: u64, tokens: u32) -> Built {
        prompts.prompt(tokenizer, None, (Phase::Measured, index), tokens).expect("counts")
    }

    #[test]
    fn counts_are_exact_by_the_tokenizer_itself() {
        for (prompts, tokenizer) in [(&*OF_CL100K, &*CL100K), (&*OF_TINY, &*TINY)] {
            for (index, tokens) in (0..).zip([1, 2, 3, 5, 6, 7, 32, 333, 1_000]) {
                let built = measured(prompts, tokenizer, index, tokens);
                assert_eq!(tokenizer.count(&built.text), Ok(tokens), "{}", built.text);
                assert_eq!(built.tokens, tokens);
            }
        }
    }

    #[test]
    fn counts_are_exact_where_blanks_are_marks_and_words_may_join() {
        for superword in [false, true] {
            let tokenizer =
                Tokenizer::from_json("sp", sentencepiece_json(superword).as_bytes()).expect("loads");
            let prompts = generator(3, &tokenizer);
            for (index, tokens) in (0..).zip([1, 2, 3, 4, 50, 700]) {
                let built = measured(&prompts, &tokenizer, index, tokens);
                assert_eq!((tokenizer.count(&built.text), built.tokens), (Ok(tokens), tokens), "{superword}");
            }
        }
    }

    #[test]
    fn ids_are_not_consecutive_and_not_special() {
        let built = measured(&OF_CL100K, &CL100K, 3, 500);
        let ids = CL100K.encode(&built.text).expect("encodes");
        assert!(ids.iter().all(|id| *id < 100_256));
        let consecutive = ids.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!(consecutive < 3, "{consecutive} of 499");
    }

    #[test]
    fn the_prefix_is_shared_and_counted_inside() {
        for (prompts, tokenizer) in [(&*OF_CL100K, &*CL100K), (&*OF_TINY, &*TINY)] {
            let (a, b) = (measured(prompts, tokenizer, 0, 20), measured(prompts, tokenizer, 1, 20));
            let (a, b) = (tokenizer.encode(&a.text).expect("ok"), tokenizer.encode(&b.text).expect("ok"));
            assert_eq!(a[..5], b[..5]);
            assert_ne!(a[6..], b[6..]);
        }
        let bytes = generator(6, &Tokenizer::Bytes);
        let texts = [0, 1].map(|index| measured(&bytes, &Tokenizer::Bytes, index, 40).text);
        assert_eq!(texts[0][..6], texts[1][..6]);
        assert_ne!(texts[0][6..], texts[1][6..]);
    }

    #[test]
    fn every_part_of_the_key_counts() {
        let prompts = generator(0, &Tokenizer::Bytes);
        let other_seed = RandomPrompts { seed: Seed(6), prefix_tokens: 0, pieces: None };
        let make = |p: &RandomPrompts, salt, at| p.prompt(&Tokenizer::Bytes, salt, at, 64).expect("ok").text;
        let base = make(&prompts, Some("aa"), (Phase::Measured, 4));
        assert_eq!(base, make(&prompts, Some("aa"), (Phase::Measured, 4)));
        for other in [
            make(&prompts, Some("ab"), (Phase::Measured, 4)),
            make(&prompts, None, (Phase::Measured, 4)),
            make(&prompts, Some("aa"), (Phase::Measured, 5)),
            make(&prompts, Some("aa"), (Phase::Warmup, 4)),
            make(&other_seed, Some("aa"), (Phase::Measured, 4)),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn what_cannot_be_hit_is_kept_with_its_true_count() {
        // Every word is two tokens here, so odd lengths do not exist.
        let double = Tokenizer::server(
            "double",
            Box::new(|text| Ok(text.split_whitespace().flat_map(|_| [1, 2]).collect())),
        );
        let prompts = generator(0, &double);
        assert_eq!(measured(&prompts, &double, 0, 8).tokens, 8);
        let odd = measured(&prompts, &double, 0, 9);
        assert!([8, 10].contains(&odd.tokens));
        assert_eq!(double.count(&odd.text), Ok(odd.tokens));
    }

    #[test]
    fn a_tokenizer_that_joins_words_is_not_trusted() {
        // One token for a run of up to four words once the text is long: closed by the pieces, not by whole
        // prompts.
        let mut prompts = generator(0, &CL100K);
        assert!(prompts.pieces.as_ref().expect("has pieces").closed);
        let joins = Tokenizer::server(
            "joins",
            Box::new(|text| {
                let words = text.split_whitespace().count();
                Ok(vec![0; if words < 10 { words } else { words.div_ceil(4) }])
            }),
        );
        prompts.confirm_closed(&joins).expect("counts");
        assert!(!prompts.pieces.as_ref().expect("has pieces").closed);
        assert_eq!(measured(&prompts, &joins, 1, 50).tokens, 50);
    }

    #[test]
    fn a_failing_server_fails_the_prompt() {
        let broken = Tokenizer::server("gone", Box::new(|_| Err("no route".into())));
        assert!(RandomPrompts::new(Seed(5), 0, &broken).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn bytes_prompts_are_printable_and_exact(index: u64, tokens in 1_u32..300, prefix in 0_u32..40) {
            let prompts = generator(prefix, &Tokenizer::Bytes);
            let built = measured(&prompts, &Tokenizer::Bytes, index, tokens);
            prop_assert_eq!(built.text.len(), tokens as usize);
            prop_assert_eq!(built.tokens, tokens);
            prop_assert!(built.text.bytes().all(|b| b == b' ' || b.is_ascii_lowercase()));
            prop_assert_eq!(built.text.trim().len(), tokens as usize);
        }

        #[test]
        fn tiny_prompts_are_exact(index: u64, tokens in 1_u32..120) {
            let built = measured(&OF_TINY, &TINY, index, tokens);
            prop_assert_eq!(TINY.count(&built.text), Ok(built.tokens));
            prop_assert_eq!(built.tokens, tokens);
        }
    }
}
