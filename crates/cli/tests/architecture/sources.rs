//! How sources are kept: short, said what for, finished, and free of the machine they were written on.

use crate::layers::LAYERS;
use crate::tree;

/// Lines of a source file without its tests. The aim is 600; past this it holds two things.
const LINES_MAX: usize = 700;

/// Files that may say `unsafe`: thin wrappers of system calls, one file a crate.
const UNSAFE: &[&str] = &["crates/net/src/sys.rs", "crates/server/src/sys.rs"];

/// Text files of the repository.
const TEXT: &[&str] = &[
    ".rs", ".toml", ".md", ".py", ".sh", ".json", ".jsonl", ".txt", ".replay", ".yml", ".yaml", ".lock",
    ".csv",
];

fn all_sources() -> Vec<tree::Source> {
    LAYERS.iter().flat_map(|(name, _)| tree::sources(name)).collect()
}

/// Paths of all Rust files, tests and examples included, whose text `is_wrong`.
fn rust_files(is_wrong: impl Fn(&str) -> bool) -> Vec<String> {
    let files = tree::files(&tree::root().join("crates"), &[".rs"]);
    files.iter().filter(|path| is_wrong(&tree::read(path))).map(|path| tree::shown(path)).collect()
}

#[test]
fn files_are_short() {
    let long: Vec<_> = all_sources()
        .iter()
        .map(|source| (source.code.len(), &source.path))
        .filter(|(lines, _)| LINES_MAX < *lines)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "at most {LINES_MAX} lines without tests; split by purpose: {long:#?}");
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<_> = all_sources()
        .into_iter()
        .filter(|s| !s.whole.lines().any(|l| l.starts_with("//!")))
        .map(|s| s.path)
        .collect();
    assert!(silent.is_empty(), "a file begins with its purpose (`//!`): {silent:#?}");
}

#[test]
fn nothing_is_left_unfinished() {
    for what in
        [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("TO", "DO"), concat!("FIX", "ME")]
    {
        let files = rust_files(|text| text.contains(what));
        assert!(files.is_empty(), "`{what}` in {files:#?}");
    }
}

#[test]
fn no_test_is_switched_off() {
    let files =
        rust_files(|text| text.lines().any(|line| line.trim_start().starts_with(concat!("#[", "ignore"))));
    assert!(files.is_empty(), "a test that is wrong is mended or removed, never ignored: {files:#?}");
}

#[test]
fn unsafe_code_stays_in_the_wrappers_of_system_calls() {
    let files: Vec<_> = all_sources()
        .into_iter()
        .filter(|s| s.code.iter().any(|line| line.contains("unsafe_code") || line.contains("unsafe {")))
        .map(|s| s.path)
        .collect();
    assert_eq!(files, UNSAFE);
}

#[test]
fn exceptions_to_lints_expire() {
    let allow = concat!("#[", "allow(");
    let inner = concat!("#![", "allow(");
    let files = rust_files(|text| {
        text.lines().any(|l| l.trim_start().starts_with(allow) || l.trim_start().starts_with(inner))
    });
    assert!(
        files.is_empty(),
        "`#[expect(lint, reason = ...)]` says when it is no longer needed, allow does not: {files:#?}"
    );
}

#[test]
fn nothing_names_a_place_on_one_machine() {
    let places = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let mut wrong = Vec::new();
    for path in tree::files(&tree::root(), TEXT) {
        let text = tree::read(&path);
        wrong.extend(
            places.iter().filter(|p| text.contains(**p)).map(|p| format!("{}: {p}", tree::shown(&path))),
        );
    }
    assert!(wrong.is_empty(), "paths are relative to the repository: {wrong:#?}");
}
