//! The simulated engine behind real sockets: a client that goes away frees what it held, and a refusal is one answer.

use crate::client::{Client, body, eventually};
use goodput_core::rng::Seed;
use goodput_model::cluster::Routing;
use goodput_model::knobs::Knobs;
use goodput_model::profile::Profile;
use goodput_observe::page::Buckets;
use goodput_server::{EngineConfig, Running, Service, Speed, spawn};

fn serve(knobs: &[&str]) -> Running {
    let knobs: Vec<String> = knobs.iter().map(|knob| (*knob).to_owned()).collect();
    let resolved = Profile::shipped("illustrative").unwrap().resolve(&Knobs::parse(&knobs).unwrap()).unwrap();
    let config = EngineConfig {
        config: resolved.config,
        replicas: resolved.replicas,
        routing: Routing::RoundRobin,
        seed: Seed(1),
        model: resolved.model,
        tokens: 64,
        speed: Speed::new(20.0).unwrap(),
        faults: Vec::new(),
        incremental: false,
        buckets: Buckets::default(),
    };
    spawn(Service::Engine(Box::new(config))).unwrap()
}

const LONG: &str = r#"{"prompt":"hello","max_tokens":20000,"stream":true}"#;
const SHORT: &str = r#"{"prompt":"hello","max_tokens":3,"stream":true}"#;

#[test]
fn a_client_that_goes_away_frees_its_slot() {
    let server = serve(&["max-num-seqs=1"]);
    let mut gone = Client::connect(server.addr);
    gone.send(&body("", "/v1/completions", LONG));
    gone.head();
    gone.chunk().unwrap();
    let mut next = Client::connect(server.addr);
    next.send(&body("", "/v1/completions", SHORT));
    next.head();
    drop(gone);
    // It would have waited for 20 s.
    while next.chunk().is_some() {}
    let truth = eventually(|| server.truth().unwrap(), |truth| truth.requests.in_flight == 0);
    assert_eq!((truth.requests.finished, truth.requests.disconnected), (1, 1));
    let engine = truth.engine.unwrap();
    assert_eq!((engine.finished, engine.cancelled, engine.running, engine.kv_blocks_used), (1, 1, 0, 0));
}

/// A fault that ends an answer takes its request out of the engine, as a client that goes away does.
#[test]
fn an_answer_that_breaks_off_leaves_the_engine() {
    let server = serve(&[]);
    let mut client = Client::connect(server.addr);
    client.send(&body("x-goodput-fault: cut_after=2\r\n", "/v1/completions", LONG));
    client.rest().unwrap();
    let engine = eventually(
        || server.truth().unwrap().engine.unwrap(),
        |engine| (engine.cancelled, engine.running) == (1, 0),
    );
    assert_eq!(engine.kv_blocks_used, 0);
}

#[test]
fn a_request_that_is_turned_away_gets_a_status_and_the_connection_goes_on() {
    let server = serve(&["engine=vllm", "max-model-len=64"]);
    let mut client = Client::connect(server.addr);
    client.send(&body("", "/v1/completions", LONG));
    let (head, _) = client.whole();
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    client.send(&body("", "/v1/completions", SHORT));
    assert!(client.head().starts_with("HTTP/1.1 200 "));
    let mut chunks = 0;
    while client.chunk().is_some() {
        chunks += 1;
    }
    assert_eq!(chunks, 3);
    client.send("GET /metrics HTTP/1.1\r\nconnection: close\r\n\r\n");
    let page = String::from_utf8(client.rest().unwrap()).unwrap();
    assert!(page.contains("vllm:generation_tokens_total{") && page.contains("Simulated: "), "{page}");
}
