//! The reader and the writer against recorded pages, the syntax case, and lines that are wrong in one way each.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use goodput_observe::expose::{Fault, Format, Kind, Labels, Page, read};
use std::fs;
use std::path::{Path, PathBuf};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

fn text(page: &str) -> Page {
    read(page.as_bytes(), Format::Text).whole().unwrap()
}

/// Both engines write with the Python client, so what we write of their pages is what they wrote, byte for byte.
#[test]
fn recorded_pages_come_out_as_they_went_in() {
    for file in ["vllm", "sglang"] {
        let bytes = fs::read(testdata().join(format!("recorded/{file}_metrics.txt"))).unwrap();
        let page = read(&bytes, Format::Text).whole().unwrap();
        let recorded = String::from_utf8(bytes).unwrap();
        let (comment, recorded) = recorded.split_once('\n').unwrap();
        assert!(comment.starts_with("# "));
        let lines = |start: &str| recorded.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(page.families.len(), lines("# TYPE "), "{file}");
        let samples = page.families.iter().map(|f| f.samples.len()).sum::<usize>();
        assert_eq!(samples, recorded.lines().count() - lines("#"), "{file}");
        let written = page.write();
        for (ours, theirs) in written.lines().zip(recorded.lines()) {
            assert_eq!(ours, theirs);
        }
        assert_eq!(written.lines().count(), recorded.lines().count());
    }
}

#[test]
fn llama_cpp_s_page_is_read() {
    let bytes = fs::read(testdata().join("recorded/llamacpp_metrics.txt")).unwrap();
    let page = read(&bytes, Format::Text).whole().unwrap();
    assert_eq!(page.value("llamacpp:prompt_seconds_total", &Labels::default()), Some(4.35879));
    assert_eq!(page.family("llamacpp:n_tokens_max").map(|family| family.kind), Some(Kind::Counter));
    assert_eq!(text(&page.write()), page);
}

/// Case 56: everything that the format allows and writers make use of, on one page.
#[test]
fn the_syntax_case() {
    let bytes = fs::read(testdata().join("cases/56-exposition-syntax/page.metrics")).unwrap();
    let page = read(&bytes, Format::Text).whole().unwrap();
    let samples: Vec<_> = page.families.iter().flat_map(|family| &family.samples).collect();
    assert_eq!(samples.len(), 10);
    let first = Labels::new([
        ("model_name", "org/m,v={1.0}"),
        ("path", "a=b"),
        ("quote", "say \"hi\""),
        ("back", "C:\\x"),
        ("nl", "l1\nl2"),
    ]);
    assert_eq!(page.value("demo:tokens_total", &first), Some(15.0));
    let second = page.samples("demo:tokens_total").nth(1).unwrap();
    assert_eq!(second.labels, Labels::new([("model_name", "sp aced"), ("kind", "é")]));
    assert_eq!((second.value, second.timestamp_ms), (2.0, Some(1_700_000_000_123)));
    let value = |name| page.value(name, &Labels::default()).unwrap();
    assert!(value("demo:ratio").is_nan());
    assert_eq!(value("demo:limit"), f64::INFINITY);
    assert_eq!(value("demo:floor"), f64::NEG_INFINITY);
    assert_eq!(value("demo:neg"), -3.0);
    assert_eq!(value("demo:last"), 7.0);
    let ten = Labels::new([("model_name", "m"), ("le", "1e+01")]);
    assert_eq!(page.value("demo:lat_seconds_bucket", &ten), Some(3.0), "an exemplar is read past");
    let help = page.family("demo:tokens_total").unwrap().help.as_deref();
    assert_eq!(help, Some("Tokens {generated}, all \"kinds\""));
}

/// A line that is wrong, and what the fault says was expected.
const WRONG: &[(&str, &str)] = &[
    ("1abc 2", "expected a metric name, found `1abc 2`"),
    ("{a=\"b\"} 2", "expected a metric name, found `{a=\"b\"} 2`"),
    ("a", "expected a blank or `{` after `a`, found the end of the line"),
    ("a-b 1", "expected a blank or `{` after `a`, found `-b 1`"),
    ("a{b=c} 1", "expected a label value in quotes, found `c} 1`"),
    ("a{b=\"c\" d=\"e\"} 1", "expected `,` or `}` after the label `b`, found `d=\"e\"} 1`"),
    ("a{b=\"c\",b=\"d\"} 1", "the label `b` stands twice"),
    ("a{b} 1", "expected `=` after the label `b`, found `} 1`"),
    ("a{b:c=\"d\"} 1", "expected `=` after the label `b`, found `:c=\"d\"} 1`"),
    ("a{,} 1", "expected a label name or `}`, found `,} 1`"),
    ("a{b=\"c} 1", "expected `\"` at the end of a label value"),
    ("a{b=\"\\q\"} 1", "expected `\\\\`, `\\\"` or `\\n` after a backslash, found `q\"} 1`"),
    ("a one", "expected a number, found `one`"),
    ("a{}", "expected a number, found the end of the line"),
    ("a 1 1.5", "expected a timestamp in whole milliseconds, found `1.5`"),
    ("a 1 2 3", "expected the end of the line, found `3`"),
    ("# TYPE a thing", "expected counter, gauge, histogram, summary or untyped, found `thing`"),
    ("# TYPE a info", "expected counter, gauge, histogram, summary or untyped, found `info`"),
    ("# HELP 1 x", "expected a metric name, found `1 x`"),
];

