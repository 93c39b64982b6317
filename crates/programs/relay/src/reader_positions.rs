//! Records the positions of connected registered readers in the log, so that all relays hold the
//! same for them, also after a restart.
//!
//! The position recorded is that of one interval ([`LOOK`]) ago, at first the requested one: what
//! was sent a moment ago may not be on the reader's disk yet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use synod_binlog::GtidList;
use synod_commands::unix_ms;
use synod_node::{Action, Class, KeySet, Node, Pending, WaitPolicy};

use crate::reader_place::{At, Place};
use crate::trouble::Watch;
use crate::upstream_log::note::Note;
use crate::upstream_log::registry::Registry;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(10);
/// A reader that has not moved is noted so often, so that operators see that it is there.
const AGAIN_S: u64 = 600;

/// Positions of connected readers.
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
pub(crate) fn submit_note(node: &Node, note: &Note) -> Arc<Pending> {
    let action = Action {
        // The writers' rule is for what pulls submit.
        class: Class::Barrier,
        keys: KeySet::new(),
        last_seen: node.commit_seqno().0,
        data: note.encode(),
    };
    node.submit_with(&action, WaitPolicy::UntilGroupLost)
}

/// Now, in seconds since 1970.
pub(crate) fn now_s() -> u64 {
    unix_ms() / 1000
}

/// Positions at the last look, by `server_id`.
#[derive(Default)]
struct ReaderPositions(BTreeMap<u32, Seen>);

struct Seen {
    from: SocketAddr,
    at: At,
    /// Last note, and its time.
    noted: GtidList,
    noted_s: u64,
}

impl ReaderPositions {
    /// Notes due for these readers.
    fn look(&mut self, now_s: u64, places: &[Place], registry: &Registry) -> Vec<Note> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use synod_node::Seqno;

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

    fn registry(server_id: u32) -> Registry {
        let mut registry = Registry::default();
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
