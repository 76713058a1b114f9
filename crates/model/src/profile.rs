//! Profiles: which model on which hardware under which engine, as TOML, with the source of every constant.
//!
//! A profile gives the times of a step in one of two ways: by naming a model and a chip, from which [`roofline`] derives
//! them, or by a `[step]` table of measured or invented constants. Some are shipped; a user's own is read from the same
//! format. It opens nothing: the shipped ones are embedded, and a file's text is handed in.

use crate::config::{Config, ConfigError, Order, Speculation};
use crate::cost::StepCost;
use crate::knobs::Knobs;
use crate::policy::{EngineName, Policy, Sglang};
use crate::roofline::{self, Chip, Efficiency, Model};
use serde::{Deserialize, Serialize};

/// The catalog of models and chips that profiles name.
const CATALOG: &str = include_str!("../profiles/catalog.toml");

/// The shipped profiles, in the order in which they are listed.
const SHIPPED: [(&str, &str); 10] = [
    ("llama-3.1-8b-h100", include_str!("../profiles/llama-3.1-8b-h100.toml")),
    ("llama-3.1-8b-h200", include_str!("../profiles/llama-3.1-8b-h200.toml")),
    ("llama-3.1-8b-a100", include_str!("../profiles/llama-3.1-8b-a100.toml")),
    ("llama-3.1-8b-l4", include_str!("../profiles/llama-3.1-8b-l4.toml")),
    ("llama-3.1-70b-4xh100", include_str!("../profiles/llama-3.1-70b-4xh100.toml")),
    ("llama-3.1-70b-2xh200", include_str!("../profiles/llama-3.1-70b-2xh200.toml")),
    ("llama-3.1-70b-4xa100", include_str!("../profiles/llama-3.1-70b-4xa100.toml")),
    ("llama-3.1-70b-8xl4", include_str!("../profiles/llama-3.1-70b-8xl4.toml")),
    ("smollm2-135m-cpu", include_str!("../profiles/smollm2-135m-cpu.toml")),
    ("illustrative", include_str!("../profiles/illustrative.toml")),
];

/// A chip with at least so many GB gets the larger default token budget, as in vLLM and SGLang.
const LARGE_CHIP_GB: f64 = 70.0;
/// Default token budget of a step on a large chip, and on any other.
const BUDGETS: (u32, u32) = (8_192, 2_048);
/// Default tokens of a KV block. SGLang's own default is 1; blocks of 16 give a request at most 15 tokens more.
const BLOCK_SIZE: u32 = 16;
/// vLLM's default share of a chip's memory.
const GPU_MEMORY_UTILIZATION: f64 = 0.9;
/// Default probability that a draft token is accepted: an assumption, to be replaced by one's own.
const ACCEPTANCE: f64 = 0.7;

/// A profile as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Where its own constants come from; those of the catalog have sources of their own.
    #[serde(default)]
    sources: Vec<String>,
    /// A model of the catalog.
    model: Option<String>,
    /// A chip of the catalog.
    chip: Option<String>,
    /// A model of its own, in place of one of the catalog.
    own_model: Option<Model>,
    /// A chip of its own, in place of one of the catalog.
    own_chip: Option<Chip>,
    /// What its hardware reaches, in place of the catalog's assumption.
    efficiency: Option<Efficiency>,
    /// Constants of a step, in place of a roofline.
    step: Option<StepTable>,
    /// Its settings of the engine.
    #[serde(default)]
    knobs: Knobs,
}

/// The constants of a step as a profile gives them, in units that can be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct StepTable {
    /// The model's name as a server would say it.
    model: String,
    base_ms: f64,
    #[serde(default)]
    prefill_us_per_token: f64,
    #[serde(default)]
    prefill_ns_per_pair: f64,
    #[serde(default)]
    decode_us_per_token: f64,
    #[serde(default)]
    kv_ns_per_token: f64,
    #[serde(default)]
    draft_us_per_position: f64,
    /// Tokens of KV cache.
    kv_tokens: u64,
}

#[derive(Debug, Deserialize)]
struct Catalog {
    model: Vec<Keyed<Model>>,
    chip: Vec<Keyed<Chip>>,
    efficiency: Efficiency,
}

/// An entry of the catalog under the name by which profiles call it.
#[derive(Debug, Deserialize)]
struct Keyed<T> {
    key: String,
    #[serde(flatten)]
    entry: T,
}

