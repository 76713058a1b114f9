//! Timelines for tests: every kind of value, in an order that a real one could have.

use goodput_core::outcome::{CancelCause, ConnectFault, Outcome, TimeoutPhase};
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ChunkFlags, ConnectionUse, Instants, Phase, ServerSaid, Timeline};
use goodput_core::tokens::{TokenCount, TokenSource};
use goodput_store::layout::RunDir;
use goodput_store::log::LogWriter;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// An instant or another number that the files can hold.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..2_000_u64, Just(i64::MAX.cast_unsigned()), 0..i64::MAX.cast_unsigned()]
}

fn source() -> impl Strategy<Value = TokenSource> {
    proptest::sample::select(TokenSource::ALL.to_vec())
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let phases =
        vec![TimeoutPhase::Connect, TimeoutPhase::FirstToken, TimeoutPhase::Idle, TimeoutPhase::Total];
    let faults = vec![
        ConnectFault::Refused,
        ConnectFault::Unreachable,
        ConnectFault::ClientLimit,
        ConnectFault::Tls,
        ConnectFault::Other,
    ];
    let causes = vec![CancelCause::RunEnd, CancelCause::Interrupt, CancelCause::ErrorBudget];
    prop_oneof![
        3 => Just(Outcome::Ok),
        1 => (any::<u16>(), ".*").prop_map(|(status, message)| Outcome::HttpError { status, message }),
        1 => ".*".prop_map(|message| Outcome::StreamError { message }),
        1 => ".*".prop_map(|reason| Outcome::Aborted { reason }),
        1 => any::<bool>().prop_map(|inside_body| Outcome::Truncated { inside_body }),
        1 => Just(Outcome::NoTokens),
        1 => any::<(u32, u32)>().prop_map(|(got, wanted)| Outcome::ShortOutput { got, wanted }),
        1 => proptest::sample::select(phases).prop_map(|phase| Outcome::Timeout { phase }),
        1 => (proptest::sample::select(faults), ".*")
            .prop_map(|(fault, message)| Outcome::Connect { fault, message }),
        1 => Just(Outcome::Reset),
        1 => ".*".prop_map(|message| Outcome::Protocol { message }),
        1 => proptest::sample::select(causes).prop_map(|cause| Outcome::Cancelled { cause }),
    ]
}

fn chunk() -> impl Strategy<Value = Chunk> {
    (any::<(u32, u32, u32, u32, u32, u16)>(), 0..40_000_000_u64, source()).prop_map(
        |((late_ns, early_ns, bytes, tokens, flags, choice), since, token_source)| Chunk {
            at: Nanos(since),
            late_ns,
            early_ns,
            bytes,
            tokens,
            flags: ChunkFlags(flags),
            choice,
            token_source,
        },
    )
}

fn server_said() -> impl Strategy<Value = ServerSaid> {
    let tokens = option::of(any::<u32>());
    (tokens.clone(), tokens.clone(), tokens.clone(), tokens, option::of(number()), option::of(number()))
        .prop_map(
            |(prompt_tokens, completion_tokens, reasoning_tokens, cached_tokens, queue, first_token)| {
                ServerSaid {
                    prompt_tokens,
                    completion_tokens,
                    reasoning_tokens,
                    cached_tokens,
                    queue: queue.map(Nanos),
                    first_token: first_token.map(Nanos),
                }
            },
        )
}

/// Instants and chunk times in order, each instant but the release perhaps unknown.
fn instants() -> impl Strategy<Value = (Instants, Vec<Chunk>)> {
    let gaps = prop::array::uniform9(prop_oneof![Just(0), 1..5_000_u64, 0..1_u64 << 55]);
    (gaps, any::<[bool; 8]>(), vec(chunk(), 0..40)).prop_map(|(gaps, known, mut chunks)| {
        let mut now = Nanos::ZERO;
        let mut step = |gap: u64| {
            now = Nanos(now.0 + gap);
            now
        };
        let before: Vec<Nanos> = gaps[..7].iter().map(|&gap| step(gap)).collect();
        chunks.iter_mut().for_each(|chunk| chunk.at = step(chunk.at.0));
        let (done, closed) = (step(gaps[7]), step(gaps[8]));
        let instants = Instants {
            scheduled: known[0].then_some(before[0]),
            released: before[1],
            connect_start: known[1].then_some(before[2]),
            connected: known[2].then_some(before[3]),
            sent: known[3].then_some(before[4]),
            sent_all: known[4].then_some(before[5]),
            headers: known[5].then_some(before[6]),
            done: known[6].then_some(done),
            closed: known[7].then_some(closed),
        };
        (instants, chunks)
    })
}

