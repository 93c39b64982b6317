//! Plays a MariaDB server around a real provider with a real node: applier threads, clients, and
//! what the server does in its callbacks. Everything that waits has a limit.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use synod::boundary::fill_table;
use wsrep_sys::*;

/// Default error of what fails here.
const ERROR: &[u8] = b" Can't find record in 't', Error_code: 1032;\0";

/// Longer than anything takes here, unless it hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Calls that the provider made to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Connected {
        seqno: i64,
        me: [u8; 16],
        group: [u8; 16],
    },
    View {
        status: wsrep_view_status_t,
        seqno: i64,
        own: i32,
        members: i32,
        committed_inside: i64,
    },
    Synced,
    /// Committed by an applier or a replay.
    Applied {
        seqno: i64,
        data: String,
    },
    /// A statement executed by an applier.
    Executed {
        seqno: i64,
    },
    NotApplied {
        seqno: i64,
    },
    /// Failed as on other servers.
    FailedAlike {
        seqno: i64,
    },
    /// Part of a transaction that continues.
    Fragment {
        seqno: i64,
        data: String,
    },
    /// The open part of a streamed transaction was rolled back; `None`: nothing was open.
    RolledBack {
        seqno: i64,
        data: Option<String>,
    },
    /// Nothing was known of the streamed transaction that this continues or commits.
    Unknown {
        seqno: i64,
    },
    RequestedCopy,
    Donates {
        to: String,
        seqno: i64,
    },
    RecvEnded(wsrep_status_t),
}

/// Decision of a hook about an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Commit,
    /// The rows do not fit.
    Fail,
    /// The thread is to go.
    CommitAndExit,
}

/// An action in `apply_cb`.
pub(crate) struct Applying<'a> {
    pub(crate) server: &'a Inner,
    pub(crate) seqno: i64,
    pub(crate) data: String,
}

