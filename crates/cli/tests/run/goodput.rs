//! Starts the program, and reads what it left behind.

use goodput_core::time::Nanos;
use goodput_server::{FixedConfig, Running, Service, spawn};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A program that has not ended after this time is killed, and its test fails.
const HARD_LIMIT: Duration = Duration::from_secs(60);
/// How often something that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How a program ended, and all it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Stdout as one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("stdout is not JSON: {e}\n{self:#?}"))
    }

    /// The same, after checking the exit code.
    #[track_caller]
    pub(crate) fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

/// A running program. Dropping it kills it.
pub(crate) struct Started {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

impl Started {
    /// Waits for the end.
    pub(crate) fn ended(mut self) -> Ended {
        let child = &mut self.child;
        let status = wait_for("the program to end", || child.try_wait().expect("own child"));
        let text = |pipe: Option<JoinHandle<String>>| {
            pipe.map_or_else(String::new, |text| text.join().expect("no panic"))
        };
        let (stdout, stderr) = (text(self.stdout.take()), text(self.stderr.take()));
        Ended { code: status.code(), stdout, stderr }
    }

    /// Sends a signal by its name, `INT` or `KILL`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is a standard tool").success());
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The program with these arguments, without an API key from the environment of the tests.
pub(crate) fn command<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_goodput"));
    command.args(args).env_remove("OPENAI_API_KEY").stdin(Stdio::null());
    command
}

/// Starts it. Its stdout goes to a file if there is one, for programs that are read while they run.
pub(crate) fn start(command: &mut Command, stdout: Option<File>) -> Started {
    let stdout = stdout.map_or_else(Stdio::piped, Stdio::from);
    let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    Started { stdout: stdout.map(collect), stderr: stderr.map(collect), child }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).expect("the program writes UTF-8");
        text
    })
}

/// Runs it to its end.
pub(crate) fn goodput<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Ended {
    start(&mut command(args), None).ended()
}

/// `goodput run` with arguments separated by blanks, against `url`, with run directories in `out`.
pub(crate) fn run_args(url: &str, out: &Path, args: &str) -> Vec<String> {
    let out = out.display().to_string();
    let fixed = ["run", "--url", url, "--out", &out].map(str::to_owned);
    fixed.into_iter().chain(args.split_whitespace().map(str::to_owned)).collect()
}

/// Short prompts that need no vocabulary, no warm-up.
pub(crate) const TINY: &str = "--data random --input-tokens 8 --tokenizer bytes --warmup 0";

/// Looks until there is something, up to the hard limit.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < HARD_LIMIT, "waited too long for {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// An exact server with `tokens` tokens an answer, and its URL.
pub(crate) fn exact(ttft_ms: u64, itl_ms: u64, tokens: u32, faults: &[&str]) -> (Running, String) {
    let config = FixedConfig {
        ttft: Nanos::from_millis(ttft_ms),
        itl: Nanos::from_millis(itl_ms),
        tokens,
        faults: faults.iter().map(|rule| rule.parse().expect("a fault")).collect(),
        ..FixedConfig::default()
    };
    let server = spawn(Service::Fixed(config)).expect("a free port");
    let url = format!("http://{}", server.addr);
    (server, url)
}

/// The run directories in `out`, oldest name first.
pub(crate) fn runs(out: &Path) -> Vec<PathBuf> {
    let mut runs: Vec<_> =
        fs::read_dir(out).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    runs.sort();
    runs
}

/// The only run directory in `out`.
#[track_caller]
pub(crate) fn only_run(out: &Path) -> PathBuf {
    let [run] = &runs(out)[..] else { panic!("not one run: {:?}", runs(out)) };
    run.clone()
}

/// A JSON file.
pub(crate) fn json_file(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

/// A path of testdata.
pub(crate) fn testdata(name: &str) -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/").to_owned() + name
}

/// A figure of a summary, by JSON pointer.
#[track_caller]
pub(crate) fn figure(summary: &Value, pointer: &str) -> f64 {
    let value = summary.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is missing in {summary:#}"));
    value.as_f64().unwrap_or_else(|| panic!("{pointer} is {value}, no number"))
}
