//! Counts by key, for keys that come again and again: one look-up a sample.
//!
//! Open addressing with linear probing (Knuth, The Art of Computer Programming 3, 6.4). Where a key lies depends on the
//! keys before it, what is counted does not.
//!
//! Memory: 16 bytes a place, and at least half of the places are taken once there are a few; both sizes for a moment
//! while it grows.

/// A key and how often it came, at least once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    pub(crate) count: u64,
}

/// A place that is free.
const FREE: Entry = Entry { key: 0, count: 0 };

/// Counts by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    places: Vec<Entry>,
    used: usize,
}

impl Table {
    /// Number of different keys.
    pub(crate) const fn len(&self) -> usize {
        self.used
    }

    /// Every key, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.places.iter().copied().filter(|entry| entry.count > 0)
    }

    /// Adds to the count of a key, which is at least one.
    pub(crate) fn add(&mut self, entry: Entry) {
        if self.used * 5 >= self.places.len() * 4 {
            self.grow(self.places.len() * 3 / 2 + 16);
        }
        let place = self.find(entry.key);
        let taken = self.places[place].count;
        self.used += usize::from(taken == 0);
        self.places[place] = Entry { key: entry.key, count: taken + entry.count };
    }

    /// Makes room for this many keys. To be called before another table is added key by key: its keys come in the order
    /// of their places, and would crowd together in the first places of a table that is still to grow.
    pub(crate) fn reserve(&mut self, keys: usize) {
        let places = keys * 5 / 4 + 16;
        if places > self.places.len() {
            self.grow(places);
        }
    }

    /// All keys in ascending order.
    pub(crate) fn into_sorted(mut self) -> Vec<Entry> {
        self.places.retain(|entry| entry.count > 0);
        self.places.sort_unstable();
        self.places.shrink_to_fit();
        self.places
    }

    /// The place of a key, or the free one where it belongs. There always is one.
    fn find(&self, key: u64) -> usize {
        // The high half of the product spreads over any number of places (Lemire 2019, on an odd multiplier's hash).
        let hash = u128::from(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut place = ((hash * self.places.len() as u128) >> 64) as usize;
        while self.places[place].count > 0 && self.places[place].key != key {
            place += 1;
            if place == self.places.len() {
                place = 0;
            }
        }
        place
    }

    fn grow(&mut self, places: usize) {
        let smaller = std::mem::replace(&mut self.places, vec![FREE; places]);
        for entry in smaller.into_iter().filter(|entry| entry.count > 0) {
            let place = self.find(entry.key);
            self.places[place] = entry;
        }
    }
}
