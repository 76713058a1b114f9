//! How answers end: every outcome by the bytes and the end of connection that lead to it.

use goodput_core::outcome::{CancelCause, ConnectFault, Outcome, TimeoutPhase};
use goodput_core::plan::Protocol;
use goodput_core::time::Nanos;
use goodput_core::timeline::{ChunkFlags, Phase, Timeline};
use goodput_core::tokens::{TokenCount, TokenSource};
use goodput_wire::Stamp;
use goodput_wire::exchange::{Exchange, Progress};
use goodput_wire::reply::{End, Reply, ReplyConfig, ReplyReader};

const A: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"},\"finish_reason\":null}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn stamp(at: u64) -> Stamp {
    Stamp { late_ns: 7, ..Stamp::exact(Nanos(at)) }
}

fn chat() -> ReplyConfig {
    ReplyConfig::new(Protocol::OpenaiChat)
}

fn read(config: ReplyConfig, body: &str, end: End) -> Reply {
    let mut reader = ReplyReader::new(config);
    reader.head(Nanos(0), 200, Some("text/event-stream"));
    reader.body(stamp(1), body.as_bytes());
    reader.finish(end)
}

fn stream(body: &str, end: End) -> Reply {
    read(chat(), body, end)
}

fn answer(status: u16, content_type: Option<&str>, body: &str) -> Reply {
    let mut reader = ReplyReader::new(chat());
    reader.head(Nanos(0), status, content_type);
    reader.body(stamp(1), body.as_bytes());
    reader.finish(End::Complete)
}

#[test]
fn the_end_of_the_connection_decides_only_where_the_bytes_do_not() {
    let cut = format!("{A}{A}");
    let finished = format!("{A}{STOP}");
    let done = format!("{A}{STOP}{DONE}");
    let timeout = Outcome::Timeout { phase: TimeoutPhase::Idle };
    let cancelled = Outcome::Cancelled { cause: CancelCause::RunEnd };
    for (end, when_cut, when_finished) in [
        (End::Complete, Outcome::Truncated { inside_body: false }, Outcome::Ok),
        (End::Eof, Outcome::Truncated { inside_body: true }, Outcome::Ok),
        (End::Reset, Outcome::Reset, Outcome::Reset),
        (End::Timeout(TimeoutPhase::Idle), timeout.clone(), timeout),
        (End::Cancelled(CancelCause::RunEnd), cancelled.clone(), cancelled),
    ] {
        assert_eq!(stream(&cut, end.clone()).outcome, when_cut, "{end:?}");
        assert_eq!(stream(&finished, end.clone()).outcome, when_finished, "{end:?}");
        assert_eq!(stream(&done, end.clone()).outcome, Outcome::Ok, "{end:?}");
    }
    assert_eq!(stream("", End::Complete).outcome, Outcome::Truncated { inside_body: false });
}

#[test]
fn a_stream_without_its_end_mark_is_noted() {
    assert_eq!(stream(&format!("{A}{STOP}"), End::Eof).notes, ["the stream ended without [DONE]"]);
    let late = stream(&format!("{A}{STOP}{DONE}"), End::Reset);
    assert_eq!(late.notes, ["the answer was complete, but its HTTP body never ended"]);
}

#[test]
fn an_unfinished_event_is_told_and_the_end_mark_believed() {
    let done = stream(&format!("{A}data: [DONE]"), End::Eof);
    assert_eq!((done.outcome, done.done_at), (Outcome::Ok, Some(Nanos(1))));
    assert_eq!(done.notes, ["the stream ended without a blank line after [DONE]"]);
    let cut = stream(&format!("{A}{}", A.trim_end()), End::Eof);
    assert_eq!((cut.outcome, cut.chunks.len()), (Outcome::Truncated { inside_body: true }, 1));
    assert!(cut.notes[0].starts_with("an unfinished event of"), "{:?}", cut.notes);
    assert!(stream("data: [DO", End::Timeout(TimeoutPhase::Total)).notes.is_empty());
}

