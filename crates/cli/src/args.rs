//! The command line as typed. Nothing is resolved, opened or checked here beyond the form of a value; what
//! the flags mean together is decided in `resolve`.

mod engine;
mod queue;
mod selfcheck;
mod serve;

pub(crate) use engine::{EngineArgs, SimProfilesArgs, SimRunArgs};
pub(crate) use queue::{QueueLawArg, ServiceLawArg, SimQueueArgs};
pub(crate) use selfcheck::SelfcheckArgs;
pub(crate) use serve::SimServeArgs;

use clap::{Args, Parser, Subcommand, ValueEnum};
use goodput_core::plan::{HttpVersion, Protocol, SharegptFilter};
use goodput_core::time::Nanos;
use goodput_core::units::{parse_duration, parse_rate};
use goodput_server::{FaultRule, Stall};
use goodput_wire::request::encode_head;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The end of the help page, with the codes of `exit::Exit`.
const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  a gate failed: the SLO was missed (--gate)
    2  bad input: nothing was sent
    3  the run is invalid: no server, no successful request, or (--strict) the client was the limit; selfcheck: this
       host is not fit
  130  interrupted; the partial run is saved";

/// The end of the help page of `run`.
const UNITS: &str = "\
Durations (D) have a unit: 500us, 50ms, 20s, 1m30s, 2h. Rates (R) are per second unless they say otherwise: 50, 0.5, \
300/min, inf. Lengths (LAW) are a number or a law: 512, uniform(100,900), lognormal(mean=500,cv=1.2), empirical(FILE) \
with one number a line.

For example:
  goodput run --url http://127.0.0.1:8000 --rate 10 --duration 2m --input-tokens 512 --output-tokens 128 --ignore-eos
  goodput run --url http://127.0.0.1:8000 --concurrency 32 --requests 500 --data sharegpt --data-path sharegpt.json
  goodput run --url http://127.0.0.1:8000 --rate 20 --slo ttft:500ms,tpot:50ms --gate --json --quiet";

/// The end of the help page of `sim run`.
const SIM_RUN_EXAMPLES: &str = "\
Durations, rates and lengths are written as for `goodput run`.

For example:
  goodput sim run --profile llama-3.1-8b-h100 --rate 4 --requests 2000 --input-tokens 1800 --output-tokens 220
  goodput sim run --profile illustrative --rate 2 --requests 500 --input-tokens 4000 --enable-chunked-prefill
  goodput sim run --profile llama-3.1-70b-4xh100 --engine sglang --rate 10 --prefix-tokens 1000 --input-tokens 1800";

/// Measure LLM serving so honestly that a number can be trusted and compared.
#[derive(Debug, Parser)]
#[command(name = "goodput", version, propagate_version = true, max_term_width = 110)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// One load point against any OpenAI-compatible or SGLang endpoint.
    #[command(after_help = UNITS)]
    Run(Box<RunArgs>),
    /// Read a stored run again, under any ruler.
    Show(ShowArgs),
    /// What a metric or a ruler means, in words and formulas.
    Explain(ExplainArgs),
    /// Serve the built-in exact server.
    #[command(subcommand)]
    Sim(SimCommand),
    /// A short run against the built-in exact server, with a stall and a burst in it: no server, no GPU, no download.
    Demo(DemoArgs),
    /// How far this client is off on this host and how much it can take, against the built-in exact server in another
    /// process. Exits with 3 if no load was measured well, or if arrivals leave late.
    Selfcheck(SelfcheckArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) verdict: VerdictArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Target")]
