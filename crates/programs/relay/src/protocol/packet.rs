//! Packets of a reader's connection, and answers in them: done, an error in words, rows.
//!
//! A packet is three bytes of length, one that counts packets, then the payload. A payload of the
//! greatest length is continued by the next packet. Clients send little, so what is larger than
//! [`INPUT_MAX`] is refused; answers may have any size.

use std::io::{self, Read, Write};

use synod_tls::ServiceTls;
use synod_upstream::server::RawPacket;
use synod_upstream::{PACKET_BYTES_MAX, PacketError, read_packet};

const HEADER_BYTES: usize = 4;
/// Largest packet that is taken from a reader, in bytes: statements with long lists of GTIDs.
const INPUT_MAX: usize = 1 << 20;
/// The same of a caller that has not proven a password: its name, and attributes.
const CALLER_INPUT_MAX: usize = 64 << 10;
const GATHERED_BYTES: usize = 256 << 10;

/// A connection that can be looked at without a wait, and encrypted after its first packets.
pub(crate) trait Connection: Read + Write {
    /// Whether the other side has ended it. The other side says nothing more, so what it says is
    /// passed over.
    fn has_ended(&mut self) -> bool;

    /// Whether the other side has ended it; what it says is left to be read.
    fn is_gone(&self) -> bool;

    /// From now on the other side may be silent for hours, if its machine is there.
    fn may_be_silent(&self) -> io::Result<()>;

    /// From now on only the system's limits hold, each for one call.
    fn lift_deadline(&mut self);

    fn encrypt(&mut self, tls: &ServiceTls) -> io::Result<()>;
}

pub(crate) struct Packets<S> {
    stream: S,
    number: u8,
    gathered: Vec<u8>,
    input_max: usize,
}

impl<S: Read + Write> Packets<S> {
    pub(crate) fn new(stream: S) -> Packets<S> {
        Packets {
            stream,
            number: 0,
            gathered: Vec::new(),
            input_max: CALLER_INPUT_MAX,
        }
    }

    /// The other side has proven a password: it may take its time, and say more at once.
    pub(crate) fn admit(&mut self)
    where
        S: Connection,
    {
        self.stream.lift_deadline();
        self.input_max = INPUT_MAX;
    }

    pub(crate) fn have_ended(&mut self) -> bool
    where
        S: Connection,
    {
        self.stream.has_ended()
    }

    pub(crate) fn are_gone(&self) -> bool
    where
        S: Connection,
    {
        self.stream.is_gone()
    }

    pub(crate) fn may_be_silent(&self) -> io::Result<()>
    where
        S: Connection,
    {
        self.stream.may_be_silent()
    }

    /// Adds a packet of a server's answer, which has the number that follows.
    pub(crate) fn pass(&mut self, packet: &RawPacket) -> io::Result<()> {
        self.number = self.number.wrapping_add(1);
        self.add(packet.bytes())
    }

    pub(crate) fn encrypt(&mut self, tls: &ServiceTls) -> io::Result<()>
    where
        S: Connection,
    {
        self.stream.encrypt(tls)
    }

    pub(crate) fn read(&mut self) -> io::Result<Vec<u8>> {
        let max = self.input_max;
        let read = read_packet(&mut self.stream, max).map_err(|error| match error {
            PacketError::Io(error) => error,
            PacketError::TooLarge => {
                let text = format!("a packet is larger than {max} bytes");
                io::Error::new(io::ErrorKind::InvalidData, text)
            }
        });
        let packet = read?;
        self.number = packet.number.wrapping_add(1);
        Ok(packet.payload)
    }

    pub(crate) fn gathered_bytes(&self) -> usize {
        self.gathered.len()
    }

    /// Whether a payload of so many bytes has what was gathered sent.
    pub(crate) fn are_filled_by(&self, payload_bytes: usize) -> bool {
        self.gathered.len() + HEADER_BYTES + payload_bytes >= GATHERED_BYTES
    }

