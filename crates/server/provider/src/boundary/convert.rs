//! Values from C and to C. Everything from C is borrowed for the length of the call only.
//!
//! A NULL text is empty. An array that cannot be one (NULL with a length, a length beyond the
//! address space) is refused here, before safe code sees it.

use std::ffi::{CStr, CString, c_char, c_void};
use std::num::NonZeroU64;
use std::ptr;

use synod_node::GroupId;
use wsrep_sys as sys;

use crate::api::{
    Gtid, OpaqueId, StatValue, StatVar, Stid, TrxHandle, TrxMeta, Uuid, View, ViewMember,
    ViewStatus,
};

// The opaque id travels in a pointer.
const _: () = assert!(size_of::<*mut c_void>() == size_of::<u64>());

/// A C text; NULL is empty, broken UTF-8 is replaced.
///
/// # Safety
/// `text` is NULL or NUL-terminated.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: NUL-terminated by contract of this function.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// The address of clients without the port 0. The server makes the address before it sets its port:
/// without a `port` in its files it says 0, and listens at 3306.
pub(super) fn client_address(text: String) -> String {
    match text.strip_suffix(":0") {
        Some(host) if !host.contains(':') || host.ends_with(']') => format!("{host}:3306"),
        _ => text,
    }
}

/// A text for C, on one line: control characters become spaces. Texts quote names and reasons of
/// other members, and a line break or an escape in those must not forge a line of the error log.
pub(super) fn c_text(text: &str) -> CString {
    CString::new(text.replace(breaks_line, " ")).unwrap_or_default()
}

/// Whether viewers of logs may take a character for something else than a part of the line.
fn breaks_line(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

/// A buffer for C, valid as long as `bytes`.
pub(super) fn c_buf(bytes: &[u8]) -> sys::wsrep_buf_t {
    let ptr = if bytes.is_empty() {
        ptr::null()
    } else {
        bytes.as_ptr().cast()
    };
    sys::wsrep_buf_t {
        ptr,
        len: bytes.len(),
    }
}

/// An array from C; `None` if it cannot be one.
///
/// # Safety
/// `first` is NULL or points to `count` values that stay unchanged for `'a`.
pub(super) unsafe fn array<'a, T>(first: *const T, count: usize) -> Option<&'a [T]> {
    if count == 0 {
        return Some(&[]);
    }
    let fits = count
        .checked_mul(size_of::<T>())
        .is_some_and(|n| isize::try_from(n).is_ok());
    if first.is_null() || !fits {
        return None;
    }
    // SAFETY: not NULL, and `count` values by contract of this function.
    Some(unsafe { std::slice::from_raw_parts(first, count) })
}

/// The bytes of a buffer; `None` if it cannot be one.
///
/// # Safety
/// The buffer describes memory that stays unchanged for `'a`.
pub(super) unsafe fn bytes<'a>(buf: &sys::wsrep_buf_t) -> Option<&'a [u8]> {
    // SAFETY: by contract of this function.
    unsafe { array(buf.ptr.cast(), buf.len) }
}

/// The bytes of several buffers; `None` if one of them is impossible.
///
/// # Safety
/// As [`array()`] and [`bytes()`].
pub(super) unsafe fn buffers<'a>(
    first: *const sys::wsrep_buf_t,
    count: usize,
) -> Option<Vec<&'a [u8]>> {
    // SAFETY: by contract of this function.
    let bufs = unsafe { array(first, count) }?;
    // SAFETY: by contract of this function.
    bufs.iter().map(|buf| unsafe { bytes(buf) }).collect()
}

/// The parts of several keys; `None` if one of them is impossible.
///
/// # Safety
/// As [`array()`] and [`bytes()`], for keys, their parts, and the bytes of those.
pub(super) unsafe fn keys<'a>(
    first: *const sys::wsrep_key_t,
    count: usize,
) -> Option<Vec<Vec<&'a [u8]>>> {
    // SAFETY: by contract of this function.
    let keys = unsafe { array(first, count) }?;
    // SAFETY: by contract of this function.
    keys.iter()
        .map(|key| unsafe { buffers(key.key_parts, key.key_parts_num) })
        .collect()
}

/// Parts of a key that the server passes at most: schema, table, row.
const KEY_PARTS: usize = 3;

/// Runs `then` with the parts of a key; `None` if one of them is impossible. Allocates nothing for
/// a key of the usual form: this is called for each row that a client changes.
///
/// # Safety
/// As [`array()`] and [`bytes()`], for the parts and their bytes.
pub(super) unsafe fn with_key_parts<T>(
    key: &sys::wsrep_key_t,
    then: impl FnOnce(&[&[u8]]) -> T,
) -> Option<T> {
    // SAFETY: by contract of this function.
    let bufs = unsafe { array(key.key_parts, key.key_parts_num) }?;
    let mut usual: [&[u8]; KEY_PARTS] = [&[]; KEY_PARTS];
    let Some(parts) = usual.get_mut(..bufs.len()) else {
        // SAFETY: by contract of this function.
        return unsafe { buffers(key.key_parts, key.key_parts_num) }.map(|parts| then(&parts));
    };
    for (part, buf) in parts.iter_mut().zip(bufs) {
        // SAFETY: by contract of this function.
        *part = unsafe { bytes(buf) }?;
    }
    Some(then(parts))
}

/// The error of a failed action: `None` if NULL or empty.
///
/// # Safety
/// `error` is NULL or points to a buffer as for [`bytes()`].
pub(super) unsafe fn error<'a>(error: *const sys::wsrep_buf_t) -> Option<&'a [u8]> {
    // SAFETY: by contract of this function.
    let buf = unsafe { error.as_ref() }?;
    // SAFETY: by contract of this function.
    unsafe { bytes(buf) }.filter(|bytes| !bytes.is_empty())
}

