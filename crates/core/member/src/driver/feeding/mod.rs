//! Feeding: learners far from the leader get its log from a member near them, so that one copy of
//! it crosses the link between two regions.
//!
//! ```text
//!  region of the leader  |  another region
//!                        |
//!       leader --- entries ---> feeder --- entries, in the leader's name ---> learners
//!         ^ \---- orders ------^   |                                            |
//!         '-------------------- acknowledgements --------------------------------'
//! ```
//!
//! The leader keeps all state of replication: it decides which entries a learner is sent next, and
//! hears directly what has arrived. Only the entries take another way. Heartbeats, commit indexes,
//! probes and bases do not. If a feeder fails, the leader notices as it notices any loss, and sends
//! the entries itself. See decision 042.
//!
//! ```text
//! the leader    feeders   which member feeds which learner?
//! a feeder      orders    which orders wait for entries that have not come yet?
//! ```

mod coordinate;
mod feeders;
mod orders;

use feeders::Feeders;
use orders::FeedOrders;

/// The component that knows who feeds whom, and what this member has been ordered to feed.
#[derive(Default)]
pub(super) struct Feeding {
    pub(super) feeders: Feeders,
    orders: FeedOrders,
}
