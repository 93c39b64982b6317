//! The registry of the process that speaks for each member.
//!
//! A log directory that was copied, for instance with its machine, makes two processes with one
//! identity, and each would give away the other's votes. A process is known by its session. While
//! one session of a member sends messages, another session of it is refused.
//!
//! A caller that is in no configuration can name a member of one. Where members are bound to
//! certificates its connection is refused before it gets here; elsewhere the holders of the group's
//! credentials, or all who can connect in clear, are trusted not to.
//!
//! A process that died does not block its successor: its connections close. If its machine died
//! with it, the connections stay open for a while, but no message comes over them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use synod_consensus::{MemberId, SessionId};

use synod_member::lock;

/// A session that sent a message within this time is alive.
const ALIVE: Duration = Duration::from_secs(1);
/// A message of the old session that arrives so long after the new session's first call was sent
/// after that call: no message waits longer in the buffers of a connection. Until then the new
/// session has to wait.
const GRACE: Duration = Duration::from_secs(3);

/// The sessions that have connections to this member, by member.
#[derive(Default)]
pub(super) struct SessionRegistry {
    members: Mutex<HashMap<MemberId, MemberSessions>>,
}

#[derive(Default)]
struct MemberSessions {
    sessions: Vec<SessionRecord>,
    /// A session that has to wait, and the time of its first call.
    waiting: Option<(SessionId, Instant)>,
}

struct SessionRecord {
    session: SessionId,
    /// When the oldest of its open connections was opened.
    since: Instant,
    /// How many connections it has open.
    open: usize,
    /// When its last message arrived.
    heard: Option<Instant>,
}

