//! Bytes of a server's answer: any split of them must read the same, and nothing may panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| goodput_wire::fuzz::exercise(data));
