//! The same bytes under different rulers.

use crate::build::{
    by_name, canonical, closed, event, failed, ms, near, ok, stream, summary, text, with_tokens,
};
use goodput_core::metric::Metric;
use goodput_core::outcome::Outcome;
use goodput_core::plan::Protocol;
use goodput_core::ruler::{CANONICAL, Measures, RULERS};
use goodput_core::summarise::SummaryRequest;
use goodput_core::timeline::{Chunk, ChunkFlags, Timeline};
use goodput_core::tokens::{TokenCount, TokenSource};

const CHAT: Protocol = Protocol::OpenaiChat;
const ROLE: ChunkFlags = ChunkFlags(ChunkFlags::CHOICES.0 | ChunkFlags::ROLE.0 | ChunkFlags::EMPTY_TEXT.0);
const EMPTY_FINISH: ChunkFlags =
    ChunkFlags(ChunkFlags::CHOICES.0 | ChunkFlags::EMPTY_TEXT.0 | ChunkFlags::FINISH.0);

fn under(name: &str, t: &Timeline) -> Measures {
    by_name(name).measure(t, CHAT)
}

fn itl(name: &str, t: &Timeline, protocol: Protocol) -> Vec<(f64, u64)> {
    let mut samples = Vec::new();
    by_name(name).each_itl(t, protocol, |gap, n| samples.push((gap, n)));
    samples
}

/// Role at 10 ms, tokens at 200, 210, 220 ms, an empty finish event at 300 ms, usage at 310, `[DONE]` at 311.
fn chat() -> Timeline {
    let mut t = ok(
        0.0,
        vec![
            event(10.0, ROLE, 0),
            text(200.0, 1),
            text(210.0, 1),
            text(220.0, 1),
            event(300.0, EMPTY_FINISH, 0),
            event(310.0, ChunkFlags::USAGE, 0),
            event(311.0, ChunkFlags::DONE, 0),
        ],
    );
    t.instants.done = Some(ms(311.0));
    t
}

#[test]
fn one_stream_many_rulers() {
    // Name, TTFT, E2E, TPOT with N = 3.
    let expected = [
        ("canonical", 200.0, 220.0, 10.0),
        ("vllm", 200.0, 300.0, 50.0),
        ("vllm-0.32", 10.0, 300.0, 145.0),
        ("vllm-rs", 10.0, 300.0, 145.0),
        ("sglang", 200.0, 311.0, 55.5),
        ("sglang-oai", 200.0, 311.0, 55.5),
    ];
    assert_eq!(expected.len(), RULERS.len(), "every ruler is checked");
    for (name, ttft, e2e, tpot) in expected {
        let m = under(name, &chat());
        assert!(m.success, "{name}");
        assert_eq!(m.get(Metric::Ttft), Some(ttft), "{name}");
        assert_eq!(m.get(Metric::E2e), Some(e2e), "{name}");
        assert_eq!(m.get(Metric::Tpot), Some(tpot), "{name}");
        assert_eq!(m.get(Metric::FirstChunk), Some(10.0), "{name}");
    }
    let gaps = |name| itl(name, &chat(), CHAT);
    assert_eq!(gaps("canonical"), [(10.0, 1), (10.0, 1)]);
    assert_eq!(gaps("vllm"), [(10.0, 1), (10.0, 1), (80.0, 1)]);
    assert_eq!(gaps("vllm-0.32"), [(190.0, 1), (10.0, 1), (10.0, 1), (80.0, 1)]);
    assert_eq!(gaps("sglang-oai"), [(10.0, 1), (10.0, 1)]);
}

