//! Connections by what their clients have shown: nothing yet, or what opens the pages.
//!
//! ```text
//! accepted ─► unproven (32; the oldest of the address that has most gives way; 5 s) ─► proven (64)
//! ```
//! The two have bounds of their own, so that clients without a token take no place of a check that
//! has it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Clients at a time that have not been let in yet.
const UNPROVEN_MAX: usize = 32;
const PROVEN_MAX: usize = 64;
/// Time limit for a client from its connection to a request that is let in.
const FIRST_LIMIT: Duration = Duration::from_secs(5);

pub(crate) struct Callers {
    unproven: Mutex<Unproven>,
    proven: Arc<Semaphore>,
}

#[derive(Default)]
struct Unproven {
    next: u64,
    /// In the order in which they came.
    waiting: BTreeMap<u64, (IpAddr, Arc<Notify>)>,
}

impl Default for Callers {
    fn default() -> Callers {
        Callers {
            unproven: Mutex::default(),
            proven: Arc::new(Semaphore::new(PROVEN_MAX)),
        }
    }
}

impl Callers {
    /// A new connection. If there are too many like it, another one is told to end.
    pub(crate) fn arrived(self: &Arc<Self>, address: IpAddr) -> Caller {
        let end = Arc::new(Notify::new());
        let mut unproven = self.unproven();
        if unproven.waiting.len() >= UNPROVEN_MAX {
            unproven.end_one();
        }
        let number = unproven.next;
        unproven.next += 1;
        let entry = (call_source(address), end.clone());
        unproven.waiting.insert(number, entry);
        drop(unproven);
        let place = Mutex::new(Place::Unproven);
        let callers = self.clone();
        Caller {
            callers,
            number,
            end,
            place,
        }
    }

    fn unproven(&self) -> MutexGuard<'_, Unproven> {
        lock(&self.unproven)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unproven {
    fn end_one(&mut self) {
        let mut sites: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (site, _) in self.waiting.values() {
            *sites.entry(*site).or_default() += 1;
        }
        let most = sites.into_iter().max_by_key(|(_, count)| *count);
        let Some((greediest, _)) = most else {
            return;
        };
        let mut waiting = self.waiting.iter();
        let oldest = waiting.find(|(_, (site, _))| *site == greediest);
        if let Some(number) = oldest.map(|(number, _)| *number)
            && let Some((_, end)) = self.waiting.remove(&number)
        {
            end.notify_one();
        }
    }
}

/// Addresses that one machine can have as many of as it likes count as one.
fn call_source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

/// A connection, until it is dropped.
pub(crate) struct Caller {
    callers: Arc<Callers>,
    number: u64,
    end: Arc<Notify>,
    place: Mutex<Place>,
}

enum Place {
    Unproven,
    /// Held, and given back with the connection.
    Proven(#[expect(dead_code)] OwnedSemaphorePermit),
}

impl Caller {
    /// The client's request is one that is answered. False: too many such connections are open.
    pub(crate) fn is_let_in(&self) -> bool {
        let mut place = lock(&self.place);
        if let Place::Proven(_) = *place {
            return true;
        }
        let Ok(permit) = self.callers.proven.clone().try_acquire_owned() else {
            return false;
        };
        self.callers.unproven().waiting.remove(&self.number);
        *place = Place::Proven(permit);
        true
    }

    /// Returns when an unproven connection has to end: it took too long, or gives way to another
    /// one. Never returns for one that was let in.
    pub(crate) async fn has_to_end(&self) {
        let was_ended = tokio::time::timeout(FIRST_LIMIT, self.end.notified()).await;
        let is_proven = matches!(*lock(&self.place), Place::Proven(_));
        if is_proven && was_ended.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.callers.unproven().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ended(caller: &Caller) -> bool {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        let almost = FIRST_LIMIT - Duration::from_millis(1);
        let waited = async { tokio::time::timeout(almost, caller.has_to_end()).await };
        runtime.block_on(waited).is_ok()
    }

    #[test]
    fn site_with_most_connections_gives_way() {
        let callers = Arc::new(Callers::default());
        let [greedy, other]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|a| a.parse().unwrap());
        let check = callers.arrived(other);
        let many: Vec<Caller> = (0..UNPROVEN_MAX).map(|_| callers.arrived(greedy)).collect();
        assert!(is_ended(&many[0]), "the oldest of the greedy one");
        assert!(!is_ended(&many[1]) && !is_ended(&check));
        drop(many);
        assert_eq!(callers.unproven().waiting.len(), 1);
    }

    #[test]
    fn network_of_an_ipv6_host_counts_as_one_site() {
        let parse = |text: &str| call_source(text.parse().unwrap());
        assert_eq!(parse("2001:db8::1"), parse("2001:db8::2:3"));
        assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
        assert_eq!(parse("::ffff:192.0.2.1"), parse("192.0.2.1"));
    }

    #[test]
    fn places_of_those_that_were_let_in_are_apart_and_come_back() {
        let callers = Arc::new(Callers::default());
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let let_in: Vec<Caller> = (0..PROVEN_MAX).map(|_| callers.arrived(address)).collect();
        assert!(let_in.iter().all(Caller::is_let_in));
        assert!(let_in[0].is_let_in(), "it has its place already");
        let late = callers.arrived(address);
        assert!(!late.is_let_in(), "one too many");
        drop(let_in);
        assert!(late.is_let_in());
        assert!(!is_ended(&late));
    }
}
