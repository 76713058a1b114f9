//! Runs the real client against a server, with requests made by hand. No run can hang a test: it has a thread of its
//! own and a minute.

use goodput_core::plan::{
    Arrivals, GapLaw, HttpVersion, Load, Protocol, RateProfile, Stop, Timeouts, Warmup,
};
use goodput_core::schedule::Schedule;
use goodput_core::time::Nanos;
use goodput_drive::driver::{DriverConfig, RequestId};
use goodput_net::connection::TlsSettings;
use goodput_net::feed::{FeedBounds, Head, Prepared, RequestSource};
use goodput_net::receive::Finished;
use goodput_net::run::{PreparedRun, Record, RunConfig, RunError, RunFacts, RunHandle};
use goodput_net::source::REQUEST_ID;
use goodput_net::target::Target;
use goodput_wire::reply::ReplyConfig;
use goodput_wire::request::{BodySpec, PromptRef, UsageAsk, encode_body, encode_head};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// No run of a test takes nearly as long, however busy the machine is.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// A load point in a few words.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) url: String,
    pub(crate) protocol: Protocol,
    pub(crate) requests: u64,
    pub(crate) concurrency: Option<u32>,
    /// Arrival instants in milliseconds; empty is a closed loop.
    pub(crate) arrivals_ms: Vec<u64>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) timeouts: Timeouts,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) ignore_eos: bool,
    pub(crate) choices: u32,
    pub(crate) stream: bool,
    pub(crate) http: HttpVersion,
    pub(crate) tls: TlsSettings,
    /// Connections opened before the run.
    pub(crate) connections: usize,
    /// Bytes of prompt beside its number.
    pub(crate) padding: usize,
}

impl Point {
    pub(crate) fn closed(url: impl Into<String>, requests: u64, slots: u32) -> Self {
        Self {
            url: url.into(),
            protocol: Protocol::OpenaiChat,
            requests,
            concurrency: Some(slots),
            arrivals_ms: Vec::new(),
            headers: Vec::new(),
            timeouts: Timeouts { total: Some(Nanos::from_secs(30)), ..Timeouts::default() },
            max_tokens: None,
            ignore_eos: false,
            choices: 1,
            stream: true,
            http: HttpVersion::Http1,
            tls: TlsSettings::default(),
            connections: slots as usize,
            padding: 0,
        }
    }

    fn reply(&self) -> ReplyConfig {
        ReplyConfig {
            max_tokens: self.max_tokens,
            ignore_eos: self.ignore_eos,
            choices: self.choices,
            stream: self.stream,
            ..ReplyConfig::new(self.protocol)
        }
    }

    fn config(&self, target: Target) -> RunConfig {
        let open = !self.arrivals_ms.is_empty();
        let measured = self.arrivals_ms.iter().map(|ms| Nanos::from_millis(*ms)).collect();
        RunConfig {
            targets: vec![target],
            driver: DriverConfig {
                load: Load {
                    arrivals: open.then_some(Arrivals {
                        law: GapLaw::Constant,
                        rate: RateProfile::Steady { rate: 1.0 },
                    }),
                    concurrency: self.concurrency,
                },
                stop: Stop { requests: Some(self.requests), duration: None, drain: None, error_budget: None },
                warmup: Warmup::None,
                schedule: Schedule { warmup: vec![], measured, measured_from: Nanos::ZERO },
            },
            timeouts: self.timeouts,
            http: self.http,
            connections: self.connections,
            opening_limit: Duration::from_secs(5),
            receive_threads: 1,
            receive_work: None,
            feed: FeedBounds { warmup: Some(0), measured: Some(self.requests), ahead: 64 },
        }
    }
}

/// Requests without a workload. The id of request 7 is `r7`.
pub(crate) struct HandMade {
    point: Point,
    target: Target,
    head: Arc<Head>,
}

impl RequestSource for HandMade {
    fn build(&self, id: RequestId, ask_usage: bool) -> Prepared {
        let reply = self.point.reply();
        let body = encode_body(&BodySpec {
            protocol: self.point.protocol,
            model: "m",
            prompt: PromptRef::Text(&format!("request {}{}", id.index, "x".repeat(self.point.padding))),
            max_tokens: reply.max_tokens,
            ignore_eos: reply.ignore_eos,
            stream: reply.stream,
            usage: if ask_usage { UsageAsk::Always } else { UsageAsk::None },
            extra: None,
        })
        .unwrap();
        let request_id = format!("r{}", id.index);
        let mut headers: Vec<(&str, &str)> =
            self.head.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        headers.push((REQUEST_ID, &request_id));
        let mut bytes =
            encode_head("POST", &self.head.path, &self.target.host, &headers, Some(body.len())).unwrap();
        let body_at = bytes.len();
        bytes.extend_from_slice(&body);
        Prepared {
            id,
            target: 0,
            session: id.index,
            turn: 0,
            head: self.head.clone(),
            request_id,
            bytes,
            body_at,
            reply,
            planned_input: None,
            asks_usage: ask_usage,
        }
    }
}

/// Runs the point to its end; records in the order of their index.
pub(crate) fn run(point: Point) -> (Vec<Finished>, RunFacts) {
    let (records, facts) = run_with(point, |_, _| Ok(()));
    (records, facts.unwrap())
}

/// Runs the point while `watch` sees every record before it is kept, with a handle on the run.
pub(crate) fn run_with(
    point: Point,
    watch: impl FnMut(&RunHandle, &Record) -> Result<(), String> + Send + 'static,
) -> (Vec<Finished>, Result<RunFacts, RunError>) {
    run_from(point, |requests| Arc::new(requests), watch)
}

/// The same with another source of requests around the usual one.
pub(crate) fn run_from(
    point: Point,
    source: impl FnOnce(HandMade) -> Arc<dyn RequestSource> + Send + 'static,
    mut watch: impl FnMut(&RunHandle, &Record) -> Result<(), String> + Send + 'static,
) -> (Vec<Finished>, Result<RunFacts, RunError>) {
    let (done, result) = channel();
    let thread = std::thread::spawn(move || {
        let target = Target::resolve(&point.url, &point.tls, point.http == HttpVersion::Http2).unwrap();
        let head = Head { path: target.path(point.protocol.path()), headers: point.headers.clone() };
        let config = point.config(target.clone());
        let source = source(HandMade { point, target, head: Arc::new(head) });
        let prepared = PreparedRun::prepare(config, source).unwrap();
        let handle = prepared.handle();
        let mut records = Vec::new();
        let facts = prepared.execute(|record| {
            watch(&handle, &record)?;
            if let Record::Finished(finished) = record {
                records.push(*finished);
            }
            Ok(())
        });
        done.send((records, facts)).unwrap();
    });
    let (mut records, facts) = match result.recv_timeout(HANGS_AFTER) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("the run hangs"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("a run that does not panic has a result"),
        },
    };
    records.sort_by_key(|r| r.timeline.index);
    for record in &records {
        record.timeline.check_order().unwrap();
    }
    (records, facts)
}