/// Writes a result where the server wants it; nowhere if it does not.
///
/// # Safety
/// `place` is NULL or points to memory for a value.
pub(super) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not NULL, and writable by contract of this function.
        unsafe { place.write(value) }
    }
}

pub(super) fn handle_from_c(handle: &sys::wsrep_ws_handle_t) -> TrxHandle {
    let number = handle.opaque.addr() as u64; // same width, see above
    TrxHandle {
        trx_id: handle.trx_id,
        opaque: NonZeroU64::new(number).map(OpaqueId),
    }
}

pub(super) fn handle_to_c(handle: TrxHandle) -> sys::wsrep_ws_handle_t {
    sys::wsrep_ws_handle_t {
        trx_id: handle.trx_id,
        opaque: opaque_to_c(handle.opaque),
    }
}

pub(super) fn opaque_to_c(opaque: Option<OpaqueId>) -> *mut c_void {
    let number = opaque.map_or(0, |id| id.0.get());
    ptr::without_provenance_mut(number as usize) // same width, see above
}

pub(super) fn gtid_from_c(gtid: &sys::wsrep_gtid_t) -> Gtid {
    Gtid::new(GroupId(gtid.uuid.data), gtid.seqno)
}

pub(super) fn gtid_to_c(gtid: Gtid) -> sys::wsrep_gtid_t {
    sys::wsrep_gtid_t {
        uuid: sys::wsrep_uuid_t { data: gtid.group.0 },
        seqno: gtid.seqno,
    }
}

pub(super) fn meta_from_c(meta: &sys::wsrep_trx_meta_t) -> TrxMeta {
    TrxMeta {
        gtid: gtid_from_c(&meta.gtid),
        stid: Stid {
            node: Uuid(meta.stid.node.data),
            trx: meta.stid.trx,
            conn: meta.stid.conn,
        },
        depends_on: meta.depends_on,
    }
}

pub(super) fn meta_to_c(meta: TrxMeta) -> sys::wsrep_trx_meta_t {
    sys::wsrep_trx_meta_t {
        gtid: gtid_to_c(meta.gtid),
        stid: sys::wsrep_stid_t {
            node: sys::wsrep_uuid_t {
                data: meta.stid.node.0,
            },
            trx: meta.stid.trx,
            conn: meta.stid.conn,
        },
        depends_on: meta.depends_on,
    }
}

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
    info.state_id = gtid_to_c(view.state_id);
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

/// Status variables as an array for the server, ended by an element without a name.
pub(super) fn stats_to_c(vars: Vec<StatVar>) -> *mut sys::wsrep_stats_var {
    let mut array: Vec<sys::wsrep_stats_var> = vars.into_iter().map(element).collect();
    array.push(sys::wsrep_stats_var {
        name: ptr::null(),
        type_: sys::WSREP_VAR_INT64,
        value: sys::wsrep_stats_value_t { int64: 0 },
    });
    Box::into_raw(array.into_boxed_slice()).cast()
}

fn element(var: StatVar) -> sys::wsrep_stats_var {
    let name = c_text(&var.name).into_raw();
    let (type_, value) = match var.value {
        StatValue::Str(text) => {
            let string = c_text(&text).into_raw();
            (sys::WSREP_VAR_STRING, sys::wsrep_stats_value_t { string })
        }
        StatValue::Int(int64) => (sys::WSREP_VAR_INT64, sys::wsrep_stats_value_t { int64 }),
        StatValue::Double(double) => (sys::WSREP_VAR_DOUBLE, sys::wsrep_stats_value_t { double }),
    };
    sys::wsrep_stats_var { name, type_, value }
}

/// Frees what [`stats_to_c`] returned.
///
/// # Safety
/// `first` is NULL or came from [`stats_to_c`], unchanged and not freed before.
pub(super) unsafe fn free_stats(first: *mut sys::wsrep_stats_var) {
    if first.is_null() {
        return;
    }
    let mut count = 0;
    // SAFETY: elements up to and including the nameless one are in the array.
    while unsafe { !(*first.add(count)).name.is_null() } {
        count += 1;
    }
    let slice = ptr::slice_from_raw_parts_mut(first, count + 1);
    // SAFETY: `stats_to_c` made a box of exactly these elements.
    let array = unsafe { Box::from_raw(slice) };
    for var in &array[..count] {
        // SAFETY: names come from `into_raw`.
        drop(unsafe { CString::from_raw(var.name.cast_mut()) });
        if var.type_ == sys::WSREP_VAR_STRING {
            // SAFETY: this type has text, which comes from `into_raw`.
            drop(unsafe { CString::from_raw(var.value.string.cast_mut()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_c_is_one_line_without_control_characters() {
        let forged = "node\n2026 [ERROR] it\r\u{1b}[2J\0a\tb\u{7f}\u{9b}\u{2028}";
        let line = c_text(forged).into_string().unwrap();
        assert_eq!(line, "node 2026 [ERROR] it  [2J a b   ");
        assert_eq!(c_text("nœud ‘1’").to_str(), Ok("nœud ‘1’"));
    }

    #[test]
    fn server_without_a_configured_port_is_reached_at_3306() {
        for (said, reached) in [
            ("192.0.2.11:0", "192.0.2.11:3306"),
            ("[2001:db8::1]:0", "[2001:db8::1]:3306"),
            ("db1:13310", "db1:13310"),
            ("2001:db8::0", "2001:db8::0"),
            ("", ""),
        ] {
            assert_eq!(client_address(said.to_owned()), reached);
        }
    }

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
