//! Events: what is written is read again, and made-up bytes are an error.

use proptest::prelude::*;
use synod_binlog::bodies::{FormatDescription, Query, Rotate, RowsHead, TableMap};
use synod_binlog::event::{HEADER_BYTES, whole_events};
use synod_binlog::gtid::GtidEvent;
use synod_binlog::{
    BinlogWriter, Checksum, EventError, EventHeader, EventType, Events, Gtid, GtidList, Outgoing,
};

fn checksum() -> impl Strategy<Value = Checksum> {
    prop_oneof![Just(Checksum::None), Just(Checksum::Crc32)]
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..=most)
}

fn outgoing() -> impl Strategy<Value = Outgoing<'static>> {
    (any::<u32>(), 16..171u8, any::<u16>(), bytes(60)).prop_map(
        |(timestamp, event_type, flags, body)| Outgoing {
            flags,
            ..Outgoing::new(EventType(event_type), timestamp, body)
        },
    )
}

/// A binlog with these events after its format description.
fn binlog(checksum: Checksum, events: &[Outgoing<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = BinlogWriter::new(7, checksum, "log".to_owned());
    let format = writer.format("10.11.0-MariaDB", 5).unwrap();
    out.extend_from_slice(&format.pieces().concat());
    for event in events {
        let placed = writer.place(event).unwrap();
        out.extend_from_slice(&placed.pieces().concat());
        assert_eq!(placed.size(), placed.pieces().concat().len());
    }
    assert_eq!(writer.position() as usize, 4 + out.len());
    out
}

#[test]
fn reader_is_told_the_file_first_and_where_it_is_while_nothing_happens() {
    let mut writer = BinlogWriter::new(7, Checksum::None, "log.1".to_owned());
    let events = [
        writer.file_name().unwrap(),
        writer.format("10.11.0-MariaDB", 5).unwrap(),
        writer.heartbeat().unwrap(),
    ];
    let out: Vec<u8> = events
        .iter()
        .flat_map(|event| event.pieces().concat())
        .collect();
    let events: Vec<_> = Events::of(&out).collect::<Result<_, _>>().unwrap();
    let [rotate, format, heartbeat] = events.as_slice() else {
        panic!("three events: {events:?}")
    };
    let place = Rotate {
        position: 4,
        file: b"log.1",
    };
    assert_eq!(Rotate::parse(rotate.body), Ok(place));
    assert_eq!((rotate.header.end_position, rotate.header.flags), (0, 0x20));
    assert_eq!(format.header.end_position, writer.position());
    assert_eq!(heartbeat.body, b"log.1");
    assert_eq!(heartbeat.header.end_position, writer.position());
    assert_eq!(heartbeat.header.timestamp, 0);
}

/// The example in the documentation of format description events has the same length for the same
/// types, and the same fixed parts for those that readers use.
#[test]
fn format_description_is_as_long_as_that_of_a_server() {
    let description = FormatDescription {
        server_version: "10.2.10-MariaDB-log".to_owned(),
        checksum: Checksum::None,
    };
    let body = description.body();
    assert_eq!(HEADER_BYTES + body.len(), 0xfc);
    let fixed = |event_type: EventType| body[2 + 50 + 4 + 1 + usize::from(event_type.0) - 1];
    assert_eq!(fixed(EventType::QUERY), 13);
    assert_eq!(fixed(EventType::FORMAT_DESCRIPTION), 0xe4);
    assert_eq!(fixed(EventType::TABLE_MAP), 8);
    assert_eq!(fixed(EventType::WRITE_ROWS_V1), 8);
    assert_eq!(fixed(EventType::GTID), 19);
    assert_eq!(fixed(EventType::GTID_LIST), 4);
}

#[test]
fn size_beyond_the_bytes_that_are_there_is_an_error() {
    let out = binlog(Checksum::None, &[]);
    let cut = out.len() - 1;
    let found = Events::of(&out[..cut]).next();
    assert!(
        matches!(found, Some(Err(EventError::Size { .. }))),
        "{found:?}"
    );
}

proptest! {
    #[test]
    fn binlog_is_read_as_it_was_written(
        checksum in checksum(),
        events in proptest::collection::vec(outgoing(), 0..8),
    ) {
        let out = binlog(checksum, &events);
        let mut end = 4;
        let read: Vec<_> = Events::of(&out).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read.len(), 1 + events.len());
        for event in &read {
            end += event.header.event_bytes;
            prop_assert_eq!(event.header.end_position, end);
            prop_assert_eq!(event.header.server_id, 7);
        }
        for (event, expected) in read[1..].iter().zip(&events) {
            prop_assert_eq!(event.header.event_type, expected.event_type);
            prop_assert_eq!(event.header.timestamp, expected.timestamp);
            prop_assert_eq!(event.header.flags, expected.flags);
            prop_assert_eq!(event.body, &*expected.body);
        }
    }

    /// With checksums, no changed bit of an event is taken for another event.
    #[test]
    fn changed_bit_is_noticed(
        event in outgoing(),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let begin = binlog(Checksum::Crc32, &[]).len();
        let mut out = binlog(Checksum::Crc32, &[event]);
        let at = begin + at.index(out.len() - begin);
        out[at] ^= 1 << bit;
        prop_assert!(Events::of(&out).nth(1).unwrap().is_err());
    }

    /// Whatever the bytes are: an error or events, never more than the bytes, and the reading ends.
    #[test]
    fn made_up_bytes_are_an_error_or_events(input in bytes(200)) {
        let mut read = 0;
        prop_assert!(whole_events(&input) <= input.len());
        for event in Events::of(&input) {
            match event {
                Ok(event) => {
                    read += event.header.event_bytes as usize;
                    let bytes = event.header.event_bytes as usize;
                    prop_assert!(event.body.len() + HEADER_BYTES <= bytes);
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
        prop_assert!(read <= input.len());
    }

    /// Wherever events are cut: what is whole before the cut, and what is left, are the same.
    #[test]
    fn events_in_pieces_are_those_of_the_whole(
        events in proptest::collection::vec(outgoing(), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let out = binlog(Checksum::None, &events);
        let whole = whole_events(&out[..cut.index(out.len() + 1)]);
        let first = Events::of(&out[..whole]).map(Result::unwrap);
        let read: Vec<_> = first.chain(Events::of(&out[whole..]).map(Result::unwrap)).collect();
        let expected: Vec<_> = Events::of(&out).map(Result::unwrap).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn made_up_bodies_never_panic(input in bytes(80), event_type in any::<u8>()) {
        let event_type = EventType(event_type);
        let _ = EventHeader::parse(&input);
        let _ = FormatDescription::parse(&input);
        let _ = GtidEvent::parse(&input);
        let _ = Rotate::parse(&input);
        let _ = RowsHead::parse(event_type, &input);
        let _ = TableMap::parse(&input);
        if let Ok(list) = GtidList::parse(&input) {
            prop_assert_eq!(list.0.len() * 16 + 4, input.len());
        }
        let _ = Query::parse(&input);
    }

    #[test]
    fn bodies_are_read_as_they_were_written(
        sequence in any::<u64>(),
        domain in any::<u32>(),
        server_id in any::<u32>(),
        flags in 0..64u8,
        file in bytes(20),
        version in "[ -~]{0,50}",
        checksum in checksum(),
    ) {
        // The bit for the number of a group commit follows from that.
        let flags = flags & !2;
        let event = GtidEvent { sequence, domain, flags };
        prop_assert_eq!(GtidEvent::parse(&event.body()), Ok(event));
        let list = GtidList(vec![Gtid { domain, server_id, sequence }; 3]);
        prop_assert_eq!(GtidList::parse(&list.body()), Ok(list.clone()));
        let one = GtidList(vec![Gtid { domain, server_id, sequence }]);
        prop_assert_eq!(one.to_string().parse(), Ok(one));
        let rotate = Rotate { position: sequence, file: &file };
        let body = rotate.body();
        prop_assert_eq!(Rotate::parse(&body), Ok(rotate));
        let description = FormatDescription { server_version: version, checksum };
        let body = description.body();
        // A body without checksums has room for one, which readers of the event take off.
        let room = match checksum { Checksum::None => 4, Checksum::Crc32 => 0 };
        let read = FormatDescription::parse(&body[..body.len() - room]);
        prop_assert_eq!(read, Ok(description));
    }
}
