//! Events of write sets: what can be read as a transaction is written as a binlog that reads the
//! same again, and wherever the bytes are cut, the same events come.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synod_binlog::event::whole_events;
use synod_binlog::{
    BinlogWriter, Checksum, Events, Gtid, GtidList, Outgoing, Transaction, statement,
};
use synod_fuzz::split_byte;

const GTID: Gtid = Gtid::new(1, 2, 3);

fuzz_target!(|input: &[u8]| {
    let (which, events) = split_byte(input);
    match which {
        0 => check_transaction(events),
        1 => check_written(statement(GTID, events).unwrap_or_default()),
        2 => check_list(events),
        _ => check_pieces(usize::from(which), events),
    }
});

fn check_transaction(events: &[u8]) {
    let mut transaction = Transaction::new(GTID);
    if let Ok(outgoing) = transaction.add(events) {
        check_written(outgoing);
        let _ = transaction.finish();
    }
}

fn check_written(events: Vec<Outgoing<'_>>) {
    for checksum in [Checksum::None, Checksum::Crc32] {
        let mut writer = BinlogWriter::new(2, checksum, "log".to_owned());
        let format = writer.format("10.11", 0).expect("it is small");
        let mut out = format.pieces().concat();
        for event in &events {
            let placed = writer.place(event).expect("it was read from an event");
            out.extend_from_slice(&placed.pieces().concat());
        }
        let read: Vec<_> = Events::of(&out)
            .map(|event| event.expect("it was written"))
            .collect();
        assert_eq!(read.len(), events.len() + 1);
        for (event, written) in read.iter().skip(1).zip(&events) {
            assert_eq!(event.header.event_type, written.event_type);
            assert_eq!(event.body, &*written.body);
        }
    }
}

fn check_list(body: &[u8]) {
    if let Ok(list) = GtidList::parse(body) {
        assert_eq!(GtidList::parse(&list.body()).as_ref(), Ok(&list));
    }
    if let Ok(text) = str::from_utf8(body)
        && let Ok(list) = text.parse::<GtidList>()
    {
        assert_eq!(list.to_string().parse().as_ref(), Ok(&list));
    }
}

/// Whole events before a cut are events.
fn check_pieces(cut: usize, events: &[u8]) {
    let first = events.get(..cut).unwrap_or(events);
    let whole = whole_events(first);
    let count = |bytes: &[u8]| Events::of(bytes).take_while(Result::is_ok).count();
    if whole < first.len() {
        assert!(count(&first[..whole]) <= count(events));
    }
}
