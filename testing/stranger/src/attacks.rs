//! The attacks: every message in the names that a stranger can take, and the attacks that once
//! stopped a group.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use synod_consensus::{MemberId, SessionId};
use synod_e2e::{Failure, Outcome, TestCluster, Why, ensure};
use synod_tls::Tls;
use synod_wire::handshake::HANDSHAKE_FRAME_MAX;
use synod_wire::{
    FrameReader, FrameWriter, HelloReply, Lane, PeerMessage, RefuseReason, read_hello, write_reply,
};

use crate::caller::{Name, address};
use crate::commands;
use crate::configuration::{Configuration, Credentials};
use crate::floods;
use crate::messages::Ends;

/// Messages sent over one connection: fewer than those after which a stranger is hung up on.
const PER_CONNECTION: usize = 32;
/// An attack that waits for an effect waits so long.
const LINGER: Duration = Duration::from_secs(2);
/// Term of the attack that once used up all terms.
const LAST_TERM: u64 = u64::MAX / 2;

/// One attack. What the stranger saw; an error if it got what it must not get.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&mut TestCluster, &Credentials) -> Outcome<String>,
}

const fn attack(
    name: &'static str,
    run: fn(&mut TestCluster, &Credentials) -> Outcome<String>,
) -> Attack {
    Attack { name, run }
}

/// All attacks on a group that is secured so.
pub(crate) fn all(configuration: Configuration) -> Vec<Attack> {
    let mut all = Vec::new();
    if configuration != Configuration::Clear {
        all.push(attack("in clear: every message", in_clear));
        all.push(attack("foreign credentials: every message", with_foreign));
    }
    all.extend([
        attack("unknown id: every message", every_message),
        attack("unknown id: 'you run elsewhere'", you_run_elsewhere),
        attack("unknown id: the last terms", last_terms),
        attack("unknown id: orders DROP DATABASE", drop_database),
        attack("unknown id: asks for a full copy", full_copy),
    ]);
    match configuration {
        Configuration::Clear => all.push(attack("unknown id: names a third host", third_host)),
        Configuration::Secret => {}
        Configuration::Certificates => {
            all.push(attack(
                "in a member's name: every message",
                in_anothers_name,
            ));
        }
    }
    all.extend(commands::all());
    all.extend(floods::all());
    all
}

/// The name that the holder of valid credentials calls in.
pub(crate) fn insider(cluster: &TestCluster, credentials: &Credentials) -> Name {
    let name = Name::stranger(cluster, 0x5712_A463);
    match credentials {
        Credentials::None => name,
        Credentials::Some { valid, .. } => name.with(valid),
    }
}

#[derive(Default)]
struct Calls {
    welcomed: usize,
    refused: usize,
    sent: usize,
    /// Reason for which the last one was refused.
    why: String,
}

impl Calls {
    fn text(&self) -> String {
        let Calls {
            welcomed,
            refused,
            sent,
            why,
        } = self;
        match refused {
            0 => format!("{welcomed} calls welcomed, {sent} messages sent"),
            _ => {
                format!("{welcomed} calls welcomed, {sent} messages sent, {refused} refused: {why}")
            }
        }
    }
}

/// Sends messages to every server, over as many connections as that takes.
fn say(cluster: &TestCluster, name: &Name, messages: impl Fn(&Ends) -> Vec<PeerMessage>) -> Calls {
    let mut calls = Calls::default();
    for node in cluster.nodes() {
        let Some(ends) = introduce(cluster, node, name, &mut calls) else {
            continue;
        };
        for batch in messages(&ends).chunks(PER_CONNECTION) {
            let Ok((mut conversation, HelloReply::Welcome { .. })) =
                name.call(address(cluster, node), Lane::Bulk)
            else {
                calls.refused += 1;
                continue;
            };
            calls.welcomed += 1;
            calls.sent += batch.iter().filter(|m| conversation.send(m)).count();
            conversation.end();
        }
    }
    calls
}

fn introduce(cluster: &TestCluster, node: u8, name: &Name, calls: &mut Calls) -> Option<Ends> {
    match name.call(address(cluster, node), Lane::Control) {
        Ok((_, HelloReply::Welcome { member, group, .. })) => {
            calls.welcomed += 1;
            Some(Ends {
                from: name.member,
                session: name.session,
                to: member,
                group,
            })
        }
        Ok((_, HelloReply::Refused { text, .. })) => {
            calls.refused += 1;
            calls.why = text;
            None
        }
        Err(Failure(why)) => {
            calls.refused += 1;
            calls.why = why;
            None
        }
    }
}

fn must_be_refused(calls: &Calls) -> Outcome<String> {
    ensure(calls.welcomed == 0, || calls.text())?;
    Ok(calls.text())
}

fn in_clear(cluster: &mut TestCluster, _: &Credentials) -> Outcome<String> {
    let name = Name::stranger(cluster, 0x5712_A461);
    must_be_refused(&say(cluster, &name, Ends::all))
}

fn with_foreign(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let name = Name::stranger(cluster, 0x5712_A462);
    let name = match credentials {
        Credentials::None => name,
        Credentials::Some { foreign, .. } => name.with(foreign),
    };
    must_be_refused(&say(cluster, &name, Ends::all))
}