#[test]
fn only_the_canonical_ruler_starts_at_the_schedule() {
    let mut t = stream(100.0, 50.0, &[10.0]);
    t.instants.scheduled = Some(ms(30.0));
    t.instants.released = ms(60.0);
    t.instants.connect_start = Some(ms(70.0));
    t.instants.connected = Some(ms(95.0));
    let m = under("canonical", &t);
    assert_eq!(m.get(Metric::Ttft), Some(120.0));
    assert_eq!(m.get(Metric::TtftSent), Some(50.0));
    assert_eq!(m.get(Metric::ClientQueue), Some(70.0));
    assert_eq!(m.get(Metric::CapWait), Some(30.0));
    assert_eq!(m.get(Metric::Connect), Some(25.0));
    assert_eq!(under("vllm", &t).get(Metric::Ttft), Some(80.0), "with the connection's set-up");
    t.instants.scheduled = None;
    assert_eq!(under("canonical", &t).get(Metric::Ttft), Some(50.0));
}

#[test]
fn reasoning_counts_as_a_token_and_not_as_the_answer() {
    let reasoning = ChunkFlags::CHOICES | ChunkFlags::REASONING_CONTENT;
    let events = vec![event(200.0, reasoning, 1), event(230.0, reasoning, 1), text(290.0, 1), text(320.0, 1)];
    let t = ok(0.0, events);
    let m = under("canonical", &t);
    assert_eq!((m.get(Metric::Ttft), m.get(Metric::Ttfa)), (Some(200.0), Some(290.0)));
    assert_eq!(under("vllm", &t).get(Metric::Ttft), Some(290.0), "the tool does not know this name");
    assert_eq!(under("sglang-oai", &t).get(Metric::Ttft), Some(200.0));
}

#[test]
fn chunks_of_several_tokens() {
    // Two events of four tokens, 400 ms apart: SGLang's native client drops the first event's further tokens.
    let t = ok(0.0, vec![text(100.0, 4), text(500.0, 4)]);
    let native = Protocol::Sglang;
    assert_eq!(itl("sglang", &t, native), [(100.0, 4)]);
    assert_eq!(itl("canonical", &t, native), [(100.0, 4), (0.0, 3)]);
    assert_eq!(itl("sglang-oai", &t, native), [(400.0, 1)]);
    near(under("sglang", &t).get(Metric::Tpot), 400.0 / 7.0);
    near(under("canonical", &t).get(Metric::DecodeTpot), 100.0);
}

#[test]
fn an_uncounted_chunk_hands_its_time_on() {
    let with = |chunks: Vec<Chunk>| itl("canonical", &ok(0.0, chunks), CHAT);
    assert_eq!(with(vec![text(0.0, 1), text(10.0, 0), text(30.0, 2)]), [(15.0, 2)]);
    assert_eq!(with(vec![text(0.0, 1), text(10.0, 2), text(30.0, 0)]), [(15.0, 2)]);
    assert_eq!(with(vec![text(0.0, 2), text(30.0, 0)]), [(30.0, 1)]);
    assert_eq!(with(vec![text(0.0, 0), text(10.0, 1), text(30.0, 1)]), [(30.0, 1)]);
}

#[test]
fn tools_that_take_a_broken_answer_for_a_success() {
    let outcomes = [
        Outcome::StreamError { message: "out of memory".into() },
        Outcome::Truncated { inside_body: false },
        Outcome::Aborted { reason: "abort".into() },
    ];
    for outcome in outcomes {
        let mut t = stream(0.0, 100.0, &[10.0, 10.0]);
        t.outcome = outcome;
        for r in RULERS {
            assert_eq!(r.measure(&t, CHAT).success, r.name != "canonical", "{} {:?}", r.name, t.outcome);
        }
        assert_eq!(under("canonical", &t).get(Metric::Ttft), None);
        assert_eq!(under("canonical", &t).observed(Metric::Ttft), Some(100.0));
    }
    for outcome in [Outcome::Reset, Outcome::HttpError { status: 503, message: String::new() }] {
        let t = failed(0.0, 5.0, outcome);
        assert!(RULERS.iter().all(|r| !r.measure(&t, CHAT).success));
    }
    let mut t = stream(0.0, 100.0, &[10.0, 10.0]);
    t.outcome = Outcome::Truncated { inside_body: true };
    assert!(RULERS.iter().all(|r| !r.measure(&t, CHAT).success), "every tool's HTTP library reports it");
    t.outcome = Outcome::StreamError { message: "out of memory".into() };
    let completions = Protocol::OpenaiCompletions;
    for r in RULERS {
        let fails = ["canonical", "sglang", "sglang-oai"].contains(&r.name);
        assert_eq!(r.measure(&t, completions).success, !fails, "{}", r.name);
    }
}

