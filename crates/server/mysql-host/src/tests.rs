//! A played server, and groups of members with one each.

use synod_binlog::bodies::Query;
use synod_binlog::{EventHeader, EventType};

use crate::server::{ClientTransaction, Opening};

/// A client's transaction.
pub(crate) struct Played {
    events: Vec<u8>,
    hashes: Vec<u64>,
    pub(crate) bytes: u64,
    pub(crate) is_readable: bool,
}

impl Played {
    pub(crate) fn of(events: &[&[u8]], hashes: &[u64]) -> Played {
        let events = events.concat();
        Played {
            bytes: events.len() as u64,
            events,
            hashes: hashes.to_vec(),
            is_readable: true,
        }
    }

    pub(crate) fn statement(text: &'static [u8]) -> Played {
        let query = Query {
            statement: text,
            ..Query::default()
        };
        let header = EventHeader {
            timestamp: 0,
            event_type: EventType::QUERY,
            server_id: 1,
            event_bytes: 0,
            end_position: 0,
            flags: 0,
        };
        let event = header.with_body(&query.body().unwrap()).1;
        Played::of(&[&event], &[])
    }
}

impl ClientTransaction for Played {
    fn read(&self, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&self.events);
        self.is_readable
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    fn waits_for_others(&self) -> bool {
        false
    }

    fn runs_alone(&self) -> bool {
        false
    }

    fn began(&self) -> Option<Opening> {
        None
    }
}
