//! One run: a group forms, faults happen while clients work, the faults end, and the oracle judges.
//!
//! Meanwhile the run fails at once if no transaction is committed for too long while a majority
//! lives, or if a process ends by itself.

mod clients;
mod faults;
mod group;
mod process;
mod progress;
mod run_log;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::oracle::{ClientAnswer, Database as Held, check};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::database::Database;
use crate::member::Planted;
use crate::parent::die_with;
use crate::protocol::{Command, Reply};
use clients::Ledger;
use group::Group;
use process::{Connection, Member, Settings};
use progress::Progress;
use run_log::RunLog;

/// Pause between two looks at the processes.
const STEP: Duration = Duration::from_millis(25);
/// Time between two questions to every member.
const LOOK_PERIOD: Duration = Duration::from_millis(200);
/// Longest wait until the group has to survive the next fault; after it the fault is left out.
const WAIT_MAX: Duration = Duration::from_secs(8);
/// Longest time until a group without faults is complete again.
const HEAL_LIMIT: Duration = Duration::from_secs(90);
/// Lines of the run's log that a failure shows.
const LINES_SHOWN: usize = 50;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Decides the faults, their members, and what clients do. Drawn if not given.
    #[arg(long)]
    seed: Option<u64>,
    /// How long faults happen, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    seconds: u64,
    /// Members at the beginning.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=7))]
    members: u8,
    /// Members that join after a third of the time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=4))]
    joiners: u8,
    /// Clients at each member.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=50))]
    clients: u8,
    /// While a majority lives, a transaction must be committed within so many seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(3..=3600))]
    progress_seconds: u64,
    /// Target size of each log in MiB (twice as much if a member needs it): a member that lags by
    /// more needs a full copy.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=4096))]
    retain_mib: u64,
    /// Directory of logs and databases; kept. Otherwise a temporary directory, kept after a
    /// failure.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A mistake in the host that the oracle has to find.
    #[arg(long)]
    planted: Option<Planted>,
    /// Process to end with.
    #[arg(long, hide = true)]
    parent: Option<i32>,
}

pub(crate) fn main(options: &Options) -> ExitCode {
    if let Some(parent) = options.parent {
        die_with(parent);
    }
    let seed = options.seed.unwrap_or_else(rand_seed);
    match prepared(options).and_then(|(dir, temporary)| {
        println!("seed {seed}, directory {}", dir.display());
        let run = Run::new(options, seed, &dir)?;
        let passed = run.run();
        if passed && temporary {
            fs::remove_dir_all(&dir)?;
        }
        Ok(passed)
    }) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("cannot run: {error}");
            ExitCode::from(2)
        }
    }
}

fn rand_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) >> 32
}

/// The directory, and whether this run made it and may remove it.
fn prepared(options: &Options) -> io::Result<(PathBuf, bool)> {
    match &options.dir {
        Some(dir) => {
            fs::create_dir_all(dir)?;
            if fs::read_dir(dir)?.next().is_some() {
                let why = format!("{} is not empty", dir.display());
                return Err(io::Error::other(why));
            }
            Ok((dir.canonicalize()?, false))
        }
        None => {
            let dir = tempfile::Builder::new().prefix("synod-chaos-").tempdir()?;
            Ok((dir.keep(), true))
        }
    }
}

/// Verdict on a run: the reasons for its failure, one per line.
type Verdict = Result<(), Vec<String>>;