fn every_message(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    Ok(say(cluster, &insider(cluster, credentials), Ends::all).text())
}

/// Takes the name of each server in turn, towards the others.
fn in_anothers_name(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let name = insider(cluster, credentials);
    let mut calls = Calls::default();
    let mut others = Vec::new();
    for node in cluster.nodes() {
        others.extend(introduce(cluster, node, &name, &mut calls));
    }
    let mut last = Calls::default();
    for other in &others {
        let thief = Name {
            member: other.to,
            session: SessionId(7),
            ..name.clone()
        };
        last = say(cluster, &thief, Ends::all);
        must_be_refused(&last)?;
    }
    Ok(format!("{} names taken; {}", others.len(), last.text()))
}

fn last_terms(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let calls = say(cluster, &insider(cluster, credentials), |ends| {
        let terms = [LAST_TERM, LAST_TERM - 1, LAST_TERM + 1];
        let numbers = [0, 1, LAST_TERM];
        let pairs = terms
            .into_iter()
            .flat_map(|term| numbers.map(|number| (term, number)));
        pairs
            .flat_map(|(term, number)| ends.consensus(term, number))
            .collect()
    });
    Ok(calls.text())
}

fn drop_database(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    const VICTIM: &str = "stranger_victim";
    cluster.execute(1, &format!("CREATE DATABASE IF NOT EXISTS {VICTIM}"))?;
    let term = cluster.status().iter().filter_map(|node| node.term).max();
    let calls = say(cluster, &insider(cluster, credentials), |ends| {
        let terms = 0..=term.unwrap_or(1) + 1;
        terms.map(|term| ends.drop_database(term, VICTIM)).collect()
    });
    std::thread::park_timeout(LINGER);
    for node in cluster.nodes() {
        let there = cluster.rows(node, &format!("SHOW DATABASES LIKE '{VICTIM}'"))?;
        ensure(there.len() == 1, || {
            format!("node{node} dropped the database")
        })?;
    }
    Ok(calls.text())
}

fn full_copy(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let calls = say(cluster, &insider(cluster, credentials), |ends| {
        let third = MemberId(ends.from.0 + 1);
        vec![ends.state_request(ends.from), ends.state_request(third)]
    });
    let until = Instant::now() + LINGER;
    while Instant::now() < until {
        for node in cluster.status() {
            let is_donor = node.member_state.contains("Donor");
            ensure(!is_donor, || format!("{} gives a full copy", node.name))?;
        }
    }
    Ok(calls.text())
}

/// Calls every server, and stays connected for a while.
fn call_all_and_linger(cluster: &TestCluster, name: &Name) {
    let calls = cluster
        .nodes()
        .map(|node| name.call(address(cluster, node), Lane::Control));
    let open: Vec<_> = calls.collect();
    std::thread::park_timeout(LINGER);
    drop(open);
}

/// Calls every server, and answers each call back: this very member runs here.
fn you_run_elsewhere(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let mut name = insider(cluster, credentials);
    let denier = Denier::start(name.tls.clone())?;
    name.address = denier.address.to_string();
    call_all_and_linger(cluster, &name);
    Ok(format!("called back and denied {} times", denier.stop()))
}

/// Answers all calls with a refusal.
struct Denier {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    denied: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Denier {
    fn start(tls: Option<Arc<Tls>>) -> Outcome<Denier> {
        let listener = TcpListener::bind("127.0.0.1:0").why("listening")?;
        let address = listener.local_addr().why("listening")?;
        let (stop, denied) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (stopped, count) = (stop.clone(), denied.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                // A server that hangs up first was not denied.
                if deny(stream, tls.as_ref()).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Ok(Denier {
            address,
            stop,
            denied,
            thread,
        })
    }

    fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread.
        let _ = crate::caller::connect(self.address);
        // A thread that panicked has printed the reason.
        let _ = self.thread.join();
        self.denied.load(Ordering::Relaxed)
    }
}

fn deny(stream: std::net::TcpStream, tls: Option<&Arc<Tls>>) -> Outcome {
    stream.set_read_timeout(Some(LINGER)).why("a socket")?;
    let mut socket = crate::caller::Socket::answer(stream, tls)?;
    read_hello(&mut FrameReader::new(&mut socket, HANDSHAKE_FRAME_MAX)).why("a hello")?;
    let reply = HelloReply::Refused {
        reason: RefuseReason::DuplicateIdentity,
        text: "a process that runs somewhere else is this very member".to_owned(),
    };
    write_reply(
        &mut FrameWriter::new(&mut socket, HANDSHAKE_FRAME_MAX),
        &reply,
    )
    .why("a refusal")
}

/// Names an address that it does not call from.
fn third_host(cluster: &mut TestCluster, credentials: &Credentials) -> Outcome<String> {
    let listener = TcpListener::bind("127.0.0.2:0").why("listening")?;
    let mut name = insider(cluster, credentials);
    name.address = listener.local_addr().why("listening")?.to_string();
    call_all_and_linger(cluster, &name);
    listener.set_nonblocking(true).why("a socket")?;
    let called = listener.accept().is_ok();
    ensure(!called, || "a server called the third host".to_owned())?;
    Ok("no server called it".to_owned())
}
