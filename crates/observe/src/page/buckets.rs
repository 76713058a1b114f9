//! Edges that a server's flags change: vLLM's `--custom-histogram-buckets`, SGLang's lists and rules.

use crate::engine_names::sglang::{BUCKET_FLAGS, BucketFlag};
use crate::engine_names::vllm;
use crate::expose::number;
use std::collections::BTreeMap;

/// Edges by group, for those groups that a flag changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Buckets(BTreeMap<String, Vec<f64>>);

/// A flag that does not give edges.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// Not the JSON that the flag takes.
    #[error("expected JSON like {{\"request_latency\": [0.1, 0.5]}}: {0}")]
    NotJson(String),
    /// A group that there is not.
    #[error("no buckets are called {found:?}; expected one of {expected}")]
    UnknownGroup {
        /// What was found.
        found: String,
        /// What there is.
        expected: String,
    },
    /// A flag that there is not.
    #[error("no flag {found:?} changes buckets; expected one of {expected}")]
    UnknownFlag {
        /// What was found.
        found: String,
        /// What there is.
        expected: String,
    },
    /// Edges that are none.
    #[error("expected rising, finite bucket edges for {group}, found {found}")]
    NotRising {
        /// For which group.
        group: String,
        /// What was found.
        found: String,
    },
    /// A rule that is none.
    #[error(
        "expected `default`, `tse <middle> <base> <count>` with a base above 1, or `custom <edge>...`, found {0:?}"
    )]
    NotARule(String),
}

/// The most edges that a rule may ask for on each side; far above any use, and it bounds the work.
const RULE_EDGES_MAX: u32 = 1000;

impl Buckets {
    /// The value of vLLM's `--custom-histogram-buckets`: a JSON object from group to list of edges.
    ///
    /// # Errors
    /// It is no such object, a group is unknown, or edges do not rise.
    pub fn vllm(json: &str) -> Result<Self, BucketError> {
        let groups: BTreeMap<String, Vec<f64>> =
            serde_json::from_str(json).map_err(|error| BucketError::NotJson(error.to_string()))?;
        let known: Vec<_> =
            vllm::EDGES.iter().map(|(group, _)| *group).chain([vllm::REQUEST_TOKENS]).collect();
        let mut buckets = Self::default();
        for (group, edges) in groups {
            if !known.contains(&group.as_str()) {
                return Err(BucketError::UnknownGroup { found: group, expected: known.join(", ") });
            }
            buckets = buckets.with(&group, edges)?;
        }
        Ok(buckets)
    }

    /// These and what one of SGLang's flags ([`BUCKET_FLAGS`]) gives, its words in one text.
    ///
    /// # Errors
    /// There is no such flag, or it does not give edges.
    pub fn with_sglang(self, flag: &str, value: &str) -> Result<Self, BucketError> {
        let Some((_, group, takes)) = BUCKET_FLAGS.iter().find(|(name, ..)| *name == flag) else {
            let known: Vec<_> = BUCKET_FLAGS.iter().map(|(name, ..)| *name).collect();
            return Err(BucketError::UnknownFlag { found: flag.to_owned(), expected: known.join(", ") });
        };
        match takes {
            BucketFlag::Rule => self.with_rule(group, value),
            BucketFlag::List => match numbers(value.split_whitespace()) {
                Some(edges) => self.with(group, edges),
                None => Err(BucketError::NotRising { group: (*group).to_owned(), found: value.to_owned() }),
            },
        }
    }

    /// These and the edges of one group.
    fn with(mut self, group: &str, edges: Vec<f64>) -> Result<Self, BucketError> {
        let rising = edges.windows(2).all(|pair| pair[0] < pair[1]);
        if edges.is_empty() || !rising || edges.iter().any(|edge| !edge.is_finite()) {
            let found = edges.iter().map(|&edge| number::spell(edge)).collect::<Vec<_>>().join(" ");
            return Err(BucketError::NotRising { group: group.to_owned(), found });
        }
        self.0.insert(group.to_owned(), edges);
        Ok(self)
    }

