//! Plain text in columns and paragraphs: at most [`WIDTH`] columns where the words allow it, no colour, no tabs.

/// Columns of a report: what a chat message and an 80-to-100-column terminal show without breaking lines.
pub(crate) const WIDTH: usize = 100;

/// Breaks text at blanks so that no line is longer than `width`; a single longer word keeps its line.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if columns(line) + 1 + columns(word) <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A paragraph whose first line begins with `label` and whose others are indented as far, each ending with a newline.
#[must_use]
pub fn paragraph(label: &str, text: &str) -> String {
    let indent = columns(label);
    let mut out = String::new();
    for (i, line) in wrap(text, WIDTH.saturating_sub(indent)).iter().enumerate() {
        let head = if i == 0 { label.to_owned() } else { " ".repeat(indent) };
        out += format!("{head}{line}").trim_end();
        out.push('\n');
    }
    out
}

/// Rows under a head: the first column to the left, the others to the right, two blanks between.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let widths = widths(rows);
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(i, (cell, &width))| {
                let pad = " ".repeat(width - columns(cell));
                if i == 0 { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
            })
            .collect();
        out += cells.join("  ").trim_end();
        out.push('\n');
    }
    out
}

/// Columns that a table takes.
pub(crate) fn table_width(rows: &[Vec<String>]) -> usize {
    let widths = widths(rows);
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths = vec![0; rows.iter().map(Vec::len).max().unwrap_or(0)];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns(cell));
        }
    }
    widths
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paragraphs_hang_under_their_label() {
        let text = paragraph("load  ", &"word ".repeat(20));
        let expected = format!("load  {}\n      {}\n", ["word"; 19].join(" "), "word");
        assert_eq!(text, expected);
        assert_eq!(paragraph("empty ", ""), "empty\n");
    }

    #[test]
    fn tables_align() {
        let rows = [["", "n"], ["TTFT", "1,000"], ["E2E", "5"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "          n\nTTFT  1,000\nE2E       5\n");
        assert_eq!(table_width(&rows), 11);
        assert_eq!(table_width(&[]), 0);
    }

    proptest! {
        #[test]
        fn wrapping_keeps_the_words_and_the_width(words in proptest::collection::vec("[a-z]{1,12}", 0..40)) {
            let lines = wrap(&words.join(" "), 20);
            prop_assert!(lines.iter().all(|line| columns(line) <= 20));
            prop_assert_eq!(lines.join(" "), words.join(" "));
        }
    }
}
