//! Three relays of a stock primary under load, whose logs lose their power at random, mostly all at
//! once: every reader gets every transaction once, in order, with each event as it is on the
//! primary's disk.

use std::thread;
use std::time::{Duration, Instant};

use synod_e2e::dice::Dice;
use synod_e2e::relays_under_load::RelaysUnderLoad;
use synod_e2e::{Outcome, Why, place};
use synod_lab::disk::PoweredDisk;

const PORT: u16 = 18306;
const DISK_BYTES: u64 = 1 << 30;
/// Fewer losses of power have shown nothing.
const LOSSES_MIN: u32 = 9;

#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn readers_get_every_transaction_once_whatever_loses_its_power() -> Outcome {
    let mut under_load = RelaysUnderLoad::prepare("relay-power", PORT)?;
    let disks = give_disks(&mut under_load)?;
    under_load.run(LOSSES_MIN, |under_load| lose_at_random(under_load, &disks))?;
    drop(under_load);
    let mut disks = disks.into_iter();
    disks
        .try_for_each(PoweredDisk::remove)
        .why("removing disks")
}

/// Gives the log of each relay a disk of its own.
fn give_disks(under_load: &mut RelaysUnderLoad) -> Outcome<Vec<PoweredDisk>> {
    let relays = under_load.group.relays.iter_mut();
    let disks = relays.map(|relay| {
        // New files are where a log may forget to sync.
        relay.set("synod.log_segment_size", "\"1M\"");
        PoweredDisk::mount(&relay.log_dir(), DISK_BYTES).why("making a disk")
    });
    disks.collect()
}

/// Takes the power of one relay, two or all, again and again; at the end all run. Answers how many
/// have lost it.
fn lose_at_random(under_load: &mut RelaysUnderLoad, disks: &[PoweredDisk]) -> Outcome<u32> {
    let mut dice = Dice::of(place::seed());
    let ends = Instant::now() + place::kill_time();
    let mut losses = 0;
    while Instant::now() < ends {
        thread::sleep(Duration::from_millis(200 + dice.below(2500)));
        let dark = under_load.choose_relays(&mut dice, &[1, 2, 3, 3, 3])?;
        let gone: Vec<&PoweredDisk> = dark.iter().map(|place| &disks[*place]).collect();
        PoweredDisk::lose_power(&gone).why("taking the power")?;
        // What a process still says without its disk must be true.
        thread::sleep(Duration::from_millis(dice.one_of(&[0, 0, 20, 300])));
        for place in &dark {
            under_load.group.relays[*place].kill()?;
            losses += 1;
        }
        under_load.disturb_reader(&mut dice);
        thread::sleep(Duration::from_millis(dice.below(1000)));
        for place in &dark {
            disks[*place].regain_power().why("giving the power back")?;
            under_load.group.relays[*place].start()?;
        }
    }
    under_load.group.await_puller()?;
    Ok(losses)
}
