//! `--truth FILE`: a run held against the record that the server itself kept of it.

use crate::exit::Failure;
use goodput_core::time::Nanos;
use goodput_core::timeline::Phase;
use goodput_core::truth::{RequestTruth, ServerTruth, TruthReport, join};
use goodput_server::{TruthLine, read_truth};
use goodput_store::reader::RunReader;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a server that has just given its last answer is waited for to write it down.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often its file is looked at in that time.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A server's truth file.
#[derive(Debug, Clone)]
pub(crate) struct TruthFile {
    path: PathBuf,
    /// How long requests that are missing in it are waited for.
    patience: Duration,
}

impl TruthFile {
    /// A file that is there and can be opened. It may be written still if the run is yet to be made (`fresh`).
    pub(crate) fn open(path: &Path, fresh: bool) -> Result<Self, Failure> {
        File::open(path).map_err(|e| {
            Failure::input(format!("--truth: cannot read {}: {e}", path.display())).hint(
                "`goodput sim fixed` or `sim serve` with --truth FILE writes one, and has to run before the run that is held against it",
            )
        })?;
        let patience = if fresh { PATIENCE } else { Duration::ZERO };
        Ok(Self { path: path.to_owned(), patience })
    }

    /// The join with a run. A file with none of the run's requests is refused.
    pub(crate) fn join(&self, run: &RunReader) -> Result<TruthReport, Failure> {
        let began = Instant::now();
        loop {
            let truth = self.read()?;
            let report = join_run(&truth, run)?;
            let complete = report.without_truth == 0;
            if complete || began.elapsed() >= self.patience {
                return self.check(report, &truth, run);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn read(&self) -> Result<ServerTruth, Failure> {
        let shown = self.path.display();
        let file = File::open(&self.path)
            .map_err(|e| Failure::input(format!("--truth: cannot read {shown}: {e}")))?;
        let mut truth = ServerTruth::default();
        read_truth(BufReader::new(file), |line| {
            let (id, request) = request(line);
            truth.add(id, request);
        })
        .map_err(|e| Failure::input(format!("--truth: {shown}: {e}")))?;
        Ok(truth)
    }

    fn check(
        &self,
        report: TruthReport,
        truth: &ServerTruth,
        run: &RunReader,
    ) -> Result<TruthReport, Failure> {
        if report.server_only < truth.len() {
            return Ok(report);
        }
        let shown = self.path.display();
        let ours = run.plan().request_id(Phase::Measured, 0);
        Err(match truth.some_id() {
            _ if truth.is_empty() => Failure::input(format!("--truth: {shown} holds no request yet"))
                .hint("a server writes a request down when it ends; is this the file of the server that was asked?"),
            Some(theirs) => Failure::input(format!(
                "--truth: none of the {} requests in {shown} is of this run: it has {theirs}, this run sent {ours}",
                truth.len()
            ))
            .hint("give the file of the server that answered this very run"),
            None => Failure::input(format!(
                "--truth: the {} requests in {shown} came without an id (x-request-id)",
                truth.len()
            ))
            .hint("something between this client and the server may have dropped the header"),
        })
    }
}

fn join_run(truth: &ServerTruth, run: &RunReader) -> Result<TruthReport, Failure> {
    let plan = run.plan();
    join(truth, run, |t| plan.request_id(t.phase, t.index)).map_err(|e| Failure::input(e.to_string()))
}

fn request(line: TruthLine) -> (Option<String>, RequestTruth) {
    let spans = |list: Vec<u64>| list.into_iter().map(Nanos).collect();
    let truth =
        RequestTruth { due: spans(line.due_ns), written: spans(line.written_ns), chunks: line.chunks };
    (line.request_id, truth)
}