#[test]
fn a_rejection_inside_a_200_is_a_fast_success_to_sglang() {
    let mut t = failed(0.0, 5.0, Outcome::Aborted { reason: "queue full".into() });
    t.max_tokens = Some(512);
    t.chunks = vec![event(5.0, ChunkFlags::FINISH, 0)];
    let m = under("sglang", &t);
    assert_eq!((m.get(Metric::Ttft), m.output_tokens), (Some(0.0), Some(512)), "the tool's phantom tokens");
    assert!(!under("vllm", &t).success && !under("canonical", &t).success);
}

#[test]
fn where_n_comes_from() {
    let mut t = with_tokens(stream(0.0, 100.0, &[10.0, 10.0]), 7);
    t.max_tokens = Some(64);
    // Usage rides on the last text event only.
    t.chunks[2].flags |= ChunkFlags::USAGE;
    let n = |name, t: &Timeline| under(name, t).output_tokens;
    assert_eq!(n("canonical", &t), Some(7));
    assert_eq!(n("vllm", &t), None, "usage beside a choice is not read, and the text was not counted");
    let mut early = t.clone();
    early.chunks.insert(0, event(50.0, ChunkFlags::CHOICES | ChunkFlags::ROLE | ChunkFlags::USAGE, 0));
    assert_eq!(n("vllm", &early), None, "usage before the first token says 0");
    t.chunks.push(event(130.0, ChunkFlags::USAGE, 0));
    assert_eq!(n("vllm", &t), Some(7));
    t.chunks.pop();
    assert_eq!(n("vllm-rs", &t), Some(7));
    assert_eq!(by_name("sglang-oai").measure(&t, Protocol::OpenaiCompletions).output_tokens, Some(7));
    // No usage at all; the text was counted by the model's tokenizer.
    t.server.completion_tokens = None;
    t.output = Some(TokenCount { count: 5, source: TokenSource::Retokenised });
    assert_eq!(n("canonical", &t), Some(5));
    assert_eq!(n("vllm", &t), Some(5));
    assert_eq!(n("vllm-rs", &t), Some(3), "the number of events");
    assert_eq!(n("sglang-oai", &t), Some(64), "the requested length");
}

#[test]
fn usage_of_a_completions_stream_needs_text_beside_it_for_sglang() {
    let mut t = with_tokens(stream(0.0, 100.0, &[10.0]), 2);
    t.max_tokens = Some(64);
    t.chunks.push(event(120.0, ChunkFlags::USAGE, 0));
    t.instants.closed = Some(ms(120.0));
    let n = |protocol| by_name("sglang-oai").measure(&t, protocol).output_tokens;
    assert_eq!(n(Protocol::OpenaiChat), Some(2));
    assert_eq!(n(Protocol::OpenaiCompletions), Some(64));
}

#[test]
fn a_whole_body_has_an_end_and_no_first_token() {
    let mut t = ok(0.0, vec![event(250.0, ChunkFlags::TEXT | ChunkFlags::WHOLE | ChunkFlags::USAGE, 12)]);
    t.instants.closed = Some(ms(251.0));
    for r in RULERS {
        let m = r.measure(&t, CHAT);
        assert!(m.success, "{}", r.name);
        assert_eq!(m.get(Metric::E2e), Some(250.0), "{}", r.name);
        assert_eq!(m.output_tokens, Some(12), "{}", r.name);
        for metric in [Metric::Ttft, Metric::Ttfa, Metric::FirstChunk, Metric::Tpot, Metric::MaxItl] {
            assert_eq!(m.get(metric), None, "{} {}", r.name, metric.name());
        }
        assert!(itl(r.name, &t, CHAT).is_empty(), "{}", r.name);
    }
}

