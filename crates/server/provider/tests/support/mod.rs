//! The server's side, and a provider that records what it is asked.
//!
//! Each test runs on its own thread, and the boundary calls back on the calling thread, so what the
//! server sees is kept per thread.

pub(crate) mod config_service;

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::num::NonZeroU64;
use std::ptr;
use std::sync::{Arc, Mutex};

use synod::api::{
    AbortOutcome, Callbacks, CertifyOutcome, Gtid, InitArgs, InitError, OpaqueId, ProviderApi,
    RecvContext, ReplayContext, StatValue, StatVar, Status, Stid, TrxHandle, TrxMeta, Uuid, View,
    ViewMember, ViewStatus, WsFlags,
};
use synod::boundary::fill_table;
use synod::options::{OptionsError, Parameter, ParameterValue};
use synod_node::GroupId;
use wsrep_sys::*;

/// Calls a slot of the table. Unsafe inside, as the name says: the arguments are the test's.
#[macro_export]
macro_rules! unsafe_call {
    ($slot:expr, $($arg:expr),*) => {{
        let slot = $slot.expect("a filled slot");
        // SAFETY: the table is filled, and what the test passes lives until the call returns.
        unsafe { slot($($arg),*) }
    }};
}

/// Content of the dummy loader's `dlh`.
pub(crate) const LOADERS_HANDLE: usize = 0xd1;

thread_local! {
    static LOG: RefCell<Vec<(wsrep_log_level_t, String)>> = const { RefCell::new(Vec::new()) };
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static SST_REQUEST: RefCell<Option<&'static [u8]>> = const { RefCell::new(None) };
}

/// Lines in the server's log.
pub(crate) fn log_lines() -> Vec<(wsrep_log_level_t, String)> {
    LOG.with_borrow(Clone::clone)
}

/// Callbacks that the server got.
pub(crate) fn applied() -> Vec<String> {
    SEEN.with_borrow(Clone::clone)
}

/// Sets the server's answer to a request for a full copy; `None`: failure.
pub(crate) fn set_sst_request(request: Option<&'static [u8]>) {
    SST_REQUEST.set(request);
}

/// A buffer of the test.
pub(crate) fn key(bytes: &'static [u8]) -> wsrep_buf_t {
    wsrep_buf_t {
        ptr: bytes.as_ptr().cast(),
        len: bytes.len(),
    }
}

/// A handle with a context.
pub(crate) fn context(trx_id: u64) -> TrxHandle {
    TrxHandle {
        trx_id,
        opaque: NonZeroU64::new(99).map(OpaqueId),
    }
}

fn see(what: String) {
    SEEN.with_borrow_mut(|seen| seen.push(what));
}

/// A server with one provider.
pub(crate) struct Host {
    /// From the server's allocator.
    pub(crate) table: *mut wsrep_t,
    /// The provider behind it.
    pub(crate) fake: Arc<Fake>,
}

impl Host {
    /// Loads the provider.
    pub(crate) fn load(fake: Fake) -> Host {
        let fake = Arc::new(fake);
        // SAFETY: plain allocation of a table.
        let table: *mut wsrep_t = unsafe { libc::calloc(1, size_of::<wsrep_t>()) }.cast();
        // SAFETY: zeroes are a valid table.
        unsafe { (*table).dlh = ptr::without_provenance_mut(LOADERS_HANDLE) };
        let behind = fake.clone();
        let create = move |args, callbacks| behind.clone().create(args, callbacks);
        // SAFETY: a table.
        unsafe { fill_table(table, Box::new(create)) };
        Host { table, fake }
    }

    /// Loads and initialises it.
    pub(crate) fn started(fake: Fake) -> Host {
        let host = Host::load(fake);
        assert_eq!(host.init(), WSREP_OK);
        host
    }

    /// The table.
    pub(crate) fn table(&self) -> &wsrep_t {
        // SAFETY: filled by `load`, freed with the host.
        unsafe { &*self.table }
    }

    /// Runs a test's calls.
    pub(crate) fn call<R>(&self, calls: impl FnOnce(*mut wsrep_t, wsrep_t) -> R) -> R {
        calls(self.table, *self.table())
    }

