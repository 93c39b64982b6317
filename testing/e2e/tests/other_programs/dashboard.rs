//! The dashboard of an agent in a browser, beside real servers: what a person sees while members
//! are killed and come back.

use std::time::{Duration, Instant};

use synod_e2e::acknowledged_writes::{Style, Writers};
use synod_e2e::agent_process::AgentProcess;
use synod_e2e::dashboard::{Dashboard, browser_dir};
use synod_e2e::{Outcome, Shared, TestCluster, Why, ensure, usage};

static CLUSTER: Shared = Shared::new("dashboard", 23706);

const PATIENCE: Duration = Duration::from_secs(60);
/// Less than `evs.suspect_timeout`, after which the view changes. What the page says before, the
/// connections between the members have told.
const BEFORE_THE_VIEW: Duration = Duration::from_secs(4);
const ALL: [u8; 3] = [1, 2, 3];

/// Opens the page of a node's agent.
fn open(cluster: &TestCluster, node: u8) -> Outcome<(AgentProcess, Dashboard)> {
    let agent = AgentProcess::start(cluster, node, &[])?;
    let dashboard = Dashboard::open(&agent, &browser_dir(cluster)?)?;
    Ok((agent, dashboard))
}

/// All three are synced, and the page says who leads.
fn await_healthy(cluster: &TestCluster, page: &mut Dashboard) -> Outcome {
    for node in ALL {
        page.await_state(node, "Synced")?;
    }
    page.await_leader(cluster.leader())?;
    let state = "document.getElementById('state').textContent === \
                 'primary – 3 voters: 1 may fail at a time'";
    page.browser.wait_until(state)
}

/// Prints the agent's cost of one viewer, for people who compare runs.
fn print_cost(agent: &AgentProcess, begun: Instant) -> Outcome {
    let seconds = usage::cpu_seconds(agent.pid())?;
    let elapsed = begun.elapsed().as_secs_f64();
    let percent = 100.0 * seconds / elapsed;
    let megabytes = usage::resident_bytes(agent.pid())? >> 20;
    eprintln!("  the agent took {percent:.1} % of a core in {elapsed:.0} s, and {megabytes} MiB");
    Ok(())
}

#[test]
fn page_follows_a_group_whose_members_are_killed_and_come_back() {
    CLUSTER.scenario("the dashboard while members are killed", |cluster| {
        let leader = cluster.leader();
        let asked = cluster.others(leader)[0];
        let other = cluster.others(leader)[1];
        let (agent, mut page) = open(cluster, asked)?;
        let begun = Instant::now();
        await_healthy(cluster, &mut page)?;

        let mut writers = Writers::prepare(cluster, "dashboard")?;
        writers.add(cluster, asked, 2, Style::Alone);
        writers.add(cluster, asked, 4, Style::Conflicting);
        writers.add(cluster, other, 2, Style::Conflicting);
        writers.await_more(100, PATIENCE)?;
        page.await_commits(1)?;
        page.browser.wait_until(
            "/^[1-9][0-9,]* got error 1213 since its start/.test(\
             document.getElementById('conflicts').textContent)",
        )?;

        // The leader dies: an election, which the page tells without being loaded again.
        cluster.kill(leader).why("kill")?;
        page.await_state(leader, "absent")?;
        page.browser.wait_until(
            "document.getElementById('state').textContent.endsWith(': no further one may fail')",
        )?;
        page.browser.wait_until(&format!(
            "document.querySelector('tr[data-role=leader]').dataset.member !== 'node{leader}'"
        ))?;
        page.await_leader(cluster.leader())?;
        page.browser.wait_until(&format!(
            "[...document.querySelectorAll('.event[data-topic=leadership]')]\
             .some((event) => event.textContent.includes('node{}'))",
            cluster.leader()
        ))?;
        page.await_commits(1)?;
        cluster.start(leader, &|_, _| ()).why("start")?;
        await_healthy(cluster, &mut page)?;
        page.check()?;

        // The agent runs without its server, and says so.
        cluster.kill(asked).why("kill")?;
        page.browser.wait_until(
            "document.getElementById('trouble').innerText.includes('server does not answer') && \
             document.getElementById('trouble').innerText.includes('has ended')",
        )?;
        cluster.start(asked, &|_, _| ()).why("start")?;
        page.browser
            .wait_until("document.getElementById('trouble').hidden")?;
        await_healthy(cluster, &mut page)?;
        writers.finish().check_rows(cluster, &ALL)?;
        print_cost(&agent, begun)?;
        page.check()
    });
}

