//! Looking for the group: calls the seeds until the driver says that the group is found; and once
//! before a group begins, to see that none is there ([`group_at`]).
//!
//! Each seed that answers becomes [`Event::MemberFound`], each that refuses or does not answer
//! becomes [`Event::CallFailed`]. Which member to join is the driver's decision.
//!
//! Two groups may have begun all the same: at one moment, or without a way between them. So seeds
//! that are not connected are called once a minute afterwards, and both ends log such a call.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use synod_consensus::{GroupId, MemberId, SessionId};
use synod_member::{Event, Level, Setting, SignOfLife, lock};
use synod_wire::{Hello, HelloReply, Lane, RefuseReason};

use super::channel::Channel;
use super::dial::{self, DialError, dial};
use super::greeting::OTHER_GROUP;
use super::link::Target;
use super::{ConnectionEncryption, Transport};

/// The time between two rounds of calls.
const PAUSE: Duration = Duration::from_millis(500);
/// The same once the group is found.
const LOOK_PAUSE: Duration = Duration::from_secs(60);
const ANSWERED_MAX: usize = 256;

/// Calls the seeds until the transport stops: for the group, and for others once it is found.
pub(super) fn run(transport: &Arc<Transport>, seeds: &[String]) {
    let others = seeds.iter().filter(|seed| **seed != transport.address);
    while let Some(found) = transport.group_found.count() {
        for seed in others.clone() {
            match transport.group_found.count() {
                Some(0) => call(transport, seed),
                Some(_) if found > 0 => look_for_other_group(transport, seed),
                Some(_) | None => break,
            }
        }
        let pause = if found == 0 { PAUSE } else { LOOK_PAUSE };
        let next = Instant::now() + pause;
        transport.group_found.wait_beyond_until(found, next);
    }
}

pub(super) fn look_for_other_group(transport: &Transport, seed: &str) {
    if is_connected_at(transport, seed) {
        return;
    }
    let answer = dial(transport, &Target::at(seed), Lane::Control);
    if let Ok((channel, HelloReply::Refused { reason, text })) = answer
        && reason == RefuseReason::WrongGroup
        && let Ok(at) = channel.socket().stream().peer_addr()
    {
        transport.log_about(at.ip(), Level::Warning, OTHER_GROUP, || {
            format!("{seed} refuses this member: {text}")
        });
    }
}

/// The first of these addresses where a member of a group welcomes the caller, that member's name,
/// and the group. All are called at once, each for a few seconds at most.
pub(crate) fn group_at(
    encryption: &ConnectionEncryption,
    hello: &Hello,
    addresses: &[String],
) -> Option<(String, String, GroupId)> {
    thread::scope(|scope| {
        let call = |address: &String| {
            let address = address.clone();
            scope.spawn(move || dial::ask(encryption, hello, &address))
        };
        let calls: Vec<_> = addresses.iter().map(call).collect();
        let answers = addresses.iter().zip(calls);
        answers
            .filter_map(|(address, call)| match call.join() {
                Ok(Ok(HelloReply::Welcome { name, group, .. })) if group != GroupId::NONE => {
                    Some((address.clone(), name, group))
                }
                _ => None,
            })
            .next()
    })
}

/// Whether a member of this group is there.
pub(super) fn is_connected_at(transport: &Transport, address: &str) -> bool {
    let addresses: Vec<_> = address.to_socket_addrs().into_iter().flatten().collect();
    let links: Vec<_> = lock(&transport.links).values().cloned().collect();
    links.iter().any(|link| link.is_connected_at(&addresses))
}