pub(crate) struct TargetArgs {
    /// Server root, for example http://127.0.0.1:8000; repeat it for replicas (requests take turns).
    #[arg(long, value_name = "URL", required_unless_present = "plan")]
    pub(crate) url: Vec<String>,
    /// Endpoint to use: openai-chat, openai-completions or sglang (its native /generate) [default: the first that
    /// the server has].
    #[arg(long, value_parser = protocol, value_name = "NAME")]
    pub(crate) protocol: Option<Protocol>,
    /// Model name to ask for [default: the first that the server lists].
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Key sent as `Authorization: Bearer KEY`; it is stored nowhere.
    #[arg(long, env = "OPENAI_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Extra header of every request; repeatable. The run keeps its name and not its value.
    #[arg(long = "header", value_name = "K=V", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// PEM file with certificates to trust besides the system's.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Accept any certificate of the server.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// HTTP version; 2 shares one connection among all requests and is a condition worth stating.
    #[arg(long, value_parser = http_version, default_value = "1", value_name = "1|2")]
    pub(crate) http: HttpVersion,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Open loop: requests per second, sent on schedule whatever the server does; `inf` sends all at once.
    #[arg(long, value_parser = rate, value_name = "R", allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,
    /// Closed loop: N slots, each sends the next request when its last one has ended. Together with --rate it is a
    /// cap on the open loop, and what waits for it is recorded (cap_wait).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: Option<u32>,
    /// Law of the gaps between arrivals.
    #[arg(long, value_enum, default_value_t = ArrivalsArg::Poisson)]
    pub(crate) arrivals: ArrivalsArg,
    /// Shape of gamma gaps: 1 is Poisson, below 1 burstier, above 1 smoother. Implies --arrivals gamma.
    #[arg(long, value_name = "SHAPE", allow_negative_numbers = true)]
    pub(crate) burstiness: Option<f64>,
    /// Ramp by time instead of one rate: `FROM:TO:OVER[:exponential]`, for example 5:50:30s.
    #[arg(long, value_name = "RAMP", conflicts_with_all = ["rate", "steps"])]
    pub(crate) ramp: Option<String>,
    /// Staircase instead of one rate: `RATE:TIME,RATE:TIME,...` for example 10:30s,20:30s.
    #[arg(long, value_name = "STEPS", conflicts_with = "rate")]
    pub(crate) steps: Option<String>,
    /// Measured requests to send [default: 1000 if there is no --duration and the load is a burst or a closed loop].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Time for which measured requests are offered [default: 60s if there is no --requests].
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(crate) duration: Option<Nanos>,
    /// Warm-up before measuring, as a number or a time, with prompts of its own and without a pause after it
    /// [default: 10 requests, or one for each slot of a closed loop].
    #[arg(long, value_name = "N|D")]
    pub(crate) warmup: Option<String>,
    /// How long to wait for running requests after the last was offered; then they are cancelled and censored
    /// [default: as long as their timeouts allow].
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(crate) drain: Option<Nanos>,
    /// Failed requests after which the run ends early [default: no limit].
    #[arg(long, value_name = "N")]
    pub(crate) error_budget: Option<u64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits on one request")]
pub(crate) struct LimitArgs {
    /// Longest time from release to the end of the answer.
    #[arg(long, value_name = "D", value_parser = duration, default_value = "10m")]
    pub(crate) timeout: Nanos,
    /// Longest time from release to the first token [default: --timeout].
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(crate) first_token_timeout: Option<Nanos>,
    /// Longest time without a byte of the answer [default: --timeout].
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(crate) idle_timeout: Option<Nanos>,
    /// Longest time for a new connection.
    #[arg(long, value_name = "D", value_parser = duration, default_value = "10s")]
    pub(crate) connect_timeout: Nanos,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadArgs {
    /// Where prompts come from.
    #[arg(long, value_enum, default_value_t = DataArg::Random)]
    pub(crate) data: DataArg,
    /// File of the data set, for --data sharegpt and jsonl.
    #[arg(long, value_name = "FILE")]
    pub(crate) data_path: Option<PathBuf>,
    /// Use a damaged data file up to the damage, instead of refusing it.
    #[arg(long, requires = "data_path")]
    pub(crate) salvage: bool,
    /// Which ShareGPT entries are used: by roles, or by vLLM's or SGLang's rules.
    #[arg(long, value_parser = sharegpt_filter, default_value = "roles", value_name = "roles|vllm|sglang", requires = "data_path")]
    pub(crate) sharegpt_filter: SharegptFilter,
    /// Length of random prompts in tokens [default: 512].
    #[arg(long, value_name = "LAW")]
    pub(crate) input_tokens: Option<String>,
    /// Output tokens to ask for, drawn for each request [default: as the data has it; 128 for random data, unless
    /// --max-tokens is given].
    #[arg(long, value_name = "LAW")]
    pub(crate) output_tokens: Option<String>,
    /// Tokens at the start of random prompts that all share; they count in --input-tokens.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) prefix_tokens: u32,
    /// How prompt tokens are counted: by a tokenizer.json (or its folder), `tiktoken:NAME`, `bytes`, or `server` for
    /// the server's own /tokenize. Give the model's file where lengths must be exact.
    #[arg(long, value_name = "FILE|tiktoken:NAME|bytes|server", default_value = "tiktoken:cl100k_base")]
    pub(crate) tokenizer: String,
    /// Output tokens to ask for where neither --output-tokens nor the data says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,
    /// Ask the server to go on past the end of sequence, so that all outputs have the length asked for.
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Ask for whole answers instead of streams: there is no TTFT then.
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// Ask for the token count with every chunk, so that tokens per chunk are known.
    #[arg(long)]
    pub(crate) continuous_usage: bool,
    /// JSON object merged into every request body; its members win over everything else.
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub(crate) body: Option<String>,
    /// Text that makes prompts differ from those of earlier runs, so that a prefix cache warmed by them does not
    /// help: `auto` (new each run), `none`, or your own.
    #[arg(long, value_name = "auto|none|TEXT", default_value = "auto")]
    pub(crate) salt: String,
    /// Root of all random draws: the same seed gives the same schedule and lengths.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Client")]
pub(crate) struct ClientArgs {
    /// Receive threads [default: 1, more only on machines with more than 8 cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), alias = "threads")]
    pub(crate) receive_threads: Option<u16>,
    /// CPU time that a receive thread uses up for every event it parses. It is there to prove that such work does not
    /// change what is measured; the manifest of a run says that it was used. Hidden, because it helps nobody's figures.
    #[arg(long, value_name = "D", value_parser = duration, hide = true)]
    pub(crate) receive_work: Option<Nanos>,
    /// Connections opened before the start [default: the slots, or a second's worth of arrivals].
    #[arg(long, value_name = "N")]
    pub(crate) connections: Option<usize>,
    /// Replay a stored plan.toml, or the one of a run directory: the same requests at the same instants, to --url if
    /// it is given. Keys and headers are not in a plan and must be given again.
    #[arg(long, value_name = "FILE|DIR",
        conflicts_with_all = ["protocol", "model", "http", "LoadArgs", "LimitArgs", "WorkloadArgs"])]
    pub(crate) plan: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct ReadingArgs {
    /// Objectives, `ttft:500ms,tpot:50ms`, with percentiles `ttft.p95:500ms`; or an SLO file. A stored run is read under
    /// the SLO it was made for unless another is given.
    #[arg(long, value_name = "SLO|FILE")]
    pub(crate) slo: Option<String>,
    /// Whose definitions to use; `goodput explain` lists them.
    #[arg(long, default_value = "canonical", value_name = "NAME")]
    pub(crate) ruler: String,
    /// Percentiles to print, between 0 and 100.
    #[arg(long, value_name = "LIST", default_value = "50,95,99", value_delimiter = ',', value_parser = percentile)]
    pub(crate) percentiles: Vec<f64>,
    /// Which part of the run the figures cover [default: the one of the SLO file, else whole].
    #[arg(long, value_enum)]
    pub(crate) window: Option<WindowArg>,
    /// How intervals are made: from order statistics, or by a bootstrap over blocks of time, which does not take
    /// requests that are close in time as independent [default: order for requests, blocks for gaps and tokens].
    #[arg(long, value_enum, value_name = "order|blocks")]
    pub(crate) intervals: Option<IntervalsArg>,
    /// Hold the run against the server's own record of it, as `goodput sim fixed` or `sim serve` with --truth FILE writes
    /// one, and say how far this client's figures are off.
    #[arg(long, value_name = "FILE")]
    pub(crate) truth: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Folder that holds run directories.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Name of the run directory [default: the time and a short id].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Fact to keep with the run, such as what you set on the engine; repeatable.
    #[arg(long = "tag", value_name = "K=V", value_parser = key_value)]
    pub(crate) tags: Vec<(String, String)>,
    /// Print summary.json on stdout, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
    /// Nothing on stderr but errors.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Verdict")]
pub(crate) struct VerdictArgs {
    /// Exit with 1 if the SLO is missed: attainment under its target (90 % for inline objectives) or a failed
    /// percentile.
    #[arg(long, requires = "slo")]
    pub(crate) gate: bool,
    /// Exit with 3 if the client, and not the server, limited the run.
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A run directory, or a folder of them (the newest is shown).
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// One table with every ruler, and why they differ.
    #[arg(long, conflicts_with = "ruler")]
    pub(crate) rulers: bool,
    /// Print the summary as JSON (with --rulers a list of summaries).
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A metric (`tpot`) or a ruler (`vllm`); without one, the list of both.
    pub(crate) what: Option<String>,
    /// Under which ruler.
    #[arg(long, default_value = "canonical", value_name = "NAME")]
    pub(crate) ruler: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Answers with exact timing: first token after --ttft, then one every --itl.
    Fixed(SimFixedArgs),
    /// Plays a byte script: what is written, and when.
    Script(SimScriptArgs),
    /// One load point against the simulated engine, in virtual time: nothing is sent and nothing is waited for. The same
    /// run directory and report as `goodput run`, the same bytes for the same arguments.
    #[command(after_help = SIM_RUN_EXAMPLES)]
    Run(Box<SimRunArgs>),
    /// The simulated engine on a port: the routes, streams and metrics page of vLLM or SGLang, at the times of a model.
    #[command(after_help = serve::SIM_SERVE_EXAMPLES)]
    Serve(Box<SimServeArgs>),
    /// The shipped profiles of the simulated engine, with the source of every constant.
    Profiles(SimProfilesArgs),
    /// A textbook queue in virtual time, with theory beside what is seen.
    #[command(after_help = queue::SIM_QUEUE_EXAMPLES)]
    Queue(SimQueueArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Port to listen on; 0 takes a free one. The address is printed.
    #[arg(long, value_name = "N", default_value_t = 8000)]
    pub(crate) port: u16,
    /// Address to listen on.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// Write what the server itself did and when, one JSON line a request.
    #[arg(long, value_name = "FILE")]
    pub(crate) truth: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SimFixedArgs {
    /// Time to the first token.
    #[arg(long, value_name = "D", value_parser = duration, default_value = "50ms")]
    pub(crate) ttft: Nanos,
    /// Time between tokens.
    #[arg(long, value_name = "D", value_parser = duration, default_value = "10ms")]
    pub(crate) itl: Nanos,
    /// Tokens in an answer, unless the request asks for fewer.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tokens: u32,
    /// Answers at a time; further requests queue.
    #[arg(long, value_name = "N")]
    pub(crate) slots: Option<NonZeroUsize>,
    /// A fault to inject, `name[=value][@probability]`; repeatable. Requests can ask for faults themselves, with the
    /// header x-goodput-fault.
    #[arg(long = "fault", value_name = "FAULT", long_help = format!("Fault to inject, `name[=value][@probability]`; repeatable. Requests can ask for faults themselves, with the header x-goodput-fault.\n\n{}", goodput_server::Fault::HELP))]
    pub(crate) faults: Vec<FaultRule>,
    /// All streams pause: AT:FOR after the first request, for example 4s:1500ms.
    #[arg(long, value_name = "AT:FOR")]
    pub(crate) stall: Vec<Stall>,
    /// Seed of probabilistic faults.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SimScriptArgs {
    /// Replay files: one for all connections, or one for each connection in turn.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) scripts: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Folder that holds run directories.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Nothing on stderr but errors.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArrivalsArg {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Gamma gaps, see --burstiness.
    Gamma,
    /// vLLM's variant: gamma gaps stretched so that the last arrival falls on N/rate.
    GammaRescaled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataArg {
    /// Random tokens of the vocabulary.
    Random,
    /// A ShareGPT file.
    Sharegpt,
    /// One JSON object a line, with `prompt` or `messages`.
    Jsonl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IntervalsArg {
    /// Distribution-free, from order statistics.
    Order,
    /// Bootstrap over blocks of time.
    Blocks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WindowArg {
    /// From the first start to the last completion.
    Whole,
    /// Without the transient at the start and the drain at the end.
    Steady,
}

fn protocol(text: &str) -> Result<Protocol, String> {
    Protocol::ALL
        .into_iter()
        .find(|p| p.name() == text)
        .ok_or_else(|| "expected openai-chat, openai-completions or sglang".to_owned())
}

fn http_version(text: &str) -> Result<HttpVersion, String> {
    match text {
        "1" | "1.1" => Ok(HttpVersion::Http1),
        "2" => Ok(HttpVersion::Http2),
        _ => Err("expected 1 or 2".to_owned()),
    }
}

fn sharegpt_filter(text: &str) -> Result<SharegptFilter, String> {
    match text {
        "roles" => Ok(SharegptFilter::Roles),
        "vllm" => Ok(SharegptFilter::Vllm),
        "sglang" => Ok(SharegptFilter::Sglang),
        _ => Err("expected roles, vllm or sglang".to_owned()),
    }
}

fn duration(text: &str) -> Result<Nanos, String> {
    parse_duration(text).map_err(|e| e.to_string())
}

fn rate(text: &str) -> Result<f64, String> {
    parse_rate(text).map_err(|e| e.to_string())
}

/// A header that can be sent, by the rule of the code that will send it.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = key_value(text)?;
    encode_head("GET", "/", "localhost", &[(&name, &value)], None).map_err(|e| e.to_string())?;
    Ok((name, value))
}

fn json_object(text: &str) -> Result<String, String> {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text)
        .map(|_| text.to_owned())
        .map_err(|e| format!("expected a JSON object such as {{\"temperature\": 0}}: {e}"))
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    if key.is_empty() { Err("the key is empty".to_owned()) } else { Ok((key.to_owned(), value.to_owned())) }
}

/// A percentile as people write it, between 0 and 100.
fn percentile(text: &str) -> Result<f64, String> {
    let typed = text.trim().trim_start_matches('p');
    match typed.parse::<f64>() {
        Ok(p) if p > 0.0 && p < 100.0 => Ok(p),
        _ => Err("expected percentiles between 0 and 100, for example 50,95,99.9".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn values_have_one_form() {
        assert_eq!(percentile("p99.9"), Ok(99.9));
        assert!(percentile("100").is_err());
        assert_eq!(key_value("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(key_value("=x").is_err());
        assert!(header("x-team=a b").is_ok() && header("x team=a").is_err() && header("x=a\nb").is_err());
        assert!(json_object("{\"a\": 1}").is_ok() && json_object("[1]").is_err());
    }
}
