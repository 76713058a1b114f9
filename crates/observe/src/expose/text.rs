//! A place in a line: the smallest parts of both formats.

/// What is left of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a str,
}

/// How much of a line a message quotes, in characters.
const QUOTED_MAX: usize = 40;

impl<'a> Cursor<'a> {
    pub(super) const fn new(line: &'a str) -> Self {
        Self { rest: line }
    }

    pub(super) const fn rest(self) -> &'a str {
        self.rest
    }

    pub(super) const fn is_done(self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn at(self, char: char) -> bool {
        self.rest.starts_with(char)
    }

    /// Takes this character, if it is the next one.
    pub(super) fn take(&mut self, char: char) -> bool {
        let found = self.rest.strip_prefix(char);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    /// Passes blanks and tabs; whether there were any.
    pub(super) fn skip_blanks(&mut self) -> bool {
        let before = self.rest.len();
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        self.rest.len() < before
    }

    /// All up to the next blank.
    pub(super) fn word(&mut self) -> &'a str {
        self.split(self.rest.find([' ', '\t']).unwrap_or(self.rest.len()))
    }

    /// A name: letters, digits and underscores, not beginning with a digit; colons too in a metric's.
    pub(super) fn name(&mut self, metric: bool) -> Result<&'a str, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || (metric && c == ':');
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        if end == 0 || self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            let what = if metric { "a metric name" } else { "a label name or `}`" };
            return Err(format!("expected {what}, found {}", self.found()));
        }
        Ok(self.split(end))
    }

    /// A label value in quotes, with the escapes `\\`, `\"` and `\n`.
    pub(super) fn quoted(&mut self) -> Result<String, String> {
        if !self.take('"') {
            return Err(format!("expected a label value in quotes, found {}", self.found()));
        }
        let mut value = String::new();
        loop {
            let plain = self.rest.find(['"', '\\']).ok_or("expected `\"` at the end of a label value")?;
            value.push_str(self.split(plain));
            if self.take('"') {
                return Ok(value);
            }
            self.take('\\');
            value.push(match self.rest.chars().next() {
                Some('n') => '\n',
                Some(c @ ('\\' | '"')) => c,
                _ => {
                    return Err(format!(
                        "expected `\\\\`, `\\\"` or `\\n` after a backslash, found {}",
                        self.found()
                    ));
                }
            });
            self.split(1);
        }
    }

    /// The rest of the line as a message quotes it.
    pub(super) fn found(self) -> String {
        if self.rest.is_empty() {
            return "the end of the line".to_owned();
        }
        match self.rest.char_indices().nth(QUOTED_MAX) {
            None => format!("`{}`", self.rest),
            Some((end, _)) => format!("`{}...`", &self.rest[..end]),
        }
    }

    fn split(&mut self, at: usize) -> &'a str {
        let (before, after) = self.rest.split_at(at);
        self.rest = after;
        before
    }
}
