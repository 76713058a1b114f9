//! The head of the report: which run this is, what was asked, what was sent, and what came back in all.

use super::ReportContext;
use crate::layout::paragraph;
use crate::number::{count, counted, figure, given, law_title, optional};
use goodput_core::load_check::LoadKind;
use goodput_core::outcome::Outcome;
use goodput_core::ruler::ruler;
use goodput_core::summary::{GapCheck, Summary, Window};
use goodput_core::tokens::TokenSource;

/// Name and path, and what must be known before anything else is read.
pub(super) fn banner(s: &Summary, context: &ReportContext) -> String {
    let run = s.run.as_deref().unwrap_or("unnamed run");
    let path = context.path.as_ref().map_or_else(String::new, |path| format!(" ({path})"));
    let mut text = paragraph("", &format!("goodput {}: {run}{path}", context.goodput));
    match &context.partial {
        Some(why) => text += &paragraph("PARTIAL ", &format!("{why}; the figures cover what was finished")),
        None if s.partial => text += "PARTIAL the run was cut off; the figures cover what was finished\n",
        None => {}
    }
    if s.load.client_limited {
        text += &paragraph("CLIENT-LIMITED ", &s.load.reasons.join("; "));
    }
    text
}

/// Everything that is one line of facts.
pub(super) fn facts(s: &Summary, context: &ReportContext) -> String {
    let mut text = paragraph("target      ", &target(context));
    text += &paragraph("ruler       ", &ruler_line(s));
    text += &paragraph("requests    ", &requests(s));
    text += &paragraph("load        ", &load(s));
    if let Some(late) = &s.load.lateness_ms {
        let line = format!(
            "sent - scheduled: p50 {}, p99 {}, max {} ms",
            figure(late.p50),
            figure(late.p99),
            figure(late.max)
        );
        text += &paragraph("lateness    ", &line);
    }
    text += &paragraph("client      ", &client(s, context));
    if let Some(line) = &context.self_check {
        text += &paragraph("self-check  ", line);
    }
    text += &paragraph("connect     ", &connect(s, context));
    text += &windows(s);
    text += &paragraph("throughput  ", &throughput(s));
    text += &paragraph("in flight   ", &in_flight(s));
    text += &paragraph("tokens      ", &tokens(s));
    text
}

fn target(context: &ReportContext) -> String {
    let engine = match (&context.engine, &context.engine_version) {
        (Some(engine), Some(version)) => format!("{engine} {version}"),
        (Some(engine), None) => format!("{engine}, version unknown"),
        (None, Some(version)) => format!("engine unknown, version {version}"),
        (None, None) => "engine unknown".into(),
    };
    format!("{}, {}, model {}, {engine}", context.url, context.protocol, context.model)
}

fn ruler_line(s: &Summary) -> String {
    ruler(&s.ruler).map_or_else(
        || s.ruler.clone(),
        |ruler| format!("{} ({} {}): {}", ruler.name, ruler.tool, ruler.version, ruler.summary),
    )
}

fn requests(s: &Summary) -> String {
    let counts = &s.counts;
    let n = |name: &str| counts.outcomes.get(name).copied().unwrap_or(0);
    let others: Vec<String> = Outcome::NAMES
        .iter()
        .filter(|name| **name != "ok" && n(name) > 0)
        .map(|name| format!("{name} {}", count(n(name))))
        .collect();
    let ended: Vec<String> = std::iter::once(format!("{} ok", count(counts.ok))).chain(others).collect();
    let mut text = format!("{} issued: {}", count(counts.issued), ended.join(", "));
    let beside = [
        (counts.censored, "censored (cut off by the run's end with nothing broken)"),
        (counts.warmup, "warm-up, in no figure"),
        (counts.never_released, "never released"),
        (counts.stale_retries, "sent again on a fresh connection"),
    ];
    for (n, what) in beside.iter().filter(|(n, _)| *n > 0) {
        text += &format!("; {} {what}", count(*n));
    }
    text
}

fn load(s: &Summary) -> String {
    let load = &s.load;
    let rate = |rps: Option<f64>| rps.map_or_else(|| "-".into(), |rps| format!("{}/s", figure(rps)));
    let slots = |word: &str| load.concurrency.map_or_else(String::new, |n| format!(", {word} {n}"));
    if load.kind == LoadKind::Closed.name() {
        let sent = rate(load.offered_rps);
        return format!("closed loop{}, sent {sent}; a closed loop has no schedule to keep", slots("slots"));
    }
    let law = load.gaps.as_ref().map_or_else(String::new, |gaps| format!(" {}", law_title(&gaps.law)));
    let mut text = match load.asked_rps {
        Some(asked) => format!("{} loop{}: asked{law} {}/s", load.kind, slots("cap"), given(asked)),
        None if load.gaps.is_some() => {
            format!("{} loop{}: asked{law} at a changing rate", load.kind, slots("cap"))
        }
        None => format!("{} loop{}: no rate asked", load.kind, slots("cap")),
    };
    text += &format!(", the seed scheduled {}, sent {}", rate(load.scheduled_rps), rate(load.offered_rps));
    text += &match &load.gaps {
        Some(gaps) => format!(", gaps {}", gaps_line(gaps)),
        None => "; there is no law to hold the gaps against".to_owned(),
    };
    text
}