    /// Calls `init` with arguments that are gone afterwards.
    pub(crate) fn init(&self) -> wsrep_status_t {
        let name = c"n1".to_owned();
        let data_dir = c"/data/".to_owned();
        let options = c"a=b".to_owned();
        let state_id = wsrep_gtid_t {
            uuid: wsrep_uuid_t { data: [9; 16] },
            seqno: 41,
        };
        let args = wsrep_init_args {
            app_ctx: ptr::without_provenance_mut(0x99),
            node_name: name.as_ptr(),
            node_address: ptr::null(),
            node_incoming: c"h:1".as_ptr(),
            data_dir: data_dir.as_ptr(),
            options: options.as_ptr(),
            proto_ver: 4,
            state_id: &state_id,
            state: ptr::null(),
            logger_cb: Some(on_log),
            connected_cb: Some(on_connected),
            view_cb: Some(on_view),
            sst_request_cb: Some(on_sst_request),
            encrypt_cb: None,
            apply_cb: Some(on_apply),
            unordered_cb: None,
            sst_donate_cb: Some(on_sst_donate),
            synced_cb: Some(on_synced),
        };
        self.call(|w, t| unsafe_call!(t.init, w, &args))
    }

    /// Calls `free`.
    pub(crate) fn free(&self) {
        self.call(|w, t| unsafe_call!(t.free, w));
    }

    /// Calls `options_get` and frees the result as the server does.
    pub(crate) fn options(&self) -> String {
        let text = self.call(|w, t| unsafe_call!(t.options_get, w));
        assert!(!text.is_null());
        // SAFETY: NUL-terminated.
        let copy = unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned();
        // SAFETY: from `malloc`.
        unsafe { libc::free(text.cast()) };
        copy
    }

    /// Calls `stats_get`, reads the array, and gives it back.
    pub(crate) fn stats(&self) -> Vec<String> {
        let array = self.call(|w, t| unsafe_call!(t.stats_get, w));
        let mut seen = Vec::new();
        for i in 0.. {
            // SAFETY: the array ends with an element without a name.
            let var = unsafe { *array.add(i) };
            if var.name.is_null() {
                break;
            }
            seen.push(format!("{}={}", text(var.name), value_text(&var)));
        }
        self.call(|w, t| unsafe_call!(t.stats_free, w, array));
        seen
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.free();
        // SAFETY: from `calloc`; it is not called any more.
        unsafe { libc::free(self.table.cast()) };
    }
}

fn text(text: *const c_char) -> String {
    // SAFETY: NUL-terminated texts of the provider.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

fn value_text(var: &wsrep_stats_var) -> String {
    // SAFETY: the type says which field is valid.
    unsafe {
        match var.type_ {
            WSREP_VAR_STRING => text(var.value.string),
            WSREP_VAR_INT64 => var.value.int64.to_string(),
            _ => var.value.double.to_string(),
        }
    }
}

unsafe extern "C-unwind" fn on_log(level: wsrep_log_level_t, line: *const c_char) {
    LOG.with_borrow_mut(|log| log.push((level, text(line))));
}

fn chars(field: &[c_char]) -> String {
    field
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| char::from(*c as u8))
        .collect()
}

/// # Safety
/// A view of the provider.
unsafe fn view_text(view: *const wsrep_view_info_t) -> String {
    // SAFETY: a view has at least the size of its struct.
    let v = unsafe { &*view };
    let first: *const wsrep_member_info_t = (&raw const v.members).cast();
    let member = |i: i32| {
        // SAFETY: the view has this many members behind its header.
        let m = unsafe {
            &*view
                .byte_add(WSREP_VIEW_HEADER_SIZE)
                .cast::<wsrep_member_info_t>()
                .add(i as usize)
        };
        format!("{}@{}", chars(&m.name), chars(&m.incoming))
    };
    assert_eq!(first.addr(), view.addr() + WSREP_VIEW_HEADER_SIZE);
    let members: Vec<String> = (0..v.memb_num).map(member).collect();
    let (number, status, idx, proto) = (v.view, v.status, v.my_idx, v.proto_ver);
    format!(
        "view {number} status {status} idx {idx} [{}] proto {proto}",
        members.join(" ")
    )
}

unsafe extern "C-unwind" fn on_connected(
    app_ctx: *mut c_void,
    view: *const wsrep_view_info_t,
) -> wsrep_cb_status_t {
    assert_eq!(app_ctx.addr(), 0x99);
    // SAFETY: a view.
    unsafe {
        see(format!(
            "connected {} {}",
            (*view).state_id.seqno,
            view_text(view)
        ))
    };
    WSREP_CB_SUCCESS
}

