//! The lease: the time in which a leader may answer reads without asking a majority each time.
//!
//! A voter that hears a leader promises to vote for no other for a while, and says in its reply for
//! how long. So the leader counts on what each voter promised, not on what it would promise itself:
//! members may have different timings. Promises count from when the heartbeat was *sent*, less the
//! drift of clocks (Ongaro's dissertation, section 6.4.1).
//!
//! A lease is as good as the leader's clock: where that stands still, as in a virtual machine that
//! is paused with all its clocks, no lease ends. So there is none unless an operator asks for one
//! ([`crate::Timing::lease_us`]), and every read takes a round of heartbeats (`read_index.rs`).

use synod_planted::planted;

use crate::core::Core;
use crate::types::{MemberId, Time};

impl Core {
    /// A member has answered a heartbeat that was sent at `sent_at`, and promises this much.
    pub(crate) fn note_promise(&mut self, from: MemberId, sent_at: Time, promised_us: u64) {
        let own_us = self.timing.lease_us.min(self.timing.lease_max_us);
        let lease_us = planted!(LeaseByOwnTiming, own_us.min(promised_us), else own_us);
        let begun = planted!(LeaseFromReceiveTime, sent_at, else self.now);
        let until = begun.plus_us(self.less_drift(lease_us));
        let Some(leading) = self.leading_mut() else {
            return;
        };
        if begun <= leading.no_lease_before {
            return;
        }
        if let Some(peer) = leading.peers.get_mut(&from) {
            peer.promised_until = peer.promised_until.max(until);
        }
    }

    fn less_drift(&self, lease_us: u64) -> u64 {
        let drift_ppm = u64::from(self.timing.clock_drift_ppm);
        lease_us.saturating_sub(lease_us.saturating_mul(drift_ppm) / 1_000_000)
    }

    /// Whether no other leader can exist now, because a majority has promised so. Never if the
    /// timing has no lease.
    pub fn lease_valid(&self, now: Time) -> bool {
        let Some(leading) = self.leading() else {
            return false;
        };
        let has_lease = self.timing.lease_us > 0 && !leading.has_ordered_election;
        if !has_lease || !self.is_ready_leader() {
            return false;
        }
        let config = &self.log.config().config;
        // The leader itself follows no other while it leads.
        let own = Time(u64::MAX);
        now < leading.quorum(self.id, config, own, |peer| peer.promised_until)
    }

    /// The clock stood still or may have: no promise that was asked for until now counts.
    pub fn drop_lease(&mut self, now: Time) {
        self.observe(now);
        let now = self.now;
        let Some(leading) = self.leading_mut() else {
            return;
        };
        leading.no_lease_before = now;
        for peer in leading.peers.values_mut() {
            peer.promised_until = Time(0);
        }
    }
}
