//! The `goodput` command: arguments in, exit code out. The only crate in which the adapters meet.

mod args;
mod commands;
mod exact_server;
mod exit;
mod host;
mod pin;
mod printer;
mod progress;
mod reading;
mod record;
#[cfg(test)]
mod reference;
mod resolve;
mod scene;
mod truth;

use args::{Cli, Command, SimCommand};
use clap::{CommandFactory, Parser};
use exit::{Exit, Failure};
use printer::Printer;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let quiet = match &cli.command {
        Command::Run(args) => args.output.quiet,
        Command::Sim(SimCommand::Run(args)) => args.output.quiet,
        Command::Demo(args) => args.quiet,
        Command::Selfcheck(args) => args.quiet,
        _ => false,
    };
    let printer = Printer { quiet };
    match dispatch(cli.command, printer) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            printer.error(&failure);
            failure.exit.into()
        }
    }
}

fn dispatch(command: Command, printer: Printer) -> Result<Exit, Failure> {
    match command {
        Command::Run(args) => commands::run::run(&args, printer),
        Command::Show(args) => commands::show::run(&args, printer),
        Command::Explain(args) => commands::explain::run(&args, printer),
        Command::Sim(command) => commands::sim::run(command, printer),
        Command::Demo(args) => commands::demo::run(&args, printer),
        Command::Selfcheck(args) => commands::selfcheck::run(&args, printer),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "goodput", &mut script);
            printer.raw(&String::from_utf8_lossy(&script));
            Ok(Exit::Done)
        }
    }
}
