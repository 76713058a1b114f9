//! Both formats give back what was put in, whatever it was.

use crate::timelines::{new_run, plain, timeline, write_log};
use goodput_core::time::Nanos;
use goodput_core::timeline::Timeline;
use goodput_store::StoreError;
use goodput_store::layout::LOG;
use goodput_store::log::{FLUSH_AFTER, LogEnd, LogReader, LogWriter};
use goodput_store::parquet::{LogAfter, convert};
use proptest::collection::vec;
use proptest::prelude::*;

fn read_log(run: &goodput_store::layout::RunDir) -> (Vec<Timeline>, Result<LogEnd, StoreError>) {
    let mut found = Vec::new();
    let end = LogReader::open(run).unwrap().for_each(&mut |timeline| found.push(timeline.clone()));
    (found, end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_log_is_lossless(timelines in vec(timeline(), 0..8)) {
        let (_guard, run) = new_run();
        write_log(&run, &timelines);
        let (found, end) = read_log(&run);
        prop_assert_eq!(end.unwrap(), LogEnd { requests: timelines.len() as u64, damage: None });
        prop_assert_eq!(found, timelines);
    }

    #[test]
    fn parquet_is_lossless(timelines in vec(timeline(), 0..8)) {
        let (_guard, run) = new_run();
        write_log(&run, &timelines);
        let converted = convert(&run, LogAfter::Delete).unwrap();
        prop_assert_eq!(converted.requests, timelines.len() as u64);
        prop_assert_eq!(converted.chunks, timelines.iter().map(|t| t.chunks.len() as u64).sum::<u64>());
        prop_assert!(!run.file(LOG).exists());
        let found = crate::parquet_files::read_back(&run);
        prop_assert_eq!(found, timelines);
    }
}

#[test]
fn segments_follow_each_other() {
    let (_guard, run) = new_run();
    let mut log = LogWriter::with_segment_bytes(&run, 300).unwrap();
    let timelines: Vec<Timeline> = (0..50).map(|i| plain(i, 64)).collect();
    for timeline in &timelines {
        log.append(timeline).unwrap();
        log.flush().unwrap();
    }
    log.finish().unwrap();
    assert!(std::fs::read_dir(run.file(LOG)).unwrap().count() > 10);
    let (found, end) = read_log(&run);
    assert_eq!(end.unwrap().damage, None);
    assert_eq!(found, timelines);
}

#[test]
fn finished_requests_reach_the_kernel_in_time() {
    let (_guard, run) = new_run();
    let mut log = LogWriter::create(&run).unwrap();
    let on_disk = || read_log(&run).0.len();
    log.append(&plain(0, 4)).unwrap();
    log.tick(Nanos::from_millis(5)).unwrap();
    assert_eq!(on_disk(), 0);
    log.tick(FLUSH_AFTER).unwrap();
    assert_eq!(on_disk(), 1);
    log.append(&plain(1, 4)).unwrap();
    log.tick(FLUSH_AFTER + Nanos::from_millis(19)).unwrap();
    assert_eq!(on_disk(), 1);
    log.tick(FLUSH_AFTER + Nanos::from_millis(20)).unwrap();
    assert_eq!(on_disk(), 2);
}

#[test]
fn a_reader_of_a_running_run_sees_the_same_each_time() {
    let (_guard, run) = new_run();
    let mut log = LogWriter::with_segment_bytes(&run, 300).unwrap();
    let mut reader = LogReader::open(&run).unwrap();
    for i in 0..8 {
        let before = LogReader::open(&run).unwrap();
        log.append(&plain(i, 16)).unwrap();
        log.flush().unwrap();
        for opened in [&before, &reader] {
            let end = opened.for_each(&mut |_| {}).unwrap();
            assert_eq!(end, LogEnd { requests: i, damage: None });
        }
        reader = LogReader::open(&run).unwrap();
    }
    assert!(run.file(LOG).join("00000003.seg").exists());
}

#[test]
fn records_out_of_order_are_refused() {
    let (_guard, run) = new_run();
    let mut log = LogWriter::create(&run).unwrap();
    let mut wrong = plain(7, 3);
    wrong.chunks.swap(0, 2);
    let said = log.append(&wrong).unwrap_err().to_string();
    assert!(said.contains("measured request 7") && said.contains("chunk times never go back"), "{said}");
    let mut far = plain(8, 0);
    far.instants.done = Some(Nanos(1 << 63));
    let said = log.append(&far).unwrap_err().to_string();
    assert!(said.contains("done_ns is below 2^63"), "{said}");
    log.append(&plain(9, 3)).unwrap();
    log.finish().unwrap();
    assert_eq!(read_log(&run).0, [plain(9, 3)]);
}

#[test]
fn a_log_is_never_written_twice() {
    let (_guard, run) = new_run();
    write_log(&run, &[]);
    assert!(matches!(LogWriter::create(&run), Err(StoreError::Io { .. })));
}
