//! What SGLang says of a request besides its tokens: `meta_info`, with the server's own times.
//!
//! The fields are those of SGLang 0.5 with `--enable-metrics`. Times are Unix seconds, spans seconds.

use goodput_core::time::Nanos;

/// What the engine has said about a request so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    /// Prompt tokens found in the prefix cache.
    pub(crate) cached_tokens: u32,
    /// How often it lost its KV cache.
    pub(crate) retractions: u32,
    /// When it arrived, Unix ns.
    pub(crate) received: Nanos,
    /// When a step first took it up.
    pub(crate) admitted: Nanos,
    /// When its prompt was computed.
    pub(crate) prefilled: Nanos,
    /// The end of the step that is told now.
    pub(crate) now: Nanos,
}

/// What else stands in `meta_info`.
#[derive(Debug)]
pub(crate) struct MetaLabels<'a> {
    pub(crate) id: &'a str,
    /// As JSON.
    pub(crate) finish: &'a str,
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: i64,
    pub(crate) first: bool,
    pub(crate) last: bool,
    /// How far the wall clock was set after the request had come, ns.
    pub(crate) clock_step: i64,
}

impl Seen {
    /// The object as JSON.
    pub(crate) fn meta_info(&self, labels: &MetaLabels<'_>) -> String {
        let &MetaLabels { id, finish, prompt_tokens, completion_tokens, first, last, clock_step } = labels;
        let later = |at: Nanos| seconds(Nanos(at.0.saturating_add_signed(clock_step)));
        let (retractions, cached) = (self.retractions, self.cached_tokens);
        let (admitted, prefilled) = (seconds(self.admitted), later(self.prefilled));
        let queue = seconds(self.admitted.since(self.received));
        let mut meta = format!(
            r#"{{"id":"{id}","finish_reason":{finish},"prompt_tokens":{prompt_tokens},"weight_version":"default","num_retractions":{retractions},"storage_prefetch_wait":0.0,"storage_staging_wait":0.0,"forward_entry_time":{admitted},"prefill_finished_time":{prefilled},"queue_time":{queue},"reasoning_tokens":0,"completion_tokens":{completion_tokens},"cached_tokens":{cached}"#
        );
        if last {
            meta.push_str(&format!(
                r#","weight_versions":[{{"version":"default","start":0,"end":{completion_tokens}}}]"#
            ));
        }
        match cached {
            0 => meta.push_str(r#","cached_tokens_details":null"#),
            _ => meta.push_str(&format!(r#","cached_tokens_details":{{"device":{cached},"host":0}}"#)),
        }
        meta.push_str(r#","dp_rank":null"#);
        if last {
            let e2e = self.now.since(self.received);
            meta.push_str(&format!(
                r#","e2e_latency":{},"request_received_ts":{},"first_token_latency":{},"api_server_dispatch_finish_ts":{}"#,
                seconds(e2e),
                seconds(self.received),
                seconds(self.prefilled.since(self.received)),
                seconds(self.received),
            ));
        }
        if first || last {
            meta.push_str(&format!(r#","response_sent_to_client_ts":{prefilled}"#));
        }
        if last {
            meta.push_str(&format!(r#","request_finished_ts":{}"#, later(self.now)));
            let decoding = self.now.since(self.prefilled).as_secs_f64();
            if completion_tokens > 1 && decoding > 0.0 {
                let throughput = (completion_tokens - 1) as f64 / decoding;
                meta.push_str(&format!(r#","decode_throughput":{throughput:?}"#));
            }
        }
        meta.push('}');
        meta
    }
}

/// Nanoseconds as seconds in JSON.
fn seconds(time: Nanos) -> String {
    format!("{:?}", time.as_secs_f64())
}
