//! Goodput, attainment and verdicts.

use crate::build::{by_name, closed, event, failed, ms, near, ok, stream, summary, text};
use goodput_core::outcome::{CancelCause, Outcome};
use goodput_core::plan::Protocol;
use goodput_core::ruler::{CANONICAL, Ruler};
use goodput_core::slo::{Judged, Slo, Verdict};
use goodput_core::summarise::SummaryRequest;
use goodput_core::summary::{GoodputReport, Summary};
use goodput_core::timeline::{ChunkFlags, Timeline};

fn slo(text: &str) -> Slo {
    Slo::parse(text).expect("valid")
}

fn judge(objectives: &str, ruler: &Ruler, t: &Timeline) -> Verdict {
    let protocol = Protocol::OpenaiChat;
    let measures = ruler.measure(t, protocol);
    slo(objectives).judge(Judged { timeline: t, measures: &measures, ruler, protocol })
}

fn run(objectives: &str, requests: &[Timeline]) -> (Summary, GoodputReport) {
    let slo = slo(objectives);
    let s = summary(requests, &SummaryRequest { slo: Some(&slo), ..SummaryRequest::new(closed()) });
    let g = s.goodput.clone().expect("an SLO was given");
    (s, g)
}

/// Sent at 0, cut off by the run's end at `end_ms`, after these events.
fn cut(end_ms: f64, tokens_at: &[f64]) -> Timeline {
    let mut t = failed(0.0, end_ms, Outcome::Cancelled { cause: CancelCause::RunEnd });
    t.instants.headers = Some(ms(0.0));
    t.chunks = tokens_at.iter().map(|at| text(*at, 1)).collect();
    t
}

#[test]
fn limits_are_inclusive_and_joined() {
    let t = stream(0.0, 500.0, &[50.0, 50.0]);
    let cases = [
        ("ttft:500ms", Verdict::Good),
        ("ttft:499.999999ms", Verdict::Bad),
        ("ttft:500ms,tpot:50ms,e2e:600ms,max_itl:50ms,chunk_gap:50ms", Verdict::Good),
        ("ttft:500ms,tpot:49ms", Verdict::Bad),
        ("ttft:500ms,e2e:599ms", Verdict::Bad),
        ("max_itl:49ms", Verdict::Bad),
    ];
    for (objectives, expected) in cases {
        assert_eq!(judge(objectives, &CANONICAL, &t), expected, "{objectives}");
    }
}

#[test]
fn what_cannot_apply_is_met_and_what_is_unknown_is_neither() {
    let single = stream(0.0, 100.0, &[]);
    assert_eq!(judge("tpot:1ms,max_itl:1ms", &CANONICAL, &single), Verdict::Good);
    assert_eq!(judge("tpot:1ms", by_name("vllm"), &single), Verdict::Good);
    let whole = ok(0.0, vec![event(250.0, ChunkFlags::TEXT | ChunkFlags::WHOLE, 12)]);
    assert_eq!(judge("ttft:1s", &CANONICAL, &whole), Verdict::NotEvaluable);
    assert_eq!(judge("tpot:1s", &CANONICAL, &whole), Verdict::NotEvaluable);
    assert_eq!(judge("e2e:1s", &CANONICAL, &whole), Verdict::Good);
    assert_eq!(judge("ttft:1s,e2e:100ms", &CANONICAL, &whole), Verdict::Bad, "one broken limit decides");

    let (_, g) = run("ttft:1s,tpot:1s", &[single, whole, stream(0.0, 100.0, &[10.0])]);
    assert_eq!((g.good, g.evaluated, g.vacuous, g.not_evaluable), (2, 2, 1, 1));
    assert_eq!(g.attainment.value, Some(1.0));
}

#[test]
fn a_request_cut_off_by_the_end_is_bad_only_if_it_had_broken_something() {
    let cases = [
        // Nothing came within the limit: broken. Nothing came, but the limit was not reached: censored.
        (cut(600.0, &[]), "ttft:500ms", Verdict::Bad),
        (cut(400.0, &[]), "ttft:500ms", Verdict::Censored),
        (cut(900.0, &[550.0]), "ttft:500ms", Verdict::Bad),
        (cut(900.0, &[450.0]), "ttft:500ms", Verdict::Censored),
        (cut(900.0, &[450.0]), "e2e:800ms", Verdict::Bad),
        (cut(900.0, &[450.0]), "e2e:1s", Verdict::Censored),
        (cut(900.0, &[100.0, 500.0, 510.0]), "max_itl:399ms", Verdict::Bad),
        (cut(900.0, &[100.0, 500.0, 510.0]), "max_itl:1s", Verdict::Censored),
        (cut(2000.0, &[100.0, 500.0, 510.0]), "max_itl:1s", Verdict::Bad),
        (cut(900.0, &[100.0, 500.0]), "tpot:1ms", Verdict::Censored),
    ];
    for (t, objectives, expected) in &cases {
        assert_eq!(judge(objectives, &CANONICAL, t), *expected, "{objectives} {:?}", t.chunks);
    }
    let (s, g) = run("ttft:500ms", &[cut(600.0, &[]), cut(400.0, &[]), stream(0.0, 100.0, &[10.0])]);
    assert_eq!((g.good, g.evaluated, g.censored, s.counts.censored), (1, 2, 1, 1));
    assert_eq!(s.metrics["ttft"].n, 1, "what was cut off has no latency");
}

