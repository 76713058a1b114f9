//! The working tree, as these tests see it: crates, their sources, and text files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that hold what was built or measured, or that belong to version control.
const NOT_OURS: &[&str] = &["target", ".git", "runs", "__pycache__"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the crate lies in the repository")
}

/// What `cargo <arguments>` prints, run at the root with the lock file as it is.
pub(crate) fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--locked")
        .current_dir(root())
        .output()
        .expect("cargo built this test, so it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?} failed:\n{errors}");
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// All files under `folder` whose name ends in one of `endings`, sorted, build products left out.
pub(crate) fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository can be listed") {
            let path = entry.expect("an entry can be read").path();
            let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
            if path.is_dir() {
                if !NOT_OURS.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A source file without its tests: what is compiled into the crate, comments left out.
pub(crate) struct Source {
    /// Path below the root.
    pub(crate) path: String,
    /// The text as it stands in the file.
    pub(crate) whole: String,
    /// Lines outside `#[cfg(test)]`, with those that are only comment blanked.
    pub(crate) code: Vec<String>,
}

/// The sources of one crate, files that are only compiled for tests left out.
pub(crate) fn sources(krate: &str) -> Vec<Source> {
    let files = files(&root().join("crates").join(krate).join("src"), &[".rs"]);
    assert!(!files.is_empty(), "crate {krate} has sources");
    let texts: Vec<_> = files.into_iter().map(|path| (read(&path), path)).collect();
    let tests: Vec<_> = texts.iter().flat_map(|(text, path)| test_modules(text, path)).collect();
    texts
        .into_iter()
        .filter(|(_, path)| !tests.iter().any(|test| path == test || path.starts_with(test)))
        .map(|(whole, path)| Source { path: shown(&path), code: without_tests(&whole), whole })
        .collect()
}

/// A path as messages give it: below the root.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The text of a file; other bytes than UTF-8 are none of these tests' business.
pub(crate) fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).expect("a file of the repository can be read")).into_owned()
}

/// Lines that are compiled without `cfg(test)`. Relies on rustfmt: an item ends at its own indentation.
fn without_tests(text: &str) -> Vec<String> {
    let mut code = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indent = indentation(line);
            let ends = |l: &str| indentation(l) == indent && (l.ends_with('}') || l.ends_with(';'));
            for skipped in lines.by_ref() {
                if ends(skipped) {
                    break;
                }
            }
        } else if line.trim_start().starts_with("//") {
            code.push(String::new());
        } else {
            code.push(line.to_owned());
        }
    }
    code
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The files and folders of modules that `text` declares under `#[cfg(test)]`.
fn test_modules(text: &str, file: &Path) -> Vec<PathBuf> {
    let folder = file.parent().expect("a file lies in a folder");
    let stem = file.file_stem().expect("a source has a name").to_string_lossy();
    let inner =
        if ["lib", "main", "mod"].contains(&&*stem) { folder.to_owned() } else { folder.join(&*stem) };
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line != "#[cfg(test)]" {
            continue;
        }
        let mut item = lines.next().unwrap_or_default();
        if let Some(path) = item.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            found.push(folder.join(path));
            item = lines.next().unwrap_or_default();
        }
        if let Some((_, name)) = item.strip_suffix(';').and_then(|item| item.split_once("mod ")) {
            found.push(inner.join(name).with_extension("rs"));
            found.push(inner.join(name));
        }
    }
    found
}

#[test]
fn tests_and_comments_are_told_from_code() {
    let text = "use a;\n// std::fs\n#[cfg(test)]\nmod tests {\n    use b;\n}\nfn c() {\n    #[cfg(test)]\n    d();\n    e();\n}\n";
    assert_eq!(without_tests(text), ["use a;", "", "fn c() {", "    e();", "}"]);
    let modules = test_modules(
        "#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = \"x.rs\"]\nmod y;\n",
        Path::new("a/b.rs"),
    );
    assert!(modules.contains(&PathBuf::from("a/b/tests.rs")) && modules.contains(&PathBuf::from("a/x.rs")));
    assert!(!modules.contains(&PathBuf::from("a/b.rs")));
}
