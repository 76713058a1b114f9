//! Servers that do to a connection what no decent server does: a closure with the raw stream, on a thread each.

use std::io::Read;
use std::net::{TcpListener, TcpStream};

/// The answer to everything: one token, its usage, the end.
pub(crate) const EVENTS: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"},\"finish_reason\":\"stop\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\"total_tokens\":10}}\n\n\
    data: [DONE]\n\n";

/// Serves on an ephemeral port until the test ends. `serve` gets each connection on which something comes, with its
/// number among these, from 0.
pub(crate) fn spawn(serve: impl Fn(TcpStream, usize) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        // The first connection only asks whether somebody listens.
        for (number, stream) in listener.incoming().skip(1).enumerate() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream.unwrap(), number));
        }
    });
    port
}

/// Reads one whole request off a stream; `None` if the client has gone.
pub(crate) fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let read = stream.read(&mut buffer).ok().filter(|&read| read > 0)?;
        request.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if length.is_some_and(|length| body.len() >= length.parse().unwrap()) {
            return Some(text.into_owned());
        }
    }
}

/// A whole answer of known length.
pub(crate) fn answer(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}")
}
