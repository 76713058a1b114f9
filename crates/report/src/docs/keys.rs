//! The table of keys of `summary.json`.

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Where it stands: `*` for a name, `p*` for a percentile, `[]` for each element of a list.
    pub path: &'static str,
    /// JSON type; with `or null` where it may be undefined.
    pub kind: &'static str,
    /// What it means, with its unit.
    pub meaning: &'static str,
}

const fn key(path: &'static str, kind: &'static str, meaning: &'static str) -> Key {
    Key { path, kind, meaning }
}

const TEXT: &str = "text";
const TEXT_OR_NULL: &str = "text or null";
const COUNT: &str = "integer";
const COUNT_OR_NULL: &str = "integer or null";
const NUMBER: &str = "number";
const NUMBER_OR_NULL: &str = "number or null";
const FLAG: &str = "true or false";
const OBJECT_OR_NULL: &str = "object or null";
const LIST: &str = "list";

/// Every key of `summary.json`, in the order of the file.
pub const SUMMARY_KEYS: &[Key] = &[
    key("schema", TEXT, "name and version of this schema"),
    key("run", TEXT_OR_NULL, "name of the run directory"),
    key("ruler", TEXT, "the ruler whose conventions made every figure here, see rulers.md"),
    key("partial", FLAG, "the run was cut off before its end; the figures cover what was finished"),
    key("counts.issued", COUNT, "requests released in the window, failed ones included"),
    key("counts.ok", COUNT, "requests that the ruler takes as successful; only they have latencies"),
    key("counts.outcomes.*", COUNT, "requests by how they ended; every outcome is listed, zeros too"),
    key(
        "counts.censored",
        COUNT,
        "requests cut off by the run's own end that had broken no limit; in neither side of attainment",
    ),
    key("counts.warmup", COUNT, "warm-up requests, which are in no other figure"),
    key(
        "counts.never_released",
        COUNT,
        "arrivals of the schedule that were never released, because the run was ended before",
    ),
    key("counts.stale_retries", COUNT, "requests sent again because a reused connection turned out dead"),
    key("window.kind", TEXT, "part of the run that the figures cover: `whole` or `steady`"),
    key("window.start_s", NUMBER, "seconds from the run's epoch to the window's start"),
    key("window.end_s", NUMBER, "seconds from the run's epoch to the window's end"),
    key("window.duration_s", NUMBER, "`end_s - start_s`, what rates are divided by"),
    key("window.requests", COUNT, "measured requests that start inside"),
    key("window.how", TEXT, "how the window was found, in words"),
    key(
        "windows",
        LIST,
        "the other window, if there is one: the whole run beside the steady state, or the reverse",
    ),
    key("windows[].kind", TEXT, "as `window.kind`"),
    key("windows[].start_s", NUMBER, "as `window.start_s`"),
    key("windows[].end_s", NUMBER, "as `window.end_s`"),
    key("windows[].duration_s", NUMBER, "as `window.duration_s`"),
    key("windows[].requests", COUNT, "as `window.requests`"),
    key("windows[].how", TEXT, "as `window.how`"),
    key("load.kind", TEXT, "`open`, `closed` or `trace`"),
    key(
        "load.asked_rps",
        NUMBER_OR_NULL,
        "the rate of a steady law, requests per second; null in a closed loop and for `inf`",
    ),
    key(
        "load.scheduled_rps",
        NUMBER_OR_NULL,
        "what the seed drew: (n - 1) / (last - first) over the scheduled instants",
    ),
    key("load.offered_rps", NUMBER_OR_NULL, "what was really sent: the same over the sent instants"),
    key("load.concurrency", COUNT_OR_NULL, "slots of a closed loop, or the cap of an open one"),
    key("load.lateness_ms", OBJECT_OR_NULL, "sent - scheduled; null in a closed loop"),
    key("load.lateness_ms.p50", NUMBER, "median lateness, ms"),
    key("load.lateness_ms.p99", NUMBER, "99th percentile of the lateness, ms"),
    key("load.lateness_ms.max", NUMBER, "largest lateness, ms"),
    key(
        "load.read_lateness_ms",
        OBJECT_OR_NULL,
        "read - arrived, over the stream events for which it is known: those with a kernel stamp",
    ),
    key("load.read_lateness_ms.p50", NUMBER, "median, ms"),
    key("load.read_lateness_ms.p99", NUMBER, "99th percentile, ms"),
    key("load.read_lateness_ms.max", NUMBER, "largest, ms"),
    key(
        "load.error_bound_ms.ttft_p99",
        NUMBER_OR_NULL,
        "what this client can have added to TTFT at p99, ms: late sending where the ruler starts at the schedule, and late \
         reading of a first token without a kernel stamp of its own; null if unknown",
    ),
    key(
        "load.error_bound_ms.itl_p99",
        NUMBER_OR_NULL,
        "what this client can have added to a gap between tokens at p99, ms: late reading of tokens without a kernel \
         stamp of their own; null if unknown",
    ),
    key(
        "load.error_bound_ms.ttft_unknown",
        TEXT_OR_NULL,
        "why `ttft_p99` is null, in words that follow \"because\" (since 1.1)",
    ),
    key("load.error_bound_ms.itl_unknown", TEXT_OR_NULL, "why `itl_p99` is null (since 1.1)"),
    key(
        "load.gaps",
        OBJECT_OR_NULL,
        "whether the gaps that were sent follow the asked law, at a changing rate in expected arrivals; null where there is \
         no law: in a closed loop, and where everything is due at once",
    ),
    key("load.gaps.law", TEXT, "the law, by name"),
    key("load.gaps.cv", NUMBER, "coefficient of variation of the sent gaps"),
    key("load.gaps.asked_cv", NUMBER, "coefficient of variation of the law"),
    key(
        "load.gaps.ks",
        NUMBER_OR_NULL,
        "Kolmogorov-Smirnov distance of the sent gaps from the law at the asked rate, beyond `resolution_ms`; null for \
         constant gaps",
    ),
    key("load.gaps.ks_p", NUMBER_OR_NULL, "its p-value, an upper bound"),
    key(
        "load.gaps.resolution_ms",
        NUMBER,
        "what an instant of sending can be kept to, ms; gaps are equal up to it (since 1.1)",
    ),
    key(
        "load.gaps.dispersion",
        NUMBER_OR_NULL,
        "variance over mean of the arrivals in equal windows, about as many of them as arrivals in each: 1 for a Poisson \
         process, near the squared coefficient of variation for other laws, more for bursts; null for too few arrivals \
         (since 1.1)",
    ),
    key("load.gaps.dispersion_low", NUMBER_OR_NULL, "the least dispersion that the law allows (since 1.1)"),
    key("load.gaps.dispersion_high", NUMBER_OR_NULL, "the most dispersion that the law allows (since 1.1)"),
    key("load.gaps.dispersion_windows", COUNT_OR_NULL, "number of windows (since 1.1)"),
    key(
        "load.gaps.verdict",
        TEXT,
        "`pass`, `fail` or `too_few`; a stream of the law fails at most once in a thousand runs",
    ),
    key(
        "load.gaps.reasons",
        LIST,
        "which test failed and by how much, and the cap if it held requests back (since 1.1)",
    ),
    key("load.client_limited", FLAG, "the client, and not the server, limited the run"),
    key("load.reasons", LIST, "why, in words"),
    key("load.remedies", LIST, "what to do about each of the reasons, in their order (since 1.1)"),
    key(
        "connections.opened",
        COUNT,
        "requests that had to set up a connection of their own, failed ones included (since 1.1)",
    ),
    key(
        "connections.ready",
        COUNT,
        "requests that came first on a connection that was ready beforehand (since 1.1)",
    ),
    key("connections.reused", COUNT, "requests on a connection that had carried others (since 1.1)"),
    key(
        "connections.setup_ms",
        OBJECT_OR_NULL,
        "set-up of their own connections, TCP and TLS; null if no request needed one (since 1.1)",
    ),
    key("connections.setup_ms.p50", NUMBER, "median, ms (since 1.1)"),
    key("connections.setup_ms.p99", NUMBER, "99th percentile, ms (since 1.1)"),
    key("connections.setup_ms.max", NUMBER, "largest, ms (since 1.1)"),
    key("throughput.requests_per_s", NUMBER_OR_NULL, "completed requests per second"),
    key("throughput.input_tokens_per_s", NUMBER_OR_NULL, "prompt tokens of completed requests per second"),
    key("throughput.output_tokens_per_s", NUMBER_OR_NULL, "output tokens of completed requests per second"),
    key("throughput.total_tokens_per_s", NUMBER_OR_NULL, "both together per second"),
    key(
        "throughput.peak_output_tokens_per_s",
        NUMBER_OR_NULL,
        "most output tokens within one second, by the ruler's rule",
    ),
    key("concurrency.mean", NUMBER_OR_NULL, "mean number of requests in flight"),
    key("concurrency.peak", COUNT, "largest number of requests in flight, by the ruler's rule"),
    key(
        "concurrency.little_ratio",
        NUMBER_OR_NULL,
        "arrival rate times mean time in flight over the mean in flight: 1 when the books balance",
    ),
    key("tokens.input", COUNT, "prompt tokens of successful requests"),
    key("tokens.output", COUNT, "output tokens of successful requests"),
    key(
        "tokens.sources.*",
        COUNT,
        "successful requests by where their output count comes from; `chunks` is an estimate",
    ),
    key(
        "tokens.chunks_per_token",
        NUMBER_OR_NULL,
        "token-carrying chunks per output token; below 1, chunks bundle several",
    ),
    key(
        "tokens.cached_input",
        COUNT_OR_NULL,
        "prompt tokens from the server's prefix cache, where it says so",
    ),
    key("tokens.mismatched", COUNT, "requests whose tokens over chunks do not add up to the server's total"),
    key("metrics.*", "object", "the distribution of one metric, by its name, see metrics.md"),
    key("metrics.*.unit", TEXT, "unit of every value in it: `ms`, `tokens` or `share`"),
    key("metrics.*.sample", TEXT, "what one sample is: `request`, `gap` or `token`"),
    key("metrics.*.n", COUNT, "number of samples"),
    key("metrics.*.undefined", COUNT, "successful requests for which the metric does not exist"),
    key("metrics.*.mean", NUMBER_OR_NULL, "mean"),
    key("metrics.*.std", NUMBER_OR_NULL, "population standard deviation"),
    key("metrics.*.min", NUMBER_OR_NULL, "smallest"),
    key("metrics.*.max", NUMBER_OR_NULL, "largest"),
    key("metrics.*.p*", "object", "one percentile"),
    key("metrics.*.p*.value", NUMBER_OR_NULL, "its value"),
    key("metrics.*.p*.low", NUMBER_OR_NULL, "lower end of its interval; null if the sample gives none"),
    key("metrics.*.p*.high", NUMBER_OR_NULL, "upper end of its interval; null if the sample gives none"),
    key(
        "metrics.*.p*.support",
        TEXT,
        "samples beyond it: `ok` (10 or more), `weak` (3 to 10), `anecdote` (fewer)",
    ),
    key("metrics.*.p*.method", TEXT, "how value and interval were made"),
    key("stalls.threshold_ms", NUMBER, "gaps between chunks longer than this are stalls, ms"),
    key("stalls.count", COUNT, "number of stalls"),
    key("stalls.requests", COUNT, "requests with at least one"),
    key("stalls.total_ms", NUMBER, "time spent in them, ms"),
    key("stalls.max_itl_ms", NUMBER_OR_NULL, "the longest gap of the run, ms"),
    key("stalls.max_itl_request", COUNT_OR_NULL, "the request it belongs to"),
    key("goodput", OBJECT_OR_NULL, "goodput under the SLO that was given; null without one"),
    key("goodput.slo", TEXT, "the objectives"),
    key("goodput.request_per_s", NUMBER_OR_NULL, "requests that kept every per-request limit, per second"),
    key("goodput.token_per_s", NUMBER_OR_NULL, "output tokens of those requests per second"),
    key("goodput.good", COUNT, "those requests"),
    key(
        "goodput.evaluated",
        COUNT,
        "requests that count: issued, failed ones included, without censored and not evaluable ones",
    ),
    key("goodput.attainment.value", NUMBER_OR_NULL, "good / evaluated, 0 to 1"),
    key("goodput.attainment.low", NUMBER_OR_NULL, "lower end of its 95 % Wilson interval"),
    key("goodput.attainment.high", NUMBER_OR_NULL, "upper end of its 95 % Wilson interval"),
    key("goodput.per_objective", LIST, "the per-request objectives one by one"),
    key("goodput.per_objective[].metric", TEXT, "name of the metric"),
    key("goodput.per_objective[].limit", NUMBER, "its limit, inclusive, in the metric's unit"),
    key("goodput.per_objective[].met", COUNT, "requests that kept it"),
    key(
        "goodput.per_objective[].broken",
        COUNT,
        "requests that broke it; a failed request breaks every objective",
    ),
    key("goodput.per_objective[].attainment", NUMBER_OR_NULL, "met / (met + broken)"),
    key("goodput.verdicts", LIST, "the percentile objectives one by one"),
    key("goodput.verdicts[].objective", TEXT, "the objective"),
    key(
        "goodput.verdicts[].verdict",
        TEXT,
        "`pass`, `fail`, or `undecided` where the interval straddles the limit",
    ),
    key(
        "goodput.verdicts[].value",
        NUMBER_OR_NULL,
        "the percentile; failed requests count as slower than any limit",
    ),
    key("goodput.verdicts[].low", NUMBER_OR_NULL, "lower end of its interval"),
    key("goodput.verdicts[].high", NUMBER_OR_NULL, "upper end of its interval"),
    key(
        "goodput.vacuous",
        COUNT,
        "requests that kept a limit because it cannot apply to them (TPOT of one token)",
    ),
    key(
        "goodput.not_evaluable",
        COUNT,
        "requests for which a limit could not be evaluated; in neither count",
    ),
    key(
        "goodput.censored",
        COUNT,
        "requests cut off by the run's end that had broken nothing; in neither count",
    ),
    key("goodput.inline", FLAG, "the SLO came inline and says no window, workload or load"),
    key(
        "truth",
        OBJECT_OR_NULL,
        "this client's figures against the server's own record of the same requests (--truth), spans only; null without \
         one; since 1.1",
    ),
    key("truth.matched", COUNT, "successful requests that were found in it and compared"),
    key("truth.without_truth", COUNT, "successful requests that are not in it"),
    key("truth.failed", COUNT, "requests that did not succeed and have nothing to compare"),
    key("truth.ambiguous", COUNT, "successful requests whose id is in it more than once; not compared"),
    key(
        "truth.unaligned",
        COUNT,
        "compared requests whose token events are not one for one the server's writes: a TTFT error and no gap errors",
    ),
    key("truth.server_only", COUNT, "requests in the record that are none of this run's"),
    key(
        "truth.ttft_ms",
        OBJECT_OR_NULL,
        "error of TTFT from the instant of sending, client minus server; both ways through the network are in it",
    ),
    key("truth.ttft_ms.n", COUNT, "requests"),
    key("truth.ttft_ms.p50", NUMBER, "median of the absolute error, ms (percentiles by inverse CDF)"),
    key("truth.ttft_ms.p99", NUMBER, "its 99th percentile, ms"),
    key("truth.ttft_ms.max", NUMBER, "the largest, ms"),
    key("truth.ttft_ms.signed_p50", NUMBER, "median with its sign, ms"),
    key("truth.ttft_ms.client_p99", NUMBER, "99th percentile of the client's spans, ms"),
    key("truth.ttft_ms.server_p99", NUMBER, "99th percentile of the server's spans of the same requests, ms"),
    key(
        "truth.chunk_gap_ms",
        OBJECT_OR_NULL,
        "error of the gaps between token events, with the members of `truth.ttft_ms`; that of ITL where each carries one \
         token",
    ),
    key("truth.chunk_gap_ms.n", COUNT, "gaps"),
    key("truth.chunk_gap_ms.p50", NUMBER, "see `truth.ttft_ms.p50`"),
    key("truth.chunk_gap_ms.p99", NUMBER, "see `truth.ttft_ms.p99`"),
    key("truth.chunk_gap_ms.max", NUMBER, "see `truth.ttft_ms.max`"),
    key("truth.chunk_gap_ms.signed_p50", NUMBER, "see `truth.ttft_ms.signed_p50`"),
    key("truth.chunk_gap_ms.client_p99", NUMBER, "see `truth.ttft_ms.client_p99`"),
    key("truth.chunk_gap_ms.server_p99", NUMBER, "see `truth.ttft_ms.server_p99`"),
    key(
        "truth.server_late_ms",
        OBJECT_OR_NULL,
        "how late the server itself was: written minus due, over the writes of the compared requests",
    ),
    key("truth.server_late_ms.p50", NUMBER, "median, ms"),
    key("truth.server_late_ms.p99", NUMBER, "99th percentile, ms"),
    key("truth.server_late_ms.max", NUMBER, "largest, ms"),
    key("findings", LIST, "what a reader should know, most severe first, see findings.md"),
    key("findings[].rule", TEXT, "stable id of the rule"),
    key("findings[].severity", TEXT, "`invalid`, `warning` or `note`"),
    key("findings[].message", TEXT, "in plain words"),
    key("findings[].evidence", LIST, "figures and record ids that led to it"),
    key("findings[].invalidates", LIST, "which figures it touches"),
    key("findings[].remedy", TEXT, "what to do"),
];