    /// These and what a rule gives: `default` changes nothing, `tse` goes from a middle to both sides in steps that
    /// grow by a base, `custom` lists edges.
    fn with_rule(self, group: &str, rule: &str) -> Result<Self, BucketError> {
        let wrong = || BucketError::NotARule(rule.to_owned());
        let mut words = rule.split_whitespace();
        let name = words.next().ok_or_else(wrong)?;
        match (name, numbers(words).ok_or_else(wrong)?.as_slice()) {
            ("default", []) => Ok(self),
            ("custom", edges) => self.with(group, sorted(edges.iter().copied())),
            ("tse", &[middle, base, count]) if base > 1.0 && count >= 0.0 => {
                let edges = two_sided(middle, base, count).ok_or_else(wrong)?;
                self.with(group, edges)
            }
            _ => Err(wrong()),
        }
    }

    /// The edges of a group, if a flag changed them.
    #[must_use]
    pub fn get(&self, group: &str) -> Option<&[f64]> {
        self.0.get(group).map(Vec::as_slice)
    }
}

/// Words as finite numbers.
fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Option<Vec<f64>> {
    words.map(|word| number::parse(word).filter(|number| number.is_finite())).collect()
}

/// The middle, and on both sides half of `count` edges whose distances are powers of the base; none below 0.
fn two_sided(middle: f64, base: f64, count: f64) -> Option<Vec<f64>> {
    let half = (count / 2.0).ceil();
    if half > f64::from(RULE_EDGES_MAX) {
        return None;
    }
    let mut edges = vec![middle];
    let mut distance = 1.0;
    for _ in (0..RULE_EDGES_MAX).take_while(|&at| f64::from(at) < half) {
        distance *= base;
        edges.extend([middle + distance, f64::max(0.0, middle - distance)]);
    }
    Some(sorted(edges.into_iter()))
}

/// In order, each once.
fn sorted(edges: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut edges: Vec<f64> = edges.collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vllm_s_flag_is_read() {
        let buckets =
            Buckets::vllm(r#"{"request_latency": [0.05, 0.1, 2], "request_tokens": [10]}"#).unwrap();
        assert_eq!(buckets.get("request_latency"), Some(&[0.05, 0.1, 2.0][..]));
        assert_eq!(buckets.get("request_tokens"), Some(&[10.0][..]));
        assert_eq!(buckets.get("inter_token_latency"), None);
        for wrong in ["[1]", r#"{"ttft":[1]}"#, r#"{"request_latency":[2,1]}"#, r#"{"request_latency":[]}"#] {
            assert!(Buckets::vllm(wrong).is_err(), "{wrong}");
        }
        let unknown = Buckets::vllm(r#"{"ttft":[1]}"#).unwrap_err().to_string();
        assert!(unknown.contains("\"ttft\"") && unknown.contains("time_to_first_token"), "{unknown}");
    }

    /// Expected edges from SGLang's own function (`two_sides_exponential_buckets`), run by hand.
    #[test]
    fn sglang_s_rules_are_read() {
        let of = |rule| Buckets::default().with_sglang("--prompt-tokens-buckets", rule);
        let edges = |rule| of(rule).unwrap().get("prompt_tokens").map(<[f64]>::to_vec);
        assert_eq!(edges("default"), None);
        assert_eq!(edges("custom 500 100 100"), Some(vec![100.0, 500.0]));
        assert_eq!(
            edges("tse 1000 2 8"),
            Some(vec![984.0, 992.0, 996.0, 998.0, 1000.0, 1002.0, 1004.0, 1008.0, 1016.0])
        );
        assert_eq!(edges("tse 3 2 3"), Some(vec![0.0, 1.0, 3.0, 5.0, 7.0]));
        for wrong in ["", "tse 1 1 4", "tse 1 2", "custom", "custom x", "default 1", "exp 1 2", "tse 1 2 1e9"]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        let list = |value| Buckets::default().with_sglang("--bucket-e2e-request-latency", value);
        assert_eq!(list("0.5 1 2.5").unwrap().get("e2e_request_latency"), Some(&[0.5, 1.0, 2.5][..]));
        for wrong in ["", "1 1", "2 1", "1 x", "1 inf"] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
        let unknown = Buckets::default().with_sglang("--bucket-ttft", "1").unwrap_err().to_string();
        assert!(unknown.contains("--bucket-time-to-first-token"), "{unknown}");
    }
}