/// Any timeline.
pub(crate) fn timeline() -> impl Strategy<Value = Timeline> {
    let numbers = (number(), number(), number(), number(), number());
    let small = any::<(u32, u32, u32, u32, u32, u32)>();
    let maybe = (option::of(any::<u16>()), option::of(any::<u32>()), option::of(any::<u32>()));
    let output = option::of((any::<u32>(), source()));
    let texts = (option::of(".*"), vec(".*", 0..3));
    let flags = any::<(bool, bool)>();
    (numbers, small, maybe, output, texts, flags, server_said(), instants(), outcome()).prop_map(
        |(numbers, small, maybe, output, texts, flags, server, (instants, chunks), outcome)| Timeline {
            index: numbers.0,
            phase: if flags.0 { Phase::Warmup } else { Phase::Measured },
            session: numbers.1,
            turn: small.0,
            worker: small.1,
            target: small.2,
            instants,
            connection: ConnectionUse {
                id: small.3,
                uses_before: small.4,
                idle: Nanos(numbers.2),
                stale_retries: small.5,
            },
            request_bytes: numbers.3,
            response_bytes: numbers.4,
            status: maybe.0,
            planned_input: maybe.1,
            max_tokens: maybe.2,
            ignore_eos: flags.1,
            output: output.map(|(count, source)| TokenCount { count, source }),
            choices: small.0 ^ small.1,
            server,
            finish_reason: texts.0,
            notes: texts.1,
            chunks,
            outcome,
        },
    )
}

/// A plain request: a token every 10 ms after the first at 50 ms, all of it following from its index.
pub(crate) fn plain(index: u64, tokens: u32) -> Timeline {
    let start = Nanos::from_millis(10 * index);
    let mut timeline = Timeline::released(index, Phase::Measured, Some(start), start);
    timeline.instants.sent = Some(start + Nanos(2_000));
    timeline.instants.headers = Some(start + Nanos::from_millis(40));
    timeline.status = Some(200);
    timeline.outcome = Outcome::Ok;
    timeline.finish_reason = Some("length".into());
    timeline.output = Some(TokenCount { count: tokens, source: TokenSource::Server });
    timeline.chunks = (0..u64::from(tokens))
        .map(|k| Chunk {
            at: start + Nanos::from_millis(50 + 10 * k) + Nanos(7 * k * k % 1_000),
            late_ns: 3_000 + (k as u32 * 37) % 500,
            early_ns: if k % 7 == 3 { 4_200 } else { 0 },
            bytes: 180 + (k as u32 % 5),
            tokens: 1,
            flags: ChunkFlags::CHOICES | ChunkFlags::TEXT | ChunkFlags::KERNEL_STAMP,
            choice: 0,
            token_source: TokenSource::Chunks,
        })
        .collect();
    timeline.instants.closed = timeline.chunks.last().map(|chunk| chunk.at + Nanos(500));
    timeline
}

/// Writes a log of these timelines, a frame each.
pub(crate) fn write_log(run: &RunDir, timelines: &[Timeline]) {
    let mut log = LogWriter::create(run).unwrap();
    for timeline in timelines {
        log.append(timeline).unwrap();
        log.flush().unwrap();
    }
    log.finish().unwrap();
}

/// A run directory that is deleted with the returned guard.
pub(crate) fn new_run() -> (tempfile::TempDir, RunDir) {
    let out = tempfile::tempdir().unwrap();
    let run = RunDir::create(out.path(), Some("run")).unwrap();
    (out, run)
}
