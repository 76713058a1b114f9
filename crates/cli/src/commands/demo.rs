//! `goodput demo`: a short open-loop run with a stall and a burst in it, against the built-in exact server in a
//! process of its own. One command, no network, and figures that are known beforehand.

use crate::args::{Cli, Command, DemoArgs};
use crate::commands::run;
use crate::exact_server::ExactServer;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;
use clap::Parser;

/// What the demo's server does: 24 answers at a time, each 80 ms to the first of 64 tokens and 12 ms between them, so
/// that it can finish about 28 requests a second; and once, everything stands still for 1.5 s.
const SERVER: &str = "--ttft 80ms --itl 12ms --tokens 64 --slots 24 --stall 5s:1500ms";

/// The load: a quiet stretch (the stall falls into it), two seconds far above capacity, and a quiet stretch again.
const LOAD: &str = "--protocol openai-chat --steps 18:9s,45:2s,18:7s --duration 18s --warmup 10 --data random \
                    --input-tokens uniform(32,128) --tokenizer bytes --max-tokens 64 --ignore-eos \
                    --slo ttft:500ms,tpot:25ms --seed 7";

const WHAT_TO_LOOK_AT: &str = "\
What to look at:
  * The server never changed its speed: 80 ms to the first token, 12 ms between tokens. The tail of TTFT is queueing:
    for two seconds 45 requests a second met a server that finishes about 28.
  * p99 of ITL is calm although every stream stood still for 1.5 s: one gap in 63 is too rare for it. The stall shows
    in max ITL and in the findings.
  * Goodput is what is left of the throughput when only requests within the SLO count.
  * `goodput show RUN --rulers` reads the same run under other tools' definitions; `goodput explain tpot --ruler vllm`
    prints one of them. The raw timelines are in requests.parquet and chunks.parquet.";

/// Starts the server, runs the load, prints the report.
pub(crate) fn run(args: &DemoArgs, printer: Printer) -> Result<Exit, Failure> {
    printer.notice("demo: about 20 seconds of load against the built-in exact server");
    let server = ExactServer::start(&SERVER.split_whitespace().collect::<Vec<_>>(), None)?;
    let out = args.out.display().to_string();
    let mut line = vec!["goodput", "run", "--url", server.url.as_str(), "--out", out.as_str()];
    line.extend(LOAD.split_whitespace());
    if args.quiet {
        line.push("--quiet");
    }
    let cli = Cli::try_parse_from(line).map_err(|e| Failure::input(e.to_string()))?;
    let Command::Run(run_args) = cli.command else {
        return Err(Failure::input("the demo's own command line is broken"));
    };
    let exit = run::run(&run_args, printer)?;
    printer.result(format_args!("\n{WHAT_TO_LOOK_AT}"));
    Ok(exit)
}
