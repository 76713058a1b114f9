//! The last self-check of this host, kept for runs to quote: `$XDG_CACHE_HOME/goodput/selfcheck.json`, or
//! `~/.cache/goodput/selfcheck.json`. What was found by another version, on another host, kernel, processor or number
//! of cores says nothing here and is not quoted.

use super::report::{HostKey, SCHEMA};
use goodput_store::manifest::{CheckedLoad, Host, SelfCheck};
use serde::Deserialize;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where it is kept; `None` where the environment names no folder.
pub(super) fn path() -> Option<PathBuf> {
    path_of(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
}

/// By the XDG base directory specification: a relative or empty `XDG_CACHE_HOME` is as good as none.
fn path_of(cache: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let folder = cache.map(PathBuf::from).filter(|folder| folder.is_absolute());
    let fallback = || Some(PathBuf::from(home.filter(|home| !home.is_empty())?).join(".cache"));
    Some(folder.or_else(fallback)?.join("goodput").join("selfcheck.json"))
}

/// What a run needs to know of a kept report.
#[derive(Debug, Deserialize)]
struct Kept {
    schema: String,
    host: HostKey,
    at_unix_s: u64,
    quick: bool,
    verdict: KeptVerdict,
}

#[derive(Debug, Deserialize)]
struct KeptVerdict {
    sentence: String,
    good: Vec<CheckedLoad>,
}

/// The last self-check of this very host, if one is kept.
pub(crate) fn last(host: &Host) -> Option<SelfCheck> {
    quote(&fs::read_to_string(path()?).ok()?, &HostKey::of(host))
}

/// A kept report for a host; `None` if it is broken or of another host.
fn quote(text: &str, host: &HostKey) -> Option<SelfCheck> {
    let kept: Kept = serde_json::from_str(text).ok()?;
    let major = |schema: &str| schema.split('.').take(2).map(str::to_owned).collect::<Vec<_>>();
    (major(&kept.schema) == major(SCHEMA) && kept.host == *host).then_some(SelfCheck {
        at_unix_s: kept.at_unix_s,
        quick: kept.quick,
        verdict: kept.verdict.sentence,
        good: kept.verdict.good,
    })
}

/// Keeps the JSON of a check of `host`, whole or not at all. A `quick` one does not replace a longer one of the same
/// host; says whether it was kept.
pub(super) fn keep(json: &str, host: &HostKey, quick: bool, path: &Path) -> io::Result<bool> {
    let known = fs::read_to_string(path).ok().and_then(|text| quote(&text, host));
    if quick && known.is_some_and(|known| !known.quick) {
        return Ok(false);
    }
    let folder = path.parent().ok_or_else(|| io::Error::other("it has no folder"))?;
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(json.as_bytes())?;
    file.persist(path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn host() -> Host {
        Host {
            hostname: Some("a".to_owned()),
            kernel: Some("6.1".to_owned()),
            cpu: Some("x".to_owned()),
            cores: Some(2),
            ..Host::default()
        }
    }

    fn kept(host: &Host) -> Value {
        json!({
            "schema": SCHEMA,
            "host": HostKey::of(host),
            "at_unix_s": 1_709_251_199_u64,
            "quick": false,
            "cells": [],
            "verdict": {
                "fit": true,
                "sentence": "good up to 64 streams at 6,400 chunks/s",
                "good": [{"streams": 64, "chunks_per_s": 6400.0}],
            },
        })
    }

    #[test]
    fn the_folder_is_that_of_the_standard() {
        let path =
            |cache: Option<&str>, home: Option<&str>| path_of(cache.map(Into::into), home.map(Into::into));
        let at = |path: &str| Some(PathBuf::from(path));
        assert_eq!(path(Some("/c"), Some("/h")), at("/c/goodput/selfcheck.json"));
        assert_eq!(path(None, Some("/h")), at("/h/.cache/goodput/selfcheck.json"));
        assert_eq!(path(Some("c"), Some("/h")), at("/h/.cache/goodput/selfcheck.json"), "relative");
        assert_eq!(path(Some(""), None), None);
    }

    #[test]
    fn a_check_is_quoted_on_the_host_it_is_of() {
        let quoted = quote(&kept(&host()).to_string(), &HostKey::of(&host())).unwrap();
        assert_eq!((quoted.at_unix_s, quoted.quick), (1_709_251_199, false));
        assert_eq!(quoted.good, [CheckedLoad { streams: 64, chunks_per_s: 6_400.0 }]);
        assert!(quoted.verdict.starts_with("good up to 64"));
    }

    #[test]
    fn nothing_is_quoted_from_another_host_or_version() {
        let text = kept(&host()).to_string();
        let others = [
            Host { hostname: Some("b".to_owned()), ..host() },
            Host { kernel: Some("6.2".to_owned()), ..host() },
            Host { cpu: Some("y".to_owned()), ..host() },
            Host { cores: Some(4), ..host() },
            Host { cores: None, ..host() },
        ];
        for other in others {
            assert_eq!(quote(&text, &HostKey::of(&other)), None, "{other:?}");
        }
        for (member, value) in
            [("/host/goodput", json!("0.0.1")), ("/host/optimised", json!(cfg!(debug_assertions)))]
        {
            let mut changed = kept(&host());
            *changed.pointer_mut(member).unwrap() = value;
            assert_eq!(quote(&changed.to_string(), &HostKey::of(&host())), None, "{member}");
        }
        let mut changed = kept(&host());
        changed["schema"] = json!("goodput.selfcheck/2.0");
        assert_eq!(quote(&changed.to_string(), &HostKey::of(&host())), None);
        assert_eq!(quote("{", &HostKey::of(&host())), None);
    }

    #[test]
    fn a_short_check_replaces_no_longer_one_of_the_same_host() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("goodput").join("selfcheck.json");
        let (long, ours) = (kept(&host()).to_string(), HostKey::of(&host()));
        let mut short = kept(&host());
        short["quick"] = json!(true);
        let short = short.to_string();
        let holds = |text: &str| fs::read_to_string(&path).unwrap() == text;
        assert!(keep(&short, &ours, true, &path).unwrap() && holds(&short), "better than none");
        assert!(keep(&long, &ours, false, &path).unwrap() && holds(&long));
        assert!(!keep(&short, &ours, true, &path).unwrap() && holds(&long));
        let other = HostKey::of(&Host { kernel: Some("6.2".to_owned()), ..host() });
        assert!(keep(&short, &other, true, &path).unwrap() && holds(&short), "the kernel is another now");
    }

    #[test]
    fn a_later_minor_version_is_read() {
        let mut changed = kept(&host());
        changed["schema"] = json!("goodput.selfcheck/1.7");
        assert!(quote(&changed.to_string(), &HostKey::of(&host())).is_some());
    }
}
