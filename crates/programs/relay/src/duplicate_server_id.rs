//! Readers with a number that another one has: a server whose transactions they lack, or a reader.
//!
//! A replica leaves out what has its own `server_id`: it takes it for its own, come back to it. So
//! it would follow, say that all is well, and have nothing. A primary with that number is refused
//! by the replica itself; behind a relay, the replica sees the relay's number only.

use std::net::SocketAddr;

use synod_binlog::{Gtid, GtidList};

use crate::accounts::Accounts;
use crate::identity::Identity;
use crate::protocol::answer::Refusal;
use crate::upstream_log::state::GtidState;

/// Refuses a reader with the number that the relay shows.
///
/// # Errors
/// With the remedy.
pub(crate) fn check_relay(server_id: u32, identity: Identity) -> Result<(), Refusal> {
    if server_id != identity.server_id {
        return Ok(());
    }
    Err(Refusal::dump(format!(
        "The reader's server_id is {server_id}, which this group has for its readers. Give the \
         reader another server_id"
    )))
}

/// Refuses a reader that has these GTIDs, and the number of a server that has written a newest
/// transaction which the reader lacks: at once, though the dump would come to it, too
/// ([`own_transaction`]). A former primary that lacks nothing of its own may follow.
///
/// # Errors
/// With the remedy.
pub(crate) fn check_upstream(
    server_id: u32,
    gtids: Option<&str>,
    newest: &GtidState,
) -> Result<(), Refusal> {
    // What is no list is refused where the dump begins.
    let has = gtids.and_then(|list| list.parse::<GtidList>().ok());
    let has = GtidState::of(&has.unwrap_or_default());
    match newest.of_server(server_id, &has) {
        None => Ok(()),
        Some(lacked) => Err(Refusal::dump(own_transaction(lacked))),
    }
}

/// The error for a reader that lacks a transaction which a server with the reader's number has
/// written.
pub(crate) fn own_transaction(lacked: Gtid) -> String {
    format!(
        "The reader's server_id is {}, and so is that of the server that has written {lacked}, \
         which the reader lacks: a replica leaves out what has its own number, without an error. \
         Give the reader another server_id",
        lacked.server_id
    )
}

/// Refuses a number that is bound to another account, or that is none of the reader's account.
///
/// # Errors
/// With the remedy.
pub(crate) fn check_account(
    accounts: &Accounts,
    account: &str,
    server_id: u32,
) -> Result<(), Refusal> {
    if accounts.may_be(account, server_id) {
        return Ok(());
    }
    Err(Refusal::dump(format!(
        "The reader's server_id is {server_id}, which account '{account}' may not have \
         (relay.server_ids in the relay's file). Give the reader its own server_id, or add it there"
    )))
}

/// The error for a reader whose dump ends because a newer reader has its `server_id`.
///
/// Its text begins as that of MySQL does: a relay that reads from this one knows these words.
pub(crate) fn displaced(server_id: u32, newer: SocketAddr) -> Refusal {
    Refusal::dump(format!(
        "A slave with the same server_uuid/server_id as this one has connected to this relay, from \
         {newer}. Both readers have server_id {server_id}, and a relay serves the newer one. Give \
         one of them another server_id, then start this reader again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(server_id: u32, gtids: &str) -> Option<String> {
        let newest = GtidState::of(&"0-7-30,1-8-4".parse().unwrap());
        let checked = check_upstream(server_id, Some(gtids), &newest);
        checked.err().map(|refusal| refusal.text)
    }

    #[test]
    fn number_of_a_server_is_refused_to_readers_that_lack_what_it_wrote() {
        let text = refused(7, "0-7-29").unwrap();
        assert!(text.contains("server_id is 7") && text.contains("0-7-30"));
        assert!(refused(8, "0-7-30").is_some() && refused(7, "nonsense").is_some());
        assert_eq!(refused(7, "0-7-30"), None, "a former primary");
        assert_eq!(refused(9, ""), None);
        assert_eq!(refused(0, ""), None, "mariadb-binlog");
    }

    #[test]
    fn number_of_the_relay_is_refused() {
        let identity = Identity {
            domain: 1,
            server_id: 5,
        };
        assert!(check_relay(5, identity).is_err() && check_relay(6, identity).is_ok());
    }
}
