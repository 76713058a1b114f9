//! The run directory: which file is called what, how a new one is made, and how one is found.
//!
//! Files that are written whole (manifest, plan, summary) go through a temporary name and a rename, so that a
//! reader sees the old or the new one and never half of one. A run is never overwritten.

use crate::error::StoreError;
use goodput_core::plan::Plan;
use goodput_core::timeline::Phase;
use serde::Serialize;
use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The frozen plan.
pub const PLAN: &str = "plan.toml";
/// What was scheduled, a row a request; byte-identical for identical plans.
pub const SCHEDULE: &str = "schedule.csv";
/// Everything that must always be logged about a run; its presence makes a folder a run.
pub const MANIFEST: &str = "manifest.json";
/// Folder of the append-only log while the run lasts.
pub const LOG: &str = "log";
/// A row a request.
pub const REQUESTS: &str = "requests.parquet";
/// A row a chunk.
pub const CHUNKS: &str = "chunks.parquet";
/// The numbers, under the ruler and the SLO that the run was started with.
pub const SUMMARY: &str = "summary.json";
/// How the workload was built: fingerprint, kept and dropped entries.
pub const WORKLOAD: &str = "workload.json";

/// One run's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
    chosen_among: usize,
}

/// One row of `schedule.csv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Position within the phase.
    pub request: u64,
    /// Warm-up or measured.
    pub phase: Phase,
    /// When the arrival process wants it, in nanoseconds since the run's epoch; empty in a closed loop.
    pub scheduled_ns: Option<u64>,
    /// Prompt tokens as planned.
    pub input_tokens: Option<u32>,
    /// Output tokens to ask for.
    pub max_tokens: Option<u32>,
}

impl RunDir {
    /// Makes `out/<name>`, and `out` itself if needed. Without a name it is the UTC time and six random
    /// characters, for example `20260102T030405Z-1f9a3c`, so that names sort by time and never meet.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if a run of this name is there, [`StoreError::BadName`] for a name that is no
    /// plain folder name, [`StoreError::Io`] if the folder cannot be made.
    pub fn create(out: &Path, name: Option<&str>) -> Result<Self, StoreError> {
        fs::create_dir_all(out).map_err(StoreError::io("create", out))?;
        let name = match name {
            Some(name) => checked_name(name)?.to_owned(),
            None => fresh_name(SystemTime::now(), RandomState::new().build_hasher().finish()),
        };
        let path = out.join(name);
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { path, chosen_among: 1 }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(StoreError::Exists { path }),
            Err(e) => Err(StoreError::io("create", &path)(e)),
        }
    }

    /// Finds the run at `path`: the run itself, or, if `path` is a folder that holds runs (what `--out` was
    /// given), the one that started last. [`Self::chosen_among`] then says among how many, so that the choice
    /// can be told to the reader.
    ///
    /// # Errors
    /// [`StoreError::NotARun`] if `path` is neither.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if path.join(MANIFEST).is_file() {
            return Ok(Self { path: path.to_owned(), chosen_among: 1 });
        }
        let refuse = |reason: &str| StoreError::NotARun { path: path.to_owned(), reason: reason.into() };
        let entries = fs::read_dir(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => refuse("it does not exist"),
            io::ErrorKind::NotADirectory => refuse("it is a file"),
            _ => StoreError::io("list", path)(e),
        })?;
        let mut runs = Vec::new();
        for entry in entries {
            let run = entry.map_err(StoreError::io("list", path))?.path();
            if run.join(MANIFEST).is_file() {
                runs.push((started(&run), run));
            }
        }
        let chosen_among = runs.len();
        let newest =
            runs.into_iter().max().ok_or_else(|| refuse("no manifest.json in it or one folder down"))?;
        Ok(Self { path: newest.1, chosen_among })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run's name: the last part of its path.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
    }

    /// How many runs the opened folder held; this one is the newest of them. 1 if the run itself was named.
    #[must_use]
    pub fn chosen_among(&self) -> usize {
        self.chosen_among
    }

    /// The path of one of its files, by the constants of this module.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes `plan.toml`.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn write_plan(&self, plan: &Plan) -> Result<(), StoreError> {
        write_whole(&self.file(PLAN), plan.to_toml().as_bytes())
    }

    /// Reads `plan.toml`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it cannot be read, [`StoreError::Content`] if it is not a plan of this major
    /// version.
    pub fn read_plan(&self) -> Result<Plan, StoreError> {
        let path = self.file(PLAN);
        let text = fs::read_to_string(&path).map_err(StoreError::io("read", &path))?;
        Plan::from_toml(&text).map_err(StoreError::content("a plan", &path))
    }

    /// Writes `schedule.csv`: header `request,phase,scheduled_ns,input_tokens,max_tokens`, one line a
    /// request, unknown values empty. The same rows give the same bytes.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn write_schedule(&self, rows: impl IntoIterator<Item = ScheduleRow>) -> Result<(), StoreError> {
        let path = self.file(SCHEDULE);
        write_stream(&path, |file| {
            writeln!(file, "request,phase,scheduled_ns,input_tokens,max_tokens")?;
            rows.into_iter().try_for_each(|row| {
                let or_empty = |value: Option<u64>| value.map_or_else(String::new, |v| v.to_string());
                writeln!(
                    file,
                    "{},{},{},{},{}",
                    row.request,
                    phase_name(row.phase),
                    or_empty(row.scheduled_ns),
                    or_empty(row.input_tokens.map(u64::from)),
                    or_empty(row.max_tokens.map(u64::from)),
                )
            })
        })
    }

    /// Writes any JSON document of the run, indented, for example [`WORKLOAD`].
    ///
    /// # Errors
    /// [`StoreError::Io`], or [`StoreError::Content`] if `value` has no JSON form.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        let path = self.file(name);
        let mut text = serde_json::to_vec_pretty(value).map_err(StoreError::content("JSON", &path))?;
        text.push(b'\n');
        write_whole(&path, &text)
    }
}