struct Run<'a> {
    options: &'a Options,
    seed: u64,
    dir: &'a Path,
    rng: SmallRng,
    run_log: Arc<RunLog>,
    ledger: Arc<Ledger>,
    group: Group,
    progress: Progress,
    next_look: Instant,
    stop_clients: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl<'a> Run<'a> {
    fn new(options: &'a Options, seed: u64, dir: &'a Path) -> io::Result<Run<'a>> {
        let run_log = Arc::new(RunLog::new(dir)?);
        let settings = Settings {
            planted: options.planted,
            retain_bytes: options.retain_mib << 20,
        };
        let room = usize::from(options.members + options.joiners);
        Ok(Run {
            options,
            seed,
            dir,
            rng: SmallRng::seed_from_u64(seed),
            group: Group::new(dir, room, settings, run_log.clone()),
            run_log,
            ledger: Arc::new(Ledger::new()),
            progress: Progress::new(Duration::from_secs(options.progress_seconds)),
            next_look: Instant::now(),
            stop_clients: Arc::default(),
            clients: Vec::new(),
        })
    }

    /// Whether the group has passed; prints the reasons if not.
    fn run(mut self) -> bool {
        let verdict = self.run_and_judge();
        self.end_clients();
        match verdict {
            Ok(()) => {
                println!("passed: {}", self.summary());
                true
            }
            Err(reasons) => {
                self.explain(&reasons);
                false
            }
        }
    }

    fn run_and_judge(&mut self) -> Verdict {
        self.form()?;
        self.inject_faults()?;
        self.run_log.line("heal");
        self.group.heal().map_err(broken)?;
        self.until_complete("without faults the group is not complete again")?;
        self.end_clients();
        self.write_everywhere()?;
        self.judge()
    }

    fn form(&mut self) -> Verdict {
        for _ in 0..self.options.members {
            self.add_member()?;
            self.until_complete("the group does not form")?;
        }
        Ok(())
    }

    fn add_member(&mut self) -> Verdict {
        self.group.add().map_err(broken)?;
        let Some(member) = self.group.members.last() else {
            return Ok(());
        };
        for _ in 0..self.options.clients {
            self.clients.push(clients::spawn(
                self.ledger.clone(),
                self.stop_clients.clone(),
                member.name.clone(),
                member.dir.clone(),
                self.rng.random(),
            ));
        }
        Ok(())
    }

    fn inject_faults(&mut self) -> Verdict {
        let begin = Instant::now();
        let whole = Duration::from_secs(self.options.seconds);
        let mut joiners = self.options.joiners;
        let mut next_fault = begin;
        while begin.elapsed() < whole {
            if joiners > 0 && begin.elapsed() > whole / 3 {
                joiners -= 1;
                self.add_member()?;
            }
            if Instant::now() >= next_fault {
                self.next_fault()?;
                next_fault =
                    Instant::now() + Duration::from_millis(self.rng.random_range(200..3500));
            }
            self.step()?;
        }
        Ok(())
    }

    /// Draws a fault, and waits until the group has to survive it. If that takes too long, the
    /// fault is left out.
    fn next_fault(&mut self) -> Verdict {
        let size = self.group.members.len();
        let fault = faults::draw(&mut self.rng, size, self.group.leader());
        let begin = Instant::now();
        while !self.group.survives(&fault) {
            if begin.elapsed() > WAIT_MAX {
                return Ok(());
            }
            self.step()?;
        }
        self.group.inject(fault).map_err(broken)
    }

    /// A moment passes: faults end, members are asked, and progress is checked.
    fn step(&mut self) -> Verdict {
        thread::sleep(STEP);
        if let Some(why) = self.group.check_processes() {
            return Err(vec![why]);
        }
        self.group.end_due_faults().map_err(broken)?;
        if Instant::now() >= self.next_look {
            self.group.look();
            self.next_look = Instant::now() + LOOK_PERIOD;
        }
        let (lives, success) = (self.group.majority_lives(), self.ledger.last_success());
        match self.progress.observe(Instant::now(), lives, success) {
            Some(still) => Err(vec![format!(
                "no transaction was committed for {still:?}, though a majority lives"
            )]),
            None => Ok(()),
        }
    }

    fn until_complete(&mut self, otherwise: &str) -> Verdict {
        let begin = Instant::now();
        while !self.group.all_settled() {
            if begin.elapsed() > HEAL_LIMIT {
                return Err(vec![format!("{otherwise} after {HEAL_LIMIT:?}")]);
            }
            self.step()?;
        }
        Ok(())
    }

    fn end_clients(&mut self) {
        self.stop_clients.store(true, Ordering::Release);
        for client in self.clients.drain(..) {
            if client.join().is_err() {
                self.run_log.line("a client panicked");
            }
        }
    }

    /// Every member commits a transaction, and all databases reach the same position.
    fn write_everywhere(&mut self) -> Verdict {
        let limit = Duration::from_secs(self.options.progress_seconds);
        for member in &self.group.members {
            write_once(&self.ledger, member, limit)?;
        }
        let target = self.ledger.acknowledged();
        let begin = Instant::now();
        loop {
            let positions: Vec<i64> = self
                .group
                .members
                .iter()
                .map(flushed)
                .collect::<Result<_, _>>()?;
            if positions
                .iter()
                .all(|position| *position >= target && *position == positions[0])
            {
                return Ok(());
            }
            if begin.elapsed() > HEAL_LIMIT {
                return Err(vec![format!(
                    "the databases stay at {positions:?} of {target}"
                )]);
            }
            self.step()?;
        }
    }

    fn judge(&mut self) -> Verdict {
        for member in &mut self.group.members {
            member.kill();
        }
        let mut evidence = self.ledger.evidence();
        for member in &self.group.members {
            let database = Database::open(&member.dir).map_err(broken)?;
            evidence.databases.push(Held {
                member: member.name.clone(),
                history: database
                    .history()
                    .map(|(at, content)| (at, content.clone()))
                    .collect(),
            });
        }
        let found = check(&evidence);
        if found.is_empty() {
            Ok(())
        } else {
            Err(found.iter().map(ToString::to_string).collect())
        }
    }

    fn summary(&self) -> String {
        let counts = &self.ledger.counts;
        let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
        format!(
            "seed {}, {:.0} s, {} members; {} committed, {} refused, {} unknown, {} causal reads; \
             faults {:?}; longest time without a commit while a majority lived: {:.1} s",
            self.seed,
            self.run_log.elapsed_s(),
            self.group.members.len(),
            count(&counts.committed),
            count(&counts.refused),
            count(&counts.unknown),
            count(&counts.reads),
            self.group.counts,
            self.progress.longest.as_secs_f64(),
        )
    }

    fn explain(&self, reasons: &[String]) {
        println!("FAILED: {}", self.summary());
        println!(
            "\nwhat happened at the end (all of it: {}/story.log):",
            self.dir.display()
        );
        self.run_log
            .last(LINES_SHOWN)
            .iter()
            .for_each(|line| println!("{line}"));
        println!("\nmembers:\n{}", self.group.describe());
        for member in &self.group.members {
            println!("last lines of {}:\n{}", member.name, member.last_output());
        }
        println!("\nreasons ({}):", reasons.len());
        reasons
            .iter()
            .take(20)
            .for_each(|reason| println!("  {reason}"));
        if let Err(error) = self.save_evidence() {
            println!("the evidence could not be saved: {error}");
        }
        println!(
            "\nlogs, databases and evidence are kept in {}\n\
             again: synod-chaos run --seed {} --seconds {} --members {} --joiners {} \
             --clients {} --retain-mib {}",
            self.dir.display(),
            self.seed,
            self.options.seconds,
            self.options.members,
            self.options.joiners,
            self.options.clients,
            self.options.retain_mib,
        );
    }

    fn save_evidence(&self) -> io::Result<()> {
        let mut file = io::BufWriter::new(fs::File::create(self.dir.join("evidence.txt"))?);
        let evidence = self.ledger.evidence();
        for (id, answer) in &evidence.answers {
            writeln!(file, "transaction {id}: {answer:?}")?;
        }
        for read in &evidence.reads {
            writeln!(file, "{read:?}")?;
        }
        file.flush()
    }
}

fn broken(error: io::Error) -> Vec<String> {
    vec![format!("the run itself broke: {error}")]
}

/// One transaction is committed through this member.
fn write_once(ledger: &Ledger, member: &Member, limit: Duration) -> Verdict {
    let begin = Instant::now();
    loop {
        let answer = Connection::open(&member.dir, limit)
            .and_then(|mut connection| ledger.write(&mut connection, vec![0], 10, false));
        match answer {
            Ok(ClientAnswer::Committed { .. }) => return Ok(()),
            other if begin.elapsed() > limit => {
                return Err(vec![format!(
                    "{} commits no transaction: {other:?}",
                    member.name
                )]);
            }
            _ => thread::sleep(STEP),
        }
    }
}

/// Has the member write its database to its file, and returns the position.
fn flushed(member: &Member) -> Result<i64, Vec<String>> {
    match member.ask(&Command::Flush, Duration::from_secs(10)) {
        Ok(Reply::Flushed { position }) => Ok(position),
        other => Err(vec![format!("{} does not flush: {other:?}", member.name)]),
    }
}
