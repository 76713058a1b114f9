//! The front door: from a plan and its data to request `i`.
//!
//! After [`Workload::prepare`] a request is a pure function of (plan, data, phase, index): any thread, worker
//! or order gives the same one. Warm-up requests come from streams and entries of their own, so that they
//! warm the server and not the cache of what is measured.

use crate::arrival::{self, ArrivalError};
use crate::dataset::{self, Damage, DatasetError, Dropped, Loaded, OutputHint, describe_dropped};
use crate::entries::{Entries, Entry, Limits, Rules, Wanted, order};
use crate::fingerprint::{Fingerprint, Hashed};
use crate::length::{self, LengthError};
use crate::prompt::Prompt;
use crate::prompt::random::RandomPrompts;
use crate::tokenizer::{Tokenizer, TokenizerError};
use goodput_core::plan::{Data, LengthLaw, Plan, Warmup};
use goodput_core::rng::Seed;
use goodput_core::timeline::Phase;
use rayon::prelude::*;
use serde::Serialize;
use std::io::BufRead;
use thiserror::Error;

/// What a workload is made from besides its plan.
pub struct Inputs<'a> {
    /// The file the plan names, opened. `None` for random data.
    pub data: Option<&'a mut dyn BufRead>,
    /// The tokenizer the plan names, loaded.
    pub tokenizer: Tokenizer,
}

/// One request, before a protocol gives it a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its phase.
    pub phase: Phase,
    /// Its number within the phase, from 0.
    pub index: u64,
    /// Its session. Every request is one of its own as yet, numbered like the request.
    pub session: u64,
    /// Its turn within the session, from 0.
    pub turn: u32,
    /// What it asks, with the salt in it.
    pub prompt: Prompt,
    /// Tokens of the prompt by the plan's tokenizer, salt included, special tokens and chat template not.
    pub input_tokens: u32,
    /// Tokens the prompt was meant to have; differs from `input_tokens` where no text of that length was
    /// found.
    pub planned_tokens: u32,
    /// Output tokens to ask for at most. `None` leaves it to the server.
    pub max_tokens: Option<u32>,
}

/// What a workload was made from, for the manifest and the reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkloadReport {
    /// Whole entries of the file. 0 for random data, like the counts below.
    pub entries_read: u64,
    /// Entries of usable shape whose lengths were looked at: as many as the run needs, in the order of
    /// sending.
    pub examined: u64,
    /// Entries in use, warm-up included.
    pub kept: u64,
    /// Entries in use for the warm-up alone.
    pub kept_for_warmup: u64,
    /// Entries that are not used, by reason: of shape in the whole file, of length among the examined.
    pub dropped: Dropped,
    /// Entries in use with the same prompt as an earlier one.
    pub duplicates: u64,
    /// Measured requests that repeat an entry because there are too few. `None` while their number is not
    /// known; see [`Workload::oversampled`].
    pub oversampled: Option<u64>,
    /// Whether the warm-up had to use measured entries, since there is only one.
    pub warmup_shares_entries: bool,
    /// Prepared random prompts.
    pub lengths_checked: u64,
    /// Those of them whose token count is not the planned one.
    pub length_misses: u64,
    /// Hash over the content of what is sent, without the salt and whatever the number of requests: equal for
    /// equal workloads.
    pub fingerprint: String,
    /// SHA-256 of the data file.
    pub data_sha256: Option<String>,
    /// Where the data file breaks, if it does.
    pub damaged: Option<Damage>,
}

/// A workload that cannot be prepared.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// The data named in the plan were not handed in.
    #[error("the plan names the data file {0}, but it was not opened")]
    DataNotOpened(String),
    /// The data cannot be read.
    #[error("{path}: {source}")]
    Dataset {
        /// The file.
        path: String,
        /// What is wrong.
        source: DatasetError,
    },
    /// No entry of the data can be used.
    #[error("{path}: none of {entries_read} entries can be used ({dropped})")]
    NothingUsable {
        /// The file.
        path: String,
        /// Whole entries in it.
        entries_read: u64,
        /// Reasons with their counts.
        dropped: String,
    },
    /// A length law that is not one.
    #[error(transparent)]
    Length(#[from] LengthError),
    /// The tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The arrivals, from which the number of requests follows, are not right.
    #[error(transparent)]
    Arrival(#[from] ArrivalError),
    /// Random data without a prompt length.
    #[error("random prompts need a length: give --input-tokens")]
    NoInputLength,
    /// A prompt length for data that have their own.
    #[error(
        "--input-tokens and --prefix-tokens shape random prompts only: the prompts of a file are sent as they are"
    )]
    ShapedData,
    /// A prefix that leaves nothing of its own to any prompt.
    #[error(
        "a prefix of {prefix} tokens leaves nothing to prompts of at most {longest} tokens: make it shorter"
    )]
    PrefixTooLong {
        /// Tokens of the prefix.
        prefix: u32,
        /// The longest prompt.
        longest: u32,
    },
    /// A vocabulary without text.
    #[error("the vocabulary of {0} has no text to make prompts from")]
    NoText(String),
    /// A filter on token counts with a stand-in tokenizer.
    #[error(
        "the vllm and sglang filters count the model's tokens, and `bytes` does not: give --tokenizer FILE, tiktoken:NAME or server"
    )]
    FilterNeedsTokenizer,
}

