//! The append-only log of a running run: finished requests, readable after a kill at any byte.
//!
//! `log/00000001.seg`, `00000002.seg`, ...: a segment is a head and frames, a frame a batch of records. A
//! frame goes to the kernel in one write, so **a killed program loses only requests that finished since the
//! last frame**: at most [`FLUSH_AFTER`] plus the time between two calls of [`LogWriter::tick`]. A machine
//! that loses power may lose what the kernel had not yet put on disk, but nothing of a segment before the
//! newest, since a segment is made durable before the next begins. Requests still running are not in the log:
//! they have no timeline yet.
//!
//! Reading is the mirror image. A frame cut short at the very end is what a kill leaves, and becomes a
//! [`Damage`]: a warning, and everything before it counts. Damage anywhere else is an error with file and
//! byte, after everything before it has been delivered. Writer and reader hold one frame in memory, whatever
//! the length of the run.

use crate::error::StoreError;
use crate::fields::{blank, check};
use crate::frame::{
    HEAD, Head, Packer, SEGMENT_HEAD, SEGMENT_MAGIC, Unpacker, parse_segment_head, segment_head,
};
use crate::layout::{LOG, RunDir, phase_name, sync_folder};
use crate::record::{decode, encode};
use crate::version::FORMAT;
use goodput_core::time::Nanos;
use goodput_core::timeline::Timeline;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Take, Write};
use std::path::{Path, PathBuf};

/// Records older than this go to the kernel at the next tick.
pub const FLUSH_AFTER: Nanos = Nanos::from_millis(20);
/// A frame is written when its records reach this size, whatever their age.
pub const FRAME_BYTES: usize = 256 * 1024;
/// A segment of this size is made durable, and the next one begins.
pub const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// Ending of a segment's file name.
const SEGMENT_ENDING: &str = "seg";

/// Writes the log of one run.
pub struct LogWriter {
    folder: PathBuf,
    segment: Segment,
    segment_bytes: u64,
    packer: Packer,
    /// Records waiting for the next frame.
    pending: Vec<u8>,
    pending_records: u32,
    last_flush: Nanos,
    scratch: Vec<u8>,
    frame: Vec<u8>,
}

/// The segment being written.
struct Segment {
    path: PathBuf,
    file: File,
    number: u32,
    /// Bytes of whole frames in it.
    length: u64,
}

impl LogWriter {
    /// Begins the log of a new run.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the files cannot be made, for example because a log is there already.
    pub fn create(run: &RunDir) -> Result<Self, StoreError> {
        Self::with_segment_bytes(run, SEGMENT_BYTES)
    }

    /// Like [`Self::create`], with a segment size of the caller's choice.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn with_segment_bytes(run: &RunDir, segment_bytes: u64) -> Result<Self, StoreError> {
        let folder = run.file(LOG);
        fs::create_dir(&folder).map_err(StoreError::io("create", &folder))?;
        let packer = Packer::new().map_err(StoreError::io("start compressing", &folder))?;
        Ok(Self {
            segment: Segment::begin(&folder, 1)?,
            folder,
            segment_bytes,
            packer,
            pending: Vec::new(),
            pending_records: 0,
            last_flush: Nanos::ZERO,
            scratch: Vec::new(),
            frame: Vec::new(),
        })
    }

    /// Adds a finished request. It reaches the kernel with the next frame.
    ///
    /// # Errors
    /// [`StoreError::Record`] if its instants are out of order (nothing is written then), [`StoreError::Io`]
    /// if a full frame cannot be written.
    pub fn append(&mut self, timeline: &Timeline) -> Result<(), StoreError> {
        check(timeline).map_err(|rule| StoreError::Record {
            index: timeline.index,
            phase: phase_name(timeline.phase),
            rule,
        })?;
        encode(timeline, &mut self.scratch, &mut self.pending);
        self.pending_records += 1;
        if self.pending.len() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    /// Tells the log what time it is; waiting records go out if the last frame is [`FLUSH_AFTER`] ago. To be
    /// called every few milliseconds while the run lasts.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn tick(&mut self, now: Nanos) -> Result<(), StoreError> {
        if now.since(self.last_flush) < FLUSH_AFTER {
            return Ok(());
        }
        self.last_flush = now;
        self.flush()
    }

    /// Hands every waiting record to the kernel now.
    ///
    /// # Errors
    /// [`StoreError::Io`]; the records stay waiting, and the segment ends with the last whole frame.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        if self.pending_records == 0 {
            return Ok(());
        }
        if self.segment.has_frames() && self.segment.length >= self.segment_bytes {
            self.segment.seal()?;
            self.segment = Segment::begin(&self.folder, self.segment.number + 1)?;
        }
        self.packer
            .pack(&self.pending, self.pending_records, &mut self.frame)
            .map_err(StoreError::io("compress for", &self.segment.path))?;
        self.segment.append(&self.frame)?;
        self.pending.clear();
        self.pending_records = 0;
        Ok(())
    }

    /// Writes what waits and makes the log durable.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.segment.seal()?;
        sync_folder(&self.folder)
    }
}