unsafe extern "C-unwind" fn on_view(
    app_ctx: *mut c_void,
    recv_ctx: *mut c_void,
    view: *const wsrep_view_info_t,
    state: *const c_char,
    state_len: usize,
) -> wsrep_cb_status_t {
    assert_eq!(
        (app_ctx.addr(), state.is_null(), state_len),
        (0x99, true, 0)
    );
    // SAFETY: a view.
    see(format!("view ctx {:x} {}", recv_ctx.addr(), unsafe {
        view_text(view)
    }));
    WSREP_CB_SUCCESS
}

unsafe extern "C-unwind" fn on_sst_request(
    _: *mut c_void,
    request: *mut *mut c_void,
    len: *mut usize,
) -> wsrep_cb_status_t {
    let Some(bytes) = SST_REQUEST.with_borrow(|r| *r) else {
        return WSREP_CB_FAILURE;
    };
    // SAFETY: room for the results; the copy has as many bytes as were allocated.
    unsafe {
        let copy = libc::malloc(bytes.len().max(1));
        copy.cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        *request = copy;
        *len = bytes.len();
    }
    WSREP_CB_SUCCESS
}

unsafe extern "C-unwind" fn on_sst_donate(
    _: *mut c_void,
    recv_ctx: *mut c_void,
    request: *const wsrep_buf_t,
    state_id: *const wsrep_gtid_t,
    state: *const wsrep_buf_t,
    bypass: wsrep_bool_t,
) -> wsrep_cb_status_t {
    assert!(state.is_null());
    // SAFETY: values of the provider.
    let (len, seqno) = unsafe { ((*request).len, (*state_id).seqno) };
    see(format!(
        "donate ctx {:x} {len} bytes seqno {seqno} bypass {bypass}",
        recv_ctx.addr()
    ));
    WSREP_CB_SUCCESS
}

unsafe extern "C-unwind" fn on_apply(
    recv_ctx: *mut c_void,
    handle: *const wsrep_ws_handle_t,
    flags: u32,
    data: *const wsrep_buf_t,
    meta: *const wsrep_trx_meta_t,
    exit_loop: *mut wsrep_bool_t,
) -> wsrep_cb_status_t {
    // SAFETY: values of the provider.
    let (handle, data, meta) = unsafe { (&*handle, &*data, &*meta) };
    let bytes = if data.len == 0 {
        assert!(data.ptr.is_null());
        &[]
    } else {
        // SAFETY: the bytes of the buffer.
        unsafe { std::slice::from_raw_parts(data.ptr.cast::<u8>(), data.len) }
    };
    // SAFETY: room for the result.
    unsafe {
        assert_eq!(*exit_loop, 0);
        *exit_loop = wsrep_bool_t::from(bytes == b"exit");
    }
    let bytes = String::from_utf8_lossy(bytes);
    see(format!(
        "apply ctx {:x} trx {} opaque {} flags {flags:#x} data {bytes} seqno {}",
        recv_ctx.addr(),
        handle.trx_id,
        handle.opaque.addr(),
        meta.gtid.seqno
    ));
    if bytes == "fail" {
        WSREP_CB_FAILURE
    } else {
        WSREP_CB_SUCCESS
    }
}

unsafe extern "C-unwind" fn on_synced(app_ctx: *mut c_void) -> wsrep_cb_status_t {
    assert_eq!(app_ctx.addr(), 0x99);
    see("synced".to_owned());
    WSREP_CB_SUCCESS
}

/// A provider that records its calls.
pub(crate) struct Fake {
    /// Method that panics; `everything` for all, `init` for the constructor.
    pub(crate) panic_at: Option<&'static str>,
    /// The constructor refuses.
    pub(crate) refuse_init: bool,
    /// `recv` delivers views and actions.
    pub(crate) deliver: bool,
    /// Answer to `certify` and `to_execute_start`.
    pub(crate) certify: CertifyOutcome,
    /// Answer to `abort_certification`.
    pub(crate) abort: AbortOutcome,
    pub(crate) calls: Mutex<Vec<String>>,
    pub(crate) init: Mutex<Option<(InitArgs, Callbacks)>>,
}

impl Default for Fake {
    fn default() -> Fake {
        Fake {
            panic_at: None,
            refuse_init: false,
            deliver: false,
            certify: CertifyOutcome {
                status: Status::Ok,
                meta: None,
            },
            abort: AbortOutcome {
                status: Status::Ok,
                victim_seqno: -1,
            },
            calls: Mutex::default(),
            init: Mutex::default(),
        }
    }
}