type Hook = Arc<dyn Fn(&Applying<'_>) -> Verdict + Send + Sync>;

/// The server's side; lives as long as the process, as callbacks may come until `free`.
pub(crate) struct Inner {
    table: *mut wsrep_t,
    seen: Mutex<Vec<Seen>>,
    log: Mutex<Vec<(i32, String)>>,
    changed: Condvar,
    hook: Mutex<Option<Hook>>,
    copy_request: Mutex<&'static [u8]>,
    /// Giving a copy does not come back for now.
    donates_slowly: AtomicBool,
    open: Mutex<OpenStreams>,
    /// Position reported by the storage engine.
    engine: AtomicI64,
    error: Mutex<&'static [u8]>,
}

/// Streamed transactions that the server holds, and when it gives them up.
#[derive(Default)]
struct OpenStreams {
    data: HashMap<([u8; 16], u64), String>,
    members: Vec<[u8; 16]>,
}

// SAFETY: the table is not changed after loading; its functions may be called from any thread.
unsafe impl Sync for Inner {}
// SAFETY: as above.
unsafe impl Send for Inner {}

/// A server with its provider.
pub(crate) struct Server {
    pub(crate) inner: &'static Inner,
    pub(crate) dir: PathBuf,
    pub(crate) port: u16,
    appliers: Mutex<Vec<JoinHandle<()>>>,
    keep_dir: Cell<bool>,
}

/// A transaction of a client.
pub(crate) struct Trx {
    inner: &'static Inner,
    pub(crate) handle: wsrep_ws_handle_t,
    pub(crate) meta: wsrep_trx_meta_t,
}

// SAFETY: the handle's pointer is only a number.
unsafe impl Send for Trx {}

static NEXT: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A directory of its own.
pub(crate) fn new_dir() -> PathBuf {
    let name = format!("synod-live-{}-{}", std::process::id(), next_number());
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// A port that was free a moment ago. The system gives it to no outbound connection: those have
/// ports above these.
pub(crate) fn free_port() -> u16 {
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    loop {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed) + u64::from(std::process::id()) * 97;
        let port = 11_000 + (given % 9_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub(crate) const UNDEFINED: wsrep_gtid_t = WSREP_GTID_UNDEFINED;

impl Server {
    /// A new server called `name`.
    pub(crate) fn new(name: &str) -> Server {
        Server::with(name, &new_dir(), free_port(), UNDEFINED, "")
    }

    /// A server with a data directory, a peer port, a start position and options.
    pub(crate) fn with(
        name: &str,
        dir: &Path,
        port: u16,
        start: wsrep_gtid_t,
        options: &str,
    ) -> Server {
        // SAFETY: plain allocation of a table; zeroes are a valid one.
        let table: *mut wsrep_t = unsafe { libc::calloc(1, size_of::<wsrep_t>()) }.cast();
        // SAFETY: a table.
        unsafe { fill_table(table, Box::new(synod::provider::create)) };
        let inner: &'static Inner = Box::leak(Box::new(Inner {
            table,
            seen: Mutex::default(),
            log: Mutex::default(),
            changed: Condvar::new(),
            hook: Mutex::default(),
            copy_request: Mutex::new(b"fake\0here\0"),
            donates_slowly: AtomicBool::new(false),
            open: Mutex::default(),
            engine: AtomicI64::new(start.seqno),
            error: Mutex::new(ERROR),
        }));
        let server = Server {
            inner,
            dir: dir.to_owned(),
            port,
            appliers: Mutex::default(),
            keep_dir: Cell::new(false),
        };
        let status = server.init(name, start, options);
        assert_eq!(status, WSREP_OK, "{:?}", inner.log_lines());
        server
    }

    fn init(&self, name: &str, start: wsrep_gtid_t, more: &str) -> wsrep_status_t {
        let c = |text: &str| CString::new(text).unwrap();
        let (name, address) = (c(name), c(&format!("127.0.0.1:{}", self.port)));
        let data_dir = c(&format!("{}/", self.dir.display()));
        let options = c(&format!(
            "base_port={};gmcast.listen_addr=tcp://127.0.0.1:{};synod.election_timeout=PT0.5S;\
             synod.heartbeat_period=PT0.05S;evs.suspect_timeout=PT1.5S;\
             synod.log_segment_size=1M;{more}",
            self.port, self.port
        ));
        let incoming = c("127.0.0.1:3306");
        let app_ctx: *const Inner = self.inner;
        let args = wsrep_init_args {
            app_ctx: app_ctx.cast_mut().cast(),
            node_name: name.as_ptr(),
            node_address: address.as_ptr(),
            node_incoming: incoming.as_ptr(),
            data_dir: data_dir.as_ptr(),
            options: options.as_ptr(),
            proto_ver: 4,
            state_id: &start,
            state: ptr::null(),
            logger_cb: Some(logger_for(self.inner)),
            connected_cb: Some(on_connected),
            view_cb: Some(on_view),
            sst_request_cb: Some(on_sst_request),
            encrypt_cb: None,
            apply_cb: Some(on_apply),
            unordered_cb: None,
            sst_donate_cb: Some(on_sst_donate),
            synced_cb: Some(on_synced),
        };
        // SAFETY: valid arguments.
        unsafe { self.inner.t().init.unwrap()(self.inner.table, &args) }
    }

    /// `connect`.
    pub(crate) fn connect(&self, url: &str, bootstrap: bool) -> wsrep_status_t {
        let (name, url) = (c"testing", CString::new(url).unwrap());
        // SAFETY: valid arguments.
        unsafe {
            self.inner.t().connect.unwrap()(
                self.inner.table,
                name.as_ptr(),
                url.as_ptr(),
                c"".as_ptr(),
                u8::from(bootstrap),
            )
        }
    }

    /// Starts an applier thread.
    pub(crate) fn add_applier(&self) {
        let inner = self.inner;
        let thread = thread::Builder::new().stack_size(303_104).spawn(move || {
            let ctx: *const Inner = inner;
            // SAFETY: the context is the server itself.
            let status = unsafe { inner.t().recv.unwrap()(inner.table, ctx.cast_mut().cast()) };
            inner.see(Seen::RecvEnded(status));
        });
        self.appliers.lock().unwrap().push(thread.unwrap());
    }

    /// A group of its own, with some appliers, synced.
    pub(crate) fn bootstrapped(name: &str, appliers: usize) -> Server {
        let server = Server::new(name);
        assert_eq!(
            server.connect("gcomm://", true),
            WSREP_OK,
            "{:?}",
            server.inner.log_lines()
        );
        for _ in 0..appliers {
            server.add_applier();
        }
        server.wait_synced(1);
        server
    }

    /// Waits until the server was told so often that it has caught up.
    pub(crate) fn wait_synced(&self, times: usize) {
        self.inner.until("synced", |seen| {
            seen.iter().filter(|s| **s == Seen::Synced).count() >= times
        });
        self.wait_status("local_state_comment", "Synced");
    }

    /// Waits until a status variable has a value.
    pub(crate) fn wait_status(&self, name: &str, value: &str) {
        self.inner
            .until(&format!("{name}={value}"), |_| self.status(name) == value);
    }

    pub(crate) fn disconnect(&self) -> wsrep_status_t {
        // SAFETY: a table.
        unsafe { self.inner.t().disconnect.unwrap()(self.inner.table) }
    }

    /// Makes failing actions fail with this error.
    pub(crate) fn fail_with(&self, error: &'static [u8]) {
        *self.inner.error.lock().unwrap() = error;
    }

    /// Position that `--wsrep-recover` would find.
    pub(crate) fn engine_position(&self) -> wsrep_gtid_t {
        wsrep_gtid_t {
            uuid: self.inner.last_committed().uuid,
            seqno: self.inner.engine.load(Ordering::SeqCst),
        }
    }

    /// Starts again where this one has left, from where its engine says that it is.
    pub(crate) fn restart(self, name: &str) -> Server {
        let start = self.engine_position();
        let (dir, port) = self.stop();
        let server = Server::with(name, &dir, port, start, "");
        server.set_copy_request(b"trivial\0\0");
        server
    }

    /// Waits until all appliers have come back.
    pub(crate) fn join_appliers(&self) {
        let appliers = std::mem::take(&mut *self.appliers.lock().unwrap());
        let deadline = Instant::now() + LIMIT;
        for applier in appliers {
            while !applier.is_finished() {
                assert!(Instant::now() < deadline, "an applier never comes back");
                thread::yield_now();
            }
            applier.join().unwrap();
        }
    }

    /// `free`, as often as one likes.
    pub(crate) fn free(&self) {
        // SAFETY: a table.
        unsafe { self.inner.t().free.unwrap()(self.inner.table) };
    }

    /// Shuts down in an orderly way and keeps the data.
    pub(crate) fn stop(self) -> (PathBuf, u16) {
        self.disconnect();
        self.join_appliers();
        // Its engine has closed.
        synod::boundary::run_exit_tasks();
        self.keep_dir.set(true);
        (self.dir.clone(), self.port)
    }

    /// The address for others.
    pub(crate) fn address(&self) -> String {
        format!("gcomm://127.0.0.1:{}", self.port)
    }

    /// Group and seqno in `grastate.dat`.
    pub(crate) fn grastate(&self) -> Option<(String, String)> {
        let text = std::fs::read_to_string(self.dir.join("grastate.dat")).ok()?;
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].trim().to_owned()
        };
        Some((value("uuid:"), value("seqno:")))
    }

    /// `SET GLOBAL wsrep_provider_options`.
    pub(crate) fn set_options(&self, text: &str) -> wsrep_status_t {
        let text = CString::new(text).unwrap();
        // SAFETY: valid arguments.
        unsafe { self.inner.t().options_set.unwrap()(self.inner.table, text.as_ptr()) }
    }

    /// `@@wsrep_provider_options`
    pub(crate) fn options(&self) -> String {
        // SAFETY: a table.
        let shown = unsafe { self.inner.t().options_get.unwrap()(self.inner.table) };
        let copy = text(shown);
        // SAFETY: the server frees what it gets.
        unsafe { libc::free(shown.cast()) };
        copy
    }

    /// A status variable.
    pub(crate) fn status(&self, name: &str) -> String {
        // SAFETY: a table.
        let array = unsafe { self.inner.t().stats_get.unwrap()(self.inner.table) };
        let mut found = None;
        for i in 0.. {
            // SAFETY: the array ends with an element without a name.
            let var = unsafe { *array.add(i) };
            if var.name.is_null() {
                break;
            }
            if text(var.name) == name {
                // SAFETY: the type says which field is valid.
                found = Some(unsafe {
                    match var.type_ {
                        WSREP_VAR_STRING => text(var.value.string),
                        WSREP_VAR_INT64 => var.value.int64.to_string(),
                        _ => var.value.double.to_string(),
                    }
                });
            }
        }
        // SAFETY: from `stats_get`.
        unsafe { self.inner.t().stats_free.unwrap()(self.inner.table, array) };
        found.unwrap_or_else(|| panic!("no status variable {name}"))
    }

    /// `FLUSH STATUS`
    pub(crate) fn flush_status(&self) {
        // SAFETY: a table.
        unsafe { self.inner.t().stats_reset.unwrap()(self.inner.table) }
    }

    /// `pause`
    pub(crate) fn pause(&self) -> i64 {
        // SAFETY: a table.
        unsafe { self.inner.t().pause.unwrap()(self.inner.table) }
    }

    /// `resume`, `desync` or `resync`.
    pub(crate) fn simple(&self, which: fn(&wsrep_t) -> wsrep_simple_fn_t) -> wsrep_status_t {
        // SAFETY: a table.
        unsafe { which(self.inner.t())(self.inner.table) }
    }

    /// `sst_received`
    pub(crate) fn copy_received(&self, gtid: wsrep_gtid_t, code: i32) {
        self.inner.copy_received(gtid, code);
    }

    /// `sst_sent`
    pub(crate) fn copy_sent(&self, gtid: wsrep_gtid_t, code: i32) {
        // SAFETY: valid arguments.
        let status = unsafe { self.inner.t().sst_sent.unwrap()(self.inner.table, &gtid, code) };
        assert_eq!(status, WSREP_OK);
    }

    /// Sets a hook for `apply_cb`.
    pub(crate) fn on_apply(&self, hook: impl Fn(&Applying<'_>) -> Verdict + Send + Sync + 'static) {
        *self.inner.hook.lock().unwrap() = Some(Arc::new(hook));
    }

    /// Whether giving a copy is to come back only when this is over.
    pub(crate) fn donate_slowly(&self, slowly: bool) {
        self.inner.donates_slowly.store(slowly, Ordering::SeqCst);
    }

    /// Sets the server's request for a copy; empty: it cannot take one.
    pub(crate) fn set_copy_request(&self, request: &'static [u8]) {
        *self.inner.copy_request.lock().unwrap() = request;
    }

    /// Begins a transaction that changes a row.
    pub(crate) fn begin(&self, row: &str) -> Trx {
        self.inner.begin(row)
    }

    /// Commits a row; its seqno.
    pub(crate) fn write(&self, row: &str) -> i64 {
        let mut trx = self.begin(row);
        assert_eq!(trx.certify(), WSREP_OK, "{:?}", self.inner.log_lines());
        assert_eq!(trx.enter(), WSREP_OK);
        assert_eq!(trx.leave(), WSREP_OK);
        trx.release();
        trx.seqno()
    }

    /// The data applied here, in order of commit.
    pub(crate) fn applied(&self) -> Vec<String> {
        let data = |seen: &Seen| match seen {
            Seen::Applied { data, .. } => Some(data.clone()),
            _ => None,
        };
        self.inner.seen().iter().filter_map(data).collect()
    }

    /// Waits until this was applied here.
    pub(crate) fn wait_applied(&self, row: &str) {
        self.inner.until(row, |seen| {
            seen.iter()
                .any(|s| matches!(s, Seen::Applied { data, .. } if data == row))
        });
    }

    /// Number of final views shown.
    pub(crate) fn final_views(&self) -> usize {
        let is_final = |s: &&Seen| {
            matches!(
                s,
                Seen::View {
                    status: WSREP_VIEW_DISCONNECTED,
                    ..
                }
            )
        };
        self.inner.seen().iter().filter(is_final).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.free();
            self.free();
            self.join_appliers();
            free_logger(self.inner);
        }
        if !self.keep_dir.get() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

impl Inner {
    /// [`Server::copy_received`], on any thread.
    pub(crate) fn copy_received(&self, gtid: wsrep_gtid_t, code: i32) {
        // SAFETY: valid arguments.
        let status =
            unsafe { self.t().sst_received.unwrap()(self.table, &gtid, ptr::null(), code) };
        assert_eq!(status, WSREP_OK);
    }

    pub(crate) fn t(&self) -> &wsrep_t {
        // SAFETY: filled, and never freed.
        unsafe { &*self.table }
    }

    fn see(&self, what: Seen) {
        self.seen.lock().unwrap().push(what);
        self.changed.notify_all();
    }

    /// Everything seen so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until what was seen is as wished.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&[Seen]) -> bool) {
        let deadline = Instant::now() + LIMIT;
        let mut seen: MutexGuard<'_, Vec<Seen>> = self.seen.lock().unwrap();
        while !holds(&seen) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "never: {what}\n{seen:?}\n{:?}",
                self.log_lines()
            );
            // Some of what is asked for is never announced.
            let patience = left.min(Duration::from_millis(20));
            seen = self.changed.wait_timeout(seen, patience).unwrap().0;
        }
    }

    /// Open streamed transactions of others.
    pub(crate) fn open_streams(&self) -> Vec<String> {
        self.open.lock().unwrap().data.values().cloned().collect()
    }

    /// The table of streamed transactions, as it is on disk.
    pub(crate) fn held_streams(&self) -> HashMap<([u8; 16], u64), String> {
        self.open.lock().unwrap().data.clone()
    }

    /// The engine starts with such a table.
    pub(crate) fn hold_streams(&self, held: HashMap<([u8; 16], u64), String>) {
        self.open.lock().unwrap().data = held;
    }

    /// `rollback`
    pub(crate) fn rollback(&self, trx: u64) -> wsrep_status_t {
        // SAFETY: valid arguments.
        unsafe { self.t().rollback.unwrap()(self.table, trx, ptr::null()) }
    }

    /// The error log.
    pub(crate) fn log_lines(&self) -> Vec<(i32, String)> {
        self.log.lock().unwrap().clone()
    }

    /// Lets the error log hang: no line is written until this is dropped.
    pub(crate) fn hang_log(&self) -> MutexGuard<'_, Vec<(i32, String)>> {
        self.log.lock().unwrap()
    }

    pub(crate) fn logged(&self, part: &str) -> bool {
        self.log_lines().iter().any(|(_, line)| line.contains(part))
    }

    /// Waits for a line with `part`: a thread of its own writes the log.
    pub(crate) fn wait_logged(&self, part: &str) {
        self.until(part, |_| self.logged(part));
    }

    pub(crate) fn begin(&'static self, row: &str) -> Trx {
        let handle = wsrep_ws_handle_t {
            trx_id: next_number(),
            opaque: ptr::null_mut(),
        };
        let mut trx = Trx {
            inner: self,
            handle,
            meta: WSREP_TRX_META_UNDEFINED,
        };
        assert_eq!(trx.append_key(row), WSREP_OK);
        assert_eq!(trx.append_data(row.as_bytes()), WSREP_OK);
        trx
    }

    /// Gives up what MariaDB gives up at a primary view: streamed transactions of members that are
    /// gone, and all of them if the members are those of the view before.
    fn see_members(&self, members: Vec<[u8; 16]>) {
        let mut open = self.open.lock().unwrap();
        let repeated = open.members == members;
        open.data
            .retain(|(node, _), _| !repeated && members.contains(node));
        open.members = members;
    }

    /// Handles a fragment, a commit after fragments, or their rollback in commit order, as MariaDB
    /// does.
    fn see_streamed(&self, flags: u32, meta: &wsrep_trx_meta_t, data: String) {
        let (seqno, id) = (meta.gtid.seqno, (meta.stid.node.data, meta.stid.trx));
        let open = &mut self.open.lock().unwrap().data;
        let seen = match flags {
            0x40 | 0x48 => {
                let before = open.insert(id, data.clone());
                assert_eq!(before, None, "{seqno} begins a transaction that is open");
                Seen::Fragment { seqno, data }
            }
            0x00 | 0x08 => match open.get_mut(&id) {
                Some(known) => {
                    known.push_str(&data);
                    Seen::Fragment { seqno, data }
                }
                None => Seen::Unknown { seqno },
            },
            0x01 | 0x09 => match open.remove(&id) {
                Some(known) => Seen::Applied {
                    seqno,
                    data: known + &data,
                },
                None => Seen::Unknown { seqno },
            },
            0x0a => Seen::RolledBack {
                seqno,
                data: open.remove(&id),
            },
            other => panic!("flags {other:#x} at {seqno}"),
        };
        self.see(seen);
    }

    /// `last_committed_id`
    pub(crate) fn last_committed(&self) -> wsrep_gtid_t {
        let mut gtid = UNDEFINED;
        // SAFETY: valid arguments.
        let status = unsafe { self.t().last_committed_id.unwrap()(self.table, &mut gtid) };
        assert_eq!(status, WSREP_OK);
        gtid
    }

    /// `sync_wait`; `upto` NULL if undefined.
    pub(crate) fn sync_wait(
        &self,
        upto: Option<wsrep_gtid_t>,
        timeout_s: i32,
    ) -> (wsrep_status_t, i64) {
        let mut wanted = upto.unwrap_or(UNDEFINED);
        let place = if upto.is_some() {
            &raw mut wanted
        } else {
            ptr::null_mut()
        };
        let mut reached = UNDEFINED;
        // SAFETY: valid arguments.
        let status =
            unsafe { self.t().sync_wait.unwrap()(self.table, place, timeout_s, &mut reached) };
        (status, reached.seqno)
    }

    /// `abort_certification`: the answer and the victim's seqno.
    pub(crate) fn abort(&self, bf_seqno: i64, victim: u64) -> (wsrep_status_t, i64) {
        let mut seqno = 12345;
        // SAFETY: valid arguments.
        let status = unsafe {
            self.t().abort_certification.unwrap()(self.table, bf_seqno, victim, &mut seqno)
        };
        (status, seqno)
    }

    /// `to_execute_start`: the answer and the place in the order.
    pub(crate) fn execute_start(&self, conn: u64, db: &str) -> (wsrep_status_t, wsrep_trx_meta_t) {
        let part = buf(db.as_bytes());
        let key = wsrep_key_t {
            key_parts: &part,
            key_parts_num: 1,
        };
        let action = buf(b"ALTER");
        let mut meta = WSREP_TRX_META_UNDEFINED;
        // SAFETY: valid arguments.
        let status = unsafe {
            self.t().to_execute_start.unwrap()(
                self.table, conn, &key, 1, &action, 1, 0x41, &mut meta,
            )
        };
        (status, meta)
    }

    /// `to_execute_end`
    pub(crate) fn execute_end(&self, conn: u64) -> wsrep_status_t {
        // SAFETY: valid arguments.
        unsafe { self.t().to_execute_end.unwrap()(self.table, conn, ptr::null()) }
    }

    /// `to_execute_end` of a statement that has failed, as it does in `apply_cb`.
    pub(crate) fn execute_end_failed(&self, conn: u64) -> wsrep_status_t {
        let error = buf(ERROR);
        // SAFETY: valid arguments.
        unsafe { self.t().to_execute_end.unwrap()(self.table, conn, &error) }
    }
}