/// A prepared workload. Shared by all threads that send.
#[derive(Debug)]
pub struct Workload {
    seed: Seed,
    salt: Option<String>,
    output: Option<LengthLaw>,
    max_tokens: Option<u32>,
    tokenizer: Tokenizer,
    source: Source,
    prepared_warmup: Vec<Request>,
    prepared_measured: Vec<Request>,
    wanted: Wanted,
    report: WorkloadReport,
}

#[derive(Debug)]
enum Source {
    Random { prompts: RandomPrompts, input: LengthLaw },
    Entries(Entries),
}

/// Random requests whose content enters the fingerprint.
const FINGERPRINT_REQUESTS: u64 = 16;

impl Workload {
    /// Reads the data, checks the laws, and tokenises as many entries as the plan's run needs.
    ///
    /// # Errors
    /// [`WorkloadError`]: each says what was expected and what to do.
    pub fn prepare(plan: &Plan, inputs: Inputs<'_>) -> Result<Self, WorkloadError> {
        for law in plan.workload.input_tokens.iter().chain(&plan.workload.output_tokens) {
            length::check(law)?;
        }
        let wanted = wanted(plan)?;
        match &plan.workload.data {
            Data::Random => Self::random(plan, inputs.tokenizer, wanted),
            Data::Sharegpt { path, .. } | Data::Jsonl { path, .. } => {
                let data = inputs.data.ok_or_else(|| WorkloadError::DataNotOpened(path.clone()))?;
                Self::from_file(plan, path, data, (inputs.tokenizer, wanted))
            }
        }
    }

    fn random(plan: &Plan, tokenizer: Tokenizer, wanted: Wanted) -> Result<Self, WorkloadError> {
        let input = plan.workload.input_tokens.clone().ok_or(WorkloadError::NoInputLength)?;
        let prefix = plan.workload.prefix_tokens;
        if let Some(longest) = longest(&input).filter(|longest| prefix > 0 && prefix >= *longest) {
            return Err(WorkloadError::PrefixTooLong { prefix, longest });
        }
        let prompts = RandomPrompts::new(plan.seed, prefix, &tokenizer)?
            .ok_or_else(|| WorkloadError::NoText(tokenizer.name().to_owned()))?;
        let mut workload = Self::new(plan, tokenizer, Source::Random { prompts, input }, wanted);
        let mut fingerprint = workload.fingerprint_of_laws(plan, "random");
        for index in 0..FINGERPRINT_REQUESTS {
            let request = workload.build(Phase::Measured, index, None)?;
            fingerprint.prompt(&request.prompt);
        }
        workload.report.fingerprint = fingerprint.finish();
        Ok(workload)
    }

    fn from_file(
        plan: &Plan,
        path: &str,
        data: &mut dyn BufRead,
        (tokenizer, wanted): (Tokenizer, Wanted),
    ) -> Result<Self, WorkloadError> {
        if plan.workload.input_tokens.is_some() || plan.workload.prefix_tokens > 0 {
            return Err(WorkloadError::ShapedData);
        }
        let (limits, shuffle) = match &plan.workload.data {
            Data::Sharegpt { filter, .. } => (Limits::of(*filter), true),
            // A written list is a written order.
            Data::Jsonl { .. } | Data::Random => (Limits::NONE, false),
        };
        if limits != Limits::NONE && !tokenizer.counts_output() {
            return Err(WorkloadError::FilterNeedsTokenizer);
        }
        let failed = |source| WorkloadError::Dataset { path: path.to_owned(), source };
        let (mut loaded, sha256) = read(plan, data).map_err(failed)?;
        let rules = Rules {
            tokenizer: &tokenizer,
            limits,
            salt: plan.salt.as_deref(),
            output: plan.workload.output_tokens.as_ref(),
            seed: plan.seed,
            shuffle,
        };
        order(&mut loaded, &rules);
        let mut entries = Entries::take(&loaded.candidates, &rules, wanted)?;
        for (reason, count) in &loaded.dropped {
            *entries.dropped.entry(*reason).or_default() += count;
        }
        if entries.measured.is_empty() {
            return Err(WorkloadError::NothingUsable {
                path: path.to_owned(),
                entries_read: loaded.entries_read,
                dropped: describe_dropped(&entries.dropped),
            });
        }
        let mut workload = Self::new(plan, tokenizer, Source::Entries(entries), wanted);
        workload.report.fingerprint = workload.fingerprint_of_data(plan, &loaded)?;
        workload.report.entries_read = loaded.entries_read;
        workload.report.damaged = loaded.damaged;
        workload.report.data_sha256 = Some(sha256);
        Ok(workload)
    }

