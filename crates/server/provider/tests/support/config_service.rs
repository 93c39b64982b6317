//! The config service, registered as MariaDB 11.8 does it at its start.

use wsrep_sys::*;

/// Parameters, filled in by the library.
pub(crate) fn get_parameters() -> wsrep_get_parameters_fn_t {
    let mut service = wsrep_config_service_v1_t {
        get_parameters: None,
    };
    // SAFETY: a service that may be written.
    let answer = unsafe { synod::boundary::wsrep_init_config_service_v1(&mut service) };
    assert_eq!(answer, WSREP_OK);
    service.get_parameters
}