/// What a profile comes to under a set of knobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The configuration of one engine, checked.
    pub config: Config,
    /// Replicas behind a router.
    pub replicas: usize,
    /// The model's name as a server would say it.
    pub model: String,
    /// The settings in force.
    pub knobs: Knobs,
}

/// A profile that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// Not a profile.
    #[error("{origin}:{line}: {message}")]
    Syntax {
        /// The file, or the name of a shipped profile.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong, with the known keys where one is unknown.
        message: String,
    },
    /// No shipped profile of this name.
    #[error("there is no profile `{name}`: known are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A model or a chip that the catalog does not have.
    #[error("the catalog has no {kind} `{name}`: known are {known}; or give [own-{kind}]")]
    NotInCatalog {
        /// `model` or `chip`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// No way to know how long a step takes.
    #[error("profile `{name}` needs either model and chip, or [step]")]
    NoCost {
        /// The profile.
        name: String,
    },
    /// A knob that means nothing without a roofline.
    #[error(
        "{knob} needs a profile of a model and a chip; `{name}` has the constants of its steps as they are"
    )]
    NeedsRoofline {
        /// The knob.
        knob: &'static str,
        /// The profile.
        name: String,
    },
    /// The weights leave no room.
    #[error(
        "the weights of {model} leave no room for a KV cache on {chips} x {chip}: raise tensor-parallel-size"
    )]
    NoRoom {
        /// The model.
        model: String,
        /// Its chips.
        chips: u32,
        /// Of this kind.
        chip: String,
    },
    /// The engine cannot run it.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Times and room, from either way of giving them.
struct Hardware {
    model: String,
    cost: StepCost,
    kv_tokens: u64,
    budget: u32,
}

