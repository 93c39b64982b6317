//! Calls back to callers: the callers that get one, and the address that is called.
//!
//! Each direction is a connection of its own, so a caller that is to get answers has to be called.
//! A stranger that has proven nothing could name any address: it is called only where it called
//! from, so no host gets calls because another one asked for them. Links to strangers are few, and
//! the links that the driver orders have room of their own.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Weak};

use synod_member::{Level, lock};

use super::Transport;
use super::greeting::AdmittedCaller;
use super::link::{Link, Target};
use super::per_address_limit::{Source, first_to_leave};

/// Strangers that are called at a time; the oldest of the address with the most makes room.
const CALL_BACKS_MAX: usize = 16;
/// Links to strangers that are called, or whose threads have not ended yet.
const CALL_BACK_THREADS_MAX: usize = 48;

impl Transport {
    /// A caller was welcomed: sees to it that it is called, too.
    pub(super) fn called_by(self: &Arc<Self>, caller: &AdmittedCaller) {
        let (member, address) = (caller.hello.member, &caller.hello.address);
        let is_authenticated = caller.is_authenticated();
        if !self.known.has(member) {
            self.call_back(caller, is_authenticated);
        } else if caller.presence.is_alone() && !self.calls(member, address) {
            if is_authenticated || is_at(address, caller.ip) {
                self.connect(member, address);
            } else {
                self.log_not_called(caller);
            }
        }
    }

    fn call_back(self: &Arc<Self>, caller: &AdmittedCaller, is_authenticated: bool) {
        let (member, address) = (caller.hello.member, &caller.hello.address);
        if !is_authenticated && is_elsewhere(address, caller.ip) {
            return self.log_not_called(caller);
        }
        let target = Target {
            address: address.clone(),
            only_at: (!is_authenticated).then_some(caller.ip),
        };
        let mut links = lock(&self.links);
        if let Some(link) = links.get(&member) {
            if caller.presence.is_alone() {
                link.call_back_at(target);
            }
            return;
        }
        let pool = links.iter().filter_map(|(member, link)| {
            let (source, begun) = link.place()?;
            Some((*member, source, begun))
        });
        let leaves = (pool.clone().count() >= CALL_BACKS_MAX).then(|| first_to_leave(pool));
        if let Some(link) = leaves.flatten().and_then(|member| links.remove(&member)) {
            link.close();
        }
        let mut running = lock(&self.call_backs);
        running.retain(|link| link.strong_count() > 0);
        if running.len() >= CALL_BACK_THREADS_MAX {
            let why = "too many strangers to call back";
            let text = || format!("not calling {address} back: {why}");
            return self.log_about(caller.ip, Level::Warning, why, text);
        }
        let link = Arc::new(Link::to_stranger(member, target, Source::of(caller.ip)));
        running.push(Arc::downgrade(&link));
        drop(running);
        self.start_link(&mut links, link);
    }

    fn log_not_called(&self, caller: &AdmittedCaller) {
        let (name, address, ip) = (&caller.hello.name, &caller.hello.address, caller.ip);
        let why = "it names an address of another host, and its connection proves nothing";
        self.log_about(ip, Level::Warning, why, || {
            format!(
                "not calling {address} back for {name}, which calls from {ip}: {why}. Have it \
                 state the address that it calls from, or give all members credentials"
            )
        });
    }
}

/// Links to strangers whose threads may run.
pub(super) type CallBacks = Vec<Weak<Link>>;

/// Whether an address leads to this host. May ask the resolver.
fn is_at(address: &str, ip: IpAddr) -> bool {
    let candidates = address.to_socket_addrs();
    candidates.is_ok_and(|mut all| all.any(|at| at.ip().to_canonical() == ip))
}

/// Whether an address is, without a question to the resolver, that of another host.
fn is_elsewhere(address: &str, ip: IpAddr) -> bool {
    let literal = address.parse::<SocketAddr>();
    literal.is_ok_and(|at| at.ip().to_canonical() != ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_host_of_a_caller_is_known_by_its_address() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        assert!(is_at("127.0.0.1:4567", ip) && is_at("[::ffff:127.0.0.1]:4567", ip));
        assert!(!is_at("127.0.0.2:4567", ip) && !is_at("nowhere", ip));
        assert!(is_elsewhere("127.0.0.2:4567", ip) && is_elsewhere("[::1]:4567", ip));
        assert!(!is_elsewhere("127.0.0.1:1", ip));
        assert!(!is_elsewhere("a-name:4567", ip), "its link finds out");
    }
}
