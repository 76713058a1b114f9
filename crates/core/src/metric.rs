//! The one table of metrics: what each number is, of what it is a sample, and when it does not exist.
//!
//! Tables, tool tips, `explain`, the SLO parser and `summary.json` all read [`METRICS`]; nothing that is printed
//! is defined anywhere else. How a ruler turns a timeline into these values is in [`crate::ruler`].
//!
//! Definitions: the token-level latencies follow the usage of the serving literature (TTFT, TPOT without the
//! first token, per-token latency normalised by length as in Orca and vLLM's papers, fluidity as in the Etalon
//! report), each stated in full below because tools disagree under the same label.

/// A metric of one request, one gap or one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Metric {
    /// Time to first token, from the ruler's start.
    Ttft,
    /// Time to first token from `sent`, whatever the ruler's start is.
    TtftSent,
    /// Time to the first token of the answer proper, reasoning not counted.
    Ttfa,
    /// Time to the first stream event of any kind.
    FirstChunk,
    /// Time per output token after the first.
    Tpot,
    /// Time per output token after the first chunk.
    DecodeTpot,
    /// Inter-token latency.
    Itl,
    /// Gap between successive token-carrying chunks.
    ChunkGap,
    /// Largest chunk gap of a request.
    MaxItl,
    /// End-to-end latency to the last token.
    E2e,
    /// End-to-end latency to the end of the body.
    E2eClosed,
    /// End-to-end latency with timeouts kept as lower limits.
    E2eCensored,
    /// End-to-end latency per output token.
    NormalisedLatency,
    /// What the request waited inside this client.
    ClientQueue,
    /// The part of that wait which a concurrency cap caused.
    CapWait,
    /// Set-up of a new connection.
    Connect,
    /// Response head after sending.
    Headers,
    /// Share of tokens that came before their deadline.
    Fluidity,
    /// Output tokens of a request.
    OutputTokens,
    /// Prompt tokens of a request.
    InputTokens,
}

/// Unit of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// A count of tokens.
    Tokens,
    /// A share between 0 and 1.
    Share,
}

impl Unit {
    /// The stable name in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Tokens => "tokens",
            Self::Share => "share",
        }
    }
}

/// What one sample of a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sample {
    /// One value per request.
    Request,
    /// One value per gap between chunks: long answers weigh more.
    Gap,
    /// One value per token after the first: long answers weigh more.
    Token,
}

impl Sample {
    /// The stable name in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Gap => "gap",
            Self::Token => "token",
        }
    }
}

/// One row of [`METRICS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricDef {
    /// The metric.
    pub metric: Metric,
    /// Stable name in files and on the command line.
    pub name: &'static str,
    /// Head of a table's row or column.
    pub title: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// What one sample is.
    pub sample: Sample,
    /// The canonical definition in words.
    pub formula: &'static str,
    /// When the metric does not exist; it is then `null`, never 0.
    pub undefined_when: &'static str,
    /// Which requests are sampled.
    pub counts: &'static str,
    /// Where the definition comes from.
    pub source: &'static str,
    /// Schema version that brought it.
    pub since: &'static str,
}

const OK_ONLY: &str = "requests that the ruler takes as successful";
const SERVING: &str = "common usage of LLM serving benchmarks";

