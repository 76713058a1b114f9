//! What the fixed server writes and when, without a socket.

use super::*;

const ARRIVED: Nanos = Nanos(1_000_000);

fn config() -> FixedConfig {
    FixedConfig {
        ttft: Nanos::from_millis(5),
        itl: Nanos::from_millis(2),
        tokens: 3,
        ..FixedConfig::default()
    }
}

fn request(body: &str, fault: &str) -> Request {
    Request {
        body: body.as_bytes().to_vec(),
        fault: Some(fault.to_owned()),
        keep_alive: true,
        chunked_ok: true,
        ..Request::default()
    }
}

/// The writes as (ms after arrival, text, tokens), and the end.
fn play(config: FixedConfig, body: &str, fault: &str) -> (Vec<(f64, String, u32)>, End) {
    let mut fixed = Fixed::new(config);
    fixed.arrived(ARRIVED);
    let occasion = Occasion { n: 0, start: ARRIVED, created: 1 };
    let mut answer = fixed.answer(Shape::Completions, &request(body, fault), occasion);
    let mut writes = Vec::new();
    while let Some(due) = answer.due() {
        let mut out = Vec::new();
        let carried = answer.emit(&mut out);
        writes.push((
            due.since(ARRIVED).as_millis_f64(),
            String::from_utf8_lossy(&out).into_owned(),
            carried.tokens,
        ));
        assert!(writes.len() < 1_000, "an answer ends");
    }
    (writes, answer.end())
}

