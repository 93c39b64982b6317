//! A relay that keeps an upstream's binlog, as it knows itself.

use serde::{Deserialize, Serialize};

/// State of a relay's upstream and readers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayStatus {
    /// Time of the answer, in milliseconds since 1970, by the relay's clock.
    pub at_unix_ms: u64,
    /// The upstream, `host:port`; empty: the relay serves the group that it is in.
    pub upstream: String,
    /// Whether an operator has ordered this upstream instead of that in the relays' files.
    pub is_switched: bool,
    /// Whether an operator has ordered that nothing is pulled.
    pub is_paused: bool,
    /// Name of the relay that leads, and so pulls; empty: none leads.
    pub puller: String,
    pub pull: PullState,
    /// Why nothing comes, and what to do; none: nothing is wrong, or this relay does not pull.
    pub error: Option<String>,
    /// Time since the error began, in milliseconds; none: there is no error.
    pub stuck_ms: Option<u64>,
    /// Warning about transactions that readers may lack although nothing has stopped; none:
    /// nothing, or this relay has not pulled it.
    pub warning: Option<String>,
    /// The newest transaction of each domain that is durable on a majority of the relays.
    pub gtids: String,
    /// The same as MySQL's set of GTIDs; empty: the upstream is MariaDB, or nothing is known of it.
    pub mysql_gtids: String,
    /// End of the newest whole transaction in the upstream's binlog; empty: unknown.
    pub place: String,
    /// Delay of that transaction from the first event of its last part, by the upstream's clock, to
    /// the log, by this relay's, in milliseconds; none: no transaction came since this process
    /// began, or the upstream's clock is ahead of this relay's.
    pub delay_ms: Option<u64>,
    /// For how long no transaction has come, in milliseconds.
    pub quiet_ms: Option<u64>,
    pub readers: Vec<RelayReader>,
    /// Readers whose places all relays hold, also while they are not connected.
    pub registered: Vec<RegisteredReader>,
    /// The last moment of the certificate that readers are shown, in seconds since 1970; none: the
    /// relay has none that can be used.
    pub certificate_until_unix: Option<u64>,
}

/// Activity of a relay towards its upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullState {
    /// Another relay leads, or none.
    #[default]
    Elsewhere,
    /// Connects, or waits before the next attempt.
    Connecting,
    Pulling,
    /// An operator has ordered that nothing is pulled.
    Paused,
    /// Another state, of a newer relay.
    #[serde(other)]
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayReader {
    /// Address it connects from.
    pub from: String,
    /// Its `server_id`; zero: it has not said it.
    pub server_id: u32,
    /// The newest transaction of each domain that it was given; none: it has asked for none yet.
    pub gtids: Option<String>,
    /// Actions of the group's log that it has not been given.
    pub behind: Option<u64>,
}

/// A reader whose place all relays hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegisteredReader {
    pub server_id: u32,
    /// Whether it is connected to this relay.
    pub is_here: bool,
    /// For how long no relay has noted it, in milliseconds; none: never since its registration.
    /// Relays note a reader that is connected every ten minutes at least.
    pub unseen_ms: Option<u64>,
    /// Actions of the group's log that are held for it.
    pub holds: u64,
    /// The newest transaction of each domain that it has, as noted; none: the log does not say.
    pub gtids: Option<String>,
}
