//! Recent events, for `synod why`.

use serde::{Deserialize, Serialize};

/// Something that an operator asks about afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Time, in milliseconds since 1970, by this server's clock.
    pub at_unix_ms: u64,
    pub topic: Topic,
    /// Whether an operator should look at it.
    pub severity: Severity,
    /// Text, as in the error log.
    pub text: String,
}

/// Topic of an event.
///
/// A member notes events with a topic of its own type (`synod_member::Topic`), and
/// `synod_commands` translates, by a match that does not compile without a new one. The two are no
/// single type: the member knows nothing of lines for clients, and never notes [`Topic::Other`],
/// which is for readers of a newer member's line; and a client links no member. Below both is only
/// `wire`, which is about bytes between members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// Elections, handovers, a lost or regained majority.
    Leadership,
    /// Membership: views, joins, leaves, refusals.
    Membership,
    /// The pace at which writes are taken, and servers that commits do not wait for.
    Pace,
    /// Servers whose data differ, actions that failed.
    Consistency,
    Log,
    Clock,
    /// Everything else, also what a newer server calls otherwise.
    #[default]
    #[serde(other)]
    Other,
}

impl Topic {
    pub const ALL: [Topic; 7] = [
        Topic::Leadership,
        Topic::Membership,
        Topic::Pace,
        Topic::Consistency,
        Topic::Log,
        Topic::Clock,
        Topic::Other,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Topic::Leadership => "leadership",
            Topic::Membership => "membership",
            Topic::Pace => "pace",
            Topic::Consistency => "consistency",
            Topic::Log => "log",
            Topic::Clock => "clock",
            Topic::Other => "other",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    /// An operator should look at it.
    Warning,
    #[default]
    #[serde(other)]
    Info,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_called_on_the_line_as_by_name() {
        for topic in Topic::ALL {
            let line = serde_json::to_string(&topic).unwrap();
            assert_eq!(line, format!("\"{}\"", topic.name()));
        }
        let newer: Topic = serde_json::from_str("\"weather\"").unwrap();
        assert_eq!(newer, Topic::Other);
    }
}
