//! Which process speaks for a member. A log directory that was copied (a cloned machine, say) makes two
//! processes with one identity, and each would give away the other's votes. A process is known
//! by its session; while one of a member's is heard, another one is not let in.
//!
//! A process that died is not in the way: its connections close. If its machine died with it, they stay
//! open for a while, but nothing is heard from them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use synod_consensus::{MemberId, SessionId};

use synod_member::lock;

/// Whoever was heard within this time lives.
const ALIVE: Duration = Duration::from_secs(1);
/// What is heard so long after somebody else has called in the member's name was not on its way before:
/// nothing waits longer in the buffers of a connection. Until then the caller has to wait, so that
/// there is no haste.
const GRACE: Duration = Duration::from_secs(3);

/// The callers of a node, by member and session.
#[derive(Default)]
pub(super) struct Callers {
    members: Mutex<HashMap<MemberId, Known>>,
}

/// Sessions of one member.
#[derive(Default)]
struct Known {
    sessions: Vec<Seen>,
    /// A session that had to wait, and since when.
    waiting: Option<(SessionId, Instant)>,
}

struct Seen {
    session: SessionId,
    /// When its first connection of those now open was opened.
    since: Instant,
    open: usize,
    heard: Option<Instant>,
}

impl Seen {
    fn is_alive(&self, now: Instant) -> bool {
        let heard = self.heard.map(|at| now.saturating_duration_since(at));
        heard.is_some_and(|ago| ago < ALIVE)
    }
}

/// What a caller is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Come in. `alone`: no other session of the member has a connection.
    Welcome { alone: bool },
    /// Another session was heard a moment ago; it may have ended just now.
    Wait,
    /// Another session lives.
    DuplicateIdentity,
}

impl Callers {
    /// Somebody calls. If welcome, [`Callers::closed`] is owed.
    pub(super) fn opened(&self, member: MemberId, session: SessionId, now: Instant) -> Admission {
        let mut members = lock(&self.members);
        let known = members.entry(member).or_default();
        let others = || known.sessions.iter().filter(|seen| seen.session != session);
        if let Some(other) = others().find(|seen| seen.is_alive(now)) {
            let since = match known.waiting {
                Some((waiting, since)) if waiting == session => since,
                _ => now,
            };
            let is_twin = other.heard.is_some_and(|at| at > since + GRACE);
            known.waiting = Some((session, since));
            return match is_twin {
                true => Admission::DuplicateIdentity,
                false => Admission::Wait,
            };
        }
        known.waiting = None;
        let alone = others().next().is_none();
        match known.sessions.iter_mut().find(|s| s.session == session) {
            Some(seen) => seen.open += 1,
            None => known.sessions.push(Seen {
                session,
                since: now,
                open: 1,
                heard: None,
            }),
        }
        Admission::Welcome { alone }
    }

    /// A message came. False: an earlier session lives, hang up.
    pub(super) fn heard(&self, member: MemberId, session: SessionId, now: Instant) -> bool {
        let mut members = lock(&self.members);
        let Some(known) = members.get_mut(&member) else {
            return true;
        };
        let Some(since) = known.seen(session).map(|seen| {
            seen.heard = Some(now);
            seen.since
        }) else {
            return true;
        };
        let earlier = |seen: &&Seen| seen.session != session && seen.since < since;
        let twin = known.sessions.iter().find(earlier);
        twin.is_none_or(|twin| !twin.is_alive(now))
    }

    /// A connection is closed.
    pub(super) fn closed(&self, member: MemberId, session: SessionId) {
        let mut members = lock(&self.members);
        let Some(known) = members.get_mut(&member) else {
            return;
        };
        if let Some(seen) = known.seen(session) {
            seen.open = seen.open.saturating_sub(1);
        }
        known.sessions.retain(|seen| seen.open > 0);
        if known.sessions.is_empty() {
            members.remove(&member);
        }
    }
}

impl Known {
    fn seen(&mut self, session: SessionId) -> Option<&mut Seen> {
        self.sessions.iter_mut().find(|s| s.session == session)
    }
}

/// For the error log of a process that is not let in.
pub(super) fn twin_text(member: MemberId) -> String {
    format!(
        "a process that runs somewhere else is this very member ({member}) already: the log directory was \
         copied. Only one of the two may run. To let this server join as a member of its own, delete the \
         synod-*.log files of the copy"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: MemberId = MemberId(7);
    const OLD: SessionId = SessionId(1);
    const NEW: SessionId = SessionId(2);
    const ALONE: Admission = Admission::Welcome { alone: true };

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn second_process_waits_and_is_refused_while_the_first_is_heard() {
        let (callers, start) = (Callers::default(), Instant::now());
        assert_eq!(callers.opened(M, OLD, start), ALONE);
        assert_eq!(callers.opened(M, OLD, start), ALONE, "its other lane");
        assert!(callers.heard(M, OLD, after(start, 100)));
        assert_eq!(callers.opened(M, NEW, after(start, 200)), Admission::Wait);
        assert!(callers.heard(M, OLD, after(start, 3100)));
        assert_eq!(callers.opened(M, NEW, after(start, 3200)), Admission::Wait);
        assert!(callers.heard(M, OLD, after(start, 3300)));
        assert_eq!(
            callers.opened(M, NEW, after(start, 3400)),
            Admission::DuplicateIdentity
        );
        assert_eq!(callers.opened(M, OLD, after(start, 3500)), ALONE);
    }

    #[test]
    fn restarted_process_is_let_in_at_once_or_when_silence_shows_that_the_first_is_gone() {
        let (callers, start) = (Callers::default(), Instant::now());
        callers.opened(M, OLD, start);
        callers.heard(M, OLD, after(start, 100));
        callers.closed(M, OLD);
        assert_eq!(callers.opened(M, NEW, after(start, 150)), ALONE);
        let newest = SessionId(3);
        callers.heard(M, NEW, after(start, 200));
        assert_eq!(
            callers.opened(M, newest, after(start, 300)),
            Admission::Wait
        );
        let late = callers.opened(M, newest, after(start, 1300));
        assert_eq!(late, Admission::Welcome { alone: false });
    }

    #[test]
    fn later_one_of_two_that_are_in_is_hung_up_on_once_both_speak() {
        let (callers, start) = (Callers::default(), Instant::now());
        callers.opened(M, OLD, start);
        // At a member that leads nobody, connections are silent.
        let welcome = callers.opened(M, NEW, after(start, 10));
        assert_eq!(welcome, Admission::Welcome { alone: false });
        assert!(callers.heard(M, NEW, after(start, 20)));
        assert!(callers.heard(M, OLD, after(start, 30)));
        assert!(!callers.heard(M, NEW, after(start, 40)));
        callers.closed(M, NEW);
        assert!(callers.heard(M, OLD, after(start, 50)));
    }
}
