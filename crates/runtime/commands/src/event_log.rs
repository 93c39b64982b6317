//! The last events that operators ask for: a bounded ring.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_admin::event::{Event, Severity, Topic};
use synod_admin::status::Election;
use synod_admin::unix_ms;
use synod_node as node;

const EVENTS_MAX: usize = 256;
const TEXT_BYTES_MAX: usize = 1000;

/// Keeps the last events. Any thread may add one; none waits.
#[derive(Default)]
pub struct EventLog {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    election: Option<Election>,
}

impl EventLog {
    pub fn add(&self, topic: node::Topic, level: node::Level, text: &str) {
        let topic = match topic {
            node::Topic::Leadership => Topic::Leadership,
            node::Topic::Membership => Topic::Membership,
            node::Topic::Pace => Topic::Pace,
            node::Topic::Consistency => Topic::Consistency,
            node::Topic::Log => Topic::Log,
            node::Topic::Clock => Topic::Clock,
        };
        let severity = match level {
            node::Level::Debug | node::Level::Info => Severity::Info,
            node::Level::Warning => Severity::Warning,
            node::Level::Error => Severity::Error,
        };
        let event = Event {
            at_unix_ms: unix_ms(),
            topic,
            severity,
            text: beginning(text).to_owned(),
        };
        let mut state = self.state();
        if state.events.len() == EVENTS_MAX {
            state.events.pop_front();
        }
        state.events.push_back(event);
    }

    pub fn elected(&self, election: &node::Election) {
        self.state().election = Some(Election {
            at_unix_ms: unix_ms(),
            term: election.term.0,
            leader: election.leader.clone(),
            why: election.why.clone(),
        });
    }

    /// The events that are kept, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.iter().cloned().collect()
    }

    pub fn last_election(&self) -> Option<Election> {
        self.state().election.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn beginning(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_events_are_kept_in_their_order_and_bounded() {
        let log = EventLog::default();
        for number in 0..EVENTS_MAX + 10 {
            let text = format!("{number} {}", "ä".repeat(TEXT_BYTES_MAX));
            log.add(node::Topic::Log, node::Level::Warning, &text);
        }
        let events = log.events();
        assert_eq!(events.len(), EVENTS_MAX);
        assert!(events[0].text.starts_with("10 "));
        assert!(
            events
                .iter()
                .all(|event| event.text.len() <= TEXT_BYTES_MAX)
        );
        assert_eq!(events[0].severity, Severity::Warning);
    }
}
