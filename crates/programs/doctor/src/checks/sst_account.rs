//! The account by which a donor's server is copied.

use crate::facts::ServerFacts;
use crate::finding::{Finding, Severity, Subject};

/// The user as whom MariaDB's packages run the server, and the name of the account that they make
/// for it.
const SERVERS_USER: &str = "mysql";

/// `mariabackup` is a client of the donor's server: by `wsrep_sst_auth`, or as the server's own
/// user by the socket. `rsync` needs no account.
pub(super) fn judge(server: &ServerFacts) -> Option<Finding> {
    let method = server.variable("wsrep_sst_method");
    let needs_account = matches!(method, "mariabackup" | "mysqldump");
    if !needs_account || !server.variable("wsrep_sst_auth").is_empty() {
        return None;
    }
    let remedy = "CREATE USER sst@localhost IDENTIFIED BY 'PASSWORD'; GRANT RELOAD, PROCESS, LOCK \
                  TABLES, BINLOG MONITOR, REPLICA MONITOR ON *.* TO sst@localhost; and on all \
                  servers: wsrep_sst_auth = sst:PASSWORD";
    match &server.socket_accounts {
        Some(accounts) if accounts.iter().any(|name| name == SERVERS_USER) => None,
        Some(_) => Some(Finding::new(
            Subject::Settings,
            Severity::Problem,
            format!(
                "wsrep_sst_auth is empty, and there is no account {SERVERS_USER}@localhost with \
                 unix_socket"
            ),
            format!(
                "the next server that needs a full copy by {method} gets none: its donor's server \
                 refuses the connection"
            ),
            remedy,
        )),
        None => Some(Finding::new(
            Subject::Settings,
            Severity::Note,
            "wsrep_sst_auth is empty",
            format!(
                "{method} then works only if {SERVERS_USER}@localhost may connect by unix_socket; \
                 the doctor's account may not see that (SELECT on mysql.global_priv)"
            ),
            remedy,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(method: &str, auth: &str, accounts: Option<&[&str]>) -> Option<Severity> {
        let mut server = ServerFacts::default();
        for (name, value) in [("wsrep_sst_method", method), ("wsrep_sst_auth", auth)] {
            server.variables.insert(name.to_owned(), value.to_owned());
        }
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        server.socket_accounts = accounts.map(names);
        judge(&server).map(|finding| finding.severity)
    }

    #[test]
    fn copy_by_mariabackup_needs_an_account() {
        let none = Some(&["root"][..]);
        assert_eq!(judged("mariabackup", "", none), Some(Severity::Problem));
        assert_eq!(judged("mariabackup", "", None), Some(Severity::Note));
        assert_eq!(judged("mariabackup", "", Some(&["root", "mysql"])), None);
        // The server shows stars for what is set.
        assert_eq!(judged("mariabackup", "********", none), None);
        assert_eq!(judged("rsync", "", none), None);
    }
}
