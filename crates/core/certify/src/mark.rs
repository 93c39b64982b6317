//! Marks: the actions that held a key last, by type of hold.
//!
//! A key needs only two seqnos per type, the latest hold and the latest of another source, because
//! later actions depend on or conflict with the latest one that matters to them.

use crate::key::KeyType;
use crate::source::SourceId;

/// Stands for no seqno; below every window.
pub(crate) const NEVER: i64 = i64::MIN;

/// The holds of one type on one key, as far as a later action can depend on them: the latest, and
/// the latest of another source. Without the second, a write of a source would hide an older one of
/// another source, with which a later write of the first source may conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Seqno of the latest hold; [`NEVER`] if there is none.
    pub(crate) latest: i64,
    /// Latest seqno of a source other than `source`; below `latest`.
    other: i64,
    /// The source of the action `latest`.
    source: SourceId,
}

impl Mark {
    pub(crate) const NONE: Mark = Mark {
        latest: NEVER,
        other: NEVER,
        source: SourceId::TOTAL_ORDER,
    };

    /// The source of the latest hold.
    pub(crate) fn source(&self) -> SourceId {
        self.source
    }

    /// Seqno of the latest hold of any other source than that.
    pub(crate) fn other(&self) -> i64 {
        self.other
    }

    /// The mark of one hold, before which nothing is known.
    pub(crate) fn of(seqno: i64, source: SourceId) -> Mark {
        Mark::NONE.followed_by(seqno, source)
    }

    /// The latest hold of another source than `source`, which is `None` if it never held a key.
    pub(crate) fn latest_foreign_to(&self, source: Option<SourceId>) -> i64 {
        // No write set has the source TOTAL_ORDER: such holds are foreign to all.
        if Some(self.source) == source {
            self.other
        } else {
            self.latest
        }
    }

    /// This mark after a later hold.
    pub(crate) fn followed_by(self, seqno: i64, source: SourceId) -> Mark {
        let other = if self.source == source {
            self.other
        } else {
            self.latest
        };
        Mark {
            latest: seqno,
            other,
            source,
        }
    }
}

/// The marks of one key, by type. Nearly all keys are held in one way only, so the mark of the
/// first type is stored in place, and those of other types share an allocation when needed. The
/// first mark is spelled out in fields, which avoids padding.
#[derive(Debug)]
pub(crate) struct Marks {
    latest: i64,
    other: i64,
    source: SourceId,
    kind: KeyType,
    others: Option<Box<[Mark; 4]>>,
}

impl Marks {
    pub(crate) const NONE: Marks = Marks {
        latest: NEVER,
        other: NEVER,
        source: SourceId::TOTAL_ORDER,
        kind: KeyType::Shared,
        others: None,
    };

    /// The mark of one type.
    pub(crate) fn get(&self, kind: KeyType) -> Mark {
        if kind == self.kind {
            return Mark {
                latest: self.latest,
                other: self.other,
                source: self.source,
            };
        }
        self.others
            .as_ref()
            .map_or(Mark::NONE, |others| others[kind as usize])
    }

    /// Replaces the mark of one type.
    pub(crate) fn set(&mut self, kind: KeyType, mark: Mark) {
        if self.latest == NEVER && self.others.is_none() {
            self.kind = kind;
        }
        if kind == self.kind {
            let Mark {
                latest,
                other,
                source,
            } = mark;
            (self.latest, self.other, self.source) = (latest, other, source);
            return;
        }
        self.others.get_or_insert_with(|| Box::new([Mark::NONE; 4]))[kind as usize] = mark;
    }

    /// Seqno of the latest hold of any type; [`NEVER`] if there is none.
    pub(crate) fn newest(&self) -> i64 {
        let others = self.others.iter().flat_map(|marks| marks.iter());
        others.fold(self.latest, |newest, mark| newest.max(mark.latest))
    }

    /// Whether marks of several types were ever set.
    pub(crate) fn has_others(&self) -> bool {
        self.others.is_some()
    }
}

/// Size of the allocation for further types, in bytes.
pub(crate) const OTHERS_BYTES: usize = size_of::<[Mark; 4]>();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Source;
    use crate::source::Sources;

    #[test]
    fn a_source_does_not_hide_what_others_did_before() {
        let mut sources = Sources::default();
        let mut id = |member| sources.number(Source { member, epoch: 0 }, 1, 0);
        let (a, b, c) = (id(1), id(2), id(3));
        let mark = Mark::NONE
            .followed_by(5, a)
            .followed_by(6, b)
            .followed_by(7, b);
        assert_eq!(mark.latest_foreign_to(Some(b)), 5);
        assert_eq!(mark.latest_foreign_to(Some(a)), 7);
        assert_eq!(mark.latest_foreign_to(Some(c)), 7);
        assert_eq!(mark.latest_foreign_to(None), 7);
    }

    #[test]
    fn total_order_is_foreign_to_every_source() {
        let mut sources = Sources::default();
        let a = sources.number(
            Source {
                member: 1,
                epoch: 0,
            },
            1,
            0,
        );
        let mark = Mark::NONE.followed_by(5, SourceId::TOTAL_ORDER);
        assert_eq!(mark.latest_foreign_to(Some(a)), 5);
        assert_eq!(mark.latest_foreign_to(None), 5);
        let mark = mark.followed_by(6, a);
        assert_eq!(mark.latest_foreign_to(Some(a)), 5);
    }

    #[test]
    fn marks_of_all_types_are_kept_apart() {
        let mut marks = Marks::NONE;
        for (seqno, kind) in (1..).zip(KeyType::ALL) {
            marks.set(kind, Mark::NONE.followed_by(seqno, SourceId::TOTAL_ORDER));
        }
        for (seqno, kind) in (1..).zip(KeyType::ALL) {
            assert_eq!(marks.get(kind).latest, seqno);
        }
        assert_eq!(marks.newest(), 4);
    }
}