#[test]
fn the_stall_that_a_p99_does_not_show() {
    // Oracle: ITL 20 ms, N = 500, one gap of 1,500 ms.
    let mut gaps = vec![20.0; 499];
    gaps[250] = 1500.0;
    let s = canonical(&[stream(0.0, 100.0, &gaps)]);
    let tpot = s.metrics["tpot"].mean;
    near(tpot, (498.0 * 20.0 + 1500.0) / 499.0);
    assert!((tpot.expect("defined") - 22.965_932).abs() < 5e-7);
    near(s.metrics["itl"].percentiles["p99"].value, 20.0);
    near(s.metrics["max_itl"].max, 1500.0);
    assert_eq!((s.stalls.count, s.stalls.requests, s.stalls.max_itl_request), (1, 1, Some(0)));
    near(Some(s.stalls.total_ms), 1500.0);
    assert!(s.findings.iter().any(|f| f.rule == "hidden_stall"));
}

#[test]
fn the_denominator() {
    // Oracle: prefill 400 ms, then 200 tokens every 20 ms: E2E / N exceeds TPOT by 2 ms.
    let m = under("canonical", &stream(0.0, 420.0, &[20.0; 199]));
    let (normalised, tpot) = (m.get(Metric::NormalisedLatency), m.get(Metric::Tpot));
    near(tpot, 20.0);
    near(normalised, 22.0);
}

#[test]
fn peaks_by_events_and_by_whole_seconds() {
    // Oracle: twenty strictly sequential requests of 50 ms.
    let sequential: Vec<Timeline> = (0..20).map(|i| stream(f64::from(i) * 50.0, 20.0, &[30.0])).collect();
    let peak = |name| {
        let request = SummaryRequest { ruler: by_name(name), ..SummaryRequest::new(closed()) };
        summary(&sequential, &request).concurrency.peak
    };
    assert_eq!(peak("canonical"), 1);
    assert_eq!(peak("vllm"), 20);
    assert_eq!(peak("sglang"), 20);
}

#[test]
fn peak_output_counts_tokens_or_events() {
    // Four tokens every 100 ms for 3 s: 40 tokens/s, 10 events/s.
    let events = (0..30).map(|i| text(f64::from(i) * 100.0, 4)).collect();
    let run = [ok(0.0, events)];
    let peak = |name| {
        let request = SummaryRequest { ruler: by_name(name), ..SummaryRequest::new(closed()) };
        summary(&run, &request).throughput.peak_output_tokens_per_s
    };
    assert_eq!(peak("canonical"), Some(40.0));
    assert_eq!(peak("vllm"), Some(10.0));
    assert_eq!(peak("sglang-oai"), Some(10.0));
    assert_eq!(peak("sglang"), Some(40.0), "its samples are per token on the native endpoint");
}

#[test]
fn a_peak_is_not_cut_at_whole_seconds() {
    // Ten tokens around each of two seconds' border: 0.9 to 1.1 s.
    let events =
        (0..10).map(|i| text(f64::from(i).mul_add(20.0, 910.0), 1)).chain([text(5000.0, 1)]).collect();
    assert_eq!(canonical(&[ok(0.0, events)]).throughput.peak_output_tokens_per_s, Some(10.0));
}

#[test]
fn the_median_request_is_measured_alike_by_all_where_nothing_is_special() {
    let t = stream(0.0, 100.0, &[10.0; 9]);
    let mut plain = t.clone();
    plain.chunks.push(event(190.0, ChunkFlags::USAGE, 0));
    for r in RULERS {
        let m = r.measure(&plain, CHAT);
        assert_eq!(m.get(Metric::Ttft), Some(100.0), "{}", r.name);
        assert_eq!(m.get(Metric::Tpot), Some(10.0), "{}", r.name);
        assert_eq!(m.get(Metric::E2e), CANONICAL.measure(&t, CHAT).get(Metric::E2e), "{}", r.name);
    }
}
