//! Every rule about the measurement fires where it should, and none on a clean run.

use crate::build::{closed, due, event, failed, ms, ok, open, stream, summary};
use goodput_core::load_check::LoadContext;
use goodput_core::outcome::Outcome;
use goodput_core::slo::Slo;
use goodput_core::summarise::{RULES, SummaryRequest};
use goodput_core::timeline::{ChunkFlags, Timeline};
use goodput_core::tokens::{TokenCount, TokenSource};
use goodput_core::window::WindowKind;

const SLO: &str = "window = \"whole\"\nworkload = \"chat\"\nattainment = 0.9\n[load]\nrate = \"20/s\"\n\
                   [[objective]]\nmetric = \"ttft\"\nlimit = \"1s\"\n";

fn fired(requests: &[Timeline], request: &SummaryRequest<'_>) -> Vec<String> {
    summary(requests, request).findings.into_iter().map(|f| f.rule).collect()
}

/// 100 requests, 100 ms apart, that are sent in time; TTFT by their number.
fn sent_in_time(ttft: impl Fn(u32) -> u32) -> Vec<Timeline> {
    let request =
        |i: u32| due(stream(f64::from(i) * 100.0, f64::from(ttft(i)), &[10.0, 10.0]), f64::from(i) * 100.0);
    (0..100).map(request).collect()
}

fn clean() -> Vec<Timeline> {
    sent_in_time(|i| 50 + i % 5)
}

/// The clean run with its first request changed.
fn with(change: impl Fn(&mut Timeline)) -> Vec<Timeline> {
    let mut requests = clean();
    change(&mut requests[0]);
    requests
}

/// A run that makes the rule with this id fire.
fn provoked(id: &str) -> Vec<String> {
    let slo = Slo::from_toml(SLO).expect("all five parts");
    let plain = SummaryRequest::new(open());
    let judged = SummaryRequest { slo: Some(&slo), ..plain.clone() };
    let capped = SummaryRequest::new(LoadContext { concurrency: Some(1), ..open() });
    let counted = |count, source| with(|t| t.output = Some(TokenCount { count, source }));
    match id {
        "client_limited" => fired(&[due(stream(5.0, 50.0, &[10.0]), 0.0)], &plain),
        "all_failed" => fired(&[failed(0.0, 1.0, Outcome::Reset)], &plain),
        "failures" => fired(&with(|t| t.outcome = Outcome::Truncated { inside_body: true }), &plain),
        "partial" => fired(&clean(), &SummaryRequest { partial: true, ..plain }),
        "estimated_tokens" => fired(&counted(3, TokenSource::Chunks), &plain),
        "other_load" => fired(&clean(), &judged),
        "no_steady_window" => {
            fired(&sent_in_time(|i| i * i), &SummaryRequest { window: WindowKind::Steady, ..plain })
        }
        "token_sum" => fired(&counted(9, TokenSource::Server), &plain),
        "hidden_stall" => fired(&with(|t| *t = due(stream(0.0, 50.0, &[900.0]), 0.0)), &plain),
        "cap_wait" => {
            let mut held = due(stream(40.0, 50.0, &[10.0]), 0.0);
            held.instants.released = ms(40.0);
            fired(&[held], &capped)
        }
        "vacuous" => {
            let whole = ok(0.0, vec![event(50.0, ChunkFlags::TEXT | ChunkFlags::WHOLE, 5)]);
            fired(&[whole], &SummaryRequest { load: closed(), ..judged })
        }
        "not_settled" => fired(&sent_in_time(|i| i * i), &plain),
        other => panic!("{other} has no run that provokes it"),
    }
}

#[test]
fn every_rule_fires_where_it_should() {
    for rule in RULES {
        let fired = provoked(rule.id);
        assert!(fired.iter().any(|id| id == rule.id), "{} is not in {fired:?}", rule.id);
    }
}

#[test]
fn a_clean_run_has_no_finding() {
    assert_eq!(fired(&clean(), &SummaryRequest::new(open())), Vec::<String>::new());
}
