//! Members whose logs were damaged: what they must not do, and how their logs become whole again.
//! The simulator damages logs at random; these are the situations that `damaged_log.rs` argues
//! about.

mod harness;

use harness::disk::OUT_OF_REACH;
use harness::{MS, Options, SECOND, Sim, id, member};
use synod_consensus::{BootstrapError, Effect, LogIndex, MemberId, ProgressMode, RoleName, Term};

fn three() -> Sim {
    Sim::group(7, 3, Options::default())
}

fn work(sim: &mut Sim, node: MemberId, count: u64) {
    for _ in 0..count {
        sim.submit(node);
    }
    sim.expect("commits", 20 * SECOND, |sim| {
        sim.node(node).outbox.oldest_outstanding().is_none()
    });
}

fn settle(sim: &mut Sim) {
    sim.expect("level logs", 20 * SECOND, Sim::is_level);
    let whole = |sim: &Sim| {
        sim.up()
            .iter()
            .all(|n| sim.core(*n).repairing_until().is_none())
    };
    sim.expect("whole logs", SECOND, whole);
}

fn last(sim: &Sim, node: MemberId) -> LogIndex {
    sim.node(node).disk.durable.last().index
}

/// Members 1 and 2 have committed what 3 lacks. Then the disk of 1 is lost, and 2 is down.
fn only_the_damaged_member_had_it() -> Sim {
    let mut sim = three();
    work(&mut sim, id(1), 20);
    settle(&mut sim);
    sim.isolate(&[id(3)]);
    work(&mut sim, id(1), 20);
    sim.run_for(SECOND);
    sim.crash(id(2));
    sim.burn(id(1));
    sim
}

#[test]
fn member_under_repair_elects_no_leader_that_lacks_a_committed_entry() {
    let mut sim = only_the_damaged_member_had_it();
    sim.damage(id(2), LogIndex(10), true);
    sim.start(id(2));
    sim.heal_network();
    sim.run_for(60 * SECOND);
    assert_eq!(sim.leader(), None, "{}", sim.describe());
    assert!(sim.core(id(2)).repairing_until().is_some());
    assert_eq!(
        sim.core(id(2)).role(),
        RoleName::Follower,
        "it is no candidate"
    );
}

/// The same without the mark: the error that the mark prevents is real, and the oracle finds it.
#[test]
#[should_panic(expected = "lacks")]
fn without_the_mark_a_committed_entry_would_be_lost() {
    let mut sim = only_the_damaged_member_had_it();
    sim.damage(id(2), LogIndex(10), true);
    sim.node_mut(id(2)).disk.durable.repair = None;
    sim.start(id(2));
    sim.heal_network();
    sim.run_for(60 * SECOND);
}

#[test]
fn member_with_an_unknown_vote_elects_no_leader_from_before_either() {
    let mut sim = only_the_damaged_member_had_it();
    sim.damage(id(2), LogIndex(10), false);
    sim.start(id(2));
    sim.heal_network();
    sim.run_for(60 * SECOND);
    assert_eq!(sim.leader(), None, "{}", sim.describe());
}

#[test]
fn damaged_follower_gets_its_entries_again_without_an_election() {
    let mut sim = three();
    work(&mut sim, id(1), 200);
    settle(&mut sim);
    let term = sim.core(id(1)).term();
    for keep in [100, 150, 3, 0] {
        sim.crash(id(3));
        sim.damage(id(3), LogIndex(keep), true);
        sim.start(id(3));
        assert_eq!(
            sim.core(id(3)).repairing_until(),
            Some(sim.core(id(1)).last_id())
        );
        work(&mut sim, id(2), 10);
        settle(&mut sim);
    }
    assert_eq!(
        sim.core(id(1)).term(),
        term,
        "the leader knows what it lacks"
    );
    assert_eq!(sim.leader(), Some(id(1)));
}

#[test]
fn unknown_vote_costs_the_group_one_election() {
    let mut sim = three();
    work(&mut sim, id(1), 50);
    settle(&mut sim);
    sim.crash(id(3));
    sim.damage(id(3), LogIndex(20), false);
    sim.start(id(3));
    sim.expect("a leader beyond the lost terms", 10 * SECOND, |sim| {
        sim.ready_leader()
            .is_some_and(|n| sim.core(n).term() > Term(OUT_OF_REACH))
    });
    assert_ne!(sim.leader(), Some(id(3)));
    settle(&mut sim);
    work(&mut sim, id(3), 10);
    let term = sim.core(id(3)).term();
    sim.run_for(10 * SECOND);
    assert_eq!(sim.core(id(3)).term(), term);
}

