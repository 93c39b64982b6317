//! The group that a person steers in a page: equal orders give equal runs, and what the orders do.

use synod_sim::playground::{Look, Playground};

const SECOND: u64 = 1_000_000;
/// An election takes less, also with candidates that lose.
const PATIENCE_US: u64 = 20 * SECOND;

/// Lets time pass until the group looks like this.
fn run_until(group: &mut Playground, what: &str, holds: impl Fn(&Look) -> bool) -> Look {
    for _ in 0..PATIENCE_US / 10_000 {
        group.run(10_000);
        let look = group.look();
        assert_eq!(look.broken, None);
        assert_eq!(look.lost, 0);
        if holds(&look) {
            return look;
        }
    }
    panic!("not within {PATIENCE_US} us: {what}: {:?}", group.look());
}

fn formed(seed: u64, members: usize) -> (Playground, Look) {
    let mut group = Playground::new(seed, members);
    let look = run_until(&mut group, "clients write", |look| look.acknowledged > 30);
    (group, look)
}

/// Follows one of each order, one each second, while time passes in steps.
fn run_with_orders(seed: u64, step_us: u64) -> Look {
    let mut group = Playground::new(seed, 3);
    for order in "q0 w0 k1 d2 s1 c3 p0 r3 s0 u2".split(' ') {
        for _ in 0..SECOND / step_us {
            group.run(step_us);
        }
        let (letter, member) = order.split_at(1);
        assert!(group.follow(letter.parse().unwrap(), member.parse().unwrap()));
    }
    run_until(&mut group, "all are back", |look| {
        let follows = |role| ["leader", "follower"].contains(&role);
        look.leader > 0 && look.members.iter().all(|member| follows(member.role))
    })
}

#[test]
fn equal_seeds_and_orders_give_equal_hashes_in_whatever_steps() {
    let look = run_with_orders(7, 1_000);
    assert_eq!(look.hash, run_with_orders(7, 1_000).hash);
    assert_eq!(look.hash, run_with_orders(7, 250_000).hash);
    assert_ne!(look.hash, run_with_orders(8, 250_000).hash);
    assert!(look.acknowledged > 100, "{look:?}");
}

#[test]
fn killed_leader_is_replaced_and_comes_back_as_a_follower() {
    for (seed, members) in [(1, 3), (2, 4), (3, 5)] {
        let (mut group, before) = formed(seed, members);
        let old = before.leader;
        group.follow('k', old);
        let look = run_until(&mut group, "another leads", |look| {
            look.leader > 0 && look.acknowledged > before.acknowledged + 20
        });
        let of = |look: &Look, number: usize| look.members[number - 1].role;
        assert_ne!(look.leader, old);
        assert_eq!((of(&look, old), of(&look, look.leader)), ("down", "leader"));
        assert!(look.members[look.leader - 1].term > before.members[old - 1].term);
        group.follow('s', old);
        run_until(&mut group, "the old leader has all", |look| {
            let member = &look.members[old - 1];
            member.role == "follower" && member.committed + 5 > look.first
        });
    }
}

#[test]
fn minority_that_is_cut_off_acknowledges_nothing_and_a_lost_majority_returns() {
    let (mut group, before) = formed(4, 3);
    let old = before.leader;
    group.follow('c', old);
    let look = run_until(&mut group, "another leads", |look| {
        look.leader > 0 && look.leader != old && look.acknowledged > before.acknowledged + 20
    });
    assert!(look.members[old - 1].committed < look.members[look.leader - 1].committed);
    group.follow('p', 0);
    group.follow('r', 0);
    let down = group.look();
    assert!(down.members.iter().all(|member| member.role == "down"));
    assert_eq!((down.leader, down.lost, down.messages.len()), (0, 0, 0));
    group.follow('s', 0);
    run_until(&mut group, "clients write again", |look| {
        look.acknowledged > down.acknowledged + 20
    });
}
