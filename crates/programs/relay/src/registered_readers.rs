//! Registered readers: positions of those that are connected, and operators' orders about readers
//! and purging. Each is a note in the log that all relays obey, so that they hold the same for
//! readers, also after a restart.
//!
//! The position noted is that of one interval ([`LOOK`]) ago, at first the requested one: what was
//! sent a moment ago may not be on the reader's disk yet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use synod_binlog::GtidList;
use synod_commands::unix_ms;
use synod_node::{
    Action, Class, CommittedLog, KeySet, Node, Pending, ProposalResult, Seqno, WaitPolicy,
};

use crate::one_reader_per_server_id::{At, Place};
use crate::pull::control::OrderRefusal;
use crate::upstream_log::entry::Note;
use crate::upstream_log::history::GtidState;
use crate::upstream_log::registry::{REGISTERED_MAX, Registered, RegisteredReaders};
use crate::upstream_log::source::{NoStart, start};
use crate::upstream_log::tail::{End, Tail};
use crate::upstream_service::Watch;

const LOOK: Duration = Duration::from_secs(10);
/// A reader that has not moved is noted so often, so that operators see that it is there.
const AGAIN_S: u64 = 600;

pub(crate) type Places = Arc<dyn Fn() -> Vec<Place> + Send + Sync>;

/// Looks at the connected readers, and for trouble, until the other end of `stop` is dropped: the
/// body of a thread.
pub(crate) fn run(watch: &Watch, places: &Places, stop: &Receiver<()>) {
    let mut sightings = ReaderPositions::default();
    while stop.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let registry = watch.tail.known().registry;
        for note in sightings.look(now_s(), &places(), &registry) {
            // If it gets lost, the next one comes.
            drop(submit_note(&watch.node, &note));
        }
        // Says what is to be said.
        watch.look(Instant::now());
    }
}

/// Submits a note. Every relay may, also one that does not lead: it is no write of the upstream.
fn submit_note(node: &Node, note: &Note) -> Arc<Pending> {
    let action = Action {
        // The writers' rule is for what pulls submit.
        class: Class::Barrier,
        keys: KeySet::new(),
        last_seen: node.commit_seqno().0,
        data: note.encode(),
    };
    node.submit_with(&action, WaitPolicy::UntilGroupLost)
}

pub(crate) fn now_s() -> u64 {
    unix_ms() / 1000
}

/// Positions at the last look, by `server_id`.
#[derive(Default)]
struct ReaderPositions(BTreeMap<u32, Seen>);

struct Seen {
    from: SocketAddr,
    at: At,
    noted: GtidList,
    noted_s: u64,
}

impl ReaderPositions {
    fn look(&mut self, now_s: u64, places: &[Place], registry: &RegisteredReaders) -> Vec<Note> {
        let mut notes = Vec::new();
        let before = std::mem::take(&mut self.0);
        for place in places {
            let server_id = place.server_id;
            let is_registered = registry.readers.contains_key(&server_id);
            let (Some(at), Some(began)) = (&place.at, &place.began) else {
                continue;
            };
            if !is_registered {
                continue;
            }
            let earlier = before
                .get(&server_id)
                .filter(|seen| seen.from == place.from);
            let safe = earlier.map_or(began, |seen| &seen.at);
            let is_known = earlier
                .filter(|seen| seen.noted == safe.gtids && now_s.abs_diff(seen.noted_s) < AGAIN_S);
            if is_known.is_none() {
                notes.push(Note::At {
                    server_id,
                    passed: safe.seqno,
                    seen_s: now_s,
                });
            }
            let seen = Seen {
                from: place.from,
                at: at.clone(),
                noted: safe.gtids.clone(),
                noted_s: is_known.map_or(now_s, |seen| seen.noted_s),
            };
            self.0.insert(server_id, seen);
        }
        notes
    }
}

const ORDER_LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadersOrder {
    Register(u32),
    Remove(u32),
    Purge {
        /// Up to these GTIDs; none: of all that no reader needs.
        to: Option<String>,
        /// Even of what readers need.
        is_forced: bool,
    },
}

pub(crate) fn carry_out(
    order: &ReadersOrder,
    node: &Arc<Node>,
    tail: &Tail,
    places: &[Place],
) -> Result<String, OrderRefusal> {
    let end = tail.end();
    let (note, text) = match order {
        ReadersOrder::Register(server_id) => register(*server_id, &end.registry)?,
        ReadersOrder::Remove(server_id) => remove(*server_id, &end.registry)?,
        ReadersOrder::Purge { to, is_forced } => {
            let log = node.committed_log();
            let slowest = end.registry.slowest(log.first_seqno().prev());
            let last = match to {
                Some(to) => place_of(to, &log, &end)?,
                None => unneeded(&log, slowest, places),
            };
            if !*is_forced && let Some(needed) = needed(last, slowest, places) {
                return Err(OrderRefusal::Needed(needed));
            }
            purge(last, *is_forced, &end)?
        }
    };
    let seqno = await_order(node, &note)?;
    tail.await_seqno(seqno, ORDER_LIMIT);
    Ok(text)
}

