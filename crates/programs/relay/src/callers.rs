//! Callers that have not proven a password: from their first byte to a seat, within bounds.
//!
//! Every process that reaches the port may call, so callers have a pool of their own. A new one
//! beyond the limit ends the oldest of the address that has most: a crowd competes with itself.
//! Greeting, encryption and proof have one deadline, however slowly the bytes come.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use synod_binlog::words::excerpt;

use synod_node::{CallSource, oldest_of_fullest_address};
use synod_tls::ServiceTls;
use synod_upstream::ClientManner;
use synod_upstream::server::PasswordKey;

use crate::accounts::Challenge;
use crate::dump::DumpError;
use crate::encryption::Encrypting;
use crate::lock;
use crate::protocol::greeting::{
    NATIVE_PASSWORD, Offers, asks_for_encryption, credentials, greeting, other_proof,
};
use crate::protocol::packet::{Connection, Packets, Refusal};
use crate::reader_connection::{Relay, not_in_group};

/// Time limit for a caller to prove a password, in all.
pub(crate) const PROOF_LIMIT: Duration = Duration::from_secs(5);
const CALLERS_MAX: usize = 64;
/// Callers at a time whose connection was ended here, and whose thread has not.
const ENDING_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Callers {
    callers: Mutex<HashMap<u32, Caller>>,
    left: Condvar,
}

#[derive(Debug)]
struct Caller {
    stream: TcpStream,
    source: CallSource,
    since: Instant,
    is_ending: bool,
}

/// The place of one caller, until this is dropped.
#[derive(Debug)]
pub(crate) struct CallerPlace<'a> {
    callers: &'a Callers,
    connection: u32,
    /// The address of a caller whose connection was ended for this one.
    pub(crate) instead_of: Option<IpAddr>,
}

impl Callers {
    /// A place for the caller of this connection. Waits while too many are ending.
    pub(crate) fn enter(
        &self,
        connection: u32,
        stream: &TcpStream,
        from: SocketAddr,
    ) -> io::Result<CallerPlace<'_>> {
        let caller = Caller {
            stream: stream.try_clone()?,
            source: CallSource::of(from.ip()),
            since: Instant::now(),
            is_ending: false,
        };
        let is_full =
            |callers: &mut HashMap<u32, Caller>| callers.len() >= CALLERS_MAX + ENDING_MAX;
        let waited = self.left.wait_while(lock(&self.callers), is_full);
        let mut callers = waited.unwrap_or_else(PoisonError::into_inner);
        let instead_of = make_room(&mut callers);
        callers.insert(connection, caller);
        Ok(CallerPlace {
            callers: self,
            connection,
            instead_of,
        })
    }

    pub(crate) fn end_connections(&self) {
        lock(&self.callers).values_mut().for_each(Caller::end);
    }
}

impl Caller {
    fn end(&mut self) {
        // It may have ended already.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.is_ending = true;
    }
}

/// Ends a connection if there is no room for one more; the address that it came from.
fn make_room(callers: &mut HashMap<u32, Caller>) -> Option<IpAddr> {
    let staying = callers.iter().filter(|(_, caller)| !caller.is_ending);
    let pool = staying.map(|(id, caller)| (*id, caller.source, caller.since));
    if pool.clone().count() < CALLERS_MAX {
        return None;
    }
    let leaves = oldest_of_fullest_address(pool)?;
    let caller = callers.get_mut(&leaves)?;
    caller.end();
    Some(caller.source.ip())
}

impl Drop for CallerPlace<'_> {
    fn drop(&mut self) {
        lock(&self.callers.callers).remove(&self.connection);
        self.callers.left.notify_all();
    }
}

/// Greets a caller, and takes the proof of its password, but answers nothing.
pub(crate) fn admit<S: Connection>(
    relay: &Relay,
    packets: &mut Packets<S>,
    connection: u32,
) -> Result<Admitted, DumpError> {
    let challenge = challenge()?;
    let offered = Offered::by(relay.encryption.as_ref());
    let offers = Offers {
        encryption: matches!(offered, Offered::Encryption { .. }),
        sql: relay.sql.is_some(),
    };
    packets.write(&greeting(connection, &challenge, offers))?;
    packets.flush()?;
    let response = encrypted_answer(packets, &offered)?;
    let Some(shown) = credentials(&response) else {
        let text = "The answer to the greeting is none of a client of MariaDB";
        return Err(Refusal::access(text).into());
    };
    let proof = if shown.plugin.is_empty() || shown.plugin == NATIVE_PASSWORD {
        shown.proof
    } else {
        packets.write(&other_proof(&challenge))?;
        packets.flush()?;
        packets.read()?
    };
    let Some(key) = relay.accounts.admits(&shown.name, &challenge, &proof) else {
        let text = format!(
            "Access denied for '{}': the relay's file has no such account \
             (relay.accounts), or another password",
            excerpt(shown.name.as_bytes())
        );
        return Err(Refusal::access(text).into());
    };
    // Said now, it has a replica connect again by itself; at a later step, it would stop.
    if relay.identity().is_none() {
        return Err(not_in_group().into());
    }
    Ok(Admitted {
        account: shown.name,
        key,
        manner: shown.manner,
    })
}

