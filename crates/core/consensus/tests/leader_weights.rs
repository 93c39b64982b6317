//! Leadership among members with weights. Scripts show the same step by step; here many seeds
//! measure the times.

mod harness;

use harness::{MS, Options, SECOND, Sim, id};
use proptest::prelude::*;
use synod_consensus::{
    ConfigChange, LeaderPreference, LeaderWeight, MemberId, Reason, RoleName, StalledDisk, Time,
    WritingPlace,
};

/// From the loss of a leader to the election of a member without a broken connection that defers to
/// no other: the longest default timeout, and a little for the votes.
const ORDINARY_US: u64 = 3 * SECOND + 500 * MS;
/// From the loss of a leader, whose process gives no sign of life, to the election of the first by
/// rank: the silence by default, two heartbeats, and a little for the votes.
const SILENT_US: u64 = 750 * MS + 200 * MS + 100 * MS;
/// One step of a delay in a silence.
const STEP_US: u64 = 300 * MS;
/// The trial time by default: two longest election timeouts, and a look every `promise_us`.
const TRIAL_US: u64 = 7 * SECOND;

const STALLED: Option<StalledDisk> = Some(StalledDisk {
    since: Time(0),
    quick_us: 200 * MS,
});

fn preference(weight: u8, hands_over: bool) -> LeaderPreference {
    let weight = LeaderWeight::new(weight).expect("0 to 100");
    LeaderPreference { weight, hands_over }
}

/// Members 1 to n with these weights; the first leads.
fn group(seed: u64, hints: bool, weights: &[u8]) -> Sim {
    let options = Options {
        hints,
        ..Options::default()
    };
    let mut sim = Sim::group(seed, weights.len() as u64, options);
    for (n, weight) in (1..).zip(weights) {
        sim.prefer(id(n), preference(*weight, false));
    }
    sim.run_for(SECOND);
    sim
}

/// The member that leads after these are lost, and the time until then.
fn successor(sim: &mut Sim, dead: &[u64], limit_us: u64) -> (MemberId, u64) {
    // Connections end after what they carried has arrived.
    sim.expect("nothing on its way", SECOND, |sim| sim.queue.is_empty());
    let since = sim.now;
    dead.iter().for_each(|n| sim.crash(id(*n)));
    sim.expect("another leader", limit_us, |sim| {
        sim.ready_leader().is_some()
    });
    (sim.leader().expect("just seen"), sim.now - since)
}

fn leads(sim: &Sim, node: MemberId) -> bool {
    sim.ready_leader() == Some(node)
}

// --- deferring ----------------------------------------------------------------------------------

#[test]
fn heaviest_of_the_rest_follows_a_dead_leader_at_once_when_its_connections_break() {
    for seed in 1..40 {
        let mut sim = group(seed, true, &[100, 40, 80, 50, 50]);
        let (next, took) = successor(&mut sim, &[1], 3 * SECOND);
        assert_eq!(next, id(3), "seed {seed}");
        assert!(took < 1200 * MS, "seed {seed}: {took} us");
    }
}

#[test]
fn heaviest_of_the_rest_follows_a_silent_leader_within_the_time_of_a_silence() {
    for seed in 1..40 {
        let mut sim = group(seed, false, &[100, 40, 80, 50, 50]);
        let (next, took) = successor(&mut sim, &[1], 8 * SECOND);
        assert_eq!(next, id(3), "seed {seed}");
        assert!(took < SILENT_US, "seed {seed}: {took} us");
    }
}

#[test]
fn first_of_equal_members_follows_a_silent_leader() {
    for seed in 1..40 {
        let mut sim = group(seed, false, &[50, 50, 50, 50, 50]);
        let (next, took) = successor(&mut sim, &[1], 8 * SECOND);
        assert_eq!(next, id(2), "seed {seed}");
        assert!(took < SILENT_US, "seed {seed}: {took} us");
    }
}

/// Two members of three hear no heartbeat, but the leader's process answers their pings.
#[test]
fn leader_that_shows_life_is_replaced_after_a_whole_timeout_and_no_sooner() {
    for seed in 1..20 {
        let mut sim = group(seed, false, &[50, 50, 50]);
        sim.blocked.extend([(id(1), id(2)), (id(1), id(3))]);
        let since = sim.now;
        while sim.core(id(2)).role() == sim.core(id(3)).role() {
            sim.run_for(100 * MS);
            for n in [2, 3] {
                sim.with(id(n), |core, now| core.note_alive(now, id(1)));
            }
            assert!(sim.now - since < ORDINARY_US, "seed {seed}");
        }
        assert!(sim.now - since > 1400 * MS, "seed {seed}");
    }
}

