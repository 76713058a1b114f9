//! Step times and KV room from what a model and a chip are: parameters and layers, FLOP/s and bytes/s.
//!
//! Every multiply-add is two FLOPs. A token goes through all parameters once (2 FLOPs each), a step reads the weights
//! once, a decoding sequence reads its KV cache once, and attention of one token to one token before it is 4 FLOPs per
//! layer and query dimension (a product for the score, one for the value). Under tensor parallelism all of it is divided,
//! and each layer adds two all-reduces: a latency once a step, and the bytes of a ring all-reduce per token (Shoeybi et
//! al. 2019, Megatron-LM). What share of its datasheet a chip reaches is an assumption of the profile, not a measurement.

use crate::cost::StepCost;
use serde::{Deserialize, Serialize};

/// A dense decoder-only transformer with grouped-query attention, as its model card and configuration file give it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Model {
    /// Name as a server would say it.
    pub name: String,
    /// All parameters.
    pub parameters: f64,
    /// Transformer layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Query heads of a layer.
    pub attention_heads: u32,
    /// Key and value heads of a layer.
    pub kv_heads: u32,
    /// Dimensions of a head.
    pub head_dim: u32,
    /// Bytes of a weight.
    pub weight_bytes: f64,
    /// Bytes of a cached key or value element.
    pub kv_bytes: f64,
    /// Where the figures come from.
    pub source: String,
}

/// One accelerator, as its datasheet gives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Chip {
    /// Name.
    pub name: String,
    /// Dense 16-bit tensor FLOP/s, in units of 10^12.
    pub tflops: f64,
    /// Memory bandwidth in GB/s (10^9 bytes).
    pub memory_gb_per_s: f64,
    /// Memory in GB (10^9 bytes).
    pub memory_gb: f64,
    /// Bytes that a chip sends to the others in a second, in GB (10^9 bytes), one direction.
    pub link_gb_per_s: f64,
    /// Where the figures come from.
    pub source: String,
}

/// How much of its datasheet a chip reaches, and what a step costs besides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Efficiency {
    /// Share of the FLOP/s.
    pub compute: f64,
    /// Share of the memory and link bandwidth.
    pub bandwidth: f64,
    /// Microseconds of scheduling, launching and sampling a step.
    pub step_overhead_us: f64,
    /// Microseconds of latency of one all-reduce.
    pub all_reduce_us: f64,
    /// Memory in GB (10^9 bytes) a chip that holds neither weights nor KV cache: activations, graphs, the runtime.
    pub reserved_gb: f64,
    /// Where the assumptions come from.
    pub source: String,
}

impl Model {
    /// Bytes of all weights.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.parameters * self.weight_bytes
    }

    /// Bytes of the KV cache of one token: a key and a value per layer and KV head.
    #[must_use]
    pub fn kv_bytes_per_token(&self) -> f64 {
        2.0 * f64::from(self.layers) * f64::from(self.kv_heads) * f64::from(self.head_dim) * self.kv_bytes
    }
}

/// The constants of a step's time for a model on `chips` chips.
#[must_use]
pub fn step_cost(model: &Model, chip: &Chip, chips: u32, efficiency: &Efficiency) -> StepCost {
    let n = f64::from(chips);
    // Units: 10^12 FLOP/s are 10^3 FLOPs a nanosecond, 10^9 bytes/s are 1 byte a nanosecond.
    let flops_per_ns = chip.tflops * 1e3 * efficiency.compute * n;
    let bytes_per_ns = chip.memory_gb_per_s * efficiency.bandwidth * n;
    let reduces = if chips > 1 { 2.0 * f64::from(model.layers) } else { 0.0 };
    let activation = f64::from(model.hidden_size) * 2.0;
    let reduced_bytes = reduces * activation * 2.0 * (n - 1.0) / n;
    let token =
        2.0 * model.parameters / flops_per_ns + reduced_bytes / (chip.link_gb_per_s * efficiency.bandwidth);
    let query = f64::from(model.attention_heads) * f64::from(model.head_dim);
    StepCost {
        base: model.bytes() / bytes_per_ns
            + efficiency.step_overhead_us * 1e3
            + reduces * efficiency.all_reduce_us * 1e3,
        prefill_token: token,
        prefill_pair: 4.0 * f64::from(model.layers) * query / flops_per_ns,
        decode_token: token,
        kv_token: model.kv_bytes_per_token() / bytes_per_ns,
        draft_position: 0.0,
    }
}

/// Tokens of KV cache that fit beside the weights when `utilization` of each chip's memory may be used. 0 if the weights
/// do not fit.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and a negative room is no room"
)]
pub fn kv_tokens(model: &Model, chip: &Chip, chips: u32, room: (f64, &Efficiency)) -> u64 {
    let (utilization, efficiency) = room;
    let per_chip = chip.memory_gb * 1e9 * utilization - efficiency.reserved_gb * 1e9;
    let left = per_chip * f64::from(chips) - model.bytes();
    (left / model.kv_bytes_per_token()).floor() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        Model {
            name: "m".into(),
            parameters: 8e9,
            layers: 32,
            hidden_size: 4_096,
            attention_heads: 32,
            kv_heads: 8,
            head_dim: 128,
            weight_bytes: 2.0,
            kv_bytes: 2.0,
            source: String::new(),
        }
    }

    fn chip() -> Chip {
        Chip {
            name: "c".into(),
            tflops: 1_000.0,
            memory_gb_per_s: 4_000.0,
            memory_gb: 80.0,
            link_gb_per_s: 400.0,
            source: String::new(),
        }
    }

    fn ideal() -> Efficiency {
        Efficiency {
            compute: 1.0,
            bandwidth: 1.0,
            step_overhead_us: 0.0,
            all_reduce_us: 0.0,
            reserved_gb: 0.0,
            source: String::new(),
        }
    }

    #[test]
    fn one_chip_by_hand() {
        let cost = step_cost(&model(), &chip(), 1, &ideal());
        assert_eq!(model().kv_bytes_per_token(), 131_072.0);
        assert_eq!(cost.base, 4e6, "16 GB at 4 TB/s are 4 ms");
        assert_eq!(cost.prefill_token, 16_000.0, "16 GFLOP at 1 PFLOP/s are 16 us");
        assert_eq!(cost.kv_token, 131_072.0 / 4_000.0);
        assert_eq!(cost.prefill_pair, 4.0 * 32.0 * 4_096.0 / 1e6);
        assert_eq!(kv_tokens(&model(), &chip(), 1, (0.9, &ideal())), (56e9_f64 / 131_072.0) as u64);
    }

    #[test]
    fn more_chips_divide_the_work_and_add_the_exchange() {
        let one = step_cost(&model(), &chip(), 1, &ideal());
        let four = step_cost(&model(), &chip(), 4, &Efficiency { all_reduce_us: 10.0, ..ideal() });
        assert_eq!(four.base, one.base / 4.0 + 64.0 * 10_000.0);
        // 64 all-reduces of 8,192 bytes, 1.5 times over the link of 400 bytes a nanosecond.
        assert_eq!(four.prefill_token, one.prefill_token / 4.0 + 64.0 * 8_192.0 * 1.5 / 400.0);
        assert_eq!(four.kv_token, one.kv_token / 4.0);
        assert_eq!(kv_tokens(&model(), &chip(), 4, (0.5, &ideal())), (144e9_f64 / 131_072.0) as u64);
    }

    #[test]
    fn weights_that_do_not_fit_leave_no_room() {
        assert_eq!(kv_tokens(&model(), &chip(), 1, (0.1, &ideal())), 0);
    }
}