/// The verdict on the gaps with the figures it rests on.
fn gaps_line(gaps: &GapCheck) -> String {
    let ks = gaps.ks_p.map(|p| format!("KS p = {}", figure(p)));
    let asked = if gaps.asked_cv.fract() == 0.0 { given(gaps.asked_cv) } else { figure(gaps.asked_cv) };
    let cv = format!("CV {}, asked {asked}", figure(gaps.cv));
    let dispersion = gaps.dispersion.zip(gaps.dispersion_low).zip(gaps.dispersion_high);
    let dispersion = dispersion.map(|((index, low), high)| {
        format!("dispersion {}, allowed {} to {}", figure(index), figure(low), figure(high))
    });
    let figures: Vec<String> = ks.into_iter().chain([cv]).chain(dispersion).collect();
    let verdict = if gaps.verdict == "too_few" { "too few to test" } else { &gaps.verdict };
    format!("{verdict} ({})", figures.join("; "))
}

/// What the client can have added to the figures, and what it did beside sending.
fn client(s: &Summary, context: &ReportContext) -> String {
    let bound = &s.load.error_bound_ms;
    let parts = [("TTFT", bound.ttft_p99, &bound.ttft_unknown), ("ITL", bound.itl_p99, &bound.itl_unknown)];
    let known =
        |(what, ms, _): &(&str, Option<f64>, _)| ms.map(|ms| format!("+{} ms to {what} p99", figure(ms)));
    let unknown = |(what, ms, why): &(&str, Option<f64>, &Option<String>)| {
        let why = why.as_deref().unwrap_or("the record does not say");
        ms.is_none().then(|| format!("what it adds to {what} p99 is unknown, because {why}"))
    };
    let added: Vec<String> = parts.iter().filter_map(known).collect();
    let bound = (!added.is_empty()).then(|| format!("adds at most {}", added.join(", ")));
    let unknown = parts.iter().filter_map(unknown);
    bound.into_iter().chain(unknown).chain(context.client.clone()).collect::<Vec<_>>().join("; ")
}

/// Set-up of connections, apart from the requests that needed it.
fn connect(s: &Summary, context: &ReportContext) -> String {
    let used = &s.connections;
    let ready = context.ready.as_ref().map(|ready| {
        let set_up = delays(ready.p50_ms, ready.p99_ms, ready.max_ms);
        format!("{} ready before the start ({set_up}, in no latency)", counted(ready.count, "connection"))
    });
    let own = match &used.setup_ms {
        None => "no request waited for one of its own".to_owned(),
        Some(setup) => {
            let within = if s.load.kind == LoadKind::Closed.name() {
                "no latency"
            } else {
                "latencies from the schedule"
            };
            let set_up = delays(Some(setup.p50), Some(setup.p99), Some(setup.max));
            format!("{} waited for one of their own ({set_up}, in {within})", counted(used.opened, "request"))
        }
    };
    let others = format!(
        "{} came first on a ready one, {} on a reused one",
        counted(used.ready, "request"),
        count(used.reused)
    );
    ready.into_iter().chain([own, others]).collect::<Vec<_>>().join("; ")
}

/// Percentiles of a set-up.
fn delays(p50: Option<f64>, p99: Option<f64>, max: Option<f64>) -> String {
    format!("p50 {}, p99 {}, max {} ms", optional(p50), optional(p99), optional(max))
}

fn windows(s: &Summary) -> String {
    let line = |window: &Window| {
        format!(
            "{}, {} s from {} s on, {}: {}",
            window.kind,
            figure(window.duration_s),
            figure(window.start_s),
            counted(window.requests, "request"),
            window.how
        )
    };
    let mut text = paragraph("window      ", &line(&s.window));
    for other in &s.windows {
        text += &paragraph("            ", &format!("not used here: {}", line(other)));
    }
    text
}

fn throughput(s: &Summary) -> String {
    let t = &s.throughput;
    let mut text = format!(
        "{} requests/s, {} input tok/s, {} output tok/s, {} total tok/s",
        optional(t.requests_per_s),
        optional(t.input_tokens_per_s),
        optional(t.output_tokens_per_s),
        optional(t.total_tokens_per_s)
    );
    if let Some(peak) = t.peak_output_tokens_per_s {
        text += &format!("; busiest second {} output tokens", given(peak));
    }
    text
}

fn in_flight(s: &Summary) -> String {
    let c = &s.concurrency;
    let (mean, ratio) = (optional(c.mean), optional(c.little_ratio));
    format!("mean {mean}, peak {}; Little's law (lambda W / L) {ratio}", counted(c.peak, "request"))
}

fn tokens(s: &Summary) -> String {
    let t = &s.tokens;
    let n = |source: &TokenSource| t.sources.get(source.name()).copied().unwrap_or(0);
    let sources: Vec<String> = TokenSource::ALL
        .iter()
        .filter(|source| n(source) > 0)
        .map(|source| {
            let estimate = if source.is_estimate() { " (an estimate)" } else { "" };
            format!("{}{estimate} for {}", source.name(), counted(n(source), "request"))
        })
        .collect();
    let mut text = format!("{} input, {} output", count(t.input), count(t.output));
    if !sources.is_empty() {
        text += &format!("; output counted by {}", sources.join(", "));
    }
    if let Some(chunks) = t.chunks_per_token {
        text += &format!("; {} chunks per token", figure(chunks));
    }
    if let Some(cached) = t.cached_input {
        text += &format!("; {} of the input from the prefix cache", count(cached));
    }
    if t.mismatched > 0 {
        text += &format!("; sums over chunks differ in {}", counted(t.mismatched, "request"));
    }
    text
}