/// The second member has heard no heartbeat for long; the third sees that the leader's process
/// runs, and helps it to no election.
#[test]
fn member_that_sees_a_sign_of_life_consents_to_no_election() {
    for seed in 1..20 {
        let mut sim = group(seed, false, &[50, 50, 50]);
        sim.blocked.extend([(id(1), id(2)), (id(1), id(3))]);
        let since = sim.now;
        while sim.now - since < 1400 * MS {
            sim.run_for(100 * MS);
            sim.with(id(3), |core, now| core.note_alive(now, id(1)));
            assert_eq!(sim.leader(), Some(id(1)), "seed {seed}");
        }
    }
}

#[test]
fn silence_of_all_heavier_members_costs_a_step_for_each_of_two() {
    for seed in 1..20 {
        let mut sim = group(seed, false, &[100, 90, 50, 50, 50]);
        let (_, took) = successor(&mut sim, &[1, 2], 10 * SECOND);
        assert!(took < SILENT_US + STEP_US, "seed {seed}: {took} us");
        let mut sim = group(seed, false, &[100, 90, 80, 50, 50, 50, 50]);
        let (_, took) = successor(&mut sim, &[1, 2, 3], 10 * SECOND);
        assert!(took < SILENT_US + 2 * STEP_US, "seed {seed}: {took} us");
    }
}

#[test]
fn no_member_defers_to_heavier_members_whose_connections_broke() {
    for seed in 1..20 {
        let mut sim = group(seed, true, &[100, 90, 50, 50, 50]);
        let (_, took) = successor(&mut sim, &[2, 1], 3 * SECOND);
        assert!(took < 1800 * MS, "seed {seed}: {took} us");
    }
}

#[test]
fn heavier_member_that_cannot_win_prevents_no_election() {
    let mut sim = group(3, false, &[50, 100, 50]);
    // Its log lacks what the others have.
    sim.blocked.insert((id(1), id(2)));
    for _ in 0..5 {
        sim.submit(id(1));
    }
    sim.expect("commits", 5 * SECOND, |sim| {
        sim.node(id(1)).outbox.oldest_outstanding().is_none()
    });
    sim.run_for(SECOND);
    let (next, _) = successor(&mut sim, &[1], ORDINARY_US + STEP_US);
    assert_eq!(next, id(3));
}

#[test]
fn members_of_weight_zero_become_candidates_after_four_steps() {
    for seed in 1..20 {
        let mut sim = group(seed, false, &[50, 50, 0, 0, 0]);
        let (_, took) = successor(&mut sim, &[1, 2], 12 * SECOND);
        assert!(took > 1800 * MS, "seed {seed}: {took} us");
        assert!(
            took < SILENT_US + 4 * STEP_US + 200 * MS,
            "seed {seed}: {took} us"
        );
    }
}

/// A member counts its patience from when it misses the leader, an election timeout after its end.
#[test]
fn patience_of_every_member_covers_an_election_of_a_member_of_weight_zero() {
    let mut longest = 0;
    for seed in 1..20 {
        let mut sim = group(seed, false, &[50, 50, 0, 0, 0]);
        let patience = |n| sim.core(id(n)).longest_deferred_election_us();
        let shortest = (3..=5).map(patience).min().expect("three members");
        // The leader answers pings, and leads no more: the longest way to another one.
        sim.crash(id(2));
        sim.blocked.extend((3..=5).map(|n| (id(1), id(n))));
        let since = sim.now;
        while (3..=5).all(|n| sim.core(id(n)).role() != RoleName::Leader) {
            sim.run_for(100 * MS);
            for n in 3..=5 {
                sim.with(id(n), |core, now| core.note_alive(now, id(1)));
            }
            assert!(sim.now - since < 12 * SECOND, "seed {seed}");
        }
        let took = sim.now - since;
        assert!(took < 1500 * MS + shortest, "seed {seed}: {took} us");
        longest = longest.max(took);
    }
    assert!(longest > 7 * SECOND, "more than evs.suspect_timeout");
}