/// The stable name of a phase in files.
pub(crate) const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Warmup => "warmup",
        Phase::Measured => "measured",
    }
}

/// Writes a file under a temporary name, makes it durable and gives it its name.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    write_stream(path, |file| file.write_all(bytes))
}

/// Like [`write_whole`], for content that is produced piece by piece.
fn write_stream(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), StoreError> {
    let temporary = temporary_name(path);
    let fail = |e| StoreError::io("write", path)(e);
    let mut file = BufWriter::new(File::create(&temporary).map_err(fail)?);
    write(&mut file).map_err(fail)?;
    file.into_inner().map_err(|e| fail(e.into_error()))?.sync_all().map_err(fail)?;
    publish(&temporary, path)
}

/// The name a file has until it is complete.
pub(crate) fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}

/// Gives a complete and durable file its final name, and makes the name durable.
pub(crate) fn publish(temporary: &Path, path: &Path) -> Result<(), StoreError> {
    fs::rename(temporary, path).map_err(StoreError::io("rename into place", path))?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(StoreError::io("sync", folder))
}

/// Refuses names that would leave `out` or hide in it.
fn checked_name(name: &str) -> Result<&str, StoreError> {
    let fail = |reason| Err(StoreError::BadName { name: name.to_owned(), reason });
    if name.is_empty() {
        fail("it is empty")
    } else if name.starts_with('.') || name.starts_with('-') {
        fail("it begins with a dot or a dash")
    } else if name.chars().any(|c| matches!(c, '/' | '\\' | ':') || c.is_control()) {
        fail("it holds a path separator or a control character")
    } else {
        Ok(name)
    }
}

/// `20260102T030405Z-1f9a3c` from a time and random bits.
fn fresh_name(now: SystemTime, random: u64) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z-{:06x}", random & 0xff_ffff)
}

