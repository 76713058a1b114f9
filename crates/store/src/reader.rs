//! One stored run, whole or killed, as a source of timelines.

use crate::error::StoreError;
use crate::layout::RunDir;
use crate::log::{Damage, LogEnd, LogReader};
use crate::manifest::{Manifest, Status};
use crate::parquet::ParquetReader;
use goodput_core::plan::Plan;
use goodput_core::summarise::TimelineSource;
use goodput_core::timeline::Timeline;
use std::num::NonZero;
use std::path::Path;
use std::thread::available_parallelism;

/// Threads that read one run, unless [`RunReader::with_threads`] says otherwise. Each gathers samples of its own, so
/// that memory grows with them.
pub const MOST_THREADS: usize = 8;

/// A stored run. Its requests can be visited as often as asked; they are never all in memory.
#[derive(Debug, Clone)]
pub struct RunReader {
    run: RunDir,
    manifest: Manifest,
    plan: Plan,
    records: Records,
    requests: u64,
    damage: Option<Damage>,
    threads: u64,
}

/// Where the requests are.
#[derive(Debug, Clone)]
enum Records {
    /// The run came to its end.
    Parquet(ParquetReader),
    /// It did not, or is still going.
    Log(LogReader),
}

impl RunReader {
    /// Opens the run at `path`, found as [`RunDir::open`] says. A run without Parquet files is read from its
    /// log; that takes one pass here, to know how much of it is whole.
    ///
    /// # Errors
    /// [`StoreError::NotARun`] and [`StoreError::Version`] for what this program cannot read, else what is
    /// broken. Damage in the middle of a log is not an error yet, but of [`TimelineSource::for_each`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let run = RunDir::open(path)?;
        let manifest = Manifest::read(&run)?;
        let plan = run.read_plan()?;
        let (records, requests, damage) = match ParquetReader::open(&run)? {
            Some(parquet) => {
                let requests = parquet.rows();
                (Records::Parquet(parquet), requests, None)
            }
            None => {
                let log = LogReader::open(&run)?;
                let end = match log.for_each(&mut |_| {}) {
                    Err(StoreError::Corrupt { requests, .. }) => LogEnd { requests, damage: None },
                    end => end?,
                };
                (Records::Log(log), end.requests, end.damage)
            }
        };
        let threads = available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS) as u64;
        Ok(Self { run, manifest, plan, records, requests, damage, threads })
    }

    /// The same run, read on at most this many threads. What is read does not depend on their number.
    #[must_use]
    pub fn with_threads(self, threads: NonZero<u64>) -> Self {
        Self { threads: threads.get(), ..self }
    }

    /// The directory; [`RunDir::chosen_among`] says whether it was picked as the newest of several.
    #[must_use]
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// What is known beside the timelines.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The frozen plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Requests on record, warm-up included.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The cut end of the log of a killed run.
    #[must_use]
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Whether the run did not come to its planned end, so that its figures cover only what was finished.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.why_partial().is_some()
    }

    /// Why the run is partial, in a sentence for the report; `None` if it is not.
    #[must_use]
    pub fn why_partial(&self) -> Option<String> {
        let why = match (&self.manifest.status, &self.damage) {
            (Status::Complete, None) => return None,
            (Status::Complete, Some(damage)) => return Some(damage.to_string()),
            (Status::Running, _) => "the run was killed, or is still going".to_owned(),
            (Status::Interrupted, _) => "the run was interrupted".to_owned(),
            (Status::Failed { reason }, _) => format!("the run failed: {reason}"),
        };
        let cut = self.damage.as_ref().map_or_else(String::new, |damage| format!("; {damage}"));
        Some(format!("{why}; {} finished requests are on record{cut}", self.requests))
    }
}

impl TimelineSource for RunReader {
    type Error = StoreError;

    /// Visits every request, warm-up included, in the order in which they finished. The timeline is valid
    /// during the visit only. What is broken is an error with file and place, after everything before it has
    /// been visited.
    fn for_each(&self, visit: &mut dyn FnMut(&Timeline)) -> Result<(), StoreError> {
        match &self.records {
            Records::Parquet(parquet) => parquet.for_each(visit),
            Records::Log(log) => log.for_each(visit).map(|_| ()),
        }
    }

    /// A long run with Parquet files is read by one thread for each of this process's cores, up to [`MOST_THREADS`].
    fn fold<P: Send>(
        &self,
        begin: impl Fn() -> P + Sync,
        visit: impl Fn(&mut P, &Timeline) + Sync,
    ) -> Result<Vec<P>, StoreError> {
        match &self.records {
            Records::Parquet(parquet) => parquet.fold(self.threads, &begin, &visit),
            Records::Log(log) => {
                let mut part = begin();
                log.for_each(&mut |timeline| visit(&mut part, timeline))?;
                Ok(vec![part])
            }
        }
    }
}
