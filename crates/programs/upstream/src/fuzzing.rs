//! Entrances for the fuzz targets in `testing/fuzz/`: private decoders, each with a check that must
//! hold for any bytes.
//!
//! Behind the feature `fuzzing`; not part of the crate's interface.

use synod_binlog::{Checksum, EventHeader, Gtid};

use crate::config::Filter;
use crate::messages::{Greeting, ServerError};
use crate::position::Incoming;
use crate::stream::Decoder;
use crate::stream::mysql::Translator;

/// So small that transactions have several parts.
const PART_BYTES: usize = 256;

/// Reads the events of a dump until one cannot be followed: parts have whole events, and those of a
/// transaction follow each other. The bytes are taken for events of MariaDB, and for those of
/// MySQL.
pub fn check_events(bytes: &[u8], keep: &str) {
    check_dump(bytes, keep, None);
    let translator = Translator::new(0, 0, None);
    check_dump(bytes, keep, Some(translator));
}

fn check_dump(bytes: &[u8], keep: &str, translator: Option<Translator>) {
    let keep: Vec<_> = keep.parse().into_iter().collect();
    let filter = Filter {
        keep,
        ignore: Vec::new(),
    };
    let mut decoder = Decoder::new(filter, PART_BYTES, Checksum::None, translator);
    let mut open: Option<Gtid> = None;
    let mut rest = bytes;
    while let Ok(header) = EventHeader::parse(rest) {
        let Some(event) = rest.get(..header.event_bytes as usize) else {
            return;
        };
        rest = &rest[event.len()..];
        if event.is_empty() || decoder.take([&[0], event].concat(), 1).is_err() {
            return;
        }
        while let Some(incoming) = decoder.give() {
            let Incoming::Part(part) = incoming else {
                continue;
            };
            assert!(part.first || open == Some(part.gtid), "a part of nothing");
            open = (!part.last).then_some(part.gtid);
            for event in &part.events {
                let header = EventHeader::parse(event).expect("whole events");
                assert_eq!(header.event_bytes as usize, event.len());
            }
        }
    }
}

/// Reads what an upstream says before the dump.
pub fn check_answers(bytes: &[u8]) {
    if let Some(greeting) = Greeting::parse(bytes) {
        assert!(greeting.challenge.len() <= bytes.len());
    }
    let error = ServerError::parse(bytes);
    // What is no text is replaced, by three bytes each.
    assert!(error.text.len() <= 3 * bytes.len().max(4));
}
