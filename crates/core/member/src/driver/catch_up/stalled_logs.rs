//! Logs that stand still although members talk to each other: a member that refuses what its leader
//! sends, and a leader whose entries a member does not take. Both sides say so, because either log
//! may be the one that an operator reads. See [`crate::driver::repeated_warning`] for when.

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{LogIndex, MemberId, Progress, Time};

use crate::driver::context::Context;
use crate::driver::repeated_warning::{Lasting, seconds};
use crate::host::Level;

#[derive(Default)]
pub(in crate::driver) struct Standstill {
    refused: RefusedEntries,
    standing: StandingMembers,
}

#[derive(Default)]
struct RefusedEntries {
    from: Option<MemberId>,
    lasting: Lasting,
}

impl RefusedEntries {
    /// Entries of a leader came. Answers how long they have been refused, if that is to be logged.
    fn came(&mut self, now: Time, from: MemberId, taken: bool) -> Option<Duration> {
        if taken || self.from != Some(from) {
            self.lasting.ends();
        }
        self.from = Some(from);
        if taken {
            return None;
        }
        self.lasting.holds(now)
    }
}

/// Leader only: members whose logs do not grow.
#[derive(Default)]
struct StandingMembers {
    members: BTreeMap<MemberId, (LogIndex, Lasting)>,
}

#[derive(Debug, PartialEq, Eq)]
struct Standing {
    member: MemberId,
    at: LogIndex,
    lasted: Duration,
}

impl StandingMembers {
    /// Looks at the members' progress; `last` is the end of the leader's log. Answers what is to be
    /// logged. A member that sent nothing within `limit` is absent, which is another matter.
    fn look(
        &mut self,
        now: Time,
        limit: Duration,
        last: LogIndex,
        progress: impl Iterator<Item = Progress>,
    ) -> Vec<Standing> {
        let before = std::mem::take(&mut self.members);
        let mut due = Vec::new();
        for Progress {
            member,
            match_index: at,
            last_heard,
            ..
        } in progress
        {
            let is_heard = last_heard.is_some_and(|heard| now.since(heard) < limit);
            if !is_heard || at >= last {
                continue;
            }
            let known = before.get(&member).filter(|(index, _)| *index == at);
            let mut lasting = known
                .map(|(_, lasting)| lasting.clone())
                .unwrap_or_default();
            if let Some(lasted) = lasting.holds(now) {
                due.push(Standing { member, at, lasted });
            }
            self.members.insert(member, (at, lasting));
        }
        due
    }
}

impl Standstill {
    /// Entries of a leader, or a base, came, and the core has taken them or not.
    pub(in crate::driver) fn entries_came(&mut self, ctx: &Context, from: MemberId, taken: bool) {
        let now = ctx.turns.now;
        let Some(lasted) = self.refused.came(now, from, taken) else {
            return;
        };
        let (base, last) = (ctx.core.base(), ctx.core.last_id());
        let text = format!(
            "this member has refused for {} what {} sends: it does not continue this member's \
             log, which begins after entry {} at seqno {} and ends with entry {}. Nothing new gets \
             here. If that lasts, stop this server, move its synod-*.log files away (keep them for \
             a report) and start it again: it then joins as a new member",
            seconds(lasted),
            ctx.name_of(from),
            base.last,
            base.seqno,
            last,
        );
        ctx.log(Level::Warning, text);
    }

    pub(in crate::driver) fn watch_standstill(&mut self, ctx: &Context) {
        let (now, suspect) = (ctx.turns.now, ctx.identity.config.suspect);
        let last = ctx.core.last_id().index;
        let progress = ctx.core.progress();
        let standing = self.standing.look(now, suspect, last, progress);
        for Standing { member, at, lasted } in standing {
            let text = format!(
                "{} answers, but its log has stood at entry {at} for {}; this leader's ends with \
                 {last}. Its disk is full or very slow, or it refuses the entries: its error log \
                 says which",
                ctx.name_of(member),
                seconds(lasted),
            );
            ctx.log(Level::Warning, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::ProgressMode;

    const LIMIT: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Time {
        Time(7).plus(Duration::from_secs(seconds))
    }

    fn progress(matched: u64, heard: Option<Time>) -> Progress {
        Progress {
            member: MemberId(2),
            match_index: LogIndex(matched),
            next_index: LogIndex(matched + 1),
            mode: ProgressMode::Probe,
            last_heard: heard,
        }
    }

    #[test]
    fn refusals_are_logged_if_nothing_else_comes_from_the_leader() {
        let mut refused = RefusedEntries::default();
        let leader = MemberId(2);
        assert_eq!(refused.came(at(0), leader, false), None);
        assert_eq!(refused.came(at(5), leader, false), Some(LIMIT));
        assert_eq!(refused.came(at(6), leader, false), None, "just logged");
        assert_eq!(refused.came(at(70), leader, true), None);
        assert_eq!(refused.came(at(71), leader, false), None, "it begins again");
        assert_eq!(refused.came(at(75), MemberId(3), false), None, "another");
        assert!(refused.came(at(80), MemberId(3), false).is_some());
    }

    #[test]
    fn member_that_answers_and_takes_nothing_is_logged() {
        let mut standing = StandingMembers::default();
        let mut look = |second, matched, heard: Option<Time>| {
            let one = [progress(matched, heard)].into_iter();
            let due = standing.look(at(second), LIMIT, LogIndex(9), one);
            due.into_iter()
                .map(|standing| standing.at.0)
                .collect::<Vec<_>>()
        };
        assert!(look(0, 3, Some(at(0))).is_empty());
        assert_eq!(look(5, 3, Some(at(5))), [3]);
        assert!(look(70, 4, Some(at(70))).is_empty(), "its log has grown");
        assert!(look(76, 4, Some(at(70))).is_empty(), "it is absent");
        assert!(look(77, 9, Some(at(77))).is_empty(), "it has everything");
        assert!(look(90, 9, Some(at(90))).is_empty());
    }
}
