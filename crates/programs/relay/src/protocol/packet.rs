//! Packets: three bytes of length, one that counts them, then the payload.
//!
//! A payload of the greatest length is continued by the next packet. Clients send little, so what
//! is larger than [`INPUT_MAX`] is refused; answers may have any size.

use std::io::{self, Read, Write};

use synod_tls::ServiceTls;

/// Size of a packet's header.
const HEADER_BYTES: usize = 4;
/// Payload of a packet that another one continues.
const PART_BYTES: usize = 0xff_ffff;
/// Largest packet that is taken from a reader, in bytes: statements with long lists of GTIDs.
const INPUT_MAX: usize = 1 << 20;
/// The same of a caller that has not proven a password: its name, and attributes.
const CALLER_INPUT_MAX: usize = 64 << 10;
/// Bytes gathered before they are sent.
const GATHERED_BYTES: usize = 256 << 10;

/// A connection that can be looked at without a wait, and encrypted after its first packets.
pub(crate) trait Connection: Read + Write {
    /// Whether the other side has ended it. The other side says nothing more, so what it says is
    /// passed over.
    fn has_ended(&mut self) -> bool;

    /// From now on only the system's limits hold, each for one call.
    fn lift_deadline(&mut self);

    /// Everything after this is encrypted.
    ///
    /// # Errors
    /// The handshake failed.
    fn encrypt(&mut self, tls: &ServiceTls) -> io::Result<()>;
}

/// A connection, in packets.
pub(crate) struct Packets<S> {
    stream: S,
    /// Number of the next packet.
    number: u8,
    /// Bytes not sent yet.
    gathered: Vec<u8>,
    /// Largest packet that is taken, in bytes.
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

    /// Whether the other side has ended the connection.
    pub(crate) fn have_ended(&mut self) -> bool
    where
        S: Connection,
    {
        self.stream.has_ended()
    }

    /// Everything after this is encrypted.
    ///
    /// # Errors
    /// The handshake failed.
    pub(crate) fn encrypt(&mut self, tls: &ServiceTls) -> io::Result<()>
    where
        S: Connection,
    {
        self.stream.encrypt(tls)
    }

    /// Takes a packet.
    ///
    /// # Errors
    /// The connection has ended, or the packet is too large.
    pub(crate) fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        let [a, b, c, number] = header;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        if length > self.input_max {
            let max = self.input_max;
            let text = format!("a packet of {length} bytes, at most {max} are taken");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.number = number.wrapping_add(1);
        // Grows with what arrives: a length alone takes no memory.
        let mut payload = Vec::new();
        let taken = (&mut self.stream)
            .take(length as u64)
            .read_to_end(&mut payload)?;
        if taken < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(payload)
    }

    /// Bytes that were gathered, and not sent yet.
    pub(crate) fn gathered_bytes(&self) -> usize {
        self.gathered.len()
    }

    /// Whether a payload of so many bytes has what was gathered sent.
    pub(crate) fn are_filled_by(&self, payload_bytes: usize) -> bool {
        self.gathered.len() + HEADER_BYTES + payload_bytes >= GATHERED_BYTES
    }

    /// Adds a packet with this payload to what is to be sent.
    ///
    /// # Errors
    /// As [`Packets::flush`].
    pub(crate) fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        self.write_pieces(&[payload])
    }

    /// [`Packets::write`] for a payload in several pieces. Gathered bytes are sent only if
    /// [`Packets::are_filled_by`] says so.
    ///
    /// # Errors
    /// As [`Packets::flush`].
    pub(crate) fn write_pieces(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        let mut left: usize = pieces.iter().map(|piece| piece.len()).sum();
        // What the packet that has begun still takes.
        let mut room = self.begin_packet(left);
        for piece in pieces {
            let mut piece = *piece;
            while piece.len() > room {
                let (now, later) = piece.split_at(room);
                self.add(now)?;
                (piece, left) = (later, left - PART_BYTES);
                room = self.begin_packet(left);
            }
            self.add(piece)?;
            room -= piece.len();
        }
        // A full packet says that another one follows.
        if left == PART_BYTES {
            self.begin_packet(0);
        }
        self.send_if_filled()
    }

    /// Adds the header of a packet for as much as it may hold of so many bytes; gives that.
    fn begin_packet(&mut self, left: usize) -> usize {
        let length = left.min(PART_BYTES);
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

    /// Sends what was gathered.
    ///
    /// # Errors
    /// The connection has ended, or takes nothing for too long.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

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
        let bytes = sent(&vec![1; PART_BYTES]);
        assert_eq!(bytes.len(), 4 + PART_BYTES + 4);
        assert_eq!(bytes[..4], [0xff, 0xff, 0xff, 0]);
        assert_eq!(bytes[4 + PART_BYTES..], [0, 0, 0, 1]);
        assert_eq!(sent(&vec![1; PART_BYTES + 1]).len(), 4 + PART_BYTES + 4 + 1);
    }

    #[test]
    fn packets_are_sent_when_they_are_filled_and_not_before() {
        for bytes in [1, 1000, GATHERED_BYTES - HEADER_BYTES, PART_BYTES] {
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
