//! Orders about readers and purging. Any relay of the group takes them: each is a note in the log,
//! which all relays obey.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;

use synod_binlog::GtidList;
use synod_node::{CommittedLog, Node, ProposalResult, Seqno};

use crate::pull::control::OrderRefusal;
use crate::reader_place::Place;
use crate::reader_positions::submit_note;
use crate::upstream_log::note::Note;
use crate::upstream_log::registry::{REGISTERED_MAX, Registered, Registry};
use crate::upstream_log::search::{self, NoStart};
use crate::upstream_log::state::GtidState;
use crate::upstream_log::tail::{End, Tail};

/// Time limit for an order.
const ORDER_LIMIT: Duration = Duration::from_secs(20);

/// Order of an operator about readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadersOrder {
    /// The place of this reader is held from now on.
    Register(u32),
    /// Unregister this `server_id`.
    Remove(u32),
    /// The log is purged.
    Purge {
        /// Up to these GTIDs; none: of all that no reader needs.
        to: Option<String>,
        /// Even of what readers need.
        is_forced: bool,
    },
}

/// Why a purge is not done by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reader} is at '{at}' and would lose what follows")]
pub(crate) struct Needed {
    reader: String,
    at: String,
}

/// Why an order about readers was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotDone {
    /// Refused like other orders.
    Refusal(OrderRefusal),
    /// A reader needs what would be purged.
    Needed(Needed),
}

/// Carries an order out; what is told to the operator.
///
/// # Errors
/// It is refused, or not known to be done.
pub(crate) fn carry_out(
    order: &ReadersOrder,
    node: &Arc<Node>,
    tail: &Tail,
    places: &[Place],
) -> Result<String, NotDone> {
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
                return Err(NotDone::Needed(needed));
            }
            purge(last, *is_forced, &end)?
        }
    };
    let seqno = await_order(node, &note)?;
    tail.await_seqno(seqno, ORDER_LIMIT);
    Ok(text)
}

fn refused<T>(text: impl Into<String>) -> Result<T, NotDone> {
    Err(NotDone::Refusal(OrderRefusal::Refused(text.into())))
}

fn register(server_id: u32, registry: &Registry) -> Result<(Note, String), NotDone> {
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

fn remove(server_id: u32, registry: &Registry) -> Result<(Note, String), NotDone> {
    if !registry.readers.contains_key(&server_id) {
        return refused(format!(
            "reader {server_id} is not registered: 'synod relay status' lists those that are"
        ));
    }
    let text = format!("nothing is held for reader {server_id} while it is not connected");
    Ok((Note::Remove { server_id }, text))
}

fn purge(last: Seqno, is_forced: bool, end: &End) -> Result<(Note, String), NotDone> {
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
fn place_of(to: &str, log: &CommittedLog, end: &End) -> Result<Seqno, NotDone> {
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
    match search::start(log, &has) {
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

/// A reader that needs something up to this action.
fn needed(last: Seqno, slowest: Option<(u32, Registered)>, places: &[Place]) -> Option<Needed> {
    let registered = slowest.filter(|(_, at)| at.passed < last);
    let here = || {
        let at = |place: &Place| Some((place.from, place.at.clone()?));
        let mut places = places.iter().filter_map(at);
        places.find(|(_, at)| at.seqno < last)
    };
    let registered = registered.map(|(server_id, at)| Needed {
        reader: format!("registered reader {server_id}"),
        at: format!("action {}", at.passed.0),
    });
    registered.or_else(|| {
        here().map(|(from, at)| Needed {
            reader: format!("the reader at {from}"),
            at: at.gtids.to_string(),
        })
    })
}

/// Notes something in the log; the action that it is.
fn await_order(node: &Arc<Node>, note: &Note) -> Result<Seqno, NotDone> {
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
        Some(ProposalResult::Unknown) | None => Err(NotDone::Refusal(OrderRefusal::Unknown)),
        Some(_) => Err(NotDone::Refusal(OrderRefusal::NotLeader)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader_place::At;
    use std::net::SocketAddr;

    fn registry(passed: i64) -> Registry {
        let mut registry = Registry::default();
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
        let text = |needed: Option<Needed>| needed.map(|needed| needed.to_string());
        assert_eq!(text(needed(Seqno(30), None, &[])), None);
        assert_eq!(text(needed(Seqno(30), slowest, &[place(30)])), None);
        let registered = text(needed(Seqno(31), slowest, &[place(40)])).unwrap();
        assert!(registered.contains("registered reader 5"), "{registered}");
        let here = text(needed(Seqno(41), None, &[place(40)])).unwrap();
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