/// The day of a time in seconds since 1970-01-01 UTC, as `2026-01-02`.
#[must_use]
pub fn utc_date(unix_s: u64) -> String {
    let (year, month, day) = civil_date(unix_s / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a day counted from 1970-01-01, by Hinnant's `civil_from_days` (2013).
fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// When a run started, for choosing the newest: by its manifest, or by the manifest's file time if that
/// cannot be read.
fn started(run: &Path) -> u64 {
    let path = run.join(MANIFEST);
    let told = fs::read(&path)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
        .and_then(|manifest| manifest.pointer("/clock/start/unix_ns")?.as_u64());
    let by_file = || {
        let since_epoch = fs::metadata(&path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(since_epoch.as_nanos()).ok()
    };
    told.or_else(by_file).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_are_utc_times() {
        let cases = [
            (0, "19700101T000000Z-00002a"),
            (951_782_400, "20000229T000000Z-00002a"),
            (1_709_251_199, "20240229T235959Z-00002a"),
            (1_767_323_045, "20260102T030405Z-00002a"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(fresh_name(UNIX_EPOCH + Duration::from_secs(seconds), 42), expected);
        }
    }

    #[test]
    fn days_are_utc_days() {
        for (seconds, day) in
            [(0, "1970-01-01"), (1_709_251_199, "2024-02-29"), (1_709_251_200, "2024-03-01")]
        {
            assert_eq!(utc_date(seconds), day);
        }
    }

    #[test]
    fn a_run_is_never_overwritten() {
        let out = tempfile::tempdir().unwrap();
        let first = RunDir::create(out.path(), Some("a")).unwrap();
        assert_eq!(first.name(), "a");
        let said = RunDir::create(out.path(), Some("a")).unwrap_err().to_string();
        assert!(said.contains(&first.path().display().to_string()) && said.contains("--name"), "{said}");
        let (x, y) = (RunDir::create(out.path(), None).unwrap(), RunDir::create(out.path(), None).unwrap());
        assert_ne!(x.path(), y.path());
    }

    #[test]
    fn names_stay_inside_the_folder() {
        let out = tempfile::tempdir().unwrap();
        for bad in ["", ".", "..", "../x", "a/b", "/tmp/x", "-rf", "a\nb", "c:\\x"] {
            let said = RunDir::create(out.path(), Some(bad)).unwrap_err();
            assert!(matches!(said, StoreError::BadName { .. }), "{bad}");
        }
    }

    #[test]
    fn schedules_are_plain_csv() {
        let out = tempfile::tempdir().unwrap();
        let run = RunDir::create(out.path(), Some("a")).unwrap();
        let row = |request, phase, scheduled_ns| ScheduleRow {
            request,
            phase,
            scheduled_ns,
            input_tokens: Some(32),
            max_tokens: None,
        };
        run.write_schedule([row(0, Phase::Warmup, None), row(0, Phase::Measured, Some(1_500))]).unwrap();
        let expected =
            "request,phase,scheduled_ns,input_tokens,max_tokens\n0,warmup,,32,\n0,measured,1500,32,\n";
        assert_eq!(fs::read_to_string(run.file(SCHEDULE)).unwrap(), expected);
    }

    #[test]
    fn an_out_folder_opens_its_newest_run() {
        let out = tempfile::tempdir().unwrap();
        for (name, unix_ns) in [("x", 5), ("b", 7), ("a", 6)] {
            let run = RunDir::create(out.path(), Some(name)).unwrap();
            let manifest = serde_json::json!({"clock": {"start": {"unix_ns": unix_ns}}});
            run.write_json(MANIFEST, &manifest).unwrap();
        }
        fs::create_dir(out.path().join("not-a-run")).unwrap();
        let found = RunDir::open(out.path()).unwrap();
        assert_eq!((found.name().as_str(), found.chosen_among()), ("b", 3));
        let itself = RunDir::open(&out.path().join("x")).unwrap();
        assert_eq!((itself.name().as_str(), itself.chosen_among()), ("x", 1));
    }

    #[test]
    fn what_is_not_a_run_says_so() {
        let out = tempfile::tempdir().unwrap();
        let file = out.path().join("file");
        fs::write(&file, "x").unwrap();
        let cases = [
            (out.path().to_owned(), "no manifest.json"),
            (out.path().join("absent"), "does not exist"),
            (file, "it is a file"),
        ];
        for (path, expected) in cases {
            let said = RunDir::open(&path).unwrap_err().to_string();
            assert!(said.contains("is not a run directory") && said.contains(expected), "{said}");
        }
    }
}
