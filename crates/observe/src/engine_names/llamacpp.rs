//! llama.cpp's families, as `llama-server --metrics` writes them: counters and averages, no histogram and no
//! label. Read only: nothing here writes such a page.

use super::{Merge, Spec, counter, gauge};

/// Families of the page.
pub const FAMILIES: &[Spec] = &[
    counter(
        "llamacpp:prompt_tokens_total",
        &[],
        "prompt tokens computed; those found in the cache are not in it",
    ),
    counter("llamacpp:prompt_tokens_cached_total", &[], "prompt tokens found in the cache"),
    counter("llamacpp:prompt_seconds_total", &[], "seconds spent on prompts, slots added"),
    counter("llamacpp:tokens_predicted_total", &[], "tokens generated"),
    counter("llamacpp:tokens_predicted_seconds_total", &[], "seconds spent on generation, slots added"),
    counter("llamacpp:n_decode_total", &[], "decode calls of the model, speculation left out"),
    counter(
        "llamacpp:n_tokens_max",
        &[],
        "the longest sequence seen, prompt and output; said to be a counter",
    ),
    counter("llamacpp:spec_decode_num_draft_tokens_total", &[], "draft tokens proposed"),
    counter("llamacpp:spec_decode_num_accepted_tokens_total", &[], "draft tokens accepted"),
    counter("llamacpp:spec_decode_num_drafts_total", &[], "drafts verified"),
    gauge(
        "llamacpp:prompt_tokens_seconds",
        &[],
        Merge::Sum,
        "prompt tokens a second, a mean over its own window",
    ),
    gauge(
        "llamacpp:predicted_tokens_seconds",
        &[],
        Merge::Sum,
        "tokens a second, a mean over its own window",
    ),
    gauge("llamacpp:requests_processing", &[], Merge::Sum, "requests in slots"),
    gauge("llamacpp:requests_deferred", &[], Merge::Sum, "requests that wait for a slot"),
    gauge("llamacpp:n_busy_slots_per_decode", &[], Merge::Mean, "slots busy per decode call, a mean"),
];
