//! The limits of one request land at their nanosecond.

use crate::world::{
    NO_LIMITS, Say, Script, ScriptServer, TEXT, UNTIL_ALL_END, all_ms, burst, case, closed, ms, open,
    sim_limited,
};
use goodput_core::outcome::{Outcome, TimeoutPhase};
use goodput_core::plan::{Stop, Timeouts};
use goodput_core::time::Nanos;
use goodput_core::timeline::{ChunkFlags, Timeline};
use goodput_drive::fixed_server::FixedServer;

/// The stream of case 75: two tokens, a ping, and a third token at 5 s with the end.
fn stalled() -> Script {
    vec![
        (ms(100), Say::Chunk(1, TEXT)),
        (ms(200), Say::Chunk(1, TEXT)),
        (ms(900), Say::Chunk(0, ChunkFlags::COMMENT)),
        (ms(5_000), Say::Chunk(1, TEXT | ChunkFlags::FINISH)),
        (ms(5_000), Say::Chunk(0, ChunkFlags::DONE)),
        (ms(5_000), Say::End(Outcome::Ok)),
    ]
}

fn one(script: Script, limits: &Timeouts) -> Timeline {
    let mut ran = sim_limited(burst(0, 1), &mut ScriptServer::new(vec![script]), limits);
    ran.timelines.pop().unwrap()
}

#[test]
fn a_total_limit_counts_from_the_release() {
    let expected = case("75-stalled-stream-timeouts/expected.json");
    let t = one(stalled(), &Timeouts { total: Some(ms(1_000)), ..NO_LIMITS });
    assert_eq!(t.outcome, Outcome::Timeout { phase: TimeoutPhase::Total });
    assert_eq!(t.instants.closed, Some(ms(expected["total_fail_ms"].as_u64().unwrap())));
    assert_eq!(t.output.map(|o| u64::from(o.count)), expected["partial"].as_u64());
}

#[test]
fn an_idle_limit_counts_from_the_last_byte() {
    let expected = case("75-stalled-stream-timeouts/expected.json");
    let t = one(stalled(), &Timeouts { idle: Some(ms(1_000)), ..NO_LIMITS });
    assert_eq!(t.outcome, Outcome::Timeout { phase: TimeoutPhase::Idle });
    assert_eq!(t.instants.closed, Some(ms(expected["idle_fail_ms"].as_u64().unwrap())));
    assert_eq!(t.output.map(|o| u64::from(o.count)), expected["partial"].as_u64());
}

#[test]
fn a_generous_limit_lets_the_stall_through() {
    let expected = case("75-stalled-stream-timeouts/expected.json");
    let t = one(stalled(), &Timeouts { total: Some(ms(60_000)), ..NO_LIMITS });
    let at: Vec<u64> = t.token_chunks().map(|c| c.at.0 / 1_000_000).collect();
    let gaps: Vec<u64> = at.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(serde_json::json!(gaps), expected["success_icl_ms"]);
    assert_eq!((at[2] - at[0]) / 2, expected["success_tpot_ms"].as_u64().unwrap());
    assert_eq!((t.outcome.name(), t.instants.done), ("ok", Some(ms(5_000))));
}

#[test]
fn a_first_token_limit_is_not_met_by_bytes() {
    let role = ChunkFlags::CHOICES | ChunkFlags::ROLE;
    let script =
        vec![(ms(10), Say::Chunk(0, role)), (ms(300), Say::Chunk(1, TEXT)), (ms(300), Say::End(Outcome::Ok))];
    let t = one(script.clone(), &Timeouts { first_token: Some(Nanos(299_999_999)), ..NO_LIMITS });
    assert_eq!(t.outcome, Outcome::Timeout { phase: TimeoutPhase::FirstToken });
    assert_eq!((t.instants.closed, t.output), (Some(Nanos(299_999_999)), None));
    let in_time = one(script, &Timeouts { first_token: Some(ms(300)), ..NO_LIMITS });
    assert_eq!(in_time.outcome, Outcome::Ok, "what comes exactly at the limit is in time");
}

#[test]
fn silence_counts_from_sending() {
    let t = one(vec![], &Timeouts { idle: Some(ms(250)), ..NO_LIMITS });
    assert_eq!(t.outcome, Outcome::Timeout { phase: TimeoutPhase::Idle });
    assert_eq!((t.instants.closed, t.status, t.instants.headers), (Some(ms(250)), None, None));
}

#[test]
fn a_timed_out_slot_is_filled_at_once() {
    let stop = Stop { requests: Some(3), ..UNTIL_ALL_END };
    let limits = Timeouts { total: Some(ms(40)), ..NO_LIMITS };
    let ran = sim_limited(closed(1, stop), &mut ScriptServer::new(vec![vec![]]), &limits);
    let released: Vec<Nanos> = ran.measured().iter().map(|t| t.instants.released).collect();
    assert_eq!(released, [0, 40, 80].map(ms));
    assert_eq!((ran.progress.failed, ran.finished), (3, ms(120)));
}

#[test]
fn a_request_given_up_leaves_the_server() {
    let limits = Timeouts { first_token: Some(ms(150)), ..NO_LIMITS };
    let mut server = FixedServer::new(ms(100), ms(100), 3, Some(1));
    let ran = sim_limited(open(vec![], all_ms([0, 0, 160, 310]), ms(0)), &mut server, &limits);
    let ends: Vec<(&str, Nanos)> =
        ran.measured().iter().map(|t| (t.outcome.name(), t.instants.closed.unwrap())).collect();
    // The second is given up in the queue, the third in its slot at the instant at which the fourth comes.
    let expected = [("ok", ms(300)), ("timeout", ms(150)), ("timeout", ms(310)), ("ok", ms(610))];
    assert_eq!(ends, expected);
}
