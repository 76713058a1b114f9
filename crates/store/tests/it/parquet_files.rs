//! What is particular to the Parquet files: their bounds, their schema, what is refused.

use crate::timelines::{new_run, plain, write_log};
use goodput_core::summarise::TimelineSource;
use goodput_core::timeline::Timeline;
use goodput_store::layout::{CHUNKS, LOG, REQUESTS, RunDir};
use goodput_store::parquet::{LogAfter, convert, convert_on};
use goodput_store::reader::RunReader;
use parquet::basic::Encoding;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::{self, File};
use std::num::NonZero;

/// The requests of a converted run, read by way of the reader.
pub(crate) fn read_back(run: &RunDir) -> Vec<Timeline> {
    crate::run_reader::write_head(run, &goodput_store::manifest::Status::Complete);
    let mut found = Vec::new();
    let reader = RunReader::open(run.path()).unwrap();
    reader.for_each(&mut |timeline| found.push(timeline.clone())).unwrap();
    assert_eq!(reader.requests(), found.len() as u64);
    found
}

#[test]
fn batches_and_row_groups_are_bounded_and_joined() {
    let (_guard, run) = new_run();
    // More rows than a batch of either file, and one request that is longer than a batch by itself.
    let mut timelines: Vec<Timeline> = (0..5_000).map(|i| plain(i, (i % 7) as u32)).collect();
    timelines.push(plain(5_000, 70_000));
    write_log(&run, &timelines);
    convert(&run, LogAfter::Keep).unwrap();
    assert!(run.file(LOG).exists());
    assert!(read_back(&run) == timelines);
}

#[test]
fn the_files_do_not_depend_on_the_number_of_threads() {
    let (_guard, run) = new_run();
    let timelines: Vec<Timeline> = (0..5).map(|i| plain(i, 70_000 + i as u32)).collect();
    write_log(&run, &timelines);
    let files = [1, 2, 3].map(|threads| {
        convert_on(&run, LogAfter::Keep, threads).unwrap();
        [REQUESTS, CHUNKS].map(|name| fs::read(run.file(name)).unwrap())
    });
    assert!(files[0] == files[1] && files[1] == files[2]);
}

/// Reading in parts is reading from front to back, wherever the parts meet and whatever row groups they begin in.
#[test]
fn parts_are_the_run_in_order() {
    let (_guard, run) = new_run();
    let lengths = [300_000, 0, 1, 700_000, 5, 400_000, 0, 3, 900_000, 2];
    let timelines: Vec<Timeline> = (0..).zip(lengths).map(|(i, tokens)| plain(i, tokens)).collect();
    write_log(&run, &timelines);
    convert(&run, LogAfter::Delete).unwrap();
    crate::run_reader::write_head(&run, &goodput_store::manifest::Status::Complete);
    for threads in [1, 2, 4] {
        let reader = RunReader::open(run.path()).unwrap().with_threads(NonZero::new(threads).unwrap());
        let parts = reader.fold(Vec::new, |part: &mut Vec<Timeline>, t| part.push(t.clone())).unwrap();
        // 2.3 million chunks are worth three threads.
        assert_eq!(parts.len() as u64, threads.min(3));
        assert!(parts.iter().all(|part| !part.is_empty()));
        assert!(parts.concat() == timelines, "{threads} threads");
    }
}

#[test]
fn row_groups_end_at_their_limit() {
    let (_guard, run) = new_run();
    let timelines: Vec<Timeline> = (0..3).map(|i| plain(i, 100_000)).collect();
    write_log(&run, &timelines);
    convert(&run, LogAfter::Delete).unwrap();
    let file = SerializedFileReader::new(File::open(run.file(CHUNKS)).unwrap()).unwrap();
    let rows: Vec<i64> = file.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [131_072, 131_072, 300_000 - 2 * 131_072]);
    let bytes: i64 = file.metadata().row_groups().iter().map(|group| group.compressed_size()).sum();
    assert!(bytes / 300_000 < 8, "{} bytes a chunk", bytes as f64 / 300_000.0);
}