    fn new(plan: &Plan, tokenizer: Tokenizer, source: Source, wanted: Wanted) -> Self {
        let mut report = WorkloadReport {
            entries_read: 0,
            examined: 0,
            kept: 0,
            kept_for_warmup: 0,
            dropped: Dropped::new(),
            duplicates: 0,
            oversampled: wanted.measured.map(|_| 0),
            warmup_shares_entries: false,
            lengths_checked: 0,
            length_misses: 0,
            fingerprint: String::new(),
            data_sha256: None,
            damaged: None,
        };
        if let Source::Entries(entries) = &source {
            report.examined = entries.examined;
            report.kept_for_warmup = entries.warmup.len() as u64;
            report.kept = entries.measured.len() as u64 + report.kept_for_warmup;
            report.dropped.clone_from(&entries.dropped);
            report.duplicates = entries.duplicates;
            report.warmup_shares_entries = entries.warmup.is_empty() && wanted.warmup != Some(0);
            report.oversampled =
                wanted.measured.map(|requests| requests.saturating_sub(entries.measured.len() as u64));
        }
        Self {
            seed: plan.seed,
            salt: plan.salt.clone(),
            output: plan.workload.output_tokens.clone(),
            max_tokens: plan.request.max_tokens,
            tokenizer,
            source,
            prepared_warmup: Vec::new(),
            prepared_measured: Vec::new(),
            wanted,
            report,
        }
    }

    /// Request `index` of `phase`. Entries of a file are used once each, and then again in the same order.
    ///
    /// # Errors
    /// [`TokenizerError`] if the request was not prepared and the tokenizer fails, which only a server's
    /// does.
    pub fn request(&self, phase: Phase, index: u64) -> Result<Request, TokenizerError> {
        let prepared = match phase {
            Phase::Warmup => &self.prepared_warmup,
            Phase::Measured => &self.prepared_measured,
        };
        match usize::try_from(index).ok().and_then(|index| prepared.get(index)) {
            Some(request) => Ok(request.clone()),
            None => self.build(phase, index, self.salt.as_deref()),
        }
    }

    /// Builds the first `count` requests of `phase` now, on all cores, so that sending them costs nothing:
    /// worth it for random prompts, which are tokenised. Takes their text in memory (about 7 bytes a token).
    ///
    /// # Errors
    /// [`TokenizerError`] if the tokenizer fails.
    pub fn prepare_first(&mut self, phase: Phase, count: u64) -> Result<(), TokenizerError> {
        if matches!(self.source, Source::Entries(_)) {
            return Ok(());
        }
        let salt = self.salt.as_deref();
        let requests: Result<Vec<Request>, _> =
            (0..count).into_par_iter().map(|index| self.build(phase, index, salt)).collect();
        match phase {
            Phase::Warmup => self.prepared_warmup = requests?,
            Phase::Measured => self.prepared_measured = requests?,
        }
        let prepared = || self.prepared_warmup.iter().chain(&self.prepared_measured);
        self.report.lengths_checked = prepared().count() as u64;
        let missed = prepared().filter(|request| request.input_tokens != request.planned_tokens);
        self.report.length_misses = missed.count() as u64;
        Ok(())
    }

    /// Requests that the plan announces in `phase`; `None` where only the run will tell.
    #[must_use]
    pub const fn announced(&self, phase: Phase) -> Option<u64> {
        match phase {
            Phase::Warmup => self.wanted.warmup,
            Phase::Measured => self.wanted.measured,
        }
    }

    /// Of `issued` measured requests, those that repeated an entry.
    #[must_use]
    pub fn oversampled(&self, issued: u64) -> u64 {
        match &self.source {
            Source::Random { .. } => 0,
            Source::Entries(entries) => issued.saturating_sub(entries.measured.len() as u64),
        }
    }

    /// What it was made from.
    #[must_use]
    pub const fn report(&self) -> &WorkloadReport {
        &self.report
    }

