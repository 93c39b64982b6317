//! The certificate that a member is bound to, against the one that a connection in its name shows.
//! A member is bound to one subject, and a subject to one member, except in a group whose members
//! share a certificate. So who holds a member's certificate speaks for that member alone.

use synod_consensus::{Config, MemberId};

/// Whether a connection is that of another member: it shows another subject than the member is
/// bound to. One that shows no certificate is not: whether a bound member may come without one is
/// for the transport to decide, which knows what this member's operator accepts. It refuses the
/// connection, or waives the certificate because the peer has the group's secret, or because
/// connections in clear are accepted. So a group can leave certificates, and have members that lack
/// them.
pub(in crate::driver) fn is_bound_otherwise(bound: Option<&str>, shown: Option<&str>) -> bool {
    bound
        .zip(shown)
        .is_some_and(|(bound, shown)| bound != shown)
}

/// The member that is bound to the certificate which another one, `of`, shows; `former` is the
/// member in whose place that one is to be. None in a group in which all bound members have one
/// subject: they share a certificate, or only the first of them is bound yet, and its group has to
/// be able to grow.
pub(in crate::driver) fn other_holder(
    config: &Config,
    of: MemberId,
    former: Option<MemberId>,
    shown: Option<&str>,
) -> Option<MemberId> {
    let shown = shown?;
    let subjects = || {
        let members = config.members.iter();
        members.filter_map(|(id, member)| Some((*id, member.certificate.as_deref()?)))
    };
    let is_own = |id: MemberId| id == of || Some(id) == former;
    let is_shown = |(_, subject): &(MemberId, &str)| *subject == shown;
    let mut holders = subjects().filter(is_shown).map(|(id, _)| id);
    let is_free = holders.clone().any(is_own) || subjects().all(|holder| is_shown(&holder));
    holders.next().filter(|_| !is_free)
}

/// Subjects that a member which is bound to none may not show: others are bound to them.
pub(super) fn taken_subjects(config: &Config, of: MemberId) -> Vec<String> {
    let subjects = config.members.values();
    let subjects = subjects.filter_map(|member| member.certificate.as_deref());
    let taken = subjects.filter(|subject| other_holder(config, of, None, Some(subject)).is_some());
    taken.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::example_groups::voters_and_learners;

    /// Members 1, 2, ... with the certificates that they are bound to.
    fn bound_to(subjects: &[Option<&str>]) -> Config {
        let mut config = voters_and_learners(subjects.len() as u64, 0);
        for (member, subject) in config.members.values_mut().zip(subjects) {
            member.certificate = subject.map(str::to_owned);
        }
        config
    }

    #[test]
    fn certificate_is_one_members_unless_all_share_it() {
        let holder = |config: &Config, of, former: Option<u64>, shown| {
            let former = former.map(MemberId);
            other_holder(config, MemberId(of), former, Some(shown)).map(|id| id.0)
        };
        let two = bound_to(&[Some("a"), Some("b"), None]);
        assert_eq!(holder(&two, 3, None, "b"), Some(2));
        assert_eq!(holder(&two, 3, None, "c"), None);
        assert_eq!(holder(&two, 2, None, "b"), None, "its own");
        assert_eq!(holder(&two, 9, Some(2), "b"), None, "in its place");
        assert_eq!(holder(&two, 9, Some(1), "b"), Some(2));
        assert_eq!(taken_subjects(&two, MemberId(3)), ["a", "b"]);
        let shared = bound_to(&[Some("a"), Some("a"), None]);
        assert_eq!(holder(&shared, 3, None, "a"), None);
        assert!(taken_subjects(&shared, MemberId(3)).is_empty());
    }

    #[test]
    fn only_another_subject_is_that_of_another_member() {
        let (one, two) = (Some("CN=one"), Some("CN=two"));
        assert!(is_bound_otherwise(one, two));
        assert!(!is_bound_otherwise(one, one));
        assert!(!is_bound_otherwise(None, two));
        assert!(
            !is_bound_otherwise(one, None),
            "the transport has waived it"
        );
    }
}
