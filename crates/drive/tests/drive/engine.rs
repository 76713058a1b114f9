//! The simulated engine behind the driver: what a client measures of it.

use crate::world::{NO_LIMITS, Ran, all_ms, closed, ms, open, sim_limited};
use goodput_core::outcome::Outcome;
use goodput_core::plan::{Stop, Timeouts};
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;
use goodput_core::timeline::{ChunkFlags, Timeline};
use goodput_drive::driver::{DriverConfig, RequestId};
use goodput_drive::engine_server::{Ask, EngineServer};
use goodput_model::cluster::{Cluster, Routing};
use goodput_model::event::EventKind;
use goodput_model::knobs::Knobs;
use goodput_model::profile::Profile;
use goodput_model::request::Truth;

/// Tokens of prompt and answer of request number i.
type Lengths = fn(u64) -> (u32, u32);

/// A load against the illustrative engine (20 ms a step) with these knobs; what the client saw, and the truth in the
/// order of the ends.
fn against(config: DriverConfig, limits: &Timeouts, (knobs, ask): (&[&str], Lengths)) -> (Ran, Vec<Truth>) {
    let settings: Vec<String> = knobs.iter().map(|knob| (*knob).to_owned()).collect();
    let knobs = Knobs::parse(&settings).unwrap();
    let engine = Profile::shipped("illustrative").unwrap().resolve(&knobs).unwrap();
    let cluster = Cluster::new(&engine.config, engine.replicas, Routing::RoundRobin, Seed(1)).unwrap();
    let asked = |id: RequestId| {
        let (prompt_tokens, output_tokens) = ask(id.index);
        Ask { prompt_tokens, output_tokens, priority: 0, prefix: [].into() }
    };
    let mut truths = Vec::new();
    let mut server = EngineServer::new(cluster, asked, |routed| {
        if let EventKind::Finished(truth) = &routed.event.kind {
            truths.push((**truth).clone());
        }
    });
    let ran = sim_limited(config, &mut server, limits);
    (ran, truths)
}

fn tpot_ms(timeline: &Timeline) -> f64 {
    let tokens: Vec<_> = timeline.token_chunks().collect();
    let count: u32 = tokens.iter().map(|chunk| chunk.tokens).sum();
    (tokens[tokens.len() - 1].at - tokens[0].at).as_millis_f64() / f64::from(count - 1)
}

#[test]
fn the_stall_of_the_definitions_is_what_a_client_sees() {
    let ask = |index| if index == 0 { (16, 500) } else { (32_768, 8) };
    let (ran, _) = against(open(vec![], all_ms([0, 5_007]), ms(0)), &NO_LIMITS, (&[], ask));
    let reader = ran.measured()[0];
    assert_eq!(format!("{:.6}", tpot_ms(reader)), "22.965932");
    let chunks: Vec<_> = reader.token_chunks().map(|chunk| chunk.at).collect();
    let worst = chunks.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert_eq!(worst, Some(ms(1_500)));
}

#[test]
fn a_client_sees_the_truth_to_the_nanosecond() {
    let arrivals = all_ms([0, 3, 40, 41, 200, 900]);
    let (ran, truths) = against(open(vec![], arrivals, ms(0)), &NO_LIMITS, (&[], |i| (100, 10 + i as u32)));
    assert_eq!((ran.timelines.len(), truths.len()), (6, 6));
    for (seen, truth) in ran.timelines.iter().zip(&truths) {
        let seen_tokens: Vec<_> = seen.token_chunks().map(|chunk| (chunk.at, chunk.tokens)).collect();
        let true_tokens: Vec<_> = truth.tokens.iter().map(|stamp| (stamp.at, stamp.tokens)).collect();
        assert_eq!(seen_tokens, true_tokens);
        assert_eq!(seen.instants.sent, Some(truth.arrived));
        assert_eq!(seen.server.queue, truth.admitted.map(|admitted| admitted - truth.queued));
        assert_eq!(seen.server.prompt_tokens, Some(100));
    }
}

#[test]
fn a_stream_is_that_of_a_completion() {
    let (ran, _) = against(open(vec![], all_ms([0]), ms(0)), &NO_LIMITS, (&[], |_| (16, 3)));
    let flags: Vec<ChunkFlags> = ran.timelines[0].chunks.iter().map(|chunk| chunk.flags).collect();
    let text = ChunkFlags::CHOICES | ChunkFlags::TEXT;
    let expected = [text, text, text | ChunkFlags::FINISH, ChunkFlags::USAGE, ChunkFlags::DONE];
    assert_eq!(flags, expected);
    assert_eq!(ran.timelines[0].outcome, Outcome::Ok);
    assert_eq!(ran.timelines[0].output.map(|output| output.count), Some(3));
}

#[test]
fn rejections_have_the_status_of_their_reason() {
    let ask = |index| if index == 0 { (50_000, 8) } else { (16, 100) };
    let knobs: &[&str] = &["max-num-queued-reqs=2"];
    let (ran, _) = against(open(vec![], all_ms([0, 1, 2, 3]), ms(0)), &NO_LIMITS, (knobs, ask));
    let status: Vec<_> = ran.measured().iter().map(|timeline| timeline.status).collect();
    assert_eq!(status, [Some(400), Some(200), Some(200), Some(503)]);
}

#[test]
fn a_client_that_gives_up_frees_the_engine() {
    let limits = Timeouts { total: Some(ms(150)), ..NO_LIMITS };
    let ask = |index| if index == 0 { (16, 1_000) } else { (16, 3) };
    let knobs: &[&str] = &["max-num-seqs=1"];
    let (ran, truths) = against(open(vec![], all_ms([0, 100]), ms(0)), &limits, (knobs, ask));
    assert_eq!(ran.measured()[0].outcome.name(), "timeout");
    assert_eq!(ran.measured()[1].outcome, Outcome::Ok);
    // Given up at 150 ms, gone with the eighth step; the first took 0.722656 ms more for the prompt.
    let step_end = Nanos(160_722_656);
    assert_eq!((truths[0].finished, truths[1].admitted), (step_end, Some(step_end)));
}

#[test]
fn a_closed_loop_keeps_its_slots_busy_over_replicas() {
    let stop = Stop { requests: Some(60), duration: None, drain: None, error_budget: None };
    let (ran, truths) = against(closed(6, stop), &NO_LIMITS, (&["data-parallel-size=3"], |_| (16, 10)));
    assert_eq!((ran.peak(), truths.len()), (6, 60));
    assert!(ran.measured().iter().all(|timeline| timeline.outcome == Outcome::Ok));
}