#[test]
fn election_without_deference_needs_no_patience() {
    for weights in [[50, 50, 50], [0, 0, 0]] {
        let sim = group(1, true, &weights);
        assert_eq!(sim.core(id(2)).longest_deferred_election_us(), 0);
    }
}

#[test]
fn group_of_weight_zero_elects_as_any_other() {
    for seed in 1..20 {
        let mut sim = group(seed, false, &[0, 0, 0]);
        let (_, took) = successor(&mut sim, &[1], 8 * SECOND);
        assert!(took < SILENT_US, "seed {seed}: {took} us");
    }
}

#[test]
fn light_member_defers_while_it_knows_no_weights() {
    for seed in 1..20 {
        let mut sim = Sim::group(seed, 3, Options::default());
        sim.run_for(SECOND);
        for n in 1..=3 {
            sim.crash(id(n));
        }
        for n in 1..=3 {
            sim.start(id(n));
        }
        sim.with(id(1), |core, _| {
            core.set_leader_preference(preference(10, false))
        });
        sim.with(id(2), |core, _| {
            core.set_leader_preference(preference(10, false))
        });
        sim.expect("a leader", 8 * SECOND, |sim| sim.ready_leader().is_some());
        assert!(leads(&sim, id(3)), "seed {seed}");
    }
}

// --- handing over -------------------------------------------------------------------------------

#[test]
fn leader_hands_over_to_a_heavier_voter_only_if_it_should() {
    let mut sim = group(5, true, &[50, 50, 80]);
    sim.run_for(60 * SECOND);
    assert!(leads(&sim, id(1)), "optimistic");
    sim.prefer(id(1), preference(80, true));
    sim.run_for(60 * SECOND);
    assert!(leads(&sim, id(1)), "of the same weight as the other");
    sim.prefer(id(1), preference(50, true));
    sim.expect("the heavier one", TRIAL_US, |sim| leads(sim, id(3)));
    let term = sim.core(id(3)).term();
    sim.run_for(120 * SECOND);
    assert_eq!(sim.core(id(3)).term(), term, "and no further handover");
}

#[test]
fn heaviest_of_several_is_chosen() {
    let mut sim = group(6, true, &[10, 90, 70, 95, 50]);
    sim.prefer(id(1), preference(10, true));
    sim.expect("the heaviest", TRIAL_US, |sim| leads(sim, id(4)));
}

#[test]
fn leader_of_weight_zero_hands_over_without_being_forced() {
    let mut sim = group(7, true, &[0, 0, 1]);
    sim.expect("the heavier one", TRIAL_US, |sim| leads(sim, id(3)));
}

#[test]
fn heavier_voter_has_to_keep_up_for_the_trial_time() {
    let mut sim = group(8, true, &[50, 100, 50]);
    sim.prefer(id(1), preference(50, true));
    sim.hold_disk(id(2), true);
    let work = |sim: &mut Sim, seconds: u64| {
        for _ in 0..10 * seconds {
            sim.submit(id(1));
            sim.run_for(100 * MS);
        }
    };
    work(&mut sim, 30);
    assert!(leads(&sim, id(1)), "its disk does not answer");
    sim.hold_disk(id(2), false);
    work(&mut sim, 5);
    assert!(leads(&sim, id(1)), "it has not kept up for long");
    work(&mut sim, 3);
    assert!(leads(&sim, id(2)));
}

#[test]
fn heavier_learner_does_not_lead() {
    let mut sim = group(9, true, &[50, 100, 50]);
    sim.change(id(1), ConfigChange::Demote(id(2)));
    sim.prefer(id(1), preference(50, true));
    sim.run_for(30 * SECOND);
    assert!(leads(&sim, id(1)));
    sim.change(id(1), ConfigChange::Promote(id(2)));
    sim.expect("the new voter", TRIAL_US, |sim| leads(sim, id(2)));
}

