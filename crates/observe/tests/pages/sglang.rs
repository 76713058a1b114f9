//! SGLang's rules, one a test, by arithmetic.

use super::{LOAD, Told, asks, at};
use goodput_observe::histogram::Histogram;
use goodput_observe::page::{
    Asked, Buckets, Choice, Drafts, EnginePage, FinishReason, Load, Observation, Output, Rejection, Setup,
    Step,
};

fn page(change: impl FnOnce(&mut Setup)) -> Told {
    let mut setup = Setup::new("m");
    change(&mut setup);
    Told { page: EnginePage::sglang(&setup) }
}

#[test]
fn a_request_from_arrival_to_finish() {
    let mut told = page(|_| {});
    told.tell(at(0, 1000), Observation::Arrived { request: 1, asked: asks(100, 4) });
    told.tell(at(12, 1010), Observation::Queued { request: 1 });
    told.tell(at(55, 1050), Observation::Admitted { request: 1, cached_tokens: 32 });
    told.output(at(200, 1150), 1, 1);
    told.output(at(222, 1170), 1, 1);
    told.output(at(260, 1200), 1, 2);
    told.finish(at(263, 1200), 1, FinishReason::Length);
    told.holds(&[
        ("sglang:time_to_first_token_seconds", 1.0, 0.2),
        ("sglang:e2e_request_latency_seconds", 1.0, 0.263),
        ("sglang:inter_token_latency_seconds", 3.0, 0.06),
        ("sglang:request_time_per_output_token_seconds", 1.0, 0.063 / 3.0),
        ("sglang:queue_time_seconds", 1.0, 0.04),
        ("sglang:per_stage_req_latency_seconds", 2.0, 0.11),
        ("sglang:prompt_tokens_histogram", 1.0, 100.0),
        ("sglang:uncached_prompt_tokens_histogram", 1.0, 68.0),
        ("sglang:generation_tokens_histogram", 1.0, 4.0),
    ]);
    for (name, labels, value) in [
        ("sglang:prompt_tokens_total", &[("is_streaming", "true")][..], 100.0),
        ("sglang:generation_tokens_total", &[("is_streaming", "true")], 4.0),
        ("sglang:num_requests_total", &[("is_streaming", "true"), ("engine_type", "unified")], 1.0),
        ("sglang:cached_tokens_total", &[("cache_source", "device")], 32.0),
        ("sglang:num_aborted_requests_total", &[], 0.0),
    ] {
        assert_eq!(told.value(name, labels), value, "{name} {labels:?}");
    }
}

/// One output of 4 tokens after 120 ms: four observations in the bucket of 30 ms, and 0.12 in the sum.
#[test]
fn itl_is_amortised_into_one_bucket() {
    let mut told = page(|_| {});
    told.admit(1, asks(10, 9), [0, 0, 0], 0);
    told.output(at(50, 50), 1, 2);
    told.output(at(170, 170), 1, 4);
    let series = Histogram::of(&told.page(), "sglang:inter_token_latency_seconds").unwrap();
    let itl = series.into_values().next().unwrap();
    let at = itl.edges().iter().position(|&edge| edge == 0.03).unwrap();
    assert_eq!((itl.cumulative()[at - 1], itl.cumulative()[at], itl.count()), (0.0, 4.0, 4.0));
    assert!((itl.mean().unwrap() - 0.03).abs() < 1e-12);
}

#[test]
fn tokens_come_out_at_the_stream_interval() {
    let mut told = page(|setup| setup.stream_interval = 4);
    told.admit(1, asks(10, 9), [0, 0, 0], 0);
    for token in 1..=7 {
        told.output(at(token * 10, token * 10), 1, 1);
    }
    // Out at tokens 1 and 5; 6 and 7 wait for the end.
    told.holds(&[("sglang:inter_token_latency_seconds", 4.0, 0.04)]);
    told.finish(at(80, 80), 1, FinishReason::Stop);
    told.holds(&[("sglang:inter_token_latency_seconds", 6.0, 0.07)]);
}