impl Fake {
    fn create(
        self: Arc<Fake>,
        args: InitArgs,
        callbacks: Callbacks,
    ) -> Result<Arc<dyn ProviderApi>, InitError> {
        if self.panic_at == Some("init") {
            panic!("init broke");
        }
        if self.refuse_init {
            return Err(OptionsError::Unknown {
                name: "a".to_owned(),
            }
            .into());
        }
        *self.init.lock().unwrap() = Some((args, callbacks));
        Ok(self)
    }

    /// Arguments of `init`.
    pub(crate) fn init_args(&self) -> InitArgs {
        self.init.lock().unwrap().as_ref().unwrap().0.clone()
    }

    /// The server's callbacks.
    pub(crate) fn callbacks(&self) -> &'static Callbacks {
        let callbacks = self.init.lock().unwrap().as_ref().unwrap().1.clone();
        Box::leak(Box::new(callbacks))
    }

    /// Calls made, in order.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    /// Number of calls of this function.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|c| *c == call).count()
    }

    fn panic_if(&self, method: &str) {
        if self.panic_at == Some(method) || self.panic_at == Some("everything") {
            panic!("{method} broke");
        }
    }

    fn record(&self, method: &str, call: String) -> Status {
        self.panic_if(method);
        self.calls.lock().unwrap().push(call);
        Status::Ok
    }

    fn deliver(&self, ctx: RecvContext) {
        let callbacks = self.callbacks();
        let gtid = |seqno| Gtid::new(GroupId([9; 16]), seqno);
        let member = |n: u8| ViewMember {
            id: Uuid([n; 16]),
            name: format!("n{n}"),
            incoming: format!("h:{n}"),
        };
        let view = View {
            state_id: gtid(9),
            number: 1,
            status: ViewStatus::Primary,
            capabilities: 0x7f,
            my_index: Some(1),
            proto_ver: 4,
            members: vec![member(1), member(2)],
        };
        let meta = |seqno| TrxMeta {
            gtid: gtid(seqno),
            stid: Stid::UNDEFINED,
            depends_on: 0,
        };
        callbacks.connected(&view).unwrap();
        callbacks.view(ctx, &view).unwrap();
        let trx = context(17);
        let _ = callbacks
            .apply(ctx, &trx, WsFlags(0x41), b"rows", &meta(12))
            .unwrap();
        let _ = callbacks
            .apply(ctx, &trx, WsFlags(0x43), b"", &meta(13))
            .unwrap();
        callbacks.synced().unwrap();
        callbacks.view(ctx, &View::last(gtid(13), 0x7f)).unwrap();
    }
}

fn id(handle: &TrxHandle) -> String {
    format!("{} {:?}", handle.trx_id, handle.opaque.map(|id| id.0.get()))
}

impl ProviderApi for Fake {
    fn capabilities(&self) -> u32 {
        self.panic_if("capabilities");
        0x7f
    }

    fn options_set(&self, text: &str) -> Status {
        self.record("options_set", format!("options_set {text}"))
    }

