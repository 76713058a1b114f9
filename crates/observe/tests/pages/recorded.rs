//! Tables and written pages against pages recorded from the real engines, family by family: names, types, label
//! names and edges.

use super::{LOAD, Told, asks, at};
use goodput_observe::engine_names::{Engine, Spec, sglang, vllm};
use goodput_observe::expose::{Family, Format, Kind, Page, Sample, number, read};
use goodput_observe::histogram::Histogram;
use goodput_observe::page::{Asked, EnginePage, FinishReason, Observation, Output, Setup, Step};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The longest request of the recorded vLLM server lies in this decade; 2000 was the last edge.
const MAX_MODEL_LEN: u64 = 4096;

/// Families that stand on a page only after something that the recorded servers did not do.
const NOT_RECORDED: &[&str] = &[
    "sglang:num_aborted_requests_total",
    "sglang:spec_verify_calls_total",
    "sglang:num_retracted_requests_total",
];

fn recorded(engine: &str) -> Page {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/recorded/{engine}_metrics.txt"));
    read(&fs::read(path).unwrap(), Format::Text).whole().unwrap()
}

/// Label names over all samples of a family, `le` left out; every sample must have the same.
fn label_names(family: &Family) -> Vec<&str> {
    let all: BTreeSet<Vec<&str>> = family.samples.iter().map(label_names_of).collect();
    assert_eq!(all.len(), 1, "{} has series with different labels: {all:?}", family.name);
    all.into_iter().next().unwrap()
}

fn label_names_of(sample: &Sample) -> Vec<&str> {
    sample.labels.iter().map(|(name, _)| name).filter(|name| *name != "le").collect()
}

/// Edges of a histogram, +Inf left out, in the order of the page.
fn edges(family: &Family) -> Vec<f64> {
    let le = family.samples.iter().filter_map(|sample| sample.labels.get("le")).filter_map(number::parse);
    let mut edges: Vec<f64> = Vec::new();
    for edge in le.filter(|edge| edge.is_finite()) {
        if !edges.contains(&edge) {
            edges.push(edge);
        }
    }
    edges
}

fn check_table(engine: Engine, page: &Page, left_out: &[(&str, &str)]) {
    for spec in engine.families() {
        let Some(family) = page.family(spec.name) else {
            assert!(NOT_RECORDED.contains(&spec.name), "{} is not on the recorded page", spec.name);
            continue;
        };
        assert_eq!(family.kind, spec.kind, "{}", spec.name);
        assert_eq!(label_names(family), spec.labels, "{}", spec.name);
        if spec.kind == Kind::Histogram {
            let expected = engine.default_edges(spec.edges, MAX_MODEL_LEN).unwrap();
            assert_eq!(edges(family), expected, "{}", spec.name);
        }
    }
    let in_table = |name: &str| engine.families().iter().any(|spec: &Spec| spec.name == name);
    let created = |name: &str| {
        name.strip_suffix("_created").is_some_and(|base| in_table(base) || in_table(&format!("{base}_total")))
    };
    let reason = |name: &str| left_out.iter().find(|(start, _)| name.starts_with(start));
    for family in &page.families {
        let (known, left) = (in_table(&family.name) || created(&family.name), reason(&family.name).is_some());
        assert!(known != left, "{} must be in the table or left out with a reason", family.name);
    }
    for (start, reason) in left_out {
        assert!(
            page.families.iter().any(|f| f.name.starts_with(start)),
            "nothing begins with {start} ({reason})"
        );
    }
}

#[test]
fn the_tables_are_what_the_engines_write() {
    check_table(Engine::Vllm, &recorded("vllm"), vllm::LEFT_OUT);
    check_table(Engine::Sglang, &recorded("sglang"), sglang::LEFT_OUT);
    check_table(Engine::LlamaCpp, &recorded("llamacpp"), &[]);
}

#[test]
fn an_engine_is_known_by_its_page() {
    for (file, engine) in [("vllm", Engine::Vllm), ("sglang", Engine::Sglang), ("llamacpp", Engine::LlamaCpp)]
    {
        assert_eq!(Engine::of(&recorded(file)), Some(engine));
    }
    assert_eq!(Engine::of(&read(b"up 1\n", Format::Text).page), None);
}

/// Everything that a table holds is written, and what is written is as the engine writes it.
#[test]
fn written_pages_look_like_recorded_ones() {
    for (engine, file) in [(Engine::Vllm, "vllm"), (Engine::Sglang, "sglang")] {
        let setup = Setup { max_model_len: MAX_MODEL_LEN, ..Setup::new("tiny") };
        let page = match engine {
            Engine::Vllm => EnginePage::vllm(&setup),
            // Verified drafts are counted only where there are some.
            _ => EnginePage::sglang(&Setup { speculative_tokens: 2, ..setup }),
        };
        let mut told = Told { page };
        everything_happens(&mut told);
        let written = read(told.page.render(Format::Text).as_bytes(), Format::Text).whole().unwrap();
        let recorded = recorded(file);
        for spec in engine.families() {
            let ours = written.family(spec.name);
            let ours = ours.unwrap_or_else(|| panic!("{} is in the table and not written", spec.name));
            let Some(theirs) = recorded.family(spec.name) else { continue };
            assert_eq!(ours.kind, theirs.kind, "{}", spec.name);
            assert_eq!(label_names(ours), label_names(theirs), "{}", spec.name);
            assert_eq!(edges(ours), edges(theirs), "{}", spec.name);
            let suffixes = |family: &Family| -> BTreeSet<String> {
                family.samples.iter().map(|sample| sample.name.clone()).collect()
            };
            assert_eq!(suffixes(ours), suffixes(theirs), "{}", spec.name);
            let help = ours.help.as_deref().unwrap();
            assert!(help.starts_with("Simulated: "), "{}: {help}", spec.name);
        }
        for family in &written.families {
            let known =
                recorded.family(&family.name).is_some() || NOT_RECORDED.contains(&family.name.as_str());
            assert!(known, "the real engine has no {}", family.name);
        }
        let open = told.page.render(Format::OpenMetrics);
        let again = read(open.as_bytes(), Format::OpenMetrics).whole().unwrap();
        assert_eq!(again.in_text(), written, "both formats say the same");
    }
}

