//! Commands other than statements: registration, dump request, acknowledgements.

use synod_binlog::MysqlGtidSet;

use crate::position::FilePosition;

const QUERY: u8 = 3;
const BINLOG_DUMP: u8 = 0x12;
const REGISTER_SLAVE: u8 = 0x15;
const BINLOG_DUMP_GTID: u8 = 0x1e;
/// The dump of MySQL begins after a set of GTIDs.
const THROUGH_GTID: u16 = 4;
/// The dump has the texts of statements before their rows: `BINLOG_SEND_ANNOTATE_ROWS_EVENT`.
const WITH_ANNOTATIONS: u16 = 2;
/// First byte of an acknowledgement, and of an event that can be acknowledged.
pub(crate) const SEMI_SYNC_MARK: u8 = 0xef;
/// Position of a file's first event.
const FIRST_POSITION: u32 = 4;
/// Name shown by the upstream (`SHOW SLAVE HOSTS`).
const NAME: &str = "synod-relay";

pub(crate) fn query(statement: &str) -> Vec<u8> {
    [&[QUERY], statement.as_bytes()].concat()
}

/// A reader makes itself known.
pub(crate) fn register(server_id: u32) -> Vec<u8> {
    let mut out = vec![REGISTER_SLAVE];
    out.extend_from_slice(&server_id.to_le_bytes());
    out.push(NAME.len() as u8);
    out.extend_from_slice(NAME.as_bytes());
    // Neither account nor password nor port of this reader; rank and upstream mean nothing.
    out.extend_from_slice(&[0; 2 + 2 + 4 + 4]);
    out
}

/// The wish for a dump, after the GTIDs that were set before.
pub(crate) fn dump(server_id: u32) -> Vec<u8> {
    let mut out = vec![BINLOG_DUMP];
    out.extend_from_slice(&FIRST_POSITION.to_le_bytes());
    out.extend_from_slice(&WITH_ANNOTATIONS.to_le_bytes());
    out.extend_from_slice(&server_id.to_le_bytes());
    out
}

/// The wish for a dump of MySQL's transactions that are not in this set.
pub(crate) fn dump_gtid(server_id: u32, has: &MysqlGtidSet) -> Vec<u8> {
    let mut out = vec![BINLOG_DUMP_GTID];
    out.extend_from_slice(&THROUGH_GTID.to_le_bytes());
    out.extend_from_slice(&server_id.to_le_bytes());
    // No name of a file.
    out.extend_from_slice(&0_u32.to_le_bytes());
    out.extend_from_slice(&u64::from(FIRST_POSITION).to_le_bytes());
    let set = has.bytes_for_dump();
    // Sets are refused long before they are so large.
    out.extend_from_slice(&(set.len() as u32).to_le_bytes());
    out.extend_from_slice(&set);
    out
}

/// Everything up to this place is safe here.
pub(crate) fn acknowledgement(end: &FilePosition) -> Vec<u8> {
    let mut out = vec![SEMI_SYNC_MARK];
    out.extend_from_slice(&end.offset.to_le_bytes());
    out.extend_from_slice(end.file.as_bytes());
    out
}
