//! Transports that call each other, without drivers: what would reach the driver, and what not.

#[path = "../../../tls/tests/support/certificates.rs"]
mod certificates;

use std::ops::ControlFlow;
use std::time::Duration;

use synod_consensus::{EntryKind, GroupId, Origin, Term};
use synod_member::{
    Delivery, DonorRequest, FailedCall, Network, Remedy, SignOfLife, StateTransferEvent, View,
};
use synod_tls::Credentials;
use synod_wire::OUR_VERSIONS;

use super::*;
use crate::clock::wall_us;
use crate::config::TlsConfig;
use certificates::{Authority, Kind};

const PATIENCE: Duration = Duration::from_secs(30);
const HOME: MemberId = MemberId(1);
const OTHER: MemberId = MemberId(2);

/// Records what it is told, and panics where a test wants it to.
#[derive(Default)]
struct TestHost {
    lines: Mutex<Vec<String>>,
    panics_at: Mutex<Option<&'static str>>,
}

impl TestHost {
    fn panic_if_wanted_at(&self, text: &str) {
        let mut wanted = lock(&self.panics_at);
        if wanted.is_some_and(|at| text.contains(at)) {
            *wanted = None;
            drop(wanted);
            panic!("a test wants this thread to end at '{text}'");
        }
    }

    fn says(&self, text: &str) -> bool {
        lock(&self.lines).iter().any(|line| line.contains(text))
    }
}

impl Host for TestHost {
    fn log(&self, _level: Level, text: &str) {
        lock(&self.lines).push(text.to_owned());
        self.panic_if_wanted_at(text);
    }

    fn deliver(&self, _delivery: Delivery) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn joined(&self, _view: &View) {}

    fn primary_changed(&self, _primary: bool) {}

    fn donate(&self, _request: DonorRequest) {}

    fn state_transfer_event(&self, _id: u64, _event: StateTransferEvent) {}

    fn allows(&self, _ip: &str) -> bool {
        self.panic_if_wanted_at("allows");
        true
    }

    fn failed(&self, _why: &str, _remedy: Remedy) {}
}

fn identity_of(member: MemberId) -> LocalIdentity {
    LocalIdentity {
        versions: OUR_VERSIONS,
        group: GroupId::NONE,
        cluster_name: "test".to_owned(),
        member,
        session: SessionId(member.0 + 100),
        name: format!("node{member}"),
    }
}

/// A transport, and what it tells the driver.
struct Peer {
    transport: Arc<Transport>,
    events: Arc<Events>,
    host: Arc<TestHost>,
}

impl Peer {
    fn start(member: MemberId, tls: Option<TlsConfig>) -> Peer {
        Peer::start_as(identity_of(member), tls, wall_us, &[])
    }

    fn with_clock(member: MemberId, wall_clock: fn() -> u64) -> Peer {
        Peer::start_as(identity_of(member), None, wall_clock, &[])
    }

