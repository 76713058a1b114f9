//! vLLM's rules, one a test, by arithmetic.

use super::{LOAD, Told, asks, at};
use goodput_observe::expose::{Format, Kind};
use goodput_observe::page::{
    Asked, Buckets, Choice, Drafts, EnginePage, FinishReason, Observation, Output, Rejection, Setup, Step,
};

fn page(change: impl FnOnce(&mut Setup)) -> Told {
    let mut setup = Setup::new("m");
    change(&mut setup);
    Told { page: EnginePage::vllm(&setup) }
}

#[test]
fn spans_are_on_two_clocks() {
    let mut told = page(|_| {});
    told.tell(at(0, 1000), Observation::Arrived { request: 1, asked: asks(100, 4) });
    told.tell(at(12, 1010), Observation::Queued { request: 1 });
    told.tell(at(55, 1050), Observation::Admitted { request: 1, cached_tokens: 32 });
    told.output(at(200, 1150), 1, 1);
    told.output(at(222, 1170), 1, 1);
    told.output(at(260, 1200), 1, 2);
    told.finish(at(260, 1200), 1, FinishReason::Length);
    told.holds(&[
        ("vllm:time_to_first_token_seconds", 1.0, 0.2),
        ("vllm:e2e_request_latency_seconds", 1.0, 0.26),
        ("vllm:inter_token_latency_seconds", 2.0, 0.05),
        ("vllm:request_time_per_output_token_seconds", 1.0, 0.05 / 3.0),
        ("vllm:request_queue_time_seconds", 1.0, 0.04),
        ("vllm:request_prefill_time_seconds", 1.0, 0.1),
        ("vllm:request_decode_time_seconds", 1.0, 0.05),
        ("vllm:request_inference_time_seconds", 1.0, 0.15),
        ("vllm:request_prompt_tokens", 1.0, 100.0),
        ("vllm:request_generation_tokens", 1.0, 4.0),
        ("vllm:request_params_max_tokens", 1.0, 4.0),
        ("vllm:request_params_n", 1.0, 1.0),
        ("vllm:request_max_num_generation_tokens", 1.0, 4.0),
        ("vllm:request_prefill_kv_computed_tokens", 1.0, 68.0),
        ("vllm:request_num_preemptions", 1.0, 0.0),
        // 68 computed and 1 generated, then 1, then 2.
        ("vllm:iteration_tokens_total", 3.0, 72.0),
    ]);
    for (name, labels, value) in [
        ("vllm:prompt_tokens_total", &[][..], 100.0),
        ("vllm:prompt_tokens_by_source_total", &[("source", "local_compute")], 68.0),
        ("vllm:prompt_tokens_by_source_total", &[("source", "local_cache_hit")], 32.0),
        ("vllm:prompt_tokens_cached_total", &[], 32.0),
        ("vllm:prompt_tokens_cached_by_source_total", &[("source", "device")], 32.0),
        ("vllm:prefix_cache_queries_total", &[], 100.0),
        ("vllm:prefix_cache_hits_total", &[], 32.0),
        ("vllm:generation_tokens_total", &[], 4.0),
        ("vllm:request_success_total", &[("finished_reason", "length")], 1.0),
        ("vllm:request_success_total", &[], 1.0),
        ("vllm:num_requests_running", &[("engine", "0"), ("model_name", "m")], 3.0),
        ("vllm:num_requests_waiting", &[], 3.0),
        ("vllm:num_requests_waiting_by_reason", &[("reason", "capacity")], 2.0),
        ("vllm:num_requests_waiting_by_reason", &[("reason", "deferred")], 1.0),
        ("vllm:kv_cache_usage_perc", &[], 0.0625),
        ("vllm:engine_sleep_state", &[("sleep_state", "awake")], 1.0),
    ] {
        assert_eq!(told.value(name, labels), value, "{name} {labels:?}");
    }
}

