//! The packets of a dump: events, with or without the wish for an acknowledgement, or its end.

use crate::error::{Obstacle, UpstreamError};
use crate::position::FilePosition;
use crate::protocol::answer::{ServerError, is_end};
use crate::protocol::command::SEMI_SYNC_MARK;

/// `ER_MASTER_FATAL_ERROR_READING_BINLOG`: all that is wrong with a position.
const FATAL: u16 = 1236;
const ACCESS: [u16; 2] = [1045, 1227];

/// Contents of a dump's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventPacket {
    /// Bytes before the event.
    pub(crate) skipped: usize,
    /// The upstream waits for an acknowledgement of it.
    pub(crate) wants_acknowledgement: bool,
}

/// Why a dump's packet holds no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DumpEnd {
    Orderly,
    Failed(ServerError),
    Unknown(u8),
}

/// Form of a dump's packets; the first one shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An event follows the first byte.
    Plain,
    /// A mark and bits come before the event.
    SemiSync,
}

impl Form {
    /// The form of a dump whose first packet this is. Its event was made for this reader, so its
    /// timestamp is zero: no first byte of an event is like the mark.
    pub(crate) fn of_first(payload: &[u8]) -> Form {
        match payload.get(1) {
            Some(&SEMI_SYNC_MARK) => Form::SemiSync,
            Some(_) | None => Form::Plain,
        }
    }

    pub(crate) fn parse(self, payload: &[u8]) -> Result<EventPacket, DumpEnd> {
        if is_end(payload) {
            return Err(DumpEnd::Orderly);
        }
        match (self, payload) {
            (Form::SemiSync, [0, SEMI_SYNC_MARK, bits, ..]) => Ok(EventPacket {
                skipped: 3,
                wants_acknowledgement: bits & 1 != 0,
            }),
            (Form::Plain, [0, ..]) => Ok(EventPacket {
                skipped: 1,
                wants_acknowledgement: false,
            }),
            (_, [0xff, rest @ ..]) => Err(DumpEnd::Failed(ServerError::parse(rest))),
            (_, [first, ..]) => Err(DumpEnd::Unknown(*first)),
            (_, []) => Err(DumpEnd::Unknown(0)),
        }
    }
}

impl DumpEnd {
    /// The end in words, for a reader with this number that began at this position.
    pub(crate) fn explain(self, server_id: u32, position: &str) -> UpstreamError {
        match self {
            DumpEnd::Orderly => UpstreamError::Ended,
            DumpEnd::Unknown(first) => {
                UpstreamError::Protocol(format!("a packet of the dump begins with {first}"))
            }
            DumpEnd::Failed(error) => failed(error, server_id, position),
        }
    }
}

fn failed(error: ServerError, server_id: u32, position: &str) -> UpstreamError {
    let ServerError { code, text } = error;
    let position = position.to_owned();
    let has = |words: &str| text.contains(words);
    if ACCESS.contains(&code) {
        let step = "the dump".to_owned();
        return UpstreamError::Step { step, code, text };
    }
    // Versions give this one different numbers.
    if has("same server_uuid/server_id") {
        return UpstreamError::ServerIdTaken { server_id, text };
    }
    if code != FATAL {
        return UpstreamError::Dump { code, text };
    }
    if has("purged") {
        UpstreamError::Purged { position, text }
    } else if has("not in the master's binlog") {
        UpstreamError::UnknownGtid { position, text }
    } else {
        UpstreamError::Dump { code, text }
    }
}

/// An event that is larger than this reader takes.
pub(crate) fn too_large(place: &FilePosition, bytes_max: usize) -> UpstreamError {
    UpstreamError::NotFollowed {
        place: place.clone(),
        why: Obstacle::TooLarge(bytes_max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_apart() {
        let plain = Form::of_first(&[0, 0, 0]);
        assert_eq!(plain.parse(&[0, SEMI_SYNC_MARK, 1]).unwrap().skipped, 1);
        let semi = Form::of_first(&[0, SEMI_SYNC_MARK, 0]);
        let wanted = EventPacket {
            skipped: 3,
            wants_acknowledgement: true,
        };
        assert_eq!(semi.parse(&[0, SEMI_SYNC_MARK, 1, 9]), Ok(wanted));
        assert_eq!(semi.parse(&[0, 0, 1, 9]), Err(DumpEnd::Unknown(0)));
        assert_eq!(plain.parse(&[0xfe, 0, 0, 2, 0]), Err(DumpEnd::Orderly));
        assert_eq!(plain.parse(&[]), Err(DumpEnd::Unknown(0)));
    }

    #[test]
    fn ends_are_explained() {
        let end = |code: u16, text: &str| {
            let text = text.to_owned();
            DumpEnd::Failed(ServerError { code, text }).explain(7, "GTID '0-1-2'")
        };
        let purged = end(1236, "required binlog files have been purged");
        assert!(purged.to_string().contains("GTID '0-1-2'"), "{purged}");
        assert!(matches!(purged, UpstreamError::Purged { .. }));
        let unknown = end(1236, "GTID 0-1-9, which is not in the master's binlog");
        assert!(matches!(unknown, UpstreamError::UnknownGtid { .. }));
        let taken = end(
            4052,
            "A slave with the same server_uuid/server_id as this one",
        );
        assert!(matches!(
            taken,
            UpstreamError::ServerIdTaken { server_id: 7, .. }
        ));
        assert!(matches!(end(1227, "no"), UpstreamError::Step { .. }));
        assert!(matches!(
            end(1236, "event too big"),
            UpstreamError::Dump { .. }
        ));
        assert!(DumpEnd::Orderly.explain(7, "").may_pass());
    }
}
