//! The leader's side of a join: what has to change in the configuration, and whether the joiner
//! needs a view of its own. [`admit`] decides from the configuration alone. [`Admission`] remembers
//! joiners that ask again and again: a member that is in the latest view but can never see it needs
//! the view repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use synod_consensus::{Config, ConfigChange, LogIndex, Member, MemberId, Role, SessionId, Time};
use synod_wire::{Join, JoinRefusal};

use super::join::Recurring;
use crate::driver::authorization::{is_bound_otherwise, other_holder};
use crate::payload::view::View;

/// A group has no more members than this.
pub(super) const MEMBERS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Silent,
    /// Within its grace period: silent since this leader was elected, and it still has time.
    InGracePeriod,
    Live,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admit {
    /// Nothing: it is configured as it asks.
    AsItIs,
    Change(ConfigChange),
    Refuse(JoinRefusal),
    RefuseCertificateOf(MemberId),
    /// Have it ask again: the member of its name may be live.
    Wait,
}

/// Decides about a member that asks to join, over a connection that showed this certificate. A
/// member is bound to the certificate of its first join. That holds for a member that has lost its
/// log, too: it comes back as a new one in the place of the former, and would otherwise be a way to
/// take the place of any member that is silent for a moment. A connection that shows no certificate
/// is one from which the transport requires none; it leaves the binding as it is. Nor does one
/// certificate make many members, except in a group whose members share it.
pub(super) fn admit(
    config: &Config,
    from: MemberId,
    join: &Join,
    certificate: Option<&str>,
    standing: impl Fn(MemberId) -> Standing,
) -> Admit {
    if !join.versions.contains(config.protocol) {
        return Admit::Refuse(JoinRefusal::UnknownVersion);
    }
    if is_bound_otherwise(bound(config, from), certificate) {
        return Admit::Refuse(JoinRefusal::CertificateMismatch);
    }
    let predecessor = match predecessor(config, from, join, standing) {
        Ok(predecessor) => predecessor,
        Err(answer) => return answer,
    };
    let former = predecessor.and_then(|old| bound(config, old));
    if is_bound_otherwise(former, certificate) {
        return Admit::Refuse(JoinRefusal::CertificateMismatch);
    }
    if let Some(holder) = other_holder(config, from, predecessor, certificate) {
        return Admit::RefuseCertificateOf(holder);
    }
    let certificate = certificate.map(str::to_owned);
    let inherited = former.map(str::to_owned);
    let member = Member {
        role: Role::Learner,
        has_data: join.has_data,
        name: join.name.clone(),
        address: join.address.clone(),
        versions: join.versions,
        certificate: certificate.clone().or(inherited),
    };
    let is_up_to_date = |known: &Member| {
        let is_bound = known.certificate.is_some() || certificate.is_none();
        known.name == join.name
            && known.address == join.address
            && known.versions == join.versions
            && is_bound
    };
    match (config.members.get(&from), predecessor) {
        (Some(known), _) if is_up_to_date(known) => Admit::AsItIs,
        (Some(_), _) => Admit::Change(ConfigChange::Update {
            id: from,
            name: join.name.clone(),
            address: join.address.clone(),
            versions: join.versions,
            certificate,
        }),
        (None, Some(old)) => Admit::Change(ConfigChange::Replace {
            old,
            id: from,
            member,
        }),
        (None, None) if config.members.len() >= MEMBERS_MAX => {
            Admit::Refuse(JoinRefusal::GroupFull)
        }
        (None, None) => Admit::Change(ConfigChange::AddLearner { id: from, member }),
    }
}

/// The certificate that a joiner's connection has to show: that of the member itself, or of the one
/// that it replaces. None if that is bound to none.
pub(super) fn required_certificate<'a>(
    config: &'a Config,
    from: MemberId,
    join: &Join,
) -> Option<&'a str> {
    let silent = |_| Standing::Silent;
    let replaced = || predecessor(config, from, join, silent).ok().flatten();
    bound(config, from).or_else(|| bound(config, replaced()?))
}