#[test]
fn failures_stay_in_the_denominator() {
    let fast = failed(0.0, 1.0, Outcome::HttpError { status: 503, message: String::new() });
    let good = stream(0.0, 100.0, &[10.0]);
    let slow = stream(0.0, 900.0, &[100.0]);
    let (_, g) = run("ttft:500ms,tpot:50ms", &[good.clone(), good, slow, fast]);
    assert_eq!((g.good, g.evaluated), (2, 4));
    assert_eq!(g.attainment.value, Some(0.5));
    let ttft = &g.per_objective[0];
    assert_eq!((ttft.metric.as_str(), ttft.met, ttft.broken), ("ttft", 2, 2));
    near(ttft.attainment, 0.5);
    near(g.request_per_s, 2.0);
    near(g.token_per_s, 4.0);
    assert!(g.inline);
}

#[test]
fn goodput_of_a_share_of_the_throughput() {
    // Oracle: 96 % attained at 9.5 requests/s is 9.12 requests/s. 950 requests in 100 s.
    let request = |i: u32| {
        let sent = f64::from(i) * 100.0;
        let ttft = if i.is_multiple_of(25) { 900.0 } else { 100.0 };
        // The last answer ends at exactly 100 s.
        let last = if i == 949 { 100_000.0 - sent - ttft } else { 10.0 };
        stream(sent, ttft, &[last])
    };
    let requests: Vec<Timeline> = (0..950).map(request).collect();
    let (s, g) = run("ttft:500ms", &requests);
    near(s.throughput.requests_per_s, 9.5);
    near(g.attainment.value, 0.96);
    near(g.request_per_s, 9.12);
    assert!(g.attainment.low < Some(0.96) && Some(0.96) < g.attainment.high);
}

#[test]
fn fluidity_counts_tokens_that_met_their_deadline() {
    // Deadlines 100, 110, 120, ... ms; the fourth token is late, those that come with it from the fifth on are not.
    let t = ok(0.0, vec![text(100.0, 1), text(105.0, 2), text(135.0, 7)]);
    let fluidity = |ttft, tpot| CANONICAL.fluidity(&t, Protocol::OpenaiChat, ms(ttft), ms(tpot));
    near(fluidity(100.0, 10.0), 0.9);
    near(fluidity(99.0, 10.0), 0.8);
    near(fluidity(135.0, 0.0), 1.0);
    near(fluidity(134.0, 0.0), 0.3);
    assert_eq!(judge("ttft:100ms,tpot:10ms,fluidity:0.9", &CANONICAL, &t), Verdict::Good);
    assert_eq!(judge("ttft:100ms,tpot:10ms,fluidity:0.95", &CANONICAL, &t), Verdict::Bad);
    let (s, _) = run("ttft:100ms,tpot:10ms", &[t]);
    near(s.metrics["fluidity"].mean, 0.9);
    assert_eq!(s.metrics["fluidity"].unit, "share");
}

#[test]
fn a_percentile_objective_is_a_verdict_and_no_goodput() {
    let requests: Vec<Timeline> = (0..500).map(|i| stream(0.0, f64::from(i) + 1.0, &[10.0])).collect();
    let (_, g) = run("ttft.p95:490ms", &requests);
    assert_eq!(
        (g.verdicts[0].objective.as_str(), g.verdicts[0].verdict.as_str()),
        ("ttft.p95:490ms", "pass")
    );
    assert_eq!((g.verdicts[0].low, g.verdicts[0].high), (Some(465.0), Some(485.0)));
    assert_eq!((g.request_per_s, g.attainment.value, g.evaluated), (None, None, 0));

    // The same run with one failure to every ten answers cannot keep a p95.
    let failures = (0..50).map(|_| failed(0.0, 1.0, Outcome::Reset));
    let with_failures: Vec<Timeline> = requests.into_iter().chain(failures).collect();
    let (_, g) = run("ttft.p95:490ms", &with_failures);
    assert_eq!(g.verdicts[0].verdict, "fail");
}

#[test]
fn an_slo_meant_for_another_load_says_so() {
    let text = "window = \"whole\"\nworkload = \"chat\"\nattainment = 0.9\n[load]\nrate = \"20/s\"\n\
                [[objective]]\nmetric = \"ttft\"\nlimit = \"1s\"\n";
    let slo = Slo::from_toml(text).expect("all five parts");
    let request = SummaryRequest { slo: Some(&slo), ..SummaryRequest::new(closed()) };
    let s = summary(&[stream(0.0, 100.0, &[10.0])], &request);
    assert!(s.findings.iter().any(|f| f.rule == "other_load"));
    assert!(!s.goodput.expect("given").inline);
}