#[test]
fn without_a_connection_there_is_only_the_reason() {
    let fault = ConnectFault::Refused;
    let end = End::Connect { fault, message: "connection refused".to_owned() };
    let reply = Exchange::new(chat()).finish(end);
    assert_eq!(reply.outcome, Outcome::Connect { fault, message: "connection refused".to_owned() });
    assert_eq!((reply.status, reply.output, reply.chunks.len()), (None, None, 0));
    let mut closed = Exchange::new(chat());
    closed.eof();
    assert_eq!(closed.finish(End::Complete).outcome, Outcome::Reset);
}

#[test]
fn all_choices_must_finish() {
    let two = ReplyConfig { choices: 2, ..chat() };
    let other = STOP.replace("\"index\":0", "\"index\":1");
    let half = read(two, &format!("{A}{STOP}"), End::Complete).outcome;
    assert_eq!(half, Outcome::Truncated { inside_body: false });
    assert_eq!(read(two, &format!("{A}{STOP}{other}"), End::Complete).outcome, Outcome::Ok);
}

#[test]
fn tokens_that_are_missing_are_told_by_counts_that_can_be_trusted() {
    let config = ReplyConfig { ignore_eos: true, max_tokens: Some(4), ..chat() };
    let usage = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\n";
    let short = Outcome::ShortOutput { got: 3, wanted: 4 };
    assert_eq!(read(config, &format!("{A}{STOP}{usage}{DONE}"), End::Complete).outcome, short);
    // A chunk may carry several tokens, so an estimate proves nothing.
    assert_eq!(read(config, &format!("{A}{STOP}{DONE}"), End::Complete).outcome, Outcome::Ok);
    let stopped = STOP.replace("\"stop\"", "\"stop\",\"stop_reason\":\"\\n\"");
    assert_eq!(read(config, &format!("{A}{stopped}{usage}{DONE}"), End::Complete).outcome, Outcome::Ok);
    let eos = STOP.replace("\"stop\"", "\"stop\",\"matched_stop\":2");
    assert_eq!(read(config, &format!("{A}{eos}{usage}{DONE}"), End::Complete).outcome, short);
    let free = ReplyConfig { ignore_eos: false, ..config };
    assert_eq!(read(free, &format!("{A}{STOP}{usage}{DONE}"), End::Complete).outcome, Outcome::Ok);
}

#[test]
fn engines_that_give_up_say_so() {
    let abort = STOP.replace("stop", "abort");
    let reply = stream(&format!("{A}{abort}{DONE}"), End::Complete);
    assert_eq!(reply.outcome, Outcome::Aborted { reason: "abort".to_owned() });
    let native = "data: {\"text\":\"\",\"meta_info\":{\"finish_reason\":{\"type\":\"abort\",\
                  \"message\":\"The request queue is full.\",\"status_code\":503},\"completion_tokens\":0}}\n\n";
    let reply = read(ReplyConfig::new(Protocol::Sglang), &format!("{native}{DONE}"), End::Complete);
    assert_eq!(
        reply.outcome,
        Outcome::Aborted { reason: "abort (503): The request queue is full.".to_owned() }
    );
    assert_eq!((reply.finish_reason.as_deref(), reply.output), (Some("abort"), None));
}

