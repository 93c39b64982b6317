//! The drills of the manual (`docs/operating/membership.md`): each command of the page is run as it
//! stands there, while clients write, until it shows what the page says.
//!
//! Substituted are only what a single machine does not have:
//!
//! | the page | here |
//! |---|---|
//! | the machine `db1`, `db2`, ... | node 1, 2, ... of the test's cluster, called so |
//! | `synod ...` finds the machine's only server | `--dir` with that node's directory |
//! | `mariadb -e "SQL"` | the same to that node |
//! | `systemctl start`, `restart`, `disable --now mariadb` | its server is started, or shut down |
//! | `systemctl start` or `enable --now synod-logger` | the logger is started |
//! | `/etc/synod/logger.toml` | the file of the test's logger |
//! | `poweroff -f` | the process is killed; its disk stays |
//!
//! A command that is not in this table fails the test. After each command clients must still get
//! acknowledgements, but between the loss of a majority and the order to continue; and the number
//! of voters is within the bounds of the drill.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::process::Command;
use std::time::{Duration, Instant};

use synod_e2e::acknowledged_writes::{Style, Writers};
use synod_e2e::drill::{Page, Step};
use synod_e2e::logger::Logger;
use synod_e2e::programs::{new_group_secret, printed};
use synod_e2e::{Failure, Outcome, TestCluster, Why, agreement, ensure, place};
use synod_local_cluster::wait_for;

const PAGE: Page = Page("membership.md");
const BASE_PORT: u16 = 27706;
/// For what takes moments, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Acknowledgements after each command: the group serves.
const SOME: u64 = 20;
const SQL_TIMEOUT: Duration = Duration::from_secs(10);

const GROW: &str = "grow from three servers to five";
const SHRINK: &str = "shrink from five servers to three";
const REPLACE: &str = "replace a dead machine";
const MOVE: &str = "move to other machines one by one";
const WITNESS: &str = "two data centres and a witness";
const MAJORITY: &str = "lose a majority";

/// A drill, and between which numbers of voters it goes.
struct Drill {
    title: &'static str,
    voters: RangeInclusive<usize>,
    /// Servers that are members at the end.
    remain: &'static [u8],
    /// Step at which the drill loses a majority.
    stop: Option<Stop>,
    /// Pairs of machines that go the way of `db4` and `db1` after these.
    then: &'static [[&'static str; 2]],
}

/// The commands between which no client gets an acknowledgement, with their prompts.
struct Stop {
    loss: &'static str,
    order: &'static str,
}

impl Drill {
    /// The commands of the page. Those up to a removal are repeated for the other machines.
    fn steps(&self) -> Outcome<Vec<Step>> {
        let mut steps = PAGE.steps(self.title)?;
        if self.then.is_empty() {
            return Ok(steps);
        }
        let removal = steps
            .iter()
            .position(|step| step.command.contains("member remove"));
        let none = || Failure(format!("{} removes no machine", self.title));
        let check = steps.split_off(removal.ok_or_else(none)? + 1);
        let first = steps.clone();
        for [new, old] in self.then {
            let name = |text: &str| text.replace("db4", new).replace("db1", old);
            steps.extend(first.iter().map(|step| Step {
                machine: name(&step.machine),
                command: name(&step.command),
                shows: step.shows.iter().map(|line| name(line)).collect(),
            }));
        }
        steps.extend(check);
        Ok(steps)
    }

    /// Whether the group serves after this command, which it did before or not.
    fn serves_after(&self, command: &str, before: bool) -> bool {
        match &self.stop {
            Some(stop) if command == stop.loss => false,
            Some(stop) if command == stop.order => true,
            _ => before,
        }
    }
}

/// The machines of a drill.
struct Site {
    cluster: TestCluster,
    logger: Option<Logger>,
}

impl Site {
    /// `servers` servers in a group, and so many further machines.
    fn new(name: &str, servers: u8, machines: u8) -> Outcome<Site> {
        let mut cluster = TestCluster::empty(name, BASE_PORT, servers)?;
        let settings = cluster.settings_mut();
        for node in 1..=machines {
            let own = settings.overrides.entry(node).or_default();
            own.extra_lines.push(format!("wsrep_node_name = db{node}"));
        }
        let secret = new_group_secret()?;
        settings.group_secret = Some(secret.trim().to_owned());
        cluster.up(&|_, _| ()).why("starting the servers")?;
        cluster.create_account()?;
        let logger = match machines == servers {
            true => Some(Logger::beside(&cluster, "witness", &secret)?),
            false => None,
        };
        cluster.settings_mut().nodes = machines;
        Ok(Site { cluster, logger })
    }

