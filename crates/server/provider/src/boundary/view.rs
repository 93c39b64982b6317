//! A view as the server reads it: a header and a variable number of members in one piece of memory.
//!
//! The provider owns that memory: the server may read it during the callback.

use std::ffi::c_char;

use wsrep_sys as sys;

use super::convert;
use crate::api::{View, ViewMember, ViewStatus};

/// Memory of a C view. Never smaller than the C struct, which has room for one member.
pub(super) struct ViewBuffer {
    /// Words, so that the memory is aligned for every field.
    words: Vec<u64>,
}

// One word is as strictly aligned as the C struct.
const _: () = assert!(align_of::<u64>() >= align_of::<sys::wsrep_view_info_t>());

impl ViewBuffer {
    pub(super) fn new(view: &View) -> ViewBuffer {
        let member_size = size_of::<sys::wsrep_member_info_t>();
        let wanted = sys::WSREP_VIEW_HEADER_SIZE + view.members.len() * member_size;
        let size = wanted.max(size_of::<sys::wsrep_view_info_t>());
        let mut words = vec![0u64; size.div_ceil(size_of::<u64>())];

        let info: *mut sys::wsrep_view_info_t = words.as_mut_ptr().cast();
        // SAFETY: the memory is zeroed, aligned and at least as large as the struct, for which all
        // zeroes is a valid value; no other code sees it yet.
        fill_header(unsafe { &mut *info }, view);
        // SAFETY: as above; the members begin within the allocation.
        let first: *mut sys::wsrep_member_info_t = unsafe { &raw mut (*info).members }.cast();
        for (i, member) in view.members.iter().enumerate() {
            // SAFETY: the allocation has room for all members behind its header.
            unsafe { first.add(i).write(member_to_c(member)) };
        }
        ViewBuffer { words }
    }

    pub(super) fn as_ptr(&self) -> *const sys::wsrep_view_info_t {
        self.words.as_ptr().cast()
    }
}

fn fill_header(info: &mut sys::wsrep_view_info_t, view: &View) {
    info.state_id = convert::gtid_to_c(view.state_id);
    info.view = view.number;
    info.status = match view.status {
        ViewStatus::Primary => sys::WSREP_VIEW_PRIMARY,
        ViewStatus::NonPrimary => sys::WSREP_VIEW_NON_PRIMARY,
        ViewStatus::Disconnected => sys::WSREP_VIEW_DISCONNECTED,
    };
    info.capabilities = view.capabilities;
    info.my_idx = view
        .my_index
        .and_then(|i| i32::try_from(i).ok())
        .unwrap_or(-1);
    // Groups are small; a count beyond the type would only hide members from the server.
    info.memb_num = i32::try_from(view.members.len()).unwrap_or(i32::MAX);
    info.proto_ver = view.proto_ver;
}

fn member_to_c(member: &ViewMember) -> sys::wsrep_member_info_t {
    sys::wsrep_member_info_t {
        id: sys::wsrep_uuid_t { data: member.id.0 },
        name: padded(&member.name),
        incoming: padded(&member.incoming),
    }
}

/// The text, shortened at a character boundary so that a NUL remains, NUL-padded.
fn padded<const N: usize>(text: &str) -> [c_char; N] {
    let mut end = text.len().min(N - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut field = [0; N];
    for (to, from) in field.iter_mut().zip(text[..end].bytes()) {
        *to = from as c_char; // the same 8 bits
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Gtid, Uuid};

    fn member(name: &str) -> ViewMember {
        ViewMember {
            id: Uuid([7; 16]),
            name: name.to_owned(),
            incoming: "h:1".to_owned(),
        }
    }

    #[test]
    fn empty_view_has_room_for_the_whole_struct() {
        let buffer = ViewBuffer::new(&View::last(Gtid::UNDEFINED, 0));
        assert_eq!(buffer.words.len() * 8, 360);
    }

    #[test]
    fn each_further_member_takes_304_bytes() {
        let mut view = View::last(Gtid::UNDEFINED, 0);
        view.members = vec![member("a"), member("b"), member("c")];
        assert_eq!(ViewBuffer::new(&view).words.len() * 8, 56 + 3 * 304);
    }

    #[test]
    fn long_names_are_cut_at_a_character_and_stay_terminated() {
        let field: [c_char; 32] = padded(&"é".repeat(20));
        assert_eq!(field[31], 0);
        assert_eq!(field.iter().filter(|b| **b != 0).count(), 30);
    }
}
