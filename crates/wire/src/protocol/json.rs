//! Field types that take what a server sends: borrowed where possible, and forgiving, since one odd member must
//! not cost the token beside it. A value of the wrong kind counts as absent.

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// What a forgiving field makes of each kind of JSON value. Everything not overridden is absent.
trait Lenient<'de>: Sized + Default {
    fn text(_text: Cow<'de, str>) -> Self {
        Self::default()
    }
    fn number(_number: f64) -> Self {
        Self::default()
    }
    fn array(_length: u32) -> Self {
        Self::default()
    }
    fn object<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        IgnoredAny::deserialize(MapAccessDeserializer::new(map)).map(|_| Self::default())
    }
}

struct LenientVisitor<T>(PhantomData<T>);

impl<'de, T: Lenient<'de>> Visitor<'de> for LenientVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<T, E> {
        Ok(T::text(Cow::Borrowed(v)))
    }
    fn visit_str<E>(self, v: &str) -> Result<T, E> {
        Ok(T::text(Cow::Owned(v.to_owned())))
    }
    fn visit_u64<E>(self, v: u64) -> Result<T, E> {
        Ok(T::number(v as f64))
    }
    fn visit_i64<E>(self, v: i64) -> Result<T, E> {
        Ok(T::number(v as f64))
    }
    fn visit_f64<E>(self, v: f64) -> Result<T, E> {
        Ok(T::number(v))
    }
    fn visit_bool<E>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<T, A::Error> {
        let mut length = 0;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(T::array(length))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::object(map)
    }
}

/// A string, told apart from an absent one.
#[derive(Debug, Default)]
pub(crate) struct Text<'a>(Option<Cow<'a, str>>);

impl Text<'_> {
    /// The string, if there is one.
    pub(crate) fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The string, or an empty one.
    pub(crate) fn or_empty(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether there is a string and it is not empty.
    pub(crate) fn is_filled(&self) -> bool {
        !self.or_empty().is_empty()
    }
}

/// A number, also one written as a string.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Number(Option<f64>);

impl Number {
    /// The number as it is.
    pub(crate) fn get(self) -> Option<f64> {
        self.0
    }

    /// The number as a count: whole and not negative, saturating.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked for sign before, and `as` saturates"
    )]
    pub(crate) fn count(self) -> Option<u32> {
        self.0.filter(|n| *n >= 0.0).map(|n| n as u32)
    }
}

/// The number of elements of an array.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Length(pub(crate) u32);

/// A finish reason: a string (OpenAI) or an object with a type (SGLang's native protocol).
#[derive(Debug, Default)]
pub(crate) struct Finish<'a> {
    kind: Text<'a>,
    message: Text<'a>,
    status_code: Number,
    matched: Text<'a>,
}

impl Finish<'_> {
    /// The reason, if there is one.
    pub(crate) fn kind(&self) -> Option<&str> {
        self.kind.get().filter(|k| !k.is_empty())
    }

    /// Whether it names the stop string that was hit.
    pub(crate) fn names_stop_string(&self) -> bool {
        self.matched.is_filled()
    }

    /// If the engine gave up: the reason, with status and message where they are given.
    pub(crate) fn given_up(&self) -> Option<String> {
        let mut reason = self.kind().filter(|k| matches!(*k, "abort" | "error"))?.to_owned();
        if let Some(status) = self.status_code.count() {
            reason.push_str(&format!(" ({status})"));
        }
        if self.message.is_filled() {
            reason.push_str(": ");
            reason.push_str(self.message.or_empty());
        }
        Some(super::fault::shorten(&reason))
    }
}

/// The members of a finish reason that is an object.
#[derive(Deserialize)]
struct FinishObject<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    message: Text<'a>,
    #[serde(default)]
    status_code: Number,
    #[serde(borrow, default)]
    matched: Text<'a>,
}

impl<'de> Lenient<'de> for Text<'de> {
    fn text(text: Cow<'de, str>) -> Self {
        Self(Some(text))
    }
}

impl<'de> Lenient<'de> for Number {
    fn number(number: f64) -> Self {
        Self(Some(number))
    }
    fn text(text: Cow<'de, str>) -> Self {
        Self(text.trim().parse().ok().filter(|n: &f64| n.is_finite()))
    }
}

impl Lenient<'_> for Length {
    fn array(length: u32) -> Self {
        Self(length)
    }
}

impl<'de> Lenient<'de> for Finish<'de> {
    fn text(text: Cow<'de, str>) -> Self {
        Self { kind: Text(Some(text)), ..Self::default() }
    }
    fn object<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        let FinishObject { kind, message, status_code, matched } =
            FinishObject::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Self { kind, message, status_code, matched })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientVisitor::<Text<'de>>(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Finish<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientVisitor::<Finish<'de>>(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a, T: Deserialize<'a>>(json: &'a str) -> T {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn strings_without_escapes_are_borrowed() {
        assert!(matches!(of::<Text<'_>>(r#""plain é""#).0, Some(Cow::Borrowed("plain é"))));
        assert!(matches!(of::<Text<'_>>(r#""a\nb""#).0, Some(Cow::Owned(s)) if s == "a\nb"));
    }

    #[test]
    fn the_wrong_kind_is_absent() {
        for json in ["null", "1", "-2", "1.5", "true", "[1,[2]]", r#"{"a":{"b":1}}"#] {
            assert_eq!(of::<Text<'_>>(json).get(), None, "{json}");
        }
        for json in ["null", "true", "[]", "{}", r#""x""#, r#""""#] {
            assert_eq!(of::<Number>(json).get(), None, "{json}");
        }
        assert_eq!(of::<Length>(r#"{"a":1}"#).0, 0);
        assert_eq!(of::<Length>("[1,[],{}]").0, 3);
    }

    #[test]
    fn counts_are_taken_as_given() {
        for (json, count) in
            [("7", Some(7)), ("7.0", Some(7)), (r#""7""#, Some(7)), ("-1", None), ("1e12", Some(u32::MAX))]
        {
            assert_eq!(of::<Number>(json).count(), count, "{json}");
        }
    }

    #[test]
    fn both_kinds_of_finish_reason() {
        assert_eq!(of::<Finish<'_>>(r#""stop""#).kind(), Some("stop"));
        assert_eq!(of::<Finish<'_>>("null").kind(), None);
        assert_eq!(of::<Finish<'_>>(r#""""#).kind(), None);
        let abort = r#"{"type":"abort","message":"queue is full","status_code":503,"err_type":null}"#;
        assert_eq!(of::<Finish<'_>>(abort).given_up().as_deref(), Some("abort (503): queue is full"));
        let stop = r#"{"type":"stop","matched":"\n\n"}"#;
        assert!(of::<Finish<'_>>(stop).names_stop_string());
        assert!(!of::<Finish<'_>>(r#"{"type":"stop","matched":2}"#).names_stop_string());
    }
}
