//! Who is present, as a leader keeps track of it, and the views in the log.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use synod_consensus::{EntryKind, LogIndex, MemberId, SessionId};
use synod_log::LogReader;
use synod_wire::Report;

use crate::view::{View, ViewMember};

/// A view entry is looked for this far back at start.
const VIEW_SEARCH_ENTRIES: u64 = 50_000;
const READ_BYTES: usize = 4 << 20;

/// The leader's picture of the members.
#[derive(Default)]
pub(super) struct Presence {
    present: BTreeMap<MemberId, ViewMember>,
    heard: HashMap<MemberId, Instant>,
    reports: BTreeMap<MemberId, Report>,
    /// Members that asked to leave and still vote.
    pub(super) leaving: Vec<MemberId>,
}

impl Presence {
    /// A message of this member arrived.
    pub(super) fn heard(&mut self, member: MemberId) {
        self.heard.insert(member, Instant::now());
    }

    /// Whether the member was heard of within `limit`.
    pub(super) fn is_alive(&self, member: MemberId, limit: Duration) -> bool {
        self.heard.get(&member).is_some_and(|at| at.elapsed() < limit)
    }

    /// Starts from the latest view; each of its members has `limit` from now to be heard of.
    pub(super) fn begin(&mut self, view: Option<&View>, me: ViewMember) {
        self.present.clear();
        self.leaving.clear();
        for member in view.iter().flat_map(|view| &view.members) {
            self.present.insert(member.member, member.clone());
            self.heard(member.member);
        }
        self.enter(me);
    }

    pub(super) fn enter(&mut self, member: ViewMember) {
        self.heard(member.member);
        self.leaving.retain(|id| *id != member.member);
        self.present.insert(member.member, member);
    }

    /// The member goes; false if it is present with another session, or not at all.
    pub(super) fn exit(&mut self, member: MemberId, session: SessionId) -> bool {
        let same = self.present.get(&member).is_some_and(|p| p.session == session);
        if same {
            self.present.remove(&member);
            self.reports.remove(&member);
        }
        same
    }

    /// Drops whoever was not heard of for `limit`; returns their names.
    pub(super) fn expire(&mut self, me: MemberId, limit: Duration) -> Vec<String> {
        let mut gone = Vec::new();
        let heard = &self.heard;
        self.present.retain(|id, member| {
            let alive = *id == me || heard.get(id).is_some_and(|at| at.elapsed() < limit);
            if !alive {
                gone.push(member.name.clone());
            }
            alive
        });
        let present = &self.present;
        self.reports.retain(|id, _| present.contains_key(id));
        gone
    }

    pub(super) fn members(&self) -> Vec<ViewMember> {
        self.present.values().cloned().collect()
    }

    pub(super) fn get(&self, member: MemberId) -> Option<&ViewMember> {
        self.present.get(&member)
    }

    pub(super) fn report(&mut self, report: Report) {
        self.reports.insert(report.member, report);
    }

    pub(super) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.reports.values()
    }
}

/// The views in this member's log that matter: the latest committed one and those after it.
#[derive(Default)]
pub(super) struct ViewTrail {
    views: VecDeque<(LogIndex, View)>,
}

impl ViewTrail {
    /// Finds the newest view in the log.
    pub(super) fn load(reader: &LogReader) -> ViewTrail {
        let last = reader.last_index();
        let first = reader.first_index().0.max(last.0.saturating_sub(VIEW_SEARCH_ENTRIES));
        let mut next = LogIndex(first);
        let mut views = VecDeque::new();
        while next <= last {
            // What cannot be read here will be reported where it is needed.
            let Ok(entries) = reader.read(next, last, READ_BYTES) else { break };
            for entry in entries {
                next = entry.header.index.next();
                if entry.header.kind == EntryKind::View {
                    if let Ok(view) = View::decode(entry.header.seqno, entry.payload) {
                        views.push_back((entry.header.index, view));
                    }
                }
            }
        }
        ViewTrail { views }
    }

    pub(super) fn appended(&mut self, index: LogIndex, view: View) {
        self.views.push_back((index, view));
    }

    pub(super) fn truncated(&mut self, from: LogIndex) {
        while self.views.back().is_some_and(|(index, _)| *index >= from) {
            self.views.pop_back();
        }
    }

    pub(super) fn clear(&mut self) {
        self.views.clear();
    }

    pub(super) fn latest(&self) -> Option<&View> {
        self.views.back().map(|(_, view)| view)
    }

    /// The newest view at or below the commit index, if there is one; older ones are forgotten.
    pub(super) fn committed(&mut self, commit: LogIndex) -> Option<&View> {
        while self.views.get(1).is_some_and(|(index, _)| *index <= commit) {
            self.views.pop_front();
        }
        self.views.front().filter(|(index, _)| *index <= commit).map(|(_, view)| view)
    }
}
