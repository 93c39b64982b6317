//! `synod-sim`: runs seeds, or replays one seed and shows its events.
//!
//! The program ends with 0 if all seeds pass, with 1 if one breaks a rule, and with 2 if it does
//! not understand its options.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use synod_planted::Bug;
use synod_sim::{Coverage, Failed, Fault, Options, Passed, missing, options_of, run};

const USAGE: &str = "\
usage: synod-sim --seeds FIRST..LAST [--jobs N] [--hashes] [options]
       synod-sim --seed N [--trace] [options]

Runs simulated groups, one per seed. The first seed that breaks a rule ends the run, with a report
and the command that shows it again.

  --seeds FIRST..LAST                     runs these seeds, both included, and counts what happened
  --seed N                                runs one seed
  --jobs N                                threads (default 1)
  --trace                                 prints every event of one seed
  --complete                              fails if the seeds together have not met each message,
                                          fault, scene, option, answer and refusal at least once
  --hashes                                prints a line 'SEED HASH' for every seed that passed, in
                                          the order in which they end. Texts are not hashed: two
                                          builds that behave alike print the same lines ('sort -n')

options (in place of what the seed draws):
  --voters N  --loggers N  --learners N   members at the beginning
  --regions                               they are in two regions, in turn
  --loss RATE  --duplicates RATE          shares of messages, 0 to 1
  --safety-ms N                           length of the phase with faults, simulated milliseconds
  --fault-interval-ms N                   mean time between two faults, simulated milliseconds
  --no-faults                             no faults, clients only
  --planted NAME                          a bug put in on purpose; 'list' shows their names
                                          (in builds with --features planted)";

/// Most threads; more than any machine has cores for it.
const JOBS_MAX: usize = 1024;

/// Command line arguments.
#[derive(Clone, Debug)]
struct Arguments {
    first: u64,
    last: u64,
    jobs: usize,
    trace: bool,
    hashes: bool,
    complete: bool,
    help: bool,
    change: Change,
}

/// Options in place of those that the seed draws.
#[derive(Clone, Debug, Default)]
struct Change {
    voters: Option<usize>,
    loggers: Option<usize>,
    learners: Option<usize>,
    has_regions: bool,
    loss: Option<f64>,
    duplicates: Option<f64>,
    safety_ms: Option<u64>,
    fault_interval_ms: Option<u64>,
    no_faults: bool,
    planted: Option<Bug>,
}