fn refused<T>(text: impl Into<String>) -> Result<T, OrderRefusal> {
    Err(OrderRefusal::Refused(text.into()))
}

fn register(server_id: u32, registry: &RegisteredReaders) -> Result<(Note, String), OrderRefusal> {
    if registry.readers.contains_key(&server_id) {
        return refused(format!("reader {server_id} is registered already"));
    }
    if registry.readers.len() >= REGISTERED_MAX {
        return refused(format!(
            "{REGISTERED_MAX} readers are registered, which is the most: remove one that is gone"
        ));
    }
    let text = format!(
        "all relays hold what reader {server_id} needs, from now on. If it goes for good: synod \
         relay readers remove {server_id}"
    );
    Ok((Note::Register { server_id }, text))
}

fn remove(server_id: u32, registry: &RegisteredReaders) -> Result<(Note, String), OrderRefusal> {
    if !registry.readers.contains_key(&server_id) {
        return refused(format!(
            "reader {server_id} is not registered: 'synod relay status' lists those that are"
        ));
    }
    let text = format!("nothing is held for reader {server_id} while it is not connected");
    Ok((Note::Remove { server_id }, text))
}

fn purge(last: Seqno, is_forced: bool, end: &End) -> Result<(Note, String), OrderRefusal> {
    let (done, readers) = if is_forced {
        let told = "; readers that need it are told what they have lost";
        (end.registry.forced, told)
    } else {
        (end.registry.purged, ", and nothing that a reader needs")
    };
    if last <= done.max(Seqno(0)) {
        return refused("all of that is purged already, or will be soon");
    }
    let text = format!(
        "all relays purge their logs up to there, by whole files and within a minute or two: never \
         the newest transaction{readers}"
    );
    Ok((Note::Purge { last, is_forced }, text))
}

/// The last action that a reader with these GTIDs does not need.
fn place_of(to: &str, log: &CommittedLog, end: &End) -> Result<Seqno, OrderRefusal> {
    let list: GtidList = match to.parse() {
        Ok(list) => list,
        Err(error) => return refused(format!("'{to}' is no GTID position: {error}")),
    };
    let has = GtidState::of(&list);
    let state = end.state.clone().unwrap_or_default();
    if let Some((named, newest)) = state.ahead(&has) {
        return refused(format!(
            "the relays have nothing up to {named} yet: their newest transaction of that domain is \
             {newest}"
        ));
    }
    match start(log, &has) {
        Ok(start) => Ok(start.after),
        Err(NoStart::Purged { begins, .. }) => refused(format!(
            "that is purged already: the log begins after '{begins}'"
        )),
        Err(error @ NoStart::Kept(_)) => refused(error.to_string()),
    }
}

/// The last action that no reader needs, as far as this relay knows.
fn unneeded(log: &CommittedLog, slowest: Option<(u32, Registered)>, places: &[Place]) -> Seqno {
    let registered = slowest.map(|(_, reader)| reader.passed);
    let here = places.iter().filter_map(|place| place.at.as_ref());
    let needed = here.map(|at| at.seqno).chain(registered).min();
    let newest = log.readable_seqno();
    needed.map_or(newest, |needed| needed.min(newest))
}

/// Says which reader needs something up to this action; none: no reader does.
fn needed(last: Seqno, slowest: Option<(u32, Registered)>, places: &[Place]) -> Option<String> {
    let told =
        |reader: String, at: String| format!("{reader} is at '{at}' and would lose what follows");
    if let Some((server_id, at)) = slowest.filter(|(_, at)| at.passed < last) {
        let at = format!("action {}", at.passed.0);
        return Some(told(format!("registered reader {server_id}"), at));
    }
    let mut here = places
        .iter()
        .filter_map(|place| Some((place.from, place.at.as_ref()?)));
    let (from, at) = here.find(|(_, at)| at.seqno < last)?;
    Some(told(format!("the reader at {from}"), at.gtids.to_string()))
}

/// Notes something in the log; the action that it is.
fn await_order(node: &Arc<Node>, note: &Note) -> Result<Seqno, OrderRefusal> {
    let pending = submit_note(node, note);
    let (sender, result) = channel();
    let waiting = pending.clone();
    // The wait has no bound of its own.
    let spawned = Builder::new()
        .name("synod-order".to_owned())
        .spawn(move || {
            // The operator may have waited long enough.
            let _ = sender.send(waiting.wait_for_result());
        });
    let answer = match spawned {
        Ok(_) => result.recv_timeout(ORDER_LIMIT).ok(),
        Err(_) => None,
    };
    let answer = answer.or_else(|| {
        // Ends the thread, too.
        pending.give_up();
        pending.result()
    });
    match answer {
        Some(ProposalResult::Ordered { seqno, .. }) => Ok(seqno),
        Some(ProposalResult::Unknown) | None => Err(OrderRefusal::Unknown),
        Some(_) => Err(OrderRefusal::NotLeader),
    }
}