impl Segment {
    fn begin(folder: &Path, number: u32) -> Result<Self, StoreError> {
        let path = folder.join(format!("{number:08}.{SEGMENT_ENDING}"));
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(StoreError::io("create", &path))?;
        file.write_all(&segment_head(FORMAT, number)).map_err(StoreError::io("write", &path))?;
        Ok(Self { path, file, number, length: SEGMENT_HEAD as u64 })
    }

    fn has_frames(&self) -> bool {
        self.length > SEGMENT_HEAD as u64
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        match self.file.write_all(frame) {
            Ok(()) => {
                self.length += frame.len() as u64;
                Ok(())
            }
            Err(error) => {
                // A full disk may have taken part of the frame; what follows must not come after half of one.
                let cut = self.file.set_len(self.length);
                Err(StoreError::io("write", &self.path)(cut.err().unwrap_or(error)))
            }
        }
    }

    fn seal(&self) -> Result<(), StoreError> {
        self.file.sync_all().map_err(StoreError::io("sync", &self.path))
    }
}

/// The cut end of a log: what a kill leaves. The requests before it are whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The last segment.
    pub segment: PathBuf,
    /// Where its whole frames end.
    pub byte: u64,
    /// Bytes from there on that are no whole frame.
    pub lost_bytes: u64,
    /// What is wrong with them.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, byte, lost_bytes, reason } = self;
        write!(f, "{} ends early at byte {byte} ({reason}); {lost_bytes} bytes are lost", segment.display())
    }
}

/// What a reading of the log came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogEnd {
    /// Requests delivered.
    pub requests: u64,
    /// The cut end, if there is one.
    pub damage: Option<Damage>,
}

/// Reads the log of one run, as often as asked and each time the same: what it held when it was opened, even
/// if the run is still going.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogReader {
    /// Every segment with its length at opening.
    segments: Vec<(PathBuf, u64)>,
}

impl LogReader {
    /// Finds the segments of a run. A run without log folder has none.
    ///
    /// # Errors
    /// [`StoreError::Io`], or [`StoreError::Content`] if a segment before the last is missing.
    pub fn open(run: &RunDir) -> Result<Self, StoreError> {
        let folder = run.file(LOG);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self { segments: Vec::new() }),
            Err(e) => return Err(StoreError::io("list", &folder)(e)),
        };
        let mut segments = Vec::new();
        for entry in entries {
            let path = entry.map_err(StoreError::io("list", &folder))?.path();
            if path.extension().is_some_and(|ending| ending == SEGMENT_ENDING) {
                segments.push(path);
            }
        }
        segments.sort();
        let expected = (1..).map(|number| format!("{number:08}.{SEGMENT_ENDING}"));
        if let Some((_, name)) = segments.iter().zip(expected).find(|(path, name)| !path.ends_with(name)) {
            return Err(StoreError::content("a whole log", &folder)(format!("segment {name} is missing")));
        }
        // Lengths come after the list: only the last segment of the list can still grow, so the others are
        // whole.
        let with_length = |path: PathBuf| match fs::metadata(&path) {
            Ok(metadata) => Ok((path, metadata.len())),
            Err(e) => Err(StoreError::io("look at", &path)(e)),
        };
        Ok(Self { segments: segments.into_iter().map(with_length).collect::<Result<_, _>>()? })
    }

    /// Whether there is nothing to read, not even an empty log.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|(_, length)| length).sum()
    }

    /// Visits every request in the order in which they finished.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for damage that is not a cut end, after the requests before it have been
    /// visited; [`StoreError::Version`] for a log of another major format; [`StoreError::Io`].
    pub fn for_each(&self, visit: &mut dyn FnMut(&Timeline)) -> Result<LogEnd, StoreError> {
        let mut end = LogEnd::default();
        let mut room = Room { block: Vec::new(), raw: Vec::new(), timeline: blank() };
        for (position, (path, length)) in self.segments.iter().enumerate() {
            let unpacker = Unpacker::new().map_err(StoreError::io("start reading", path))?;
            let file = File::open(path).map_err(StoreError::io("open", path))?;
            let file = BufReader::new(file.take(*length));
            let mut walk = Walk { path, file, at: 0, length: *length, unpacker };
            let broken = match walk.run(&mut room, &mut |timeline| {
                end.requests += 1;
                visit(timeline);
            }) {
                Ok(()) => continue,
                Err(Stop::Store(error)) => return Err(error),
                Err(Stop::Broken(broken)) => broken,
            };
            if !broken.is_tail || position + 1 < self.segments.len() {
                let (path, byte) = (path.clone(), walk.at);
                return Err(StoreError::Corrupt {
                    path,
                    byte,
                    reason: broken.reason,
                    requests: end.requests,
                });
            }
            end.damage = Some(Damage {
                segment: path.clone(),
                byte: walk.at,
                lost_bytes: *length - walk.at,
                reason: broken.reason,
            });
        }
        Ok(end)
    }

    /// Deletes the log, once its requests are safe elsewhere.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn remove(self, run: &RunDir) -> Result<(), StoreError> {
        for (path, _) in &self.segments {
            fs::remove_file(path).map_err(StoreError::io("delete", path))?;
        }
        let folder = run.file(LOG);
        fs::remove_dir(&folder).map_err(StoreError::io("delete", &folder))
    }
}