impl Trx {
    pub(crate) fn append_key(&mut self, row: &str) -> wsrep_status_t {
        let parts = [buf(b"db"), buf(b"t"), buf(row.as_bytes())];
        let key = wsrep_key_t {
            key_parts: parts.as_ptr(),
            key_parts_num: 3,
        };
        let (table, t) = (self.inner.table, self.inner.t());
        // SAFETY: valid arguments.
        unsafe { t.append_key.unwrap()(table, &mut self.handle, &key, 1, WSREP_KEY_EXCLUSIVE, 1) }
    }

    pub(crate) fn append_data(&mut self, data: &[u8]) -> wsrep_status_t {
        let data = buf(data);
        let (table, t) = (self.inner.table, self.inner.t());
        // SAFETY: valid arguments.
        unsafe { t.append_data.unwrap()(table, &mut self.handle, &data, 1, WSREP_DATA_ORDERED, 1) }
    }

    pub(crate) fn certify(&mut self) -> wsrep_status_t {
        self.certify_as(0x41)
    }

    pub(crate) fn certify_as(&mut self, flags: u32) -> wsrep_status_t {
        let (table, t) = (self.inner.table, self.inner.t());
        // SAFETY: valid arguments.
        unsafe { t.certify.unwrap()(table, 7, &mut self.handle, flags, &mut self.meta) }
    }

