//! A relay in front of a server that keeps every byte the client sent.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Everything that came in, connection by connection.
type Received = Arc<Mutex<Vec<Vec<u8>>>>;

/// The relay. Its threads end with their connections, the last one with the test's process.
pub(crate) struct Recorder {
    address: SocketAddr,
    received: Received,
}

/// One request as it came in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    /// Request line and headers.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Recorder {
    /// Relays to `server`.
    pub(crate) fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let received = Received::default();
        let kept = received.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A connection that cannot be relayed is closed, and the client says so.
                drop(relay(client, server, &kept));
            }
        });
        Self { address, received }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far, in the order of their bytes, because connections have none.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let received = self.received.lock().expect("no panic");
        let mut requests: Vec<_> = received.iter().flat_map(|bytes| split(bytes)).collect();
        requests.sort();
        requests
    }

    /// The bodies of all requests that asked for an answer.
    pub(crate) fn bodies(&self) -> Vec<String> {
        let posts = self.requests().into_iter().filter(|request| request.head.starts_with("POST "));
        posts.map(|request| request.body).collect()
    }
}

fn relay(mut client: TcpStream, server: SocketAddr, received: &Received) -> io::Result<()> {
    let mut server = TcpStream::connect(server)?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    thread::spawn(move || {
        // Whichever side ends first ends the other.
        drop(io::copy(&mut from_server, &mut to_client));
        drop(to_client.shutdown(Shutdown::Both));
    });
    let index = {
        let mut received = received.lock().expect("no panic");
        received.push(Vec::new());
        received.len() - 1
    };
    let received = received.clone();
    thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            received.lock().expect("no panic")[index].extend_from_slice(&buffer[..read]);
            if server.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        drop(server.shutdown(Shutdown::Both));
    });
    Ok(())
}

/// The requests that a connection carried one after the other.
fn split(bytes: &[u8]) -> Vec<Request> {
    let mut rest = std::str::from_utf8(bytes).expect("JSON and ASCII heads");
    let mut requests = Vec::new();
    while let Some((head, after)) = rest.split_once("\r\n\r\n") {
        let length = head.lines().filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().expect("a number"))
        });
        let (body, next) = after.split_at(length.unwrap_or(0));
        requests.push(Request { head: head.to_owned(), body: body.to_owned() });
        rest = next;
    }
    requests
}
