//! From what was typed to one complete plan: defaults filled in, contradictions refused with the flag's name.

use crate::args::{ArrivalsArg, DataArg, LimitArgs, LoadArgs, WorkloadArgs};
use crate::exit::Failure;
use goodput_core::plan::{
    Arrivals, Data, GapLaw, LengthLaw, Load, RampShape, RateProfile, RateStep, RequestShape, Stop, Timeouts,
    TokenizerChoice, Warmup, Workload,
};
use goodput_core::time::Nanos;
use goodput_core::units::{parse_duration, parse_rate};
use goodput_workload::length::{self, LengthText};
use std::fs::File;
use std::io::BufReader;

/// Requests of a burst or a closed loop when nothing says when to stop.
const DEFAULT_REQUESTS: u64 = 1_000;
/// Duration of an open loop when nothing says when to stop.
const DEFAULT_DURATION: Nanos = Nanos::from_secs(60);
/// Warm-up requests of an open loop.
const DEFAULT_WARMUP: u64 = 10;
/// Prompt tokens of random data.
const DEFAULT_INPUT: u32 = 512;
/// Output tokens of random data when nothing else says.
const DEFAULT_OUTPUT: u32 = 128;

/// When requests start.
pub(crate) fn load(args: &LoadArgs) -> Result<Load, Failure> {
    let profile = rate_profile(args)?;
    if profile.is_none() && args.concurrency.is_none() {
        return Err(Failure::input("how much load is missing")
            .hint("give --rate R for an open loop, --concurrency N for a closed one, or both for a cap"));
    }
    if profile.is_none() && (args.burstiness.is_some() || args.arrivals != ArrivalsArg::Poisson) {
        return Err(Failure::input(
            "--arrivals and --burstiness shape an open loop; a closed one has no arrivals",
        )
        .hint("give --rate R besides --concurrency, or drop them"));
    }
    let arrivals = match profile {
        Some(rate) => Some(Arrivals { law: gap_law(args)?, rate }),
        None => None,
    };
    Ok(Load { arrivals, concurrency: args.concurrency })
}

fn rate_profile(args: &LoadArgs) -> Result<Option<RateProfile>, Failure> {
    if let Some(text) = &args.ramp {
        return ramp(text).map(Some);
    }
    if let Some(text) = &args.steps {
        return steps(text).map(Some);
    }
    Ok(args
        .rate
        .map(|rate| if rate.is_finite() { RateProfile::Steady { rate } } else { RateProfile::Infinite }))
}

fn ramp(text: &str) -> Result<RateProfile, Failure> {
    let wrong = || {
        Failure::input(format!("--ramp {text} is not a ramp"))
            .hint("expected FROM:TO:OVER[:exponential], for example 5:50:30s")
    };
    let parts: Vec<&str> = text.split(':').collect();
    let (from, to, over, shape) = match parts[..] {
        [from, to, over] => (from, to, over, RampShape::Linear),
        [from, to, over, "linear"] => (from, to, over, RampShape::Linear),
        [from, to, over, "exponential"] => (from, to, over, RampShape::Exponential),
        _ => return Err(wrong()),
    };
    let rate = |text: &str| match text {
        "0" => Some(0.0),
        _ => parse_rate(text).ok().filter(|r| r.is_finite()),
    };
    Ok(RateProfile::Ramp {
        from: rate(from).ok_or_else(wrong)?,
        to: rate(to).ok_or_else(wrong)?,
        over: parse_duration(over).map_err(|_| wrong())?,
        shape,
    })
}

