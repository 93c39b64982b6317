//! Values from C and to C. Everything from C is borrowed for the length of the call only.
//!
//! A NULL text is empty. An array that cannot be one (NULL with a length, a length beyond the
//! address space) is refused here, before safe code sees it.

use std::ffi::{CStr, CString, c_char, c_void};
use std::num::NonZeroU64;
use std::ptr;

use synod_node::GroupId;
use wsrep_sys as sys;

use crate::api::{Gtid, OpaqueId, Stid, TrxHandle, TrxMeta, Uuid};

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
    Gtid {
        group: GroupId(gtid.uuid.data),
        seqno: gtid.seqno,
    }
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
}
