//! Keys reach the server and nothing else.

use crate::goodput::{TINY, command, exact, goodput, run_args, start};
use crate::recorder::Recorder;
use std::fs;
use std::path::Path;
use tempfile::tempdir;

/// Every file below `folder` that holds one of `texts`.
fn files_with(folder: &Path, texts: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, texts));
            continue;
        }
        let bytes = fs::read(&path).expect("a file");
        let holds = |text: &&&str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        found.extend(texts.iter().filter(holds).map(|text| format!("{text} in {}", path.display())));
    }
    found
}

#[test]
fn no_key_and_no_header_value_reaches_the_disk_or_the_terminal() {
    let (server, _) = exact(5, 0, 2, &[]);
    let recorder = Recorder::before(server.addr);
    let out = tempdir().unwrap();
    let secrets = ["sk-a1b2c3d4e5f6g7h8", "tango-whisky-4711", "plain-but-private", "user-secret-99"];
    let mut args = run_args(&recorder.url(), out.path(), &format!("--concurrency 1 --requests 3 {TINY}"));
    args.extend(
        ["--api-key", secrets[0], "--header", &format!("x-api-key={}", secrets[1])].map(str::to_owned),
    );
    args.extend([
        format!("--header=x-team={}", secrets[2]),
        "--header".into(),
        format!("X-Who={}", secrets[3]),
    ]);
    let ended = goodput(args).with_code(0);
    let said = ended.stdout + &ended.stderr;
    assert!(secrets.iter().all(|secret| !said.contains(secret)), "{said}");
    assert_eq!(files_with(out.path(), &secrets), Vec::<String>::new());
    // The test looks where something could be found.
    assert!(!files_with(out.path(), &["--api-key"]).is_empty(), "the command line is on record");

    let posts: Vec<_> = recorder.requests().into_iter().filter(|r| r.head.starts_with("POST ")).collect();
    assert_eq!(posts.len(), 3);
    for post in posts {
        assert!(post.head.contains(&format!("authorization: Bearer {}", secrets[0])), "{}", post.head);
        assert!(secrets[1..].iter().all(|secret| post.head.contains(secret)), "{}", post.head);
    }
}

#[test]
fn the_key_of_the_environment_is_used() {
    let (server, _) = exact(5, 0, 2, &[]);
    let recorder = Recorder::before(server.addr);
    let out = tempdir().unwrap();
    let args = run_args(&recorder.url(), out.path(), &format!("--concurrency 1 --requests 1 {TINY} --quiet"));
    start(command(args).env("OPENAI_API_KEY", "key-from-outside"), None).ended().with_code(0);
    let heads: Vec<_> = recorder.requests().into_iter().map(|request| request.head).collect();
    assert!(heads.len() > 1, "the probes and the request");
    assert!(heads.iter().all(|head| head.contains("authorization: Bearer key-from-outside")), "{heads:#?}");
    assert_eq!(files_with(out.path(), &["key-from-outside"]), Vec::<String>::new());
}
