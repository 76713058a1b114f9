//! The frozen plan: everything that decides what is sent and when.
//!
//! Arguments and files resolve into one complete [`Plan`], which is saved in the run directory. Running it again
//! sends the same requests at the same scheduled instants, byte for byte. The orthogonal choices (arrival rule,
//! loop rule, stop rule, lengths, data, protocol) are separate types that never meet in one enum.

use crate::rng::Seed;
use crate::time::Nanos;
use crate::timeline::Phase;
use serde::{Deserialize, Serialize};

/// A complete plan for one load point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Format version of this file, `major.minor`.
    pub version: String,
    /// Root of every random stream.
    pub seed: Seed,
    /// Text mixed into every prompt so that prefix caches warmed by an earlier run cannot help; `None` sends the
    /// bare prompts.
    pub salt: Option<String>,
    /// Who is asked, and how.
    pub target: Target,
    /// When requests start.
    pub load: Load,
    /// When offering stops.
    pub stop: Stop,
    /// Requests before the measured set.
    pub warmup: Warmup,
    /// Limits on one request.
    pub timeouts: Timeouts,
    /// What is sent.
    pub workload: Workload,
    /// What the request asks for besides its prompt.
    pub request: RequestShape,
}

/// The current version of the plan format.
pub const PLAN_VERSION: &str = "1.0";

/// What stands before the name of a profile in [`Target::urls`] of a simulated run.
pub const SIMULATED: &str = "simulated:";

/// Who is asked, and how the bytes travel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Server roots, one per replica.
    pub urls: Vec<String>,
    /// The endpoint's protocol.
    pub protocol: Protocol,
    /// Model name sent in the request.
    pub model: String,
    /// HTTP version on the wire.
    pub http: HttpVersion,
    /// Names of the extra headers sent. Values are not stored: they may be secrets.
    #[serde(default)]
    pub header_names: Vec<String>,
    /// Whether certificates are checked.
    pub verify_tls: bool,
}

impl Target {
    /// Whether no server is asked: the run is of a model, in virtual time.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.urls.iter().any(|url| url.starts_with(SIMULATED))
    }
}

/// The endpoint's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// `POST /v1/chat/completions`.
    OpenaiChat,
    /// `POST /v1/completions`.
    OpenaiCompletions,
    /// SGLang's native `POST /generate`.
    Sglang,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 3] = [Self::OpenaiChat, Self::OpenaiCompletions, Self::Sglang];

    /// The name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiCompletions => "openai-completions",
            Self::Sglang => "sglang",
        }
    }

    /// The path under the server root.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::OpenaiChat => "/v1/chat/completions",
            Self::OpenaiCompletions => "/v1/completions",
            Self::Sglang => "/generate",
        }
    }
}

/// HTTP version on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HttpVersion {
    /// One request per connection at a time.
    #[serde(rename = "1")]
    Http1,
    /// Streams share a connection: a stated condition.
    #[serde(rename = "2")]
    Http2,
}

/// When requests start: an arrival process, a number of slots, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Open loop: the arrival process. `None` is a closed loop.
    pub arrivals: Option<Arrivals>,
    /// Slots: in a closed loop their number, in an open loop the cap. A request that must wait for a slot keeps
    /// its scheduled time, and the wait is on record.
    pub concurrency: Option<u32>,
}

/// The arrival process of an open loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// The law of the gaps.
    pub law: GapLaw,
    /// The rate over time.
    pub rate: RateProfile,
}

/// The law of the gaps between arrivals, at mean 1/rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum GapLaw {
    /// Always exactly 1/rate.
    Constant,
    /// Exponential gaps: a Poisson process.
    Poisson,
    /// Gamma gaps with this shape: below 1 is burstier than Poisson (CV = 1/sqrt(shape)), above 1 smoother.
    Gamma {
        /// The shape, called burstiness by vLLM.
        burstiness: f64,
    },
    /// vLLM's variant of Gamma: cumulated gaps are rescaled so that the last arrival falls exactly on N/rate.
    /// Not a renewal process any more; here so that its schedules can be reproduced.
    GammaRescaled {
        /// The shape.
        burstiness: f64,
    },
}

