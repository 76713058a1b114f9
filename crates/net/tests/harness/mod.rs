//! Runs the real client against a server, with requests made by hand.

use goodput_core::plan::{Arrivals, GapLaw, HttpVersion, Load, Protocol, RateProfile, Stop, Timeouts, Warmup};
use goodput_core::schedule::Schedule;
use goodput_core::time::Nanos;
use goodput_drive::driver::{DriverConfig, RequestId};
use goodput_net::connection::TlsSettings;
use goodput_net::feed::{FeedBounds, Head, Prepared, RequestSource};
use goodput_net::receive::Finished;
use goodput_net::run::{PreparedRun, Record, RunConfig, RunFacts};
use goodput_net::target::Target;
use goodput_wire::reply::ReplyConfig;
use goodput_wire::request::{BodySpec, PromptRef, UsageAsk, encode_body, encode_head};
use std::sync::Arc;
use std::time::Duration;

/// A load point in a few words.
pub struct Point {
    pub url: String,
    pub protocol: Protocol,
    pub requests: u64,
    pub concurrency: Option<u32>,
    /// Arrival instants in milliseconds; empty is a closed loop.
    pub arrivals_ms: Vec<u64>,
    pub headers: Vec<(String, String)>,
    pub timeouts: Timeouts,
    pub max_tokens: Option<u32>,
    pub ignore_eos: bool,
    pub stream: bool,
    pub http: HttpVersion,
    pub tls: TlsSettings,
    pub connections: usize,
}

impl Point {
    pub fn closed(url: impl Into<String>, requests: u64, slots: u32) -> Self {
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
            stream: true,
            http: HttpVersion::Http1,
            tls: TlsSettings::default(),
            connections: slots as usize,
        }
    }

    pub fn with_fault(mut self, fault: &str) -> Self {
        self.headers.push(("x-goodput-fault".into(), fault.into()));
        self
    }
}

struct HandMade {
    target: Target,
    head: Arc<Head>,
    protocol: Protocol,
    reply: ReplyConfig,
}

impl RequestSource for HandMade {
    fn build(&self, id: RequestId, ask_usage: bool) -> Prepared {
        let prompt = format!("request {}", id.index);
        let body = encode_body(&BodySpec {
            protocol: self.protocol,
            model: "m",
            prompt: PromptRef::Text(&prompt),
            max_tokens: self.reply.max_tokens,
            ignore_eos: self.reply.ignore_eos,
            stream: self.reply.stream,
            usage: if ask_usage { UsageAsk::Always } else { UsageAsk::None },
            extra: None,
        })
        .unwrap();
        let headers: Vec<(&str, &str)> =
            self.head.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
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
            request_id: String::new(),
            bytes,
            body_at,
            reply: self.reply,
            planned_input: None,
            asks_usage: ask_usage,
        }
    }
}

/// Runs the point to its end; records in the order of their index.
pub fn run(point: Point) -> (Vec<Finished>, RunFacts) {
    let target = Target::resolve(&point.url, &point.tls, point.http == HttpVersion::Http2).unwrap();
    let reply = ReplyConfig {
        max_tokens: point.max_tokens,
        ignore_eos: point.ignore_eos,
        stream: point.stream,
        ..ReplyConfig::new(point.protocol)
    };
    let source = HandMade {
        head: Arc::new(Head { path: target.path(point.protocol.path()), headers: point.headers.clone() }),
        target: target.clone(),
        protocol: point.protocol,
        reply,
    };
    let open = !point.arrivals_ms.is_empty();
    let measured: Vec<Nanos> = point.arrivals_ms.iter().map(|ms| Nanos::from_millis(*ms)).collect();
    let config = RunConfig {
        targets: vec![target],
        driver: DriverConfig {
            load: Load {
                arrivals: open.then_some(Arrivals {
                    law: GapLaw::Constant,
                    rate: RateProfile::Steady { rate: 1.0 },
                }),
                concurrency: point.concurrency,
            },
            stop: Stop { requests: Some(point.requests), duration: None, drain: None, error_budget: None },
            warmup: Warmup::None,
            schedule: Schedule { warmup: vec![], measured, measured_from: Nanos::ZERO },
        },
        timeouts: point.timeouts,
        http: point.http,
        connections: point.connections,
        opening_limit: Duration::from_secs(5),
        receive_threads: 1,
        feed: FeedBounds { warmup: Some(0), measured: Some(point.requests), ahead: 64 },
    };
    let prepared = PreparedRun::prepare(config, Arc::new(source)).unwrap();
    let mut records = Vec::new();
    let facts = prepared
        .execute(|record| {
            if let Record::Finished(finished) = record {
                records.push(*finished);
            }
            Ok(())
        })
        .unwrap();
    records.sort_by_key(|r| r.timeline.index);
    for record in &records {
        record.timeline.check_order().unwrap();
    }
    (records, facts)
}
