//! Meaning of a TIMESTAMP column with neither NULL nor DEFAULT: the session's
//! `explicit_defaults_for_timestamp`.
//!
//! Newer versions of MariaDB write it as a bit of a statement's flags, and take it from there if
//! the format that a binlog begins with names such a version. Readers of relays are told so in any
//! case. So a statement of an older upstream gets the bit here: its variable is the whole server's.

use std::str::FromStr;

use synod_binlog::EventError;
use synod_binlog::query::{self, Query};

use super::raw::RawEvent;

/// The first versions that write the bit, of each series that has older ones.
const WRITTEN_SINCE: [[u32; 3]; 5] = [[10, 5, 17], [10, 6, 9], [10, 7, 5], [10, 8, 4], [10, 9, 2]];
/// The status variable with the flags comes first; the bit is in the last one of its four bytes.
const FLAGS: u8 = 0;
const FLAGS_BYTES: usize = 4;
const BIT: u8 = 1;

/// Whether a server of MariaDB with this version writes the bit.
pub(super) fn are_written(version: &str) -> bool {
    let numbers = version.trim_start_matches("5.5.5-").split(['.', '-']);
    let mut numbers = numbers.map(|number| u32::from_str(number).unwrap_or_default());
    let mut next = || numbers.next().unwrap_or_default();
    let version = [next(), next(), next()];
    let series = WRITTEN_SINCE
        .iter()
        .find(|first| first[..2] == version[..2]);
    series.map_or(version >= [10, 10, 0], |first| version >= *first)
}

/// A statement that says what its server had; another event as it is.
pub(super) fn told(event: RawEvent, are_set: bool) -> Result<RawEvent, EventError> {
    if !event.event_type().is_query() {
        return Ok(event);
    }
    let mut status = Query::parse(event.body())?.status.to_vec();
    set(&mut status, are_set);
    let body = query::with_status(event.body(), &status)?;
    Ok(event.replaced(event.event_type(), &body))
}

/// Sets the bit in the status variables of a statement.
pub(super) fn set(status: &mut [u8], is_explicit: bool) {
    if let Some((&mut FLAGS, after)) = status.split_first_mut()
        && let Some(byte) = after.get_mut(FLAGS_BYTES - 1)
    {
        *byte = match is_explicit {
            true => *byte | BIT,
            false => *byte & !BIT,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::incoming::Incoming;
    use crate::stream::Decoder;
    use synod_binlog::format_description::FormatDescription;
    use synod_binlog::gtid::{DDL, GtidEvent, STANDALONE};
    use synod_binlog::{Checksum, EventType};

    /// The flags of a statement that comes from a server of this version.
    fn flags_of(version: &str, are_set: bool) -> Vec<u8> {
        let format = FormatDescription {
            server_version: version.to_owned(),
            created: 0,
            checksum: Checksum::None,
        };
        let beginning = GtidEvent {
            sequence: 1,
            domain: 0,
            flags: STANDALONE | DDL,
            commit_id: None,
        };
        let statement =
            b"\0\0\0\0\0\0\0\0\x01\0\0\x05\0\0\0\0\0\x04d\0CREATE TABLE t (a TIMESTAMP)";
        let decoder = Decoder::new(Filter::default(), 1 << 20, Checksum::None, None);
        let mut decoder = decoder.with_explicit_defaults(are_set);
        for (event_type, body) in [
            (EventType::FORMAT_DESCRIPTION, format.body()),
            (EventType::GTID, beginning.body()),
            (EventType::QUERY, statement.to_vec()),
        ] {
            let event = RawEvent::for_test(event_type, &body);
            decoder.take([&[0], &*event.bytes].concat(), 1).unwrap();
        }
        let Some(Incoming::Part(part)) = decoder.give() else {
            panic!("a statement");
        };
        let body = part.events[1].slice(synod_binlog::header::HEADER_BYTES..);
        Query::parse(&body).unwrap().status[1..].to_vec()
    }

    #[test]
    fn statement_of_an_older_server_gets_what_that_has() {
        assert_eq!(flags_of("10.4.34-MariaDB-log", true), [0, 0, 0, 5]);
        assert_eq!(flags_of("10.4.34-MariaDB-log", false), [0, 0, 0, 4]);
        // It would have written it.
        assert_eq!(flags_of("10.11.19-MariaDB-log", true), [0, 0, 0, 4]);
    }

    #[test]
    fn versions_that_write_the_bit_are_known() {
        for version in [
            "10.5.17-MariaDB",
            "10.11.2-MariaDB-log",
            "11.8.3",
            "5.5.5-10.9.2",
        ] {
            assert!(are_written(version), "{version}");
        }
        for version in [
            "10.5.16-MariaDB",
            "10.4.99",
            "10.9.1-MariaDB",
            "5.5.5-10.6.8",
            "",
        ] {
            assert!(!are_written(version), "{version}");
        }
    }

    #[test]
    fn bit_is_set_in_the_flags_alone() {
        let mut status = *b"\x00\x01\x02\x03\x04\x01\x20";
        set(&mut status, true);
        assert_eq!(&status, b"\x00\x01\x02\x03\x05\x01\x20");
        set(&mut status, false);
        assert_eq!(&status, b"\x00\x01\x02\x03\x04\x01\x20");
        let mut without = *b"\x01\x20\x00\xa0\x45";
        set(&mut without, true);
        assert_eq!(&without, b"\x01\x20\x00\xa0\x45");
    }
}
