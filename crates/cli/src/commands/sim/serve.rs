//! `goodput sim serve`: the simulated engine in real time, on a port, with the routes and bytes of vLLM or SGLang.

use super::{engine, listen};
use crate::args::SimServeArgs;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;
use goodput_core::rng::Seed;
use goodput_server::{EngineConfig, Service};

/// Serves until SIGINT or SIGTERM.
pub(crate) fn run(args: &SimServeArgs, printer: Printer) -> Result<Exit, Failure> {
    let engine = engine::resolve(&args.engine)?;
    let buckets = args.buckets.buckets().map_err(|e| Failure::input(e.to_string()))?;
    let resolved = engine.resolved;
    let name = resolved.config.policy.engine().name();
    let config = EngineConfig {
        config: resolved.config,
        replicas: resolved.replicas,
        routing: args.engine.routing.into(),
        seed: Seed(args.serving.seed),
        model: resolved.model,
        tokens: args.serving.tokens,
        speed: args.serving.speed,
        faults: args.serving.faults.clone(),
        incremental: args.serving.incremental_streaming_output,
        buckets,
    };
    printer.notice(format_args!("simulated {name} with the profile {}", engine.profile.name));
    listen(Service::Engine(Box::new(config)), &args.listen, printer)
}