#[test]
fn heavier_voter_that_fails_whenever_it_leads_gets_fewer_and_fewer_chances() {
    let mut sim = group(10, false, &[50, 100, 50]);
    for n in [1, 3] {
        sim.prefer(id(n), preference(50, true));
    }
    let (end, mut chances) = (sim.now + 600 * SECOND, 0);
    while sim.now < end {
        let got = sim.run_until(end - sim.now, |sim| leads(sim, id(2)));
        if got {
            chances += 1;
            sim.isolate(&[id(2)]);
            sim.expect("another leader", 10 * SECOND, |sim| {
                sim.ready_leader().is_some_and(|leader| leader != id(2))
            });
            sim.heal_network();
            sim.spread_weights();
        }
    }
    // Two members hand over, each after 6, 12, 24, 48, 96, 192 s; every time 6 s would be 50 times.
    assert!((3..=12).contains(&chances), "{chances} times");
}

#[test]
fn leader_transfer_without_a_target_prefers_the_heaviest_that_has_everything() {
    let mut sim = group(11, true, &[50, 70, 90, 60, 50]);
    let to = sim.with(id(1), |core, now| core.transfer_leadership(now, None));
    assert_eq!(to, Ok(id(3)));
    sim.expect("the heaviest", 2 * SECOND, |sim| leads(sim, id(3)));
    sim.hold_disk(id(2), true);
    for _ in 0..5 {
        sim.submit(id(3));
    }
    sim.expect("commits", 5 * SECOND, |sim| {
        sim.node(id(3)).outbox.oldest_outstanding().is_none()
    });
    sim.run_for(SECOND);
    let to = sim.with(id(3), |core, now| core.transfer_leadership(now, None));
    assert_eq!(to, Ok(id(4)), "the heavier one lacks entries");
}

// --- members without a database -----------------------------------------------------------------

/// A logger leads, and is the heaviest.
fn led_by_a_logger(seed: u64, loggers: &'static [u64], weights: &[u8]) -> Sim {
    let options = Options {
        loggers,
        ..Options::default()
    };
    let mut sim = Sim::group(seed, weights.len() as u64, options);
    let logger = id(loggers[0]);
    let to = sim.with(id(1), |core, now| {
        core.transfer_leadership(now, Some(logger))
    });
    assert_eq!(to, Ok(logger));
    sim.expect("the logger", SECOND, |sim| leads(sim, logger));
    for (n, weight) in (1..).zip(weights) {
        sim.prefer(id(n), preference(*weight, false));
    }
    sim
}

#[test]
fn logger_hands_over_to_the_heaviest_database_whatever_its_own_weight() {
    for seed in 1..10 {
        let mut sim = led_by_a_logger(seed, &[3], &[0, 1, 100]);
        sim.expect("a database", 3 * SECOND, |sim| leads(sim, id(2)));
        sim.run_for(60 * SECOND);
        assert!(leads(&sim, id(2)), "seed {seed}: nothing draws it back");
    }
}

/// A leader and a logger are a majority: what they have committed, a server may lack for a moment.
#[test]
fn leader_hands_over_to_a_database_that_lacks_an_entry_rather_than_to_a_logger() {
    let loggers: &[u64] = &[3];
    let options = Options {
        loggers,
        ..Options::default()
    };
    let mut sim = Sim::group(4, 3, options);
    sim.prefer(id(1), preference(50, false));
    sim.run_for(SECOND);
    sim.submit(id(1));
    sim.run_for(100 * MS);
    sim.hold_disk(id(2), true);
    sim.submit(id(1));
    sim.expect("commits", SECOND, |sim| {
        sim.node(id(1)).outbox.oldest_outstanding().is_none()
    });
    let to = sim.with(id(1), |core, now| core.transfer_leadership(now, None));
    assert_eq!(to, Ok(id(2)));
    sim.hold_disk(id(2), false);
    sim.expect("the database", 2 * SECOND, |sim| leads(sim, id(2)));
}

#[test]
fn logger_prolongs_no_election() {
    let sim = led_by_a_logger(1, &[3], &[50, 50, 0]);
    assert_eq!(sim.core(id(1)).longest_deferred_election_us(), 0);
    assert_eq!(sim.core(id(3)).longest_deferred_election_us(), 0);
}

#[test]
fn logger_keeps_leading_while_no_database_is_fit() {
    let mut sim = led_by_a_logger(3, &[3, 2], &[50, 50, 50]);
    let fit = [2, 3].map(|n| (id(n), LeaderWeight::default()));
    sim.with(id(3), |core, _| core.set_leader_weights(fit.into()));
    sim.run_for(60 * SECOND);
    assert!(
        leads(&sim, id(3)),
        "nor does it hand over to another logger"
    );
    sim.spread_weights();
    sim.expect("the database", 3 * SECOND, |sim| leads(sim, id(1)));
}