#[test]
fn a_client_that_goes_away_leaves_no_sample_of_an_end() {
    let mut told = page(|_| {});
    told.admit(1, asks(10, 9), [0, 1, 2], 0);
    told.output(at(50, 50), 1, 1);
    told.output(at(70, 70), 1, 1);
    told.tell(at(75, 75), Observation::GivenUp { request: 1 });
    told.output(at(90, 90), 1, 1);
    told.finish(at(90, 90), 1, FinishReason::Abort);
    told.holds(&[
        ("vllm:time_to_first_token_seconds", 1.0, 0.05),
        ("vllm:inter_token_latency_seconds", 1.0, 0.02),
        ("vllm:e2e_request_latency_seconds", 0.0, 0.0),
        ("vllm:request_queue_time_seconds", 0.0, 0.0),
        ("vllm:request_generation_tokens", 0.0, 0.0),
    ]);
    assert_eq!(told.value("vllm:request_success_total", &[]), 0.0);
    assert_eq!(told.value("vllm:generation_tokens_total", &[]), 2.0);
}

#[test]
fn one_token_is_a_tpot_of_0_and_that_is_observed() {
    let mut told = page(|_| {});
    told.admit(1, asks(10, 1), [0, 0, 0], 0);
    told.output(at(50, 50), 1, 1);
    told.finish(at(50, 50), 1, FinishReason::Stop);
    told.holds(&[
        ("vllm:request_time_per_output_token_seconds", 1.0, 0.0),
        ("vllm:inter_token_latency_seconds", 0.0, 0.0),
        ("vllm:request_decode_time_seconds", 1.0, 0.0),
    ]);
}

#[test]
fn the_wall_clock_may_step_back() {
    let mut told = page(|_| {});
    told.tell(at(5000, 0), Observation::Arrived { request: 1, asked: asks(10, 1) });
    told.output(at(2000, 40), 1, 1);
    told.holds(&[("vllm:time_to_first_token_seconds", 1.0, -3.0)]);
}

#[test]
fn rejections_are_counted_by_limit_and_nowhere_else() {
    let mut told = page(|_| {});
    told.tell(at(0, 0), Observation::Arrived { request: 1, asked: asks(10, 1) });
    told.tell(at(0, 0), Observation::Rejected { request: 1, reason: Rejection::QueuedRequests });
    told.tell(at(0, 0), Observation::Rejected { request: 2, reason: Rejection::QueuedTokens });
    told.tell(at(0, 0), Observation::Rejected { request: 3, reason: Rejection::QueuedTokens });
    let rejected = |reason| told.value("vllm:admission_rejections_total", &[("reason", reason)]);
    assert_eq!((rejected("max_num_queued_reqs"), rejected("max_num_queued_tokens")), (1.0, 2.0));
    assert_eq!(told.value("vllm:prompt_tokens_total", &[]), 0.0);
}

#[test]
fn a_preempted_request_is_queried_once_and_waits_once() {
    let mut told = page(|_| {});
    told.admit(1, asks(100, 4), [0, 10, 30], 16);
    told.tell(at(40, 40), Observation::Preempted { request: 1 });
    told.tell(at(60, 60), Observation::Queued { request: 1 });
    told.tell(at(80, 80), Observation::Admitted { request: 1, cached_tokens: 96 });
    told.output(at(100, 100), 1, 1);
    told.finish(at(100, 100), 1, FinishReason::Stop);
    assert_eq!(told.value("vllm:num_preemptions_total", &[]), 1.0);
    assert_eq!(told.value("vllm:prefix_cache_queries_total", &[]), 100.0);
    assert_eq!(told.value("vllm:prefix_cache_hits_total", &[]), 16.0);
    told.holds(&[
        ("vllm:request_num_preemptions", 1.0, 1.0),
        ("vllm:request_queue_time_seconds", 1.0, 0.02),
        // From the first admission: the preemption is in it.
        ("vllm:request_prefill_time_seconds", 1.0, 0.07),
    ]);
}

#[test]
fn choices_are_requests_and_their_whole_is_one() {
    let mut told = page(|_| {});
    for (request, tokens) in [(1, 3), (2, 5)] {
        let asked = Asked { choice: Some(Choice { group: 7, of: 2 }), ..asks(10, 8) };
        told.admit(request, asked, [0, 0, 0], 0);
        told.output(at(20, 20), request, tokens);
    }
    told.finish(at(30, 30), 1, FinishReason::Stop);
    told.holds(&[("vllm:request_params_n", 0.0, 0.0), ("vllm:request_generation_tokens", 1.0, 3.0)]);
    told.finish(at(40, 40), 2, FinishReason::Repetition);
    told.holds(&[
        ("vllm:request_params_n", 1.0, 2.0),
        ("vllm:request_max_num_generation_tokens", 1.0, 5.0),
        ("vllm:request_prompt_tokens", 2.0, 20.0),
        ("vllm:request_params_max_tokens", 2.0, 16.0),
    ]);
}

