//! The options as parameters that the server makes variables of (the config service of MariaDB
//! 11.4 and later).

use std::ffi::{CString, c_int, c_void};

use wsrep_sys as sys;

use super::convert;
use super::host::call_always;
use crate::options::{Parameter, ParameterValue};

/// Calls back with each option. Without a provider there are none.
///
/// # Safety
/// `w` is NULL or a filled table that the server has not freed; `callback` takes `context` and a
/// parameter that is valid during the call.
pub(super) unsafe extern "C-unwind" fn get_parameters(
    w: *mut sys::wsrep_t,
    callback: sys::wsrep_parameter_cb_t,
    context: *mut c_void,
) -> sys::wsrep_status_t {
    let Some(callback) = callback else {
        return sys::WSREP_OK;
    };
    // SAFETY: by contract of this function.
    let parameters = unsafe { call_always(w, Vec::new(), |p| p.parameters()) };
    for parameter in &parameters {
        let name = convert::c_text(parameter.name);
        let text = text_of(parameter);
        let parameter = sys::wsrep_parameter_t {
            flags: flags_of(parameter),
            name: name.as_ptr(),
            value: value_of(parameter, &text),
        };
        // SAFETY: the server's function by contract; the parameter and its texts live until it
        // returns, and it copies them.
        let taken = unsafe { callback(&raw const parameter, context) };
        if taken != sys::WSREP_OK {
            return taken;
        }
    }
    sys::WSREP_OK
}

fn flags_of(parameter: &Parameter) -> c_int {
    let kind = match parameter.value {
        ParameterValue::Bool(_) => sys::WSREP_PARAM_TYPE_BOOL,
        ParameterValue::Integer(_) => sys::WSREP_PARAM_TYPE_INTEGER,
        ParameterValue::Real(_) => sys::WSREP_PARAM_TYPE_DOUBLE,
        // A text is what has no other type.
        ParameterValue::Text(_) => 0,
    };
    match parameter.is_read_only {
        true => kind | sys::WSREP_PARAM_READONLY,
        false => kind,
    }
}

/// The value, if it is a text.
fn text_of(parameter: &Parameter) -> CString {
    match &parameter.value {
        ParameterValue::Text(text) => convert::c_text(text),
        ParameterValue::Bool(_) | ParameterValue::Integer(_) | ParameterValue::Real(_) => {
            CString::default()
        }
    }
}

/// The value for the server, with a pointer to `text` if it is a text.
fn value_of(parameter: &Parameter, text: &CString) -> sys::wsrep_parameter_value_t {
    match parameter.value {
        ParameterValue::Bool(is_on) => sys::wsrep_parameter_value_t {
            as_bool: u8::from(is_on),
        },
        ParameterValue::Integer(as_integer) => sys::wsrep_parameter_value_t { as_integer },
        ParameterValue::Real(as_double) => sys::wsrep_parameter_value_t { as_double },
        ParameterValue::Text(_) => sys::wsrep_parameter_value_t {
            as_string: text.as_ptr(),
        },
    }
}
