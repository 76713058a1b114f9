//! Writes a stored run of any size with the program's own writers, and says how long the log and its conversion took;
//! or reads one back under a ruler, and says how long that took.
//!
//! The run is made up, but shaped like one of a busy server: an open loop of 1,000 requests/s, first tokens after
//! 50 ms and more, a token every 10 ms with jitter to the nanosecond (so that nearly all gaps differ), one token in a
//! hundred that shares its read with the one before, a role at the front, usage and `[DONE]` at the end. Nothing in it
//! depends on anything but the arguments.

use clap::Parser;
use goodput_core::load_check::LoadContext;
use goodput_core::outcome::Outcome;
use goodput_core::plan::Plan;
use goodput_core::ruler::ruler;
use goodput_core::summarise::{SummaryRequest, summarise};
use goodput_core::time::Nanos;
use goodput_core::timeline::{Chunk, ChunkFlags, Phase, Timeline};
use goodput_core::tokens::{TokenCount, TokenSource};
use goodput_store::StoreError;
use goodput_store::layout::RunDir;
use goodput_store::log::LogWriter;
use goodput_store::manifest::{Anchor, Clock, Manifest, Status};
use goodput_store::parquet::{LogAfter, convert};
use goodput_store::reader::RunReader;
use std::error::Error;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Write a stored run, or read one back.
#[derive(Parser)]
enum Args {
    /// Write one.
    Write(Shape),
    /// Read one back.
    Read(Reading),
}

/// How to read a run.
#[derive(clap::Args)]
struct Reading {
    /// The run, or the folder that holds it.
    run: PathBuf,
    /// Ruler to read it by.
    #[arg(long, default_value = "vllm")]
    ruler: String,
    /// Threads; by default one a core.
    #[arg(long)]
    threads: Option<NonZero<u64>>,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// The shape of the run to write.
#[derive(clap::Args)]
struct Shape {
    /// Folder for the run, which is called `readback`.
    out: PathBuf,
    /// Number of requests.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,
    /// Output tokens of each request, one a chunk.
    #[arg(long, default_value_t = 200)]
    tokens: u32,
    /// Arrival times are whole multiples of this many nanoseconds; a coarse clock makes gaps repeat.
    #[arg(long, default_value_t = 1)]
    tick: u64,
    /// Leave the log, and write no Parquet files.
    #[arg(long)]
    log_only: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    match Args::parse() {
        Args::Write(shape) => write(&shape),
        Args::Read(reading) => read(&reading),
    }
}

fn read(reading: &Reading) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let ruler = ruler(&reading.ruler).ok_or("no such ruler")?;
    let mut run = RunReader::open(&reading.run)?;
    if let Some(threads) = reading.threads {
        run = run.with_threads(threads);
    }
    let request = SummaryRequest { ruler, ..SummaryRequest::new(LoadContext::from_plan(run.plan())) };
    let summary = summarise(&run, &request)?;
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("read {} requests in {seconds:.2} s", run.requests());
    if reading.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    }
    Ok(())
}

fn write(args: &Shape) -> Result<(), Box<dyn Error>> {
    let run = RunDir::create(&args.out, Some("readback"))?;
    let plan = plan(args.requests)?;
    run.write_plan(&plan)?;
    let start = Anchor { unix_ns: 1_767_323_045_000_000_000, run_ns: 0 };
    let mut manifest = Manifest::starting(&plan, Clock::starting("CLOCK_MONOTONIC", start, None));
    manifest.status = Status::Complete;
    manifest.write(&run)?;

    let began = Instant::now();
    write_log(&run, args)?;
    let chunks = args.requests * (u64::from(args.tokens) + 3);
    report("log", &run, began, chunks)?;
    if !args.log_only {
        let began = Instant::now();
        convert(&run, LogAfter::Delete)?;
        report("parquet", &run, began, chunks)?;
    }
    Ok(())
}

