//! How many tokens a chunk and an answer carry, and how that is known.
//!
//! Best first: the server's cumulative count, token ids, log-probability entries, one per chunk with output. The
//! order and the words are those of [`TokenSource`]. What was asked for is never taken for what came.

use crate::protocol::Piece;
use goodput_core::timeline::ChunkFlags;
use goodput_core::tokens::{TokenCount, TokenSource};

/// The counts of one choice.
#[derive(Debug, Default)]
pub(crate) struct ChoiceTally {
    /// Tokens given to the chunks of this choice so far.
    given: u32,
    /// The server's last cumulative count for this choice.
    count: Option<u32>,
}

/// The counts of one answer.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Whether the server counts along with the chunks, or only once; known with the first output.
    continuous: Option<bool>,
    /// The server's last count for the whole answer.
    whole: Option<u32>,
    /// Chunks with output.
    chunks: u32,
    /// Tokens given to the chunks.
    given: u32,
    /// Tokens known by ids, and the chunks that had any.
    ids: (u32, u32),
    /// Tokens known by log-probabilities, and the chunks that had any.
    logprobs: (u32, u32),
}

impl Tally {
    /// The tokens of one chunk.
    pub(crate) fn chunk(&mut self, choice: &mut ChoiceTally, piece: &Piece<'_>) -> (u32, TokenSource) {
        let output = piece.flags.any(ChunkFlags::OUTPUT) || piece.logprobs > 0;
        if self.continuous.is_none() {
            // A count that comes only with the end says nothing about this chunk.
            let early = piece.count.is_some() && !piece.flags.has(ChunkFlags::FINISH);
            if output || early {
                self.continuous = Some(piece.count.is_some());
            }
        }
        let (tokens, source) = match (self.continuous, piece.count) {
            (Some(true), Some(count)) => {
                choice.count = Some(count);
                (count.saturating_sub(choice.given), TokenSource::Server)
            }
            (_, count) => {
                self.whole = count.or(self.whole);
                if piece.ids > 0 {
                    (piece.ids, TokenSource::Ids)
                } else if piece.logprobs > 0 {
                    (piece.logprobs, TokenSource::Logprobs)
                } else {
                    (u32::from(output), TokenSource::Chunks)
                }
            }
        };
        choice.given = choice.given.saturating_add(tokens);
        self.given = self.given.saturating_add(tokens);
        if piece.flags.any(ChunkFlags::OUTPUT) || tokens > 0 {
            self.chunks += 1;
            for (sum, n) in [(&mut self.ids, piece.ids), (&mut self.logprobs, piece.logprobs)] {
                *sum = (sum.0.saturating_add(n), sum.1 + u32::from(n > 0));
            }
        }
        (tokens, source)
    }

    /// The server's count for the answer as a whole: an event without choices, or with several.
    pub(crate) fn whole(&mut self, count: Option<u32>) {
        self.whole = count.or(self.whole);
    }

