//! Looking for the group: calls the seeds until the driver says that the group is found.
//!
//! Each seed that answers becomes [`Event::MemberFound`], each that refuses or does not answer
//! becomes [`Event::SeedRefused`]. Which member to join is the driver's decision.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use synod_member::{Event, Setting, lock};
use synod_wire::{HelloReply, Lane, RefuseReason};

use super::Transport;
use super::channel::Channel;
use super::dial::{DialError, dial};
use super::link::Target;
use super::outbound_answers::Answer;

/// The time between two rounds of calls.
const PAUSE: Duration = Duration::from_millis(500);

/// Calls the seeds until the group is found.
pub(super) fn run(transport: &Arc<Transport>, seeds: &[String]) {
    while *lock(&transport.discovering) && !transport.is_stopping() {
        for seed in seeds {
            if *lock(&transport.discovering) && *seed != transport.address {
                call(transport, seed);
            }
        }
        let seeking = lock(&transport.discovering);
        if *seeking {
            drop(
                transport
                    .discovery_changed
                    .wait_timeout(seeking, PAUSE)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }
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
                Some(text) => transport.send_event(Event::SeedRefused {
                    text: format!("{seed} is not used: {text}"),
                    is_final: false,
                    needs_operator: true,
                }),
            }
        }
        Ok((
            _,
            HelloReply::Refused {
                reason: RefuseReason::Self_,
                ..
            },
        )) => {}
        Ok((_, HelloReply::Refused { reason, text })) => transport.refused(seed, reason, &text),
        Err(error) => {
            let setting = transport.host.setting_name(Setting::GroupAddress);
            let what = match error {
                DialError::Galera => "cannot be used",
                DialError::Connect(_) | DialError::Tls(_) | DialError::Handshake(_) => {
                    "does not answer"
                }
            };
            transport.send_event(Event::SeedRefused {
                text: format!("{seed} in {setting} {what}: {error}"),
                is_final: false,
                needs_operator: error.for_operator().is_some(),
            });
        }
    }
}

/// The process that welcomed a call, and its address.
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
    let at = channel.stream().peer_addr().ok()?;
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
