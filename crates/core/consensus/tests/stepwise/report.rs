//! Output of a script's commands, and its assertions.

use synod_consensus::{EntryId, MemberId};

use super::show;
use super::world::{Done, ProposalResult, World};
use crate::harness::Seen;

impl World {
    pub(super) fn show_seen(&mut self, messages: bool) {
        let all = self.sim.seen.as_mut().map(std::mem::take);
        for seen in all.unwrap_or_default() {
            self.note_result(&seen);
            let held = |node| self.sim.node(node).disk.held;
            let shown = self.names.seen(&seen, held);
            let line = shown.filter(|(is_message, _)| messages || !is_message);
            self.output.extend(line.map(|(_, text)| text));
        }
    }

    fn note_result(&mut self, seen: &Seen) {
        let Seen::Resolved { origin, committed } = seen else {
            return;
        };
        if let Some(name) = self.names.proposals.get(origin) {
            let result = if *committed { "committed" } else { "refused" };
            self.results
                .insert(name.clone(), ProposalResult::Proposal(result));
        }
    }

    pub(super) fn show_network(&mut self) {
        let all = self.sim.queue.values();
        let lines: Vec<String> = all.map(|event| self.names.event(event)).collect();
        let nothing = lines.is_empty().then(|| "nothing is on its way".to_owned());
        self.output.extend(lines.into_iter().chain(nothing));
    }

    pub(super) fn show_status(&mut self) {
        let nodes: Vec<MemberId> = self.sim.nodes.keys().copied().collect();
        for node in nodes {
            let name = show::member(node);
            let line = if self.sim.node(node).core.is_none() {
                format!("{name} down")
            } else {
                let field = |what| self.field(node, what).expect("a known field");
                format!(
                    "{name} {} term {}, commit {}, last {}, durable {}, voters {}",
                    field("role"),
                    field("term"),
                    field("commit"),
                    field("last"),
                    field("durable"),
                    field("voters"),
                )
            };
            self.output.push(line);
        }
    }

    pub(super) fn show_logs(&mut self, node: Option<MemberId>) -> Done {
        if let Some(node) = node {
            self.known(node)?;
        }
        let nodes = node.map_or(self.sim.nodes.keys().copied().collect(), |node| vec![node]);
        for node in nodes {
            let image = &self.sim.node(node).disk.written;
            let entries = self
                .names
                .entries(image.entries.iter().map(|(header, _)| header));
            let base = match image.base.last {
                none if none == EntryId::default() => String::new(),
                last => format!("...{last} | "),
            };
            let name = show::member(node);
            self.output
                .push(format!("{name} {base}{entries}").trim_end().to_owned());
        }
        Ok(())
    }

    /// Value of a field of a member that scripts may assert, as text.
    fn field(&self, node: MemberId, what: &str) -> Option<String> {
        let core = self.sim.core(node);
        let none = || "none".to_owned();
        let image = &self.sim.node(node).disk.written;
        Some(match what {
            "role" => show::role(core.role()).to_owned(),
            "term" => core.term().to_string(),
            "leader" => core.leader().map_or_else(none, show::member),
            "commit" => core.commit_index().to_string(),
            "last" => core.last_id().to_string(),
            "durable" => core.durable_index().to_string(),
            "voters" => show::members(core.config().config.voters()),
            "log" => {
                let terms = image.entries.iter();
                let terms: Vec<String> = terms.map(|(header, _)| header.term.to_string()).collect();
                terms.join(" ")
            }
            "vote" => image.vote.voted_for.map_or_else(none, show::member),
            _ => return None,
        })
    }

    pub(super) fn assert_member(&mut self, node: MemberId, what: &str, value: &str) -> Done {
        self.up(node)?;
        let found = self.field(node, what);
        let found = found.ok_or_else(|| format!("'{what}' is nothing to assert"))?;
        if found == value {
            return Ok(());
        }
        let name = show::member(node);
        Err(format!("{name} {what} is '{found}', not '{value}'"))
    }

    pub(super) fn assert_result(&mut self, name: &str, result: &str) -> Done {
        let known = self.results.get(name);
        let found = match known.ok_or_else(|| format!("nothing is called '{name}'"))? {
            ProposalResult::Proposal(result) => result,
            ProposalResult::Read(read) if self.sim.is_read_done(*read) => "answered",
            ProposalResult::Read(_) => "open",
        };
        if found == result {
            return Ok(());
        }
        Err(format!("{name} is '{found}', not '{result}'"))
    }
}