    /// The tokenizer, for counting what servers do not count.
    #[must_use]
    pub const fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn build(&self, phase: Phase, index: u64, salt: Option<&str>) -> Result<Request, TokenizerError> {
        let (lengths, outputs) = match phase {
            Phase::Warmup => ("warm-up input lengths", "warm-up output lengths"),
            Phase::Measured => ("input lengths", "output lengths"),
        };
        let (prompt, input_tokens, planned_tokens, of_data) = match &self.source {
            Source::Random { prompts, input } => {
                let planned = length::draw(input, &mut self.seed.stream(lengths).at(index));
                let built = prompts.prompt(&self.tokenizer, salt, (phase, index), planned)?;
                (Prompt::Text(built.text.into()), built.tokens, planned, None)
            }
            Source::Entries(entries) => {
                let entry = entry(entries, phase, index);
                (entry.prompt.clone(), entry.input_tokens, entry.input_tokens, entry.output_tokens)
            }
        };
        let drawn =
            self.output.as_ref().map(|law| length::draw(law, &mut self.seed.stream(outputs).at(index)));
        let max_tokens = drawn.or(of_data).or(self.max_tokens);
        Ok(Request {
            phase,
            index,
            session: index,
            turn: 0,
            prompt,
            input_tokens,
            planned_tokens,
            max_tokens,
        })
    }

    /// Begins the fingerprint with everything that is not content.
    fn fingerprint_of_laws(&self, plan: &Plan, kind: &str) -> Fingerprint {
        let mut fingerprint = Fingerprint::new("goodput.workload/1");
        fingerprint.text(kind);
        fingerprint.number(plan.seed.0);
        fingerprint.number(u64::from(plan.workload.prefix_tokens));
        let laws = (&plan.workload.input_tokens, &plan.workload.output_tokens, self.max_tokens);
        fingerprint.text(&format!("{laws:?}"));
        fingerprint
    }

    /// The fingerprint of a data set: every usable entry in the order of sending, and the token counts of the
    /// first answers, which tell tokenizers apart.
    fn fingerprint_of_data(&self, plan: &Plan, loaded: &Loaded) -> Result<String, TokenizerError> {
        let kind = match &plan.workload.data {
            Data::Sharegpt { filter, .. } => format!("sharegpt {filter:?}"),
            Data::Jsonl { .. } | Data::Random => "jsonl".into(),
        };
        let mut fingerprint = self.fingerprint_of_laws(plan, &kind);
        for candidate in &loaded.candidates {
            fingerprint.prompt(&candidate.prompt);
            fingerprint.output(&candidate.output);
        }
        for candidate in loaded.candidates.iter().take(FINGERPRINT_REQUESTS as usize) {
            if let OutputHint::Answer(answer) = &candidate.output {
                fingerprint.number(u64::from(self.tokenizer.count(answer)?));
            }
        }
        Ok(fingerprint.finish())
    }
}

/// Entry of request `index`: in order, then in order again.
fn entry(entries: &Entries, phase: Phase, index: u64) -> &Entry {
    let own = match phase {
        Phase::Warmup if !entries.warmup.is_empty() => &entries.warmup,
        Phase::Warmup | Phase::Measured => &entries.measured,
    };
    // Never empty: a workload without a measured entry is not built.
    &own[(index % own.len() as u64) as usize]
}

/// Reads the file of the plan and its hash.
fn read(plan: &Plan, data: &mut dyn BufRead) -> Result<(Loaded, String), DatasetError> {
    let mut hashed = Hashed::new(data);
    let loaded = match &plan.workload.data {
        Data::Sharegpt { filter, salvage, .. } => dataset::sharegpt::read(&mut hashed, *filter, *salvage)?,
        Data::Jsonl { salvage, .. } => dataset::jsonl::read(&mut hashed, *salvage)?,
        Data::Random => Loaded::default(),
    };
    let byte = loaded.damaged.as_ref().map_or(0, |damage| damage.byte);
    let failed = |error: std::io::Error| DatasetError::Read { byte, reason: error.to_string() };
    Ok((loaded, hashed.finish().map_err(failed)?))
}

/// Requests that `plan` announces.
fn wanted(plan: &Plan) -> Result<Wanted, ArrivalError> {
    let mut wanted = Wanted {
        warmup: match plan.warmup {
            Warmup::None => Some(0),
            Warmup::Requests(requests) => Some(requests),
            Warmup::Duration(_) => None,
        },
        measured: plan.stop.requests,
    };
    let unknown = wanted.warmup.is_none() || wanted.measured.is_none();
    if plan.load.arrivals.is_some() && unknown {
        let schedule = arrival::schedule(plan)?;
        wanted = Wanted {
            warmup: Some(schedule.warmup.len() as u64),
            measured: Some(schedule.measured.len() as u64),
        };
    }
    Ok(wanted)
}

/// The longest length that `law` gives, if it has one.
fn longest(law: &LengthLaw) -> Option<u32> {
    match law {
        LengthLaw::Fixed { tokens } => Some(*tokens),
        LengthLaw::Uniform { max, .. } => Some(*max),
        LengthLaw::Lognormal { max, .. } => *max,
        LengthLaw::Empirical { values } => values.iter().max().copied(),
    }
}

#[cfg(test)]
mod tests;