fn steps(text: &str) -> Result<RateProfile, Failure> {
    let wrong = || {
        Failure::input(format!("--steps {text} is not a staircase"))
            .hint("expected RATE:TIME,RATE:TIME,... for example 10:30s,20:30s")
    };
    let steps = text
        .split(',')
        .map(|step| {
            let (rate, lasts) = step.split_once(':')?;
            let rate = parse_rate(rate).ok().filter(|r| r.is_finite())?;
            Some(RateStep { rate, lasts: parse_duration(lasts).ok()? })
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(wrong)?;
    Ok(RateProfile::Steps { steps })
}

fn gap_law(args: &LoadArgs) -> Result<GapLaw, Failure> {
    let burstiness = args.burstiness.unwrap_or(1.0);
    if !(burstiness > 0.0 && burstiness.is_finite()) {
        return Err(Failure::input(format!("--burstiness {burstiness} is not a shape"))
            .hint("expected a positive number: 1 is Poisson, below 1 burstier, above 1 smoother"));
    }
    match (args.arrivals, args.burstiness) {
        (ArrivalsArg::Constant, Some(_)) => {
            Err(Failure::input("--burstiness has no meaning with --arrivals constant"))
        }
        (ArrivalsArg::Constant, None) => Ok(GapLaw::Constant),
        (ArrivalsArg::Poisson, None) => Ok(GapLaw::Poisson),
        (ArrivalsArg::Gamma | ArrivalsArg::Poisson, _) => Ok(GapLaw::Gamma { burstiness }),
        (ArrivalsArg::GammaRescaled, _) => Ok(GapLaw::GammaRescaled { burstiness }),
    }
}

/// When offering stops.
pub(crate) fn stop(args: &LoadArgs, load: &Load) -> Stop {
    let timed = load.arrivals.as_ref().is_some_and(|a| a.rate != RateProfile::Infinite);
    let (requests, duration) = match (args.requests, args.duration) {
        (None, None) if timed => (None, Some(DEFAULT_DURATION)),
        (None, None) => (Some(DEFAULT_REQUESTS), None),
        given => given,
    };
    Stop { requests, duration, drain: args.drain, error_budget: args.error_budget }
}

/// Requests before the measured set.
pub(crate) fn warmup(args: &LoadArgs, load: &Load) -> Result<Warmup, Failure> {
    let Some(text) = &args.warmup else {
        return Ok(match (&load.arrivals, load.concurrency) {
            (None, Some(slots)) => Warmup::Requests(u64::from(slots).max(DEFAULT_WARMUP)),
            _ => Warmup::Requests(DEFAULT_WARMUP),
        });
    };
    if let Ok(number) = text.parse::<u64>() {
        return Ok(if number == 0 { Warmup::None } else { Warmup::Requests(number) });
    }
    parse_duration(text).map(Warmup::Duration).map_err(|_| {
        Failure::input(format!("--warmup {text} is neither a number of requests nor a duration"))
            .hint("for example --warmup 20, --warmup 10s, or --warmup 0 for none")
    })
}

/// Limits on one request.
pub(crate) fn timeouts(args: &LimitArgs) -> Timeouts {
    Timeouts {
        total: Some(args.timeout),
        first_token: args.first_token_timeout,
        idle: args.idle_timeout,
        connect: Some(args.connect_timeout),
    }
}

/// What is sent.
pub(crate) fn workload(args: &WorkloadArgs) -> Result<Workload, Failure> {
    let data = data(args)?;
    let input = args.input_tokens.as_deref().map(|text| length_law("--input-tokens", text)).transpose()?;
    let output = args.output_tokens.as_deref().map(|text| length_law("--output-tokens", text)).transpose()?;
    let random = matches!(data, Data::Random);
    if !random && args.prefix_tokens > 0 {
        return Err(Failure::input("--prefix-tokens works with --data random only"));
    }
    let default_input = random.then_some(LengthLaw::Fixed { tokens: DEFAULT_INPUT });
    let bounded = args.max_tokens.is_some();
    let default_output = (random && !bounded).then_some(LengthLaw::Fixed { tokens: DEFAULT_OUTPUT });
    Ok(Workload {
        data,
        input_tokens: input.or(default_input),
        output_tokens: output.or(default_output),
        prefix_tokens: args.prefix_tokens,
        tokenizer: tokenizer(&args.tokenizer),
        data_sha256: None,
    })
}

fn data(args: &WorkloadArgs) -> Result<Data, Failure> {
    let path = |name: &str| match &args.data_path {
        Some(path) => Ok(path.display().to_string()),
        None => Err(Failure::input(format!("--data {name} needs --data-path FILE"))),
    };
    match args.data {
        DataArg::Random if args.data_path.is_some() => Err(Failure::input("--data random reads no file")
            .hint("drop --data-path, or choose --data sharegpt or jsonl")),
        DataArg::Random => Ok(Data::Random),
        DataArg::Sharegpt => Ok(Data::Sharegpt {
            path: path("sharegpt")?,
            filter: args.sharegpt_filter,
            salvage: args.salvage,
        }),
        DataArg::Jsonl => Ok(Data::Jsonl { path: path("jsonl")?, salvage: args.salvage }),
    }
}

fn length_law(flag: &str, text: &str) -> Result<LengthLaw, Failure> {
    let wrong = |why: String| Failure::input(format!("{flag} {text}: {why}"));
    match length::parse(text).map_err(|e| wrong(e.to_string()))? {
        LengthText::Law(law) => Ok(law),
        LengthText::EmpiricalFile(path) => {
            let file = File::open(&path).map_err(|e| wrong(format!("cannot open {path}: {e}")))?;
            length::read_values(BufReader::new(file)).map_err(|e| wrong(format!("{path}: {e}")))
        }
    }
}

fn tokenizer(text: &str) -> TokenizerChoice {
    match text.split_once(':') {
        _ if text == "bytes" => TokenizerChoice::Bytes,
        _ if text == "server" => TokenizerChoice::Server,
        Some(("tiktoken", name)) => TokenizerChoice::Tiktoken(name.to_owned()),
        _ => TokenizerChoice::File(text.to_owned()),
    }
}

/// What a request asks for besides its prompt.
pub(crate) fn request_shape(args: &WorkloadArgs) -> RequestShape {
    RequestShape {
        max_tokens: args.max_tokens,
        ignore_eos: args.ignore_eos,
        stream: !args.no_stream,
        continuous_usage: args.continuous_usage,
        body: args.body.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ramps_and_staircases_are_read() {
        let linear = ramp("0:50:30s").unwrap();
        assert!(matches!(linear, RateProfile::Ramp { from: 0.0, to: 50.0, shape: RampShape::Linear, .. }));
        assert!(ramp("5:50:30s:exponential").is_ok());
        for bad in ["5:50", "5:inf:3s", "5:50:30", "5:50:30s:cubic"] {
            assert!(ramp(bad).is_err(), "{bad}");
        }
        let RateProfile::Steps { steps: staircase } = steps("10:30s,20:1m").unwrap() else { panic!() };
        assert_eq!(staircase.len(), 2);
        assert!(steps("10,20").is_err());
    }

    #[test]
    fn tokenizers_are_told_apart() {
        assert_eq!(tokenizer("bytes"), TokenizerChoice::Bytes);
        assert_eq!(tokenizer("tiktoken:o200k_base"), TokenizerChoice::Tiktoken("o200k_base".into()));
        assert_eq!(tokenizer("./tok.json"), TokenizerChoice::File("./tok.json".into()));
    }
}
