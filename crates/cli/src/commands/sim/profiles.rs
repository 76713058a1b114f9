//! `goodput sim profiles`: the shipped profiles, with the source of every constant.

use crate::args::SimProfilesArgs;
use crate::commands::show::to_json;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;
use goodput_model::config::Config;
use goodput_model::cost::{StepCost, StepWork};
use goodput_model::knobs::Knobs;
use goodput_model::profile::{Profile, ProfileError};
use serde::Serialize;

/// Context of the decode steps that are shown, in tokens.
const CONTEXT: u32 = 1_000;

/// One profile as it is listed.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    about: String,
    model: String,
    /// What it is for its engine under its own knobs.
    config: Config,
    /// A decode step of one request with 1,000 tokens of context, in milliseconds.
    decode_step_ms: f64,
    /// The same of a full batch, with as many requests as `max_num_seqs`.
    full_decode_step_ms: f64,
    /// A step that computes a prompt of 1,000 tokens and nothing else, in milliseconds.
    prefill_1000_ms: f64,
    sources: Vec<String>,
}

/// Lists them.
pub(crate) fn run(args: &SimProfilesArgs, printer: Printer) -> Result<Exit, Failure> {
    let listed: Vec<Listed> = Profile::names()
        .map(listed)
        .collect::<Result<_, _>>()
        .map_err(|e| Failure::invalid(format!("a shipped profile is wrong: {e}")))?;
    if args.json {
        printer.result(to_json(&listed)?);
    } else {
        printer.raw(&listed.iter().map(text).collect::<Vec<_>>().join("\n"));
    }
    Ok(Exit::Done)
}

fn listed(name: &str) -> Result<Listed, ProfileError> {
    let profile = Profile::shipped(name)?;
    let resolved = profile.resolve(&Knobs::default())?;
    let cost = resolved.config.cost;
    let mut prefill = StepWork::default();
    prefill.add_prefill(1_000, 0);
    Ok(Listed {
        decode_step_ms: decode_ms(&cost, 1),
        full_decode_step_ms: decode_ms(&cost, resolved.config.max_num_seqs),
        prefill_1000_ms: cost.nanos(&prefill, 0) / 1e6,
        sources: profile.sources()?,
        name: profile.name,
        about: profile.about,
        model: resolved.model,
        config: resolved.config,
    })
}

fn decode_ms(cost: &StepCost, sequences: u32) -> f64 {
    let mut work = StepWork::default();
    (0..sequences).for_each(|_| work.add_decode(1, CONTEXT));
    cost.nanos(&work, 0) / 1e6
}

fn text(listed: &Listed) -> String {
    let Listed { name, about, config, .. } = listed;
    let mut text = format!("{name}\n  {about}\n");
    text += &format!(
        "  a decode step takes {:.1} ms for one request and {:.1} ms for {} (with {CONTEXT} tokens each), 1,000 prompt tokens {:.1} ms\n",
        listed.decode_step_ms, listed.full_decode_step_ms, config.max_num_seqs, listed.prefill_1000_ms,
    );
    text += &format!(
        "  {} tokens of KV cache, at most {} tokens a request, {} tokens a step\n",
        config.kv_tokens(),
        config.max_model_len,
        config.max_num_batched_tokens,
    );
    for source in &listed.sources {
        text += &format!("  - {source}\n");
    }
    text
}