#[test]
fn a_fault_names_the_line_and_what_was_expected() {
    for (line, reason) in WRONG {
        let page = format!("good 1\n{line}\nalso_good 2\n");
        let reading = read(page.as_bytes(), Format::Text);
        assert_eq!(reading.faults, [Fault { line: 2, reason: (*reason).to_owned() }], "{line}");
        assert_eq!(reading.skipped, 1);
        let names: Vec<_> = reading.page.families.iter().map(|family| family.name.as_str()).collect();
        assert!(names.contains(&"good") && names.contains(&"also_good"), "{names:?}");
    }
    let cut = read(b"a 1\n\xff\xfe 2\n", Format::Text);
    assert_eq!(cut.faults, [Fault { line: 2, reason: "expected UTF-8".into() }]);
    let long = format!("a {}", "x".repeat(1000));
    let fault = read(long.as_bytes(), Format::Text).whole().unwrap_err();
    assert_eq!(
        fault.to_string(),
        format!("metrics page line 1: expected a number, found `{}...`", "x".repeat(40))
    );
}

#[test]
fn what_stands_twice_is_taken_once() {
    let reading =
        read(b"# TYPE a gauge\n# TYPE a counter\na{b=\"c\",d=\"e\"} 1\na{d=\"e\",b=\"c\"} 2\n", Format::Text);
    let reasons: Vec<_> = reading.faults.iter().map(|fault| (fault.line, fault.reason.as_str())).collect();
    assert_eq!(reasons, [(2, "a second `# TYPE` of `a`"), (4, "a second sample of `a{b=\"c\",d=\"e\"}`")]);
    let family = reading.page.family("a").unwrap();
    assert_eq!((family.kind, family.samples.len(), family.samples[0].value), (Kind::Gauge, 1, 1.0));
}

#[test]
fn faults_beyond_the_first_are_counted() {
    let reading = read("?\n".repeat(1000).as_bytes(), Format::Text);
    assert_eq!((reading.skipped, reading.faults.len()), (1000, 20));
}

#[test]
fn metadata_may_come_late_and_lines_may_end_as_on_windows() {
    let page = text("a_count 2\r\na_sum 3\r\n# HELP a what \\\\ it\\nis \\q\r\n#TYPE a histogram\r\n\r\n");
    let family = page.family("a").unwrap();
    assert_eq!((family.kind, family.samples.len()), (Kind::Histogram, 2));
    assert_eq!(family.help.as_deref(), Some("what \\ it\nis \\q"));
    assert_eq!(text(&page.write()), page);
}

#[test]
fn open_metrics_has_its_own_names() {
    let page = "# TYPE a counter\n# HELP a \\\"A\\\"\n# UNIT a seconds\na_total{x=\"1\"} 2 # {trace=\"t\"} 0.5 1.25\n\
                a_created{x=\"1\"} 1.5e9\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1 1700000000.123\n\
                # TYPE i info\ni_info{v=\"1\"} 1\n# TYPE s stateset\ns{s=\"on\"} 1\n# TYPE g gaugehistogram\n\
                g_bucket{le=\"+Inf\"} 1\ng_gcount 1\ng_gsum 2\n# TYPE u unknown\n# EOF\n";
    let page = read(page.as_bytes(), Format::OpenMetrics).whole().unwrap();
    assert_eq!(page.families.len(), 6);
    let a = page.family("a").unwrap();
    assert_eq!((a.unit.as_deref(), a.help.as_deref()), (Some("seconds"), Some("\"A\"")));
    let exemplar = a.samples[0].exemplar.as_ref().unwrap();
    assert_eq!((exemplar.value, exemplar.timestamp_ms), (0.5, Some(1250)));
    assert_eq!(page.family("h").unwrap().samples[0].timestamp_ms, Some(1_700_000_000_123));
    let again = read(page.write().as_bytes(), Format::OpenMetrics).whole().unwrap();
    assert_eq!(again, page);

    let older = page.in_text();
    let names: Vec<_> = older.families.iter().map(|f| (f.name.as_str(), f.kind)).collect();
    assert_eq!(
        names,
        [
            ("a_total", Kind::Counter),
            ("a_created", Kind::Gauge),
            ("h", Kind::Histogram),
            ("i_info", Kind::Gauge),
            ("s", Kind::Gauge),
            ("g", Kind::Histogram),
            ("g_gcount", Kind::Gauge),
            ("g_gsum", Kind::Gauge),
            ("u", Kind::Unknown),
        ]
    );
    let read_back = text(&older.write());
    assert_eq!(read_back.value("a_total", &Labels::new([("x", "1")])), Some(2.0));
    assert_eq!(older.in_text(), older);
}

#[test]
fn a_cut_open_metrics_page_is_noticed() {
    let cut = read(b"a 1\nb 2", Format::OpenMetrics);
    assert_eq!(cut.whole().unwrap_err().reason, "expected `# EOF` at the end: the page was cut off");
    let more = read(b"a 1\n# EOF\nb 2\n", Format::OpenMetrics);
    assert_eq!(more.whole().unwrap_err().to_string(), "metrics page line 3: expected nothing after `# EOF`");
    assert!(read(b"# EOF", Format::OpenMetrics).whole().is_ok());
}
