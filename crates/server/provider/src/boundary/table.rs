//! The function table: one short function per slot.
//!
//! Each reads its arguments, calls a guard of [`super::host`], and writes the results. What a slot
//! answers when there is no provider, when an argument is impossible, when the node is fenced, or
//! after a panic, is the guard's `refused`: `WSREP_NODE_FAIL`, except where the server could not
//! live with it:
//!
//! - `last_committed_id` is always OK (anything else is an uncaught exception in `SHOW STATUS`):
//!   undefined;
//! - `resume` when there is nothing behind it: OK (the server throws on anything else);
//! - `commit_order_enter`: BF_ABORT (on anything else the server commits, out of order);
//! - `replay_trx`: TRX_FAIL (the server aborts on anything else). That is error 1213 to the client,
//!   so it is asked even if the node is fenced: a transaction that was ordered is OK;
//! - `release` of a transaction without context: OK (called after nearly every statement);
//! - `options_get`, `stats_get` are never NULL: empty.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;

use wsrep_sys as sys;
use wsrep_sys::{wsrep_status_t, wsrep_t};

use super::callbacks::{Callbacks, RecvContext, ReplayContext};
use super::convert;
use super::host::{self, Host, call, call_always};
use crate::api::{
    AbortOutcome, CertifyOutcome, Constructor, Gtid, InitArgs, Status, TrxHandle, TrxMeta, WsFlags,
};

pub const PROVIDER_NAME: &CStr = c"Synod";
/// Value of `wsrep_provider_version`. Tools and the server's test suites expect `x.y(rZZZ)` and
/// take a first number of 5 for newer than any they know.
pub const PROVIDER_VERSION: &CStr = match CStr::from_bytes_with_nul(
    concat!("5.1(r", env!("CARGO_PKG_VERSION"), ")\0").as_bytes(),
) {
    Ok(text) => text,
    Err(_) => panic!("the version has a NUL inside"),
};
pub const PROVIDER_VENDOR: &CStr = c"The Synod developers";

const REFUSED: CertifyOutcome = CertifyOutcome {
    status: Status::NodeFail,
    meta: None,
};

/// Fills a table so that `init` builds its provider with `constructor`.
///
/// # Safety
/// `w` points to 360 writable bytes, aligned for pointers.
pub unsafe fn fill_table(w: *mut wsrep_t, constructor: Constructor) {
    let template = template();
    let from = (&raw const template).cast::<u8>();
    // SAFETY: both sides are tables; what follows `dlh`, and `dlh` itself, belongs to the loader.
    unsafe { from.copy_to_nonoverlapping(w.cast::<u8>(), offset_of!(wsrep_t, dlh)) };
    // SAFETY: a table by contract of this function.
    unsafe { host::install(w, Host::leak(constructor)) };
}

fn template() -> wsrep_t {
    wsrep_t {
        version: sys::WSREP_INTERFACE_VERSION.as_ptr(),
        init: Some(init),
        capabilities: Some(capabilities),
        options_set: Some(options_set),
        options_get: Some(options_get),
        enc_set_key: Some(enc_set_key),
        connect: Some(connect),
        disconnect: Some(disconnect),
        recv: Some(recv),
        assign_read_view: Some(assign_read_view),
        certify: Some(certify),
        commit_order_enter: Some(commit_order_enter),
        commit_order_leave: Some(commit_order_leave),
        release: Some(release),
        replay_trx: Some(replay_trx),
        abort_certification: Some(abort_certification),
        rollback: Some(rollback),
        append_key: Some(append_key),
        append_data: Some(append_data),
        sync_wait: Some(sync_wait),
        last_committed_id: Some(last_committed_id),
        free_connection: Some(free_connection),
        to_execute_start: Some(to_execute_start),
        to_execute_end: Some(to_execute_end),
        preordered_collect: Some(preordered_collect),
        preordered_commit: Some(preordered_commit),
        sst_sent: Some(sst_sent),
        sst_received: Some(sst_received),
        snapshot: Some(snapshot),
        stats_get: Some(stats_get),
        stats_free: Some(stats_free),
        stats_reset: Some(stats_reset),
        pause: Some(pause),
        resume: Some(resume),
        desync: Some(desync),
        resync: Some(resync),
        lock: Some(lock),
        unlock: Some(unlock),
        is_locked: Some(is_locked),
        provider_name: PROVIDER_NAME.as_ptr(),
        provider_version: PROVIDER_VERSION.as_ptr(),
        provider_vendor: PROVIDER_VENDOR.as_ptr(),
        free: Some(free),
        dlh: std::ptr::null_mut(),
        ctx: std::ptr::null_mut(),
    }
}

