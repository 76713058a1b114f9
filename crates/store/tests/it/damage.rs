//! A log cut at any byte keeps its whole frames; a log damaged anywhere never passes as sound.

use crate::timelines::{new_run, plain, write_log};
use goodput_core::timeline::Timeline;
use goodput_store::StoreError;
use goodput_store::layout::{LOG, RunDir};
use goodput_store::log::{LogEnd, LogReader, LogWriter};
use std::fs;
use std::path::PathBuf;

fn segment(run: &RunDir, number: u32) -> PathBuf {
    run.file(LOG).join(format!("{number:08}.seg"))
}

fn read(run: &RunDir) -> (Vec<Timeline>, Result<LogEnd, StoreError>) {
    let mut found = Vec::new();
    let end = LogReader::open(run).unwrap().for_each(&mut |timeline| found.push(timeline.clone()));
    (found, end)
}

/// A log of one segment with a frame a timeline: its bytes and where its frames end.
fn log_with_ends(run: &RunDir, timelines: &[Timeline]) -> (Vec<u8>, Vec<usize>) {
    let mut log = LogWriter::create(run).unwrap();
    let length = || fs::metadata(segment(run, 1)).unwrap().len() as usize;
    let mut ends = vec![length()];
    for timeline in timelines {
        log.append(timeline).unwrap();
        log.flush().unwrap();
        ends.push(length());
    }
    log.finish().unwrap();
    (fs::read(segment(run, 1)).unwrap(), ends)
}

#[test]
fn a_cut_at_every_byte_keeps_every_whole_frame() {
    let (_guard, run) = new_run();
    let timelines: Vec<Timeline> = (0..5).map(|i| plain(i, 3 + i as u32)).collect();
    let (bytes, ends) = log_with_ends(&run, &timelines);
    for cut in 0..=bytes.len() {
        fs::write(segment(&run, 1), &bytes[..cut]).unwrap();
        let (found, end) = read(&run);
        let whole = ends.iter().filter(|&&end| end <= cut).count().saturating_sub(1);
        assert_eq!(found, timelines[..whole], "cut at {cut}");
        let end = end.unwrap();
        assert_eq!(end.requests, whole as u64, "cut at {cut}");
        let clean = ends.contains(&cut);
        assert_eq!(end.damage.is_none(), clean, "cut at {cut}");
        if let Some(damage) = end.damage {
            let start = ends.iter().rev().find(|&&end| end <= cut).map_or(0, |&end| end);
            assert_eq!(
                (damage.byte, damage.lost_bytes),
                (start as u64, (cut - start) as u64),
                "cut at {cut}"
            );
            assert_eq!(damage.segment, segment(&run, 1));
        }
    }
}

#[test]
fn a_flipped_bit_never_passes_as_sound() {
    let (_guard, run) = new_run();
    let timelines: Vec<Timeline> = (0..3).map(|i| plain(i, 2)).collect();
    let (bytes, ends) = log_with_ends(&run, &timelines);
    let mut harmless = Vec::new();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(segment(&run, 1), &damaged).unwrap();
        let (found, end) = read(&run);
        let before = ends.iter().filter(|&&end| end <= bit / 8).count().saturating_sub(1);
        match end {
            Ok(LogEnd { damage: None, .. }) => {
                assert_eq!(found, timelines, "bit {bit}");
                harmless.push(bit);
                continue;
            }
            Ok(end) => assert!(bit / 8 >= ends[2], "bit {bit}: {end:?}"),
            Err(StoreError::Corrupt { byte, requests, .. }) => {
                assert_eq!((byte, requests), (ends[before] as u64, before as u64), "bit {bit}");
            }
            Err(error) => assert!(bit / 8 < ends[0], "bit {bit}: {error}"),
        }
        assert_eq!(found, timelines[..before], "bit {bit}");
    }
    // What changes nothing: the minor version, which may be any, and in the descriptor of a zstd frame (RFC
    // 8878, 3.1.1.1.1) the bit without meaning and the choice between two sizes of which either will do.
    let minor = (10 * 8..12 * 8).collect::<Vec<usize>>();
    let descriptors = ends[..3].iter().flat_map(|end| [4, 5].map(|bit| (end + 20 + 4) * 8 + bit));
    assert_eq!(harmless, minor.into_iter().chain(descriptors).collect::<Vec<usize>>());
}