/// Memory that is reused from frame to frame.
struct Room {
    block: Vec<u8>,
    raw: Vec<u8>,
    timeline: Timeline,
}

/// Where a walk through a segment is.
struct Walk<'a> {
    path: &'a Path,
    file: BufReader<Take<File>>,
    /// Where the whole frames end so far.
    at: u64,
    length: u64,
    unpacker: Unpacker,
}

/// Why a walk ended before the end.
enum Stop {
    /// The rest of the segment is not whole frames.
    Broken(Broken),
    /// Anything else.
    Store(StoreError),
}

/// Bytes that are not a whole frame.
struct Broken {
    reason: String,
    /// Whether a kill or a power cut can have left them: they reach to the end of the file.
    is_tail: bool,
}

impl Stop {
    fn tail(reason: impl Into<String>) -> Self {
        Self::Broken(Broken { reason: reason.into(), is_tail: true })
    }

    fn middle(reason: impl Into<String>) -> Self {
        Self::Broken(Broken { reason: reason.into(), is_tail: false })
    }
}

impl Walk<'_> {
    fn run(&mut self, room: &mut Room, visit: &mut dyn FnMut(&Timeline)) -> Result<(), Stop> {
        self.segment_head()?;
        while self.at < self.length {
            let head = self.head()?;
            let end = self.at + (HEAD as u64) + u64::from(head.compressed);
            self.block(head, end, room)?;
            let mut rest = room.raw.as_slice();
            for _ in 0..head.records {
                rest = decode(rest, &mut room.timeline).map_err(Stop::middle)?;
                visit(&room.timeline);
            }
            if !rest.is_empty() {
                return Err(Stop::middle(format!("{} bytes after the last record of a frame", rest.len())));
            }
            self.at = end;
        }
        Ok(())
    }

    fn segment_head(&mut self) -> Result<(), Stop> {
        if self.length < SEGMENT_HEAD as u64 {
            return Err(Stop::tail("the segment's head is cut"));
        }
        let head = parse_segment_head(self.bytes::<SEGMENT_HEAD>()?);
        let said = |detail: String| {
            Stop::Store(StoreError::content("a segment of a goodput log", self.path)(detail))
        };
        let (version, number) = head.ok_or_else(|| {
            said(format!("it does not begin with {:?}", String::from_utf8_lossy(&SEGMENT_MAGIC)))
        })?;
        version.check_readable(self.path).map_err(Stop::Store)?;
        if !self.path.ends_with(format!("{number:08}.{SEGMENT_ENDING}")) {
            return Err(said(format!("its head says segment {number}")));
        }
        self.at = SEGMENT_HEAD as u64;
        Ok(())
    }

    /// The head of the next frame.
    fn head(&mut self) -> Result<Head, Stop> {
        if self.length - self.at < HEAD as u64 {
            return Err(Stop::tail("the head of a frame is cut"));
        }
        let bytes = self.bytes::<HEAD>()?;
        match Head::from_bytes(bytes) {
            Some(head) => Ok(head),
            // A file system may grow a file before the data arrives, and a power cut then leaves zeros.
            None if bytes == [0; HEAD] && self.rest_is_zero()? => Err(Stop::tail("zeros instead of a frame")),
            None => Err(Stop::middle("the head of a frame is damaged")),
        }
    }

    /// The content of the frame that ends at `end`, into the room.
    fn block(&mut self, head: Head, end: u64, room: &mut Room) -> Result<(), Stop> {
        if end > self.length {
            return Err(Stop::tail("a frame is cut"));
        }
        room.block.resize(head.compressed as usize, 0);
        self.fill(&mut room.block)?;
        self.unpacker.unpack(head, &room.block, &mut room.raw).map_err(|reason| {
            let is_tail = end == self.length;
            Stop::Broken(Broken { reason: format!("the content of a frame is damaged: {reason}"), is_tail })
        })
    }

    fn rest_is_zero(&mut self) -> Result<bool, Stop> {
        let mut block = [0; 4096];
        loop {
            match self.file.read(&mut block) {
                Ok(0) => return Ok(true),
                Ok(n) if block[..n].iter().all(|&byte| byte == 0) => {}
                Ok(_) => return Ok(false),
                Err(e) => return Err(Stop::Store(StoreError::io("read", self.path)(e))),
            }
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, room: &mut [u8]) -> Result<(), Stop> {
        self.file.read_exact(room).map_err(|e| Stop::Store(StoreError::io("read", self.path)(e)))
    }
}