    fn start_as(
        identity: LocalIdentity,
        tls: Option<TlsConfig>,
        wall_clock: fn() -> u64,
        seeds: &[&Peer],
    ) -> Peer {
        let host = Arc::new(TestHost::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let events = Arc::new(Events::new());
        let transport = Transport::start(TransportStart {
            identity,
            address: listener.local_addr().unwrap().to_string(),
            listener,
            encryption: ConnectionEncryption::new(tls, &*host).unwrap(),
            seeds: seeds
                .iter()
                .map(|peer| peer.transport.address.clone())
                .collect(),
            events: events.clone(),
            inbound_budgets: InboundBudgets::of_bytes(1 << 20, 1 << 20),
            host: host.clone(),
            compression: CompressionChoice::Auto,
            wall_clock,
        });
        Peer {
            transport: transport.unwrap(),
            events,
            host,
        }
    }

    fn with_certificate(member: MemberId, authority: &Authority, name: &str) -> Peer {
        let files = authority.issue(name, Kind::Good);
        let tls = TlsConfig {
            credentials: Credentials::Certificates(files),
            accept_plain: false,
        };
        Peer::start(member, Some(tls))
    }

    fn knows(&self, member: MemberId, certificate: Option<&str>) {
        let certificate = certificate.map(str::to_owned);
        let known = BTreeMap::from([(
            member,
            KnownPeer {
                certificate,
                taken: Vec::new(),
            },
        )]);
        self.transport.set_known(&known);
    }

    fn calls(&self, other: &Peer) {
        let member = lock(&other.transport.identity).member;
        self.transport.connect(member, &other.transport.address);
    }

    /// The first event that is looked for.
    fn wait<T>(&self, mut looked_for: impl FnMut(Event) -> Option<T>) -> T {
        loop {
            let incoming = self.events.recv_timeout(PATIENCE).unwrap();
            if let Some(found) = looked_for(incoming.event) {
                return found;
            }
        }
    }

    fn has_no_event(&self) -> bool {
        self.events.recv_timeout(Duration::ZERO).is_none()
    }

    fn wait_link_up(&self) {
        self.wait(|event| matches!(event, Event::LinkUp { .. }).then_some(()));
    }

    fn wait_line(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.host.says(text) {
            assert!(Instant::now() < deadline, "waited in vain: {text}");
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// Sends a message to `other`, again whenever the connection has ended, until it arrives; the
    /// certificate it came with.
    fn reaches(&self, other: &Peer) -> Option<Arc<str>> {
        let member = lock(&other.transport.identity).member;
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "no message arrives");
            self.transport.send(member, PeerMessage::LeaveReply);
            let incoming = other.events.recv_timeout(Duration::from_millis(20));
            if let Some(Event::Peer { certificate, .. }) = incoming.map(|incoming| incoming.event) {
                return certificate;
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.transport.stop();
    }
}

#[test]
fn member_in_anothers_name_is_refused_by_the_certificate_that_it_shows() {
    let authority = Authority::new("ca");
    let home = Peer::with_certificate(HOME, &authority, "one");
    home.knows(OTHER, Some("CN=two"));
    let thief = Peer::with_certificate(OTHER, &authority, "three");
    thief.calls(&home);
    home.wait_line("joined with the certificate of 'CN=two'");
    home.wait_line("this connection shows that of 'CN=three'");
    let refused = thief.wait(|event| match event {
        Event::CallFailed(call) => Some((call.why, call.sign == SignOfLife::RefusedForGood)),
        _ => None,
    });
    assert!(refused.0.contains("'CN=three'") && refused.1, "{refused:?}");
    // Nor is it called in that name.
    home.calls(&thief);
    home.wait_line("cannot call");
    while let Some(incoming) = home.events.recv_timeout(Duration::ZERO) {
        let event = incoming.event;
        let Event::CallFailed(FailedCall { sign, .. }) = event else {
            panic!("more reaches the driver");
        };
        assert_eq!(sign, SignOfLife::Distrust);
    }
}

#[test]
fn connections_in_a_members_name_are_judged_again_when_its_certificate_becomes_known() {
    let authority = Authority::new("ca");
    let home = Peer::with_certificate(HOME, &authority, "one");
    let thief = Peer::with_certificate(OTHER, &authority, "three");
    thief.calls(&home);
    home.calls(&thief);
    home.wait_link_up();
    assert_eq!(thief.reaches(&home).as_deref(), Some("CN=three"));
    home.knows(OTHER, Some("CN=two"));
    home.wait_line("refused: member");
    home.wait_line("cannot call");
    drop(thief);
    let member = Peer::with_certificate(OTHER, &authority, "two");
    member.calls(&home);
    home.calls(&member);
    // What the other process sent before that may still be there.
    while member.reaches(&home).as_deref() != Some("CN=two") {}
}

#[test]
fn bound_member_speaks_with_its_certificate_also_with_a_renewed_one() {
    let authority = Authority::new("ca");
    let home = Peer::with_certificate(HOME, &authority, "one");
    home.knows(OTHER, Some("CN=two"));
    for _ in 0..2 {
        let other = Peer::with_certificate(OTHER, &authority, "two");
        other.calls(&home);
        home.calls(&other);
        home.wait_link_up();
        assert_eq!(other.reaches(&home).as_deref(), Some("CN=two"));
    }
}

#[test]
fn word_of_a_stranger_that_is_called_back_is_no_members_word() {
    let home = Peer::start(HOME, None);
    let other = Peer::start(OTHER, None);
    // The stranger refuses the call back: it is this very member, it says.
    lock(&other.transport.identity).member = HOME;
    let mut hello = other.transport.hello(Lane::Control);
    hello.member = OTHER;
    let stream = std::net::TcpStream::connect(&home.transport.address).unwrap();
    let mut writer = synod_wire::FrameWriter::new(&stream, 4096);
    synod_wire::write_hello(&mut writer, &hello).unwrap();
    other.wait_line("refused: member");
    drop(stream);
    // The driver orders the link: now it counts.
    assert!(
        home.has_no_event(),
        "no report of a duplicate, no member found"
    );
    home.transport.connect(OTHER, &other.transport.address);
    let by = home.wait(|event| match event {
        Event::DuplicateIdentity { by, .. } => Some(by),
        _ => None,
    });
    assert_eq!(by, OTHER);
}

#[test]
fn thread_that_panics_leaves_no_connection_and_no_session_behind() {
    let home = Peer::start(HOME, None);
    home.knows(OTHER, None);
    for at in ["allows", "closing the connection"] {
        *lock(&home.host.panics_at) = Some(at);
        let other = Peer::start(OTHER, None);
        if at != "allows" {
            // The conversation ends with a line in the log.
            let hello = other.transport.hello(Lane::Control);
            let mut stream = std::net::TcpStream::connect(&home.transport.address).unwrap();
            let mut writer = synod_wire::FrameWriter::new(&stream, 4096);
            synod_wire::write_hello(&mut writer, &hello).unwrap();
            std::io::Write::write_all(&mut stream, &[7; 64]).unwrap();
            home.wait_line(at);
        }
        other.calls(&home);
        other.reaches(&home);
        drop(other);
        let deadline = Instant::now() + PATIENCE;
        while home.transport.connections.len() > 0 || !home.transport.sessions.is_empty() {
            assert!(Instant::now() < deadline, "a place is lost");
            std::thread::park_timeout(Duration::from_millis(2));
        }
        assert!(lock(&home.host.panics_at).is_none(), "it did panic");
    }
}

/// A chunk of so many bytes.
fn chunk(bytes: usize) -> PeerMessage {
    PeerMessage::Propose(synod_wire::Propose {
        tag: Term(1),
        origin: Origin::default(),
        kind: EntryKind::Chunk,
        oldest_outstanding: 1,
        payload: vec![7; bytes].into(),
    })
}

#[test]
fn vote_arrives_while_data_has_taken_all_its_room() {
    let home = Peer::start(HOME, None);
    let other = Peer::start(OTHER, None);
    home.knows(OTHER, None);
    other.calls(&home);
    home.calls(&other);
    home.wait_link_up();
    other.wait_link_up();
    // More than there is room for; nothing that arrives is handled.
    for _ in 0..4 {
        other.transport.send(HOME, chunk(700 << 10));
    }
    let budget = home.transport.inbound_budgets.of(Lane::Bulk);
    let deadline = Instant::now() + PATIENCE;
    while budget.takers() == 0 {
        assert!(Instant::now() < deadline, "no data arrives");
        std::thread::park_timeout(Duration::from_millis(2));
    }
    assert!(!budget.take_now(700 << 10), "the room is taken");
    other.transport.send(HOME, PeerMessage::LeaveReply);
    let control = home.transport.inbound_budgets.of(Lane::Control);
    while control.takers() == 0 {
        assert!(Instant::now() < deadline, "it waits for data");
        std::thread::park_timeout(Duration::from_millis(2));
    }
    let first = home.wait(|event| match event {
        Event::Peer { message, .. } => Some(message),
        _ => None,
    });
    assert_eq!(first, PeerMessage::LeaveReply, "it is handled first");
}

/// Welcomes this many calls, and closes each connection.
fn welcome_and_close(listener: &TcpListener, calls: usize) {
    for _ in 0..calls {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = synod_wire::FrameReader::new(&stream, 4096);
        let hello = synod_wire::read_hello(&mut reader).unwrap();
        let reply = identity_of(OTHER).answer(&hello).unwrap();
        let mut writer = synod_wire::FrameWriter::new(&stream, 4096);
        synod_wire::write_reply(&mut writer, &reply).unwrap();
    }
}

#[test]
fn process_that_closes_each_connection_to_it_fills_no_log() {
    for is_ordered in [false, true] {
        let home = Peer::start(HOME, None);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let caller = std::net::TcpStream::connect(&home.transport.address).unwrap();
        if is_ordered {
            home.transport.connect(OTHER, &address);
        } else {
            let mut hello = home.transport.hello(Lane::Control);
            (hello.member, hello.session, hello.address) = (OTHER, SessionId(102), address);
            let mut writer = synod_wire::FrameWriter::new(&caller, 4096);
            synod_wire::write_hello(&mut writer, &hello).unwrap();
        }
        welcome_and_close(&listener, 12);
        home.wait_line("broke");
        let lines = lock(&home.host.lines);
        let broke = lines.iter().filter(|line| line.contains("broke"));
        assert!(broke.count() <= 3, "one for each reason: {lines:?}");
    }
}

/// Pings until the link to the other member is measured.
fn measured(peer: &Peer, other: MemberId) -> LinkStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        peer.transport.ping_all();
        let status = peer.transport.link_status();
        let found = status.into_iter().find(|link| link.member == other);
        if let Some(link) = found.filter(|link| link.clock.is_some()) {
            return link;
        }
        assert!(Instant::now() < deadline, "no ping was answered");
        std::thread::park_timeout(Duration::from_millis(250));
    }
}

/// Two members that know and call each other; the clock of the other one is ahead.
fn linked(ahead: fn() -> u64) -> (Peer, Peer) {
    let home = Peer::with_clock(HOME, wall_us);
    let other = Peer::with_clock(OTHER, ahead);
    home.knows(OTHER, None);
    other.knows(HOME, None);
    home.calls(&other);
    other.calls(&home);
    home.wait_link_up();
    other.wait_link_up();
    (home, other)
}

#[test]
fn each_end_of_a_link_measures_it_and_the_clock_at_the_other_end() {
    const AHEAD_US: i64 = 5_000_000;
    let (home, other) = linked(|| wall_us() + AHEAD_US.unsigned_abs());
    for (peer, member, expected) in [(&home, OTHER, AHEAD_US), (&other, HOME, -AHEAD_US)] {
        let link = measured(peer, member);
        let clock = link.clock.unwrap();
        // Each clock shows whole microseconds.
        let wrong_by = clock.ahead_us.abs_diff(expected);
        assert!(wrong_by <= clock.error_us + 2, "{clock:?} for {expected}");
        assert!(link.round_trip.is_some());
    }
    for peer in [&home, &other] {
        while let Some(incoming) = peer.events.recv_timeout(Duration::ZERO) {
            let is_message = matches!(incoming.event, Event::Peer { .. });
            assert!(!is_message, "the driver has nothing to do with pings");
        }
    }
}

#[test]
fn both_of_two_groups_of_one_name_say_so_once_a_minute() {
    let groups = [GroupId([1; 16]), GroupId([2; 16])];
    let in_group = |member, group| LocalIdentity {
        group,
        ..identity_of(member)
    };
    let home = Peer::start_as(in_group(HOME, groups[0]), None, wall_us, &[]);
    // The other one finds no member, as where both begin at one moment, and has its group.
    home.transport.set_isolated(true);
    let other = Peer::start_as(in_group(OTHER, groups[1]), None, wall_us, &[&home]);
    other.wait(|event| matches!(event, Event::CallFailed(_)).then_some(()));
    let network = DriverNetwork(other.transport.clone());
    network.stop_seeking();
    home.transport.set_isolated(false);
    network.stop_seeking();
    for peer in [&home, &other] {
        peer.wait_line("start it without bootstrap");
    }
    discovery::look_for_other_group(&other.transport, &home.transport.address);
    for peer in [&home, &other] {
        let lines = lock(&peer.host.lines);
        let said: Vec<_> = lines
            .iter()
            .filter(|line| line.contains("two groups"))
            .collect();
        assert_eq!(said.len(), 1, "{lines:?}");
        for group in groups {
            assert!(said[0].contains(&group.to_string()), "{lines:?}");
        }
        assert!(said[0].contains("127.0.0.1:"), "{lines:?}");
    }
}

#[test]
fn member_is_connected_at_its_address_and_nowhere_else() {
    let (home, other) = linked(wall_us);
    let port = other.transport.address.rsplit(':').next().unwrap();
    for address in [&other.transport.address, &format!("localhost:{port}")] {
        assert!(
            discovery::is_connected_at(&home.transport, address),
            "{address}"
        );
    }
    assert!(!discovery::is_connected_at(
        &home.transport,
        &home.transport.address
    ));
    assert!(!discovery::is_connected_at(
        &home.transport,
        "no-such-host.invalid:1"
    ));
}

#[test]
fn pings_of_strangers_are_not_answered() {
    let (home, other) = linked(wall_us);
    measured(&home, OTHER);
    other.transport.set_known(&BTreeMap::new());
    // The last answers may be on their way.
    let deadline = Instant::now() + PATIENCE;
    while home.transport.pings.awaited(OTHER) < 3 {
        assert!(Instant::now() < deadline, "still answered");
        home.transport.ping_all();
        std::thread::park_timeout(Duration::from_millis(250));
    }
}

#[test]
fn round_of_pings_ends_with_the_transport() {
    let peer = Peer::with_clock(HOME, wall_us);
    assert!(peer.transport.wait_to_ping(Duration::ZERO));
    let waiting = peer.transport.clone();
    let waits = std::thread::spawn(move || while waiting.wait_to_ping(PATIENCE * 100) {});
    peer.transport.stop();
    waits.join().unwrap();
}
