//! The server's callbacks as safe methods.
//!
//! Hold no lock across any of them but [`Callbacks::log`]: the server takes its own locks inside
//! and calls back into the provider while holding them.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use synod_node::LogQueue;
use wsrep_sys as sys;

use super::convert;
use super::convert::ViewBuffer;
use crate::api::{ExitLoop, Gtid, LogLevel, TrxHandle, TrxMeta, View, WsFlags};

/// Longest wait of a process's last words for the error log.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// The server refused, or failed in, a callback. For a view or `connected` that is fatal for the
/// node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackFailed {
    #[error(
        "the server refused the callback {name}; its own error lines say why (replication needs \
         InnoDB)"
    )]
    Refused { name: &'static str },
    #[error("the server has no callback {name}")]
    Missing { name: &'static str },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server could not apply seqno {seqno}")]
pub struct ApplyFailed {
    pub seqno: i64,
}

/// One applier thread of the server, lent to the provider by `recv`.
///
/// Valid until that `recv` returns, and only on the thread that called it: the server keeps the
/// thread's session in thread-local storage. It can be sent so that a scheduler may keep a table of
/// who waits; the callbacks taking it must still run on its own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecvContext(*mut c_void);

// SAFETY: an address that is only carried; who uses it on another thread breaks the rule above, and
// the server's own state with it, but touches no memory of ours.
unsafe impl Send for RecvContext {}

impl RecvContext {
    pub(super) fn new(ctx: *mut c_void) -> RecvContext {
        RecvContext(ctx)
    }

    /// A context of no server, for tests with [`Callbacks::none`].
    #[doc(hidden)]
    pub fn for_tests(number: usize) -> RecvContext {
        RecvContext(ptr::without_provenance_mut(number))
    }
}

/// The temporary applier of a replay: valid during that call of `replay`, on its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplayContext(*mut c_void);

// SAFETY: as for `RecvContext`.
unsafe impl Send for ReplayContext {}

impl ReplayContext {
    pub(super) fn new(ctx: *mut c_void) -> ReplayContext {
        ReplayContext(ctx)
    }

    /// A context of no server, for tests with [`Callbacks::none`].
    #[doc(hidden)]
    pub fn for_tests(number: usize) -> ReplayContext {
        ReplayContext(ptr::without_provenance_mut(number))
    }
}

/// The server, as the provider may call it. Cheap to clone; any thread may hold one.
#[derive(Clone)]
pub struct Callbacks(Arc<Inner>);

struct Inner {
    app_ctx: *mut c_void,
    logger: sys::wsrep_log_cb_t,
    connected: sys::wsrep_connected_cb_t,
    view: sys::wsrep_view_cb_t,
    sst_request: sys::wsrep_sst_request_cb_t,
    sst_donate: sys::wsrep_sst_donate_cb_t,
    apply: sys::wsrep_apply_cb_t,
    synced: sys::wsrep_synced_cb_t,
    fence: OnceLock<String>,
    /// Lines that wait for the thread that logs.
    lines: LogQueue<LogLevel>,
    log_thread: Mutex<Option<JoinHandle<()>>>,
}

// SAFETY: `app_ctx` is the server's, never read here, and the server's functions may be called from
// the threads that the interface names; the rest is `Sync` by itself.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Callbacks {
    pub(super) fn new(args: &sys::wsrep_init_args) -> Callbacks {
        Callbacks(Arc::new(Inner {
            app_ctx: args.app_ctx,
            logger: args.logger_cb,
            connected: args.connected_cb,
            view: args.view_cb,
            sst_request: args.sst_request_cb,
            sst_donate: args.sst_donate_cb,
            apply: args.apply_cb,
            synced: args.synced_cb,
            fence: OnceLock::new(),
            lines: LogQueue::default(),
            log_thread: Mutex::default(),
        }))
    }

    /// No server: log lines go to standard error, everything else answers
    /// [`CallbackFailed::Missing`].
    pub fn none() -> Callbacks {
        Callbacks(Arc::new(Inner {
            app_ctx: ptr::null_mut(),
            logger: None,
            connected: None,
            view: None,
            sst_request: None,
            sst_donate: None,
            apply: None,
            synced: None,
            fence: OnceLock::new(),
            lines: LogQueue::default(),
            log_thread: Mutex::default(),
        }))
    }

    /// A line for the server's error log. From any thread; safe under locks of ours. Waits for
    /// nothing while a thread logs, see `start_log_thread`.
    pub fn log(&self, level: LogLevel, text: &str) {
        if !self.0.lines.push(level, text) {
            self.write_line(level, text);
        }
    }

    /// From now on a thread hands the lines to the server, which may have to wait for its disk.
    pub(crate) fn start_log_thread(&self) {
        let mut thread = self.log_thread();
        if !self.0.lines.open() {
            return;
        }
        let callbacks = self.clone();
        match super::spawn("synod-loglines", move || callbacks.serve_log()) {
            Ok(started) => *thread = Some(started),
            Err(error) => {
                // Each thread writes its own lines, as before.
                self.0.lines.stop();
                self.serve_log();
                self.log(LogLevel::Warn, &format!("cannot start a thread: {error}"));
            }
        }
    }

    fn serve_log(&self) {
        self.0
            .lines
            .serve(LogLevel::Warn, |level, text| self.write_line(level, text));
    }

    /// Writes what waits, and ends the thread.
    pub(crate) fn stop_log_thread(&self) {
        let thread = self.log_thread().take();
        if let Some(thread) = thread {
            self.0.lines.stop();
            // It does not panic: it only calls the server.
            let _ = thread.join();
        }
    }

    /// Waits until the lines so far are written, but for a second at most: for the last words of a
    /// process, and what the server says next.
    pub(crate) fn flush_log(&self) {
        // If the error log hangs, so does the server.
        let _ = self.0.lines.flush(FLUSH_LIMIT);
    }

    fn log_thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.0
            .log_thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write_line(&self, level: LogLevel, text: &str) {
        let Some(logger) = self.0.logger else {
            eprintln!("{level:?}: {text}");
            return;
        };
        let line = convert::c_text(text);
        // SAFETY: the server's function; the text is NUL-terminated and lives until it returns.
        unsafe { logger(level.code(), line.as_ptr()) }
    }

    /// Takes the node out of service: logs why (FATAL), once, and makes the boundary answer
    /// NODE_FAIL from now on. For threads of the provider whose death must not go unnoticed.
    pub fn fence(&self, reason: &str) {
        if self.0.fence.set(reason.to_owned()).is_ok() {
            self.log(LogLevel::Fatal, reason);
            self.flush_log();
        }
    }

    pub fn is_fenced(&self) -> bool {
        self.0.fence.get().is_some()
    }

    pub fn fence_reason(&self) -> Option<&str> {
        self.0.fence.get().map(String::as_str)
    }

    /// The first primary view of a connection. On a `recv` thread, once per connect. If the server
    /// does not find itself in the view, that is fatal.
    pub fn connected(&self, view: &View) -> Result<(), CallbackFailed> {
        let name = "connected_cb";
        let callback = self.0.connected.ok_or(CallbackFailed::Missing { name })?;
        let buffer = ViewBuffer::new(view);
        // SAFETY: the server's function; the view lives until it returns.
        answer(name, unsafe { callback(self.0.app_ctx, buffer.as_ptr()) })
    }

    /// On the thread of `ctx`, in order with the actions. An error is fatal.
    pub fn view(&self, ctx: RecvContext, view: &View) -> Result<(), CallbackFailed> {
        let name = "view_cb";
        let callback = self.0.view.ok_or(CallbackFailed::Missing { name })?;
        let buffer = ViewBuffer::new(view);
        // SAFETY: the server's function; the view lives until it returns; no state is passed.
        let status = unsafe { callback(self.0.app_ctx, ctx.0, buffer.as_ptr(), ptr::null(), 0) };
        answer(name, status)
    }

    /// Asks the server to prepare for a full copy (SST); may take many seconds. `None`: a running
    /// server cannot take one, only catching up from the log is possible.
    pub fn sst_request(&self) -> Result<Option<Vec<u8>>, CallbackFailed> {
        let name = "sst_request_cb";
        let callback = self.0.sst_request.ok_or(CallbackFailed::Missing { name })?;
        let mut request: *mut c_void = ptr::null_mut();
        let mut len = 0usize;
        // SAFETY: the server's function; both results are ours and initialised.
        let status = unsafe { callback(self.0.app_ctx, &mut request, &mut len) };
        answer(name, status)?;
        if request.is_null() {
            return Ok(None);
        }
        // SAFETY: on success `request` has `len` bytes from `malloc`, ours to free.
        let bytes = unsafe { std::slice::from_raw_parts(request.cast::<u8>(), len) }.to_vec();
        // SAFETY: from the C library's `malloc`, copied, not used again.
        unsafe { libc::free(request) };
        Ok((!bytes.is_empty()).then_some(bytes))
    }

    /// Starts sending a full copy (SST) to the member whose `request` this is. `bypass`: only send
    /// it `gtid`, its own position. In total order on the thread of `ctx`. On an error nothing is
    /// sent; the joiner must get to know.
    pub fn sst_donate(
        &self,
        ctx: RecvContext,
        request: &[u8],
        gtid: Gtid,
        bypass: bool,
    ) -> Result<(), CallbackFailed> {
        let name = "sst_donate_cb";
        let callback = self.0.sst_donate.ok_or(CallbackFailed::Missing { name })?;
        let request = convert::c_buf(request);
        let gtid = convert::gtid_to_c(gtid);
        // SAFETY: the server's function; everything pointed to lives until it returns.
        let status = unsafe {
            callback(
                self.0.app_ctx,
                ctx.0,
                &request,
                &gtid,
                ptr::null(),
                u8::from(bypass),
            )
        };
        answer(name, status)
    }

    /// Applies an action on the thread of `ctx`. `handle.opaque` must be set: the server takes a
    /// handle without it for "no transaction". After an error the node must leave the group.
    pub fn apply(
        &self,
        ctx: RecvContext,
        handle: &TrxHandle,
        flags: WsFlags,
        data: &[u8],
        meta: &TrxMeta,
    ) -> Result<ExitLoop, ApplyFailed> {
        self.apply_in(ctx.0, handle, flags, data, meta)
    }

    /// Applies the own action again within `replay`, on that call's thread. After an error the node
    /// must leave the group.
    pub fn apply_replay(
        &self,
        ctx: ReplayContext,
        handle: &TrxHandle,
        flags: WsFlags,
        data: &[u8],
        meta: &TrxMeta,
    ) -> Result<ExitLoop, ApplyFailed> {
        self.apply_in(ctx.0, handle, flags, data, meta)
    }

    fn apply_in(
        &self,
        ctx: *mut c_void,
        handle: &TrxHandle,
        flags: WsFlags,
        data: &[u8],
        meta: &TrxMeta,
    ) -> Result<ExitLoop, ApplyFailed> {
        let failed = ApplyFailed {
            seqno: meta.gtid.seqno,
        };
        let callback = self.0.apply.ok_or(failed)?;
        if handle.opaque.is_none() {
            return Err(failed);
        }
        let handle = convert::handle_to_c(*handle);
        let data = convert::c_buf(data);
        let meta = convert::meta_to_c(*meta);
        let mut exit_loop: sys::wsrep_bool_t = 0;
        // SAFETY: the server's function; everything pointed to lives until it returns, and the
        // result is initialised.
        let status = unsafe { callback(ctx, &handle, flags.0, &data, &meta, &mut exit_loop) };
        match (status, exit_loop) {
            (sys::WSREP_CB_SUCCESS, 0) => Ok(ExitLoop::No),
            (sys::WSREP_CB_SUCCESS, _) => Ok(ExitLoop::Yes),
            _ => Err(failed),
        }
    }

    /// The node has caught up after a join, a donation, a resync or a re-merge. On a `recv` thread.
    pub fn synced(&self) -> Result<(), CallbackFailed> {
        let name = "synced_cb";
        let callback = self.0.synced.ok_or(CallbackFailed::Missing { name })?;
        // SAFETY: the server's function.
        answer(name, unsafe { callback(self.0.app_ctx) })
    }
}

fn answer(name: &'static str, status: sys::wsrep_cb_status_t) -> Result<(), CallbackFailed> {
    if status == sys::WSREP_CB_SUCCESS {
        Ok(())
    } else {
        Err(CallbackFailed::Refused { name })
    }
}
