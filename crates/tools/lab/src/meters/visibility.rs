//! Visibility of a write of one server on another server. Pure.
//!
//! A row holds a number that only grows. A reader that sees number 7 sees all writes up to 7.
//! Times are microseconds since the meter began.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub row: u32,
    pub number: u64,
    pub at_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    pub row: u32,
    pub number: u64,
    /// Start of the read: what it shows was visible then, or a moment later.
    pub at_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The first read after the OK showed it.
    AtOnce,
    /// The first read that showed it began this many microseconds after the OK.
    After(u64),
    Never,
}

impl Seen {
    /// Whether a read after the OK missed the write.
    pub fn is_stale(self) -> bool {
        self != Seen::AtOnce
    }
}

/// Classifies a write by the reads after it, in their order: when each began, and what number it
/// showed.
pub fn classify(written: Written, reads: &[(u64, u64)]) -> Seen {
    let shows = |(_, shown): &&(u64, u64)| *shown >= written.number;
    match reads.iter().find(shows) {
        Some(read) if Some(read) == reads.first() => Seen::AtOnce,
        Some((begun_us, _)) => Seen::After(begun_us.saturating_sub(written.at_us)),
        None => Seen::Never,
    }
}

/// Delay until each write became visible to a reader that looks again and again, in microseconds;
/// none for a write that it never saw. Writes seen before the client was told are not late.
pub fn lateness(written: &[Written], sightings: &[Sighting]) -> Vec<Option<u64>> {
    let mut by_row: BTreeMap<u32, Vec<&Sighting>> = BTreeMap::new();
    for sighting in sightings {
        by_row.entry(sighting.row).or_default().push(sighting);
    }
    let late = |write: &Written| {
        let row = by_row.get(&write.row)?;
        // Numbers only grow, so the first that is great enough can be searched.
        let at = row.partition_point(|sighting| sighting.number < write.number);
        let seen = row.get(at)?;
        Some(seen.at_us.saturating_sub(write.at_us))
    };
    written.iter().map(late).collect()
}

/// Age of the oldest write that was acknowledged before a read began and that the read missed, in
/// microseconds; none if it missed none. The writes are those of the read's row, in their order.
pub fn staleness(written: &[Written], read: Sighting) -> Option<u64> {
    let missed = written.partition_point(|write| write.number <= read.number);
    read.at_us.checked_sub(written.get(missed)?.at_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Written = Written {
        row: 1,
        number: 7,
        at_us: 1000,
    };

    #[test]
    fn read_is_as_stale_as_the_oldest_acknowledged_write_that_it_misses() {
        let write = |number, at_us| Written {
            row: 1,
            number,
            at_us,
        };
        let written = [write(1, 100), write(2, 200), write(4, 400)];
        let read = |number, at_us| Sighting {
            row: 1,
            number,
            at_us,
        };
        assert_eq!(staleness(&written, read(4, 900)), None);
        assert_eq!(staleness(&written, read(1, 900)), Some(700));
        assert_eq!(staleness(&written, read(2, 900)), Some(500));
        // Shown before the client was told; missed before it was told.
        assert_eq!(staleness(&written, read(2, 150)), None);
        assert_eq!(staleness(&written, read(0, 50)), None);
    }

    #[test]
    fn first_read_decides_whether_a_write_is_stale() {
        assert_eq!(classify(WRITE, &[(1001, 7)]), Seen::AtOnce);
        assert_eq!(classify(WRITE, &[(1001, 9)]), Seen::AtOnce);
        let late = classify(WRITE, &[(1001, 6), (1500, 6), (1900, 8), (2500, 8)]);
        assert_eq!(late, Seen::After(900));
        assert!(late.is_stale() && !Seen::AtOnce.is_stale());
    }

    #[test]
    fn write_that_no_read_shows_was_never_seen() {
        assert_eq!(classify(WRITE, &[(1001, 6)]), Seen::Never);
        assert_eq!(classify(WRITE, &[]), Seen::Never);
        assert!(Seen::Never.is_stale());
    }

    #[test]
    fn lateness_is_up_to_the_first_sighting_of_that_number_or_more() {
        let sighting = |row, number, at_us| Sighting { row, number, at_us };
        let write = |row, number, at_us| Written { row, number, at_us };
        let sightings = [
            sighting(1, 1, 100),
            sighting(2, 4, 100),
            sighting(1, 1, 200),
            sighting(1, 3, 900),
        ];
        let written = [
            write(1, 1, 150), // was visible before its client was told
            write(1, 2, 300), // passed over by number 3
            write(1, 3, 850),
            write(2, 5, 100), // row 2 stayed at 4
            write(3, 1, 0),   // a row that was never read
        ];
        let late = lateness(&written, &sightings);
        assert_eq!(late, [Some(0), Some(600), Some(50), None, None]);
    }
}
