//! Sources of write sets by small numbers.
//!
//! The index stores a source with every mark. A number of four bytes in place of the sixteen bytes
//! of a [`Source`] keeps a slot small.

use hashbrown::HashMap;

use crate::request::Source;

/// A source's number in one [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceId(u32);

impl SourceId {
    /// Stands for the source of total-order actions and barriers: foreign to every write set.
    pub(crate) const TOTAL_ORDER: SourceId = SourceId(0);
}

/// Number of sources from which on sources outside the window are forgotten.
const FORGET_ABOVE: usize = 16;

/// A fixed hasher: no result may depend on the random state of a process.
type FixedState = std::hash::BuildHasherDefault<SourceHasher>;

/// All sources that may be in the index.
///
/// A number is given to another source only after all actions of its former source have left the
/// window. Marks that old are never read, so none is taken for a mark of the new source.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    ids: HashMap<Source, Known, FixedState>,
    /// The source that each number was given to last; the number zero is none's.
    sources: Vec<Option<Source>>,
    /// Numbers that may be given to another source.
    free: Vec<u32>,
    /// Highest number ever given.
    highest: u32,
    /// Number of sources at which to forget again.
    forget_above: usize,
}

/// Number and latest action of a source.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: SourceId,
    /// Seqno of its last action, or higher (rollbacks do not lower it).
    last: i64,
}

impl Sources {
    /// The number of a source, if it has one.
    pub(crate) fn find(&self, source: Source) -> Option<SourceId> {
        self.ids.get(&source).map(|known| known.id)
    }

    /// The source with a number, as long as one of its actions is in the window; none for
    /// [`SourceId::TOTAL_ORDER`].
    pub(crate) fn source_of(&self, id: SourceId) -> Option<Source> {
        self.sources.get(id.0 as usize).copied().flatten()
    }

    /// The number of the source of action `seqno`; a new one if it has none.
    pub(crate) fn number(&mut self, source: Source, seqno: i64, window_start: i64) -> SourceId {
        if let Some(known) = self.ids.get_mut(&source) {
            known.last = known.last.max(seqno);
            return known.id;
        }
        if self.ids.len() >= self.forget_above.max(FORGET_ABOVE) {
            self.forget(window_start);
        }
        let id = SourceId(self.free.pop().unwrap_or_else(|| {
            self.highest += 1;
            self.highest
        }));
        self.ids.insert(source, Known { id, last: seqno });
        let at = id.0 as usize;
        self.sources.resize(self.sources.len().max(at + 1), None);
        self.sources[at] = Some(source);
        id
    }

    /// Approximate memory held, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.ids.capacity() * (size_of::<(Source, Known)>() + 1)
            + self.free.capacity() * 4
            + self.sources.capacity() * size_of::<Option<Source>>()
    }

    /// Forgets the sources whose actions have all left the window.
    fn forget(&mut self, window_start: i64) {
        let free = &mut self.free;
        self.ids.retain(|_, known| {
            let needed = known.last > window_start;
            if !needed {
                free.push(known.id.0);
            }
            needed
        });
        self.free.sort_unstable();
        self.forget_above = self.ids.len() * 2;
    }
}

/// Mixes the two numbers of a source. They are random or small: both are spread well by this.
#[derive(Debug, Default)]
pub(crate) struct SourceHasher(u64);

impl std::hash::Hasher for SourceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.rotate_left(32) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_a_source_in_the_window_is_never_reused() {
        let mut sources = Sources::default();
        let source = |member| Source { member, epoch: 1 };
        let kept = sources.number(source(1), 1_000_000, 0);
        for member in 2..10_000u64 {
            let seqno = member as i64;
            let id = sources.number(source(member), seqno, seqno - 10);
            assert_ne!(id, kept);
            assert_ne!(id, SourceId::TOTAL_ORDER);
            for recent in member.saturating_sub(5).max(2)..member {
                assert_ne!(sources.find(source(recent)), Some(id));
            }
        }
        assert!(
            sources.ids.len() <= 2 * FORGET_ABOVE,
            "{} sources",
            sources.ids.len()
        );
        assert_eq!(sources.find(source(1)), Some(kept));
    }
}