/// The rate over time, in requests per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum RateProfile {
    /// The same all along.
    Steady {
        /// Requests per second.
        rate: f64,
    },
    /// Everything at once, at time zero.
    Infinite,
    /// From one rate to another over a time, then steady. The ramp is by time, not by request index.
    Ramp {
        /// Rate at time zero.
        from: f64,
        /// Rate at the end of the ramp and after it.
        to: f64,
        /// Length of the ramp.
        over: Nanos,
        /// Straight or exponential.
        shape: RampShape,
    },
    /// A staircase: each step holds its rate for its time; the last one goes on.
    Steps {
        /// The steps in order.
        steps: Vec<RateStep>,
    },
}

/// The shape of a ramp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RampShape {
    /// The rate grows by the same amount each second.
    Linear,
    /// The rate grows by the same factor each second.
    Exponential,
}

/// One step of a staircase.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// Requests per second.
    pub rate: f64,
    /// How long it holds.
    pub lasts: Nanos,
}

/// When offering stops, and what happens to what is still running.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Measured requests to offer.
    pub requests: Option<u64>,
    /// Time for which measured requests are offered.
    pub duration: Option<Nanos>,
    /// How long to wait for running requests after the last one was offered; then they are cancelled and
    /// censored. `None` waits for all (each still has its own timeouts).
    pub drain: Option<Nanos>,
    /// Failed measured requests after which the run ends early.
    pub error_budget: Option<u64>,
}

/// Requests before the measured set, with prompts of their own, handed over without draining.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "amount")]
pub enum Warmup {
    /// None.
    None,
    /// This many requests.
    Requests(u64),
    /// This long, under the run's own load rule.
    Duration(Nanos),
}

/// Limits on one request, all counted from its release. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// From release to the end.
    pub total: Option<Nanos>,
    /// From release to the first token.
    pub first_token: Option<Nanos>,
    /// Between body bytes, counted from sending until the first one.
    pub idle: Option<Nanos>,
    /// For a new connection.
    pub connect: Option<Nanos>,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Where prompts come from.
    pub data: Data,
    /// Prompt length. `None`: as the data has it.
    pub input_tokens: Option<LengthLaw>,
    /// Output length to ask for. `None`: as the data has it, else the server's default.
    pub output_tokens: Option<LengthLaw>,
    /// Tokens of prefix shared by all prompts, counted inside the prompt length. `random` only.
    pub prefix_tokens: u32,
    /// How tokens of prompts are counted.
    pub tokenizer: TokenizerChoice,
    /// SHA-256 of the data file, where there is one.
    #[serde(default)]
    pub data_sha256: Option<String>,
}

/// Where prompts come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Data {
    /// Random tokens of the vocabulary, special ids excluded.
    Random,
    /// A ShareGPT file.
    Sharegpt {
        /// The file.
        path: String,
        /// Which entries are kept.
        filter: SharegptFilter,
        /// Use the entries before the place where a damaged file breaks, instead of refusing it.
        salvage: bool,
    },
    /// One JSON object a line, with `prompt` or `messages`, and optionally an output length.
    Jsonl {
        /// The file.
        path: String,
        /// Use the lines before the first damaged one, instead of refusing the file.
        salvage: bool,
    },
}

/// Which ShareGPT entries are kept, and how their turns are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharegptFilter {
    /// Ours: the first user turn followed at once by an assistant turn, both not blank; no length limit.
    Roles,
    /// vLLM's: the first two turns whatever their roles; at least 4 tokens each, prompt at most 1024, both together
    /// at most 2048.
    Vllm,
    /// SGLang's: the first two turns; its own limits.
    Sglang,
}

/// A law of lengths, in tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum LengthLaw {
    /// Always this many.
    Fixed {
        /// Tokens.
        tokens: u32,
    },
    /// Each whole number from `min` to `max`, both included, equally likely.
    Uniform {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// Lognormal with this mean and coefficient of variation, rounded, at least 1 and at most `max`.
    Lognormal {
        /// Mean of the law before rounding and clipping.
        mean: f64,
        /// Standard deviation over mean.
        cv: f64,
        /// Upper clip, if any.
        max: Option<u32>,
    },
    /// Drawn with equal weight from these values.
    Empirical {
        /// The values, in file order.
        values: Vec<u32>,
    },
}