    /// Goes through a drill of the page.
    fn run(&mut self, drill: &Drill) -> Outcome {
        let begin = Instant::now();
        let table = drill.title.replace(' ', "_");
        let mut writers = Writers::prepare(&self.cluster, &table)?;
        for node in self.cluster.nodes() {
            writers.add(&self.cluster, node, 1, Style::Alone);
        }
        writers.await_more(SOME, PATIENCE)?;
        let mut serves = true;
        for step in drill.steps()? {
            let name = format!("{}# {}", step.machine, step.command);
            self.perform(&step).why(&name)?;
            serves = drill.serves_after(&name, serves);
            if serves {
                writers.await_more(SOME, PATIENCE).why(&name)?;
            }
            self.check_voters(&drill.voters).why(&name)?;
        }
        let report = writers.finish();
        self.cluster
            .await_synced(drill.remain, &|_, _| ())
            .why("after the drill")?;
        report.check_rows(&self.cluster, drill.remain)?;
        agreement::check(&self.cluster, drill.remain)?;
        let seconds = begin.elapsed().as_secs();
        eprintln!("  drill '{}': {seconds} s", drill.title);
        Ok(())
    }

    fn perform(&mut self, step: &Step) -> Outcome {
        if step.machine == "witness" {
            return self.on_witness(step);
        }
        let node = step.machine.strip_prefix("db");
        let node = node.and_then(|number| number.parse().ok());
        let node: u8 = node.ok_or_else(|| Failure(format!("no machine '{}'", step.machine)))?;
        let words: Vec<&str> = step.command.split_whitespace().collect();
        match words.as_slice() {
            ["systemctl", "start" | "restart", "mariadb"] => {
                self.cluster.spawn(node, false).why("starting it")?;
                self.cluster
                    .await_synced(&[node], &|_, _| ())
                    .why("starting it")
            }
            ["systemctl", "disable", "--now", "mariadb"] => {
                self.cluster.stop(node).why("stopping it").map(|_| ())
            }
            ["poweroff", "-f"] => self.cluster.kill(node).why("killing it").map(|_| ()),
            ["synod", arguments @ ..] => self.await_output(step, || {
                let dir = self.cluster.files(node).data;
                let mut synod = Command::new(place::program()?);
                synod.args(arguments).arg("--dir").arg(dir);
                printed(&mut synod)
            }),
            ["mariadb", "-e", ..] => {
                let sql = step.command.trim_start_matches("mariadb -e ");
                let sql = sql.trim_matches('"');
                self.await_output(step, || {
                    let rows = self.cluster.query(node, sql, SQL_TIMEOUT).why(sql)?;
                    let lines = rows.iter().map(|row| row.join(" "));
                    Ok(lines.collect::<Vec<_>>().join("\n"))
                })
            }
            _ => Err(unknown(step)),
        }
    }

    fn on_witness(&mut self, step: &Step) -> Outcome {
        let no_logger = || Failure("this drill has no machine 'witness'".to_owned());
        let logger = self.logger.as_mut().ok_or_else(no_logger)?;
        let words: Vec<&str> = step.command.split_whitespace().collect();
        match words.as_slice() {
            ["systemctl", "start", "synod-logger"]
            | ["systemctl", "enable", "--now", "synod-logger"] => logger.join(),
            ["poweroff", "-f"] => logger.kill(),
            [
                "synod",
                "logger",
                "--config",
                "/etc/synod/logger.toml",
                "--check",
            ] => {
                let file = logger.file();
                self.await_output(step, || {
                    let mut check = Command::new(place::program()?);
                    check.args(["logger", "--config"]).arg(&file).arg("--check");
                    printed(&mut check)
                })
            }
            _ => Err(unknown(step)),
        }
    }

