//! Readers whose places the relays hold also while they are not connected, and how far operators
//! have had the log purged.
//!
//! All relays have the same: it follows from the notes in the log, in their order. An entry of the
//! leader repeats it, as it was after an action that the entry names. So a relay that begins to
//! read near the end of the log knows it as well: from there on it follows the notes.

use std::collections::BTreeMap;

use synod_node::Seqno;

use crate::upstream_log::entry::Note;

pub(crate) const REGISTERED_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    /// Action up to which the reader has everything; the log after it is held.
    pub(crate) passed: Seqno,
    /// Time at which a relay has seen the reader last, in seconds since 1970; zero: never since its
    /// registration.
    pub(crate) seen_s: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegisteredReaders {
    /// By `server_id`.
    pub(crate) readers: BTreeMap<u32, Registered>,
    /// Up to this action the log may be purged whatever its size; zero: nothing.
    pub(crate) purged: Seqno,
    /// Up to this action it may be purged even of what readers need; zero: nothing.
    pub(crate) forced: Seqno,
}

impl RegisteredReaders {
    /// Follows a note. A reader that is registered by it needs what comes after the action
    /// `passed`.
    pub(crate) fn follow(&mut self, passed: Seqno, note: &Note) {
        match *note {
            Note::Register { server_id } => {
                let is_new = !self.readers.contains_key(&server_id);
                if is_new && self.readers.len() < REGISTERED_MAX {
                    self.readers
                        .insert(server_id, Registered { passed, seen_s: 0 });
                }
            }
            Note::Remove { server_id } => {
                self.readers.remove(&server_id);
            }
            Note::At {
                server_id,
                passed,
                seen_s,
            } => {
                // It may have gone back: a replica was copied again, say.
                let passed = passed.max(self.forced);
                if let Some(reader) = self.readers.get_mut(&server_id) {
                    *reader = Registered { passed, seen_s };
                }
            }
            Note::Purge { last, is_forced } => self.purge(last, is_forced),
        }
    }

    /// The registered reader that holds the most of a log that begins after this action; none: no
    /// reader does. One that has lost something already holds nothing.
    pub(crate) fn slowest(&self, before_log: Seqno) -> Option<(u32, Registered)> {
        let readers = self.readers.iter().map(|(id, reader)| (*id, *reader));
        let held = readers.filter(|(_, reader)| reader.passed >= before_log);
        held.min_by_key(|(_, reader)| reader.passed)
    }

    fn purge(&mut self, last: Seqno, is_forced: bool) {
        self.purged = self.purged.max(last);
        if is_forced {
            self.forced = self.forced.max(last);
            for reader in self.readers.values_mut() {
                reader.passed = reader.passed.max(last);
            }
        }
    }
}

/// The registry as it was after an action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) after: Seqno,
    pub(crate) registry: RegisteredReaders,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(server_id: u32, passed: i64) -> Note {
        Note::At {
            server_id,
            passed: Seqno(passed),
            seen_s: 9,
        }
    }

    fn after(notes: &[Note]) -> RegisteredReaders {
        let mut registry = RegisteredReaders::default();
        for (number, note) in notes.iter().enumerate() {
            registry.follow(Seqno(number as i64 + 1), note);
        }
        registry
    }

    fn places(registry: &RegisteredReaders) -> Vec<(u32, i64)> {
        let readers = registry.readers.iter();
        readers.map(|(id, reader)| (*id, reader.passed.0)).collect()
    }

    #[test]
    fn registered_readers_hold_what_they_lack() {
        let register = |server_id| Note::Register { server_id };
        let registry = after(&[register(5), at(6, 3), register(7), at(5, 90), register(5)]);
        assert_eq!(places(&registry), [(5, 90), (7, 3)], "6 is not registered");
        let slowest = |before_log| registry.slowest(Seqno(before_log)).map(|(id, _)| id);
        assert_eq!((slowest(0), slowest(3)), (Some(7), Some(7)));
        assert_eq!((slowest(4), slowest(91)), (Some(5), None), "lost");
        let registry = after(&[register(5), at(5, 90), at(5, 40)]);
        assert_eq!(places(&registry), [(5, 40)], "back");
        let gone = after(&[register(5), Note::Remove { server_id: 5 }, at(5, 9)]);
        assert_eq!(gone.slowest(Seqno(0)), None);
    }

    #[test]
    fn forced_purge_moves_readers_and_another_one_does_not() {
        let purge = |last, is_forced| Note::Purge {
            last: Seqno(last),
            is_forced,
        };
        let register = Note::Register { server_id: 5 };
        let registry = after(&[register.clone(), at(5, 20), purge(30, false)]);
        assert_eq!(
            (places(&registry), registry.purged),
            (vec![(5, 20)], Seqno(30))
        );
        let registry = after(&[register, at(5, 20), purge(30, true), at(5, 25)]);
        assert_eq!(places(&registry), [(5, 30)]);
        assert_eq!((registry.purged, registry.forced), (Seqno(30), Seqno(30)));
    }

    #[test]
    fn number_of_readers_is_bounded() {
        let notes: Vec<Note> = (1..=200)
            .map(|server_id| Note::Register { server_id })
            .collect();
        assert_eq!(after(&notes).readers.len(), REGISTERED_MAX);
    }

    fn any_note() -> impl Strategy<Value = Note> {
        prop_oneof![
            (1_u32..5).prop_map(|server_id| Note::Register { server_id }),
            (1_u32..5).prop_map(|server_id| Note::Remove { server_id }),
            (1_u32..5, 0_i64..50).prop_map(|(server_id, passed)| at(server_id, passed)),
            (0_i64..50, any::<bool>()).prop_map(|(last, is_forced)| Note::Purge {
                last: Seqno(last),
                is_forced
            }),
        ]
    }

    proptest! {
        /// A relay that begins at any entry has the same registry as all others.
        #[test]
        fn registry_is_the_same_wherever_a_relay_begins(
            notes in proptest::collection::vec(any_note(), 0..30),
            begins in 0_usize..30,
        ) {
            let begins = begins.min(notes.len());
            let mut later = after(&notes[..begins]);
            for (number, note) in notes.iter().enumerate().skip(begins) {
                later.follow(Seqno(number as i64 + 1), note);
            }
            prop_assert_eq!(later, after(&notes));
        }
    }
}
