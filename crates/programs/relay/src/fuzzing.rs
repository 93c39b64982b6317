//! Entrances for the fuzz targets in `testing/fuzz/`: private decoders, each with a check that must
//! hold for any bytes.
//!
//! Behind the feature `fuzzing`; not part of the crate's interface.

use std::io::Cursor;

use bytes::Bytes;
use synod_binlog::GtidList;
use synod_node::Seqno;

use crate::protocol::greeting::credentials;
use crate::protocol::packet::{Answer, Packets};
use crate::protocol::question::{Facts, ReaderVariables, answer};
use crate::request::Identity;
use crate::upstream_log::entry::Entry;

/// Reads packets to the end: they take no more memory than has come.
pub fn check_packets(bytes: &[u8]) {
    let mut packets = Packets::new(Cursor::new(bytes.to_vec()));
    let mut read = 0;
    while let Ok(payload) = packets.read() {
        read += 4 + payload.len();
    }
    assert!(read <= bytes.len());
}

pub fn check_credentials(bytes: &[u8]) {
    if let Some(found) = credentials(bytes) {
        assert!(found.proof.len() <= bytes.len());
    }
}

/// Answers a statement: rows have a value for each column.
pub fn check_statement(bytes: &[u8]) {
    let facts = Facts {
        identity: Identity {
            domain: 1,
            server_id: 2,
        },
        first: Seqno(1),
        last: Seqno(9),
        gtids: GtidList::default(),
        now: 0,
    };
    let mut own = ReaderVariables::default();
    let statement = String::from_utf8_lossy(bytes);
    if let Answer::Rows { columns, rows } = answer(&statement, &facts, &mut own) {
        assert!(rows.iter().all(|row| row.len() == columns.len()));
    }
}

/// Reads an entry of a relay group: what is understood is written the same way.
pub fn check_entry(bytes: &[u8]) {
    let mut rest = Bytes::copy_from_slice(bytes);
    if let Ok(entry) = Entry::decode(&mut rest) {
        let again = match &entry {
            Entry::Head(head) => head.encode(&[rest]).expect("it was understood"),
            Entry::Note(note) => note.encode(),
        };
        assert_eq!(Entry::decode(&mut again.clone()), Ok(entry));
    }
}