    pub(crate) fn enter(&self) -> wsrep_status_t {
        let t = self.inner.t();
        // SAFETY: valid arguments.
        unsafe { t.commit_order_enter.unwrap()(self.inner.table, &self.handle, &self.meta) }
    }

    pub(crate) fn leave(&self) -> wsrep_status_t {
        let t = self.inner.t();
        // SAFETY: valid arguments.
        unsafe {
            t.commit_order_leave.unwrap()(self.inner.table, &self.handle, &self.meta, ptr::null())
        }
    }

    /// Applies it again on this thread.
    pub(crate) fn replay(&self) -> wsrep_status_t {
        let ctx: *const Inner = self.inner;
        // SAFETY: valid arguments; the context is the server itself.
        unsafe {
            self.inner.t().replay_trx.unwrap()(
                self.inner.table,
                &self.handle,
                ctx.cast_mut().cast(),
            )
        }
    }

    /// Certifies what is appended as a fragment, and continues; its seqno.
    pub(crate) fn stream(&mut self, flags: u32) -> i64 {
        assert_eq!(
            self.certify_as(flags),
            WSREP_OK,
            "{:?}",
            self.inner.log_lines()
        );
        assert_eq!((self.enter(), self.leave()), (WSREP_OK, WSREP_OK));
        assert_eq!(self.end_fragment(), WSREP_OK);
        self.seqno()
    }