    fn options_get(&self) -> String {
        self.panic_if("options_get");
        "a = b; ".to_owned()
    }

    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name, value, is_read_only| Parameter {
            name,
            value,
            is_read_only,
        };
        vec![
            parameter("on", ParameterValue::Bool(true), false),
            parameter("number", ParameterValue::Integer(-7), true),
            parameter("seconds", ParameterValue::Real(0.5), false),
            parameter("text", ParameterValue::Text("a;b".to_owned()), true),
        ]
    }

    fn connect(&self, name: &str, url: &str, donor: &str, bootstrap: bool) -> Status {
        self.record(
            "connect",
            format!("connect {name} {url} {donor} {bootstrap}"),
        )
    }

    fn disconnect(&self) -> Status {
        self.record("disconnect", "disconnect".to_owned())
    }

    fn recv(&self, ctx: RecvContext) -> Status {
        self.panic_if("recv");
        if self.deliver {
            self.deliver(ctx);
        }
        Status::Ok
    }

    fn certify(&self, conn: u64, handle: &mut TrxHandle, flags: WsFlags) -> CertifyOutcome {
        self.record(
            "certify",
            format!("certify {conn} {} {:#x}", id(handle), flags.0),
        );
        self.certify
    }

    fn commit_order_enter(&self, handle: &TrxHandle, meta: &TrxMeta) -> Status {
        self.record("enter", format!("enter {} {}", id(handle), meta.gtid.seqno))
    }

    fn commit_order_leave(
        &self,
        handle: &TrxHandle,
        meta: &TrxMeta,
        error: Option<&[u8]>,
    ) -> Status {
        let seqno = meta.gtid.seqno;
        self.record(
            "leave",
            format!("leave {} {seqno} {:?}", id(handle), error.map(<[u8]>::len)),
        )
    }

    fn release(&self, handle: &mut TrxHandle) -> Status {
        let status = self.record("release", format!("release {}", id(handle)));
        handle.opaque = None;
        status
    }

    fn replay(&self, handle: &TrxHandle, _: ReplayContext) -> Status {
        self.record("replay", format!("replay {}", id(handle)))
    }

    fn abort_certification(&self, bf_seqno: i64, victim: u64) -> AbortOutcome {
        self.record("abort", format!("abort {bf_seqno} {victim}"));
        self.abort
    }

    fn rollback(&self, trx: u64) -> Status {
        self.record("rollback", format!("rollback {trx}"))
    }

    fn append_key(&self, handle: &mut TrxHandle, parts: &[&[u8]], kind: u32) -> Status {
        let parts: Vec<String> = parts.iter().map(|part| format!("{part:?}")).collect();
        let call = format!("append_key {} {} {kind}", id(handle), parts.join("/"));
        handle.opaque = NonZeroU64::new(99).map(OpaqueId);
        self.record("append_key", call)
    }

    fn append_data(&self, handle: &mut TrxHandle, data: &[u8], kind: u32) -> Status {
        let data = String::from_utf8_lossy(data);
        self.record(
            "append_data",
            format!("append_data {} {data} {kind}", id(handle)),
        )
    }

    fn sync_wait(&self, upto: Option<Gtid>, timeout_s: i32) -> (Status, Gtid) {
        (
            self.record("sync_wait", format!("sync_wait {upto:?} {timeout_s}")),
            Gtid::UNDEFINED,
        )
    }

    fn last_committed(&self) -> Gtid {
        self.panic_if("last_committed");
        Gtid::new(GroupId([9; 16]), 7)
    }

    fn to_execute_start(
        &self,
        conn: u64,
        keys: &[Vec<&[u8]>],
        action: &[&[u8]],
        flags: u32,
    ) -> CertifyOutcome {
        let parts: Vec<usize> = keys.iter().map(Vec::len).collect();
        self.record(
            "toi_start",
            format!("toi_start {conn} {parts:?} {action:?} {flags:#x}"),
        );
        self.certify
    }

    fn to_execute_end(&self, conn: u64, error: Option<&[u8]>) -> Status {
        self.record(
            "toi_end",
            format!("toi_end {conn} {:?}", error.map(<[u8]>::len)),
        )
    }

    fn sst_sent(&self, gtid: Gtid, code: i32) -> Status {
        self.record("sst_sent", format!("sst_sent {gtid} {code}"))
    }

    fn sst_received(&self, gtid: Gtid, code: i32) -> Status {
        self.record("sst_received", format!("sst_received {gtid} {code}"))
    }

    fn stats(&self) -> Vec<StatVar> {
        self.panic_if("stats");
        vec![
            StatVar {
                name: "comment".into(),
                value: StatValue::Str("a\0b".to_owned()),
            },
            StatVar {
                name: "count".into(),
                value: StatValue::Int(-7),
            },
            StatVar {
                name: String::from("share").into(),
                value: StatValue::Double(0.5),
            },
        ]
    }

    fn stats_reset(&self) {
        self.panic_if("stats_reset");
    }

    fn pause(&self) -> i64 {
        self.panic_if("pause");
        36
    }

    fn resume(&self) -> Status {
        self.record("resume", "resume".to_owned())
    }

    fn desync(&self) -> Status {
        self.panic_if("desync");
        Status::Ok
    }

    fn resync(&self) -> Status {
        Status::Ok
    }

    fn shutdown(&self) {
        self.record("shutdown", "shutdown".to_owned());
    }

    fn fenced(&self, reason: &str, ctx: Option<RecvContext>) {
        self.panic_if("fenced");
        self.calls
            .lock()
            .unwrap()
            .push(format!("fenced {reason} {}", ctx.is_some()));
    }
}
