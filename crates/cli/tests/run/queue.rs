//! `goodput sim queue`: theory beside simulation.

use crate::goodput::{Ended, command, figure, start};
use serde_json::Value;

fn queue(args: &str) -> Ended {
    start(&mut command(["sim", "queue"].into_iter().chain(args.split_whitespace())), None).ended()
}

fn shown<'a>(json: &'a Value, name: &str) -> &'a Value {
    let figures = json["figures"].as_array().expect("a list");
    figures.iter().find(|figure| figure["name"] == name).expect("every name is listed")
}

#[test]
fn a_queue_comes_with_its_theory() {
    let args = "--law mm1 --service 100ms --rate 9.5 --requests 3000 --slo e2e:900ms --seed 1 --json";
    let json = queue(args).with_code(0).json();
    assert_eq!(json["simulated"], true);
    assert_eq!(json["queue"]["notation"], "M/M/1");
    assert!((figure(&json, "/queue/rho") - 0.95).abs() < 1e-12);
    let theory = |name: &str| figure(shown(&json, name), "/theory");
    assert!((theory("residence_p99") - 9_210.3).abs() < 0.05);
    assert!((theory("attainment") - 0.362_372).abs() < 5e-7);
    assert!((theory("goodput") - 3.442_533).abs() < 5e-6);
    assert_eq!(figure(&json, "/little_ratio"), 1.0);
    for name in ["attainment", "goodput"] {
        let of = |key: &str| figure(shown(&json, name), key);
        assert!(of("/low") < of("/simulated") && of("/simulated") < of("/high"), "{name}");
    }
    let summary = &json["summary"];
    assert_eq!((figure(summary, "/counts/ok"), figure(summary, "/counts/warmup")), (3_000.0, 300.0));
    let same = |name: &str, pointer: &str| {
        assert_eq!(figure(shown(&json, name), "/simulated"), figure(summary, pointer), "{name}");
    };
    same("residence_p99", "/metrics/e2e/p99/value");
    same("goodput", "/goodput/request_per_s");
    assert_eq!(queue(args).stdout, queue(args).stdout, "the same seed, the same bytes");
}

#[test]
fn every_law_has_its_line() {
    let cases = [
        ("--law md1 --rate 9", "M/D/1", "Pollaczek-Khinchine, Franx"),
        ("--law mg1 --cv 2 --rate 7", "M/G/1", "Pollaczek-Khinchine"),
        ("--law mmc --servers 2 --rate 18", "M/M/2", "Erlang C"),
        ("--law mm1 --burstiness 0.3 --rate 9", "G/M/1", "Kingman (approximate mean)"),
    ];
    for (args, notation, source) in cases {
        let text = queue(&format!("{args} --service 100ms --requests 1000")).with_code(0).stdout;
        assert!(text.starts_with("SIMULATED"), "{text}");
        assert!(text.contains(&format!("{notation}:")) && text.contains(source), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

#[test]
fn what_never_drains_is_an_error_and_not_a_number() {
    let cases = [
        ("--law mm1 --rate 10.8", "rho = 1.08: arrivals outrun service, the queue never drains"),
        ("--law mm1 --rate inf", "inf is no arrival rate"),
        ("--law mg1 --cv -1 --rate 1", "-1 is not a coefficient of variation here"),
        ("--law mm1 --cv 2 --rate 1", "only with --law mg1"),
        ("--law mm1 --servers 2 --rate 1", "only with --law mmc"),
        ("--law mm1 --burstiness 0 --rate 1", "0 is no burstiness"),
        ("--law mmc --rate 1", "--servers"),
    ];
    for (args, message) in cases {
        let ended = queue(&format!("{args} --service 100ms --requests 100 --json")).with_code(2);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(message), "{args}: {}", ended.stderr);
    }
}