fn call(transport: &Arc<Transport>, seed: &str) {
    transport.answers.call_begins();
    let answer = dial(transport, &Target::at(seed), Lane::Control);
    transport.answers.call_ends(answering_process(&answer));
    match answer {
        Ok((channel, HelloReply::Welcome { member, group, .. })) => {
            match transport.objection(member, channel.peer()) {
                None => transport.send_event(Event::MemberFound {
                    member,
                    address: seed.to_owned(),
                    group,
                }),
                Some(text) => {
                    let why = format!("is not used: {text}");
                    transport.call_failed(seed, None, why, SignOfLife::Distrust);
                }
            }
        }
        Ok((
            _,
            HelloReply::Refused {
                reason: RefuseReason::Self_,
                ..
            },
        )) => {}
        Ok((_, HelloReply::Refused { reason, text })) => {
            transport.refused(seed, None, reason, &text)
        }
        Err(error) => {
            let setting = transport.host.setting_name(Setting::GroupAddress);
            let why = format!("in {setting} {}", error.in_words());
            transport.call_failed(seed, None, why, error.sign());
        }
    }
}

fn answering_process(answer: &Result<(Channel, HelloReply), DialError>) -> Option<Answer> {
    let Ok((
        channel,
        HelloReply::Welcome {
            member, session, ..
        },
    )) = answer
    else {
        return None;
    };
    let at = channel.socket().stream().peer_addr().ok()?;
    Some((*member, *session, at.ip().to_canonical()))
}

/// Whether a refusal stays the same however often this member asks.
pub(super) fn is_final(reason: RefuseReason) -> bool {
    match reason {
        RefuseReason::WrongGroup
        | RefuseReason::WrongClusterName
        | RefuseReason::UnknownVersion
        | RefuseReason::NotAllowed
        | RefuseReason::DuplicateIdentity => true,
        RefuseReason::Busy | RefuseReason::Self_ => false,
    }
}

type Answer = (MemberId, SessionId, IpAddr);

/// Members that answered when this member called the seeds, its own list of addresses.
///
/// Each direction is a connection of its own here, while users of an allowlist expect one for both:
/// a member whose allowlist is empty, but that calls the group itself, must hear the group. So a
/// member that answered may call back from the address where it answered, and is called there,
/// until its session ends.
#[derive(Default)]
pub(super) struct OutboundAnswers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    calling: bool,
    answered: BTreeSet<Answer>,
}

impl OutboundAnswers {
    fn call_begins(&self) {
        lock(&self.state).calling = true;
    }

    fn call_ends(&self, answer: Option<Answer>) {
        let mut state = lock(&self.state);
        state.calling = false;
        if state.answered.len() < ANSWERED_MAX {
            state.answered.extend(answer);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Whether this process answered. It may call back before the thread that called it has read
    /// the answer, so this waits for a call that has not ended, up to `limit`.
    pub(super) fn has_answered(&self, caller: Answer, limit: Duration) -> bool {
        let unclear = |state: &mut State| state.calling && !state.answered.contains(&caller);
        let (state, _) = self
            .changed
            .wait_timeout_while(lock(&self.state), limit, unclear)
            .unwrap_or_else(PoisonError::into_inner);
        state.answered.contains(&caller)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const M: Answer = answer(7, 1, 1);
    const NOT_AT_ALL: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(3600);

    const fn answer(member: u64, session: u64, host: u8) -> Answer {
        let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
        (MemberId(member), SessionId(session), ip)
    }

    #[test]
    fn only_a_process_that_answered_may_call_back_and_only_from_its_address() {
        let answers = OutboundAnswers::default();
        assert!(!answers.has_answered(M, LONG), "no call yet");
        answers.call_begins();
        assert!(!answers.has_answered(M, NOT_AT_ALL));
        answers.call_ends(Some(M));
        assert!(answers.has_answered(M, LONG));
        assert!(!answers.has_answered(answer(7, 1, 2), LONG));
        assert!(!answers.has_answered(answer(7, 2, 1), LONG), "restarted");
        assert!(!answers.has_answered(answer(8, 1, 1), LONG));
        answers.call_begins();
        assert!(answers.has_answered(M, LONG), "the next call");
        answers.call_ends(None);
        assert!(answers.has_answered(M, LONG));
    }

    #[test]
    fn answer_that_is_being_read_is_waited_for() {
        let answers = OutboundAnswers::default();
        answers.call_begins();
        std::thread::scope(|scope| {
            let back = scope.spawn(|| answers.has_answered(M, LONG));
            answers.call_ends(Some(M));
            assert!(back.join().unwrap());
        });
    }
}
