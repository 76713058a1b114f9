//! Runs written by earlier versions stay readable: one committed run of each format version, finished and
//! killed.
//!
//! `GOODPUT_BLESS=1 cargo test -p goodput-store fixture` writes the fixture of the current version anew;
//! those of earlier versions are never touched.

use crate::run_reader::write_head;
use crate::timelines::{plain, write_log};
use goodput_core::outcome::{CancelCause, ConnectFault, Outcome, TimeoutPhase};
use goodput_core::summarise::TimelineSource;
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, Phase, ServerSaid, Timeline};
use goodput_store::layout::{RunDir, ScheduleRow};
use goodput_store::manifest::Status;
use goodput_store::parquet::{LogAfter, convert};
use goodput_store::reader::RunReader;
use std::fs;
use std::path::{Path, PathBuf};

/// What the fixture holds: every outcome, and every field known at least once.
fn recorded() -> Vec<Timeline> {
    let text = || "said so: \"naïve\"".to_owned();
    let outcomes = [
        Outcome::Ok,
        Outcome::HttpError { status: 503, message: text() },
        Outcome::StreamError { message: text() },
        Outcome::Aborted { reason: "abort".into() },
        Outcome::Truncated { inside_body: false },
        Outcome::NoTokens,
        Outcome::ShortOutput { got: 5, wanted: 64 },
        Outcome::Timeout { phase: TimeoutPhase::FirstToken },
        Outcome::Connect { fault: ConnectFault::ClientLimit, message: text() },
        Outcome::Reset,
        Outcome::Protocol { message: text() },
        Outcome::Cancelled { cause: CancelCause::ErrorBudget },
    ];
    assert_eq!(outcomes.each_ref().map(Outcome::name), Outcome::NAMES);
    let mut timelines: Vec<Timeline> = (0..).zip(outcomes).map(|(i, o)| with_outcome(i, o)).collect();
    let full = &mut timelines[0];
    full.phase = Phase::Warmup;
    full.instants.connect_start = Some(full.instants.released);
    full.instants.connected = Some(full.instants.released + Nanos(900));
    full.instants.sent_all = Some(full.instants.released + Nanos(2_500));
    full.instants.done = full.instants.closed;
    full.connection.id = 4;
    full.connection.uses_before = 3;
    full.connection.idle = Nanos::from_millis(12);
    full.connection.stale_retries = 1;
    (full.turn, full.worker, full.target, full.session) = (2, 1, 1, 77);
    (full.request_bytes, full.response_bytes) = (812, 20_480);
    (full.planned_input, full.max_tokens, full.ignore_eos) = (Some(32), Some(64), true);
    full.notes = vec!["usage disagrees with the chunks".into(), String::new()];
    full.server = ServerSaid {
        prompt_tokens: Some(33),
        completion_tokens: Some(20),
        reasoning_tokens: Some(4),
        cached_tokens: Some(16),
        queue: Some(Nanos(1_000)),
        first_token: Some(Nanos::from_millis(49)),
    };
    timelines
}

fn with_outcome(index: u64, outcome: Outcome) -> Timeline {
    let tokens = if outcome.is_ok() { 20 } else { index as u32 % 3 };
    Timeline { outcome, ..plain(index, tokens) }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn bless() {
    let format = format!("format-{}", goodput_store::version::FORMAT);
    let out = folder().join(format);
    for (name, status) in [("complete", Status::Complete), ("killed", Status::Running)] {
        let path = out.join(name);
        if path.exists() {
            fs::remove_dir_all(&path).unwrap();
        }
        let run = RunDir::create(&out, Some(name)).unwrap();
        write_head(&run, &status);
        run.write_schedule(recorded().iter().map(|t| ScheduleRow {
            request: t.index,
            phase: t.phase,
            scheduled_ns: t.instants.scheduled.map(|at| at.0),
            input_tokens: t.planned_input,
            max_tokens: t.max_tokens,
        }))
        .unwrap();
        write_log(&run, &recorded());
        if status == Status::Complete {
            convert(&run, LogAfter::Delete).unwrap();
        }
    }
}

#[test]
fn runs_of_every_format_version_are_read() {
    if std::env::var_os("GOODPUT_BLESS").is_some() {
        bless();
    }
    for format in ["format-1.0", "format-1.1"] {
        let mut expected = recorded();
        if format == "format-1.0" {
            // How much earlier an event may have come is on record since 1.1.
            let chunks = expected.iter_mut().flat_map(|timeline| &mut timeline.chunks);
            chunks.for_each(|chunk| chunk.early_ns = Chunk::EARLY_UNKNOWN);
        }
        for (name, partial) in [("complete", false), ("killed", true)] {
            let reader = RunReader::open(&folder().join(format).join(name)).unwrap();
            assert_eq!(reader.is_partial(), partial, "{format}/{name}");
            let mut found = Vec::new();
            reader.for_each(&mut |timeline| found.push(timeline.clone())).unwrap();
            assert_eq!(found, expected, "{format}/{name}");
        }
    }
    let current = format!("format-{}", goodput_store::version::FORMAT);
    assert!(folder().join(current).is_dir(), "the current format has its fixture");
}