fn bound(config: &Config, id: MemberId) -> Option<&str> {
    config.members.get(&id)?.certificate.as_deref()
}

/// The other members with the name or the address of a joiner, by what is new of the two. Those
/// that share one already stay.
pub(super) fn holders<'a>(
    config: &'a Config,
    from: MemberId,
    join: &'a Join,
) -> impl Iterator<Item = (MemberId, &'a Member)> {
    let known = config.members.get(&from);
    let is_new_name = known.is_none_or(|known| known.name != join.name);
    let is_new_address = known.is_none_or(|known| known.address != join.address);
    let others = config.members.iter().filter(move |(id, _)| **id != from);
    let holders = others.filter(move |(_, other)| {
        is_new_name && other.name == join.name || is_new_address && other.address == join.address
    });
    holders.map(|(id, member)| (*id, member))
}

/// The joiner's identity before it lost its log: the member of its name at its address; or, if the
/// joiner has moved, the only member of its name. Silent, for a live member keeps its name and its
/// address. A name that several members have identifies none of them.
fn predecessor(
    config: &Config,
    from: MemberId,
    join: &Join,
    standing: impl Fn(MemberId) -> Standing,
) -> Result<Option<MemberId>, Admit> {
    for (id, _) in holders(config, from, join) {
        match standing(id) {
            Standing::Silent => {}
            Standing::InGracePeriod => return Err(Admit::Wait),
            Standing::Live => return Err(Admit::Refuse(JoinRefusal::NameTaken)),
        }
    }
    let members = config.members.iter();
    let namesakes: Vec<(MemberId, &Member)> = members
        .filter(|(id, member)| **id != from && member.name == join.name)
        .map(|(id, member)| (*id, member))
        .collect();
    let in_place = namesakes.iter().find(|(_, m)| m.address == join.address);
    let former = match (in_place, namesakes.as_slice()) {
        (Some((id, _)), _) | (None, [(id, _)]) => Some(*id),
        (None, _) => None,
    };
    Ok(former.filter(|id| standing(*id) == Standing::Silent))
}

pub(in crate::driver) struct Admission {
    /// A new member's log begins so many entries before the end, if it needs no more.
    join_backlog: u64,
    /// Joiners that ask to be in a view that they are in.
    missed_views: BTreeMap<MemberId, MissedView>,
    /// A joiner has missed the latest view for good: the next one is announced even if it has the
    /// same members.
    repeats_view: bool,
}

/// Requests of a member that does not see a view with this number.
#[derive(Default)]
struct MissedView {
    number: u64,
    requests: Recurring,
}

impl Admission {
    pub(super) fn new(join_backlog: u64) -> Admission {
        Admission {
            join_backlog,
            missed_views: BTreeMap::new(),
            repeats_view: false,
        }
    }

    pub(super) fn backlog_before(&self, index: LogIndex) -> LogIndex {
        LogIndex(index.0.saturating_sub(self.join_backlog))
    }

    /// A configured member asks to be present; its log ends with `last`. `latest` is the latest
    /// view and its entry. If the member is in that view, its log is beyond it, and it keeps
    /// asking, its log was reset beyond the view: it will never see it.
    pub(in crate::driver) fn asked(
        &mut self,
        now: Time,
        from: (MemberId, SessionId),
        last: LogIndex,
        latest: Option<(LogIndex, &View)>,
        suspect: Duration,
    ) {
        let (member, session) = from;
        let is_in_it =
            |(index, view): &(LogIndex, &View)| view.contains(member, session) && *index <= last;
        let Some((_, view)) = latest.filter(is_in_it) else {
            self.missed_views.remove(&member);
            return;
        };
        let missed = self.missed_views.entry(member).or_default();
        if missed.number != view.number {
            *missed = MissedView {
                number: view.number,
                requests: Recurring::default(),
            };
        }
        // The member may not know yet that the view is committed.
        self.repeats_view |= missed.requests.again(now, suspect) >= suspect / 2;
    }

