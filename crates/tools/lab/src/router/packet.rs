//! The receiver of a packet: the only field that the router reads.

use std::net::Ipv4Addr;

/// Bytes of the shortest header of IPv4.
const HEADER_BYTES: usize = 20;

/// The receiver of a packet of IPv4; none for anything else.
pub fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    if packet.len() < HEADER_BYTES || packet[0] >> 4 != 4 {
        return None;
    }
    let octets: [u8; 4] = packet[16..20].try_into().ok()?;
    Some(Ipv4Addr::from(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receiver_of_ipv4_is_found() {
        let mut packet = [0u8; 20];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[10, 77, 0, 3]);
        assert_eq!(destination(&packet), Some(Ipv4Addr::new(10, 77, 0, 3)));
    }

    #[test]
    fn other_packets_have_no_receiver() {
        assert_eq!(destination(&[0x45; 19]), None);
        assert_eq!(destination(&[0x60; 40]), None);
        assert_eq!(destination(&[]), None);
    }
}
