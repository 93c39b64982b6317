//! The end of a server's answer to a command, and the state of the session in it.
//!
//! The forms are those of clients that know the end of columns and of rows by a packet of its own;
//! a relay offers its readers no other.

use std::io;

/// The session is in a transaction.
const IN_TRANSACTION: u16 = 1;
const AUTOCOMMIT: u16 = 2;
const MORE_RESULTS: u16 = 8;
/// The rows are fetched by commands of their own.
const HAS_CURSOR: u16 = 0x40;

pub(crate) mod command {
    pub(crate) const INIT_DB: u8 = 2;
    pub(crate) const QUERY: u8 = 3;
    pub(crate) const FIELD_LIST: u8 = 4;
    pub(crate) const PING: u8 = 14;
    pub(crate) const PREPARE: u8 = 22;
    pub(crate) const EXECUTE: u8 = 23;
    pub(crate) const SEND_LONG_DATA: u8 = 24;
    pub(crate) const CLOSE: u8 = 25;
    pub(crate) const RESET: u8 = 26;
    pub(crate) const FETCH: u8 = 28;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Result,
    /// A column, or the end of columns.
    Column,
    /// A row, or the end of rows.
    Row,
    Only,
    /// The first one about a prepared statement.
    Prepared,
    /// One of so many lists that are still to end.
    Lists(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Row,
    Other,
    Last,
}

#[derive(Debug)]
pub(crate) struct Response(Next);

impl Response {
    /// The answer to a command; none: none comes. An error: it is not passed on.
    pub(crate) fn to(command: u8) -> Result<Option<Response>, ()> {
        let next = match command {
            command::QUERY | command::EXECUTE => Next::Result,
            command::INIT_DB | command::PING | command::RESET => Next::Only,
            command::FIELD_LIST => Next::Lists(1),
            command::FETCH => Next::Row,
            command::PREPARE => Next::Prepared,
            command::SEND_LONG_DATA | command::CLOSE => return Ok(None),
            _ => return Err(()),
        };
        Ok(Some(Response(next)))
    }