/// The label values that vLLM's series have from the start.
#[test]
fn vllm_s_series_are_there_before_any_request() {
    let recorded = recorded("vllm");
    let written = EnginePage::vllm(&Setup::new("tiny")).page(Format::Text);
    for spec in vllm::FAMILIES.iter().filter(|spec| spec.kind != Kind::Histogram) {
        let series = |page: &Page| -> BTreeSet<String> {
            page.samples(spec.name).map(|sample| sample.labels.to_string()).collect()
        };
        assert_eq!(series(&written), series(&recorded), "{}", spec.name);
    }
}

/// What our rules imply, which the real engines' pages must then show too: the rules were read right.
#[test]
fn the_rules_hold_on_recorded_pages() {
    let mut told = Told { page: EnginePage::vllm(&Setup::new("tiny")) };
    everything_happens(&mut told);
    for page in [recorded("vllm"), told.page()] {
        let (ttft, _) = observed(&page, "vllm:time_to_first_token_seconds");
        let (itl, _) = observed(&page, "vllm:inter_token_latency_seconds");
        let generated = total(&page, "vllm:generation_tokens_total");
        assert_eq!(ttft + itl, generated, "without speculation every token is a sample");
        let computed =
            total(&page, "vllm:prompt_tokens_total") - total(&page, "vllm:prompt_tokens_cached_total");
        assert_eq!(observed(&page, "vllm:iteration_tokens_total").1, computed + generated);
        let (finished, e2e) = observed(&page, "vllm:e2e_request_latency_seconds");
        assert_eq!(total(&page, "vllm:request_success_total"), finished);
        assert!(finished < ttft && e2e > 0.0, "first tokens come before finishes");
        assert_eq!(observed(&page, "vllm:request_params_n").1, finished, "every choice is a request");
        let phase = |name| observed(&page, &format!("vllm:request_{name}_time_seconds")).1;
        assert!((phase("inference") - phase("prefill") - phase("decode")).abs() < 1e-9);
    }
    let mut told = Told { page: EnginePage::sglang(&Setup::new("tiny")) };
    everything_happens(&mut told);
    for page in [recorded("sglang"), told.page()] {
        let (finished, prompt) = observed(&page, "sglang:prompt_tokens_histogram");
        assert_eq!(total(&page, "sglang:num_requests_total"), finished);
        assert_eq!(observed(&page, "sglang:e2e_request_latency_seconds").0, finished);
        assert_eq!(total(&page, "sglang:prompt_tokens_total"), prompt);
        let uncached = observed(&page, "sglang:uncached_prompt_tokens_histogram").1;
        assert_eq!(total(&page, "sglang:cached_tokens_total"), prompt - uncached);
        assert_eq!(
            total(&page, "sglang:generation_tokens_total"),
            observed(&page, "sglang:generation_tokens_histogram").1
        );
        let queued = observed(&page, "sglang:queue_time_seconds").0;
        assert!(observed(&page, "sglang:time_to_first_token_seconds").0 <= queued);
    }
}

/// Count and sum of a histogram over all its series.
fn observed(page: &Page, family: &str) -> (f64, f64) {
    let series = Histogram::of(page, family).unwrap();
    let all = Histogram::pooled(series.values()).unwrap().unwrap();
    (all.count(), all.sum().unwrap())
}

/// A counter over all its series.
fn total(page: &Page, counter: &str) -> f64 {
    page.samples(counter).map(|sample| sample.value).sum()
}

/// One of each thing that fills a family.
fn everything_happens(told: &mut Told) {
    for request in 0..4 {
        told.admit(request, Asked { streaming: request != 1, ..asks(100, 4) }, [0, 1, 2], 16);
    }
    told.tell(at(3, 3), Observation::Preempted { request: 0 });
    let outputs: Vec<_> = (0..4).map(|request| Output { request, tokens: 1 }).collect();
    let step = Step {
        prefill_tokens: 84,
        recomputed_tokens: 0,
        cached_tokens: 16,
        evicted_tokens: 16,
        outputs: &outputs,
        drafts: None,
        load: LOAD,
    };
    for ms in 1..=50 {
        told.tell(at(ms * 10, ms * 10), Observation::Step(step));
    }
    for request in 0..3 {
        told.finish(at(600, 600), request, FinishReason::Stop);
    }
    told.tell(at(600, 600), Observation::GivenUp { request: 3 });
}