fn plan(requests: u64) -> Result<Plan, Box<dyn Error>> {
    let text = format!(
        r#"
        version = "1.0"
        seed = 1
        [target]
        urls = ["http://127.0.0.1:9001"]
        protocol = "openai-chat"
        model = "m"
        http = "1"
        verify_tls = true
        [load]
        arrivals = {{ law = {{ kind = "poisson" }}, rate = {{ kind = "steady", rate = 1000.0 }} }}
        [stop]
        requests = {requests}
        [warmup]
        kind = "none"
        [timeouts]
        [workload]
        data = {{ kind = "random" }}
        input_tokens = {{ kind = "fixed", tokens = 64 }}
        output_tokens = {{ kind = "fixed", tokens = 200 }}
        prefix_tokens = 0
        tokenizer = {{ kind = "bytes" }}
        [request]
        ignore_eos = true
        stream = true
        continuous_usage = false
        "#
    );
    Ok(Plan::from_toml(&text)?)
}

fn write_log(run: &RunDir, args: &Shape) -> Result<(), StoreError> {
    let mut log = LogWriter::create(run)?;
    let mut random = Random(1);
    let mut now = Nanos::ZERO;
    for index in 0..args.requests {
        now += Nanos(random.below(2_000_000));
        log.append(&timeline(index, now, args, &mut random))?;
    }
    log.finish()
}

fn timeline(index: u64, start: Nanos, args: &Shape, random: &mut Random) -> Timeline {
    let mut t = Timeline::released(index, Phase::Measured, Some(start), start);
    let sent = start + Nanos(2_000 + random.below(20_000));
    let rounded = |at: Nanos| Nanos(at.0.next_multiple_of(args.tick));
    let mut at = sent + Nanos(50_000_000 + random.below(8_000_000));
    t.instants.sent = Some(sent);
    t.instants.sent_all = Some(sent + Nanos(900));
    t.instants.headers = Some(rounded(at));
    t.status = Some(200);
    t.outcome = Outcome::Ok;
    t.finish_reason = Some("length".to_owned());
    t.output = Some(TokenCount { count: args.tokens, source: TokenSource::Server });
    t.server.prompt_tokens = Some(64);
    t.server.completion_tokens = Some(args.tokens);
    (t.planned_input, t.max_tokens) = (Some(64), Some(args.tokens));
    (t.request_bytes, t.response_bytes) = (400, 200 * u64::from(args.tokens));
    t.connection.id = (index % 3_000) as u32;
    t.chunks = Vec::with_capacity(args.tokens as usize + 3);
    let stamped = |at: Nanos, bytes: u32, flags: ChunkFlags, tokens: u32, random: &mut Random| Chunk {
        at: rounded(at),
        late_ns: 4_000 + random.below(20_000) as u32,
        early_ns: 0,
        bytes,
        tokens,
        flags: flags | ChunkFlags::KERNEL_STAMP,
        choice: 0,
        token_source: TokenSource::Chunks,
    };
    let role = ChunkFlags::CHOICES | ChunkFlags::ROLE | ChunkFlags::EMPTY_TEXT;
    t.chunks.push(stamped(at, 210, role, 0, random));
    for _ in 0..args.tokens {
        let shares = random.below(100) == 0;
        at += Nanos(if shares { 0 } else { 9_000_000 + random.below(1_000_000) + random.below(1_000_000) });
        let mut flags = ChunkFlags::CHOICES | ChunkFlags::TEXT;
        if shares {
            flags |= ChunkFlags::SHARED_READ;
        }
        t.chunks.push(stamped(at, 196 + random.below(9) as u32, flags, 1, random));
    }
    let shared = ChunkFlags::SHARED_READ;
    at += Nanos(40_000);
    t.chunks.push(stamped(at, 230, ChunkFlags::USAGE, 0, random));
    t.chunks.push(stamped(at, 6, ChunkFlags::DONE | shared, 0, random));
    t.instants.done = Some(rounded(at));
    t.instants.closed = Some(rounded(at) + Nanos(300));
    t
}

fn report(what: &str, run: &RunDir, began: Instant, chunks: u64) -> Result<(), Box<dyn Error>> {
    let (seconds, bytes) = (began.elapsed().as_secs_f64(), size(run.path())?);
    println!(
        "{what}: {seconds:.1} s, {:.2} M chunks/s, {:.0} MB, {:.2} bytes a chunk",
        chunks as f64 / seconds / 1e6,
        bytes as f64 / 1e6,
        bytes as f64 / chunks as f64
    );
    Ok(())
}

fn size(path: &Path) -> Result<u64, std::io::Error> {
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
    }
}