// The safety contract of all functions below is the interface's: `w` is NULL or a table filled by
// `fill_table`; other pointers are NULL or point to what their type says, valid during the call;
// counts are those of the arrays before them. The SAFETY comments "interface" refer to this.

unsafe extern "C" fn init(w: *mut wsrep_t, args: *const sys::wsrep_init_args) -> wsrep_status_t {
    // SAFETY: interface.
    let Some(args) = (unsafe { args.as_ref() }) else {
        return sys::WSREP_NODE_FAIL;
    };
    // SAFETY: interface; the copies stay.
    let copied = unsafe { copy_init_args(args) };
    // SAFETY: interface.
    unsafe { host::start(w, copied, Callbacks::new(args)) }.code()
}

/// # Safety
/// The texts and the position are NULL or valid.
unsafe fn copy_init_args(args: &sys::wsrep_init_args) -> InitArgs {
    // SAFETY: by contract of this function.
    unsafe {
        InitArgs {
            node_name: convert::text(args.node_name),
            node_address: convert::text(args.node_address),
            node_incoming: convert::client_address(convert::text(args.node_incoming)),
            data_dir: convert::text(args.data_dir),
            options: convert::text(args.options),
            proto_ver: args.proto_ver,
            start_position: args
                .state_id
                .as_ref()
                .map_or(Gtid::UNDEFINED, convert::gtid_from_c),
        }
    }
}

unsafe extern "C" fn capabilities(w: *mut wsrep_t) -> sys::wsrep_cap_t {
    // SAFETY: interface.
    unsafe { call_always(w, 0, |p| p.capabilities()) }
}

unsafe extern "C" fn options_set(w: *mut wsrep_t, text: *const c_char) -> wsrep_status_t {
    // SAFETY: interface.
    let text = unsafe { convert::text(text) };
    // SAFETY: interface.
    unsafe { call(w, Status::NodeFail, |p| p.options_set(&text)) }.code()
}

unsafe extern "C" fn options_get(w: *mut wsrep_t) -> *mut c_char {
    // SAFETY: interface.
    let text = unsafe { call_always(w, String::new(), |p| p.options_get()) };
    // SAFETY: NUL-terminated; `strdup` copies with `malloc`, as the server's `free` demands.
    unsafe { libc::strdup(convert::c_text(&text).as_ptr()) }
}

unsafe extern "C" fn enc_set_key(
    _: *mut wsrep_t,
    _: *const sys::wsrep_enc_key_t,
) -> wsrep_status_t {
    sys::WSREP_OK
}

unsafe extern "C" fn connect(
    w: *mut wsrep_t,
    name: *const c_char,
    url: *const c_char,
    donor: *const c_char,
    bootstrap: sys::wsrep_bool_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    let (name, url, donor) = unsafe {
        (
            convert::text(name),
            convert::text(url),
            convert::text(donor),
        )
    };
    // SAFETY: interface.
    unsafe {
        call(w, Status::NodeFail, |p| {
            p.connect(&name, &url, &donor, bootstrap != 0)
        })
    }
    .code()
}

unsafe extern "C" fn disconnect(w: *mut wsrep_t) -> wsrep_status_t {
    // SAFETY: interface.
    unsafe { call_always(w, Status::NodeFail, |p| p.disconnect()) }.code()
}

unsafe extern "C" fn recv(w: *mut wsrep_t, ctx: *mut c_void) -> wsrep_status_t {
    // SAFETY: interface.
    unsafe { host::call_recv(w, RecvContext::new(ctx)) }.code()
}

/// Functions that the server does not call.
macro_rules! not_implemented {
    ($($name:ident($($argument:ty),*);)*) => {$(
        unsafe extern "C" fn $name(_: *mut wsrep_t, $(_: $argument),*) -> wsrep_status_t {
            sys::WSREP_NOT_IMPLEMENTED
        }
    )*};
}

not_implemented! {
    assign_read_view(*mut sys::wsrep_ws_handle_t, *const sys::wsrep_gtid_t);
    preordered_collect(*mut sys::wsrep_po_handle_t, *const sys::wsrep_buf_t, usize,
        sys::wsrep_bool_t);
    preordered_commit(*mut sys::wsrep_po_handle_t, *const sys::wsrep_uuid_t, u32, c_int,
        sys::wsrep_bool_t);
    snapshot(*const sys::wsrep_buf_t, *const c_char);
    lock(*const c_char, sys::wsrep_bool_t, u64, i64);
    unlock(*const c_char, u64);
}

