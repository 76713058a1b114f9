//! `goodput sim`: the built-in exact server on a port of your choice (`fixed`, `script`), the simulated engine in virtual
//! time (`run`, `profiles`) or on a port (`serve`), and a textbook queue in virtual time (`queue`).

mod engine;
mod profiles;
mod queue;
mod serve;
mod virtual_record;
mod virtual_run;

use crate::args::{ListenArgs, SimCommand, SimFixedArgs, SimScriptArgs};
use crate::exit::{Exit, Failure};
use crate::printer::Printer;
use goodput_core::rng::Seed;
use goodput_server::{FixedConfig, ScriptPlan, Service, Setup, StopHandle, Truth, serve};
use goodput_wire::replay::Replay;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Serves until SIGINT or SIGTERM, or simulates to the end.
pub(crate) fn run(command: SimCommand, printer: Printer) -> Result<Exit, Failure> {
    match command {
        SimCommand::Fixed(args) => {
            let service = Service::Fixed(fixed(&args));
            listen(service, &args.listen, printer)
        }
        SimCommand::Script(args) => {
            let service = Service::Script(scripts(&args)?);
            listen(service, &args.listen, printer)
        }
        SimCommand::Run(args) => virtual_run::run(&args, printer),
        SimCommand::Serve(args) => serve::run(&args, printer),
        SimCommand::Profiles(args) => profiles::run(&args, printer),
        SimCommand::Queue(args) => queue::run(&args, printer),
    }
}

fn fixed(args: &SimFixedArgs) -> FixedConfig {
    FixedConfig {
        ttft: args.ttft,
        itl: args.itl,
        tokens: args.tokens,
        slots: args.slots,
        stalls: args.stall.clone(),
        faults: args.faults.clone(),
        seed: Seed(args.seed),
        ..FixedConfig::default()
    }
}

fn scripts(args: &SimScriptArgs) -> Result<ScriptPlan, Failure> {
    let mut scripts = args.scripts.iter().map(|path| read_script(path)).collect::<Result<Vec<_>, _>>()?;
    Ok(if scripts.len() == 1 {
        ScriptPlan::Same(scripts.remove(0))
    } else {
        ScriptPlan::PerConnection(scripts)
    })
}

fn read_script(path: &Path) -> Result<Replay, Failure> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|e| Failure::input(format!("cannot read {shown}: {e}")))?;
    Replay::parse(&text).map_err(|e| Failure::input(format!("{shown}: {e}")))
}

fn listen(service: Service, args: &ListenArgs, printer: Printer) -> Result<Exit, Failure> {
    let listener = TcpListener::bind((args.host, args.port)).map_err(|e| {
        Failure::input(format!("cannot listen on {}:{}: {e}", args.host, args.port))
            .hint("choose another --port; 0 takes a free one")
    })?;
    let address = listener.local_addr().map_err(|e| Failure::input(e.to_string()))?;
    let truth_file = args.truth.as_deref().map(truth_file).transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|e| Failure::input(format!("cannot handle signals: {e}")))?;
    }
    printer.result(format_args!("listening on http://{address}"));
    let truth = serve(listener, Setup { service, truth_file }, &StopHandle::from(stop))
        .map_err(|e| Failure::invalid(format!("the server failed: {e}")))?;
    printer.notice(account(&truth));
    Ok(Exit::Done)
}

fn truth_file(path: &Path) -> Result<Box<dyn Write + Send>, Failure> {
    let file =
        File::create(path).map_err(|e| Failure::input(format!("cannot create {}: {e}", path.display())))?;
    Ok(Box::new(BufWriter::new(file)))
}

fn account(truth: &Truth) -> String {
    format!(
        "served {} requests ({} finished, {} given up by the client), {} tokens; own lateness p99 {:.0} us",
        truth.requests.arrived,
        truth.requests.finished,
        truth.requests.disconnected,
        truth.tokens,
        truth.lateness_us.p99,
    )
}
