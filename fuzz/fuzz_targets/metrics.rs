//! Metrics pages: whatever is scraped is borne, and what was read of it can be written and reads the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| goodput_observe::fuzz::exercise(data));
