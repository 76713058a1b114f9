//! The entries of a data set in the order they are sent: filtered by length, without replacement, warm-up
//! apart.
//!
//! Measured requests take entries from the front of the order, warm-up requests from its back, so the two
//! never share one (unless there is only one). Entries are tokenised only as far as the run needs them, in
//! parallel; which entry request `i` gets does not depend on how many requests there are.

use crate::dataset::{Candidate, Dropped, Loaded, OutputHint, Reason};
use crate::length;
use crate::prompt::Prompt;
use crate::tokenizer::{Tokenizer, TokenizerError};
use goodput_core::plan::{LengthLaw, SharegptFilter};
use goodput_core::rng::{Seed, Stream};
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Entries tokenised at a time.
const BATCH: usize = 256;

/// Entries held back for a warm-up whose number of requests is not known beforehand.
const WARMUP_ENTRIES_MAX: u64 = 1_000;

/// Which lengths are used, in tokens. All limits are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) prompt_min: u32,
    pub(crate) answer_min: u32,
    pub(crate) prompt_max: u32,
    pub(crate) total_max: u32,
    /// Whether the minimum holds for an answer length that was asked for instead of taken from the data.
    pub(crate) answer_min_if_asked: bool,
}

impl Limits {
    /// None at all.
    pub(crate) const NONE: Self = Self {
        prompt_min: 0,
        answer_min: 0,
        prompt_max: u32::MAX,
        total_max: u32::MAX,
        answer_min_if_asked: false,
    };

    /// The limits of a ShareGPT filter: vLLM's `is_valid_sequence` (`benchmarks/datasets.py`, 0.33), SGLang's
    /// `sample_sharegpt_requests` without a context length.
    pub(crate) const fn of(filter: SharegptFilter) -> Self {
        match filter {
            SharegptFilter::Roles => Self::NONE,
            SharegptFilter::Vllm => Self {
                prompt_min: 4,
                answer_min: 4,
                prompt_max: 1024,
                total_max: 2048,
                answer_min_if_asked: false,
            },
            SharegptFilter::Sglang => {
                Self { prompt_min: 2, answer_min: 2, answer_min_if_asked: true, ..Self::NONE }
            }
        }
    }

    fn refuse(&self, prompt: u32, answer: Option<u32>, asked: bool) -> Option<Reason> {
        let answer_min = if asked && !self.answer_min_if_asked { 0 } else { self.answer_min };
        let total = prompt.saturating_add(answer.unwrap_or(0));
        if prompt < self.prompt_min {
            Some(Reason::PromptTooShort)
        } else if answer.is_some_and(|answer| answer < answer_min) {
            Some(Reason::CompletionTooShort)
        } else if prompt > self.prompt_max || total > self.total_max {
            Some(Reason::TooLong)
        } else {
            None
        }
    }
}

/// How entries become requests.
pub(crate) struct Rules<'a> {
    pub(crate) tokenizer: &'a Tokenizer,
    pub(crate) limits: Limits,
    pub(crate) salt: Option<&'a str>,
    /// The answer length asked for, if not the data's.
    pub(crate) output: Option<&'a LengthLaw>,
    pub(crate) seed: Seed,
    /// Shuffle by the seed, or keep the order of the file.
    pub(crate) shuffle: bool,
}

/// Requests that will be made, as far as known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) warmup: Option<u64>,
    pub(crate) measured: Option<u64>,
}

/// An entry ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// With its salt.
    pub(crate) prompt: Prompt,
    pub(crate) input_tokens: u32,
    /// The data's own answer length.
    pub(crate) output_tokens: Option<u32>,
}

/// The entries of a run.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) measured: Vec<Entry>,
    /// Empty if there is no warm-up, or no entry to spare for it.
    pub(crate) warmup: Vec<Entry>,
    pub(crate) examined: u64,
    pub(crate) dropped: Dropped,
    pub(crate) duplicates: u64,
}

/// Puts the candidates of `loaded` into the order in which they are sent.
pub(crate) fn order(loaded: &mut Loaded, rules: &Rules<'_>) {
    if rules.shuffle {
        // A random key for each entry rather than a shuffle, so that the order of two entries depends on them
        // alone.
        let stream = rules.seed.stream("entries");
        loaded.candidates.sort_by_cached_key(|c| (stream.at(c.position).bits(), c.position));
    }
}