#[test]
fn without_a_prefix_cache_nothing_is_looked_up() {
    let mut told = page(|setup| setup.prefix_caching = false);
    told.admit(1, asks(100, 4), [0, 0, 0], 50);
    told.output(at(20, 20), 1, 1);
    assert_eq!(told.value("vllm:prefix_cache_queries_total", &[]), 0.0);
    assert_eq!(told.value("vllm:prompt_tokens_cached_total", &[]), 0.0);
    assert_eq!(told.value("vllm:prompt_tokens_by_source_total", &[("source", "local_compute")]), 100.0);
}

#[test]
fn a_step_with_many_tokens_is_one_sample() {
    let mut told = page(|setup| setup.speculative_tokens = 3);
    told.admit(1, asks(10, 9), [0, 0, 0], 0);
    told.output(at(20, 20), 1, 1);
    let outputs = [Output { request: 1, tokens: 3 }];
    let drafts = Some(Drafts { drafts: 1, proposed: 3, accepted: &[1, 1, 0] });
    told.tell(
        at(50, 50),
        Observation::Step(Step { outputs: &outputs, drafts, load: LOAD, ..Step::default() }),
    );
    told.holds(&[("vllm:inter_token_latency_seconds", 1.0, 0.03)]);
    for (name, value) in [("drafts", 1.0), ("draft_tokens", 3.0), ("accepted_tokens", 2.0)] {
        assert_eq!(told.value(&format!("vllm:spec_decode_num_{name}_total"), &[]), value);
    }
    let at = |position| {
        told.value("vllm:spec_decode_num_accepted_tokens_per_pos_total", &[("position", position)])
    };
    assert_eq!((at("0"), at("1"), at("2")), (1.0, 1.0, 0.0));
}

#[test]
fn a_flag_changes_the_edges_of_a_group() {
    let json = r#"{"request_latency": [0.05, 0.1, 0.15], "request_tokens": [7]}"#;
    let told = page(|setup| setup.buckets = Buckets::vllm(json).unwrap());
    let page = told.page();
    let edges = |family: &str| {
        let bucket = format!("{family}_bucket");
        let le = page.samples(&bucket).filter_map(|sample| sample.labels.get("le").map(str::to_owned));
        le.collect::<Vec<_>>()
    };
    assert_eq!(edges("vllm:e2e_request_latency_seconds"), ["0.05", "0.1", "0.15", "+Inf"]);
    assert_eq!(edges("vllm:request_queue_time_seconds"), ["0.05", "0.1", "0.15", "+Inf"]);
    assert_eq!(edges("vllm:request_prompt_tokens"), ["7.0", "+Inf"]);
    assert_eq!(edges("vllm:time_to_first_token_seconds").len(), 23);
}

#[test]
fn open_metrics_names_and_creation_times() {
    let told = page(|setup| setup.created = at(0, 0).frontend);
    let open = told.page.page(Format::OpenMetrics);
    let counter = open.family("vllm:prompt_tokens").unwrap();
    let names: Vec<_> = counter.samples.iter().map(|sample| sample.name.as_str()).collect();
    assert_eq!(names, ["vllm:prompt_tokens_total", "vllm:prompt_tokens_created"]);
    assert_eq!(counter.samples[1].value, 1.7e9);
    assert_eq!(open.family("vllm:iteration_tokens_total").unwrap().kind, Kind::Histogram);
    let text = told.page.render(Format::Text);
    assert!(
        text.contains("# TYPE vllm:prompt_tokens_created gauge\nvllm:prompt_tokens_created{engine=\"0\""),
        "{text}"
    );
    assert!(text.contains("le=\"7680.0\"") && text.contains("model_name=\"m\"} 1.7e+09\n"), "{text}");
    assert!(told.page.render(Format::OpenMetrics).ends_with("# EOF\n"));
}