#[test]
fn numbers_are_stored_as_differences_and_the_format_is_named() {
    let (_guard, run) = new_run();
    write_log(&run, &[plain(0, 3)]);
    convert(&run, LogAfter::Delete).unwrap();
    for (name, differences) in [(REQUESTS, 36), (CHUNKS, 4)] {
        let file = SerializedFileReader::new(File::open(run.file(name)).unwrap()).unwrap();
        let pairs = file.metadata().file_metadata().key_value_metadata().unwrap();
        let format = pairs.iter().find(|pair| pair.key == "goodput.format").unwrap();
        assert_eq!(format.value.as_deref(), Some("1.1"));
        let columns = file.metadata().row_group(0).columns();
        let is_difference = |e: Encoding| e == Encoding::DELTA_BINARY_PACKED;
        let stored_so = columns.iter().filter(|column| column.encodings().any(is_difference));
        let names: Vec<String> = stored_so.map(|column| column.column_path().string()).collect();
        assert_eq!(names.len(), differences, "{names:?}");
        let all = columns.iter().map(|column| column.column_path().string());
        assert!(all.filter(|name| name.ends_with("_ns")).all(|time| names.contains(&time)));
    }
}

#[test]
fn an_unfinished_conversion_leaves_the_log_in_charge() {
    let (_guard, run) = new_run();
    write_log(&run, &[plain(0, 3), plain(1, 4)]);
    fs::write(run.file("requests.parquet.partial"), b"half of it").unwrap();
    fs::write(run.file(CHUNKS), b"whatever").unwrap();
    assert_eq!(read_back(&run), [plain(0, 3), plain(1, 4)]);
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let (_guard, run) = new_run();
    write_log(&run, &[plain(0, 3), plain(1, 4)]);
    convert(&run, LogAfter::Delete).unwrap();
    let (_other_guard, other) = new_run();
    for (tokens, expected) in
        [([3, 3], "ends 1 rows before"), ([3, 5], "more rows than requests.parquet counts")]
    {
        fs::remove_dir_all(other.file(LOG)).ok();
        write_log(&other, &[plain(0, tokens[0]), plain(1, tokens[1])]);
        convert(&other, LogAfter::Delete).unwrap();
        fs::copy(run.file(REQUESTS), other.file(REQUESTS)).unwrap();
        crate::run_reader::write_head(&other, &goodput_store::manifest::Status::Complete);
        let mut visited = 0;
        let error = RunReader::open(other.path()).unwrap().for_each(&mut |_| visited += 1).unwrap_err();
        assert!(
            error.to_string().contains("chunks.parquet") && error.to_string().contains(expected),
            "{error}"
        );
        assert!(visited > 0);
    }
}

#[test]
fn broken_and_foreign_files_are_refused() {
    let (_guard, run) = new_run();
    write_log(&run, &[plain(0, 3)]);
    convert(&run, LogAfter::Delete).unwrap();
    crate::run_reader::write_head(&run, &goodput_store::manifest::Status::Complete);
    let bytes = fs::read(run.file(REQUESTS)).unwrap();
    let patch = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let cases = [
        (bytes[..bytes.len() - 3].to_vec(), "is not a whole Parquet file"),
        (patch(b"goodput.format", b"another.format"), "not a format version"),
        // The value's length stays: the key is followed by field type, length 3 and the digits.
        (patch(b"goodput.format\x18\x031.1", b"goodput.format\x18\x032.0"), "written by format 2.0"),
    ];
    for (bytes, expected) in cases {
        fs::write(run.file(REQUESTS), bytes).unwrap();
        let said = RunReader::open(run.path()).unwrap_err().to_string();
        assert!(said.contains("requests.parquet") && said.contains(expected), "{said}");
    }
}
