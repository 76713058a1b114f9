//! Script mode over real sockets: the bytes of replay files, their framing, their order and their end.

use crate::client::{Client, completions};
use goodput_core::time::Nanos;
use goodput_server::{ScriptPlan, Service, spawn};
use goodput_wire::replay::{Framing, Replay};
use std::io;
use std::time::Instant;

fn case(name: &str) -> Replay {
    let path = format!("{}/../../testdata/cases/{name}.replay", env!("CARGO_MANIFEST_DIR"));
    Replay::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn every_case() -> Vec<(String, Replay)> {
    let root = format!("{}/../../testdata/cases", env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|ext| ext == "replay") {
                let replay = Replay::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
                found.push((path.display().to_string(), replay));
            }
        }
    }
    found
}

/// The writes of a script as they are expected on the wire, head excluded.
fn wire_bytes(script: &Replay) -> Vec<u8> {
    let mut bytes: Vec<u8> = script.steps.iter().flat_map(|step| script.frame(&step.bytes)).collect();
    bytes.extend_from_slice(script.tail());
    bytes
}

/// Every replay file of the test data, all at once on one server: bytes exact, end as told, never early.
#[test]
fn every_case_is_played_to_the_byte() {
    let cases = every_case();
    assert!(cases.len() > 20, "the test data is there");
    // A file's own delays can be long; the order and the bytes do not depend on them.
    let scaled = cases.iter().map(|(_, script)| {
        let mut script = script.clone();
        let shrink = |at: Nanos| Nanos(at.0 / 20);
        script.steps.iter_mut().for_each(|step| step.offset = shrink(step.offset));
        script.close_at = script.close_at.map(shrink);
        script
    });
    let scripts: Vec<Replay> = scaled.collect();
    let server = spawn(Service::Script(ScriptPlan::PerConnection(scripts.clone()))).unwrap();
    for ((name, _), script) in cases.iter().zip(&scripts) {
        let mut client = Client::connect(server.addr);
        let begun = Instant::now();
        client.send(&completions("{}", ""));
        if script.framing != Framing::Raw {
            let head = client.head();
            assert!(head.starts_with(&format!("HTTP/1.1 {} ", script.status)), "{name}: {head}");
            for (key, value) in &script.headers {
                assert!(head.contains(&format!("{key}: {value}\r\n")), "{name}: {head}");
            }
            assert!(head.contains("connection: close\r\n"), "{name}");
        }
        let bytes = match client.rest() {
            Ok(bytes) => {
                assert_eq!(script.close, goodput_wire::replay::Close::Clean, "{name}");
                bytes
            }
            Err((bytes, error)) => {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{name}");
                assert_eq!(script.close, goodput_wire::replay::Close::Reset, "{name}");
                bytes
            }
        };
        assert_eq!(bytes, wire_bytes(script), "{name}");
        assert!(begun.elapsed().as_nanos() >= u128::from(script.closes_at().0), "{name}: too early");
    }
    let truth = server.stop().unwrap();
    assert_eq!(truth.requests.finished, cases.len() as u64);
    assert_eq!(truth.chunks, scripts.iter().map(|s| s.steps.len() as u64).sum::<u64>());
    assert_eq!(truth.mode, "script");
}

#[test]
fn own_routes_do_not_use_up_a_script() {
    let script = case("69-stale-keep-alive/conn2");
    let server = spawn(Service::Script(ScriptPlan::Same(script.clone()))).unwrap();
    let mut client = Client::connect(server.addr);
    for path in ["/v1/models", "/version", "/health", "/truth", "/truth/arrivals"] {
        client.send(&format!("GET {path} HTTP/1.1\r\n\r\n"));
        assert!(client.whole().0.starts_with("HTTP/1.1 200 OK"));
    }
    client.send(&completions("{}", ""));
    assert_eq!(client.rest().unwrap(), wire_bytes(&script));
    assert_eq!(server.stop().unwrap().requests.arrived, 1);
}

#[test]
fn many_connections_are_played_together() {
    let script = Replay::parse("AT_MS 40 | data: x\\n\\n").unwrap();
    let server = spawn(Service::Script(ScriptPlan::Same(script.clone()))).unwrap();
    let mut clients: Vec<Client> = (0..256).map(|_| Client::connect(server.addr)).collect();
    for client in &mut clients {
        client.send(&completions("{}", ""));
    }
    for client in &mut clients {
        client.head();
        assert_eq!(client.rest().unwrap(), wire_bytes(&script));
    }
    let truth = server.stop().unwrap();
    assert_eq!((truth.requests.finished, truth.connections.peak), (256, 256));
    assert!(truth.ttft_ms.min >= 40.0, "{:?}", truth.ttft_ms);
}

#[test]
fn no_script_is_an_error() {
    let server = spawn(Service::Script(ScriptPlan::PerConnection(Vec::new()))).unwrap();
    assert_eq!(server.stop().unwrap_err().kind(), io::ErrorKind::InvalidInput);
}