#[test]
fn only_the_last_segment_may_be_cut() {
    let (_guard, run) = new_run();
    let mut log = LogWriter::with_segment_bytes(&run, 1).unwrap();
    for i in 0..4 {
        log.append(&plain(i, 3)).unwrap();
        log.flush().unwrap();
    }
    log.finish().unwrap();
    let bytes = fs::read(segment(&run, 3)).unwrap();
    fs::write(segment(&run, 3), &bytes[..bytes.len() - 1]).unwrap();
    let (found, end) = read(&run);
    assert_eq!(found, [plain(0, 3), plain(1, 3)]);
    let said = end.unwrap_err().to_string();
    assert!(
        said.contains("00000003.seg") && said.contains("byte 16") && said.contains("2 requests"),
        "{said}"
    );
    fs::remove_file(segment(&run, 3)).unwrap();
    let said = LogReader::open(&run).unwrap_err().to_string();
    assert!(said.contains("segment 00000003.seg is missing"), "{said}");
}

#[test]
fn zeros_at_the_end_are_a_cut_and_in_the_middle_are_not() {
    let (_guard, run) = new_run();
    let timelines: Vec<Timeline> = (0..3).map(|i| plain(i, 3)).collect();
    let (bytes, ends) = log_with_ends(&run, &timelines);
    let mut padded = bytes.clone();
    padded.resize(bytes.len() + 10_000, 0);
    fs::write(segment(&run, 1), &padded).unwrap();
    let (found, end) = read(&run);
    assert_eq!(found, timelines);
    assert_eq!(end.unwrap().damage.unwrap().lost_bytes, 10_000);
    let mut holed = bytes;
    holed[ends[1]..ends[2]].fill(0);
    fs::write(segment(&run, 1), &holed).unwrap();
    let (found, end) = read(&run);
    assert_eq!(found, timelines[..1]);
    assert!(matches!(end, Err(StoreError::Corrupt { requests: 1, .. })));
}

#[test]
fn other_formats_are_refused() {
    let (_guard, run) = new_run();
    write_log(&run, &[plain(0, 3)]);
    let bytes = fs::read(segment(&run, 1)).unwrap();
    let mut newer = bytes.clone();
    newer[8] = 3;
    fs::write(segment(&run, 1), &newer).unwrap();
    let said = read(&run).1.unwrap_err().to_string();
    assert!(said.contains("written by format 3.1, this program reads 1."), "{said}");
    fs::write(segment(&run, 1), b"{\"event\": \"some other log\"}").unwrap();
    let said = read(&run).1.unwrap_err().to_string();
    assert!(said.contains("is not a segment of a goodput log"), "{said}");
}

/// The failure case of a record file whose last record is cut: TTFT 100, 110, ... 140 ms are whole, the sixth
/// is not.
#[test]
fn five_whole_records_and_a_cut_one() {
    let (_guard, run) = new_run();
    let timelines: Vec<Timeline> = (0..6)
        .map(|i| {
            let mut timeline = plain(i, 5);
            let sent = timeline.instants.released;
            timeline.instants.sent = Some(sent);
            for (k, chunk) in timeline.chunks.iter_mut().enumerate() {
                chunk.at = sent + goodput_core::time::Nanos::from_millis(100 + 10 * i + 100 * k as u64);
            }
            timeline.instants.closed = timeline.chunks.last().map(|chunk| chunk.at);
            timeline
        })
        .collect();
    let (bytes, _) = log_with_ends(&run, &timelines);
    fs::write(segment(&run, 1), &bytes[..bytes.len() - 9]).unwrap();
    let (found, end) = read(&run);
    let ttft = |t: &Timeline| (t.chunks[0].at - t.instants.sent.unwrap()).as_millis_f64();
    assert_eq!(found.iter().map(ttft).sum::<f64>() / found.len() as f64, 120.0);
    assert!(end.unwrap().damage.unwrap().to_string().contains("ends early at byte"));
}