/// Every metric, in the order of [`Metric`] and of the reports.
pub const METRICS: &[MetricDef] = &[
    MetricDef {
        metric: Metric::Ttft,
        name: "ttft",
        title: "TTFT",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "arrival of the first chunk that carries a generated token - start; start is the scheduled \
                  instant in open-loop and trace runs and the sent instant in closed-loop ones",
        undefined_when: "no token came, or the answer came as one body",
        counts: OK_ONLY,
        source: SERVING,
        since: "1.0",
    },
    MetricDef {
        metric: Metric::TtftSent,
        name: "ttft_sent",
        title: "TTFT from sent",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "arrival of the first chunk that carries a generated token - sent; leaves out what the request \
                  waited inside this client",
        undefined_when: "no token came, or the answer came as one body",
        counts: OK_ONLY,
        source: SERVING,
        since: "1.0",
    },
    MetricDef {
        metric: Metric::Ttfa,
        name: "ttfa",
        title: "TTFA",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "arrival of the first chunk with answer text, a tool call or a refusal - start; reasoning does \
                  not count",
        undefined_when: "only reasoning came, or the answer came as one body",
        counts: OK_ONLY,
        source: "AIPerf calls it time to first output",
        since: "1.0",
    },
    MetricDef {
        metric: Metric::FirstChunk,
        name: "first_chunk",
        title: "First chunk",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "arrival of the first stream event of any kind (role, comment, empty delta) - start",
        undefined_when: "no event came, or the answer came as one body",
        counts: OK_ONLY,
        source: SERVING,
        since: "1.0",
    },
    MetricDef {
        metric: Metric::Tpot,
        name: "tpot",
        title: "TPOT",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "(last token - first token) / (N - 1), N = output tokens: the first token is excluded; one \
                  value per request, so requests weigh the same whatever their length",
        undefined_when: "N < 2, several choices were asked for, or the answer came as one body",
        counts: OK_ONLY,
        source: SERVING,
        since: "1.0",
    },
    MetricDef {
        metric: Metric::DecodeTpot,
        name: "decode_tpot",
        title: "Decode TPOT",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "(last token - first token) / (N - tokens in the first chunk): the time of one decode step even \
                  when the first chunk bundles several tokens",
        undefined_when: "the first chunk's token count is not known, nothing follows it, or TPOT is undefined",
        counts: OK_ONLY,
        source: "this project",
        since: "1.0",
    },
    MetricDef {
        metric: Metric::Itl,
        name: "itl",
        title: "ITL",
        unit: Unit::Milliseconds,
        sample: Sample::Token,
        formula: "each gap g before a chunk of n tokens stands for n samples of g / n, the first chunk's tokens \
                  after its first are samples of 0: N - 1 samples per request, whose mean is its TPOT. A \
                  chunk whose token count is not known is taken as one token and the request is marked when \
                  the sum misses N. Pooled over requests, so long answers weigh more",
        undefined_when: "fewer than two tokens came, or the answer came as one body",
        counts: OK_ONLY,
        source: "this project; other tools use one sample per chunk",
        since: "1.0",
    },
    MetricDef {
        metric: Metric::ChunkGap,
        name: "chunk_gap",
        title: "Chunk gap",
        unit: Unit::Milliseconds,
        sample: Sample::Gap,
        formula: "time between successive token-carrying chunks of one choice: what a reader sees. As a limit \
                  per request: the mean of its gaps",
        undefined_when: "fewer than two token-carrying chunks",
        counts: OK_ONLY,
        source: SERVING,
        since: "1.0",
    },
    MetricDef {
        metric: Metric::MaxItl,
        name: "max_itl",
        title: "Max ITL",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "the largest chunk gap of a request: its worst stall, which percentiles of pooled gaps hide",
        undefined_when: "fewer than two token-carrying chunks",
        counts: OK_ONLY,
        source: "this project",
        since: "1.0",
    },
    MetricDef {
        metric: Metric::E2e,
        name: "e2e",
        title: "E2E",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "arrival of the last chunk that carries a token - start; the finish chunk, the usage chunk and \
                  [DONE] do not extend it",
        undefined_when: "no token came",
        counts: OK_ONLY,
        source: SERVING,
        since: "1.0",
    },
    MetricDef {
        metric: Metric::E2eClosed,
        name: "e2e_closed",
        title: "E2E closed",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "end of the response body - start",
        undefined_when: "the body has no recorded end",
        counts: OK_ONLY,
        source: SERVING,
        since: "1.0",
    },
    MetricDef {
        metric: Metric::E2eCensored,
        name: "e2e_censored",
        title: "E2E, timeouts as lower limits",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "E2E of successful requests together with the time that timed-out requests had taken when they \
                  were given up, which is a lower limit: a percentile that falls on one is itself a lower limit",
        undefined_when: "no request timed out (then it would equal e2e)",
        counts: "successful requests and those that ran into a timeout",
        source: "right-censored samples of survival analysis",
        since: "1.0",
    },
    MetricDef {
        metric: Metric::NormalisedLatency,
        name: "normalised_latency",
        title: "E2E / N",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "E2E / N: contains the first token's wait, so it is not TPOT",
        undefined_when: "N = 0 or E2E is undefined",
        counts: OK_ONLY,
        source: "Orca (OSDI 2022) and the vLLM paper (SOSP 2023)",
        since: "1.0",
    },
    MetricDef {
        metric: Metric::ClientQueue,
        name: "client_queue",
        title: "Client queue",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "sent - scheduled: everything the request waited before it left this machine",
        undefined_when: "closed loop (nothing is scheduled)",
        counts: OK_ONLY,
        source: "coordinated omission, after Gil Tene",
        since: "1.0",
    },
    MetricDef {
        metric: Metric::CapWait,
        name: "cap_wait",
        title: "Cap wait",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "released - scheduled: the wait for a free slot under a concurrency cap",
        undefined_when: "closed loop (nothing is scheduled)",
        counts: OK_ONLY,
        source: "coordinated omission, after Gil Tene",
        since: "1.0",
    },
    MetricDef {
        metric: Metric::Connect,
        name: "connect",
        title: "Connect",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "connected - connect_start: TCP and TLS of a new connection",
        undefined_when: "a ready connection was used",
        counts: OK_ONLY,
        source: SERVING,
        since: "1.0",
    },
    MetricDef {
        metric: Metric::Headers,
        name: "headers",
        title: "Headers",
        unit: Unit::Milliseconds,
        sample: Sample::Request,
        formula: "response head complete - sent",
        undefined_when: "no response head came",
        counts: OK_ONLY,
        source: SERVING,
        since: "1.0",
    },
    MetricDef {
        metric: Metric::Fluidity,
        name: "fluidity",
        title: "Fluidity",
        unit: Unit::Share,
        sample: Sample::Request,
        formula: "share of the tokens that met their deadline: token k is due at start + TTFT limit + (k - 1) * \
                  TPOT limit",
        undefined_when: "the SLO lacks a TTFT or a TPOT limit, several choices were asked for, or the answer \
                         came as one body",
        counts: OK_ONLY,
        source: "fluidity index of Etalon (2024)",
        since: "1.0",
    },
    MetricDef {
        metric: Metric::OutputTokens,
        name: "output_tokens",
        title: "Output tokens",
        unit: Unit::Tokens,
        sample: Sample::Request,
        formula: "N: the server's count, else token ids, else logprobs, else the text through the model's own \
                  tokenizer, else the number of token-carrying chunks (marked as an estimate); never the \
                  requested maximum",
        undefined_when: "nothing came",
        counts: OK_ONLY,
        source: "this project",
        since: "1.0",
    },
    MetricDef {
        metric: Metric::InputTokens,
        name: "input_tokens",
        title: "Input tokens",
        unit: Unit::Tokens,
        sample: Sample::Request,
        formula: "prompt tokens: the server's count, else the workload's own",
        undefined_when: "neither is known",
        counts: OK_ONLY,
        source: "this project",
        since: "1.0",
    },
];

impl Metric {
    /// Number of metrics.
    pub const COUNT: usize = METRICS.len();

    /// This metric's row.
    #[must_use]
    pub const fn def(self) -> &'static MetricDef {
        &METRICS[self as usize]
    }

    /// Stable name in files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.def().name
    }

    /// The metric with this stable name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        METRICS.iter().find(|d| d.name == name).map(|d| d.metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (i, def) in METRICS.iter().enumerate() {
            assert_eq!(def.metric as usize, i, "{}", def.name);
            assert_eq!(Metric::from_name(def.name), Some(def.metric));
        }
        assert_eq!(Metric::InputTokens as usize + 1, Metric::COUNT);
    }

    #[test]
    fn every_cell_says_something() {
        for d in METRICS {
            for cell in [d.name, d.title, d.formula, d.undefined_when, d.counts, d.source, d.since] {
                assert!(!cell.trim().is_empty(), "{}", d.name);
            }
        }
    }
}
