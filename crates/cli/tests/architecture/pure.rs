//! The purity fence: pure crates reach no clock, file, socket, environment or entropy, by themselves or through a
//! library.
//!
//! Three nets, from fine to coarse: the `disallowed_methods` lint is switched on, the sources name none of the
//! modules, and no library that brings an outside world is linked in.

use crate::layers::{FIRST_ADAPTER, LAYERS};
use crate::tree;

/// Libraries that open an outside world or draw entropy.
const OUTSIDE: &[&str] = &[
    "tokio",
    "mio",
    "hyper",
    "h2",
    "rustls",
    "ring",
    "socket2",
    "parquet",
    "zstd",
    "tempfile",
    "memmap2",
    "signal-hook",
    "sysinfo",
    "clap",
    "indicatif",
    "jiff",
    "chrono",
    "libc",
    "rustix",
    "getrandom",
    "rand",
];

/// What brings such libraries into a pure crate all the same, and why that is borne: (crate, through, reason).
const BORNE: &[(&str, &str, &str)] = &[(
    "workload",
    "tokenizers",
    "counting tokens as a model does needs its tokenizer, and the library seeds hash maps and BPE dropout from the \
     system; neither is used where an order or a draw could show",
)];

/// Modules of the standard library that a pure crate does not name.
const OUTSIDE_STD: &[&str] = &["env", "fs", "net", "os", "process", "thread"];

/// Words that stand for a clock or for entropy, wherever they come from.
const OUTSIDE_WORDS: &[&str] = &["Instant", "SystemTime", "RandomState", "OsRng", "thread_rng"];

fn pure() -> impl Iterator<Item = &'static str> {
    LAYERS.iter().filter(|(_, layer)| *layer < FIRST_ADAPTER).map(|(name, _)| *name)
}

/// The libraries linked into `krate`, without those that come only through one of `pruned`. `cargo tree` resolves
/// features as a build does; the graph of `cargo metadata` has libraries in it that no build links.
fn linked(krate: &str, pruned: &[&str]) -> Vec<String> {
    let package = format!("goodput-{krate}");
    let mut arguments =
        vec!["tree", "--package", &package, "--edges", "normal", "--prefix", "none", "--no-dedupe"];
    for name in pruned {
        arguments.extend(["--prune", name]);
    }
    let mut names: Vec<_> =
        tree::cargo(&arguments).lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect();
    names.sort();
    names.dedup();
    assert!(names.contains(&package), "cargo tree printed something else: {names:?}");
    names
}

#[test]
fn pure_crates_link_no_outside_world() {
    for krate in pure() {
        let borne: Vec<_> =
            BORNE.iter().filter(|(user, ..)| *user == krate).map(|(_, through, _)| *through).collect();
        let linked = linked(krate, &borne);
        let outside: Vec<_> = OUTSIDE.iter().filter(|name| linked.iter().any(|l| l == *name)).collect();
        assert!(
            outside.is_empty(),
            "{krate} links {outside:?}; see `cargo tree -p goodput-{krate} -e normal -i <name>`"
        );
    }
}

#[test]
fn what_is_borne_is_still_there() {
    for (krate, through, reason) in BORNE {
        let linked = linked(krate, &[]);
        let outside = OUTSIDE.iter().any(|name| linked.iter().any(|l| l == name));
        assert!(
            outside && linked.iter().any(|l| l == through),
            "{krate} is clean of {through} now ({reason}): take it out of BORNE"
        );
    }
}

#[test]
fn pure_crates_switch_the_lint_on() {
    for krate in pure() {
        let text = tree::read(&tree::root().join(format!("crates/{krate}/src/lib.rs")));
        assert!(
            text.lines().any(|line| line == "#![cfg_attr(not(test), warn(clippy::disallowed_methods))]"),
            "crates/{krate}/src/lib.rs does not switch clippy::disallowed_methods on"
        );
    }
}

#[test]
fn pure_crates_name_no_outside_world() {
    let mut wrong = Vec::new();
    for krate in pure() {
        for source in tree::sources(krate) {
            let code = source.code.join("\n");
            let modules = std_modules(&code).into_iter().filter(|m| OUTSIDE_STD.contains(&m.as_str()));
            wrong.extend(modules.map(|module| format!("{}: std::{module}", source.path)));
            let words = OUTSIDE_WORDS.iter().filter(|word| has_word(&code, word));
            wrong.extend(words.map(|word| format!("{}: {word}", source.path)));
        }
    }
    assert!(wrong.is_empty(), "pure crates take time, bytes and randomness as arguments: {wrong:#?}");
}

/// The modules named right behind `std::`, grouped imports included.
fn std_modules(code: &str) -> Vec<String> {
    let name =
        |path: &str| path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut found: Vec<String> = Vec::new();
    for (at, std) in code.match_indices("std::") {
        let rest = &code[at + std.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(at_depth_one(group).split(',').map(name)),
            None => found.push(name(rest)),
        }
    }
    found.retain(|module| !module.is_empty());
    found
}

/// The text up to the brace that closes the group it begins in, without what stands in inner braces.
fn at_depth_one(group: &str) -> String {
    let mut depth = 1_usize;
    let mut text = String::new();
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ if depth == 1 => text.push(c),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    text
}

fn has_word(code: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(joins) && !code[at + word.len()..].starts_with(joins))
}

#[test]
fn imports_are_read_as_the_compiler_does() {
    assert_eq!(std_modules("use std::fs::File;"), ["fs"]);
    assert_eq!(
        std_modules("use std::{\n    collections::{BTreeMap, env},\n    net::IpAddr,\n};"),
        ["collections", "net"]
    );
    assert!(has_word("a: Instant,", "Instant") && !has_word("a: Instants,", "Instant"));
}