    /// Repeats a command until it succeeds and shows what the page says.
    fn await_output(&self, step: &Step, run: impl Fn() -> Outcome<String>) -> Outcome {
        let mut last = String::new();
        let is_shown = wait_for(PATIENCE, || match run() {
            Ok(output) if step.missing_in(&output).is_none() => Some(()),
            Ok(output) => {
                last = output;
                None
            }
            Err(Failure(why)) => {
                last = why;
                None
            }
        });
        ensure(is_shown.is_some(), || {
            format!("it does not show {:?}, but:\n{last}", step.shows)
        })
    }

    /// The servers that run count as many voters as the drill allows.
    fn check_voters(&self, bounds: &RangeInclusive<usize>) -> Outcome {
        for node in self.cluster.nodes() {
            if self.cluster.pid(node).is_none() {
                continue;
            }
            let voters = self.cluster.synod_status(node, "voters")?;
            let is_within = voters.parse().is_ok_and(|count| bounds.contains(&count));
            ensure(is_within, || {
                format!("db{node} counts {voters} voters, and not {bounds:?}")
            })?;
        }
        Ok(())
    }
}

fn unknown(step: &Step) -> Failure {
    Failure(format!(
        "this test does not know the command {:?}",
        step.command
    ))
}

/// Goes through these drills, one after the other, on the machines that the one before has left.
fn run(name: &str, servers: u8, machines: u8, drills: &[Drill]) -> Outcome {
    let mut site = Site::new(name, servers, machines)?;
    for drill in drills {
        let done = site.run(drill);
        if done.is_err() {
            let logger = site.logger.as_ref().map(Logger::says).unwrap_or_default();
            eprintln!("{}\nwitness:\n{logger}", site.cluster.describe());
        }
        done.why(drill.title)?;
        // Machines that are no members any more are new ones in the next drill.
        for node in site
            .cluster
            .nodes()
            .filter(|node| !drill.remain.contains(node))
        {
            site.cluster.kill(node).why("a machine that has left")?;
            site.cluster.wipe(node).why("a machine that has left")?;
        }
    }
    Ok(())
}

#[test]
fn each_drill_of_the_page_is_run() -> Outcome {
    let tested =
        BTreeSet::from([GROW, SHRINK, REPLACE, MOVE, WITNESS, MAJORITY].map(str::to_owned));
    let written: BTreeSet<String> = PAGE.titles()?.into_iter().collect();
    ensure(tested == written, || {
        format!("the page has the drills {written:?}, and tests run {tested:?}")
    })
}

#[test]
fn groups_grow_and_shrink_and_dead_machines_are_replaced() -> Outcome {
    let drills = [
        Drill {
            title: GROW,
            voters: 3..=5,
            remain: &[1, 2, 3, 4, 5],
            stop: None,
            then: &[],
        },
        Drill {
            title: SHRINK,
            voters: 3..=5,
            remain: &[1, 2, 3],
            stop: None,
            then: &[],
        },
        Drill {
            title: REPLACE,
            // Two for a moment: the dead voter goes before the new one comes.
            voters: 2..=3,
            remain: &[1, 2, 4],
            stop: None,
            then: &[],
        },
    ];
    run("drills", 3, 5, &drills)
}

#[test]
fn groups_move_to_other_machines_one_by_one() -> Outcome {
    let moved = Drill {
        title: MOVE,
        voters: 3..=4,
        remain: &[4, 5, 6],
        stop: None,
        then: &[["db5", "db2"], ["db6", "db3"]],
    };
    run("drills-move", 3, 6, &[moved])
}

#[test]
fn two_data_centres_and_a_witness_lose_each_site_in_turn() -> Outcome {
    let witness = Drill {
        title: WITNESS,
        voters: 2..=3,
        remain: &[1, 2],
        stop: None,
        then: &[],
    };
    run("drills-witness", 2, 2, &[witness])
}

#[test]
fn survivor_of_a_lost_majority_continues_and_new_servers_join_it() -> Outcome {
    // Between the two losses clients get acknowledgements: what they were told before the second
    // one is in the survivor's log, too, and must not be lost.
    let lost = Drill {
        title: MAJORITY,
        voters: 1..=3,
        remain: &[3, 4, 5],
        stop: Some(Stop {
            loss: "db2# poweroff -f",
            order: "db3# synod recover --force --yes",
        }),
        then: &[],
    };
    run("drills-majority", 3, 5, &[lost])
}