#[test]
fn without_a_stream_fifty_tokens_come_out_at_a_time() {
    let mut told = page(|_| {});
    told.admit(1, Asked { streaming: false, ..asks(10, 120) }, [0, 0, 0], 0);
    for token in 1..=120 {
        told.output(at(token * 10, token * 10), 1, 1);
    }
    told.finish(at(1200, 1200), 1, FinishReason::Length);
    told.holds(&[
        // When the scheduler had the first token, not when 50 were out.
        ("sglang:time_to_first_token_seconds", 1.0, 0.01),
        // From 50 tokens on: 100 at 1.0 s, the rest at the end.
        ("sglang:inter_token_latency_seconds", 70.0, 0.7),
        ("sglang:request_time_per_output_token_seconds", 1.0, 1.19 / 119.0),
    ]);
    assert_eq!(told.value("sglang:num_requests_total", &[("is_streaming", "false")]), 1.0);
}

#[test]
fn a_rejection_leaves_no_trace() {
    let mut told = page(|_| {});
    let before = told.page();
    told.tell(at(0, 0), Observation::Arrived { request: 1, asked: asks(10, 1) });
    told.tell(at(0, 0), Observation::Rejected { request: 1, reason: Rejection::QueuedRequests });
    assert_eq!(told.page(), before);
}

#[test]
fn an_abort_while_waiting_is_only_an_abort() {
    let mut told = page(|_| {});
    told.tell(at(0, 0), Observation::Arrived { request: 1, asked: asks(10, 9) });
    told.tell(at(1, 1), Observation::GivenUp { request: 1 });
    assert_eq!(told.value("sglang:num_aborted_requests_total", &[]), 1.0);
    assert_eq!(told.value("sglang:num_requests_total", &[]), 0.0);
    told.admit(2, asks(10, 9), [10, 10, 10], 0);
    told.output(at(20, 20), 2, 3);
    told.tell(at(50, 50), Observation::GivenUp { request: 2 });
    assert_eq!(told.value("sglang:num_aborted_requests_total", &[]), 2.0);
    told.holds(&[
        ("sglang:e2e_request_latency_seconds", 1.0, 0.04),
        ("sglang:time_to_first_token_seconds", 1.0, 0.01),
        ("sglang:request_time_per_output_token_seconds", 0.0, 0.0),
    ]);
}

/// Case 59: a request for two choices counts three times.
#[test]
fn the_prefix_of_several_choices_is_a_request_of_its_own() {
    let mut told = page(|_| {});
    for request in [1, 2] {
        let asked = Asked { choice: Some(Choice { group: 7, of: 2 }), ..asks(100, 1) };
        told.admit(request, asked, [0, 0, 5], 99);
        told.output(at(20, 20), request, 1);
        told.finish(at(20, 20), request, FinishReason::Length);
    }
    assert_eq!(told.value("sglang:num_requests_total", &[]), 3.0);
    assert_eq!(told.value("sglang:prompt_tokens_total", &[]), 300.0);
    assert_eq!(told.value("sglang:cached_tokens_total", &[]), 198.0);
    told.holds(&[("sglang:time_to_first_token_seconds", 2.0, 0.04)]);
}

