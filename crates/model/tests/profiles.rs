//! Profiles of one's own: the example of the documentation is one, and its recipe finds the constants of a server.

use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_model::config::Config;
use goodput_model::engine::Engine;
use goodput_model::event::{Event, EventKind};
use goodput_model::knobs::Knobs;
use goodput_model::profile::Profile;
use goodput_model::request::{Request, RequestId};

const PAGE: &str = include_str!("../../../docs/simulated-engine.md");

#[test]
fn the_example_of_the_page_is_a_profile() {
    let (_, rest) = PAGE.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let profile = Profile::parse("the page", example).expect("a profile");
    assert!(profile.resolve(&Knobs::default()).is_ok());
}

/// Median TTFT and gap, in nanoseconds, of a closed loop of `slots` requests a round, the way the page asks for them.
fn closed_loop(config: &Config, slots: u64, (prompt, output): (u32, u32)) -> (f64, f64) {
    let mut engine = Engine::new(config.clone(), Seed(1)).expect("runs");
    let mut events: Vec<Event> = Vec::new();
    for id in 0..slots {
        let id = RequestId(id);
        let request =
            Request { id, prompt_tokens: prompt, output_tokens: output, priority: 0, prefix: [].into() };
        engine.submit(Nanos::ZERO, &request);
    }
    while let Some(due) = engine.next_event() {
        engine.advance(due, &mut events);
    }
    let (mut ttft, mut gaps) = (Vec::new(), Vec::new());
    for event in &events {
        if let EventKind::Finished(truth) = &event.kind {
            ttft.push((truth.first_token().expect("a token") - truth.arrived).0);
            gaps.extend(truth.tokens.windows(2).map(|pair| (pair[1].at - pair[0].at).0));
        }
    }
    (median(ttft), median(gaps))
}

fn median(mut values: Vec<u64>) -> f64 {
    values.sort_unstable();
    values[values.len() / 2] as f64
}

#[test]
fn the_recipe_of_the_page_finds_the_constants() {
    let text = "name = \"x\"\nabout = \"x\"\n[step]\nmodel = \"x\"\nbase-ms = 5\nprefill-us-per-token = 40\n\
                decode-us-per-token = 50\nkv-ns-per-token = 100\nkv-tokens = 100000\n[knobs]\nmax-model-len = 4096\n";
    let profile = Profile::parse("x", text).expect("a profile");
    let config = profile.resolve(&Knobs::default()).expect("runs").config;
    let (f1, i1) = closed_loop(&config, 1, (64, 64));
    let (f2, i2) = closed_loop(&config, 1, (2_048, 64));
    let (_, i3) = closed_loop(&config, 16, (64, 256));
    let kv = (i2 - i1) / 1_984.0;
    let decode = (i3 - i1 - 2_976.0 * kv) / 15.0;
    // Medians of an even number of gaps lie half a token beside the middle.
    let near =
        |found: f64, constant: f64| assert!((found / constant - 1.0).abs() < 0.01, "{found}, {constant}");
    near((f2 - f1) / 1_984.0, config.cost.prefill_token);
    near(kv, config.cost.kv_token);
    near(decode, config.cost.decode_token);
    near(i1 - decode - 96.0 * kv, config.cost.base);
}