    /// Whether the next view is to be announced whatever its members are. Asked once per view.
    pub(super) fn take_repeat(&mut self) -> bool {
        std::mem::take(&mut self.repeats_view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::view::ViewMember;
    use synod_consensus::{EntryId, GroupId, Seqno, VersionRange};

    const SPOKEN: VersionRange = VersionRange { min: 1, max: 2 };

    fn member(name: &str, address: &str) -> Member {
        Member {
            role: Role::Learner,
            has_data: true,
            name: name.to_owned(),
            address: address.to_owned(),
            versions: SPOKEN,
            certificate: None,
        }
    }

    fn config(members: &[(u64, &str, &str)]) -> Config {
        let configured = |(id, name, at): &(u64, &str, &str)| (MemberId(*id), member(name, at));
        Config {
            protocol: 1,
            members: members.iter().map(configured).collect(),
            ..Config::default()
        }
    }

    fn join(name: &str, address: &str) -> Join {
        Join {
            session: SessionId(9),
            name: name.to_owned(),
            address: address.to_owned(),
            incoming: String::new(),
            has_data: true,
            group: GroupId::NONE,
            db_group: GroupId::NONE,
            db_seqno: Seqno::UNDEFINED,
            last: EntryId::default(),
            versions: SPOKEN,
            has_joined: false,
        }
    }

    const NEW: MemberId = MemberId(7);

    fn ask(config: &Config, name: &str, address: &str, standing: Standing) -> Admit {
        admit(config, NEW, &join(name, address), None, |_| standing)
    }

    /// Like `ask`, for a silent namesake, over a connection with this certificate.
    fn show(config: &Config, name: &str, certificate: Option<&str>) -> Admit {
        let join = join(name, "b:1");
        admit(config, NEW, &join, certificate, |_| Standing::Silent)
    }

    /// A group with a member 2 called `b` that is bound to this certificate.
    fn with_bound(id: u64, certificate: Option<&str>) -> Config {
        let mut config = config(&[(1, "a", "a:1"), (id, "b", "b:1")]);
        let member = config.members.get_mut(&MemberId(id)).expect("configured");
        member.certificate = certificate.map(str::to_owned);
        config
    }

    fn bound_by(answer: Admit) -> Option<String> {
        match answer {
            Admit::Change(
                ConfigChange::AddLearner { member, .. } | ConfigChange::Replace { member, .. },
            ) => member.certificate,
            Admit::Change(ConfigChange::Update { certificate, .. }) => certificate,
            other => panic!("{other:?}"),
        }
    }

    const MISMATCH: Admit = Admit::Refuse(JoinRefusal::CertificateMismatch);

    #[test]
    fn member_is_bound_to_the_certificate_of_its_first_join() {
        let mine = Some("CN=b");
        let bound_to_it = Some("CN=b".to_owned());
        assert_eq!(
            bound_by(show(&with_bound(2, None), "new", mine)),
            bound_to_it
        );
        let before_certificates = with_bound(7, None);
        assert_eq!(bound_by(show(&before_certificates, "b", mine)), bound_to_it);
        assert_eq!(show(&before_certificates, "b", None), Admit::AsItIs);
        assert_eq!(show(&with_bound(7, mine), "b", mine), Admit::AsItIs);
        let other = Some("CN=x");
        assert_eq!(show(&with_bound(7, mine), "b", other), MISMATCH);
        let waived = None;
        assert_eq!(show(&with_bound(7, mine), "b", waived), Admit::AsItIs);
    }

    #[test]
    fn member_from_which_the_transport_requires_no_certificate_stays_bound() {
        let mine = Some("CN=b");
        let moved = admit(&with_bound(7, mine), NEW, &join("b", "c:1"), None, |_| {
            Standing::Live
        });
        assert_eq!(bound_by(moved), None, "an update that leaves the binding");
        let in_its_place = show(&with_bound(2, mine), "b", None);
        assert_eq!(bound_by(in_its_place), Some("CN=b".to_owned()));
    }

    #[test]
    fn place_of_a_bound_member_is_for_its_certificate_only() {
        let config = with_bound(2, Some("CN=b"));
        let answer = show(&config, "b", Some("CN=b"));
        assert_eq!(bound_by(answer), Some("CN=b".to_owned()));
        assert_eq!(show(&config, "b", Some("CN=x")), MISMATCH);
        assert_eq!(
            required_certificate(&config, NEW, &join("b", "b:1")),
            Some("CN=b")
        );
        assert_eq!(required_certificate(&config, NEW, &join("a", "a:1")), None);
    }

    #[test]
    fn certificate_of_a_member_makes_no_second_one() {
        let certificate = |subject: &str| Some(subject.to_owned());
        let mut config = with_bound(2, Some("CN=b"));
        let of_2 = Some("CN=b");
        assert_eq!(
            bound_by(show(&config, "c", of_2)),
            certificate("CN=b"),
            "the group may be one whose members share a certificate"
        );
        config.members.insert(MemberId(3), member("c", "c:1"));
        for (id, subject) in [(1, "CN=a"), (3, "CN=b")] {
            let member = config.members.get_mut(&MemberId(id)).expect("configured");
            member.certificate = certificate(subject);
        }
        let taken = Admit::RefuseCertificateOf(MemberId(2));
        assert_eq!(show(&config, "d", of_2), taken);
        assert_eq!(
            bound_by(show(&config, "d", Some("CN=d"))),
            certificate("CN=d")
        );
        assert_eq!(bound_by(show(&config, "b", of_2)), certificate("CN=b"));
        let unbound = config.members.get_mut(&MemberId(1)).expect("configured");
        unbound.certificate = None;
        config.members.insert(MemberId(4), member("e", "e:1"));
        assert_eq!(bound_by(show(&config, "d", of_2)), certificate("CN=b"));
        let other = config.members.get_mut(&MemberId(4)).expect("configured");
        other.certificate = certificate("CN=e");
        assert_eq!(show(&config, "a", of_2), taken, "nor in place of another");
    }

    /// The one that began the group, for instance, in a group that has moved to certificates.
    #[test]
    fn member_that_is_bound_to_none_is_not_bound_to_the_certificate_of_another_one() {
        let mut config = with_bound(2, Some("CN=b"));
        config.members.insert(NEW, member("c", "c:1"));
        let ask = |config: &Config, shown| {
            let join = join("c", "c:1");
            admit(config, NEW, &join, Some(shown), |_| Standing::Live)
        };
        let one = config.members.get_mut(&MemberId(1)).expect("configured");
        one.certificate = Some("CN=a".to_owned());
        for (shown, holder) in [("CN=a", 1), ("CN=b", 2)] {
            let taken = Admit::RefuseCertificateOf(MemberId(holder));
            assert_eq!(ask(&config, shown), taken);
        }
        assert_eq!(bound_by(ask(&config, "CN=c")), Some("CN=c".to_owned()));
    }

    #[test]
    fn new_member_becomes_a_learner() {
        let config = config(&[(1, "a", "a:1")]);
        let change = ConfigChange::AddLearner {
            id: NEW,
            member: member("b", "b:1"),
        };
        assert_eq!(
            ask(&config, "b", "b:1", Standing::Live),
            Admit::Change(change)
        );
    }

    #[test]
    fn member_that_lost_its_log_replaces_its_former_self() {
        let config = config(&[(1, "a", "a:1"), (2, "b", "b:1")]);
        let replace = |address| {
            Admit::Change(ConfigChange::Replace {
                old: MemberId(2),
                id: NEW,
                member: member("b", address),
            })
        };
        assert_eq!(ask(&config, "b", "b:1", Standing::Silent), replace("b:1"));
        assert_eq!(
            ask(&config, "b", "moved:1", Standing::Silent),
            replace("moved:1")
        );
        let taken = Admit::Refuse(JoinRefusal::NameTaken);
        assert_eq!(ask(&config, "b", "b:1", Standing::Live), taken);
        for address in ["b:1", "moved:1"] {
            let answer = ask(&config, "b", address, Standing::InGracePeriod);
            assert_eq!(answer, Admit::Wait);
        }
    }

    #[test]
    fn name_and_address_of_a_live_member_are_taken() {
        let taken = Admit::Refuse(JoinRefusal::NameTaken);
        let mut one = config(&[(1, "a", "a:1")]);
        for (name, address) in [("a", "b:1"), ("b", "a:1")] {
            assert_eq!(ask(&one, name, address, Standing::Live), taken);
            let answer = ask(&one, name, address, Standing::InGracePeriod);
            assert_eq!(answer, Admit::Wait);
        }
        one.members.insert(NEW, member("b", "b:1"));
        for (name, address) in [("a", "b:1"), ("b", "a:1")] {
            assert_eq!(ask(&one, name, address, Standing::Live), taken, "a copy");
        }
    }

    #[test]
    fn silent_members_of_one_name_and_the_owner_of_an_address_are_not_replaced() {
        let is_added = |answer| matches!(answer, Admit::Change(ConfigChange::AddLearner { .. }));
        let two = config(&[(1, "a", "a:1"), (2, "a", "a:2")]);
        assert!(is_added(ask(&two, "a", "b:1", Standing::Silent)));
        assert!(is_added(ask(&two, "b", "a:1", Standing::Silent)));
    }

    #[test]
    fn members_that_have_shared_a_name_before_keep_it() {
        let two = config(&[(1, "a", "a:1"), (7, "a", "a:2")]);
        for standing in [Standing::Live, Standing::InGracePeriod, Standing::Silent] {
            assert_eq!(ask(&two, "a", "a:2", standing), Admit::AsItIs);
        }
    }

    #[test]
    fn configured_member_is_updated_when_it_has_changed() {
        let config = config(&[(7, "a", "a:1")]);
        assert_eq!(ask(&config, "a", "a:1", Standing::Live), Admit::AsItIs);
        let update = ConfigChange::Update {
            id: NEW,
            name: "a".to_owned(),
            address: "b:1".to_owned(),
            versions: SPOKEN,
            certificate: None,
        };
        assert_eq!(
            ask(&config, "a", "b:1", Standing::Live),
            Admit::Change(update)
        );
    }

    #[test]
    fn version_and_size_of_the_group_are_bounds() {
        let mut full = config(&[]);
        for id in 100..100 + MEMBERS_MAX as u64 {
            full.members.insert(MemberId(id), member("x", "x:1"));
        }
        let refused = ask(&full, "b", "b:1", Standing::Live);
        assert_eq!(refused, Admit::Refuse(JoinRefusal::GroupFull));
        full.protocol = 3;
        let refused = ask(&full, "b", "b:1", Standing::Live);
        assert_eq!(refused, Admit::Refuse(JoinRefusal::UnknownVersion));
    }

    #[test]
    fn view_is_repeated_for_a_member_that_keeps_asking_beyond_it() {
        let view = View {
            seqno: Seqno(3),
            number: 3,
            members: vec![ViewMember {
                member: NEW,
                session: SessionId(9),
                name: String::new(),
                incoming: String::new(),
            }],
        };
        let suspect = Duration::from_secs(4);
        let mut admission = Admission::new(1000);
        let mut ask = |seconds, last| {
            let now = Time(7).plus(Duration::from_secs(seconds));
            let latest = Some((LogIndex(30), &view));
            admission.asked(now, (NEW, SessionId(9)), LogIndex(last), latest, suspect);
            admission.take_repeat()
        };
        assert!(!ask(0, 40));
        assert!(!ask(1, 40));
        assert!(ask(2, 40));
        assert!(ask(3, 40));
        assert!(!ask(4, 29), "it can still come to the view");
        assert!(!ask(5, 40));
    }
}