#[test]
fn dead_members_and_a_lost_majority_are_shown_before_the_view_changes() {
    CLUSTER.scenario("the dashboard without a majority", |cluster| {
        let leader = cluster.leader();
        let [asked, other] = cluster.others(leader)[..] else {
            return ensure(false, || "there are not three nodes".to_owned());
        };
        let (_agent, mut page) = open(cluster, asked)?;
        await_healthy(cluster, &mut page)?;
        let state = |node: u8| {
            format!("document.querySelector('tr[data-member=node{node}]').dataset.state")
        };
        let killed = Instant::now();
        for node in [other, leader] {
            cluster.kill(node).why("kill")?;
        }
        page.browser.wait_until(&format!(
            "/^(silent|absent)/.test({}) && /^(silent|absent)/.test({}) && \
             document.getElementById('state').className === 'pill bad' && \
             !document.getElementById('trouble').hidden",
            state(other),
            state(leader)
        ))?;
        let noticed = killed.elapsed();
        eprintln!("  shown after {:.1} s", noticed.as_secs_f64());
        ensure(noticed < BEFORE_THE_VIEW, || {
            format!("only after {noticed:?}")
        })?;

        page.browser.wait_until(&format!(
            "document.getElementById('state').textContent.startsWith('not primary') && \
             document.getElementById('trouble').innerText.includes('hears no leader') && \
             {} === 'absent' && {} === 'absent'",
            state(other),
            state(leader)
        ))?;
        cluster.up(&|_, _| ()).why("starting again")?;
        await_healthy(cluster, &mut page)?;
        page.check()
    });
}

#[test]
fn agent_of_a_follower_shows_the_round_trips_of_its_server() {
    CLUSTER.scenario("the dashboard of a follower", |cluster| {
        let follower = cluster.others(cluster.leader())[0];
        let (_agent, mut page) = open(cluster, follower)?;
        await_healthy(cluster, &mut page)?;
        let others = cluster.others(follower);
        page.await_round_trips(&others)?;
        page.follow(&format!("/member/node{}", others[0]))?;
        page.browser
            .wait_until("/ms (ahead of|behind) this server's, ±/.test(document.body.innerText)")?;
        page.check()
    });
}

#[test]
fn agent_of_the_leader_shows_round_trips_and_a_page_for_each_member() {
    CLUSTER.scenario("the dashboard of the leader", |cluster| {
        let leader = cluster.leader();
        let (_agent, mut page) = open(cluster, leader)?;
        await_healthy(cluster, &mut page)?;
        page.await_round_trips(&cluster.others(leader))?;
        for node in ALL {
            page.follow(&format!("/member/node{node}"))?;
            let role = if node == leader { "leader · " } else { "" };
            page.browser.wait_until(&format!(
                "document.querySelector('h1').textContent === 'node{node}' && \
                 document.getElementById('member-state').textContent === '{role}Synced'"
            ))?;
            page.check()?;
            page.follow("/")?;
            page.await_state(node, "Synced")?;
        }
        page.check()
    });
}

#[test]
fn page_fits_a_phone_and_is_dark_or_light() {
    CLUSTER.scenario("the dashboard on a phone", |cluster| {
        let (_agent, mut page) = open(cluster, 1)?;
        await_healthy(cluster, &mut page)?;
        page.browser.set_colours("dark")?;
        let dark = page.background()?;
        page.browser.set_colours("light")?;
        let light = page.background()?;
        ensure(dark != light, || format!("{dark} and {light}"))?;
        for width in [320, 390, 768, 1280] {
            page.browser.resize(width, 800, width < 600)?;
            page.browser
                .wait_until(&format!("window.innerWidth === {width}"))?;
            await_healthy(cluster, &mut page)?;
            page.check()?;
            page.follow("/member/node2")?;
            page.browser
                .wait_until("document.getElementById('member-state') !== null")?;
            page.check()?;
            page.follow("/")?;
        }
        // A person's choice wins over the system's, which is light.
        let button = "document.getElementById('theme').click()";
        page.browser.value(button)?;
        ensure(page.background()? == dark, || {
            "the button is ignored".into()
        })
    });
}
