//! `docs/cli.md` from the same definitions as `--help`: every verb, every flag, nothing written twice.
//!
//! With `GOODPUT_BLESS=1` the test writes the file instead of comparing it.

use crate::args::Cli;
use clap::{Arg, ArgAction, Command, CommandFactory};
use std::fmt::Write;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");

const HEAD: &str = "\
# Command line

<!-- Generated from the definitions of the flags; GOODPUT_BLESS=1 cargo test -p goodput-cli reference writes it. -->

The result is on stdout, everything else on stderr. `goodput VERB --help` says the same as this page.
";

#[test]
fn the_reference_is_what_the_program_takes() {
    let mut root = Cli::command();
    root.build();
    let generated = page(&root);
    if std::env::var_os("GOODPUT_BLESS").is_some_and(|bless| bless == "1") {
        std::fs::write(FILE, &generated).unwrap();
    }
    let written = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        written == generated,
        "docs/cli.md is not what is generated; look at the change, then run \
         GOODPUT_BLESS=1 cargo test -p goodput-cli reference"
    );
}

fn page(root: &Command) -> String {
    let after_help = root.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut page = format!("{HEAD}\n```text\n{after_help}\n```\n");
    for verb in root.get_subcommands().filter(|verb| verb.get_name() != "help") {
        section(&mut page, "goodput", verb);
    }
    page
}

/// One verb and those below it.
fn section(page: &mut String, parents: &str, verb: &Command) {
    let name = format!("{parents} {}", verb.get_name());
    let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
    write!(page, "\n## {name}\n\n{}\n", sentence(&about)).unwrap();
    for heading in headings(verb) {
        let title =
            heading.map_or_else(String::new, |heading| format!("\n### {heading} ({})\n", verb.get_name()));
        write!(page, "{title}\n| argument | meaning |\n| --- | --- |\n").unwrap();
        for argument in arguments(verb).filter(|argument| argument.get_help_heading() == heading) {
            writeln!(page, "| `{}` | {} |", cell(&spelling(argument)), cell(&meaning(argument))).unwrap();
        }
    }
    for list in arguments(verb).filter_map(long_list) {
        write!(page, "\n```text\n{list}\n```\n").unwrap();
    }
    if let Some(after_help) = verb.get_after_help() {
        write!(page, "\n```text\n{}\n```\n", wrapped(&after_help.to_string())).unwrap();
    }
    for below in verb.get_subcommands().filter(|below| below.get_name() != "help") {
        section(page, &name, below);
    }
}

fn arguments(verb: &Command) -> impl Iterator<Item = &Arg> {
    verb.get_arguments()
        .filter(|a| !matches!(a.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::Version))
}

/// The headings of a verb's arguments in their order, the nameless one among them.
fn headings(verb: &Command) -> Vec<Option<&str>> {
    let mut headings = Vec::new();
    for heading in arguments(verb).map(Arg::get_help_heading) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    headings
}

/// `--rate <R>`, `-q, --quiet`, `<RUN>`.
fn spelling(argument: &Arg) -> String {
    let values: Vec<_> =
        argument.get_value_names().unwrap_or_default().iter().map(|v| format!("<{v}>")).collect();
    let takes_value = argument.get_action().takes_values();
    let value = if takes_value { values.join(" ") } else { String::new() };
    let short = argument.get_short().map_or_else(String::new, |short| format!("-{short}, "));
    match argument.get_long() {
        Some(long) => format!("{short}--{long} {value}").trim_end().to_owned(),
        None if argument.is_required_set() => value,
        None => value.replace('<', "[").replace('>', "]"),
    }
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    // A default that depends on other flags is part of the text and not known to clap.
    let (help, depends) =
        help.strip_suffix(']').and_then(|help| help.split_once(" [default: ")).unwrap_or((&help, ""));
    let mut text = sentence(help);
    let values = argument.get_possible_values();
    if argument.get_action().takes_values() && values.iter().any(|value| value.get_help().is_some()) {
        let each = values.iter().map(|value| {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            format!("`{}`: {help}", value.get_name())
        });
        write!(text, " {}.", each.collect::<Vec<_>>().join("; ")).unwrap();
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        write!(text, " Default: `{}`.", defaults.join(",")).unwrap();
    }
    if !depends.is_empty() {
        write!(text, " Default: {depends}.").unwrap();
    }
    if let Some(variable) = argument.get_env() {
        write!(text, " Environment: `{}`.", variable.to_string_lossy()).unwrap();
    }
    text
}

/// What `--help` says about an argument beyond `-h`.
fn long_list(argument: &Arg) -> Option<String> {
    let (long, short) = (argument.get_long_help()?.to_string(), argument.get_help()?.to_string());
    let list = long.split_once("\n\n").filter(|_| long != short)?.1.trim_end();
    Some(format!("{}:\n{list}", spelling(argument)))
}

/// Clap takes the full stop from the end of a docstring.
fn sentence(text: &str) -> String {
    if text.is_empty() || text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

/// Text for one cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Lines of at most 110 columns, broken at blanks; indented lines stay as they are.
fn wrapped(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut current = String::new();
        let words: Vec<&str> = if line.starts_with(' ') { vec![line] } else { line.split(' ').collect() };
        for word in words {
            if !current.is_empty() && current.len() + 1 + word.len() > 110 {
                lines.push(std::mem::take(&mut current));
            }
            current = if current.is_empty() { word.to_owned() } else { format!("{current} {word}") };
        }
        lines.push(current);
    }
    lines.join("\n")
}