unsafe extern "C" fn certify(
    w: *mut wsrep_t,
    conn: sys::wsrep_conn_id_t,
    handle: *mut sys::wsrep_ws_handle_t,
    flags: u32,
    meta: *mut sys::wsrep_trx_meta_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    let outcome = unsafe {
        with_handle(handle, REFUSED, |h| {
            call(w, REFUSED, |p| p.certify(conn, h, WsFlags(flags)))
        })
    };
    // SAFETY: interface.
    unsafe { put_outcome(meta, outcome) }
}

unsafe extern "C" fn commit_order_enter(
    w: *mut wsrep_t,
    handle: *const sys::wsrep_ws_handle_t,
    meta: *const sys::wsrep_trx_meta_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    let Some((handle, meta)) = (unsafe { ordered(handle, meta) }) else {
        return sys::WSREP_BF_ABORT;
    };
    // SAFETY: interface.
    unsafe { call(w, Status::BfAbort, |p| p.commit_order_enter(&handle, &meta)) }.code()
}

unsafe extern "C" fn commit_order_leave(
    w: *mut wsrep_t,
    handle: *const sys::wsrep_ws_handle_t,
    meta: *const sys::wsrep_trx_meta_t,
    error: *const sys::wsrep_buf_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    let Some((handle, meta)) = (unsafe { ordered(handle, meta) }) else {
        return sys::WSREP_NODE_FAIL;
    };
    // SAFETY: interface.
    let error = unsafe { convert::error(error) };
    // SAFETY: interface.
    unsafe {
        call(w, Status::NodeFail, |p| {
            p.commit_order_leave(&handle, &meta, error)
        })
    }
    .code()
}

unsafe extern "C" fn release(
    w: *mut wsrep_t,
    handle: *mut sys::wsrep_ws_handle_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    unsafe {
        with_handle(handle, Status::NodeFail, |h| {
            let refused = if h.opaque.is_none() {
                Status::Ok
            } else {
                Status::NodeFail
            };
            call(w, refused, |p| p.release(h))
        })
    }
    .code()
}

unsafe extern "C" fn replay_trx(
    w: *mut wsrep_t,
    handle: *const sys::wsrep_ws_handle_t,
    ctx: *mut c_void,
) -> wsrep_status_t {
    // SAFETY: interface.
    let Some(handle) = (unsafe { handle.as_ref() }).map(convert::handle_from_c) else {
        return sys::WSREP_TRX_FAIL;
    };
    let ctx = ReplayContext::new(ctx);
    // SAFETY: interface.
    let replay = || unsafe { call_always(w, None, |p| Some(p.replay(&handle, ctx))) };
    // After a panic the second attempt finds that this node leaves, and says what was ordered.
    let status = replay().or_else(replay);
    status.unwrap_or(Status::TrxFail).code()
}

unsafe extern "C" fn abort_certification(
    w: *mut wsrep_t,
    bf_seqno: sys::wsrep_seqno_t,
    victim: sys::wsrep_trx_id_t,
    victim_seqno: *mut sys::wsrep_seqno_t,
) -> wsrep_status_t {
    let refused = AbortOutcome {
        status: Status::NodeFail,
        victim_seqno: sys::WSREP_SEQNO_UNDEFINED,
    };
    // SAFETY: interface.
    let outcome = unsafe { call(w, refused, |p| p.abort_certification(bf_seqno, victim)) };
    // SAFETY: interface.
    unsafe { convert::put(victim_seqno, outcome.victim_seqno) };
    outcome.status.code()
}

unsafe extern "C" fn rollback(
    w: *mut wsrep_t,
    trx: sys::wsrep_trx_id_t,
    _: *const sys::wsrep_buf_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    unsafe { call(w, Status::NodeFail, |p| p.rollback(trx)) }.code()
}

