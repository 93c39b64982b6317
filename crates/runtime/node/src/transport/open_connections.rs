//! The connections that are open, in pools: what strangers do in theirs keeps no member out.
//!
//! | pool | at a time | when it is full |
//! |---|---|---|
//! | called by this member, until the handshake is over | as many as there are links | |
//! | callers that have not said who they are | [`GREETING_MAX`] | [`oldest_of_fullest_address`] |
//! | welcomed callers that are not known | [`STRANGERS_MAX`] | [`oldest_of_fullest_address`] |
//! | welcomed callers of one known member | [`KNOWN_MAX`] | the oldest leaves |
//! | welcomed clients with commands | [`CLIENTS_MAX`] | [`oldest_of_fullest_address`] |
//!
//! A connection that leaves is closed here; its thread notices and ends. Until then it counts: the
//! accepting thread waits while too many are ending, so the threads are bounded, too.

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use synod_consensus::{GroupId, MemberId};
use synod_member::lock;
use synod_tls::PeerCredential;

use super::address_limit::{CallSource, oldest_of_fullest_address};
use super::known_peers::Admission;

/// Callers at a time that have not said who they are.
const GREETING_MAX: usize = 64;
/// Connections at a time that were closed here and still have a thread.
const ENDING_MAX: usize = 64;
/// Welcomed connections at a time of members that are not known.
const STRANGERS_MAX: usize = 32;
/// Welcomed connections at a time of one known member: two lanes, calls of a search for the group,
/// and what is left of a process whose machine died.
const KNOWN_MAX: usize = 8;
/// Clients with commands at a time.
const CLIENTS_MAX: usize = 8;
/// How long the accepting thread waits before it looks again whether the node stops.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// All open connections of other threads, kept so that they can be closed.
#[derive(Default)]
pub(super) struct OpenConnections {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    open: HashMap<u64, OpenConnection>,
}

struct OpenConnection {
    stream: TcpStream,
    source: CallSource,
    pool: Pool,
    /// When it was accepted; when the last message came, on a connection of a stranger
    /// or a client.
    used: Instant,
    /// The peer's group, once it has said so.
    group: Option<GroupId>,
    /// Credential that a welcomed connection shows, to be judged again.
    shown: PeerCredential,
    is_known: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    Called,
    Greeting,
    Stranger(MemberId),
    Known(MemberId),
    Client,
    Ending,
}

/// One open connection; it counts until this is dropped.
pub(super) struct ConnectionSlot {
    table: Arc<OpenConnections>,
    id: u64,
    is_known: Arc<AtomicBool>,
}

/// A caller's place, and whether another caller lost its own for it.
pub(super) struct AcceptedSlot {
    pub(super) slot: ConnectionSlot,
    pub(super) made_room: bool,
}

impl OpenConnections {
    /// Keeps a connection that this member has opened, until its handshake is over. `None` if
    /// `may_open`, which is asked under the lock, says no.
    pub(super) fn called(
        self: &Arc<Self>,
        stream: &TcpStream,
        may_open: impl Fn() -> bool,
    ) -> Option<ConnectionSlot> {
        let ip = stream.peer_addr().ok()?.ip();
        let mut state = lock(&self.state);
        // A thread that stops or isolates the node closes what it finds here.
        if !may_open() {
            return None;
        }
        self.keep(&mut state, stream, ip, Pool::Called)
    }

