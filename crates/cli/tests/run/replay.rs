//! Seeds and plans: the same plan sends the same requests at the same scheduled instants, byte for byte.

use crate::goodput::{exact, goodput, run_args};
use crate::recorder::Recorder;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::tempdir;

const LOAD: &str = "--rate 200 --requests 30 --warmup 3 --data random --input-tokens uniform(5,50) \
                    --output-tokens uniform(1,4) --tokenizer bytes --quiet";

fn schedule(run: &Path) -> String {
    fs::read_to_string(run.join("schedule.csv")).expect("a schedule")
}

#[test]
fn one_seed_gives_one_schedule() {
    let (_server, url) = exact(2, 0, 4, &[]);
    let out = tempdir().unwrap();
    for (name, seed) in [("one", 7), ("same", 7), ("other", 8)] {
        goodput(run_args(&url, out.path(), &format!("{LOAD} --name {name} --seed {seed}"))).with_code(0);
    }
    let [one, same, other] = ["one", "same", "other"].map(|name| schedule(&out.path().join(name)));
    assert_eq!(one.lines().count(), 1 + 3 + 30, "a head, the warm-up, the measured requests");
    assert_eq!(one, same);
    assert_ne!(one, other);
}

#[test]
fn a_stored_plan_sends_the_same_bodies_again() {
    let (server, _) = exact(2, 0, 4, &[]);
    let out = tempdir().unwrap();
    let original = Recorder::before(server.addr);
    goodput(run_args(&original.url(), out.path(), &format!("{LOAD} --name original"))).with_code(0);
    let run = out.path().join("original");

    // By run directory with the stored target, and by file with another one.
    let other = Recorder::before(server.addr);
    let out_flag = out.path().display().to_string();
    let same_target =
        ["run", "--plan", run.to_str().unwrap(), "--out", &out_flag, "--name", "again", "--quiet"];
    goodput(same_target).with_code(0);
    let plan = run.join("plan.toml").display().to_string();
    goodput(run_args(&other.url(), out.path(), &format!("--plan {plan} --name elsewhere --quiet")))
        .with_code(0);

    let again = out.path().join("again");
    assert_eq!(schedule(&again), schedule(&run));
    assert_eq!(schedule(&out.path().join("elsewhere")), schedule(&run));
    assert_eq!(fs::read(again.join("plan.toml")).unwrap(), fs::read(run.join("plan.toml")).unwrap());

    let once = other.bodies();
    assert_eq!(once.len(), 33);
    let twice: Vec<_> = once.iter().flat_map(|body| [body.clone(), body.clone()]).collect();
    assert_eq!(original.bodies(), twice, "both runs over the first relay sent what went over the second");
    assert_eq!(once.iter().collect::<BTreeSet<_>>().len(), 33, "and no prompt comes twice in a run");
}

/// What `--salt` is for: a second run of the same seed must not find its prompts in the server's prefix cache.
#[test]
fn a_new_run_of_the_same_seed_has_other_prompts_unless_the_salt_is_fixed() {
    let (server, _) = exact(2, 0, 4, &[]);
    let out = tempdir().unwrap();
    let bodies = |salt: &str| {
        let recorder = Recorder::before(server.addr);
        goodput(run_args(&recorder.url(), out.path(), &format!("{LOAD} --seed 7 --salt {salt}")))
            .with_code(0);
        recorder.bodies()
    };
    assert_ne!(bodies("auto"), bodies("auto"));
    assert_eq!(bodies("none"), bodies("none"));
    assert_eq!(bodies("mine"), bodies("mine"));
}
