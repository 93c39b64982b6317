//! Servers of a group are killed at random moments of their commits, or lose their power.

use std::thread;
use std::time::{Duration, Instant};

use synod_e2e::dice::Dice;
use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::{Outcome, Why};
use synod_lab::disk::PoweredDisk;

use crate::load::under_load;

const PORT: u16 = 19720;
const POWER_PORT: u16 = 19740;
/// Rounds of kills, and of losses of power.
const ROUNDS: u64 = 24;
const POWER_ROUNDS: u64 = 6;
/// Changes which moments are drawn.
const SEED: u64 = 32;
/// Rows that are acknowledged after each round.
const ROWS_AFTER: u64 = 50;
/// A round begins at some moment of so many milliseconds.
const MOMENTS_MS: u64 = 200;

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn acknowledged_rows_outlive_kills_at_random_moments() -> Outcome {
    let mut group = MysqlGroup::new("kills", PORT)?;
    let mut dice = Dice::of(SEED);
    rounds(&mut group, ROUNDS, |group, round, writer| {
        let victims = victims(round, writer, &mut dice);
        thread::sleep(Duration::from_millis(dice.below(MOMENTS_MS)));
        for victim in &victims {
            group.servers[*victim].signal("-KILL")?;
        }
        for victim in &victims {
            group.servers[*victim].end("-KILL")?;
        }
        thread::sleep(Duration::from_millis(dice.below(MOMENTS_MS)));
        Ok(victims)
    })
}

#[test]
#[ignore = "needs MySQL, and root for disks; scripts/test-mysql-group runs it"]
fn acknowledged_rows_outlive_losses_of_power() -> Outcome {
    let (mut group, disks) = MysqlGroup::on_disks("power", POWER_PORT)?;
    let mut dice = Dice::of(SEED);
    let outcome = rounds(&mut group, POWER_ROUNDS, |group, round, writer| {
        let victims = victims(round, writer, &mut dice);
        thread::sleep(Duration::from_millis(dice.below(MOMENTS_MS)));
        let lost: Vec<&PoweredDisk> = victims.iter().map(|victim| &disks[*victim]).collect();
        PoweredDisk::lose_power(&lost).why("taking the power")?;
        for victim in &victims {
            group.servers[*victim].end("-KILL")?;
            disks[*victim].regain_power().why("giving the power back")?;
        }
        Ok(victims)
    });
    drop(group);
    outcome?;
    let mut disks = disks.into_iter();
    disks
        .try_for_each(PoweredDisk::remove)
        .why("removing disks")
}

/// The writer, a secondary, the writer and a secondary, both secondaries, all; in turn.
fn victims(round: u64, writer: usize, dice: &mut Dice) -> Vec<usize> {
    let [one, other] = match dice.below(2) {
        0 => others(writer),
        _ => [others(writer)[1], others(writer)[0]],
    };
    match round % 5 {
        0 => vec![writer],
        1 => vec![writer, one, other],
        2 => vec![writer, one],
        3 => vec![one, other],
        _ => vec![one],
    }
}

/// Lets `fault` end some servers under load, again and again, and starts those again. All that was
/// acknowledged in any round is on all servers once.
fn rounds(
    group: &mut MysqlGroup,
    count: u64,
    mut fault: impl FnMut(&mut MysqlGroup, u64, usize) -> Outcome<Vec<usize>>,
) -> Outcome {
    let (mut writer, clients) = under_load(group)?;
    let mut back = Vec::new();
    for round in 0..count {
        let ended = fault(group, round, writer).why(format!("round {round}"))?;
        let at = Instant::now();
        for server in &ended {
            group.servers[*server].start(&[])?;
        }
        writer = group.await_whole().why(format!("round {round}"))?;
        clients.await_more(ROWS_AFTER, PATIENCE)?;
        back.push(at.elapsed());
        eprintln!(
            "round {round}: {ended:?} ended, whole again after {:?}",
            at.elapsed()
        );
    }
    back.sort_unstable();
    let (median, worst) = (back.get(back.len() / 2), back.last());
    eprintln!("{count} rounds: whole again after {median:?}, at most {worst:?}");
    clients.finish().check(group)
}
