//! How exact the server is on this machine: 1,000 timed streams, then untimed ones.
//!
//! `cargo run --release -p goodput-server --example precision [STREAMS] [ITL_MS] [SECONDS]`. The client is one thread
//! that only reads and throws away. With two cores, one runs the server and one the client. Requests of the timed part
//! start one every 1.01 ms, so that the due times of a thousand streams are spread evenly over 10 ms.
#![expect(clippy::print_stdout, reason = "an example that prints its table")]

use goodput_core::time::Nanos;
use goodput_server::truth::Spread;
use goodput_server::{FixedConfig, Service, Truth, spawn};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const REQUEST: &[u8] =
    b"POST /v1/completions HTTP/1.1\r\ncontent-length: 30\r\n\r\n{\"prompt\":\"x\",\"stream\":true } ";

fn main() -> io::Result<()> {
    let number =
        |at: usize, default: u64| std::env::args().nth(at).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (streams, itl, seconds) = (number(1, 1_000), number(2, 10), number(3, 10));

    let tokens = u32::try_from(seconds * 1_000 / itl.max(1)).unwrap_or(u32::MAX);
    let timed = FixedConfig {
        ttft: Nanos::from_millis(200),
        itl: Nanos::from_millis(itl),
        tokens,
        ..FixedConfig::default()
    };
    report(&format!("{streams} streams, ITL {itl} ms, {tokens} tokens"), timed, streams, 1)?;

    let fast = FixedConfig { ttft: Nanos::ZERO, itl: Nanos::ZERO, tokens: 1_000, ..FixedConfig::default() };
    report("64 streams, untimed, 64 x 1,000 tokens each", fast, 64, 64)
}

fn report(title: &str, config: FixedConfig, streams: u64, rounds: u64) -> io::Result<()> {
    let server = spawn(Service::Fixed(config))?;
    // The kernel begins to stamp a little after it was asked to.
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    let bytes = drain(server.addr, streams, rounds)?;
    let took = begun.elapsed().as_secs_f64();
    let truth: Truth = server.stop()?;
    println!("{title}");
    println!("  {:.0} chunks/s, {:.0} MB/s", truth.chunks as f64 / took, bytes as f64 / took / 1e6);
    for (name, spread) in
        [("lateness us", truth.lateness_us), ("TTFT ms", truth.ttft_ms), ("ITL ms", truth.itl_ms)]
    {
        let Spread { n, mean, p50, p90, p99, p999, max, .. } = spread;
        println!(
            "  {name:12} n {n}  mean {mean:.3}  p50 {p50:.3}  p90 {p90:.3}  p99 {p99:.3}  p99.9 {p999:.3}  max {max:.3}"
        );
    }
    println!("  kernel-stamped arrivals: {} of {}", truth.arrivals.kernel_stamped, truth.requests.arrived);
    Ok(())
}

/// Sends `rounds` requests on each of `streams` connections, one after the other, and reads everything. With one round
/// the connections start one every 1.01 ms.
fn drain(addr: SocketAddr, streams: u64, rounds: u64) -> io::Result<u64> {
    let mut poll = Poll::new()?;
    let mut clients: Vec<(TcpStream, u64)> = Vec::new();
    let gap = if rounds == 1 { Duration::from_micros(1_010) } else { Duration::ZERO };
    let begun = Instant::now();
    let (mut open, mut total) = (streams, 0);
    let mut buffer = vec![0; 1 << 18];
    let mut events = Events::with_capacity(1_024);
    while open > 0 {
        let started = clients.len() as u64;
        if started < streams && begun.elapsed() >= gap * started as u32 {
            let stream = std::net::TcpStream::connect(addr)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(clients.len()), Interest::READABLE)?;
            stream.write_all(REQUEST)?;
            clients.push((stream, rounds));
        }
        let patience = if started < streams { Duration::ZERO } else { Duration::from_secs(10) };
        poll.poll(&mut events, Some(patience))?;
        for event in &events {
            let (stream, left) = &mut clients[event.token().0];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                total += count as u64;
                if buffer[..count].ends_with(b"[DONE]\n\n\r\n0\r\n\r\n") {
                    *left -= 1;
                    if *left == 0 {
                        open -= 1;
                    } else {
                        stream.write_all(REQUEST)?;
                    }
                }
            }
        }
    }
    Ok(total)
}
