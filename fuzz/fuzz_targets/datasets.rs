//! Data files: damaged ones are refused with a reason, and what can be salvaged of them never shrinks the rest.
#![no_main]

use goodput_core::plan::SharegptFilter;
use goodput_workload::dataset::{jsonl, sharegpt};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for filter in [SharegptFilter::Roles, SharegptFilter::Vllm, SharegptFilter::Sglang] {
        let strict = sharegpt::read(data, filter, false);
        let salvaged = sharegpt::read(data, filter, true);
        assert!(strict.is_err() || salvaged.is_ok(), "what is whole can be salvaged");
    }
    let strict = jsonl::read(data, false);
    let salvaged = jsonl::read(data, true);
    assert!(strict.is_err() || salvaged.is_ok(), "what is whole can be salvaged");
});
