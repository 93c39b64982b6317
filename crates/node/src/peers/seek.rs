//! Looking for the group: call the configured addresses, learn who answers.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use synod_member::{Event, lock};
use synod_wire::{HelloReply, Lane, RefuseReason};

use super::Peers;
use super::called::Answer;
use super::channel::Channel;
use super::dial::{DialError, dial};

/// Between rounds.
const PAUSE: Duration = Duration::from_millis(500);

/// Calls the seeds until the group is found.
pub(super) fn run(peers: &Arc<Peers>, seeds: &[String]) {
    while *lock(&peers.seeking) && !peers.is_stopping() {
        for seed in seeds {
            if *lock(&peers.seeking) && *seed != peers.address {
                call(peers, seed);
            }
        }
        let seeking = lock(&peers.seeking);
        if *seeking {
            drop(
                peers
                    .seek_changed
                    .wait_timeout(seeking, PAUSE)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }
}

fn call(peers: &Arc<Peers>, seed: &str) {
    peers.called.begins();
    let answer = dial(peers, seed, Lane::Control);
    peers.called.ended(who_answered(&answer));
    match answer {
        Ok((_, HelloReply::Welcome { member, group, .. })) => {
            peers.tell(Event::MemberFound {
                member,
                address: seed.to_owned(),
                group,
            });
        }
        Ok((
            _,
            HelloReply::Refused {
                reason: RefuseReason::Self_,
                ..
            },
        )) => {}
        Ok((_, HelloReply::Refused { reason, text })) => peers.refused(seed, reason, &text),
        Err(error) => peers.tell(Event::SeedRefused {
            text: format!("{seed} in wsrep_cluster_address does not answer: {error}"),
            is_final: false,
        }),
    }
}

fn who_answered(answer: &Result<(Channel, HelloReply), DialError>) -> Option<Answer> {
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

/// Whether asking again cannot help.
pub(super) fn is_final(reason: RefuseReason) -> bool {
    match reason {
        RefuseReason::NotSynod
        | RefuseReason::WrongGroup
        | RefuseReason::WrongClusterName
        | RefuseReason::UnknownVersion
        | RefuseReason::NameTaken
        | RefuseReason::NotAllowed
        | RefuseReason::DuplicateIdentity => true,
        RefuseReason::Busy | RefuseReason::Self_ => false,
    }
}