/// A caller that has proven a password: its account, and what it takes to log in at a server.
#[derive(Clone, Debug)]
pub(crate) struct Admitted {
    pub(crate) account: String,
    pub(crate) key: PasswordKey,
    pub(crate) manner: ClientManner,
}

enum Offered {
    /// Its file names no certificate.
    Clear,
    Encryption {
        tls: Arc<ServiceTls>,
        is_required: bool,
    },
    /// Its file names a certificate that cannot be used.
    Unusable { is_required: bool },
}

impl Offered {
    fn by(encryption: Option<&Encrypting>) -> Offered {
        let Some(encryption) = encryption else {
            return Offered::Clear;
        };
        let is_required = encryption.is_required;
        match encryption.certificates.in_use() {
            Ok(tls) => Offered::Encryption { tls, is_required },
            Err(_) => Offered::Unusable { is_required },
        }
    }
}

/// The answer to the greeting, encrypted if the caller asks for that, or has to.
fn encrypted_answer<S: Connection>(
    packets: &mut Packets<S>,
    offered: &Offered,
) -> Result<Vec<u8>, DumpError> {
    let response = packets.read()?;
    let asks = asks_for_encryption(&response);
    let refused = |text: &str| Err(Refusal::access(text).into());
    match offered {
        Offered::Encryption { tls, .. } if asks => {
            packets.encrypt(tls).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => error,
                _ => io::Error::other(tls.why_failed(&error)),
            })?;
            Ok(packets.read()?)
        }
        Offered::Encryption {
            is_required: true, ..
        } => refused(
            "This relay serves encrypted connections only: MASTER_SSL = 1 for a replica, \
             --ssl for mariadb-binlog (relay.tls_required)",
        ),
        Offered::Unusable { is_required } if asks || *is_required => refused(
            "This relay cannot encrypt now: it has no certificate that it can use. Its log says \
             why",
        ),
        Offered::Clear if asks => refused(
            "This relay does not offer encryption: relay.tls_cert in its file, or \
             MASTER_SSL = 0 for the replica",
        ),
        Offered::Encryption { .. } | Offered::Unusable { .. } | Offered::Clear => Ok(response),
    }
}

fn challenge() -> Result<Challenge, DumpError> {
    let mut random = Challenge::default();
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    // Readers take it for a text that a zero byte ends.
    Ok(random.map(|byte| byte % 94 + 33))
}

pub(crate) fn why_gone(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "it has proven no password within {} seconds",
            PROOF_LIMIT.as_secs()
        ),
        io::ErrorKind::UnexpectedEof => "it has ended the connection without a proof of a \
                                         password"
            .to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::connection;
    use std::io::Read;

    #[test]
    fn crowd_from_one_address_makes_room_for_others() {
        let callers = Callers::default();
        let call = |number: u32, from: u8| {
            let (near, far) = connection();
            let from = SocketAddr::from(([10, 0, 0, from], 1));
            let place = callers.enter(number, &far, from).unwrap();
            (near, place)
        };
        let quiet = call(0, 1);
        let most = u32::try_from(CALLERS_MAX).unwrap();
        let mut crowd: Vec<_> = (1..most).map(|number| call(number, 2)).collect();
        assert!(crowd.iter().all(|(_, place)| place.instead_of.is_none()));
        let (_near, late) = call(most, 3);
        assert_eq!(late.instead_of, Some(IpAddr::from([10, 0, 0, 2])));
        let (mut first, place) = crowd.remove(0);
        assert_eq!(first.read(&mut [0]).unwrap(), 0, "it has ended");
        drop(place);
        assert_eq!(lock(&callers.callers).len(), CALLERS_MAX);
        callers.end_connections();
        let (mut near, _place) = quiet;
        assert_eq!(near.read(&mut [0]).unwrap(), 0);
    }
}