fn schedule(fault: &str) -> (Vec<(f64, u32)>, End) {
    let (writes, end) = play(config(), r#"{"stream":true}"#, fault);
    (writes.into_iter().map(|(at, _, tokens)| (at, tokens)).collect(), end)
}

#[test]
fn tokens_are_due_on_an_absolute_schedule() {
    let (writes, end) = play(config(), r#"{"stream":true}"#, "");
    let due: Vec<(f64, u32)> = writes.iter().map(|(at, _, tokens)| (*at, *tokens)).collect();
    assert_eq!(due, [(0.0, 0), (5.0, 1), (7.0, 1), (9.0, 1)]);
    assert!(writes[0].1.starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(writes[3].1.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
    assert_eq!(end, End::KeepAlive);
}

/// Due times in ms and tokens.
type Schedule = [(f64, u32)];

#[test]
fn faults_change_the_schedule() {
    let close = [(0.0, 0), (5.0, 1), (7.0, 1), (9.0, 0)];
    let cases: [(&str, &Schedule, End); 15] = [
        ("head_delay=6ms", &[(6.0, 0), (6.0, 1), (7.0, 1), (9.0, 1)], End::KeepAlive),
        ("tokens_per_chunk=2", &[(0.0, 0), (5.0, 2), (9.0, 1)], End::KeepAlive),
        ("events_per_write=2", &[(0.0, 0), (7.0, 2), (9.0, 1)], End::KeepAlive),
        ("tokens_per_chunk=2,events_per_write=2", &[(0.0, 0), (9.0, 3)], End::KeepAlive),
        ("drip=2,tokens_per_chunk=3", &[(0.0, 0), (5.0, 0), (6.0, 3)], End::KeepAlive),
        ("pieces=2,tokens_per_chunk=3", &[(0.0, 0), (5.0, 0), (5.0, 3)], End::KeepAlive),
        ("split_utf8,tokens_per_chunk=3", &[(0.0, 0), (5.0, 0), (6.0, 3)], End::KeepAlive),
        ("close_after=2", &close, End::Close),
        ("cut_after=2", &close, End::Close),
        ("reset_after=2", &close, End::Reset),
        ("error_after=2", &close, End::KeepAlive),
        ("hang_after=2", &close[..3], End::Hang),
        ("reset_after=3", &[(0.0, 0), (5.0, 1), (7.0, 1), (9.0, 1), (11.0, 0)], End::Reset),
        ("reset_after=0", &[(0.0, 0), (5.0, 0)], End::Reset),
        ("reset_after=4", &[(0.0, 0), (5.0, 1), (7.0, 1), (9.0, 1)], End::KeepAlive),
    ];
    for (fault, writes, end) in cases {
        assert_eq!(schedule(fault), (writes.to_vec(), end), "{fault}");
    }
    assert_eq!(schedule("hang"), (Vec::new(), End::Hang));
}

#[test]
fn broken_answers_end_as_their_fault_says() {
    let last = |fault: &str| play(config(), r#"{"stream":true}"#, fault).0.pop().unwrap().1;
    assert_eq!(last("close_after=2"), "0\r\n\r\n");
    assert_eq!(last("cut_after=2"), "");
    let error = last("error_after=2");
    assert!(error.contains(r#"data: {"error":"#) && error.ends_with("[DONE]\n\n\r\n0\r\n\r\n"), "{error}");
    let (writes, _) = play(config(), r#"{"stream":true}"#, "close_after=3");
    assert!(!writes.iter().any(|(_, text, _)| text.contains("[DONE]")));
}

#[test]
fn a_character_is_cut_in_two() {
    let (writes, _) = play(config(), r#"{"stream":true}"#, "split_utf8");
    assert!(writes[1].1.contains('\u{fffd}'), "half a character: {}", writes[1].1);
}

#[test]
fn lengths_follow_the_request() {
    for (body, tokens, finish) in [
        (r#"{"stream":true}"#, 3, "stop"),
        (r#"{"stream":true,"max_tokens":2}"#, 2, "length"),
        (r#"{"stream":true,"max_tokens":3}"#, 3, "length"),
        (r#"{"stream":true,"max_tokens":9}"#, 3, "stop"),
        (r#"{"stream":true,"max_tokens":9,"ignore_eos":true}"#, 9, "length"),
    ] {
        let (writes, _) = play(config(), body, "");
        assert_eq!(writes.iter().map(|w| w.2).sum::<u32>(), tokens, "{body}");
        let last = &writes[writes.len() - 1].1;
        assert!(last.contains(&format!(r#""finish_reason":"{finish}""#)), "{body}: {last}");
    }
    let always = FixedConfig { ignore_max_tokens: true, ..config() };
    assert_eq!(play(always, r#"{"stream":true,"max_tokens":1}"#, "").0.len(), 4);
}

#[test]
fn answers_without_a_stream_come_whole_at_the_last_token() {
    for (body, fault) in [("{}", ""), (r#"{"stream":true}"#, "json")] {
        let (writes, end) = play(config(), body, fault);
        assert_eq!(writes.len(), 1);
        assert_eq!((writes[0].0, writes[0].2, end), (9.0, 3, End::KeepAlive));
        assert!(writes[0].1.contains("content-type: application/json"));
    }
}

#[test]
fn refusals_come_at_once() {
    for (body, fault, status) in [
        ("{}", "status=503", "503"),
        ("{}", "status=429", "429"),
        (r#"{"stream_options":{}}"#, "no_stream_options", "400"),
        (r#"{"max_tokens":1048577}"#, "", "400"),
        ("{", "", "400"),
        ("{}", "no_such_fault", "400"),
    ] {
        let (writes, _) = play(config(), body, fault);
        assert_eq!((writes.len(), writes[0].0, writes[0].2), (1, 0.0, 0));
        assert!(writes[0].1.starts_with(&format!("HTTP/1.1 {status} ")), "{}", writes[0].1);
        assert_eq!(writes[0].1.contains("retry-after: 1"), status != "400");
    }
}

#[test]
fn stalls_delay_what_follows() {
    let stalled = FixedConfig { stalls: vec!["6ms:10ms".parse().unwrap()], ..config() };
    let (writes, _) = play(stalled, r#"{"stream":true}"#, "");
    let due: Vec<f64> = writes.iter().map(|w| w.0).collect();
    assert_eq!(due, [0.0, 5.0, 17.0, 19.0]);
}

#[test]
fn an_http_1_0_client_gets_no_chunks() {
    let fixed = Fixed::new(config());
    let old = Request { chunked_ok: false, keep_alive: true, ..request(r#"{"stream":true}"#, "") };
    let occasion = Occasion { n: 0, start: ARRIVED, created: 1 };
    let mut answer = fixed.answer(Shape::Completions, &old, occasion);
    let mut out = Vec::new();
    while answer.due().is_some() {
        answer.emit(&mut out);
    }
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.contains("connection: close\r\n\r\ndata: {") && text.ends_with("data: [DONE]\n\n"),
        "{text}"
    );
    assert_eq!(answer.end(), End::Close);
}
