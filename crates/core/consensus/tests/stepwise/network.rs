//! Network of a script: the messages on their way, and how the script handles them.

use std::collections::BTreeMap;

use synod_consensus::MemberId;

use super::command::{Handling, Link, Selector};
use super::show;
use super::world::{Done, World};
use crate::harness::Event;

/// A group that is still busy after so many messages will never be quiet.
const MESSAGES_MAX: usize = 10_000;

/// Place of a message in the network.
type Key = (u64, u64);

impl World {
    /// Disks that are not held answer, and members that lead get their own proposals: neither takes
    /// the network.
    pub(super) fn finish_local(&mut self) {
        loop {
            let local = self.sim.queue.iter().find(|((at, _), event)| {
                let own = show::route(event).is_none_or(|(from, to, _)| from == to);
                // A member's proposal takes a microsecond to itself.
                own && *at <= self.sim.now + 1
            });
            let Some(key) = local.map(|(key, _)| *key) else {
                return;
            };
            let event = self.sim.queue.remove(&key).expect("just seen");
            self.sim.happen(event);
        }
    }

    fn matching(&self, selector: &Selector) -> Vec<Key> {
        let wanted = |event: &Event| {
            show::route(event).is_some_and(|(from, to, kind)| {
                let kind_fits = selector.kind.as_ref().is_none_or(|wanted| wanted == kind);
                from != to && selector.link.covers(from, to) && kind_fits
            })
        };
        let all = self.sim.queue.iter();
        all.filter(|(_, event)| wanted(event))
            .map(|(key, _)| *key)
            .collect()
    }

    pub(super) fn deliverable(&self) -> impl Iterator<Item = Key> + '_ {
        let held = |event: &Event| {
            show::route(event)
                .is_some_and(|(from, to, _)| self.held.iter().any(|link| link.covers(from, to)))
        };
        let all = self.sim.queue.iter();
        all.filter(move |(_, event)| !held(event))
            .map(|(key, _)| *key)
    }

    pub(super) fn deliver_all(&mut self, messages_shown: bool) -> Done {
        for _ in 0..MESSAGES_MAX {
            self.finish_local();
            self.show_seen(messages_shown);
            let now = self.sim.now;
            let next = self.deliverable().find(|(at, _)| *at <= now);
            let Some(key) = next else {
                return Ok(());
            };
            let event = self.sim.queue.remove(&key).expect("just seen");
            self.sim.happen(event);
        }
        Err(format!("more than {MESSAGES_MAX} messages"))
    }

    pub(super) fn handle(&mut self, handling: Handling, selector: &Selector) -> Done {
        self.known_ends(selector.link)?;
        let keys = self.matching(selector);
        if keys.is_empty() {
            return Err("no such message is on its way".to_owned());
        }
        match handling {
            Handling::Deliver => keys.iter().for_each(|key| self.deliver(*key)),
            Handling::Drop => {
                for key in keys {
                    self.lose(key);
                }
            }
            Handling::Duplicate => {
                for key in keys {
                    let event = self.sim.queue[&key].clone();
                    self.sim.schedule(0, event);
                }
            }
            Handling::Reverse => {
                let events = keys.iter().map(|key| self.sim.queue[key].clone());
                let events: Vec<Event> = events.collect();
                let keys = keys.into_iter().rev();
                self.sim.queue.extend(keys.zip(events));
            }
        }
        Ok(())
    }

    /// Shows the consequences at once, so that it is clear which message had which.
    fn deliver(&mut self, key: Key) {
        let event = self.sim.queue.remove(&key).expect("just seen");
        let text = self.names.event(&event);
        let to = show::route(&event).map(|(_, to, _)| to);
        self.sim.happen(event);
        self.finish_local();
        let before = self.output.len();
        self.output.push(format!("[{text}]"));
        self.show_seen(true);
        if self.output.len() == before + 1 {
            let down = to.is_some_and(|to| self.up(to).is_err());
            self.output[before] += if down {
                " finds no member"
            } else {
                " changes nothing"
            };
        }
    }

    pub(super) fn hold(&mut self, link: Link) -> Done {
        self.known_ends(link)?;
        self.held.push(link);
        Ok(())
    }

    fn known_ends(&self, link: Link) -> Done {
        let mut ends = [link.from, link.to].into_iter().flatten();
        ends.try_for_each(|end| self.known(end))
    }

    fn lose(&mut self, key: Key) {
        let event = self.sim.queue.remove(&key).expect("just seen");
        self.output
            .push(format!("{} (lost)", self.names.event(&event)));
    }

    pub(super) fn release(&mut self, link: Link) -> Done {
        let before = self.held.len();
        self.held.retain(|held| *held != link);
        if self.held.len() == before {
            return Err("this link is not held".to_owned());
        }
        Ok(())
    }

    /// Messages on their way across are lost, too.
    pub(super) fn partition(&mut self, sides: &[Vec<MemberId>]) -> Done {
        for node in sides.iter().flatten() {
            self.known(*node)?;
        }
        let nodes: Vec<MemberId> = self.sim.nodes.keys().copied().collect();
        let mut side_of = BTreeMap::new();
        for node in nodes {
            let of: Vec<usize> = (0..sides.len())
                .filter(|side| sides[*side].contains(&node))
                .collect();
            match of[..] {
                [side] => side_of.insert(node, side),
                [] => return Err(format!("{} is on no side", show::member(node))),
                _ => return Err(format!("{} is on two sides", show::member(node))),
            };
        }
        for (a, side) in &side_of {
            for (b, _) in side_of.iter().filter(|(_, other)| *other != side) {
                let (from, to) = (Some(*a), Some(*b));
                self.cut(Link { from, to })?;
            }
        }
        Ok(())
    }

    pub(super) fn cut(&mut self, link: Link) -> Done {
        self.known_ends(link)?;
        for from in self.sim.nodes.keys() {
            let others = self.sim.nodes.keys().filter(|to| *to != from);
            for to in others.filter(|to| link.covers(*from, **to)) {
                self.sim.blocked.insert((*from, *to));
            }
        }
        for key in self.matching(&Selector { link, kind: None }) {
            self.lose(key);
        }
        Ok(())
    }
}

impl Link {
    fn covers(self, from: MemberId, to: MemberId) -> bool {
        self.from.is_none_or(|end| end == from) && self.to.is_none_or(|end| end == to)
    }
}
