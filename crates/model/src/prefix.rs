//! Names of contents: the chained hashes by which a prefix cache finds a block.
//!
//! The hash of block i covers all tokens up to its end, so equal hashes mean equal prefixes (up to collisions of 64
//! bits). Only whole blocks have one, as in vLLM and SGLang.

/// The chained hashes of the whole blocks of `tokens`, `block_size` tokens each; a token is anything that stands for
/// its identity, an id or a hash of its own.
#[must_use]
pub fn block_hashes(tokens: impl IntoIterator<Item = u64>, block_size: u32) -> Vec<u64> {
    let mut hashes = Vec::new();
    let (mut state, mut filled) = (0x6a09_e667_f3bc_c908_u64, 0);
    for token in tokens {
        state = mix(state ^ mix(token));
        filled += 1;
        if filled == block_size {
            hashes.push(state);
            filled = 0;
        }
    }
    hashes
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014), a bijection that spreads every bit.
pub(crate) const fn mix(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_up_to_where_the_contents_part_and_never_after() {
        let a = block_hashes(0..64, 16);
        let b = block_hashes((0..64).map(|i| if i == 20 { 99 } else { i }), 16);
        assert_eq!((a.len(), a[0]), (4, b[0]));
        assert!((1..4).all(|i| a[i] != b[i]));
    }

    #[test]
    fn a_block_that_is_not_full_has_no_name() {
        assert_eq!(block_hashes(0..31, 16).len(), 1);
        assert!(block_hashes([], 16).is_empty());
    }

    #[test]
    fn the_order_of_tokens_matters() {
        assert_ne!(block_hashes([1, 2], 2), block_hashes([2, 1], 2));
    }
}
