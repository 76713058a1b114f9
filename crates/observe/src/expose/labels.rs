//! The labels of a series: names with values, compared as a set.

use super::write::escape;
use std::collections::BTreeMap;
use std::fmt;

/// Label names with their values. Two series are the same if these are, in whatever order they were written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Labels from pairs; of two pairs with one name the later stays.
    pub fn new<N: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// The value of a label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// These labels and one more, or one changed.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut labels = self.clone();
        labels.0.insert(name.to_owned(), value.to_owned());
        labels
    }

    /// These labels without one.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut labels = self.clone();
        labels.0.remove(name);
        labels
    }

    /// Names with values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a label that is not there yet; whether it was not.
    pub(super) fn insert(&mut self, name: &str, value: String) -> bool {
        self.0.insert(name.to_owned(), value).is_none()
    }
}

/// `{a="x",b="y"}` by name, with the escapes of both formats; nothing at all without labels.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            write!(f, "{open}{name}=\"{}\"", escape(value, true))?;
        }
        if self.is_empty() { Ok(()) } else { f.write_str("}") }
    }
}
