//! Capabilities of this provider, for `capabilities()` and every view.
//!
//! Said once, because both `capabilities()` and every view carry it.

use wsrep_sys as sys;

/// The bits of `wsrep_provider_capabilities`.
pub(crate) const CAPABILITIES: u32 = sys::WSREP_CAP_MULTI_MASTER
    | sys::WSREP_CAP_CERTIFICATION
    | sys::WSREP_CAP_PARALLEL_APPLYING
    | sys::WSREP_CAP_TRX_REPLAY
    | sys::WSREP_CAP_ISOLATION
    | sys::WSREP_CAP_PAUSE
    | sys::WSREP_CAP_CAUSAL_READS
    | sys::WSREP_CAP_INCREMENTAL_WRITESET
    | sys::WSREP_CAP_STREAMING;