/// How tokens of prompts are counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum TokenizerChoice {
    /// A `tokenizer.json` file (or a folder with one).
    File(String),
    /// A vocabulary that tiktoken ships: `cl100k_base`, `o200k_base`, `r50k_base`, `p50k_base`.
    Tiktoken(String),
    /// One byte, one token: a stand-in that builds prompts and never counts output.
    Bytes,
    /// The server's own `/tokenize`.
    Server,
}

/// What a request asks for besides its prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestShape {
    /// Upper bound on output tokens when the workload gives none.
    pub max_tokens: Option<u32>,
    /// Ask the server to generate to the bound.
    pub ignore_eos: bool,
    /// Stream the answer (else one body).
    pub stream: bool,
    /// Ask for cumulative usage in every chunk.
    pub continuous_usage: bool,
    /// Extra members merged into the body, as a JSON object. They win over everything else.
    #[serde(default)]
    pub body: Option<String>,
}

impl Plan {
    /// The plan as TOML.
    ///
    /// # Panics
    /// Never for a plan built by this program: every field has a TOML form.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every field of a plan has a TOML form")
    }

    /// The id that a request is sent under (`x-request-id`): unique within the run, and by the salt among runs;
    /// `goodput-<salt, or the seed>-m17`, with `w` for the warm-up.
    #[must_use]
    pub fn request_id(&self, phase: Phase, index: u64) -> String {
        let phase = match phase {
            Phase::Warmup => 'w',
            Phase::Measured => 'm',
        };
        match &self.salt {
            Some(salt) => format!("goodput-{salt}-{phase}{index}"),
            None => format!("goodput-{}-{phase}{index}", self.seed.0),
        }
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// [`PlanError`] with the place and what was expected.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        let plan: Self = toml::from_str(text).map_err(|e| PlanError::Syntax(e.to_string()))?;
        let major = |v: &str| v.split('.').next().map(str::to_owned);
        if major(&plan.version) == major(PLAN_VERSION) {
            Ok(plan)
        } else {
            Err(PlanError::Version { found: plan.version })
        }
    }
}

/// A plan that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Not a plan.
    #[error("not a plan: {0}")]
    Syntax(String),
    /// A plan of another time.
    #[error("plan format {found} cannot be read, this program reads {PLAN_VERSION}")]
    Version {
        /// The version found.
        found: String,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Plan {
        Plan {
            version: PLAN_VERSION.into(),
            seed: Seed(7),
            salt: Some("00ff".into()),
            target: Target {
                urls: vec!["http://127.0.0.1:8000".into()],
                protocol: Protocol::OpenaiChat,
                model: "m".into(),
                http: HttpVersion::Http1,
                header_names: vec![],
                verify_tls: true,
            },
            load: Load {
                arrivals: Some(Arrivals {
                    law: GapLaw::Gamma { burstiness: 0.5 },
                    rate: RateProfile::Steps {
                        steps: vec![RateStep { rate: 5.0, lasts: Nanos::from_secs(3) }],
                    },
                }),
                concurrency: Some(64),
            },
            stop: Stop { requests: Some(100), duration: None, drain: None, error_budget: None },
            warmup: Warmup::Requests(5),
            timeouts: Timeouts { total: Some(Nanos::from_secs(600)), ..Timeouts::default() },
            workload: Workload {
                data: Data::Sharegpt { path: "x.json".into(), filter: SharegptFilter::Vllm, salvage: false },
                input_tokens: None,
                output_tokens: Some(LengthLaw::Lognormal { mean: 500.0, cv: 1.2, max: None }),
                prefix_tokens: 0,
                tokenizer: TokenizerChoice::Tiktoken("cl100k_base".into()),
                data_sha256: None,
            },
            request: RequestShape {
                max_tokens: None,
                ignore_eos: true,
                stream: true,
                continuous_usage: false,
                body: Some("{\"temperature\":0}".into()),
            },
        }
    }

    #[test]
    fn plans_survive_their_file() {
        let plan = sample();
        assert_eq!(Plan::from_toml(&plan.to_toml()), Ok(plan));
    }

    #[test]
    fn other_versions_are_refused() {
        let mut plan = sample();
        plan.version = "2.0".into();
        let found = Plan::from_toml(&plan.to_toml());
        assert_eq!(found, Err(PlanError::Version { found: "2.0".into() }));
    }
}
