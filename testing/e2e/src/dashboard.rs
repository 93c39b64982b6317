//! The agent's page in a browser, and what it must show of a real group.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::agent_process::AgentProcess;
use crate::browser::Browser;
use crate::failure::{Outcome, Why, ensure};
use crate::harness::TestCluster;

/// A page that is open. It is opened once: what it shows later has come by itself.
#[derive(Debug)]
pub struct Dashboard {
    pub browser: Browser,
    origin: String,
}

impl Dashboard {
    /// Opens the page of an agent, in a browser that keeps its files in `dir`.
    pub fn open(agent: &AgentProcess, dir: &Path) -> Outcome<Dashboard> {
        let origin = format!("http://127.0.0.1:{}", agent.port);
        let mut browser = Browser::start(dir)?;
        browser.open(&format!("{origin}/"))?;
        let mut dashboard = Dashboard { browser, origin };
        // Gone if the page is loaded again.
        dashboard
            .browser
            .wait_until("document.readyState === 'complete'")?;
        dashboard.browser.value("window.openedOnce = true")?;
        Ok(dashboard)
    }

    /// Waits until a node's row and its place in the picture show this state.
    pub fn await_state(&mut self, node: u8, state: &str) -> Outcome {
        let name = format!("node{node}");
        let row = format!("document.querySelector('tr[data-member={name}]').dataset.state");
        let place = format!("document.querySelector('g[data-node={name}]').dataset.state");
        let wanted = format!("{row} === '{state}' && {place} === '{state}'");
        self.browser.wait_until(&wanted)
    }

    /// Waits until the row and the picture show that this node, and no other, leads.
    pub fn await_leader(&mut self, node: u8) -> Outcome {
        let rows = "[...document.querySelectorAll('tr[data-role=leader]')]";
        let places = "[...document.querySelectorAll('g.node.leader')]";
        let wanted = format!(
            "{rows}.map((row) => row.dataset.member).join() === 'node{node}' && \
             {places}.map((place) => place.dataset.node).join() === 'node{node}'"
        );
        self.browser.wait_until(&wanted)
    }

    /// Waits until the links from the server that was asked to these nodes show a round trip.
    pub fn await_round_trips(&mut self, nodes: &[u8]) -> Outcome {
        for node in nodes {
            self.browser.wait_until(&format!(
                "/^[0-9.]+ m?s$/.test(document.querySelector('g[data-link=node{node}] text')\
                 .textContent)"
            ))?;
        }
        Ok(())
    }

    /// Waits until the page shows at least so many commits per second.
    pub fn await_commits(&mut self, at_least: u32) -> Outcome {
        self.browser.wait_until(&format!(
            "Number(document.getElementById('commits').textContent.replaceAll(',', '')) \
             >= {at_least}"
        ))
    }

    /// Opens another address of the page, as a click on a link does.
    pub fn follow(&mut self, path: &str) -> Outcome {
        self.browser.wait_until(&format!(
            "document.querySelector('a[href=\"{path}\"]') !== null"
        ))?;
        // Links of the picture are SVG, which has no click().
        self.browser.value(&format!(
            "document.querySelector('a[href=\"{path}\"]').dispatchEvent(\
             new MouseEvent('click', {{ bubbles: true, cancelable: true }})) && false"
        ))?;
        self.browser
            .wait_until(&format!("location.pathname === '{path}'"))
    }

    /// The background of the page, as the browser has computed it.
    pub fn background(&mut self) -> Outcome<Value> {
        self.browser
            .value("getComputedStyle(document.body).backgroundColor")
    }

    /// Checks that all fits into the window's width, that the page was loaded once, that nothing
    /// was asked of another origin, and that no script has failed.
    pub fn check(&mut self) -> Outcome {
        let root = "document.documentElement";
        let fits = format!("{root}.scrollWidth <= {root}.clientWidth");
        let widths = format!("[{root}.scrollWidth, {root}.clientWidth]");
        let fits = self.browser.value(&fits)? == true;
        let widths = self.browser.value(&widths)?;
        ensure(fits, || format!("the page scrolls sideways: {widths}"))?;
        let once = self.browser.value("window.openedOnce === true")?;
        ensure(once == true, || "the page was loaded again".into())?;
        let origin = &self.origin;
        let outside = self.browser.requested().iter();
        let outside: Vec<_> = outside.filter(|url| !url.starts_with(origin)).collect();
        ensure(outside.is_empty(), || {
            format!("asked elsewhere: {outside:?}")
        })?;
        let asked = self.browser.requested().len();
        ensure(asked > 10, || format!("only {asked} requests were seen"))?;
        let complaints = self.browser.complaints();
        ensure(complaints.is_empty(), || {
            format!("complaints: {complaints:?}")
        })
    }
}

/// A new directory for a browser's files, beside those of the cluster.
pub fn browser_dir(cluster: &TestCluster) -> Outcome<PathBuf> {
    let dir = cluster.settings().dir.join("browser");
    if dir.exists() {
        std::fs::remove_dir_all(&dir).why("removing the files of an earlier browser")?;
    }
    Ok(dir)
}