impl SessionRecord {
    fn is_alive(&self, now: Instant) -> bool {
        let heard = self.heard.map(|at| now.saturating_duration_since(at));
        heard.is_some_and(|ago| ago < ALIVE)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Welcome {
    /// No other session of the member has a connection.
    alone: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Another session sent a message a moment ago, but may have ended since: call again later.
    Wait,
    /// Another session of the same member is alive.
    DuplicateIdentity,
}

/// An open connection of a session. The registry counts it until this is dropped.
pub(super) struct SessionPresence {
    registry: Arc<SessionRegistry>,
    member: MemberId,
    session: SessionId,
    alone: bool,
}

impl SessionPresence {
    /// Whether no other session of the member had a connection when this one was opened.
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// False if an earlier session is alive: close the connection.
    pub(super) fn heard(&self, now: Instant) -> bool {
        self.registry.heard(self.member, self.session, now)
    }

    /// Whether the session has sent a message within `limit`, over any connection.
    pub(super) fn was_heard_within(&self, limit: Duration) -> bool {
        let mut members = lock(&self.registry.members);
        let known = members.get_mut(&self.member);
        let heard = known.and_then(|known| known.seen(self.session)?.heard);
        heard.is_some_and(|at| at.elapsed() < limit)
    }
}

impl Drop for SessionPresence {
    fn drop(&mut self) {
        self.registry.closed(self.member, self.session);
    }
}

impl SessionRegistry {
    pub(super) fn claim(
        self: &Arc<Self>,
        member: MemberId,
        session: SessionId,
        now: Instant,
    ) -> Result<SessionPresence, Taken> {
        let Welcome { alone } = self.opened(member, session, now)?;
        Ok(SessionPresence {
            registry: self.clone(),
            member,
            session,
            alone,
        })
    }

    /// If the session is welcome, [`SessionRegistry::closed`] must follow.
    fn opened(&self, member: MemberId, session: SessionId, now: Instant) -> Result<Welcome, Taken> {
        let mut members = lock(&self.members);
        let known = members.entry(member).or_default();
        let others = || known.sessions.iter().filter(|seen| seen.session != session);
        if let Some(other) = others().find(|seen| seen.is_alive(now)) {
            let since = match known.waiting {
                Some((waiting, since)) if waiting == session => since,
                _ => now,
            };
            let is_duplicate = other.heard.is_some_and(|at| at > since + GRACE);
            known.waiting = Some((session, since));
            return Err(if is_duplicate {
                Taken::DuplicateIdentity
            } else {
                Taken::Wait
            });
        }
        known.waiting = None;
        let alone = others().next().is_none();
        match known.sessions.iter_mut().find(|s| s.session == session) {
            Some(seen) => seen.open += 1,
            None => known.sessions.push(SessionRecord {
                session,
                since: now,
                open: 1,
                heard: None,
            }),
        }
        Ok(Welcome { alone })
    }

    /// A message of the session arrived. False if an earlier session is alive: close the
    /// connection.
    fn heard(&self, member: MemberId, session: SessionId, now: Instant) -> bool {
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
        let earlier = |seen: &&SessionRecord| seen.session != session && seen.since < since;
        let earlier = known.sessions.iter().find(earlier);
        earlier.is_none_or(|earlier| !earlier.is_alive(now))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.members).is_empty()
    }

    fn closed(&self, member: MemberId, session: SessionId) {
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

impl MemberSessions {
    fn seen(&mut self, session: SessionId) -> Option<&mut SessionRecord> {
        self.sessions.iter_mut().find(|s| s.session == session)
    }
}

/// Advice to the operator of a refused process, for its error log.
pub(super) fn duplicate_identity_text(member: MemberId) -> String {
    format!(
        "a process that runs somewhere else is this very member ({member}) already: the log \
         directory was copied. Only one of the two may run. To let this server join as a member of \
         its own, delete the synod-*.log files of the copy"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: MemberId = MemberId(7);
    const OLD: SessionId = SessionId(1);
    const NEW: SessionId = SessionId(2);
    const ALONE: Result<Welcome, Taken> = Ok(Welcome { alone: true });
    const BESIDE: Result<Welcome, Taken> = Ok(Welcome { alone: false });

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn second_process_waits_and_is_refused_while_the_first_is_heard() {
        let (registry, start) = (SessionRegistry::default(), Instant::now());
        assert_eq!(registry.opened(M, OLD, start), ALONE);
        assert_eq!(registry.opened(M, OLD, start), ALONE, "its other lane");
        assert!(registry.heard(M, OLD, after(start, 100)));
        assert_eq!(registry.opened(M, NEW, after(start, 200)), Err(Taken::Wait));
        assert!(registry.heard(M, OLD, after(start, 3100)));
        assert_eq!(
            registry.opened(M, NEW, after(start, 3200)),
            Err(Taken::Wait)
        );
        assert!(registry.heard(M, OLD, after(start, 3300)));
        assert_eq!(
            registry.opened(M, NEW, after(start, 3400)),
            Err(Taken::DuplicateIdentity)
        );
        assert_eq!(registry.opened(M, OLD, after(start, 3500)), ALONE);
    }

    #[test]
    fn restarted_process_is_welcome_at_once_or_when_the_first_has_been_silent() {
        let (registry, start) = (SessionRegistry::default(), Instant::now());
        assert_eq!(registry.opened(M, OLD, start), ALONE);
        registry.heard(M, OLD, after(start, 100));
        registry.closed(M, OLD);
        assert_eq!(registry.opened(M, NEW, after(start, 150)), ALONE);
        let newest = SessionId(3);
        registry.heard(M, NEW, after(start, 200));
        assert_eq!(
            registry.opened(M, newest, after(start, 300)),
            Err(Taken::Wait)
        );
        let late = registry.opened(M, newest, after(start, 1300));
        assert_eq!(late, BESIDE);
    }

    #[test]
    fn later_one_of_two_sessions_is_refused_once_both_send_messages() {
        let (registry, start) = (SessionRegistry::default(), Instant::now());
        assert_eq!(registry.opened(M, OLD, start), ALONE);
        // Connections to a follower carry no messages.
        let welcome = registry.opened(M, NEW, after(start, 10));
        assert_eq!(welcome, BESIDE);
        assert!(registry.heard(M, NEW, after(start, 20)));
        assert!(registry.heard(M, OLD, after(start, 30)));
        assert!(!registry.heard(M, NEW, after(start, 40)));
        registry.closed(M, NEW);
        assert!(registry.heard(M, OLD, after(start, 50)));
    }
}
