//! The version of the run directory's format, and who can read what.
//!
//! Two numbers, after the record format of cargo-nextest. A new **minor** adds: a key in the manifest, a
//! column, a number at the end of a log record. Readers skip what they do not know, and fill in what an older
//! run lacks, so every minor of one major reads every other. A new **major** changes a meaning or takes
//! something away, and is refused by name.

use crate::error::StoreError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The format this program writes.
pub const FORMAT: FormatVersion = FormatVersion { major: 1, minor: 1 };

/// A format version, written `major.minor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatVersion {
    /// Readers of one major cannot read another.
    pub major: u16,
    /// Additions since the major began.
    pub minor: u16,
}

impl FormatVersion {
    /// Whether this program reads files of this version: same major, any minor.
    #[must_use]
    pub const fn is_readable(self) -> bool {
        self.major == FORMAT.major
    }

    /// Refuses a version this program cannot read.
    ///
    /// # Errors
    /// [`StoreError::Version`] naming `path`, the version found and the one read.
    pub fn check_readable(self, path: &Path) -> Result<(), StoreError> {
        if self.is_readable() {
            Ok(())
        } else {
            Err(StoreError::Version { path: path.to_owned(), found: self, reads: FORMAT })
        }
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Text that is not a format version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format version such as `{FORMAT}`")]
pub struct VersionSyntax(pub String);

impl FromStr for FormatVersion {
    type Err = VersionSyntax;

    fn from_str(text: &str) -> Result<Self, VersionSyntax> {
        let fail = || VersionSyntax(text.to_owned());
        let (major, minor) = text.split_once('.').ok_or_else(fail)?;
        let number = |digits: &str| digits.parse().map_err(|_| fail());
        Ok(Self { major: number(major)?, minor: number(minor)? })
    }
}

impl Serialize for FormatVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FormatVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_survive_text() {
        assert_eq!("1.0".parse(), Ok(FormatVersion { major: 1, minor: 0 }));
        assert_eq!(FormatVersion { major: 12, minor: 3 }.to_string(), "12.3");
        for bad in ["1", "1.", ".0", "one.two", "1.0.0", "-1.0", "70000.0"] {
            assert_eq!(bad.parse::<FormatVersion>(), Err(VersionSyntax(bad.into())));
        }
    }

    #[test]
    fn a_newer_minor_is_read_and_a_newer_major_is_refused() {
        assert!(FormatVersion { major: 1, minor: 99 }.is_readable());
        let refused = FormatVersion { major: 3, minor: 0 }.check_readable(Path::new("runs/a/manifest.json"));
        let said = refused.expect_err("another major").to_string();
        assert!(said.starts_with("runs/a/manifest.json was written by format 3.0, this program reads 1.1"));
    }
}