    pub(crate) fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        self.write_pieces(&[payload])
    }

    /// [`Packets::write`] for a payload in several pieces. Gathered bytes are sent only if
    /// [`Packets::are_filled_by`] says so.
    pub(crate) fn write_pieces(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        let mut left: usize = pieces.iter().map(|piece| piece.len()).sum();
        // What the packet that has begun still takes.
        let mut room = self.begin_packet(left);
        for piece in pieces {
            let mut piece = *piece;
            while piece.len() > room {
                let (now, later) = piece.split_at(room);
                self.add(now)?;
                (piece, left) = (later, left - PACKET_BYTES_MAX);
                room = self.begin_packet(left);
            }
            self.add(piece)?;
            room -= piece.len();
        }
        // A full packet says that another one follows.
        if left == PACKET_BYTES_MAX {
            self.begin_packet(0);
        }
        self.send_if_filled()
    }

    /// Adds the header of a packet for as much as it may hold of so many bytes; gives that.
    fn begin_packet(&mut self, left: usize) -> usize {
        let length = left.min(PACKET_BYTES_MAX);
        let [a, b, c, ..] = (length as u32).to_le_bytes();
        self.gathered.extend_from_slice(&[a, b, c, self.number]);
        self.number = self.number.wrapping_add(1);
        length
    }

    /// Adds bytes of a packet. Many are sent at once, from where they are.
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() < GATHERED_BYTES {
            self.gathered.extend_from_slice(bytes);
            return self.send_if_filled();
        }
        self.send()?;
        self.stream.write_all(bytes)
    }

    fn send_if_filled(&mut self) -> io::Result<()> {
        if self.gathered.len() < GATHERED_BYTES {
            return Ok(());
        }
        self.send()
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.send()?;
        self.stream.flush()
    }

    fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.gathered)?;
        self.gathered.clear();
        Ok(())
    }
}

/// The server takes statements at once: `SERVER_STATUS_AUTOCOMMIT`.
const STATUS: [u8; 2] = [2, 0];
/// `utf8mb4_general_ci`.
const CHARACTER_SET: [u8; 2] = [45, 0];
/// Columns are texts: `MYSQL_TYPE_VAR_STRING`.
const TEXT_TYPE: u8 = 0xfd;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Refusal {
    /// MariaDB's number for it.
    pub(crate) code: u16,
    pub(crate) state: &'static str,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(code: u16, state: &'static str, text: impl Into<String>) -> Refusal {
        let text = text.into();
        Refusal { code, state, text }
    }

    /// The reader is not who it says it is: `ER_ACCESS_DENIED_ERROR`.
    pub(crate) fn access(text: impl Into<String>) -> Refusal {
        Refusal::new(1045, "28000", text)
    }

    /// The reader cannot be served now: `ER_CON_COUNT_ERROR`.
    pub(crate) fn too_many(text: impl Into<String>) -> Refusal {
        Refusal::new(1040, "08004", text)
    }

    /// The relay does not do that: `ER_NOT_SUPPORTED_YET`.
    pub(crate) fn unsupported(text: impl Into<String>) -> Refusal {
        Refusal::new(1235, "42000", text)
    }

    /// `ER_UNKNOWN_SYSTEM_VARIABLE`.
    pub(crate) fn unknown_variable(name: &str) -> Refusal {
        Refusal::new(
            1193,
            "HY000",
            format!("This relay has no variable '{name}'"),
        )
    }

    /// Temporary refusal, `ER_SERVER_SHUTDOWN`: a replica logs the text and reconnects by itself.
    pub(crate) fn not_yet(text: impl Into<String>) -> Refusal {
        Refusal::new(1053, "08S01", text)
    }

    /// The log cannot be read from where the reader is: `ER_MASTER_FATAL_ERROR_READING_BINLOG`. A
    /// replica shows the text in its status, and stops until an operator starts it.
    pub(crate) fn dump(text: impl Into<String>) -> Refusal {
        Refusal::new(1236, "HY000", text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// Rows of texts; none: NULL.
    Rows {
        columns: Vec<String>,
        rows: Vec<Vec<Option<String>>>,
    },
    Refused(Refusal),
}

impl<S: Read + Write> Packets<S> {
    pub(crate) fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        match answer {
            Answer::Done => {
                let [a, b] = STATUS;
                self.write(&[0, 0, 0, a, b, 0, 0])?;
            }
            Answer::Rows { columns, rows } => self.write_rows(columns, rows)?,
            Answer::Refused(refusal) => self.write_refusal(refusal)?,
        }
        self.flush()
    }

    pub(crate) fn write_end(&mut self) -> io::Result<()> {
        let [a, b] = STATUS;
        self.write(&[0xfe, 0, 0, a, b])
    }

    fn write_refusal(&mut self, refusal: &Refusal) -> io::Result<()> {
        let mut payload = vec![0xff];
        payload.extend_from_slice(&refusal.code.to_le_bytes());
        payload.push(b'#');
        payload.extend_from_slice(refusal.state.as_bytes());
        payload.extend_from_slice(refusal.text.as_bytes());
        self.write(&payload)
    }

    fn write_rows(&mut self, columns: &[String], rows: &[Vec<Option<String>>]) -> io::Result<()> {
        let mut count = Vec::new();
        put_length(&mut count, columns.len());
        self.write(&count)?;
        for name in columns {
            self.write(&column(name))?;
        }
        self.write_end()?;
        for row in rows {
            let mut payload = Vec::new();
            for value in row {
                match value {
                    Some(text) => put_text(&mut payload, text),
                    None => payload.push(0xfb),
                }
            }
            self.write(&payload)?;
        }
        self.write_end()
    }
}

