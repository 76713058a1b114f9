//! Laws for any bytes at all: nothing panics, what was read can be written and reads the same again, and every
//! quantile lies where its bucket says.
//!
//! [`exercise`] is the whole body of a fuzz target; the property tests call it too.

use crate::delta::Scrapes;
use crate::expose::{Format, Kind, Page, read};
use crate::histogram::Histogram;

/// Reads `data` as a page, whose first byte picks the format, and holds the laws against it.
///
/// # Panics
/// If one is broken: then there is a bug.
pub fn exercise(data: &[u8]) {
    let [options, bytes @ ..] = data else { return };
    let format = if options & 1 == 0 { Format::Text } else { Format::OpenMetrics };
    let page = read(bytes, format).page;
    let text = page.write();
    let again = read(text.as_bytes(), format);
    assert_eq!(again.faults, [], "what was written can be read");
    assert_eq!(again.page.write(), text, "a page reads the same again");
    drop(read(page.in_text().write().as_bytes(), Format::Text));
    let halves = bytes.split_at(bytes.len() / 2);
    let (before, after) = (read(halves.0, format).page, read(halves.1, format).page);
    for family in page.families.iter().filter(|family| family.kind == Kind::Histogram) {
        quantiles_lie_in_their_buckets(&page, &family.name);
        drop(Scrapes::new(&before, &after).histograms(&family.name));
    }
}

fn quantiles_lie_in_their_buckets(page: &Page, family: &str) {
    let Ok(series) = Histogram::of(page, family) else { return };
    for histogram in series.values() {
        for q in [0.0, 0.5, 0.99, 1.0] {
            let Ok(quantile) = histogram.quantile(q) else { continue };
            let Some(value) = quantile.interpolated.filter(|value| value.is_finite()) else { continue };
            let bounds = quantile.bounds;
            // Within a rounding of the edges themselves; at q = 0 Prometheus may answer from an empty bucket.
            let edges = [bounds.lower(), bounds.upper()].into_iter().flatten();
            let slack = 1e-9 * edges.map(f64::abs).fold(0.0, f64::max);
            let above = bounds.lower().is_none_or(|lower| q == 0.0 || value >= lower - slack);
            let below = bounds.upper().is_none_or(|upper| value <= upper + slack);
            assert!(above && below, "{value} is not {bounds}");
        }
    }
}
