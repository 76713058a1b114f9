//! Hashes that say whether two runs sent the same: SHA-256 (FIPS 180-4), by the crate `sha2`.

use crate::dataset::OutputHint;
use crate::prompt::Prompt;
use sha2::{Digest, Sha256};
use std::io::{BufRead, Read};

/// A hash over the content of requests, built field by field.
pub(crate) struct Fingerprint(Sha256);

impl Fingerprint {
    /// `format` changes when the meaning of the fields does.
    pub(crate) fn new(format: &str) -> Self {
        let mut fingerprint = Self(Sha256::new());
        fingerprint.text(format);
        fingerprint
    }

    /// Adds one text, with its length in front so that neighbours cannot be exchanged.
    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text);
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    /// Adds a prompt.
    pub(crate) fn prompt(&mut self, prompt: &Prompt) {
        match prompt {
            Prompt::Text(text) => {
                self.number(0);
                self.text(text);
            }
            Prompt::Messages(messages) => {
                self.number(1 + messages.len() as u64);
                for message in messages.iter() {
                    self.text(&message.role);
                    self.text(&message.content);
                }
            }
        }
    }

    /// Adds what the data says about an answer.
    pub(crate) fn output(&mut self, output: &OutputHint) {
        match output {
            OutputHint::None => self.number(0),
            OutputHint::Tokens(tokens) => {
                self.number(1);
                self.number(u64::from(*tokens));
            }
            OutputHint::Answer(answer) => {
                self.number(2);
                self.text(answer);
            }
        }
    }

    /// The hash in hexadecimal.
    pub(crate) fn finish(self) -> String {
        hex(self.0)
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A reader that hashes everything that passes through it.
pub(crate) struct Hashed<R> {
    reader: R,
    hash: Sha256,
}

impl<R: BufRead> Hashed<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, hash: Sha256::new() }
    }

    /// Reads what is left and returns the hash of the whole in hexadecimal.
    pub(crate) fn finish(mut self) -> std::io::Result<String> {
        loop {
            let count = self.fill_buf()?.len();
            if count == 0 {
                return Ok(hex(self.hash));
            }
            self.consume(count);
        }
    }
}

impl<R: BufRead> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Hashed<R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        // What is consumed is at hand, so that asking again neither waits nor fails.
        if let Ok(chunk) = self.reader.fill_buf() {
            self.hash.update(&chunk[..count]);
        }
        self.reader.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one-block example of FIPS 180-4.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_file_is_hashed_whole_however_much_of_it_was_read() {
        for read in 0..=3 {
            let mut hashed = Hashed::new(&b"abc"[..]);
            hashed.consume(read);
            assert_eq!(hashed.finish().expect("bytes"), ABC);
        }
        let mut hashed = Hashed::new(&b"abc"[..]);
        hashed.read_exact(&mut [0; 2]).expect("bytes");
        assert_eq!(hashed.finish().expect("bytes"), ABC);
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let of = |texts: &[&str]| {
            let mut fingerprint = Fingerprint::new("t");
            texts.iter().for_each(|text| fingerprint.text(text));
            fingerprint.finish()
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
    }
}
