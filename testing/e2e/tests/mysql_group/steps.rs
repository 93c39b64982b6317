//! Servers are killed at named steps of a commit, by a plugin that pauses there.

use std::fs;
use std::path::PathBuf;

use synod_e2e::mysql_group::{MysqlGroup, PATIENCE, others};
use synod_e2e::{Outcome, Why, ensure};
use synod_local_cluster::wait_for;

use crate::load::{ROWS, under_load};

const PORT: u16 = 19760;
/// Steps of the writer: nothing is handed over yet; a majority has it; binlog and engine have it.
const OF_WRITER: [&str; 3] = ["asking", "decided", "committed"];
/// Steps of a secondary: nothing is queued for the applier yet; all but its end is.
const OF_SECONDARY: [&str; 2] = ["received", "half-queued"];

#[test]
#[ignore = "needs MySQL; scripts/test-mysql-group runs it"]
fn nothing_acknowledged_is_lost_at_whichever_step_servers_are_killed() -> Outcome {
    let mut group = MysqlGroup::that_pauses("steps", PORT)?;
    for step in OF_WRITER {
        killed_at(&mut group, step, |writer| (writer, vec![writer])).why(step)?;
    }
    for step in OF_SECONDARY {
        killed_at(&mut group, step, |writer| {
            let secondary = others(writer)[0];
            (secondary, vec![secondary])
        })
        .why(step)?;
        // The one that is left has to have what the writer has acknowledged.
        killed_at(&mut group, step, |writer| (others(writer)[0], vec![writer])).why(step)?;
    }
    for step in OF_WRITER {
        killed_at(&mut group, step, |writer| (writer, vec![0, 1, 2])).why(step)?;
    }
    Ok(())
}

/// Kills servers while one of them is at a step; `which` tells the paused one and the killed ones.
fn killed_at(
    group: &mut MysqlGroup,
    step: &str,
    which: impl Fn(usize) -> (usize, Vec<usize>),
) -> Outcome {
    let (writer, clients) = under_load(group)?;
    let (paused, killed) = which(writer);
    let pause = Pause::ask(group, paused, step)?;
    pause.await_reached()?;
    for server in &killed {
        group.servers[*server].end("-KILL")?;
    }
    pause.end()?;
    if killed.len() == 1 {
        clients.await_more(ROWS, PATIENCE)?;
    }
    for server in &killed {
        group.servers[*server].start(&[])?;
    }
    group.await_whole()?;
    clients.await_more(ROWS, PATIENCE)?;
    eprintln!("db{} at '{step}', killed: {killed:?}", paused + 1);
    clients.finish().check(group)
}

pub(crate) struct Pause(PathBuf);

impl Pause {
    pub(crate) fn ask(group: &MysqlGroup, server: usize, step: &str) -> Outcome<Pause> {
        let file = group.data_dir(server).join(format!("synod-pause-{step}"));
        fs::write(&file, "").why("asking for a pause")?;
        Ok(Pause(file))
    }

    fn reached(&self) -> PathBuf {
        self.0.with_extension("reached")
    }

    pub(crate) fn await_reached(&self) -> Outcome {
        let reached = wait_for(PATIENCE, || self.reached().exists().then_some(()));
        ensure(reached.is_some(), || "the step is not reached".to_owned())
    }

    pub(crate) fn end(&self) -> Outcome {
        fs::remove_file(self.reached()).why("ending a pause")
    }
}
