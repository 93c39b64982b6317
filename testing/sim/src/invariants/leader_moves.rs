//! Leadership that follows the writers does not move back and forth: two moves of a group are at
//! least the pause apart, also if the leader changes in between.
//!
//! Members measure the pause by their own clocks, which may run at twice the speed. So half of it
//! is required here.

use synod_consensus::{MemberId, Term};

use super::{Checked, require};

/// The latest move that counts.
#[derive(Default)]
pub(crate) struct LeaderMoves {
    latest: Option<(Term, u64)>,
}

impl LeaderMoves {
    /// The leader of this term begins to move leadership to the writers, at this time of the world
    /// in microseconds.
    pub(crate) fn moved(
        &mut self,
        now_us: u64,
        leader: MemberId,
        term: Term,
        pause_us: u64,
    ) -> Checked {
        let before = self.latest;
        if before.is_some_and(|(newest, _)| term < newest) {
            // A leader that was replaced, and does not know it yet: no member obeys.
            return Ok(());
        }
        self.latest = Some((term, now_us));
        let Some((_, at_us)) = before else {
            return Ok(());
        };
        let apart_us = now_us - at_us;
        require(
            apart_us >= pause_us / 2,
            "leadership does not follow writers back and forth",
            || format!("{leader} moves it in {term}, {apart_us} us after the move before"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_soon_after_each_other_are_found() {
        let mut moves = LeaderMoves::default();
        let mut moved = |at_us, term| moves.moved(at_us, MemberId(1), Term(term), 100);
        assert_eq!(moved(0, 1), Ok(()));
        assert_eq!(moved(50, 2), Ok(()));
        assert_eq!(moved(60, 1), Ok(()), "replaced already");
        assert!(moved(99, 3).is_err());
    }
}
