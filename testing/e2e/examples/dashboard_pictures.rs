//! Pictures of the dashboard for the documentation: three servers under load, one killed.
//!
//! ```text
//! make pictures          writes docs/images/dashboard-*.png
//! ```

#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use synod_e2e::acknowledged_writes::{Style, Writers};
use synod_e2e::agent_process::AgentProcess;
use synod_e2e::dashboard::{Dashboard, browser_dir};
use synod_e2e::{Outcome, TestCluster, Why, ensure, exit_code, place};

const PATIENCE: Duration = Duration::from_secs(120);
const ALL: [u8; 3] = [1, 2, 3];
/// Larger files do not belong into a repository.
const BYTES_MAX: usize = 150 << 10;
/// Points that the curve of commits should have: one comes each second.
const POINTS: u32 = 50;

fn main() -> ExitCode {
    exit_code(run())
}

fn run() -> Outcome {
    let mut cluster = TestCluster::fresh("shop", 23706)?;
    let leader = cluster.leader();
    let victim = cluster.others(leader)[1];
    let agent = AgentProcess::start(&cluster, leader, &[])?;
    let mut page = Dashboard::open(&agent, &browser_dir(&cluster)?)?;
    page.browser.set_colours("light")?;
    page.browser.resize(1180, 980, false)?;
    for node in ALL {
        page.await_state(node, "Synced")?;
    }
    let mut writers = Writers::prepare(&cluster, "orders")?;
    writers.add(&cluster, leader, 4, Style::Alone);
    writers.add(&cluster, leader, 1, Style::Conflicting);
    writers.add(&cluster, cluster.others(leader)[0], 1, Style::Conflicting);
    writers.await_more(500, PATIENCE)?;
    page.await_commits(1)?;
    await_points(&mut page)?;
    save(&mut page, "light")?;

    cluster.kill(victim).why("kill")?;
    page.await_state(victim, "absent")?;
    page.browser.set_colours("dark")?;
    save(&mut page, "member-absent")?;
    cluster.start(victim, &|_, _| ()).why("start")?;
    page.await_state(victim, "Synced")?;

    page.browser.resize(390, 844, true)?;
    page.browser.wait_until("window.innerWidth === 390")?;
    save(&mut page, "phone")?;
    // What is below has directories of this machine.
    page.browser.resize(1180, 710, false)?;
    page.follow(&format!("/member/node{leader}"))?;
    page.browser
        .wait_until("document.querySelectorAll('.step').length > 3")?;
    save(&mut page, "member")?;
    drop(writers.finish());
    cluster.destroy().why("removing the cluster")
}

/// Waits until the curve of commits has some length.
fn await_points(page: &mut Dashboard) -> Outcome {
    let curve = "document.querySelector('#commits ~ svg path.curve').getAttribute('d')";
    page.browser
        .wait_until(&format!("{curve}.split('L').length > {POINTS}"))
}

fn save(page: &mut Dashboard, name: &str) -> Outcome {
    page.check()?;
    let picture = page.browser.picture()?;
    ensure(picture.len() <= BYTES_MAX, || {
        format!("{name}: {} bytes, at most {BYTES_MAX}", picture.len())
    })?;
    let dir: PathBuf = place::workspace().join("docs/images");
    fs::create_dir_all(&dir).why("docs/images")?;
    let path = dir.join(format!("dashboard-{name}.png"));
    fs::write(&path, &picture).why(path.display())?;
    eprintln!("  {}: {} bytes", path.display(), picture.len());
    Ok(())
}