impl Profile {
    /// Reads a profile. `origin` names it in messages.
    ///
    /// # Errors
    /// [`ProfileError::Syntax`] with the line, and with the known keys where one is unknown.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ProfileError> {
        toml::from_str(text).map_err(|e| syntax(origin, text, &e))
    }

    /// A shipped profile.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`] with those there are.
    pub fn shipped(name: &str) -> Result<Self, ProfileError> {
        match SHIPPED.iter().find(|(known, _)| *known == name) {
            Some((origin, text)) => Self::parse(origin, text),
            None => {
                let known = Self::names().collect::<Vec<_>>().join(", ");
                Err(ProfileError::Unknown { name: name.to_owned(), known })
            }
        }
    }

    /// Names of the shipped profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// Where each of its constants comes from.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn sources(&self) -> Result<Vec<String>, ProfileError> {
        let mut sources = self.sources.clone();
        if self.step.is_none() {
            let (model, chip, efficiency) = self.parts()?;
            sources.extend([model.source, chip.source, efficiency.source]);
        }
        Ok(sources)
    }

    /// The complete configuration under `over`, which wins over the profile's own knobs.
    ///
    /// # Errors
    /// [`ProfileError`] with what to change.
    pub fn resolve(&self, over: &Knobs) -> Result<Resolved, ProfileError> {
        let knobs = over.clone().or(&self.knobs);
        let hardware = self.hardware(&knobs)?;
        let block_size = knobs.block_size.unwrap_or(BLOCK_SIZE);
        let tokens = knobs.max_total_tokens.map_or(hardware.kv_tokens, u64::from);
        let blocks = tokens / u64::from(block_size.max(1));
        let kv_blocks = knobs.num_gpu_blocks_override.unwrap_or(u32::try_from(blocks).unwrap_or(u32::MAX));
        // An unstated context is the whole cache: a profile of a model states its own.
        let max_model_len = knobs.max_model_len.unwrap_or(u32::try_from(tokens).unwrap_or(u32::MAX));
        let chunked_prefill =
            knobs.enable_chunked_prefill.unwrap_or(!matches!(knobs.chunked_prefill_size, Some(..=0)));
        let config = Config {
            policy: policy(&knobs),
            cost: hardware.cost,
            noise_cv: knobs.noise_cv.unwrap_or(0.0),
            kv_blocks,
            block_size,
            prefix_caching: knobs
                .enable_prefix_caching
                .unwrap_or(!knobs.disable_radix_cache.unwrap_or(false)),
            max_num_seqs: knobs.max_num_seqs.unwrap_or(256),
            max_num_batched_tokens: budget(&knobs, chunked_prefill, (hardware.budget, max_model_len)),
            max_model_len,
            chunked_prefill,
            order: knobs.scheduling_policy.unwrap_or(Order::Fcfs),
            max_queued: knobs.max_num_queued_reqs,
            max_queued_tokens: knobs.max_num_queued_tokens,
            speculation: knobs
                .num_speculative_tokens
                .filter(|tokens| *tokens > 0)
                .map(|tokens| Speculation { tokens, acceptance: knobs.acceptance.unwrap_or(ACCEPTANCE) }),
            stream_interval: knobs.stream_interval.unwrap_or(1),
        };
        config.check()?;
        let replicas = knobs.data_parallel_size.unwrap_or(1).max(1) as usize;
        Ok(Resolved { config, replicas, model: hardware.model, knobs })
    }

    fn hardware(&self, knobs: &Knobs) -> Result<Hardware, ProfileError> {
        let Some(step) = &self.step else { return self.roofline(knobs) };
        for (knob, is_given) in [
            ("tensor-parallel-size", knobs.tensor_parallel_size.is_some()),
            ("gpu-memory-utilization", knobs.gpu_memory_utilization.is_some()),
            ("mem-fraction-static", knobs.mem_fraction_static.is_some()),
        ] {
            if is_given {
                return Err(ProfileError::NeedsRoofline { knob, name: self.name.clone() });
            }
        }
        let cost = StepCost {
            base: step.base_ms * 1e6,
            prefill_token: step.prefill_us_per_token * 1e3,
            prefill_pair: step.prefill_ns_per_pair,
            decode_token: step.decode_us_per_token * 1e3,
            kv_token: step.kv_ns_per_token,
            draft_position: step.draft_us_per_position * 1e3,
        };
        Ok(Hardware { model: step.model.clone(), cost, kv_tokens: step.kv_tokens, budget: BUDGETS.1 })
    }

    fn roofline(&self, knobs: &Knobs) -> Result<Hardware, ProfileError> {
        let (model, chip, efficiency) = self.parts()?;
        let chips = knobs.tensor_parallel_size.unwrap_or(1).max(1);
        // SGLang's share is for weights and cache alone, vLLM's for everything.
        let (share, reserved_gb) = match knobs.mem_fraction_static {
            Some(share) => (share, 0.0),
            None => (knobs.gpu_memory_utilization.unwrap_or(GPU_MEMORY_UTILIZATION), efficiency.reserved_gb),
        };
        let room = Efficiency { reserved_gb, ..efficiency.clone() };
        let kv_tokens = roofline::kv_tokens(&model, &chip, chips, (share, &room));
        if kv_tokens == 0 {
            return Err(ProfileError::NoRoom { model: model.name, chips, chip: chip.name });
        }
        let cost = roofline::step_cost(&model, &chip, chips, &efficiency);
        let budget = if chip.memory_gb >= LARGE_CHIP_GB { BUDGETS.0 } else { BUDGETS.1 };
        Ok(Hardware { model: model.name, cost, kv_tokens, budget })
    }

    /// Model, chip and efficiency, its own or the catalog's.
    fn parts(&self) -> Result<(Model, Chip, Efficiency), ProfileError> {
        let catalog: Catalog = toml::from_str(CATALOG).map_err(|e| syntax("catalog", CATALOG, &e))?;
        let no_cost = || ProfileError::NoCost { name: self.name.clone() };
        let model = match (&self.own_model, &self.model) {
            (Some(own), _) => own.clone(),
            (None, Some(name)) => find("model", name, catalog.model)?,
            (None, None) => return Err(no_cost()),
        };
        let chip = match (&self.own_chip, &self.chip) {
            (Some(own), _) => own.clone(),
            (None, Some(name)) => find("chip", name, catalog.chip)?,
            (None, None) => return Err(no_cost()),
        };
        Ok((model, chip, self.efficiency.clone().unwrap_or(catalog.efficiency)))
    }
}

fn find<T>(kind: &'static str, name: &str, entries: Vec<Keyed<T>>) -> Result<T, ProfileError> {
    let known = entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>().join(", ");
    let found = entries.into_iter().find(|entry| entry.key == name).map(|keyed| keyed.entry);
    found.ok_or_else(|| ProfileError::NotInCatalog { kind, name: name.to_owned(), known })
}

fn policy(knobs: &Knobs) -> Policy {
    match knobs.engine.unwrap_or(EngineName::Vllm) {
        EngineName::Vllm => Policy::Vllm,
        EngineName::Sglang => Policy::Sglang(Sglang {
            mixed_chunk: knobs.enable_mixed_chunk.unwrap_or(false),
            max_prefill_tokens: knobs.max_prefill_tokens.unwrap_or(16_384),
            conservativeness: knobs.schedule_conservativeness.unwrap_or(1.0),
        }),
    }
}

