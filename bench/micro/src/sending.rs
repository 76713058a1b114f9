//! What is sent and when.

use crate::Task;
use crate::inputs;
use goodput_core::plan::Protocol;
use goodput_core::schedule::Schedule;
use goodput_core::time::Nanos;
use goodput_drive::driver::{Driver, DriverConfig};
use goodput_drive::fixed_server::FixedServer;
use goodput_drive::virtual_time;
use goodput_wire::request::{BodySpec, PromptRef, UsageAsk, encode_body, encode_head};
use goodput_workload::schedule;
use std::hint::black_box;

/// Requests, and arrivals, of one run.
const REQUESTS: usize = 2_000;
const ARRIVALS: usize = 20_000;

/// Body and head of a chat request with a prompt of about 512 tokens.
pub(crate) fn request_encode() -> Task {
    let prompt = "the quick \"brown\" fox\njumps over ".repeat(64);
    Task::new("request", REQUESTS, move || {
        let spec = BodySpec {
            protocol: Protocol::OpenaiChat,
            model: "meta-llama/Llama-3.1-8B-Instruct",
            prompt: PromptRef::Text(black_box(&prompt)),
            max_tokens: Some(128),
            ignore_eos: true,
            stream: true,
            usage: UsageAsk::Always,
            extra: None,
        };
        for _ in 0..REQUESTS {
            let body = encode_body(black_box(&spec)).expect("chat carries text");
            let headers = [("authorization", "Bearer none"), ("accept", "text/event-stream")];
            let length = Some(body.len());
            let head = encode_head("POST", Protocol::OpenaiChat.path(), "127.0.0.1:8000", &headers, length);
            black_box((head.expect("no line breaks in it"), body));
        }
    })
}

/// A Poisson schedule.
pub(crate) fn schedule_poisson() -> Task {
    let plan = inputs::plan(ARRIVALS, None);
    Task::new("arrival", ARRIVALS, move || {
        black_box(schedule(black_box(&plan)).expect("the plan has an end"));
    })
}

/// The driver with 64 slots against the exact server in virtual time, with answers of one token: its own work, and that
/// of the loop around it.
pub(crate) fn driver_closed_loop() -> Task {
    let plan = inputs::plan(REQUESTS, Some(64));
    Task::new("request", REQUESTS, move || {
        let mut driver = Driver::new(DriverConfig {
            load: plan.load.clone(),
            stop: plan.stop,
            warmup: plan.warmup,
            schedule: Schedule::default(),
        });
        let mut server = FixedServer::new(Nanos::from_millis(50), Nanos::from_millis(10), 1, None);
        let ended =
            virtual_time::run(&mut driver, &mut server, &plan.timeouts, |timeline| drop(black_box(timeline)));
        black_box(ended.expect("the server answers all"));
    })
}
