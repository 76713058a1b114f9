//! Prints a page as an engine would write it after some requests: `simulated_page vllm|sglang text|openmetrics
//! before|after`. The two moments are of one and the same run, so that a window lies between them.
//!
//! The requests are made up and the same every time. Real Prometheus reads these pages in `scripts/prometheus`.
#![expect(clippy::print_stdout, reason = "the page is the output")]

use goodput_core::time::Nanos;
use goodput_observe::expose::Format;
use goodput_observe::page::{
    Asked, Choice, EnginePage, FinishReason, Load, Observation, Output, Rejection, Setup, Stamp, Step,
};
use std::process::ExitCode;

/// Requests told before each of the two moments.
const BEFORE: u64 = 40;
const AFTER: u64 = 400;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let [engine, format, moment] = words[..] else { return usage() };
    let setup = Setup { created: EPOCH, ..Setup::new("org/simulated-8b") };
    let mut page = match engine {
        "vllm" => EnginePage::vllm(&setup),
        "sglang" => EnginePage::sglang(&setup),
        _ => return usage(),
    };
    let format = match format {
        "text" => Format::Text,
        "openmetrics" => Format::OpenMetrics,
        _ => return usage(),
    };
    let requests = match moment {
        "before" => BEFORE,
        "after" => AFTER,
        _ => return usage(),
    };
    (0..requests).for_each(|request| tell(&mut page, request));
    print!("{}", page.render(format));
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    println!("usage: simulated_page vllm|sglang text|openmetrics before|after");
    ExitCode::from(2)
}

const EPOCH: Nanos = Nanos::from_secs(1_750_000_000);

/// A made-up number below `below` for one purpose of one request.
const fn made_up(request: u64, purpose: u64, below: u64) -> u64 {
    let mixed = (request * 1_000_003 + purpose * 7919 + 12_345).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 33) % below
}

/// The life of one request: most finish, some are rejected, given up or preempted.
fn tell(page: &mut EnginePage, request: u64) {
    let draw = |purpose, below| made_up(request, purpose, below);
    let mut now = request * 50_000;
    let mut tell = |us: u64, observation: Observation<'_>| {
        now += us;
        let stamp = Stamp {
            frontend: EPOCH + Nanos::from_micros(now) + Nanos::from_micros(700),
            engine: Nanos::from_micros(now),
        };
        page.observe(stamp, &observation);
    };
    let choice = (request % 10 < 2).then_some(Choice { group: request / 10, of: 2 });
    let prompt_tokens = 1 + draw(1, 3000);
    let asked = Asked { prompt_tokens, max_tokens: Some(256), streaming: draw(2, 4) > 0, choice };
    tell(0, Observation::Arrived { request, asked });
    if draw(3, 40) == 0 {
        return tell(0, Observation::Rejected { request, reason: Rejection::QueuedRequests });
    }
    tell(draw(4, 900), Observation::Queued { request });
    let cached_tokens = if draw(5, 3) == 0 { prompt_tokens / 32 * 16 } else { 0 };
    tell(draw(6, 700_000), Observation::Admitted { request, cached_tokens });
    if draw(7, 15) == 0 {
        tell(draw(8, 90_000), Observation::Preempted { request });
    }
    let tokens = 1 + draw(9, 200);
    let load =
        Load { running: draw(10, 64), waiting: draw(11, 9), kv_used: draw(12, 60_000), ..Load::default() };
    for token in 0..tokens {
        let outputs = [Output { request, tokens: 1 + draw(100 + token, 3) / 2 }];
        let mut step = Step { outputs: &outputs, load, ..Step::default() };
        let us = if token == 0 {
            step.prefill_tokens = prompt_tokens - cached_tokens;
            step.cached_tokens = cached_tokens;
            step.prefill_tokens * 60
        } else {
            8_000 + draw(1000 + token, 5_000) + u64::from(draw(2000 + token, 60) == 0) * 400_000
        };
        tell(us, Observation::Step(step));
        if token == 30 && draw(13, 12) == 0 {
            return tell(10, Observation::GivenUp { request });
        }
    }
    let reason = if draw(14, 3) == 0 { FinishReason::Stop } else { FinishReason::Length };
    tell(0, Observation::Finished { request, reason });
}
