//! The least that any client must pay for a chunk: keep-alive connections in a closed loop, read by as little code as
//! there can be, bytes counted and nothing else done with them.
//!
//! It sends the streaming request that `goodput run` sends, as often and from as many slots, and finds the end of an
//! answer by the terminal chunk of its framing (RFC 9112, section 7.1). It parses no event, keeps no time and stores
//! nothing, so the CPU time per chunk of a real client can be divided by the one printed here. It must never become a
//! client: whatever it learns to do raises the floor.

mod epoll;
mod load;
mod receive;
mod sys;
mod uring;

use clap::{Parser, ValueEnum};
use load::{Load, Target, Work};
use receive::Receiver;
use serde::Serialize;
use std::error::Error;
use std::time::{Duration, Instant};

/// How bytes are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Path {
    /// epoll and recv.
    Epoll,
    /// epoll and recvmsg with the kernel's receive stamp.
    EpollStamps,
    /// io_uring multishot recv.
    Uring,
    /// io_uring multishot recvmsg with the kernel's receive stamp.
    UringStamps,
}

/// Raw readers that only count: the floor under the CPU time per chunk of any client.
#[derive(Debug, Parser)]
struct Args {
    /// Server root, `http://ADDRESS:PORT`; meant for `goodput sim fixed`
    #[arg(long)]
    url: Target,
    /// Slots of the closed loop, each with a connection
    #[arg(long, default_value_t = 64)]
    streams: usize,
    /// Answers to fetch
    #[arg(long, default_value_t = 640)]
    requests: usize,
    /// Output tokens to ask for; the server sends a chunk for each
    #[arg(long, default_value_t = 64)]
    tokens: u32,
    /// Characters of the prompt
    #[arg(long, default_value_t = 64)]
    prompt: usize,
    /// Milliseconds over which the first requests are spread
    #[arg(long, default_value_t = 0)]
    spread_ms: u64,
    /// How bytes are received; repeatable, one run each [default: all]
    #[arg(long)]
    path: Vec<Path>,
    /// Buffers that io_uring may fill before they are read (a power of two)
    #[arg(long, default_value_t = 1024)]
    buffers: u16,
    /// Size of each of them in bytes
    #[arg(long, default_value_t = 4096)]
    buffer_bytes: u32,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

/// What one run cost.
#[derive(Debug, Serialize)]
struct Row {
    path: Path,
    streams: usize,
    requests: usize,
    /// Output tokens of all answers: the chunks that a client would have to stamp and keep.
    chunks: u64,
    bytes: u64,
    reads: u64,
    stamped_reads: u64,
    /// Times the reader waited and something came.
    wakeups: u64,
    /// io_uring only: times a multishot receive had ended and was armed again.
    rearmed: u64,
    seconds: f64,
    chunks_per_s: f64,
    cpu_us_per_chunk: f64,
    user_us_per_chunk: f64,
    sys_us_per_chunk: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    sys::raise_file_limit()?;
    let all = [Path::Epoll, Path::EpollStamps, Path::Uring, Path::UringStamps];
    let paths = if args.path.is_empty() { &all } else { args.path.as_slice() };
    if !args.json {
        println!("{HEAD}");
    }
    for &path in paths {
        let row = measure(&args, path)?;
        println!("{}", if args.json { serde_json::to_string(&row)? } else { row.line() });
    }
    Ok(())
}

const HEAD: &str =
    "path             chunks     reads   wake-ups    chunks/s  CPU us/chunk    user     sys   stamped reads";

impl Row {
    /// Under [`HEAD`].
    fn line(&self) -> String {
        let name =
            self.path.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let Self { chunks, reads, wakeups, chunks_per_s, cpu_us_per_chunk, .. } = self;
        let (user, sys, stamped) = (self.user_us_per_chunk, self.sys_us_per_chunk, self.stamped_reads);
        format!(
            "{name:<12} {chunks:>10} {reads:>9} {wakeups:>10} {chunks_per_s:>11.0} {cpu_us_per_chunk:>13.2} {user:>7.2} {sys:>7.2} {stamped:>15}"
        )
    }
}

/// One run. Connections are open and the receiver is ready before the clock starts.
fn measure(args: &Args, path: Path) -> Result<Row, Box<dyn Error>> {
    let work =
        Work { streams: args.streams, requests: args.requests, tokens: args.tokens, prompt: args.prompt };
    let mut load = Load::open(&args.url, &work)?;
    let stamps = matches!(path, Path::EpollStamps | Path::UringStamps);
    if stamps {
        load.ask_for_stamps()?;
    }
    let mut receiver = match path {
        Path::Epoll | Path::EpollStamps => Receiver::epoll(&load, stamps)?,
        Path::Uring | Path::UringStamps => {
            Receiver::uring(&load, stamps, uring::Buffers { count: args.buffers, bytes: args.buffer_bytes })?
        }
    };
    let (cpu, start) = (sys::cpu_time()?, Instant::now());
    load.begin(Duration::from_millis(args.spread_ms))?;
    let mut wakeups = 0;
    while !load.is_over() {
        receiver.turn(&mut load)?;
        wakeups += 1;
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), sys::cpu_time()?.since(cpu));
    let chunks = args.requests as u64 * u64::from(args.tokens);
    let per_chunk = |seconds: f64| seconds * 1e6 / chunks as f64;
    Ok(Row {
        path,
        streams: args.streams,
        requests: args.requests,
        chunks,
        bytes: load.bytes(),
        reads: load.reads(),
        stamped_reads: load.stamped_reads(),
        wakeups,
        rearmed: receiver.rearmed(),
        seconds,
        chunks_per_s: chunks as f64 / seconds,
        cpu_us_per_chunk: per_chunk(cpu.total),
        user_us_per_chunk: per_chunk(cpu.user),
        sys_us_per_chunk: per_chunk(cpu.total - cpu.user),
    })
}