fn column(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for text in ["def", "", "", "", name, ""] {
        put_text(&mut out, text);
    }
    out.push(12);
    out.extend_from_slice(&CHARACTER_SET);
    out.extend_from_slice(&1024_u32.to_le_bytes());
    out.extend_from_slice(&[TEXT_TYPE, 0, 0, 0, 0, 0]);
    out
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_length(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// A number in as many bytes as it takes, with what says how many.
fn put_length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..=250 => out.push(length as u8),
        251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(length as u16).to_le_bytes());
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&(length as u64).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn sent(payload: &[u8]) -> Vec<u8> {
        let mut packets = Packets::new(Cursor::new(Vec::new()));
        packets.write(payload).unwrap();
        packets.flush().unwrap();
        packets.stream.into_inner()
    }

    #[test]
    fn packets_are_read_as_they_were_written() {
        for payload in [&b""[..], b"x", &[1; 1000]] {
            let mut packets = Packets::new(Cursor::new(sent(payload)));
            assert_eq!(packets.read().unwrap(), payload);
            assert!(packets.read().is_err());
        }
    }

    #[test]
    fn large_payload_takes_several_packets() {
        let bytes = sent(&vec![1; PACKET_BYTES_MAX]);
        assert_eq!(bytes.len(), 4 + PACKET_BYTES_MAX + 4);
        assert_eq!(bytes[..4], [0xff, 0xff, 0xff, 0]);
        assert_eq!(bytes[4 + PACKET_BYTES_MAX..], [0, 0, 0, 1]);
        assert_eq!(
            sent(&vec![1; PACKET_BYTES_MAX + 1]).len(),
            4 + PACKET_BYTES_MAX + 4 + 1
        );
    }

    #[test]
    fn packets_are_sent_when_they_are_filled_and_not_before() {
        for bytes in [1, 1000, GATHERED_BYTES - HEADER_BYTES, PACKET_BYTES_MAX] {
            let mut packets = Packets::new(Cursor::new(Vec::new()));
            for _ in 0..3000 {
                let is_sent = packets.are_filled_by(bytes);
                let before = packets.stream.position();
                packets.write(&vec![1; bytes]).unwrap();
                assert_eq!(packets.stream.position() > before, is_sent);
                if is_sent {
                    break;
                }
            }
        }
    }

    #[test]
    fn packet_that_is_too_large_or_cut_is_an_error() {
        let mut large = Packets::new(Cursor::new(vec![0xff, 0xff, 0xff, 0, 1]));
        assert_eq!(large.read().unwrap_err().kind(), io::ErrorKind::InvalidData);
        let mut cut = Packets::new(Cursor::new(vec![5, 0, 0, 0, 1]));
        assert_eq!(cut.read().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