unsafe extern "C" fn append_key(
    w: *mut wsrep_t,
    handle: *mut sys::wsrep_ws_handle_t,
    keys: *const sys::wsrep_key_t,
    count: usize,
    kind: sys::wsrep_key_type_t,
    _copy: sys::wsrep_bool_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    let Some(keys) = (unsafe { convert::array(keys, count) }) else {
        return sys::WSREP_NODE_FAIL;
    };
    let append = |handle: &mut TrxHandle| {
        first_failure(keys, |key| {
            // SAFETY: interface.
            let appended = unsafe {
                convert::with_key_parts(key, |parts| {
                    call(w, Status::NodeFail, |p| p.append_key(handle, parts, kind))
                })
            };
            appended.unwrap_or(Status::NodeFail)
        })
    };
    // SAFETY: interface.
    unsafe { with_handle(handle, Status::NodeFail, append) }.code()
}

unsafe extern "C" fn append_data(
    w: *mut wsrep_t,
    handle: *mut sys::wsrep_ws_handle_t,
    data: *const sys::wsrep_buf_t,
    count: usize,
    kind: sys::wsrep_data_type_t,
    _copy: sys::wsrep_bool_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    let Some(data) = (unsafe { convert::array(data, count) }) else {
        return sys::WSREP_NODE_FAIL;
    };
    let append = |handle: &mut TrxHandle| {
        first_failure(data, |piece| {
            // SAFETY: interface.
            let Some(piece) = (unsafe { convert::bytes(piece) }) else {
                return Status::NodeFail;
            };
            // SAFETY: interface.
            unsafe { call(w, Status::NodeFail, |p| p.append_data(handle, piece, kind)) }
        })
    };
    // SAFETY: interface.
    unsafe { with_handle(handle, Status::NodeFail, append) }.code()
}

unsafe extern "C" fn sync_wait(
    w: *mut wsrep_t,
    upto: *mut sys::wsrep_gtid_t,
    timeout_s: c_int,
    reached: *mut sys::wsrep_gtid_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    let upto = unsafe { upto.as_ref() }.map(convert::gtid_from_c);
    let refused = (Status::NodeFail, Gtid::UNDEFINED);
    // SAFETY: interface.
    let (status, gtid) = unsafe { call(w, refused, |p| p.sync_wait(upto, timeout_s)) };
    // SAFETY: interface.
    unsafe { convert::put(reached, convert::gtid_to_c(gtid)) };
    status.code()
}

unsafe extern "C" fn last_committed_id(
    w: *mut wsrep_t,
    gtid: *mut sys::wsrep_gtid_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    let position = unsafe { call_always(w, Gtid::UNDEFINED, |p| p.last_committed()) };
    // SAFETY: interface.
    unsafe { convert::put(gtid, convert::gtid_to_c(position)) };
    sys::WSREP_OK
}

unsafe extern "C" fn free_connection(_: *mut wsrep_t, _: sys::wsrep_conn_id_t) -> wsrep_status_t {
    sys::WSREP_OK
}

unsafe extern "C" fn to_execute_start(
    w: *mut wsrep_t,
    conn: sys::wsrep_conn_id_t,
    keys: *const sys::wsrep_key_t,
    keys_count: usize,
    action: *const sys::wsrep_buf_t,
    action_count: usize,
    flags: u32,
    meta: *mut sys::wsrep_trx_meta_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    let (keys, action) = unsafe {
        (
            convert::keys(keys, keys_count),
            convert::buffers(action, action_count),
        )
    };
    let outcome = match (keys, action) {
        // SAFETY: interface.
        (Some(keys), Some(action)) => unsafe {
            call(w, REFUSED, |p| {
                p.to_execute_start(conn, &keys, &action, flags)
            })
        },
        _ => REFUSED,
    };
    // SAFETY: interface.
    unsafe { put_outcome(meta, outcome) }
}

unsafe extern "C" fn to_execute_end(
    w: *mut wsrep_t,
    conn: sys::wsrep_conn_id_t,
    error: *const sys::wsrep_buf_t,
) -> wsrep_status_t {
    // SAFETY: interface.
    let error = unsafe { convert::error(error) };
    // SAFETY: interface.
    unsafe { call(w, Status::NodeFail, |p| p.to_execute_end(conn, error)) }.code()
}

unsafe extern "C" fn sst_sent(
    w: *mut wsrep_t,
    gtid: *const sys::wsrep_gtid_t,
    code: c_int,
) -> wsrep_status_t {
    // SAFETY: interface.
    let gtid = unsafe { gtid.as_ref() }.map_or(Gtid::UNDEFINED, convert::gtid_from_c);
    // SAFETY: interface.
    unsafe { call(w, Status::NodeFail, |p| p.sst_sent(gtid, code)) }.code()
}