/// Two members have lost their vote records, one after the other, and the second enters a term that
/// has a leader by then. No member notices a higher term, so there is no other election.
#[test]
fn unknown_vote_in_a_term_that_others_have_reached() {
    let mut sim = Sim::group(7, 5, Options::default());
    work(&mut sim, id(1), 50);
    settle(&mut sim);
    sim.crash(id(4));
    sim.crash(id(5));
    sim.damage(id(4), LogIndex(20), false);
    sim.start(id(4));
    let leads_beyond = |sim: &Sim| {
        let leader = sim.ready_leader();
        leader.is_some_and(|n| sim.core(n).term() > Term(OUT_OF_REACH))
    };
    sim.expect("a leader beyond the lost terms", 10 * SECOND, leads_beyond);
    let term = sim.core(id(1)).term();
    sim.node_mut(id(5)).disk.durable.vote.term = Term(term.0 - OUT_OF_REACH);
    sim.damage(id(5), LogIndex(30), false);
    sim.start(id(5));
    assert_eq!(sim.core(id(5)).term(), term);
    settle(&mut sim);
    assert_eq!(sim.core(id(1)).term(), term);
}

#[test]
fn majority_damaged_at_different_places_follows_the_member_that_is_whole() {
    for (first, second) in [(true, true), (true, false), (false, false)] {
        let mut sim = three();
        work(&mut sim, id(2), 100);
        settle(&mut sim);
        let seqno = sim.seqno();
        (1..=3).for_each(|n| sim.crash(id(n)));
        sim.damage(id(1), LogIndex(30), first);
        sim.damage(id(2), LogIndex(60), second);
        (1..=3).for_each(|n| sim.start(id(n)));
        if first || second {
            // A member that knows its vote can vote for the member that is whole.
            sim.expect("a leader", 20 * SECOND, |sim| sim.ready_leader().is_some());
            assert_eq!(sim.leader(), Some(id(3)));
            settle(&mut sim);
            assert_eq!(sim.seqno(), seqno, "nothing was lost");
            work(&mut sim, id(1), 10);
        } else {
            sim.run_for(60 * SECOND);
            assert_eq!(sim.leader(), None, "no member knows its vote");
        }
    }
}

#[test]
fn majority_damaged_and_the_third_lacking_entries_elects_no_leader() {
    let mut sim = three();
    work(&mut sim, id(1), 20);
    settle(&mut sim);
    sim.isolate(&[id(3)]);
    work(&mut sim, id(1), 50);
    sim.run_for(SECOND);
    (1..=3).for_each(|n| sim.crash(id(n)));
    sim.damage(id(1), LogIndex(30), true);
    sim.damage(id(2), LogIndex(60), true);
    sim.heal_network();
    (1..=3).for_each(|n| sim.start(id(n)));
    sim.run_for(60 * SECOND);
    assert_eq!(sim.leader(), None, "{}", sim.describe());
}

#[test]
fn damaged_leader_comes_back_as_a_follower() {
    let mut sim = three();
    work(&mut sim, id(1), 50);
    settle(&mut sim);
    sim.crash(id(1));
    sim.damage(id(1), LogIndex(5), true);
    sim.start(id(1));
    sim.expect("another leader", 10 * SECOND, |sim| {
        sim.ready_leader().is_some_and(|n| n != id(1))
    });
    settle(&mut sim);
}

#[test]
fn only_voter_under_repair_does_not_lead() {
    let mut sim = Sim::group(1, 1, Options::default());
    work(&mut sim, id(1), 20);
    sim.crash(id(1));
    sim.damage(id(1), LogIndex(5), true);
    sim.start(id(1));
    sim.run_for(20 * SECOND);
    assert_eq!(sim.core(id(1)).role(), RoleName::Follower);
}

#[test]
fn damaged_log_without_entries_is_not_bootstrapped() {
    let mut sim = Sim::group(1, 1, Options::default());
    work(&mut sim, id(1), 20);
    sim.crash(id(1));
    sim.damage(id(1), LogIndex(0), true);
    sim.start(id(1));
    let begun = sim.with(id(1), |core, now| core.bootstrap(now, member(1)));
    assert_eq!(begun, Err(BootstrapError::NotEmpty));
}

