//! Delivered actions that no applier has started, sorted by whether they may start.
//!
//! An action waits for its `depends_on`, a view for everything before it. The first one that can
//! start is found without a search.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use synod_node::{Origin, View};

/// Overhead of a queued action, beside its data.
const ACTION_BYTES: usize = 256;

#[derive(Clone, Debug)]
pub(crate) enum Queued {
    /// An action of another member, or one of this server's whose client is gone.
    Action {
        seqno: i64,
        /// Seqno that must be released before this action starts.
        depends_on: i64,
        origin: Origin,
        data: Bytes,
    },
    /// Members came or went: a barrier in both directions.
    View(View),
}

impl Queued {
    pub(super) fn seqno(&self) -> i64 {
        match self {
            Queued::Action { seqno, .. } => *seqno,
            Queued::View(view) => view.seqno.0,
        }
    }

    fn depends_on(&self) -> i64 {
        match self {
            Queued::Action { depends_on, .. } => *depends_on,
            Queued::View(view) => view.seqno.0 - 1,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Queued::Action { data, .. } => data.len() + ACTION_BYTES,
            Queued::View(_) => ACTION_BYTES,
        }
    }
}

struct Item {
    /// Seqno that must be released first.
    after: i64,
    queued: Queued,
}

/// The actions that wait for an applier. Everything is O(log n).
#[derive(Default)]
pub(super) struct Waiting {
    items: BTreeMap<i64, Item>,
    /// Seqnos of items that may start.
    ready: BTreeSet<i64>,
    /// (what must be released first, seqno) of the others.
    blocked: BTreeSet<(i64, i64)>,
    bytes: usize,
    /// The latest view put in: nothing later starts before it is released.
    barrier: Option<i64>,
}

impl Waiting {
    pub(super) fn insert(&mut self, queued: Queued, released: i64) {
        let seqno = queued.seqno();
        let mut after = queued.depends_on().min(seqno - 1);
        if let Some(barrier) = self.barrier.filter(|barrier| *barrier < seqno) {
            after = after.max(barrier);
        }
        if matches!(queued, Queued::View(_)) {
            self.barrier = self.barrier.max(Some(seqno));
        }
        if after <= released {
            self.ready.insert(seqno);
        } else {
            self.blocked.insert((after, seqno));
        }
        self.bytes += queued.bytes();
        let replaced = self.items.insert(seqno, Item { after, queued });
        debug_assert!(replaced.is_none(), "{seqno} is queued twice");
    }

    /// Everything up to here is released.
    pub(super) fn released(&mut self, up_to: i64) {
        while let Some(&(after, seqno)) = self.blocked.first() {
            if after > up_to {
                return;
            }
            self.blocked.pop_first();
            self.ready.insert(seqno);
        }
    }

    /// The first item, ready or not.
    pub(super) fn first(&self) -> Option<i64> {
        self.items.first_key_value().map(|(seqno, _)| *seqno)
    }

    /// The first item that may start.
    pub(super) fn first_ready(&self) -> Option<i64> {
        self.ready.first().copied()
    }

    /// Takes an item that is ready.
    pub(super) fn take(&mut self, seqno: i64) -> Option<Queued> {
        self.ready.remove(&seqno);
        let item = self.items.remove(&seqno)?;
        self.bytes -= item.queued.bytes();
        Some(item.queued)
    }

    /// Drops everything after `last`.
    pub(super) fn truncate(&mut self, last: i64) {
        for (seqno, item) in self.items.split_off(&last.saturating_add(1)) {
            self.ready.remove(&seqno);
            self.blocked.remove(&(item.after, seqno));
            self.bytes -= item.queued.bytes();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