#[test]
fn gauges_stand_still_between_refreshes() {
    let mut told = page(|setup| setup.decode_log_interval = 3);
    let running = |told: &Told| told.value("sglang:num_running_reqs", &[]);
    told.admit(1, asks(100, 9), [0, 0, 0], 25);
    let outputs = [Output { request: 1, tokens: 1 }];
    let prefill = Step {
        prefill_tokens: 75,
        recomputed_tokens: 5,
        cached_tokens: 25,
        outputs: &outputs,
        load: LOAD,
        ..Step::default()
    };
    told.tell(at(100, 100), Observation::Step(prefill));
    assert_eq!(running(&told), 3.0);
    assert_eq!(told.value("sglang:cache_hit_rate", &[]), 0.25);
    assert_eq!(told.value("sglang:token_usage", &[]), 0.06);
    assert_eq!(told.value("sglang:full_token_usage", &[]), 0.0625);
    assert_eq!(told.value("sglang:kv_available_tokens", &[]), 65536.0 - 4096.0 - 1024.0);
    assert_eq!(told.value("sglang:num_queue_reqs", &[]), 3.0);
    told.tell(at(101, 101), Observation::Preempted { request: 1 });
    told.tell(at(101, 101), Observation::Load(Load::default()));
    for step in 1..=3 {
        assert_eq!(
            (running(&told), told.value("sglang:num_retracted_reqs", &[])),
            (3.0, 0.0),
            "before step {step}"
        );
        let load = Load { running: 8, ..LOAD };
        let decode = Step { outputs: &outputs, load, ..Step::default() };
        told.tell(at(100 + step * 20, 100 + step * 20), Observation::Step(decode));
    }
    assert_eq!((running(&told), told.value("sglang:num_retracted_reqs", &[])), (8.0, 1.0));
    // 3 tokens in the 60 ms since the scheduler's first step.
    assert!((told.value("sglang:gen_throughput", &[]) - 50.0).abs() < 1e-9);
    let tokens = |mode| told.value("sglang:realtime_tokens_total", &[("mode", mode)]);
    assert_eq!((tokens("prefill_compute"), tokens("prefill_cache"), tokens("decode")), (75.0, 25.0, 3.0));
    let effective = |mode| told.value("sglang:prefill_effective_tokens_total", &[("mode", mode)]);
    assert_eq!((effective("input"), effective("device_hit")), (70.0, 25.0));
    assert_eq!(told.value("sglang:num_retracted_requests_total", &[]), 1.0);
    for (seconds, expected) in [(30, 8.0), (31, 0.0)] {
        told.tell(at(seconds * 1000, seconds * 1000), Observation::Load(Load::default()));
        assert_eq!(running(&told), expected, "{seconds} s: the last refresh was at 0.16 s");
    }
    assert_eq!(told.value("sglang:gen_throughput", &[]), 0.0);
}

#[test]
fn speculation_is_told_per_refresh_and_per_request() {
    let mut told = page(|setup| {
        setup.speculative_tokens = 3;
        setup.decode_log_interval = 2;
    });
    told.admit(1, asks(10, 9), [0, 0, 0], 0);
    told.output(at(10, 10), 1, 1);
    for step in 1..=2 {
        let outputs = [Output { request: 1, tokens: 3 }];
        let drafts = Some(Drafts { drafts: 1, proposed: 3, accepted: &[1, 1, 0] });
        let step_at = at(10 + step * 10, 10 + step * 10);
        told.tell(
            step_at,
            Observation::Step(Step { outputs: &outputs, drafts, evicted_tokens: 16, ..Step::default() }),
        );
    }
    told.finish(at(30, 30), 1, FinishReason::Stop);
    assert_eq!(told.value("sglang:spec_accept_length", &[]), 3.0);
    assert!((told.value("sglang:spec_accept_rate", &[]) - 4.0 / 6.0).abs() < 1e-12);
    assert_eq!(told.value("sglang:spec_verify_calls_total", &[]), 2.0);
    assert_eq!(told.value("sglang:evicted_tokens_total", &[]), 32.0);
}

#[test]
fn a_flag_changes_the_edges_of_both_its_families() {
    let buckets = Buckets::default().with_sglang("--bucket-inter-token-latency", "0.5 1").unwrap();
    let buckets = buckets.with_sglang("--prompt-tokens-buckets", "custom 20 10").unwrap();
    let mut told = page(|setup| setup.buckets = buckets);
    told.admit(1, asks(15, 9), [0, 0, 0], 0);
    told.output(at(10, 10), 1, 1);
    told.output(at(700, 700), 1, 1);
    told.finish(at(700, 700), 1, FinishReason::Stop);
    for (family, edges) in [
        ("sglang:inter_token_latency_seconds", [0.5, 1.0]),
        ("sglang:request_time_per_output_token_seconds", [0.5, 1.0]),
        ("sglang:uncached_prompt_tokens_histogram", [10.0, 20.0]),
    ] {
        let histogram = Histogram::of(&told.page(), family).unwrap().into_values().next().unwrap();
        assert_eq!(histogram.edges()[..2], edges, "{family}");
        assert_eq!(histogram.cumulative(), [0.0, 1.0, 1.0], "{family}");
    }
}
