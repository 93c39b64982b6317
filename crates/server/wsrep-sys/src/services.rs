//! Services a server may register with a provider. MariaDB 10.11 registers the allowlist only, 11.8
//! also config and events; the others belong to Percona XtraDB Cluster and to servers to come.
//! A service that is accepted without being read has no struct here.
//!
//! A service has its version in the names of its two functions, `wsrep_init_<service>_service_v1`
//! and `wsrep_deinit_<service>_service_v1`, and none in its struct. So a server that needs a
//! version which is not exported finds no function, and says so itself.

use std::ffi::{c_char, c_int, c_void};

use crate::{wsrep_allowlist_key_t, wsrep_buf_t, wsrep_status_t, wsrep_t};

/// `(context, key, value)`: may this peer connect? `WSREP_OK` or `WSREP_NOT_ALLOWED`. The bytes of
/// `value` must be NUL-terminated, for the server ignores its length.
pub type wsrep_allowlist_cb_t = Option<
    unsafe extern "C-unwind" fn(
        context: *mut c_void,
        key: wsrep_allowlist_key_t,
        value: *const wsrep_buf_t,
    ) -> wsrep_status_t,
>;

/// Allowlist. Static in the server.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wsrep_allowlist_service_v1_t {
    pub allowlist_cb: wsrep_allowlist_cb_t,
    /// The server's; NULL in 10.11.
    pub context: *mut c_void,
}

/// Value of a parameter; its type is in the flags.
#[repr(C)]
#[derive(Clone, Copy)]
pub union wsrep_parameter_value_t {
    pub as_bool: u8,
    pub as_integer: i64,
    pub as_double: f64,
    pub as_string: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct wsrep_parameter_t {
    /// `WSREP_PARAM_*`.
    pub flags: c_int,
    pub name: *const c_char,
    pub value: wsrep_parameter_value_t,
}

/// `(parameter, context)`: takes note of a parameter.
pub type wsrep_parameter_cb_t = Option<
    unsafe extern "C-unwind" fn(
        parameter: *const wsrep_parameter_t,
        context: *mut c_void,
    ) -> wsrep_status_t,
>;

/// `(provider, callback, context)`: calls back with each parameter that the provider has.
pub type wsrep_get_parameters_fn_t = Option<
    unsafe extern "C-unwind" fn(
        w: *mut wsrep_t,
        callback: wsrep_parameter_cb_t,
        context: *mut c_void,
    ) -> wsrep_status_t,
>;

/// Config service, filled by the provider. 11.8 does not start with a provider that lacks it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wsrep_config_service_v1_t {
    pub get_parameters: wsrep_get_parameters_fn_t,
}

/// Asks which members there are. Its arguments are not described anywhere that this crate
/// could be written from, so a provider's function reads none: on x86-64 Linux a caller passes them
/// in registers and cleans up itself, so a callee may be unaware of them.
pub type wsrep_get_membership_fn_t = Option<unsafe extern "C" fn() -> wsrep_status_t>;

/// Membership service, filled by the provider; not used by 10.11 and 11.8.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wsrep_membership_service_v1_t {
    pub get_membership: wsrep_get_membership_fn_t,
}