impl Change {
    fn apply(&self, options: &mut Options) {
        options.voters = self.voters.unwrap_or(options.voters);
        options.loggers = self.loggers.unwrap_or(options.loggers);
        options.learners = self.learners.unwrap_or(options.learners);
        options.has_regions |= self.has_regions;
        if let Some(loss) = self.loss {
            options.loss = loss;
            options.faults.insert(Fault::Loss);
        }
        if let Some(duplicates) = self.duplicates {
            options.duplicates = duplicates;
            options.faults.insert(Fault::Duplicates);
        }
        if let Some(ms) = self.safety_ms {
            options.safety_us = ms.saturating_mul(1000);
        }
        if let Some(ms) = self.fault_interval_ms {
            options.fault_interval_us = ms.saturating_mul(1000);
        }
        if self.no_faults {
            options.faults.clear();
        }
    }
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("synod-sim: {text}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if arguments.help {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let mut sample = options_of(arguments.first);
    arguments.change.apply(&mut sample);
    if let Err(error) = sample.check() {
        eprintln!("synod-sim: {error}");
        return ExitCode::from(2);
    }
    if arguments.trace {
        replay(&arguments)
    } else {
        run_all(&arguments)
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        first: 1,
        last: 0,
        jobs: 1,
        trace: false,
        hashes: false,
        complete: false,
        help: false,
        change: Change::default(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let change = &mut arguments.change;
        match word.as_str() {
            "--seeds" => {
                let range = value()?;
                let (first, last) = range
                    .split_once("..")
                    .ok_or(format!("'{range}' is not FIRST..LAST"))?;
                (arguments.first, arguments.last) = (number(first)?, number(last)?);
            }
            "--seed" => {
                arguments.first = number(&value()?)?;
                arguments.last = arguments.first;
            }
            "--jobs" => arguments.jobs = number(&value()?)?,
            "--trace" => arguments.trace = true,
            "--hashes" => arguments.hashes = true,
            "--complete" => arguments.complete = true,
            "--help" | "-h" => {
                arguments.help = true;
                return Ok(arguments);
            }
            "--voters" => change.voters = Some(number(&value()?)?),
            "--loggers" => change.loggers = Some(number(&value()?)?),
            "--learners" => change.learners = Some(number(&value()?)?),
            "--regions" => change.has_regions = true,
            "--loss" => change.loss = Some(number(&value()?)?),
            "--duplicates" => change.duplicates = Some(number(&value()?)?),
            "--safety-ms" => change.safety_ms = Some(number(&value()?)?),
            "--fault-interval-ms" => change.fault_interval_ms = Some(number(&value()?)?),
            "--no-faults" => change.no_faults = true,
            "--planted" => change.planted = Some(planted(&value()?)?),
            _ => return Err(format!("unknown option '{word}'")),
        }
    }
    if arguments.first > arguments.last {
        return Err("no seeds to run: give --seed N or --seeds FIRST..LAST".to_owned());
    }
    match arguments.jobs {
        0 => return Err("--jobs 0 would never end".to_owned()),
        1..=JOBS_MAX => {}
        many => {
            return Err(format!(
                "--jobs {many} is more than the {JOBS_MAX} threads allowed"
            ));
        }
    }
    if arguments.trace && arguments.first != arguments.last {
        return Err("--trace shows one seed: give --seed N".to_owned());
    }
    Ok(arguments)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim_start_matches('=')
        .parse()
        .map_err(|_| format!("'{text}' is not a number"))
}

fn planted(name: &str) -> Result<Bug, String> {
    if !synod_planted::ENABLED {
        return Err("this build has no planted bugs: build it with --features planted".to_owned());
    }
    Bug::from_name(name).ok_or_else(|| {
        let names: Vec<String> = Bug::SIMULATED.iter().map(|bug| bug.name()).collect();
        format!("planted bugs are: {}", names.join(", "))
    })
}

fn run_seed(seed: u64, arguments: &Arguments) -> Result<Passed, Box<Failed>> {
    let mut options = options_of(seed);
    arguments.change.apply(&mut options);
    #[cfg(feature = "planted")]
    synod_planted::plant(arguments.change.planted);
    run(seed, options, arguments.trace)
}

fn replay(arguments: &Arguments) -> ExitCode {
    match run_seed(arguments.first, arguments) {
        Ok(passed) => {
            println!(
                "seed {} passed: {} entries committed in {} simulated seconds, hash {:016x}",
                arguments.first,
                passed.committed,
                passed.simulated_us / 1_000_000,
                passed.trace_hash
            );
            ExitCode::SUCCESS
        }
        Err(failed) => report(&failed, arguments),
    }
}

/// Prints everything that is needed to see the failure again.
fn report(failed: &Failed, arguments: &Arguments) -> ExitCode {
    println!("{failed}");
    println!("commit: {}", commit());
    println!("changes: {:?}", arguments.change);
    println!(
        "again: synod-sim --seed {} --trace (with the same options)",
        failed.seed
    );
    ExitCode::FAILURE
}

/// The commit that was simulated, if the program runs in its repository.
fn commit() -> String {
    let output = std::process::Command::new("git")
        .args(["rev-parse", "HEAD"])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        Ok(_) | Err(_) => "unknown".to_owned(),
    }
}

#[derive(Default)]
struct Totals {
    coverage: Coverage,
    seeds: u64,
    committed: u64,
    simulated_us: u64,
    failed: Option<Box<Failed>>,
}

fn run_all(arguments: &Arguments) -> ExitCode {
    let (next, totals) = (
        AtomicU64::new(arguments.first),
        Mutex::new(Totals::default()),
    );
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| work(arguments, &next, &totals, begun));
        }
    });
    let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary(&totals, begun);
    match &totals.failed {
        Some(failed) => report(failed, arguments),
        None if arguments.complete => complete(&totals.coverage),
        None => ExitCode::SUCCESS,
    }
}

fn complete(coverage: &Coverage) -> ExitCode {
    let missing = missing(coverage);
    if missing.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("these seeds have not met, so they say nothing about:");
    for what in missing {
        println!("  {what}");
    }
    ExitCode::FAILURE
}

fn work(arguments: &Arguments, next: &AtomicU64, totals: &Mutex<Totals>, begun: Instant) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed > arguments.last {
            return;
        }
        let result = run_seed(seed, arguments);
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(passed) => {
                totals.seeds += 1;
                totals.committed += passed.committed;
                totals.simulated_us += passed.simulated_us;
                totals.coverage.add(&passed.coverage);
                if arguments.hashes {
                    println!("{seed} {:016x}", passed.trace_hash);
                }
                if totals.seeds.is_multiple_of(10_000) {
                    summary(&totals, begun);
                }
            }
            Err(failed) => {
                // The other threads finish their seeds and end.
                next.store(u64::MAX - 1_000_000, Ordering::Relaxed);
                let first = totals
                    .failed
                    .as_ref()
                    .is_none_or(|known| failed.seed < known.seed);
                if first {
                    totals.failed = Some(failed);
                }
                return;
            }
        }
    }
}

fn summary(totals: &Totals, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64().max(0.001);
    println!(
        "{} seeds in {seconds:.0} s ({:.1} per second), {} entries committed, {:.1} h simulated",
        totals.seeds,
        totals.seeds as f64 / seconds,
        totals.committed,
        totals.simulated_us as f64 / 3.6e9
    );
    for (name, count) in totals.coverage.iter() {
        println!("  {count:>12}  {name}");
    }
}