    /// Tokens of the answer. `choices` are the tallies of all choices seen.
    pub(crate) fn output<'a>(
        &self,
        choices: impl Iterator<Item = &'a ChoiceTally> + Clone,
    ) -> Option<TokenCount> {
        let summed: u32 = choices.filter_map(|c| c.count).fold(0, u32::saturating_add);
        let every = |(count, chunks): (u32, u32)| (count > 0 && chunks == self.chunks).then_some(count);
        let server = self.whole.filter(|&n| n > 0).or((summed > 0).then_some(summed));
        let known = [
            (server, TokenSource::Server),
            (every(self.ids), TokenSource::Ids),
            (every(self.logprobs), TokenSource::Logprobs),
            ((self.given > 0).then_some(self.given), TokenSource::Chunks),
        ];
        known.into_iter().find_map(|(count, source)| Some(TokenCount { count: count?, source }))
    }

    /// Whether any chunk carried output.
    pub(crate) fn has_output(&self) -> bool {
        self.chunks > 0
    }

    /// What does not add up, in words.
    pub(crate) fn disagreement(&self, output: Option<TokenCount>) -> Option<String> {
        let zero = self.whole == Some(0) && self.given > 0;
        if zero {
            return Some("the server counted 0 output tokens although it sent output".to_owned());
        }
        let total = output.filter(|o| o.source == TokenSource::Server && self.chunks > 0)?.count;
        let given = self.given;
        (total != given)
            .then(|| format!("the server counted {total} output tokens, the chunks account for {given}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chunk: flags, ids, log-probability entries, count.
    type Row = (ChunkFlags, u32, u32, Option<u32>);

    fn run(rows: &[Row]) -> (Vec<(u32, TokenSource)>, Option<TokenCount>) {
        let mut tally = Tally::default();
        let mut choice = ChoiceTally::default();
        let chunks = rows
            .iter()
            .map(|&(flags, ids, logprobs, count)| {
                let piece = Piece { index: 0, flags, ids, logprobs, count, finish: None, stop_string: false };
                tally.chunk(&mut choice, &piece)
            })
            .collect();
        (chunks, tally.output(std::iter::once(&choice)))
    }

    const NONE: ChunkFlags = ChunkFlags::CHOICES;
    const TEXT: ChunkFlags = ChunkFlags::TEXT;
    const FINISH: ChunkFlags = ChunkFlags::FINISH;
    use TokenSource::{Chunks, Ids, Logprobs, Server};

    fn total(count: u32, source: TokenSource) -> Option<TokenCount> {
        Some(TokenCount { count, source })
    }

    #[test]
    fn running_counts_are_told_apart() {
        let (chunks, n) = run(&[
            (NONE, 0, 0, Some(0)),
            (TEXT, 0, 0, Some(3)),
            (NONE, 0, 0, Some(4)),
            (TEXT, 0, 0, None),
            (TEXT, 0, 0, Some(7)),
            (FINISH, 0, 0, Some(8)),
        ]);
        assert_eq!(chunks, [(0, Server), (3, Server), (1, Server), (1, Chunks), (2, Server), (1, Server)]);
        assert_eq!(n, total(8, Server));
    }

    #[test]
    fn a_count_at_the_end_is_no_chunk_s_own() {
        let (chunks, n) = run(&[(TEXT, 0, 0, None), (TEXT, 0, 0, None), (FINISH, 0, 0, Some(7))]);
        assert_eq!(chunks, [(1, Chunks), (1, Chunks), (0, Chunks)]);
        assert_eq!(n, total(7, Server));
        let (chunks, n) = run(&[(FINISH, 0, 0, Some(1))]);
        assert_eq!((chunks, n), (vec![(0, Chunks)], total(1, Server)));
    }

    #[test]
    fn ids_and_log_probabilities_count_if_every_chunk_has_them() {
        let (chunks, n) = run(&[(TEXT | ChunkFlags::IDS, 2, 9, None), (ChunkFlags::IDS, 1, 9, None)]);
        assert_eq!((chunks, n), (vec![(2, Ids), (1, Ids)], total(3, Ids)));
        let (chunks, n) = run(&[(TEXT, 0, 2, None), (NONE, 0, 1, None)]);
        assert_eq!((chunks, n), (vec![(2, Logprobs), (1, Logprobs)], total(3, Logprobs)));
        let (_, n) = run(&[(TEXT, 2, 0, None), (TEXT, 0, 0, None)]);
        assert_eq!(n, total(3, Chunks));
    }

    #[test]
    fn nothing_is_not_zero_tokens() {
        assert_eq!(run(&[]).1, None);
        assert_eq!(run(&[(NONE, 0, 0, None)]).1, None);
        assert_eq!(run(&[(TEXT, 0, 0, None), (FINISH, 0, 0, Some(0))]).1, total(1, Chunks));
    }
}