    /// Takes the payload of the next packet; notes in `state` what it says of the session.
    pub(crate) fn take(&mut self, payload: &[u8], state: &mut State) -> io::Result<Place> {
        let ended = end(payload);
        let next = match (self.0, payload) {
            (_, [0xff, ..]) => None,
            (Next::Result, [0, rest @ ..]) => {
                let flags = done(rest).ok_or_else(unknown)?;
                state.take(flags);
                (flags & MORE_RESULTS != 0).then_some(Next::Result)
            }
            // The server wants a file: clients of a relay offer none.
            (Next::Result, [0xfb, ..] | []) => return Err(unknown()),
            (Next::Result, _) => Some(Next::Column),
            (Next::Column, _) => match ended {
                None => Some(Next::Column),
                Some(flags) => {
                    state.take(flags);
                    (flags & HAS_CURSOR == 0).then_some(Next::Row)
                }
            },
            (Next::Row, _) => match ended {
                None => return Ok(Place::Row),
                Some(flags) => {
                    state.take(flags);
                    (flags & MORE_RESULTS != 0).then_some(Next::Result)
                }
            },
            (Next::Only, [0, rest @ ..]) => {
                state.take(done(rest).ok_or_else(unknown)?);
                None
            }
            (Next::Only, _) => None,
            (Next::Prepared, [0, _, _, _, _, a, b, c, d, ..]) => {
                let lists = u8::from((*a, *b) != (0, 0)) + u8::from((*c, *d) != (0, 0));
                (lists > 0).then_some(Next::Lists(lists))
            }
            (Next::Prepared, _) => return Err(unknown()),
            (Next::Lists(left), _) => match (ended, left) {
                (None, _) => Some(Next::Lists(left)),
                (Some(_), ..=1) => None,
                (Some(_), _) => Some(Next::Lists(left - 1)),
            },
        };
        Ok(match next {
            None => Place::Last,
            Some(next) => {
                self.0 = next;
                Place::Other
            }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) is_in_transaction: bool,
    /// Each statement is a transaction.
    pub(crate) autocommits: bool,
}

impl State {
    fn take(&mut self, flags: u16) {
        self.is_in_transaction = flags & IN_TRANSACTION != 0;
        self.autocommits = flags & AUTOCOMMIT != 0;
    }
}

/// The flags of a packet that says done, after its first byte and two numbers.
fn done(payload: &[u8]) -> Option<u16> {
    let rest = payload.get(number_bytes(payload)?..)?;
    let rest = rest.get(number_bytes(rest)?..)?;
    Some(u16::from_le_bytes(*rest.first_chunk()?))
}

/// Bytes of a number that says by its first one how many it has.
fn number_bytes(payload: &[u8]) -> Option<usize> {
    Some(match payload.first()? {
        0xfc => 3,
        0xfd => 4,
        0xfe => 9,
        _ => 1,
    })
}

/// The flags of a packet that ends a list.
fn end(payload: &[u8]) -> Option<u16> {
    match payload {
        [0xfe, _, _, a, b] => Some(u16::from_le_bytes([*a, *b])),
        _ => None,
    }
}

fn unknown() -> io::Error {
    let text = "it answers in a form that is not known here";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMN: &[u8] = b"\x03def";
    const ROW: &[u8] = b"\x011";
    const ERROR: &[u8] = b"\xff\x10\x04#HY000text";

    fn ending(flags: u8) -> Vec<u8> {
        vec![0xfe, 0, 0, flags, 0]
    }

    fn done_with(flags: u8) -> Vec<u8> {
        vec![0, 1, 0xfc, 9, 9, flags, 0, 0, 0]
    }

    /// How many of the payloads are the answer, and the state after it.
    fn taken(command: u8, payloads: &[&[u8]]) -> (usize, State) {
        let mut state = State {
            is_in_transaction: false,
            autocommits: true,
        };
        let mut response = Response::to(command).unwrap().unwrap();
        for (at, payload) in payloads.iter().enumerate() {
            if response.take(payload, &mut state).unwrap() == Place::Last {
                return (at + 1, state);
            }
        }
        panic!("it has not ended: {response:?}");
    }

    #[test]
    fn answers_end_where_the_next_begins() {
        let (end, done) = (&*ending(2), &*done_with(2));
        let rows = [&[2], COLUMN, COLUMN, end, ROW, &[0xfb, 0xfb], end, done];
        assert_eq!(taken(command::QUERY, &rows).0, 7);
        assert_eq!(taken(command::QUERY, &[done, done]).0, 1);
        assert_eq!(taken(command::QUERY, &[ERROR, done]).0, 1);
        assert_eq!(
            taken(command::QUERY, &[&[1], COLUMN, end, ROW, ERROR, done]).0,
            5
        );
        let more = &*ending(2 | 8);
        let results = [&[1], COLUMN, end, ROW, more, done, done];
        assert_eq!(taken(command::QUERY, &results).0, 6);
        let prepared = [0, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0];
        let lists: [&[u8]; 7] = [&prepared, COLUMN, COLUMN, end, COLUMN, end, done];
        assert_eq!(taken(command::PREPARE, &lists).0, 6);
        let without = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(taken(command::PREPARE, &[&without, done]).0, 1);
        let cursor = &*ending(2 | HAS_CURSOR as u8);
        assert_eq!(taken(command::EXECUTE, &[&[1], COLUMN, cursor, done]).0, 3);
        assert_eq!(taken(command::FETCH, &[&[0, 0, 1], end, done]).0, 2);
        assert_eq!(taken(command::FIELD_LIST, &[COLUMN, end, done]).0, 2);
        assert_eq!(taken(command::INIT_DB, &[done, done]).0, 1);
        assert!(Response::to(command::CLOSE).unwrap().is_none());
        assert!(Response::to(17).is_err(), "another user");
    }

    #[test]
    fn state_is_that_of_the_last_packet() {
        let begun = taken(command::QUERY, &[&done_with(1)]).1;
        assert!(begun.is_in_transaction && !begun.autocommits);
        let rows = taken(command::QUERY, &[&[1], COLUMN, &ending(3), ROW, &ending(2)]).1;
        assert!(!rows.is_in_transaction && rows.autocommits);
        let failed = taken(command::QUERY, &[ERROR]).1;
        assert!(failed.autocommits, "nothing is said");
    }

    #[test]
    fn wish_for_a_file_is_an_error() {
        let mut state = taken(command::PING, &[&done_with(2)]).1;
        let mut response = Response::to(command::QUERY).unwrap().unwrap();
        assert!(response.take(b"\xfb/etc/passwd", &mut state).is_err());
    }
}