#[test]
fn logger_defers_to_a_database_that_can_be_elected_and_to_no_other() {
    for seed in 1..40 {
        let options = || Options {
            loggers: &[3],
            ..Options::default()
        };
        let mut sim = Sim::group(seed, 3, options());
        sim.prefer(id(3), preference(100, false));
        let (next, took) = successor(&mut sim, &[1], 3 * SECOND);
        assert_eq!(next, id(2), "seed {seed}");
        assert!(took < 1200 * MS, "seed {seed}: {took} us");

        // The database lacks the last entry, which is committed.
        let mut sim = Sim::group(seed, 3, options());
        sim.prefer(id(3), preference(100, false));
        sim.expect("nothing on its way", SECOND, |sim| sim.queue.is_empty());
        sim.blocked.insert((id(1), id(2)));
        sim.submit(id(1));
        sim.run_for(50 * MS);
        sim.heal_network();
        sim.crash(id(1));
        let since = sim.now;
        sim.expect("the logger", 2 * SECOND, |sim| leads(sim, id(3)));
        let took = sim.now - since;
        assert!(took < 1500 * MS, "seed {seed}: {took} us");
        sim.spread_weights();
        sim.expect("the database", 4 * SECOND, |sim| leads(sim, id(2)));
    }
}

// --- stalled disks ------------------------------------------------------------------------------

#[test]
fn member_whose_disk_has_stalled_is_no_candidate_until_it_answers() {
    for seed in 1..10 {
        let mut sim = group(seed, true, &[50, 50, 50]);
        let term = sim.core(id(1)).term();
        for n in [2, 3] {
            sim.with(id(n), |core, _| core.set_stalled_disk(STALLED));
        }
        // Not by the leader's order either.
        let ordered = sim.with(id(1), |core, now| {
            core.transfer_leadership(now, Some(id(2)))
        });
        assert!(ordered.is_ok());
        sim.run_for(5 * SECOND);
        assert!(leads(&sim, id(1)), "seed {seed}");
        sim.crash(id(1));
        sim.run_for(20 * SECOND);
        assert_eq!(sim.leader(), None, "seed {seed}");
        assert_eq!(sim.core(id(2)).term(), term, "seed {seed}");
        sim.with(id(3), |core, _| core.set_stalled_disk(None));
        sim.expect("a leader", 10 * SECOND, |sim| leads(sim, id(3)));
    }
}

#[test]
fn leader_with_a_stalled_disk_hands_over_to_a_voter_with_a_quick_one() {
    for seed in 1..10 {
        let mut sim = group(seed, true, &[50, 50, 90]);
        // Writes of the leader are under way from now on; those of the heavier voter, too.
        let since = sim.with(id(1), |_, now| now);
        sim.hold_disk(id(1), true);
        sim.hold_disk(id(3), true);
        sim.with(id(1), |core, _| {
            core.set_stalled_disk(Some(StalledDisk {
                since,
                quick_us: 200 * MS,
            }))
        });
        sim.submit(id(1));
        sim.run_for(2 * SECOND);
        assert!(
            leads(&sim, id(1)),
            "seed {seed}: no majority has more than the leader"
        );
        sim.hold_disk(id(3), false);
        sim.submit(id(1));
        sim.expect("another leader", 14 * SECOND, |sim| {
            sim.ready_leader().is_some_and(|leader| leader != id(1))
        });
        assert_eq!(
            sim.core(id(1)).handovers(Reason::StalledDisk),
            1,
            "seed {seed}"
        );
    }
}

// --- writers ------------------------------------------------------------------------------------

const WRITERS_TRIAL_US: u64 = 10 * SECOND;
const PAUSE_US: u64 = 30 * SECOND;

/// Tells the leader, for so long, that nearly all writes come from these members.
fn write_from(sim: &mut Sim, writes: &[(u64, u64)], us: u64) {
    let end = sim.now + us;
    while sim.now < end {
        let leader = sim.ready_leader();
        for node in sim.up() {
            let is_elsewhere = leader == Some(node) && !writes.iter().any(|(n, _)| id(*n) == node);
            let place = (is_elsewhere && !writes.is_empty()).then(|| WritingPlace {
                writes: writes.iter().map(|(n, count)| (id(*n), *count)).collect(),
                trial_us: WRITERS_TRIAL_US,
                pause_us: PAUSE_US,
            });
            sim.with(node, |core, _| core.set_writing_place(place));
        }
        sim.run_for(SECOND.min(end - sim.now));
    }
}