impl Entries {
    /// Takes from `candidates`, which are in order, what `wanted` needs. The warm-up gets a tenth of them at
    /// most, and looks for it in the last half.
    pub(crate) fn take(
        candidates: &[Candidate],
        rules: &Rules<'_>,
        wanted: Wanted,
    ) -> Result<Self, TokenizerError> {
        let spare = if candidates.len() < 2 { 0 } else { (candidates.len() as u64 / 10).max(1) };
        let warmup = wanted.warmup.unwrap_or(WARMUP_ENTRIES_MAX).min(spare);
        // A prompt that occurs twice could be measured as well as sent beforehand: not one for the warm-up.
        let mut seen = BTreeSet::new();
        let repeated: BTreeSet<&Prompt> =
            candidates.iter().map(|c| &c.prompt).filter(|p| !seen.insert(*p)).collect();
        let from_back: Vec<&Candidate> =
            candidates.iter().rev().filter(|c| !repeated.contains(&c.prompt)).collect();
        let mut back = Walk::new(rules, rules.seed.stream("warm-up output lengths"));
        back.run(&from_back[..from_back.len().min(candidates.len() / 2)], warmup)?;
        let taken: BTreeSet<u64> = from_back[..back.examined].iter().map(|c| c.position).collect();
        let left: Vec<&Candidate> = candidates.iter().filter(|c| !taken.contains(&c.position)).collect();
        let mut front = Walk::new(rules, rules.seed.stream("output lengths"));
        front.run(&left, wanted.measured.unwrap_or(u64::MAX))?;

        let mut dropped = front.dropped;
        for (reason, count) in back.dropped {
            *dropped.entry(reason).or_default() += count;
        }
        let mut seen = BTreeSet::new();
        let all = front.kept.iter().chain(&back.kept);
        let duplicates = all.filter(|(candidate, _)| !seen.insert(&candidate.prompt)).count() as u64;
        let entries = |kept: Vec<(&Candidate, Entry)>| kept.into_iter().map(|(_, entry)| entry).collect();
        Ok(Self {
            examined: (front.examined + back.examined) as u64,
            measured: entries(front.kept),
            warmup: entries(back.kept),
            dropped,
            duplicates,
        })
    }
}

/// A walk over candidates in order, keeping what passes.
struct Walk<'a> {
    rules: &'a Rules<'a>,
    output_lengths: Stream,
    kept: Vec<(&'a Candidate, Entry)>,
    dropped: Dropped,
    examined: usize,
}

/// The counts of one candidate.
struct Counted {
    /// As the filters of the harnesses count: with the special tokens that the tokenizer adds to a text.
    prompt_with_special: u32,
    answer_with_special: Option<u32>,
    entry: Entry,
}

impl<'a> Walk<'a> {
    fn new(rules: &'a Rules<'a>, output_lengths: Stream) -> Self {
        Self { rules, output_lengths, kept: Vec::new(), dropped: Dropped::new(), examined: 0 }
    }

    /// Walks until `wanted` entries are kept or the candidates end.
    fn run(&mut self, candidates: &[&'a Candidate], wanted: u64) -> Result<(), TokenizerError> {
        for batch in candidates.chunks(BATCH) {
            if self.kept.len() as u64 >= wanted {
                return Ok(());
            }
            let rules = self.rules;
            let counted: Result<Vec<Counted>, _> = batch.par_iter().map(|c| count(c, rules)).collect();
            for (candidate, counted) in batch.iter().zip(counted?) {
                if self.kept.len() as u64 >= wanted {
                    return Ok(());
                }
                self.examined += 1;
                let asked = self
                    .rules
                    .output
                    .map(|law| length::draw(law, &mut self.output_lengths.at(self.kept.len() as u64)));
                let answer = asked.or(counted.answer_with_special);
                match self.rules.limits.refuse(counted.prompt_with_special, answer, asked.is_some()) {
                    None => self.kept.push((candidate, counted.entry)),
                    Some(reason) => *self.dropped.entry(reason).or_default() += 1,
                }
            }
        }
        Ok(())
    }
}

fn count(candidate: &Candidate, rules: &Rules<'_>) -> Result<Counted, TokenizerError> {
    let tokenizer = rules.tokenizer;
    let bare = candidate.prompt.count(tokenizer)?;
    let (prompt, input_tokens) = match rules.salt {
        None => (candidate.prompt.clone(), bare),
        Some(salt) => {
            let salted = candidate.prompt.salted(salt);
            let tokens = salted.count(tokenizer)?;
            (salted, tokens)
        }
    };
    let (output_tokens, special) = match &candidate.output {
        OutputHint::None => (None, 0),
        OutputHint::Tokens(tokens) => (Some(*tokens), 0),
        // A length asked for wins, and a stand-in cannot count the model's output.
        OutputHint::Answer(_) if rules.output.is_some() || !tokenizer.counts_output() => (None, 0),
        OutputHint::Answer(answer) => (Some(tokenizer.count(answer)?), tokenizer.added_to_a_text()),
    };
    Ok(Counted {
        prompt_with_special: bare.saturating_add(tokenizer.added_to_a_text()),
        answer_with_special: output_tokens.map(|tokens| tokens.saturating_add(special)),
        entry: Entry { prompt, input_tokens, output_tokens },
    })
}
