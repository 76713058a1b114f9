//! From timelines to files and back.
//!
//! In a file system in memory where there is one, so that the disk is not what is measured.

use crate::Task;
use crate::inputs;
use goodput_core::summarise::TimelineSource;
use goodput_core::timeline::Timeline;
use goodput_store::layout::RunDir;
use goodput_store::log::LogWriter;
use goodput_store::manifest::{Anchor, Clock, Manifest};
use goodput_store::parquet::{LogAfter, convert};
use goodput_store::reader::RunReader;
use std::hint::black_box;
use std::path::Path;
use tempfile::TempDir;

/// Requests of one run.
const REQUESTS: usize = 200;
const RUN: &str = "run";
const IN_MEMORY: &str = "/dev/shm";

/// Records into frames into a log, as the recorder does it.
pub(crate) fn log_append() -> Task {
    let timelines = inputs::timelines(REQUESTS);
    Task::new("chunk", chunks(&timelines), move || {
        let folder = folder();
        write_log(&new_run(folder.path()), black_box(&timelines));
    })
}

/// A log into both Parquet files.
pub(crate) fn parquet_write() -> Task {
    let timelines = inputs::timelines(REQUESTS);
    let folder = folder();
    let run = new_run(folder.path());
    write_log(&run, &timelines);
    Task::new("chunk", chunks(&timelines), move || {
        let converted = convert(&run, LogAfter::Keep).expect("a whole log can be converted");
        assert_eq!(converted.requests, REQUESTS as u64, "in {}", folder.path().display());
    })
}

/// Both Parquet files into timelines, one pass.
pub(crate) fn parquet_read() -> Task {
    let timelines = inputs::timelines(REQUESTS);
    let folder = folder();
    let run = new_run(folder.path());
    write_log(&run, &timelines);
    convert(&run, LogAfter::Delete).expect("a whole log can be converted");
    write_head(&run);
    Task::new("chunk", chunks(&timelines), move || {
        let reader = RunReader::open(&folder.path().join(RUN)).expect("the run is whole");
        let mut chunks = 0;
        reader.for_each(&mut |timeline| chunks += timeline.chunks.len()).expect("the run is whole");
        black_box(chunks);
    })
}

fn chunks(timelines: &[Timeline]) -> usize {
    timelines.iter().map(|timeline| timeline.chunks.len()).sum()
}

fn folder() -> TempDir {
    let made =
        if Path::new(IN_MEMORY).is_dir() { tempfile::tempdir_in(IN_MEMORY) } else { tempfile::tempdir() };
    made.expect("a temporary folder can be made")
}

fn new_run(folder: &Path) -> RunDir {
    RunDir::create(folder, Some(RUN)).expect("the folder is empty")
}

fn write_log(run: &RunDir, timelines: &[Timeline]) {
    let mut log = LogWriter::create(run).expect("the run is new");
    for timeline in timelines {
        log.append(timeline).expect("generated timelines are in order");
    }
    log.finish().expect("there is room");
}

fn write_head(run: &RunDir) {
    let plan = inputs::plan(REQUESTS, Some(64));
    run.write_plan(&plan).expect("there is room");
    let start = Anchor { unix_ns: 1_796_019_398_000_000_000, run_ns: 0 };
    let manifest = Manifest::starting(&plan, Clock::starting("CLOCK_MONOTONIC", start, None));
    manifest.write(run).expect("there is room");
}