#[cfg(test)]
mod tests {
    use synod_node::Seqno;

    use super::*;

    fn at(seqno: i64, gtids: &str) -> At {
        At {
            seqno: Seqno(seqno),
            gtids: gtids.parse().unwrap(),
        }
    }

    fn place(port: u16, began: At, now: At) -> Place {
        Place {
            from: SocketAddr::from(([127, 0, 0, 1], port)),
            server_id: 5,
            at: Some(now),
            began: Some(began),
        }
    }

    fn registry(server_id: u32) -> RegisteredReaders {
        let mut registry = RegisteredReaders::default();
        registry.follow(Seqno(1), &Note::Register { server_id });
        registry
    }

    fn passed(notes: &[Note]) -> Vec<i64> {
        let passed = notes.iter().map(|note| match note {
            Note::At { passed, .. } => passed.0,
            other => panic!("{other:?}"),
        });
        passed.collect()
    }

    #[test]
    fn reader_is_noted_where_it_was_a_look_earlier() {
        let mut sightings = ReaderPositions::default();
        let mut look = |now_s, port, now| {
            let places = [place(port, at(10, "0-1-7"), now)];
            passed(&sightings.look(now_s, &places, &registry(5)))
        };
        assert_eq!(look(0, 1, at(90, "0-1-80")), [10], "what it has asked for");
        assert_eq!(look(10, 1, at(95, "0-1-85")), [90]);
        assert_eq!(look(20, 1, at(96, "0-1-85")), [95]);
        let none: [i64; 0] = [];
        assert_eq!(look(30, 1, at(97, "0-1-85")), none, "only notes came");
        assert_eq!(look(30 + AGAIN_S, 1, at(98, "0-1-85")), [97], "it is there");
        assert_eq!(look(40 + AGAIN_S, 2, at(98, "0-1-85")), [10], "come again");
        assert_eq!(look(50 + AGAIN_S, 2, at(98, "0-1-85")), [98]);
        assert_eq!(look(5, 2, at(98, "0-1-85")), [98], "the clock was set back");
    }

    #[test]
    fn only_registered_readers_are_noted() {
        let places = [place(1, at(10, ""), at(20, ""))];
        let mut sightings = ReaderPositions::default();
        assert_eq!(sightings.look(0, &places, &registry(6)), []);
    }
}

#[cfg(test)]
mod readers_order_tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::one_reader_per_server_id::At;

    fn registry(passed: i64) -> RegisteredReaders {
        let mut registry = RegisteredReaders::default();
        registry.follow(Seqno(1), &Note::Register { server_id: 5 });
        let note = Note::At {
            server_id: 5,
            passed: Seqno(passed),
            seen_s: 1,
        };
        registry.follow(Seqno(2), &note);
        registry
    }

    fn place(seqno: i64) -> Place {
        let at = At {
            seqno: Seqno(seqno),
            gtids: "0-1-7".parse().unwrap(),
        };
        Place {
            from: SocketAddr::from(([127, 0, 0, 1], 4000)),
            server_id: 9,
            at: Some(at),
            began: None,
        }
    }

    #[test]
    fn purge_names_the_reader_that_needs_it() {
        let slowest = registry(30).slowest(Seqno(0));
        assert_eq!(needed(Seqno(30), None, &[]), None);
        assert_eq!(needed(Seqno(30), slowest, &[place(30)]), None);
        let registered = needed(Seqno(31), slowest, &[place(40)]).unwrap();
        assert!(registered.contains("registered reader 5"), "{registered}");
        let here = needed(Seqno(41), None, &[place(40)]).unwrap();
        assert!(here.contains("127.0.0.1:4000 is at '0-1-7'"), "{here}");
    }

    #[test]
    fn orders_that_change_nothing_are_refused() {
        assert!(register(5, &registry(1)).is_err());
        assert!(remove(6, &registry(1)).is_err());
        assert!(register(6, &registry(1)).is_ok() && remove(5, &registry(1)).is_ok());
        let mut end = End::default();
        end.registry.purged = Seqno(9);
        assert!(purge(Seqno(9), false, &end).is_err() && purge(Seqno(0), true, &end).is_err());
        assert!(purge(Seqno(9), true, &end).is_ok() && purge(Seqno(10), false, &end).is_ok());
    }
}
