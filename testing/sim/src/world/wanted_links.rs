//! Connections wanted by the members of all processes.
//!
//! A driver asks for connections and gives them up (`Network::connect`, `Network::keep_only`). A
//! link that was not tried yet is never given up, and a link stays while either end wants it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use synod_consensus::MemberId;
use synod_member::lock;

/// For each member, the members that it wants to be connected to.
#[derive(Debug, Default)]
pub(crate) struct WantedLinks(Mutex<BTreeMap<MemberId, BTreeMap<MemberId, Link>>>);

/// Whether the connection was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    New,
    Tried,
}

impl WantedLinks {
    /// Whether `who` wants a connection to `whom`.
    pub(crate) fn has(&self, who: MemberId, whom: MemberId) -> bool {
        lock(&self.0)
            .get(&who)
            .is_some_and(|known| known.contains_key(&whom))
    }

    /// Adds a link from `who` to `whom`; true if there was none.
    pub(crate) fn add(&self, who: MemberId, whom: MemberId) -> bool {
        let mut all = lock(&self.0);
        let known = all.entry(who).or_default();
        let is_new = !known.contains_key(&whom);
        known.entry(whom).or_insert(Link::New);
        is_new
    }

    /// The two members have tried to connect.
    pub(crate) fn tried(&self, a: MemberId, b: MemberId) {
        let mut all = lock(&self.0);
        for (who, whom) in [(a, b), (b, a)] {
            let link = all.get_mut(&who).and_then(|known| known.get_mut(&whom));
            if let Some(link) = link {
                *link = Link::Tried;
            }
        }
    }

    /// The process of this member has ended.
    pub(crate) fn forget(&self, who: MemberId) {
        lock(&self.0).remove(&who);
    }

    /// Gives up the links of `who` that are tried and that neither end wants.
    pub(crate) fn keep(&self, who: MemberId, wanted: &dyn Fn(MemberId) -> bool) {
        let mut all = lock(&self.0);
        let Some(mut known) = all.remove(&who) else {
            return;
        };
        known.retain(|whom, link| {
            let mutual = all
                .get(whom)
                .is_some_and(|theirs| theirs.contains_key(&who));
            wanted(*whom) || mutual || *link == Link::New
        });
        all.insert(who, known);
    }
}
