//! The views that the server was shown, and how a view of the group becomes one of the server's.
//!
//! Primary views are shown in their place in the order. That the group is lost is shown out of
//! order, at most once between two primary views.

use synod_node::{MemberId, Origin, SessionId, View as GroupView};

use crate::api::{CAPABILITIES, Gtid, Uuid, View, ViewMember, ViewStatus};

/// Application protocol of MariaDB's write sets; the only one the server accepts in views.
const APPLICATION_PROTOCOL: i32 = 4;

#[derive(Default)]
pub(crate) struct ShownViews {
    latest: Option<GroupView>,
    primary: bool,
    in_order: bool,
}

impl ShownViews {
    pub(crate) fn latest(&self) -> Option<&GroupView> {
        self.latest.as_ref()
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.primary
    }

    /// Whether the server is past its first view in order and believes that the group is there.
    pub(crate) fn believes_in_group(&self) -> bool {
        self.in_order && self.primary
    }

    /// Whether the latest view has the same members. Two such views in a row make the server roll
    /// back all streamed transactions.
    pub(crate) fn has_members_of(&self, view: &GroupView) -> bool {
        let same = |latest: &GroupView| latest.members == view.members;
        self.latest.as_ref().is_some_and(same)
    }

    /// The server was shown a primary view out of order, which starts its engines.
    pub(crate) fn show_first(&mut self) {
        self.primary = true;
    }

    /// The server's copy of the database contains this view: it will not be shown again.
    pub(crate) fn start_with(&mut self, view: &GroupView) {
        self.latest = Some(view.clone());
        self.primary = true;
        self.in_order = true;
    }

    /// The server was shown a view in order; whether it is back in a group that it had lost. A view
    /// without this server (`present` false) is a step on the way back.
    pub(crate) fn show(&mut self, view: &GroupView, present: bool) -> bool {
        let back = present && !self.primary && self.in_order;
        self.latest = Some(view.clone());
        self.primary |= present;
        self.in_order |= present;
        back
    }

    pub(crate) fn lose(&mut self) {
        self.primary = false;
    }
}

#[derive(Clone, Copy)]
pub(crate) struct ViewFrame {
    pub(crate) position: Gtid,
    pub(crate) own: Uuid,
}

impl ViewFrame {
    pub(crate) fn server_view(self, view: &GroupView, status: ViewStatus) -> View {
        let member = |member: &synod_node::ViewMember| ViewMember {
            id: session_uuid(member.member, member.session),
            name: member.name.clone(),
            incoming: member.incoming.clone(),
        };
        let members: Vec<ViewMember> = view.members.iter().map(member).collect();
        let number = match status {
            ViewStatus::Primary => i64::try_from(view.number).unwrap_or(i64::MAX),
            ViewStatus::NonPrimary | ViewStatus::Disconnected => -1,
        };
        View {
            state_id: self.position,
            number,
            status,
            capabilities: CAPABILITIES,
            my_index: members.iter().position(|member| member.id == self.own),
            proto_ver: APPLICATION_PROTOCOL,
            members,
        }
    }

    /// View of a server that has lost its group: itself alone, if it was a member.
    pub(crate) fn lost_view(self, view: &GroupView) -> View {
        let mut lost = self.server_view(view, ViewStatus::NonPrimary);
        let own = lost.my_index.map(|index| lost.members[index].clone());
        lost.my_index = own.as_ref().map(|_| 0);
        lost.members = own.into_iter().collect();
        lost
    }
}

/// A session's name in views and transaction ids: new for each connection to the group.
///
/// It sorts as views do ([`GroupView::members`]): the server keeps the view in a table with this as
/// its key, and after a copy it finds its own number by the table's order.
pub(crate) fn session_uuid(member: MemberId, session: SessionId) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&session.0.to_be_bytes());
    bytes[8..].copy_from_slice(&member.0.to_be_bytes());
    Uuid(bytes)
}

pub(crate) fn origin_uuid(origin: &Origin) -> Uuid {
    session_uuid(origin.member, origin.session)
}

#[cfg(test)]
mod tests {
    use synod_node::{GroupId, Seqno};

    use super::*;

    fn view(members: &[u64]) -> GroupView {
        let member = |id: &u64| synod_node::ViewMember {
            member: MemberId(*id),
            session: SessionId(1),
            name: format!("m{id}"),
            incoming: String::new(),
        };
        GroupView {
            number: 3,
            seqno: Seqno(9),
            members: members.iter().map(member).collect(),
        }
    }

    #[test]
    fn names_of_sessions_sort_as_the_sessions_do() {
        let uuid = |session, member| session_uuid(MemberId(member), SessionId(session)).0;
        assert!(uuid(1 << 60, 9) < uuid((1 << 60) + 1, 3));
        assert!(uuid(255, 1) < uuid(256, 1));
        assert!(uuid(5, 1) < uuid(5, 2));
    }

    #[test]
    fn server_is_back_once_a_later_view_has_it() {
        let mut shown = ShownViews::default();
        assert!(
            !shown.show(&view(&[1, 2]), true),
            "the first view is no return"
        );
        assert!(shown.believes_in_group());
        shown.lose();
        assert!(!shown.believes_in_group());
        assert!(!shown.show(&view(&[2]), false));
        assert!(shown.show(&view(&[1, 2]), true));
        assert!(shown.has_members_of(&view(&[1, 2])));
        assert!(!shown.has_members_of(&view(&[2])));
    }

    #[test]
    fn lost_view_has_this_server_alone() {
        let own = session_uuid(MemberId(2), SessionId(1));
        let position = Gtid::new(GroupId([1; 16]), 9);
        let lost = ViewFrame { position, own }.lost_view(&view(&[1, 2]));
        assert_eq!((lost.my_index, lost.number), (Some(0), -1));
        assert_eq!(lost.members.len(), 1);
        assert_eq!(lost.members[0].id, own);
        let absent = ViewFrame { position, own }.lost_view(&view(&[1]));
        assert_eq!((absent.my_index, absent.members.len()), (None, 0));
    }
}