    /// Keeps a connection that a caller has opened. Waits while too many threads are ending. `None`
    /// if `may_open`, which is asked under the lock, says no.
    pub(super) fn accepted(
        self: &Arc<Self>,
        stream: &TcpStream,
        ip: IpAddr,
        may_open: impl Fn() -> bool,
    ) -> Option<AcceptedSlot> {
        let mut state = lock(&self.state);
        while may_open() && state.count(|pool| pool == Pool::Ending) >= ENDING_MAX {
            let waited = self.freed.wait_timeout(state, LOOK_AGAIN);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if !may_open() {
            return None;
        }
        let made_room = state.make_room(GREETING_MAX, |pool| pool == Pool::Greeting);
        let slot = self.keep(&mut state, stream, ip, Pool::Greeting)?;
        Some(AcceptedSlot { slot, made_room })
    }

    fn keep(
        self: &Arc<Self>,
        state: &mut State,
        stream: &TcpStream,
        ip: IpAddr,
        pool: Pool,
    ) -> Option<ConnectionSlot> {
        let is_known = Arc::new(AtomicBool::new(false));
        let connection = OpenConnection {
            stream: stream.try_clone().ok()?,
            source: CallSource::of(ip),
            pool,
            used: Instant::now(),
            group: None,
            shown: PeerCredential::None,
            is_known: is_known.clone(),
        };
        let id = state.next;
        state.next += 1;
        state.open.insert(id, connection);
        Some(ConnectionSlot {
            table: self.clone(),
            id,
            is_known,
        })
    }

    /// Other members are known from now on, or other credentials count: moves the connections of
    /// each member that changes to its pool, and closes those that are refused; how many.
    pub(super) fn judge_again(
        &self,
        judge: impl Fn(MemberId, &PeerCredential) -> Admission,
    ) -> usize {
        let mut state = lock(&self.state);
        let mut refused = 0;
        for open in state.open.values_mut() {
            if let Pool::Stranger(member) | Pool::Known(member) = open.pool {
                let admission = judge(member, &open.shown);
                refused += usize::from(admission == Admission::Refused);
                open.belongs_to(member, admission);
            }
        }
        while state.count(|pool| matches!(pool, Pool::Stranger(_))) > STRANGERS_MAX {
            state.make_room(STRANGERS_MAX, |pool| matches!(pool, Pool::Stranger(_)));
        }
        refused
    }

    /// Other credentials count from now on: closes the connections of clients that do not fit them;
    /// how many.
    pub(super) fn close_clients_unless(&self, accepts: impl Fn(&PeerCredential) -> bool) -> usize {
        let mut state = lock(&self.state);
        let clients = state.open.values_mut().filter(|o| o.pool == Pool::Client);
        let refused = clients.filter(|open| !accepts(&open.shown));
        refused.map(OpenConnection::end).count()
    }

    /// Closes the connections of callers that are in another group, or in none.
    pub(super) fn close_other_groups(&self, group: GroupId) {
        for open in lock(&self.state).open.values() {
            if open.group.is_some_and(|other| other != group) {
                open.close();
            }
        }
    }

    pub(super) fn close_all(&self) {
        lock(&self.state)
            .open
            .values()
            .for_each(OpenConnection::close);
        self.freed.notify_all();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.state).open.len()
    }
}

impl State {
    fn count(&self, is_in_pool: impl Fn(Pool) -> bool) -> usize {
        let open = self.open.values();
        open.filter(|open| is_in_pool(open.pool)).count()
    }

    /// Closes a connection of a pool if the pool has no room for one more.
    fn make_room(&mut self, max: usize, is_in_pool: impl Fn(Pool) -> bool) -> bool {
        if self.count(&is_in_pool) < max {
            return false;
        }
        let pool = self.open.iter().filter(|(_, open)| is_in_pool(open.pool));
        let leaves =
            oldest_of_fullest_address(pool.map(|(id, open)| (*id, open.source, open.used)));
        if let Some(open) = leaves.and_then(|id| self.open.get_mut(&id)) {
            open.end();
        }
        true
    }
}

impl OpenConnection {
    fn belongs_to(&mut self, member: MemberId, admission: Admission) {
        let is_known = admission == Admission::Known;
        self.is_known.store(is_known, Ordering::Release);
        match admission {
            Admission::Known => self.pool = Pool::Known(member),
            Admission::Stranger => self.pool = Pool::Stranger(member),
            Admission::Refused => self.end(),
        }
    }

    fn end(&mut self) {
        self.close();
        self.pool = Pool::Ending;
    }