#[test]
fn errors_in_a_stream() {
    let said = |body: &str| match stream(body, End::Complete).outcome {
        Outcome::StreamError { message } => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(said("data: {\"object\":\"error\",\"message\":\"too long\",\"code\":400}\n\n"), "too long");
    assert_eq!(said("event: error\ndata: it broke\n\n"), "it broke");
    assert_eq!(said("event: error\ndata: {\"message\":\"it broke\"}\n\n"), "it broke");
    assert_eq!(said(&format!("{A}{STOP}{DONE}data: {{\"error\":\"late\"}}\n\n")), "late");
    assert_eq!(said("{\"error\":{\"message\":\"loading\"}}"), "loading");
}

#[test]
fn what_is_not_the_protocol() {
    let said = |reply: Reply| match reply.outcome {
        Outcome::Protocol { message } => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        said(answer(200, Some("text/html"), "<html>\nbusy</html>")),
        "expected an event stream or JSON, found text/html: <html> busy</html>"
    );
    assert!(said(answer(200, None, "hello")).contains("no content type: hello"));
    assert!(said(stream("data: {nonsense}\n\n", End::Complete)).starts_with("event data is not JSON"));
    assert!(said(stream("data: {\"a\":\"\\q\"}\n\n", End::Complete)).starts_with("event data is not JSON"));
    assert!(said(answer(200, None, "{\"status\":\"ok\"}")).contains("neither an answer"));
    assert!(said(answer(200, None, "{\"choices\":[{]}")).starts_with("body is not the JSON"));
    let mut reader = ReplyReader::new(chat());
    reader.head(Nanos(0), 200, None);
    reader.body(stamp(1), b"data: {\"choices\":[{\"text\":\"\xff\"}]}\n\n");
    assert!(said(reader.finish(End::Complete)).contains("invalid utf-8"));
    let end = End::Protocol { message: "stream was reset by HTTP/2".to_owned() };
    assert_eq!(said(stream(A, end)), "stream was reset by HTTP/2");
    let small = ReplyConfig { max_event_bytes: 50, ..chat() };
    assert_eq!(said(read(small, A, End::Complete)), "stream event is larger than the limit of 50 bytes");
    let many: String = (0..1025).map(|n| A.replace("\"index\":0", &format!("\"index\":{n}"))).collect();
    assert!(said(stream(&many, End::Complete)).contains("beyond the limit of 1024 choices"));
}

#[test]
fn a_whole_body_cut_short_is_cut_short() {
    let whole = "{\"choices\":[{\"message\":{\"content\":\"All é\"},\"finish_reason\":\"stop\"}]}";
    for cut in 1..=whole.len() {
        let mut reader = ReplyReader::new(chat());
        reader.head(Nanos(0), 200, Some("application/json"));
        reader.body(stamp(1), &whole.as_bytes()[..cut]);
        let expected =
            if cut == whole.len() { Outcome::Ok } else { Outcome::Truncated { inside_body: true } };
        assert_eq!(reader.finish(End::Eof).outcome, expected, "{cut} bytes");
    }
}

#[test]
fn a_whole_body_without_a_count_has_tokens_nobody_knows() {
    let body = "{\"choices\":[{\"message\":{\"content\":\"All at once\"},\"finish_reason\":\"stop\"}]}";
    let reply = read(ReplyConfig { stream: false, ..chat() }, body, End::Complete);
    assert_eq!((reply.outcome, reply.output), (Outcome::Ok, None));
    assert!(reply.chunks[0].flags.has(ChunkFlags::WHOLE) && reply.chunks[0].tokens == 0);
    assert_eq!(reply.text[0].text, "All at once");
    assert!(reply.notes.is_empty());
}

#[test]
fn content_types_are_not_believed() {
    for kind in [None, Some("text/plain"), Some("application/json")] {
        assert_eq!(answer(200, kind, &format!("{A}{STOP}{DONE}")).outcome, Outcome::Ok, "{kind:?}");
    }
    let whole = "\r\n {\"choices\":[{\"text\":\"x\"}]}";
    assert_eq!(answer(200, Some("text/event-stream"), whole).outcome, Outcome::Ok);
}

#[test]
fn refusals_keep_status_message_and_wait() {
    let mut reader = ReplyReader::new(chat());
    reader.head(Nanos(4), 503, Some("application/json"));
    reader.retry_after("5");
    reader.body(stamp(5), b"{\"error\":{\"message\":\"busy\"}}");
    let reply = reader.finish(End::Reset);
    assert_eq!(reply.outcome, Outcome::HttpError { status: 503, message: "busy".to_owned() });
    assert_eq!((reply.status, reply.headers_at), (Some(503), Some(Nanos(4))));
    assert_eq!(reply.notes, ["the server asked to retry after 5"]);
    assert!(!reply.refused_usage);
    let refused = answer(400, None, "{\"error\":{\"message\":\"Unknown field: stream_options\"}}");
    assert!(refused.refused_usage);
}

#[test]
fn a_disagreement_of_counts_is_noted() {
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":7}}\n\n";
    let reply = stream(&format!("{A}{A}{STOP}{usage}{DONE}"), End::Complete);
    assert_eq!(reply.output, Some(TokenCount { count: 7, source: TokenSource::Server }));
    assert_eq!(reply.notes, ["the server counted 7 output tokens, the chunks account for 2"]);
    let zero = usage.replace('7', "0");
    let reply = stream(&format!("{A}{STOP}{zero}{DONE}"), End::Complete);
    assert_eq!(reply.output, Some(TokenCount { count: 1, source: TokenSource::Chunks }));
    assert_eq!(reply.notes, ["the server counted 0 output tokens although it sent output"]);
}

#[test]
fn running_usage_of_several_choices_counts_each() {
    let event = |choice: u32, count: u32| {
        format!(
            "data: {{\"choices\":[{{\"index\":{choice},\"delta\":{{\"content\":\"w\"}}}}],\
             \"usage\":{{\"completion_tokens\":{count}}}}}\n\n"
        )
    };
    let body = [event(0, 2), event(1, 1), event(0, 3), event(1, 4)].concat();
    let reply = read(ReplyConfig { choices: 2, ..chat() }, &body, End::Timeout(TimeoutPhase::Total));
    let tokens: Vec<u32> = reply.chunks.iter().map(|c| c.tokens).collect();
    assert_eq!(tokens, [2, 1, 1, 3]);
    assert_eq!(reply.output, Some(TokenCount { count: 7, source: TokenSource::Server }));
}

#[test]
fn several_choices_in_one_event_share_it() {
    let body = "data: {\"choices\":[{\"index\":0,\"text\":\"ab\"},{\"index\":1,\"text\":\"c\"}],\
                \"usage\":{\"completion_tokens\":2}}\n\n";
    let reply = stream(body, End::Complete);
    let seen: Vec<(u16, bool, bool, bool)> = reply
        .chunks
        .iter()
        .map(|c| {
            (c.choice, c.bytes > 0, c.flags.has(ChunkFlags::USAGE), c.flags.has(ChunkFlags::SHARED_READ))
        })
        .collect();
    assert_eq!(seen, [(0, true, true, false), (1, false, false, true)]);
}

#[test]
fn legacy_and_refusal_deltas_are_output() {
    let event = |delta: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    for (delta, flag) in [
        ("{\"function_call\":{\"arguments\":\"{}\"}}", ChunkFlags::TOOL),
        ("{\"function_call\":{\"name\":\"f\"}}", ChunkFlags::TOOL),
        ("{\"refusal\":\"no\"}", ChunkFlags::REFUSAL),
        ("{\"reasoning\":\"hm\"}", ChunkFlags::REASONING),
        ("{\"reasoning_content\":\"hm\"}", ChunkFlags::REASONING_CONTENT),
    ] {
        let reply = stream(&event(delta), End::Complete);
        assert_eq!(reply.chunks[0].flags, ChunkFlags::CHOICES | flag | ChunkFlags::KERNEL_STAMP, "{delta}");
        assert!(reply.chunks[0].carries_token());
    }
    for delta in ["{\"tool_calls\":[{\"index\":0,\"id\":\"x\"}]}", "{\"tool_calls\":[]}", "{}", "null"] {
        assert!(!stream(&event(delta), End::Complete).chunks[0].carries_token(), "{delta}");
    }
}

#[test]
fn vllm_s_timings_are_kept_and_others_let_pass() {
    let metrics = |m: &str| format!("data: {{\"choices\":[],\"usage\":{{}},\"metrics\":{m}}}\n\n");
    let server =
        stream(&metrics("{\"queue_time_ms\":1.5,\"time_to_first_token_ms\":20}"), End::Complete).server;
    assert_eq!((server.queue, server.first_token), (Some(Nanos(1_500_000)), Some(Nanos(20_000_000))));
    for odd in ["[1]", "\"x\"", "null", "{\"queue_time_ms\":null}"] {
        assert_eq!(stream(&metrics(odd), End::Complete).server.queue, None, "{odd}");
    }
}

#[test]
fn a_record_never_goes_back_in_time() {
    let mut reader = ReplyReader::new(chat());
    reader.head(Nanos(0), 200, None);
    for at in [5, 3, 9] {
        reader.body(stamp(at), A.as_bytes());
    }
    let reply = reader.finish(End::Reset);
    assert_eq!(reply.chunks.iter().map(|c| c.at.0).collect::<Vec<_>>(), [5, 5, 9]);
    assert!(reply.chunks.iter().all(|c| c.late_ns == 7));
}

fn http(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn progress_tells_what_the_socket_layer_needs() {
    let mut exchange = Exchange::new(chat());
    let text = http(&format!(": hi\n\n{A}{STOP}{DONE}"));
    let head = text.find("\r\n\r\n").unwrap() + 4;
    let token = text.find(STOP).unwrap();
    let idle = Progress::default();
    assert_eq!(exchange.push(stamp(1), &text.as_bytes()[..head]), idle);
    let ping = exchange.push(stamp(2), &text.as_bytes()[head..head + 6]);
    assert_eq!(ping, Progress { saw_byte: true, events: 1, ..idle });
    let first = exchange.push(stamp(3), &text.as_bytes()[head + 6..token]);
    assert_eq!(first, Progress { saw_byte: true, first_token: true, events: 1, ..idle });
    let last = exchange.push(stamp(4), &text.as_bytes()[token..]);
    let end = Progress { complete: true, keep_alive: true, events: 2, unbounded: true, ..first };
    assert_eq!(last, end, "the token came before the end mark, and by how much nobody has said");
    let reply = exchange.finish(End::Complete);
    assert_eq!(
        (reply.outcome, reply.headers_at, reply.done_at),
        (Outcome::Ok, Some(Nanos(1)), Some(Nanos(4)))
    );
}

#[test]
fn a_connection_with_bytes_too_many_is_not_used_again() {
    let mut exchange = Exchange::new(chat());
    let progress = exchange.push(stamp(1), format!("{}HTTP/1.1", http(&format!("{A}{DONE}"))).as_bytes());
    assert!(progress.complete && !progress.keep_alive);
    let reply = exchange.finish(End::Complete);
    assert_eq!(reply.outcome, Outcome::Ok);
    assert_eq!(reply.notes, ["8 bytes came after the end of the answer"]);
}

#[test]
fn broken_framing_ends_the_exchange() {
    for (text, message) in [
        ("FTP\r\n\r\n", "response head is not HTTP/1.1"),
        ("HTTP/1.1 200 OK\r\ncontent-encoding: br\r\n\r\nx", "body is br-encoded although"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "chunk size line \"zz\""),
    ] {
        let mut exchange = Exchange::new(chat());
        let progress = exchange.push(stamp(1), text.as_bytes());
        assert!(progress.complete && !progress.keep_alive, "{text}");
        let Outcome::Protocol { message: said } = exchange.finish(End::Complete).outcome else {
            panic!("{text}")
        };
        assert!(said.starts_with(message), "{said}");
    }
}

#[test]
fn a_reply_fills_the_record_of_its_request() {
    let mut timeline = Timeline::released(3, Phase::Measured, None, Nanos(0));
    timeline.notes.push("kept".to_owned());
    stream(&format!("{A}{STOP}"), End::Complete).apply_to(&mut timeline);
    assert_eq!((timeline.outcome, timeline.status, timeline.chunks.len()), (Outcome::Ok, Some(200), 2));
    assert_eq!((timeline.instants.headers, timeline.instants.done), (Some(Nanos(0)), None));
    assert_eq!(timeline.finish_reason.as_deref(), Some("stop"));
    assert_eq!(timeline.response_bytes, (A.len() + STOP.len()) as u64);
    assert_eq!(timeline.notes, ["kept", "the stream ended without [DONE]"]);
}
