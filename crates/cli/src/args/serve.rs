//! Flags of `goodput sim serve`: the simulated engine on a port.

use super::{EngineArgs, ListenArgs};
use clap::Args;
use goodput_observe::engine_names::sglang::BUCKET_FLAGS;
use goodput_observe::page::{BucketError, Buckets};
use goodput_server::{FaultRule, Speed};

/// Behind the help.
pub(crate) const SIM_SERVE_EXAMPLES: &str = "Examples:
  goodput sim serve --engine vllm --profile llama-3.1-8b-h100 --port 9002 --truth truth.jsonl
  goodput sim serve --engine sglang --profile llama-3.1-8b-h100 --port 9002 --max-num-seqs 32 --fault reset_after=20@0.01
  goodput run --url http://127.0.0.1:9002 --rate 4 --requests 200 --truth truth.jsonl";

#[derive(Debug, Args)]
pub(crate) struct SimServeArgs {
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) serving: ServingArgs,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) buckets: BucketArgs,
}

/// How the engine is served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Serving")]
pub(crate) struct ServingArgs {
    /// Run the engine so many times faster than real time.
    #[arg(long, value_name = "X", value_parser = speed, default_value = "1")]
    pub(crate) speed: Speed,
    /// Tokens of a chat answer whose request gives no limit.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tokens: u32,
    /// SGLang: frames of /generate carry only the new text instead of all so far.
    #[arg(long)]
    pub(crate) incremental_streaming_output: bool,
    /// A fault to inject, `name[=value][@probability]`; repeatable. Requests can ask for faults themselves, with the
    /// header x-goodput-fault.
    #[arg(long = "fault", value_name = "FAULT", long_help = format!("Fault to inject, `name[=value][@probability]`; repeatable. Requests can ask for faults themselves, with the header x-goodput-fault.\n\n{}", goodput_server::Fault::HELP))]
    pub(crate) faults: Vec<FaultRule>,
    /// Seed of the engine's draws and of probabilistic faults.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// Edges of the histograms on the metrics page, by the engines' own flags.
#[derive(Debug, Args)]
#[command(next_help_heading = "Buckets of the metrics page")]
pub(crate) struct BucketArgs {
    /// vLLM: edges by group, for example `{"request_latency": [0.1, 0.5]}`.
    #[arg(long, value_name = "JSON")]
    custom_histogram_buckets: Option<String>,
    /// SGLang: edges in seconds.
    #[arg(long, value_name = "EDGE", num_args = 1..)]
    bucket_time_to_first_token: Vec<String>,
    /// SGLang: edges in seconds.
    #[arg(long, value_name = "EDGE", num_args = 1..)]
    bucket_inter_token_latency: Vec<String>,
    /// SGLang: edges in seconds.
    #[arg(long, value_name = "EDGE", num_args = 1..)]
    bucket_e2e_request_latency: Vec<String>,
    /// SGLang: `default`, `tse MIDDLE BASE COUNT` or `custom EDGE...`, in tokens.
    #[arg(long, value_name = "RULE", num_args = 1..)]
    prompt_tokens_buckets: Vec<String>,
    /// SGLang: the same of output tokens.
    #[arg(long, value_name = "RULE", num_args = 1..)]
    generation_tokens_buckets: Vec<String>,
}

impl BucketArgs {
    /// The edges as typed.
    pub(crate) fn buckets(&self) -> Result<Buckets, BucketError> {
        let buckets = match &self.custom_histogram_buckets {
            Some(json) => Buckets::vllm(json)?,
            None => Buckets::default(),
        };
        let typed = [
            &self.bucket_time_to_first_token,
            &self.bucket_inter_token_latency,
            &self.bucket_e2e_request_latency,
            &self.prompt_tokens_buckets,
            &self.generation_tokens_buckets,
        ];
        // In the order of the flags.
        BUCKET_FLAGS
            .iter()
            .zip(typed)
            .filter(|(_, words)| !words.is_empty())
            .try_fold(buckets, |buckets, ((flag, ..), words)| buckets.with_sglang(flag, &words.join(" ")))
    }
}

fn speed(text: &str) -> Result<Speed, String> {
    let times = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    Speed::new(times).map_err(|e| e.to_string())
}
