//! Frames and segment heads: how the bytes of the log say where they begin, where they end, and that they are
//! whole.
//!
//! A frame is a head of 20 bytes and a zstd block with content checksum (XXH64). The head has its own check
//! (FNV-1a, Fowler, Noll and Vo 1991), because a damaged length would make the rest of a segment look like a
//! cut tail.

use crate::version::FormatVersion;
use std::io;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

/// Length of a frame's head in bytes.
pub(crate) const HEAD: usize = 20;
/// Length of a segment's head in bytes.
pub(crate) const SEGMENT_HEAD: usize = 16;
/// First bytes of a segment.
pub(crate) const SEGMENT_MAGIC: [u8; 8] = *b"gdptlog\n";

/// First bytes of a frame.
const MAGIC: u32 = u32::from_le_bytes(*b"gpf\n");
/// zstd's fastest ordinary level: the log lives only until the run's end.
const LEVEL: i32 = 1;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the compressed block that follows.
    pub(crate) compressed: u32,
    /// Bytes of its content.
    pub(crate) raw: u32,
    /// Records in it.
    pub(crate) records: u32,
}

impl Head {
    /// The head as bytes.
    pub(crate) fn to_bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        for (place, word) in bytes.chunks_exact_mut(4).zip([MAGIC, self.compressed, self.raw, self.records]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let check = fnv1a(&bytes[..HEAD - 4]);
        bytes[HEAD - 4..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// The head in these bytes; `None` if they are not a whole one.
    pub(crate) fn from_bytes(bytes: [u8; HEAD]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let is_whole = word(0) == MAGIC && word(HEAD - 4) == fnv1a(&bytes[..HEAD - 4]);
        is_whole.then(|| Self { compressed: word(4), raw: word(8), records: word(12) })
    }
}

/// The head of segment `number`.
pub(crate) fn segment_head(version: FormatVersion, number: u32) -> [u8; SEGMENT_HEAD] {
    let mut bytes = [0; SEGMENT_HEAD];
    bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
    bytes[8..10].copy_from_slice(&version.major.to_le_bytes());
    bytes[10..12].copy_from_slice(&version.minor.to_le_bytes());
    bytes[12..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Version and number in a segment's head; `None` if it is not one.
pub(crate) fn parse_segment_head(bytes: [u8; SEGMENT_HEAD]) -> Option<(FormatVersion, u32)> {
    let [m @ .., a, b, c, d, e, f, g, h] = bytes;
    let version = FormatVersion { major: u16::from_le_bytes([a, b]), minor: u16::from_le_bytes([c, d]) };
    (m == SEGMENT_MAGIC).then_some((version, u32::from_le_bytes([e, f, g, h])))
}

/// Makes frames out of records.
pub(crate) struct Packer {
    compressor: Compressor<'static>,
}

impl Packer {
    /// A packer with its own compression state.
    pub(crate) fn new() -> io::Result<Self> {
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self { compressor })
    }

    /// Puts one frame of `records` records into `out`, replacing what was there.
    pub(crate) fn pack(&mut self, raw: &[u8], records: u32, out: &mut Vec<u8>) -> io::Result<()> {
        let block = self.compressor.compress(raw)?;
        let too_long = |_| io::Error::other("a frame of the log is at most 4 GiB");
        let head = Head {
            compressed: block.len().try_into().map_err(too_long)?,
            raw: raw.len().try_into().map_err(too_long)?,
            records,
        };
        out.clear();
        out.extend_from_slice(&head.to_bytes());
        out.extend_from_slice(&block);
        Ok(())
    }
}

/// Makes records out of frames.
pub(crate) struct Unpacker {
    decompressor: Decompressor<'static>,
}

impl Unpacker {
    /// An unpacker with its own decompression state.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { decompressor: Decompressor::new()? })
    }

    /// The content of a frame, into `raw`. An error says what is wrong with it.
    pub(crate) fn unpack(&mut self, head: Head, block: &[u8], raw: &mut Vec<u8>) -> Result<(), String> {
        raw.clear();
        raw.reserve(head.raw as usize);
        let length = self.decompressor.decompress_to_buffer(block, raw).map_err(|e| e.to_string())?;
        if length == head.raw as usize {
            Ok(())
        } else {
            Err(format!("{length} bytes of content, {} expected", head.raw))
        }
    }
}

/// FNV-1a, 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::FORMAT;

    #[test]
    fn fnv_is_fnv() {
        // Test vectors of the authors' reference code.
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn a_flipped_bit_in_a_head_is_seen() {
        let head = Head { compressed: 77, raw: 1_000, records: 3 };
        assert_eq!(Head::from_bytes(head.to_bytes()), Some(head));
        for bit in 0..HEAD * 8 {
            let mut bytes = head.to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::from_bytes(bytes), None, "bit {bit}");
        }
    }

    #[test]
    fn segments_know_version_and_number() {
        assert_eq!(parse_segment_head(segment_head(FORMAT, 9)), Some((FORMAT, 9)));
        assert_eq!(parse_segment_head([0; SEGMENT_HEAD]), None);
    }
}
