//! Views: the ordered announcements of which members with a database are present.
//!
//! ```text
//! version u8 | number u64 | count u16 | count x (member u64, session u64, name, incoming)
//! text: length u16 | UTF-8 bytes
//! ```
//! All numbers are little-endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use synod_consensus::{MemberId, Seqno, SessionId};

use crate::payload::action::PayloadError;
use crate::payload::version::Versions;

const VERSIONS: Versions = Versions::new("view", 1..=1);
/// Upper bound on the members of a view, larger than any group; bounds what a decoder allocates.
const MEMBERS_MAX: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewMember {
    pub member: MemberId,
    pub session: SessionId,
    pub name: String,
    /// `host:port` for clients.
    pub incoming: String,
}

/// The members that are present from one seqno on, until the next view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The view's own seqno: that of the entry, not part of the payload.
    pub seqno: Seqno,
    pub number: u64,
    /// Sorted by session, then by member. Session numbers begin with the time, so this is the order
    /// in which the sessions began. A member that is lost and comes back has its old place.
    pub members: Vec<ViewMember>,
}

impl View {
    pub fn contains(&self, member: MemberId, session: SessionId) -> bool {
        self.members
            .iter()
            .any(|m| m.member == member && m.session == session)
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(VERSIONS.newest());
        out.put_u64_le(self.number);
        let count = u16::try_from(self.members.len()).expect("bounded by the group's size");
        out.put_u16_le(count);
        for member in &self.members {
            out.put_u64_le(member.member.0);
            out.put_u64_le(member.session.0);
            put_text(&mut out, &member.name);
            put_text(&mut out, &member.incoming);
        }
        out.freeze()
    }

    pub fn decode(seqno: Seqno, mut payload: Bytes) -> Result<View, PayloadError> {
        let bad = |why: &str| PayloadError {
            what: "view",
            why: why.to_owned(),
        };
        if payload.remaining() < 11 {
            return Err(bad("too short"));
        }
        VERSIONS.check(payload.get_u8())?;
        let number = payload.get_u64_le();
        let count = usize::from(payload.get_u16_le());
        if count > MEMBERS_MAX {
            return Err(bad("too many members"));
        }
        let mut members = Vec::with_capacity(count);
        for _ in 0..count {
            if payload.remaining() < 16 {
                return Err(bad("member too short"));
            }
            let member = MemberId(payload.get_u64_le());
            let session = SessionId(payload.get_u64_le());
            let name = get_text(&mut payload).ok_or_else(|| bad("name"))?;
            let incoming = get_text(&mut payload).ok_or_else(|| bad("incoming address"))?;
            members.push(ViewMember {
                member,
                session,
                name,
                incoming,
            });
        }
        if payload.has_remaining() {
            return Err(bad("bytes after the end"));
        }
        Ok(View {
            seqno,
            number,
            members,
        })
    }
}

fn put_text(out: &mut BytesMut, text: &str) {
    let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
    out.put_u16_le(u16::try_from(text.len()).expect("shortened to fit"));
    out.put_slice(text.as_bytes());
}

fn get_text(payload: &mut Bytes) -> Option<String> {
    if payload.remaining() < 2 {
        return None;
    }
    let len = usize::from(payload.get_u16_le());
    if payload.remaining() < len {
        return None;
    }
    String::from_utf8(payload.split_to(len).to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_survives_encoding() {
        let view = View {
            seqno: Seqno(9),
            number: 4,
            members: vec![ViewMember {
                member: MemberId(1),
                session: SessionId(2),
                name: "node1".into(),
                incoming: "10.0.0.1:3306".into(),
            }],
        };
        let payload = view.encode();
        assert_eq!(View::decode(Seqno(9), payload.clone()).unwrap(), view);
        for len in 0..payload.len() {
            assert!(View::decode(Seqno(9), payload.slice(..len)).is_err());
        }
    }
}