/// The token budget of a step. Whole prompts need one that holds the longest, and a slot each for those who decode.
fn budget(knobs: &Knobs, chunked: bool, (default, max_model_len): (u32, u32)) -> u32 {
    let chunk = knobs.chunked_prefill_size.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
    let whole = max_model_len.saturating_add(knobs.max_num_seqs.unwrap_or(256));
    let default = if chunked { default } else { default.max(whole) };
    knobs.max_num_batched_tokens.or(chunk).unwrap_or(default)
}

fn syntax(origin: &str, text: &str, error: &toml::de::Error) -> ProfileError {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = 1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
    ProfileError::Syntax { origin: origin.to_owned(), line, message: error.message().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(name: &str, settings: &[&str]) -> Result<Resolved, ProfileError> {
        let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
        Profile::shipped(name)?.resolve(&Knobs::parse(&settings).expect("knobs"))
    }

    #[test]
    fn every_shipped_profile_runs_and_says_where_it_comes_from() {
        for name in Profile::names() {
            let profile = Profile::shipped(name).expect(name);
            assert_eq!(profile.name, name);
            assert!(profile.sources().expect(name).iter().all(|source| source.len() > 20), "{name}");
            for engine in [EngineName::Vllm, EngineName::Sglang] {
                let resolved =
                    profile.resolve(&Knobs { engine: Some(engine), ..Knobs::default() }).expect(name);
                assert_eq!(resolved.config.policy.engine(), engine);
            }
        }
    }

    /// Steps of one request at a context of 1,000 tokens, and of 256 such requests, in milliseconds, and the tokens of
    /// the KV cache: pinned, so that a changed constant shows.
    #[test]
    fn rooflines_come_to_these_figures() {
        let seen: Vec<String> = Profile::names()
            .map(|name| {
                let config = resolve(name, &[]).expect(name).config;
                let step = |sequences: u32| {
                    let mut work = crate::cost::StepWork::default();
                    (0..sequences).for_each(|_| work.add_decode(1, 1_000));
                    config.cost.nanos(&work, 0) / 1e6
                };
                format!("{name}: {:.2} ms, {:.2} ms, {} tokens", step(1), step(256), config.kv_tokens())
            })
            .collect();
        assert_eq!(seen, FIGURES);
    }
    const FIGURES: [&str; 10] = [
        "llama-3.1-8b-h100: 7.07 ms, 27.83 ms, 403888 tokens",
        "llama-3.1-8b-h200: 5.25 ms, 22.23 ms, 822752 tokens",
        "llama-3.1-8b-a100: 11.03 ms, 57.77 ms, 403888 tokens",
        "llama-3.1-8b-l4: 68.73 ms, 275.68 ms, 30816 tokens",
        "llama-3.1-70b-4xh100: 16.68 ms, 45.47 ms, 411376 tokens",
        "llama-3.1-70b-2xh200: 21.98 ms, 71.12 ms, 325312 tokens",
        "llama-3.1-70b-4xa100: 25.33 ms, 100.02 ms, 411376 tokens",
        "llama-3.1-70b-8xl4: 83.18 ms, 246.79 ms, 59808 tokens",
        "smollm2-135m-cpu: 5.90 ms, 1451.75 ms, 8192 tokens",
        "illustrative: 20.00 ms, 20.00 ms, 524288 tokens",
    ];

    #[test]
    fn the_illustrative_profile_is_the_stall_of_the_definitions() {
        let config = resolve("illustrative", &[]).expect("shipped").config;
        let mut work = crate::cost::StepWork::default();
        work.add_decode(1, 100);
        assert_eq!(config.cost.nanos(&work, 0), 20e6);
        work.add_prefill(32_768, 0);
        assert_eq!(config.cost.nanos(&work, 0), 1_500e6);
        assert!(!config.chunked_prefill && config.max_num_batched_tokens >= 40_960);
        let chunked = resolve("illustrative", &["enable-chunked-prefill=true"]).expect("runs").config;
        assert_eq!(chunked.max_num_batched_tokens, 2_048);
    }

    #[test]
    fn knobs_of_both_engines_reach_the_configuration() {
        let vllm = resolve(
            "llama-3.1-8b-h100",
            &[
                "max-num-seqs=64",
                "max-num-batched-tokens=4096",
                "enable-prefix-caching=false",
                "stream-interval=5",
            ],
        )
        .expect("runs")
        .config;
        let knobs =
            (vllm.max_num_seqs, vllm.max_num_batched_tokens, vllm.prefix_caching, vllm.stream_interval);
        assert_eq!(knobs, (64, 4_096, false, 5));
        let sglang = resolve(
            "llama-3.1-8b-h100",
            &[
                "engine=sglang",
                "max-running-requests=64",
                "chunked-prefill-size=-1",
                "disable-radix-cache=true",
            ],
        )
        .expect("runs")
        .config;
        assert_eq!((sglang.max_num_seqs, sglang.chunked_prefill, sglang.prefix_caching), (64, false, false));
        let spec =
            resolve("llama-3.1-8b-h100", &["num-speculative-tokens=3", "acceptance=0.8"]).expect("runs");
        assert_eq!(spec.config.speculation, Some(Speculation { tokens: 3, acceptance: 0.8 }));
        assert_eq!(resolve("llama-3.1-8b-h100", &["dp=3"]).expect("runs").replicas, 3);
        assert_eq!(
            resolve("illustrative", &["num-gpu-blocks-override=3000"]).expect("runs").config.kv_blocks,
            3_000
        );
    }

    #[test]
    fn more_memory_is_more_cache_and_more_chips_are_faster() {
        let config = |settings: &[&str]| resolve("llama-3.1-8b-h100", settings).expect("runs").config;
        assert!(config(&["gpu-memory-utilization=0.8"]).kv_blocks < config(&[]).kv_blocks);
        assert!(
            config(&["mem-fraction-static=0.9"]).kv_blocks > config(&[]).kv_blocks,
            "nothing else is in it"
        );
        let two = config(&["tensor-parallel-size=2"]);
        assert!(two.cost.base < config(&[]).cost.base && two.kv_blocks > config(&[]).kv_blocks);
    }

    #[test]
    fn mistakes_are_told_with_line_and_cure() {
        let text = "name = \"x\"\nabout = \"y\"\n\n[knobs]\nmax-seqs = 3\n";
        let message = Profile::parse("my.toml", text).expect_err("unknown key").to_string();
        assert!(message.starts_with("my.toml:5: unknown field `max-seqs`"), "{message}");
        assert!(
            message.contains("`max-num-seqs`") && message.contains("`max-running-requests`"),
            "{message}"
        );
        let message = Profile::shipped("gpt-5").expect_err("unknown").to_string();
        assert!(message.contains("llama-3.1-8b-h100"), "{message}");
        let bare = Profile::parse("p", "name = \"x\"\nabout = \"y\"\n").expect("a profile");
        assert!(bare.resolve(&Knobs::default()).expect_err("no cost").to_string().contains("[step]"));
        let other =
            Profile::parse("p", "name = \"x\"\nabout = \"y\"\nmodel = \"m\"\nchip = \"h100\"\n").expect("ok");
        assert!(
            other.resolve(&Knobs::default()).expect_err("no model").to_string().contains("llama-3.1-70b")
        );
        let tight = resolve("llama-3.1-70b-4xh100", &["tensor-parallel-size=1"]).expect_err("141 GB on 80");
        assert!(tight.to_string().contains("raise tensor-parallel-size"), "{tight}");
        let measured = resolve("illustrative", &["tp=2"]).expect_err("measured as it is");
        assert!(measured.to_string().contains("tensor-parallel-size needs a profile"), "{measured}");
    }

    #[test]
    fn a_profile_may_bring_its_own_model_and_chip() {
        let text = r#"
            name = "own"
            about = "a small model on a small chip"
            [own-model]
            name = "tiny"
            parameters = 1e9
            layers = 16
            hidden-size = 2048
            attention-heads = 16
            kv-heads = 4
            head-dim = 128
            weight-bytes = 1
            kv-bytes = 1
            source = "made up"
            [own-chip]
            name = "chip"
            tflops = 10
            memory-gb-per-s = 100
            memory-gb = 16
            link-gb-per-s = 1
            source = "made up"
            [knobs]
            max-model-len = 4096
        "#;
        let profile = Profile::parse("own.toml", text).expect("a profile");
        let resolved = profile.resolve(&Knobs::default()).expect("runs");
        assert_eq!(resolved.model, "tiny");
        assert_eq!(profile.sources().expect("sources").len(), 3);
    }
}
