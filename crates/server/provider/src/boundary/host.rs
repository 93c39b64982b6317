//! State behind a table's `ctx`: the provider, its callbacks, and the guards around each call.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use wsrep_sys::wsrep_t;

use super::callbacks::{Callbacks, RecvContext};
use crate::api::{Constructor, InitArgs, LogLevel, ProviderApi, Status};

/// State of one loaded provider.
///
/// Never freed: the server may still have threads on their way out of a call when it calls `free`,
/// and loads one provider per process, so a few hundred bytes buy freedom from that race.
pub(super) struct Host {
    constructor: Constructor,
    running: OnceLock<Running>,
}

struct Running {
    provider: Arc<dyn ProviderApi>,
    callbacks: Callbacks,
}

impl Host {
    /// A host without a provider, for `ctx`.
    pub(super) fn leak(constructor: Constructor) -> *mut Host {
        Box::into_raw(Box::new(Host {
            constructor,
            running: OnceLock::new(),
        }))
    }

    /// The host of a table, until `free`.
    ///
    /// # Safety
    /// `w` is NULL or a table filled by [`super::fill_table`], not yet freed by the server.
    unsafe fn of(w: *mut wsrep_t) -> Option<&'static Host> {
        // SAFETY: `ctx` of a filled table is NULL or a host, and hosts are never freed.
        unsafe { slot(w)?.load(Ordering::Acquire).as_ref() }
    }

    fn fence_after_panic(&self, payload: Box<dyn Any + Send>, ctx: Option<RecvContext>) {
        let Some(running) = self.running.get() else {
            return;
        };
        let reason = format!(
            "internal error, node taken out of service: {}",
            panic_text(&*payload)
        );
        // Dropping a payload may run anything, even another panic.
        std::mem::forget(payload);
        running.callbacks.fence(&reason);
        let fenced = catch_unwind(AssertUnwindSafe(|| running.provider.fenced(&reason, ctx)));
        if let Err(second) = fenced {
            running.callbacks.log(
                LogLevel::Error,
                &format!("while fencing: {}", panic_text(&*second)),
            );
            std::mem::forget(second);
        }
    }
}

/// The table's `ctx`, shared with all threads that call.
///
/// # Safety
/// As [`Host::of`].
unsafe fn slot<'a>(w: *mut wsrep_t) -> Option<&'a AtomicPtr<Host>> {
    if w.is_null() {
        return None;
    }
    // SAFETY: not NULL, so a table, aligned; its `ctx` is accessed atomically by this module only.
    Some(unsafe { AtomicPtr::from_ptr((&raw mut (*w).ctx).cast()) })
}

/// Puts a host into a table.
///
/// # Safety
/// `w` points to a table owned by the caller.
pub(super) unsafe fn install(w: *mut wsrep_t, host: *mut Host) {
    // SAFETY: a table by contract of this function.
    if let Some(slot) = unsafe { slot(w) } {
        slot.store(host, Ordering::Release);
    }
}

/// Builds the provider. NODE_FAIL, after saying why, if that fails or was done before.
///
/// # Safety
/// As [`Host::of`].
pub(super) unsafe fn start(w: *mut wsrep_t, args: InitArgs, callbacks: Callbacks) -> Status {
    // SAFETY: by contract of this function.
    let Some(host) = (unsafe { Host::of(w) }) else {
        return Status::NodeFail;
    };
    if host.running.get().is_some() {
        callbacks.log(LogLevel::Error, "init called twice");
        return Status::NodeFail;
    }
    let built = catch_unwind(AssertUnwindSafe(|| {
        (host.constructor)(args, callbacks.clone())
    }));
    match built {
        Ok(Ok(provider)) => {
            let first = host
                .running
                .set(Running {
                    provider,
                    callbacks,
                })
                .is_ok();
            if first { Status::Ok } else { Status::NodeFail }
        }
        Ok(Err(error)) => {
            callbacks.log(LogLevel::Error, &error.to_string());
            Status::NodeFail
        }
        Err(payload) => {
            callbacks.fence(&format!(
                "internal error during init: {}",
                panic_text(&*payload)
            ));
            std::mem::forget(payload);
            Status::NodeFail
        }
    }
}

/// Runs `body` with the provider; `refused` if there is none, the node is fenced (before or after),
/// or the body panics.
///
/// # Safety
/// As [`Host::of`].
pub(super) unsafe fn call<R>(
    w: *mut wsrep_t,
    refused: R,
    body: impl FnOnce(&dyn ProviderApi) -> R,
) -> R {
    // SAFETY: by contract of this function.
    let Some((host, running)) = (unsafe { running(w) }) else {
        return refused;
    };
    if running.callbacks.is_fenced() {
        return refused;
    }
    match guarded(host, running, None, body) {
        // An answer found after another thread has panicked may rest on broken state.
        Some(answer) if !running.callbacks.is_fenced() => answer,
        _ => refused,
    }
}

/// [`call`] for functions that acknowledge nothing and that the server cannot do without; also when
/// fenced.
///
/// # Safety
/// As [`Host::of`].
pub(super) unsafe fn call_always<R>(
    w: *mut wsrep_t,
    refused: R,
    body: impl FnOnce(&dyn ProviderApi) -> R,
) -> R {
    // SAFETY: by contract of this function.
    let Some((host, running)) = (unsafe { running(w) }) else {
        return refused;
    };
    guarded(host, running, None, body).unwrap_or(refused)
}

/// `recv`: as [`call_always`] (a late thread must be able to deliver the last view), but a panic's
/// `fenced` gets the context.
///
/// # Safety
/// As [`Host::of`].
pub(super) unsafe fn call_recv(w: *mut wsrep_t, ctx: RecvContext) -> Status {
    // SAFETY: by contract of this function.
    let Some((host, running)) = (unsafe { running(w) }) else {
        return Status::NodeFail;
    };
    guarded(host, running, Some(ctx), |p| p.recv(ctx)).unwrap_or(Status::NodeFail)
}

/// Stops the provider if this is the first call for the table.
///
/// # Safety
/// As [`Host::of`].
pub(super) unsafe fn stop(w: *mut wsrep_t) {
    // SAFETY: by contract of this function.
    let Some(slot) = (unsafe { slot(w) }) else {
        return;
    };
    // SAFETY: NULL or a host; hosts are never freed.
    let host: Option<&'static Host> =
        unsafe { slot.swap(std::ptr::null_mut(), Ordering::AcqRel).as_ref() };
    if let Some((host, running)) = host.and_then(|h| Some((h, h.running.get()?))) {
        guarded(host, running, None, |p| p.shutdown());
    }
}

/// # Safety
/// As [`Host::of`].
unsafe fn running(w: *mut wsrep_t) -> Option<(&'static Host, &'static Running)> {
    // SAFETY: by contract of this function.
    let host = unsafe { Host::of(w) }?;
    Some((host, host.running.get()?))
}

fn guarded<R>(
    host: &Host,
    running: &Running,
    ctx: Option<RecvContext>,
    body: impl FnOnce(&dyn ProviderApi) -> R,
) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(|| body(&*running.provider))) {
        Ok(answer) => Some(answer),
        Err(payload) => {
            host.fence_after_panic(payload, ctx);
            None
        }
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "panic without a message".to_owned())
}