#[test]
fn leader_follows_the_writers_after_the_pause_once() {
    let mut sim = group(20, true, &[50, 50, 50]);
    write_from(&mut sim, &[(3, 9)], PAUSE_US - 3 * SECOND);
    assert!(leads(&sim, id(1)), "it has to lead for the pause");
    write_from(&mut sim, &[(3, 9)], 4 * SECOND);
    assert!(leads(&sim, id(3)));
    let term = sim.core(id(3)).term();
    write_from(&mut sim, &[(3, 9)], 120 * SECOND);
    assert_eq!(sim.core(id(3)).term(), term);
    assert_eq!(sim.core(id(1)).handovers(Reason::Writers), 1);
}

#[test]
fn writers_of_less_than_the_trial_time_move_nothing() {
    let mut sim = group(21, true, &[50, 50, 50]);
    for _ in 0..10 {
        write_from(&mut sim, &[(3, 9)], WRITERS_TRIAL_US - SECOND);
        write_from(&mut sim, &[], SECOND);
    }
    assert!(leads(&sim, id(1)));
}

#[test]
fn heaviest_voter_of_the_place_leads_and_of_equals_the_one_that_writes_most() {
    let leader_after = |weights: &[u8], writes: &[(u64, u64)]| {
        let mut sim = group(22, true, weights);
        write_from(&mut sim, writes, PAUSE_US + WRITERS_TRIAL_US);
        sim.leader().expect("nothing fails")
    };
    assert_eq!(leader_after(&[50, 90, 50, 50], &[(3, 1), (4, 9)]), id(4));
    assert_eq!(leader_after(&[50, 50, 60, 50], &[(3, 0), (4, 9)]), id(3));
    let lighter = leader_after(&[50, 50, 49, 0], &[(3, 1), (4, 9)]);
    assert_eq!(lighter, id(1), "lighter than the leader");
    let zero = leader_after(&[0, 0, 0, 0], &[(3, 1), (4, 9)]);
    assert_eq!(zero, id(1), "weight zero never");
}

#[test]
fn leadership_goes_to_the_writers_only_if_they_keep_up() {
    let mut sim = group(23, true, &[50, 50, 50]);
    sim.hold_disk(id(3), true);
    for _ in 0..50 {
        sim.submit(id(1));
        write_from(&mut sim, &[(3, 9)], SECOND);
    }
    assert!(leads(&sim, id(1)), "its disk does not answer");
    sim.hold_disk(id(3), false);
    write_from(&mut sim, &[(3, 9)], WRITERS_TRIAL_US + 3 * SECOND);
    assert!(leads(&sim, id(3)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn weights_and_writers_do_not_play_leadership_back_and_forth(
        weights in proptest::array::uniform4(0_u8..4),
        hands_over in any::<bool>(),
        phases in proptest::collection::vec((1_u64..40, 1_u64..=4), 1..12),
    ) {
        let mut sim = group(24, true, &weights);
        for (n, weight) in (1..).zip(weights) {
            sim.prefer(id(n), preference(weight, hands_over));
        }
        let weight_of = |node: MemberId| weights[node.0 as usize - 1];
        let (mut leader, mut since) = (id(1), 0);
        for (seconds, writer) in phases {
            for _ in 0..seconds {
                let before = sim.core(leader).handovers(Reason::Writers);
                write_from(&mut sim, &[(writer, 9)], SECOND);
                let Some(next) = sim.ready_leader().filter(|next| *next != leader) else {
                    continue;
                };
                let (old, new) = (weight_of(leader), weight_of(next));
                if sim.core(leader).handovers(Reason::Writers) > before {
                    prop_assert!(new > 0 && new >= old, "{leader} to {next}");
                    prop_assert!(sim.now >= since + PAUSE_US, "{leader} to {next}");
                } else {
                    prop_assert!(new > old, "{leader} to {next}");
                }
                (leader, since) = (next, sim.now - SECOND);
            }
        }
    }
}
