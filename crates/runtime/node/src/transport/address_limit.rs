//! Limit on what callers from one address can take of a pool of connections: the address that has
//! most makes room.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

/// Source of calls: an address of IPv4, or a network of IPv6. One host commonly has all 2^64
/// addresses of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallSource(IpAddr);

impl CallSource {
    pub fn of(ip: IpAddr) -> CallSource {
        CallSource(match ip.to_canonical() {
            IpAddr::V6(ip) => {
                let [a, b, c, d, ..] = ip.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            ip => ip,
        })
    }

    /// The address, or the first one of the network.
    pub fn ip(self) -> IpAddr {
        self.0
    }
}

/// The place in a full pool that makes room: the one unused for longest, of the source with the
/// most. A caller that opens many connections competes with itself: one from another source, which
/// has one, keeps it.
pub fn oldest_of_fullest_address<Id: Copy>(
    pool: impl Iterator<Item = (Id, CallSource, Instant)> + Clone,
) -> Option<Id> {
    let mut counts: HashMap<CallSource, usize> = HashMap::new();
    for (_, source, _) in pool.clone() {
        *counts.entry(source).or_default() += 1;
    }
    let most = counts.values().max().copied()?;
    let crowded = pool.filter(|(_, source, _)| counts.get(source) == Some(&most));
    crowded.min_by_key(|(_, _, used)| *used).map(|(id, ..)| id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn source(text: &str) -> CallSource {
        CallSource::of(text.parse().unwrap())
    }

    #[test]
    fn oldest_of_the_source_with_the_most_leaves() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (quiet, loud) = (source("10.0.0.1"), source("10.0.0.2"));
        let pool = [
            (1, quiet, at(0)),
            (2, loud, at(7)),
            (3, loud, at(5)),
            (4, loud, at(6)),
            (5, quiet, at(1)),
        ];
        assert_eq!(oldest_of_fullest_address(pool.into_iter()), Some(3));
        assert_eq!(oldest_of_fullest_address(pool[..0].iter().copied()), None);
    }

    #[test]
    fn addresses_of_one_host_are_one_source() {
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
    }
}
