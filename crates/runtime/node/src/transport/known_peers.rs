//! The members that may exchange messages with this one, as the driver names them.
//!
//! All others are strangers: they get a small share of connections, memory and time, and their
//! messages are for the driver to judge. A member that is bound to a certificate is believed only
//! on a connection that shows the certificate's subject.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use synod_consensus::MemberId;
use synod_member::KnownPeer;
use synod_tls::PeerCredential;

#[derive(Default)]
pub(super) struct KnownPeers(RwLock<BTreeMap<MemberId, KnownPeer>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Known,
    Stranger,
    /// The process is not the member in whose name the connection was opened, or its credentials
    /// are not accepted any more.
    Refused,
}

impl KnownPeers {
    /// Replaces all of them. False if they are the same as before.
    pub(super) fn set(&self, known: &BTreeMap<MemberId, KnownPeer>) -> bool {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_other = *current != *known;
        if is_other {
            known.clone_into(&mut current);
        }
        is_other
    }

    pub(super) fn has(&self, member: MemberId) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.contains_key(&member)
    }

    /// Why a connection in a member's name is not the member's, by what it shows. `takes_clear`:
    /// this member's operator accepts members that do not encrypt.
    pub(super) fn objection(
        &self,
        member: MemberId,
        shown: &PeerCredential,
        takes_clear: bool,
    ) -> Option<String> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let peer = known.get(&member)?;
        let Some(bound) = &peer.certificate else {
            return objection_to_unbound(member, peer, shown);
        };
        let shown = match shown {
            PeerCredential::Certificate { subject } if subject == bound => return None,
            PeerCredential::Certificate { subject } => format!("that of '{subject}'"),
            // The operator gave this member the secret, so its holders are the group.
            PeerCredential::Secret { .. } => return None,
            PeerCredential::None if takes_clear => return None,
            PeerCredential::None => "none".to_owned(),
        };
        Some(format!(
            "member {member} joined with the certificate of '{bound}', and this connection shows \
             {shown}: give the server a certificate of the subject that it joined with; or, to \
             join as a new member, another name too, and move its synod-*.log files away"
        ))
    }
}

/// A member that is bound to no certificate may show any that no other member is bound to.
fn objection_to_unbound(
    member: MemberId,
    peer: &KnownPeer,
    shown: &PeerCredential,
) -> Option<String> {
    let PeerCredential::Certificate { subject } = shown else {
        return None;
    };
    peer.taken.contains(subject).then(|| {
        format!(
            "member {member} is bound to no certificate yet, and this connection shows that of \
             '{subject}', to which another member is bound: give each server a certificate of a \
             subject of its own. If the other member was bound to it by mistake: 'synod member \
             unbind'"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: MemberId = MemberId(1);
    const FREE: MemberId = MemberId(2);
    const STRANGER: MemberId = MemberId(3);

    fn known() -> KnownPeers {
        let known = KnownPeers::default();
        let certificate = Some("CN=one".to_owned());
        known.set(&BTreeMap::from([
            (
                BOUND,
                KnownPeer {
                    certificate,
                    taken: Vec::new(),
                },
            ),
            (
                FREE,
                KnownPeer {
                    certificate: None,
                    taken: vec!["CN=one".to_owned()],
                },
            ),
        ]));
        known
    }

    fn certificate(subject: &str) -> PeerCredential {
        let subject = subject.to_owned();
        PeerCredential::Certificate { subject }
    }

    #[test]
    fn bound_member_is_believed_with_its_certificate_only() {
        let known = known();
        assert_eq!(known.objection(BOUND, &certificate("CN=one"), false), None);
        let other = known.objection(BOUND, &certificate("CN=two"), true);
        let other = other.expect("another subject");
        assert!(other.contains("'CN=one'") && other.contains("'CN=two'"));
        assert!(other.contains(&BOUND.to_string()));
        let clear = known.objection(BOUND, &PeerCredential::None, false);
        assert!(clear.is_some_and(|text| text.contains("shows none")));
        assert_eq!(known.objection(BOUND, &PeerCredential::None, true), None);
        assert_eq!(
            known.objection(BOUND, &PeerCredential::Secret { key: vec![1] }, false),
            None
        );
    }

    #[test]
    fn members_that_are_bound_to_nothing_may_show_anything() {
        let known = known();
        for member in [FREE, STRANGER] {
            assert_eq!(known.objection(member, &certificate("CN=x"), false), None);
            assert_eq!(known.objection(member, &PeerCredential::None, false), None);
        }
        let taken = known.objection(FREE, &certificate("CN=one"), false);
        assert!(taken.is_some_and(|text| text.contains("another member is bound")));
        assert_eq!(
            known.objection(STRANGER, &certificate("CN=one"), false),
            None
        );
        assert!(known.has(FREE) && !known.has(STRANGER));
        known.set(&BTreeMap::new());
        assert!(!known.has(BOUND));
    }
}