unsafe extern "C" fn sst_received(
    w: *mut wsrep_t,
    gtid: *const sys::wsrep_gtid_t,
    _: *const sys::wsrep_buf_t,
    code: c_int,
) -> wsrep_status_t {
    // SAFETY: interface.
    let gtid = unsafe { gtid.as_ref() }.map_or(Gtid::UNDEFINED, convert::gtid_from_c);
    // SAFETY: interface.
    unsafe { call(w, Status::NodeFail, |p| p.sst_received(gtid, code)) }.code()
}

unsafe extern "C" fn stats_get(w: *mut wsrep_t) -> *mut sys::wsrep_stats_var {
    // SAFETY: interface.
    convert::stats_to_c(unsafe { call_always(w, Vec::new(), |p| p.stats()) })
}

unsafe extern "C" fn stats_free(_: *mut wsrep_t, array: *mut sys::wsrep_stats_var) {
    // SAFETY: interface: what `stats_get` returned.
    unsafe { convert::free_stats(array) }
}

unsafe extern "C" fn stats_reset(w: *mut wsrep_t) {
    // SAFETY: interface.
    unsafe { call_always(w, (), |p| p.stats_reset()) }
}

unsafe extern "C" fn pause(w: *mut wsrep_t) -> sys::wsrep_seqno_t {
    // SAFETY: interface.
    unsafe { call(w, sys::WSREP_SEQNO_UNDEFINED, |p| p.pause()) }
}

unsafe extern "C" fn resume(w: *mut wsrep_t) -> wsrep_status_t {
    // SAFETY: interface.
    unsafe { call_always(w, Status::Ok, |p| p.resume()) }.code()
}

unsafe extern "C" fn desync(w: *mut wsrep_t) -> wsrep_status_t {
    // SAFETY: interface.
    unsafe { call(w, Status::NodeFail, |p| p.desync()) }.code()
}

unsafe extern "C" fn resync(w: *mut wsrep_t) -> wsrep_status_t {
    // SAFETY: interface.
    unsafe { call(w, Status::NodeFail, |p| p.resync()) }.code()
}

unsafe extern "C" fn is_locked(
    _: *mut wsrep_t,
    _: *const c_char,
    _: *mut u64,
    _: *mut sys::wsrep_uuid_t,
) -> sys::wsrep_bool_t {
    0
}

unsafe extern "C" fn free(w: *mut wsrep_t) {
    // SAFETY: interface.
    unsafe { host::stop(w) }
}

/// Runs `body` with the handle and writes its context back; `refused` without a handle.
///
/// # Safety
/// `handle` is NULL or valid.
unsafe fn with_handle<R>(
    handle: *mut sys::wsrep_ws_handle_t,
    refused: R,
    body: impl FnOnce(&mut TrxHandle) -> R,
) -> R {
    // SAFETY: by contract of this function. Not held as a reference while `body` runs.
    let Some(mut copy) = (unsafe { handle.as_ref() }).map(convert::handle_from_c) else {
        return refused;
    };
    let answer = body(&mut copy);
    // SAFETY: not NULL, and valid by contract of this function.
    unsafe { (*handle).opaque = convert::opaque_to_c(copy.opaque) };
    answer
}

/// Handle and order of a transaction; `None` if one is missing.
///
/// # Safety
/// Both are NULL or valid.
unsafe fn ordered(
    handle: *const sys::wsrep_ws_handle_t,
    meta: *const sys::wsrep_trx_meta_t,
) -> Option<(TrxHandle, TrxMeta)> {
    // SAFETY: by contract of this function.
    let (handle, meta) = unsafe { (handle.as_ref()?, meta.as_ref()?) };
    Some((convert::handle_from_c(handle), convert::meta_from_c(meta)))
}

/// Writes the place in the order, "undefined" if there is none, and answers the status.
///
/// # Safety
/// `meta` is NULL or writable.
unsafe fn put_outcome(meta: *mut sys::wsrep_trx_meta_t, outcome: CertifyOutcome) -> wsrep_status_t {
    let value = convert::meta_to_c(outcome.meta.unwrap_or(TrxMeta::UNDEFINED));
    // SAFETY: by contract of this function.
    unsafe { convert::put(meta, value) };
    outcome.status.code()
}

fn first_failure<T>(items: &[T], mut each: impl FnMut(&T) -> Status) -> Status {
    items
        .iter()
        .map(&mut each)
        .find(|status| *status != Status::Ok)
        .unwrap_or(Status::Ok)
}
