//! Status variables as an array for the server.
//!
//! The server reads the array up to the element without a name, and gives it back to be freed.

use std::ffi::CString;
use std::ptr;

use wsrep_sys as sys;

use super::convert;
use crate::api::{StatValue, StatVar};

/// Allocates the array, ended by an element without a name.
pub(super) fn allocate(vars: Vec<StatVar>) -> *mut sys::wsrep_stats_var {
    let mut array: Vec<sys::wsrep_stats_var> = vars.into_iter().map(element).collect();
    array.push(sys::wsrep_stats_var {
        name: ptr::null(),
        type_: sys::WSREP_VAR_INT64,
        value: sys::wsrep_stats_value_t { int64: 0 },
    });
    Box::into_raw(array.into_boxed_slice()).cast()
}

fn element(var: StatVar) -> sys::wsrep_stats_var {
    let name = convert::c_text(&var.name).into_raw();
    let (type_, value) = match var.value {
        StatValue::Str(text) => {
            let string = convert::c_text(&text).into_raw();
            (sys::WSREP_VAR_STRING, sys::wsrep_stats_value_t { string })
        }
        StatValue::Int(int64) => (sys::WSREP_VAR_INT64, sys::wsrep_stats_value_t { int64 }),
        StatValue::Double(double) => (sys::WSREP_VAR_DOUBLE, sys::wsrep_stats_value_t { double }),
    };
    sys::wsrep_stats_var { name, type_, value }
}

/// Frees what [`allocate`] returned.
///
/// # Safety
/// `first` is NULL or came from [`allocate`], unchanged and not freed before.
pub(super) unsafe fn free(first: *mut sys::wsrep_stats_var) {
    if first.is_null() {
        return;
    }
    let mut count = 0;
    // SAFETY: elements up to and including the nameless one are in the array.
    while unsafe { !(*first.add(count)).name.is_null() } {
        count += 1;
    }
    let slice = ptr::slice_from_raw_parts_mut(first, count + 1);
    // SAFETY: `allocate` made a box of exactly these elements.
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