#[test]
fn damaged_learner_is_repaired_and_may_become_a_voter() {
    let mut sim = three();
    sim.add_node(id(4));
    sim.add_learner(id(1), id(4));
    work(&mut sim, id(1), 50);
    settle(&mut sim);
    sim.crash(id(4));
    sim.damage(id(4), LogIndex(8), true);
    sim.start(id(4));
    sim.with(id(1), |core, _| core.set_eligible(id(4), true));
    sim.expect("promotion", 10 * SECOND, |sim| {
        sim.core(id(1)).config().config.is_voter(id(4))
    });
    settle(&mut sim);
}

/// One of three voters is lost for good. A fourth member is promoted while it is under repair and
/// votes for no log from before its damage. A candidate that needs its vote has its promotion in
/// the log, so that log reaches the mark.
#[test]
fn voter_promoted_under_repair_votes_for_a_candidate_that_knows_it() {
    // It takes a while to catch up.
    let mut options = Options::default();
    (
        options.limits.append_bytes_max,
        options.limits.inflight_messages_max,
    ) = (1000, 1);
    let mut sim = Sim::group(7, 3, options);
    sim.add_node(id(4));
    sim.add_learner(id(1), id(4));
    work(&mut sim, id(1), 200);
    settle(&mut sim);
    sim.crash(id(4));
    sim.damage(id(4), LogIndex(20), false);
    sim.crash(id(3));
    sim.run_for(5 * SECOND);
    for n in [1, 2] {
        sim.with(id(n), |core, _| core.set_eligible(id(4), true));
    }
    sim.start(id(4));
    sim.expect("promotion", 20 * SECOND, |sim| {
        let knows = |n| sim.node(id(n)).disk.durable.config().config.is_voter(id(4));
        knows(1) && knows(2)
    });
    assert!(sim.core(id(4)).repairing_until().is_some());
    for n in [1, 2, 4] {
        sim.crash(id(n));
        sim.start(id(n));
    }
    sim.expect("a leader", 20 * SECOND, |sim| sim.ready_leader().is_some());
}

#[test]
fn member_that_lost_its_own_promotion_is_repaired() {
    let mut sim = three();
    work(&mut sim, id(1), 10);
    settle(&mut sim);
    let joined = sim.core(id(3)).config().index;
    sim.crash(id(3));
    sim.damage(id(3), LogIndex(joined.0 - 1), true);
    sim.start(id(3));
    assert!(!sim.core(id(3)).config().config.is_voter(id(3)));
    settle(&mut sim);
    assert!(sim.core(id(3)).config().config.is_voter(id(3)));
}

#[test]
fn leader_whose_log_begins_later_sends_a_base() {
    let mut sim = three();
    work(&mut sim, id(1), 100);
    settle(&mut sim);
    sim.purge(id(1), LogIndex(70));
    sim.purge(id(2), LogIndex(70));
    sim.crash(id(3));
    sim.damage(id(3), LogIndex(20), true);
    sim.start(id(3));
    settle(&mut sim);
    assert_eq!(
        (sim.resets, sim.core(id(3)).base().last.index),
        (1, LogIndex(70))
    );
}

#[test]
fn leader_transfer_to_a_member_under_repair_fails() {
    let mut sim = three();
    work(&mut sim, id(1), 50);
    settle(&mut sim);
    sim.crash(id(3));
    sim.damage(id(3), LogIndex(20), true);
    sim.blocked.insert((id(3), id(1)));
    sim.start(id(3));
    let leader = sim.core(id(1)).term();
    sim.with(id(3), |core, now| {
        let message = synod_consensus::Message {
            from: id(1),
            to: id(3),
            term: leader,
            body: synod_consensus::Body::TimeoutNow,
        };
        core.handle_message(now, message);
        while let Some(effect) = core.poll_effect() {
            assert!(
                !matches!(effect, Effect::Write { .. }),
                "it is a candidate: {effect:?}"
            );
        }
    });
    assert_eq!(sim.core(id(3)).role(), RoleName::Follower);
}

#[test]
fn old_refusals_do_not_lower_the_match_index() {
    let mut sim = three();
    sim.options.duplicates = 0.5;
    sim.options.delay_us = (200, 80 * MS);
    work(&mut sim, id(2), 50);
    sim.crash(id(3));
    work(&mut sim, id(2), 50);
    sim.start(id(3));
    sim.options.duplicates = 0.0;
    settle(&mut sim);
    sim.run_for(SECOND);
    let leader = sim.leader().expect("one");
    let progress: Vec<_> = sim.core(leader).progress().collect();
    assert!(
        progress.iter().all(|p| p.mode == ProgressMode::Stream),
        "{progress:?}"
    );
    assert!(
        progress.iter().all(|p| p.match_index == last(&sim, leader)),
        "{progress:?}"
    );
}
