//! One run: a group is formed, tormented while clients work, healed, and judged.

mod clients;
mod group;
mod process;
mod progress;
mod story;
mod trouble;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use synod_oracle::{ClientAnswer, Database as Held, check};

use crate::database::Database;
use crate::member::Planted;
use crate::parent::die_with;
use crate::protocol::{Command, Reply};
use clients::Ledger;
use group::Group;
use process::{Connection, Member, Settings};
use progress::Progress;
use story::Story;

/// Between two looks at the group.
const STEP: Duration = Duration::from_millis(25);
/// Between two questions to every member.
const LOOK_PERIOD: Duration = Duration::from_millis(200);
/// A trouble that the group cannot be asked to bear now is waited for so long.
const PEACE_MAX: Duration = Duration::from_secs(8);
/// A healed group must be whole again after this.
const HEAL_LIMIT: Duration = Duration::from_secs(90);
/// How much of the story a failure shows.
const LINES_SHOWN: usize = 50;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Decides what is done to whom, and what clients do. StartEntropy if not given.
    #[arg(long)]
    seed: Option<u64>,
    /// How long the group is tormented, in seconds.
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
    /// Each log keeps about so many MiB (twice as many if somebody needs them): members that fall behind
    /// need a full copy then.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=4096))]
    retain_mib: u64,
    /// Where logs and databases are; kept. Otherwise a temporary directory, kept after a failure.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A mistake that the verdict has to find.
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

/// The directory, and whether it is ours to remove.
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

/// Why a run has failed; each line is a reason.
type Verdict = Result<(), Vec<String>>;

struct Run<'a> {
    options: &'a Options,
    seed: u64,
    dir: &'a Path,
    rng: SmallRng,
    story: Arc<Story>,
    ledger: Arc<Ledger>,
    group: Group,
    progress: Progress,
    next_look: Instant,
    stop_clients: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl<'a> Run<'a> {
    fn new(options: &'a Options, seed: u64, dir: &'a Path) -> io::Result<Run<'a>> {
        let story = Arc::new(Story::new(dir)?);
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
            group: Group::new(dir, room, settings, story.clone()),
            story,
            ledger: Arc::new(Ledger::new()),
            progress: Progress::new(Duration::from_secs(options.progress_seconds)),
            next_look: Instant::now(),
            stop_clients: Arc::default(),
            clients: Vec::new(),
        })
    }

    /// Whether the group has passed; says why not.
    fn run(mut self) -> bool {
        let verdict = self.torment_and_judge();
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

    fn torment_and_judge(&mut self) -> Verdict {
        self.form()?;
        self.torment()?;
        self.story.tell("heal");
        self.group.heal().map_err(broken)?;
        self.until_whole("the healed group is not whole again")?;
        self.end_clients();
        self.write_everywhere()?;
        self.judge()
    }

    fn form(&mut self) -> Verdict {
        for _ in 0..self.options.members {
            self.add_member()?;
            self.until_whole("the group does not form")?;
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

    fn torment(&mut self) -> Verdict {
        let begin = Instant::now();
        let whole = Duration::from_secs(self.options.seconds);
        let mut joiners = self.options.joiners;
        let mut next_trouble = begin;
        while begin.elapsed() < whole {
            if joiners > 0 && begin.elapsed() > whole / 3 {
                joiners -= 1;
                self.add_member()?;
            }
            if Instant::now() >= next_trouble {
                self.next_trouble()?;
                next_trouble =
                    Instant::now() + Duration::from_millis(self.rng.random_range(200..3500));
            }
            self.step()?;
        }
        Ok(())
    }

    /// Draws a trouble, and leaves the group in peace until it must bear it; if that takes too long, lets
    /// it be.
    fn next_trouble(&mut self) -> Verdict {
        let size = self.group.members.len();
        let trouble = trouble::draw(&mut self.rng, size, self.group.leader());
        let begin = Instant::now();
        while !self.group.bears(&trouble) {
            if begin.elapsed() > PEACE_MAX {
                return Ok(());
            }
            self.step()?;
        }
        self.group.suffer(trouble).map_err(broken)
    }

    /// A moment passes.
    fn step(&mut self) -> Verdict {
        thread::sleep(STEP);
        if let Some(why) = self.group.bury() {
            return Err(vec![why]);
        }
        self.group.go_on().map_err(broken)?;
        if Instant::now() >= self.next_look {
            self.group.look();
            self.next_look = Instant::now() + LOOK_PERIOD;
        }
        let (lives, success) = (self.group.majority_lives(), self.ledger.last_success());
        match self.progress.look(Instant::now(), lives, success) {
            Some(still) => Err(vec![format!(
                "no transaction was committed for {still:?}, though a majority lives"
            )]),
            None => Ok(()),
        }
    }

    fn until_whole(&mut self, otherwise: &str) -> Verdict {
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
                self.story.tell("a client panicked");
            }
        }
    }

    /// Every member takes a transaction, and gets everything.
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
        match found.is_empty() {
            true => Ok(()),
            false => Err(found.iter().map(ToString::to_string).collect()),
        }
    }

    fn summary(&self) -> String {
        let counts = &self.ledger.counts;
        let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
        format!(
            "seed {}, {:.0} s, {} members; {} committed, {} refused, {} unknown, {} causal reads; \
             troubles {:?}; longest time without a commit while a majority lived: {:.1} s",
            self.seed,
            self.story.elapsed_s(),
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
        self.story
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
            "\nlogs, databases and evidence are kept in {}\nagain: synod-chaos run --seed {} --seconds {} \
             --members {} --joiners {} --clients {} --retain-mib {}",
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
        for (id, told) in &evidence.answers {
            writeln!(file, "transaction {id}: {told:?}")?;
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
        let told = Connection::open(&member.dir, limit)
            .and_then(|mut connection| ledger.write(&mut connection, vec![0], 10, false));
        match told {
            Ok(ClientAnswer::Committed { .. }) => return Ok(()),
            other if begin.elapsed() > limit => {
                return Err(vec![format!("{} commits nothing: {other:?}", member.name)]);
            }
            _ => thread::sleep(STEP),
        }
    }
}

/// Where the member's database is, and all of that in its file.
fn flushed(member: &Member) -> Result<i64, Vec<String>> {
    match member.ask(&Command::Flush, Duration::from_secs(10)) {
        Ok(Reply::Flushed { position }) => Ok(position),
        other => Err(vec![format!("{} does not flush: {other:?}", member.name)]),
    }
}
