//! Who may depend on whom: the layers of ARCHITECTURE.md, over what `cargo metadata` says.

use crate::tree;
use serde_json::Value;
use std::collections::BTreeMap;

/// Every crate with its layer. A crate may use those of lower layers, and nothing else of ours.
pub(crate) const LAYERS: &[(&str, u8)] = &[
    ("stats", 0),
    ("core", 0),
    ("workload", 1),
    ("wire", 1),
    ("model", 1),
    ("observe", 1),
    ("drive", 2),
    ("report", 2),
    ("net", 3),
    ("server", 3),
    ("store", 3),
    ("cli", 4),
];

/// The lowest layer above the purity fence.
pub(crate) const FIRST_ADAPTER: u8 = 3;

/// Uses within a layer, with the reason for each.
const SIDEWAYS: &[(&str, &str, Kind, &str)] = &[
    ("core", "stats", Kind::Normal, "meaning is built on numbers; stats knows of nothing else"),
    ("net", "server", Kind::Dev, "the socket layer is tested against the server that knows its own truth"),
];

/// Outside worlds, and the only crates that may name them in their manifests.
const HOLDERS: &[(&str, &[&str])] = &[
    ("tokio", &["net"]),
    ("h2", &["net"]),
    ("rustls", &["net"]),
    ("mio", &["net", "server"]),
    ("parquet", &["store"]),
    ("arrow-array", &["store"]),
    ("clap", &["cli"]),
    ("indicatif", &["cli"]),
    ("signal-hook", &["cli"]),
    ("anyhow", &["cli"]),
    ("tokenizers", &["workload"]),
    ("statrs", &["stats"]),
];

/// Which of a manifest's tables a dependency stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Dev,
    Build,
}

/// One dependency as it stands in a manifest.
struct Dependency {
    user: String,
    used: String,
    kind: Kind,
}

fn dependencies() -> Vec<Dependency> {
    let metadata: Value =
        serde_json::from_str(&tree::cargo(&["metadata", "--format-version", "1", "--no-deps"]))
            .expect("cargo metadata prints JSON");
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            found.push(Dependency {
                user: short(package["name"].as_str().expect("a name")),
                used: short(dependency["name"].as_str().expect("a name")),
                kind: match dependency["kind"].as_str() {
                    None => Kind::Normal,
                    Some("dev") => Kind::Dev,
                    Some("build") => Kind::Build,
                    Some(other) => panic!("cargo knows a new kind of dependency, {other}"),
                },
            });
        }
    }
    found
}

fn short(name: &str) -> String {
    name.strip_prefix("goodput-").unwrap_or(name).to_owned()
}

#[test]
fn dependencies_point_down() {
    let layers: BTreeMap<_, _> = LAYERS.iter().copied().collect();
    let dependencies = dependencies();
    let ours = || dependencies.iter().filter(|d| layers.contains_key(d.used.as_str()));
    let documented = |d: &Dependency| {
        SIDEWAYS
            .iter()
            .any(|(user, used, kind, _)| (d.user.as_str(), d.used.as_str(), d.kind) == (*user, *used, *kind))
    };
    let wrong: Vec<_> = ours()
        .filter(|d| layers[d.user.as_str()] <= layers[d.used.as_str()] && !documented(d))
        .map(|d| format!("{} uses {} ({:?})", d.user, d.used, d.kind))
        .collect();
    assert!(wrong.is_empty(), "up or sideways, against the layers of ARCHITECTURE.md: {wrong:#?}");
    for (user, used, kind, reason) in SIDEWAYS {
        let needed = ours().any(|d| (d.user.as_str(), d.used.as_str(), d.kind) == (*user, *used, *kind));
        assert!(needed, "{user} no longer uses {used} ({reason}): take it out of SIDEWAYS");
    }
}

#[test]
fn every_crate_has_a_layer_and_a_place_in_the_code_map() {
    let metadata: Value =
        serde_json::from_str(&tree::cargo(&["metadata", "--format-version", "1", "--no-deps"]))
            .expect("cargo metadata prints JSON");
    let mut crates: Vec<_> = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|p| short(p["name"].as_str().expect("a name")))
        .collect();
    crates.sort();
    let mut known: Vec<_> = LAYERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    known.sort();
    assert_eq!(crates, known, "give the crate a layer, here and in ARCHITECTURE.md");
    let map = tree::read(&tree::root().join("ARCHITECTURE.md"));
    let missing: Vec<_> =
        crates.iter().filter(|name| !map.contains(&format!("### `crates/{name}`"))).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md has no section on {missing:?}");
}

#[test]
fn an_outside_world_is_named_by_its_adapter_only() {
    let dependencies = dependencies();
    for (library, holders) in HOLDERS {
        let users: Vec<_> = dependencies
            .iter()
            .filter(|d| d.used == *library && d.kind == Kind::Normal)
            .map(|d| d.user.as_str())
            .collect();
        let strangers: Vec<_> = users.iter().filter(|user| !holders.contains(user)).collect();
        assert!(strangers.is_empty(), "{library} belongs to {holders:?}, and {strangers:?} use it");
    }
}

#[test]
fn every_manifest_takes_the_workspace_s_lints() {
    for (name, _) in LAYERS {
        let manifest = tree::read(&tree::root().join(format!("crates/{name}/Cargo.toml")));
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "crates/{name}/Cargo.toml lacks `[lints] workspace = true`"
        );
    }
}