    /// `release` after a fragment.
    pub(crate) fn end_fragment(&mut self) -> wsrep_status_t {
        // SAFETY: valid arguments.
        let status = unsafe { self.inner.t().release.unwrap()(self.inner.table, &mut self.handle) };
        assert!(!self.handle.opaque.is_null(), "the transaction continues");
        status
    }

    pub(crate) fn add(&mut self, row: &str) {
        assert_eq!(self.append_key(row), WSREP_OK);
        assert_eq!(self.append_data(row.as_bytes()), WSREP_OK);
    }

    pub(crate) fn release(&mut self) {
        // SAFETY: valid arguments.
        let status = unsafe { self.inner.t().release.unwrap()(self.inner.table, &mut self.handle) };
        assert_eq!(status, WSREP_OK);
        assert!(self.handle.opaque.is_null());
    }

    pub(crate) fn seqno(&self) -> i64 {
        self.meta.gtid.seqno
    }

    pub(crate) fn id(&self) -> u64 {
        self.handle.trx_id
    }
}

fn buf(bytes: &[u8]) -> wsrep_buf_t {
    wsrep_buf_t {
        ptr: bytes.as_ptr().cast(),
        len: bytes.len(),
    }
}

fn text(text: *const c_char) -> String {
    // SAFETY: NUL-terminated texts of the provider.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// The logger gets no context, so each server of a process has one of its own.
macro_rules! loggers {
    ($($name:ident $slot:expr),*) => {
        $(unsafe extern "C-unwind" fn $name(level: wsrep_log_level_t, line: *const c_char) {
            let logging = *LOGGING[$slot].lock().unwrap();
            if let Some(inner) = logging {
                inner.log.lock().unwrap().push((level, text(line)));
                inner.changed.notify_all();
            }
        })*
        const LOGGERS: &[unsafe extern "C-unwind" fn(wsrep_log_level_t, *const c_char)] =
            &[$($name),*];
        static LOGGING: [Mutex<Option<&'static Inner>>; LOGGERS.len()] =
            [const { Mutex::new(None) }; LOGGERS.len()];
    };
}

loggers!(
    log_0 0, log_1 1, log_2 2, log_3 3, log_4 4, log_5 5, log_6 6, log_7 7, log_8 8, log_9 9,
    log_10 10, log_11 11, log_12 12, log_13 13, log_14 14, log_15 15, log_16 16, log_17 17,
    log_18 18, log_19 19, log_20 20, log_21 21, log_22 22, log_23 23, log_24 24, log_25 25
);

fn logger_for(
    inner: &'static Inner,
) -> unsafe extern "C-unwind" fn(wsrep_log_level_t, *const c_char) {
    for (slot, logger) in LOGGING.iter().zip(LOGGERS) {
        let mut slot = slot.lock().unwrap();
        if slot.is_none() {
            *slot = Some(inner);
            return *logger;
        }
    }
    panic!("more servers at once than loggers: add some");
}

/// The server is gone; another one may have its logger.
fn free_logger(inner: &'static Inner) {
    for slot in &LOGGING {
        let mut slot = slot.lock().unwrap();
        if slot.is_some_and(|other| ptr::eq(other, inner)) {
            *slot = None;
        }
    }
}

/// # Safety
/// A context of these tests.
unsafe fn inner(ctx: *mut c_void) -> &'static Inner {
    // SAFETY: by contract of this function; they are never freed.
    unsafe { &*ctx.cast::<Inner>() }
}

/// # Safety
/// A view of the provider.
unsafe fn member_ids(view: &wsrep_view_info_t) -> Vec<[u8; 16]> {
    let count = usize::try_from(view.memb_num).expect("a number of members");
    // SAFETY: the view has this many members behind its header.
    unsafe {
        let first = ptr::from_ref(view).byte_add(WSREP_VIEW_HEADER_SIZE);
        let first = first.cast::<wsrep_member_info_t>();
        (0..count).map(|at| (*first.add(at)).id.data).collect()
    }
}

/// # Safety
/// A view of the provider.
unsafe fn own_id(view: &wsrep_view_info_t) -> [u8; 16] {
    let index = usize::try_from(view.my_idx).expect("connected with an own place");
    // SAFETY: the view has this many members behind its header.
    unsafe {
        let first = ptr::from_ref(view).byte_add(WSREP_VIEW_HEADER_SIZE);
        (*first.cast::<wsrep_member_info_t>().add(index)).id.data
    }
}

unsafe extern "C-unwind" fn on_connected(
    app_ctx: *mut c_void,
    view: *const wsrep_view_info_t,
) -> wsrep_cb_status_t {
    // SAFETY: as the interface says.
    let (server, view) = unsafe { (inner(app_ctx), &*view) };
    // SAFETY: a view.
    let me = unsafe { own_id(view) };
    let (seqno, group) = (view.state_id.seqno, view.state_id.uuid.data);
    server.see(Seen::Connected { seqno, me, group });
    WSREP_CB_SUCCESS
}

unsafe extern "C-unwind" fn on_view(
    app_ctx: *mut c_void,
    recv_ctx: *mut c_void,
    view: *const wsrep_view_info_t,
    _: *const c_char,
    _: usize,
) -> wsrep_cb_status_t {
    assert_eq!(app_ctx, recv_ctx, "the context of the calling thread");
    // SAFETY: as the interface says.
    let (server, view) = unsafe { (inner(app_ctx), &*view) };
    if view.status == WSREP_VIEW_PRIMARY {
        // SAFETY: a view.
        server.see_members(unsafe { member_ids(view) });
    }
    server.see(Seen::View {
        status: view.status,
        seqno: view.state_id.seqno,
        own: view.my_idx,
        members: view.memb_num,
        committed_inside: server.last_committed().seqno,
    });
    WSREP_CB_SUCCESS
}

unsafe extern "C-unwind" fn on_sst_request(
    app_ctx: *mut c_void,
    request: *mut *mut c_void,
    len: *mut usize,
) -> wsrep_cb_status_t {
    // SAFETY: as the interface says.
    let server = unsafe { inner(app_ctx) };
    let bytes = *server.copy_request.lock().unwrap();
    // SAFETY: room for the results; the copy has as many bytes as were allocated.
    unsafe {
        let copy = libc::malloc(bytes.len().max(1));
        copy.cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        *request = copy;
        *len = bytes.len();
    }
    server.see(Seen::RequestedCopy);
    WSREP_CB_SUCCESS
}

unsafe extern "C-unwind" fn on_sst_donate(
    app_ctx: *mut c_void,
    _: *mut c_void,
    request: *const wsrep_buf_t,
    state_id: *const wsrep_gtid_t,
    _: *const wsrep_buf_t,
    _: wsrep_bool_t,
) -> wsrep_cb_status_t {
    // SAFETY: as the interface says.
    let (server, request, seqno) = unsafe { (inner(app_ctx), &*request, (*state_id).seqno) };
    // SAFETY: the bytes of the buffer.
    let bytes = unsafe { std::slice::from_raw_parts(request.ptr.cast::<u8>(), request.len) };
    server.see(Seen::Donates {
        to: String::from_utf8_lossy(bytes).into_owned(),
        seqno,
    });
    server.until("the end of a slow copy", |_| {
        !server.donates_slowly.load(Ordering::SeqCst)
    });
    WSREP_CB_SUCCESS
}

unsafe extern "C-unwind" fn on_synced(app_ctx: *mut c_void) -> wsrep_cb_status_t {
    // SAFETY: as the interface says.
    unsafe { inner(app_ctx) }.see(Seen::Synced);
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
    // SAFETY: as the interface says.
    let (server, handle, data, meta) = unsafe { (inner(recv_ctx), &*handle, &*data, &*meta) };
    assert!(!handle.opaque.is_null());
    let bytes = match data.len {
        // It may have no address.
        0 => &[],
        // SAFETY: the bytes of the buffer.
        len => unsafe { std::slice::from_raw_parts(data.ptr.cast::<u8>(), len) },
    };
    let data = String::from_utf8_lossy(bytes).into_owned();
    let seqno = meta.gtid.seqno;
    assert!(
        server.last_committed().seqno >= meta.depends_on,
        "{seqno} is too early"
    );
    let t = server.t();
    // SAFETY: the provider's own values, back.
    let enter = || unsafe { t.commit_order_enter.unwrap()(server.table, handle, meta) };
    let leave = |error: *const wsrep_buf_t| {
        // SAFETY: the provider's own values, back.
        unsafe { t.commit_order_leave.unwrap()(server.table, handle, meta, error) }
    };
    let hook = server.hook.lock().unwrap().clone();
    let verdict = match hook {
        Some(hook) => hook(&Applying {
            server,
            seqno,
            data: data.clone(),
        }),
        None => Verdict::Commit,
    };
    let is_in = enter() == WSREP_OK;
    // As MariaDB does: the position moves over what has failed, in its turn or not, before the
    // provider hears of the failure.
    if is_in || verdict == Verdict::Fail {
        server.engine.store(seqno, Ordering::SeqCst);
    }
    if !is_in {
        server.see(Seen::NotApplied { seqno });
        return WSREP_CB_FAILURE;
    }
    if verdict == Verdict::Fail {
        let error = *server.error.lock().unwrap();
        return match leave(&buf(error)) {
            WSREP_OK => {
                server.see(Seen::FailedAlike { seqno });
                WSREP_CB_SUCCESS
            }
            other => {
                assert_eq!(other, WSREP_NODE_FAIL);
                server.see(Seen::NotApplied { seqno });
                WSREP_CB_FAILURE
            }
        };
    }
    match flags {
        0x45 => server.see(Seen::Executed { seqno }),
        0x41 => server.see(Seen::Applied { seqno, data }),
        _ => server.see_streamed(flags, meta, data),
    }
    assert_eq!(leave(ptr::null()), WSREP_OK);
    // SAFETY: room for the result.
    unsafe { *exit_loop = wsrep_bool_t::from(verdict == Verdict::CommitAndExit) };
    WSREP_CB_SUCCESS
}

/// Waits for what is not announced.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + LIMIT;
    while !holds() {
        assert!(
            std::time::Instant::now() < deadline,
            "waited in vain: {what}"
        );
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
}
