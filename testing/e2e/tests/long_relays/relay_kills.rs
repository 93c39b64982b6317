//! Three relays of a stock primary under load, killed at random, one or all at once: every reader
//! gets every transaction once, in order, with each event as it is on the primary's disk.

use std::thread;
use std::time::{Duration, Instant};

use synod_e2e::dice::Dice;
use synod_e2e::relays_under_load::RelaysUnderLoad;
use synod_e2e::{Outcome, place};

const PORT: u16 = 19706;
/// Fewer kills have shown nothing.
const KILLS_MIN: u32 = 6;

#[test]
fn readers_get_every_transaction_once_whatever_is_killed() -> Outcome {
    RelaysUnderLoad::prepare("relay-kills", PORT)?.run(KILLS_MIN, kill_at_random)
}

/// Kills one relay, two or all, again and again; at the end all run. Answers how many it has
/// killed.
fn kill_at_random(under_load: &mut RelaysUnderLoad) -> Outcome<u32> {
    let mut dice = Dice::of(place::seed());
    let ends = Instant::now() + place::kill_time();
    let mut killed = 0;
    while Instant::now() < ends {
        thread::sleep(Duration::from_millis(200 + dice.below(2500)));
        let dead = under_load.choose_relays(&mut dice, &[1, 1, 1, 2, 3])?;
        for place in &dead {
            under_load.group.relays[*place].kill()?;
            killed += 1;
        }
        under_load.disturb_reader(&mut dice);
        thread::sleep(Duration::from_millis(dice.below(1500)));
        for place in &dead {
            under_load.group.relays[*place].start()?;
        }
    }
    under_load.group.await_puller()?;
    Ok(killed)
}
