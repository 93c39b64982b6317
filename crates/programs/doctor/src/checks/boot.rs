//! Start of the server when its machine boots.
//!
//! Debian 12 enables `mariadb.socket`: from the boot on, systemd listens at the server's port, and
//! starts the server when a client connects. But before a server with wsrep starts, its unit runs
//! it for a moment to learn its position (`--wsrep-recover`), and that process gets none of
//! systemd's sockets. It finds the port taken and ends, and the server is not started.

use crate::facts::MachineFacts;
use crate::finding::{Finding, Severity, Subject};

/// Finds nothing on a machine without systemd, or whose systemd does not answer.
pub(super) fn judge(machine: &MachineFacts) -> Option<Finding> {
    Some(match machine.listens_from_boot? {
        false => Finding::good(Subject::Boot, "the server can start when the machine boots"),
        true => Finding::new(
            Subject::Boot,
            Severity::Problem,
            "mariadb.socket is enabled: systemd listens at the server's port from the boot on",
            "a server with wsrep is run for its position before it starts, finds its port taken \
             ('Bind on TCP/IP port. Got error: 98'), and is not started",
            "systemctl disable --now mariadb.socket",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_that_systemd_opens_at_boot_is_a_problem() {
        let found = |listens_from_boot| {
            let machine = MachineFacts {
                listens_from_boot,
                ..MachineFacts::default()
            };
            judge(&machine)
        };
        assert_eq!(found(None), None, "no systemd");
        assert_eq!(found(Some(false)).unwrap().severity, Severity::Good);
        let enabled = found(Some(true)).unwrap();
        assert_eq!(enabled.severity, Severity::Problem);
        assert!(enabled.remedy.contains("disable --now mariadb.socket"));
    }
}
