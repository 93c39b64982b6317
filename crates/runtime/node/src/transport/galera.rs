//! Recognises nodes of Galera, which use the same port and are found at the same addresses.
//!
//! While servers change from one library to the other, some run Galera still and some this one
//! already. The two protocols have nothing in common, so neither end learns from the other what it
//! is. What shows it is who speaks first. A node of Galera greets each caller, before it has heard
//! anything; and where it connects itself, it waits for such a greeting, and hangs up without one
//! after three seconds. Members never do either. The bytes and times are those seen of Galera
//! 26.4.23.

use std::io::Read;
use std::time::Duration;

pub const GREETING_LIMIT: Duration = Duration::from_secs(1);
/// A caller that has said nothing for so long before it hung up waited for a greeting.
pub(super) const SILENCE_MIN: Duration = Duration::from_millis(2500);

/// Bytes that are read of a greeting: its header, its version and its type.
const HEAD: usize = 10;
/// Bytes that follow the header in the greetings seen: fewer than the least one, more than the
/// largest one.
const BODY_BYTES: std::ops::RangeInclusive<u32> = 20..=256;
/// The highest code of a checksum in the header's upper byte.
const CHECKSUM_MAX: u8 = 2;
const HANDSHAKE: [u8; 2] = [0, 1];

/// Whether a node of Galera answers on a connection on which nothing was sent.
pub fn greets(mut connection: impl Read) -> bool {
    let mut head = [0; HEAD];
    connection.read_exact(&mut head).is_ok() && is_greeting(head)
}

/// The header is a number in little-endian order, the length below and the checksum's code above,
/// and then the checksum.
fn is_greeting(head: [u8; HEAD]) -> bool {
    let [l0, l1, l2, checksum, _, _, _, _, version, kind] = head;
    let length = u32::from_le_bytes([l0, l1, l2, 0]);
    BODY_BYTES.contains(&length) && checksum <= CHECKSUM_MAX && [version, kind] == HANDSHAKE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A greeting as Galera 26.4.23 sent it.
    const SEEN: [u8; 44] = [
        0x24, 0x00, 0x00, 0x02, 0x16, 0x13, 0x91, 0x48, 0x00, 0x01, 0x10, 0x00, 0xd6, 0x08, 0xb0,
        0x5c, 0xe7, 0x79, 0x11, 0xf1, 0xa0, 0x33, 0xde, 0xd7, 0xc3, 0xc2, 0x02, 0xf6, 0xfa, 0xd3,
        0xd8, 0x52, 0xe7, 0x79, 0x11, 0xf1, 0xb4, 0x73, 0xea, 0x95, 0xc4, 0x5b, 0xd6, 0xad,
    ];

    #[test]
    fn greeting_is_recognised_and_other_servers_are_not() {
        assert!(greets(&SEEN[..]));
        assert!(!greets(&SEEN[..9]), "it ended early");
        assert!(!greets(&b"SSH-2.0-OpenSSH_9.2p1\r\n"[..]));
        assert!(!greets(&b"HTTP/1.1 400 Bad Request\r\n"[..]));
        // A server of MariaDB: its first packet has the number 0 where the checksum's code is.
        assert!(!greets(&b"\x5b\0\0\0\x0a5.5.5-10.11.19"[..]));
    }
}