    fn close(&self) {
        // The peer may have closed it already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl ConnectionSlot {
    /// False if the caller's place was taken meanwhile, or it is not welcome any more.
    pub(super) fn welcomed(
        &self,
        member: MemberId,
        group: GroupId,
        shown: &PeerCredential,
        judge: impl FnOnce(MemberId, &PeerCredential) -> Admission,
    ) -> bool {
        let mut state = lock(&self.table.state);
        // Asked under the lock: a change is either seen here or finds this connection.
        let admission = judge(member, shown);
        match admission {
            Admission::Known => state.make_room(KNOWN_MAX, |pool| pool == Pool::Known(member)),
            Admission::Stranger => {
                state.make_room(STRANGERS_MAX, |pool| matches!(pool, Pool::Stranger(_)))
            }
            Admission::Refused => false,
        };
        let Some(open) = state.open.get_mut(&self.id) else {
            return false;
        };
        if open.pool == Pool::Ending {
            return false;
        }
        open.group = Some(group);
        open.used = Instant::now();
        open.shown = shown.clone();
        open.belongs_to(member, admission);
        admission != Admission::Refused
    }

    /// False if the client's place was taken meanwhile, or it is not welcome any more.
    pub(super) fn welcomed_client(
        &self,
        shown: &PeerCredential,
        accepts: impl FnOnce(&PeerCredential) -> bool,
    ) -> bool {
        let mut state = lock(&self.table.state);
        // Asked under the lock: a change is either seen here or finds this connection.
        if !accepts(shown) {
            return false;
        }
        state.make_room(CLIENTS_MAX, |pool| pool == Pool::Client);
        let Some(open) = state.open.get_mut(&self.id) else {
            return false;
        };
        if open.pool == Pool::Ending {
            return false;
        }
        open.used = Instant::now();
        open.shown = shown.clone();
        open.pool = Pool::Client;
        true
    }

    pub(super) fn used(&self) {
        if let Some(open) = lock(&self.table.state).open.get_mut(&self.id) {
            open.used = Instant::now();
        }
    }

    /// Whether the driver knows the caller by now.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        lock(&self.table.state).open.remove(&self.id);
        self.table.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    struct Pools {
        table: Arc<OpenConnections>,
        listener: TcpListener,
    }

    impl Pools {
        fn new() -> Pools {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let table = Arc::default();
            Pools { table, listener }
        }

        /// The caller's end of a new connection, and its place.
        fn accept(&self, from: [u8; 4]) -> (TcpStream, AcceptedSlot) {
            let near = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            let (far, _) = self.listener.accept().unwrap();
            let slot = self.table.accepted(&far, IpAddr::from(from), || true);
            (near, slot.unwrap())
        }

        fn welcome(&self, member: u64, is_known: bool) -> (TcpStream, ConnectionSlot) {
            let (near, accepted) = self.accept([10, 0, 0, 1]);
            assert!(welcome(&accepted.slot, member, known_if(is_known)));
            (near, accepted.slot)
        }
    }

    fn secret() -> PeerCredential {
        PeerCredential::Secret { key: vec![1] }
    }

    fn known_if(is_known: bool) -> Admission {
        if is_known {
            Admission::Known
        } else {
            Admission::Stranger
        }
    }

    fn welcome(slot: &ConnectionSlot, member: u64, admission: Admission) -> bool {
        let shown = &secret();
        slot.welcomed(MemberId(member), GroupId::NONE, shown, |_, _| admission)
    }

    /// Waits for the end of the connection.
    fn is_closed(mut near: TcpStream) -> bool {
        near.read(&mut [0]).is_ok_and(|len| len == 0)
    }

    #[test]
    fn crowd_that_says_nothing_makes_room_for_itself_and_for_others() {
        let pools = Pools::new();
        let (_quiet, quiet_slot) = pools.accept([10, 0, 0, 1]);
        let mut crowd: Vec<_> = (1..GREETING_MAX)
            .map(|_| pools.accept([10, 0, 0, 2]))
            .collect();
        assert!(crowd.iter().all(|(_, accepted)| !accepted.made_room));
        let (_late, late_slot) = pools.accept([10, 0, 0, 3]);
        assert!(late_slot.made_room);
        let (first, first_slot) = crowd.remove(0);
        assert!(is_closed(first));
        assert!(!welcome(&first_slot.slot, 9, Admission::Known));
        let slot = quiet_slot.slot;
        assert!(welcome(&slot, 1, Admission::Known));
        assert_eq!(pools.table.len(), GREETING_MAX + 1, "the first is ending");
        drop(first_slot);
        assert_eq!(pools.table.len(), GREETING_MAX);
    }

    #[test]
    fn strangers_share_a_pool_in_which_the_silent_leave_first() {
        let pools = Pools::new();
        let member = pools.welcome(1, true);
        let mut strangers: Vec<_> = (0..STRANGERS_MAX)
            .map(|n| pools.welcome(100 + n as u64, false))
            .collect();
        strangers[0].1.used();
        let (second, _slot) = strangers.remove(1);
        let late = pools.welcome(99, false);
        assert!(is_closed(second));
        assert!(member.1.is_known() && !late.1.is_known());
    }

    #[test]
    fn stranger_that_becomes_known_leaves_the_pool_and_comes_back_when_it_is_removed() {
        let pools = Pools::new();
        let (near, slot) = pools.welcome(1, false);
        let others: Vec<_> = (1..STRANGERS_MAX)
            .map(|n| pools.welcome(100 + n as u64, false))
            .collect();
        pools
            .table
            .judge_again(|member, _| known_if(member == MemberId(1)));
        assert!(slot.is_known());
        let more = pools.welcome(99, false);
        assert!(others.iter().all(|(_, slot)| !slot.is_known()));
        pools.table.judge_again(|_, _| Admission::Stranger);
        assert!(!slot.is_known());
        assert!(is_closed(near), "the pool was full");
        drop(more);
    }

    #[test]
    fn newest_connections_of_a_known_member_stay() {
        let pools = Pools::new();
        let mut open: Vec<_> = (0..=KNOWN_MAX).map(|_| pools.welcome(1, true)).collect();
        assert!(is_closed(open.remove(0).0));
        let other = pools.welcome(2, true);
        assert!(other.1.is_known());
    }

    #[test]
    fn clients_share_a_pool_and_leave_with_their_secret() {
        let pools = Pools::new();
        let member = pools.welcome(1, true);
        let mut clients: Vec<_> = (0..CLIENTS_MAX)
            .map(|_| {
                let (near, accepted) = pools.accept([10, 0, 0, 1]);
                assert!(accepted.slot.welcomed_client(&secret(), |_| true));
                (near, accepted.slot)
            })
            .collect();
        clients[0].1.used();
        let (near, late) = pools.accept([10, 0, 0, 2]);
        assert!(!late.slot.welcomed_client(&secret(), |_| false));
        assert!(late.slot.welcomed_client(&secret(), |_| true));
        assert!(is_closed(clients.remove(1).0), "the longest silent one");
        pools.table.judge_again(|_, _| Admission::Refused);
        assert_eq!(
            pools.table.close_clients_unless(|shown| *shown != secret()),
            8
        );
        assert!(is_closed(near) && is_closed(clients.remove(0).0));
        assert!(is_closed(member.0), "judged as a member");
    }

    #[test]
    fn connection_that_is_not_its_members_is_closed_whenever_that_becomes_known() {
        let pools = Pools::new();
        let (near, slot) = pools.welcome(1, false);
        let other = pools.welcome(2, false);
        pools.table.judge_again(|member, shown| {
            assert_eq!(*shown, secret());
            if member == MemberId(1) {
                Admission::Refused
            } else {
                Admission::Known
            }
        });
        assert!(is_closed(near));
        assert!(!slot.is_known() && other.1.is_known());
        let (late, accepted) = pools.accept([10, 0, 0, 1]);
        assert!(!welcome(&accepted.slot, 1, Admission::Refused));
        assert!(is_closed(late));
    }
}
