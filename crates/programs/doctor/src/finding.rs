//! Findings of the doctor.

use serde::Serialize;

/// Severity of a finding, in the order of importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Checked, without a problem.
    Good,
    /// Good to know, or it could not be looked at.
    Note,
    /// A problem to come.
    Warning,
    /// A group with this server does not work, or loses what it should not.
    Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    Version,
    Data,
    Group,
    Settings,
    Options,
    Tables,
    Features,
    Leftovers,
    Credentials,
    Disk,
    Network,
    Clock,
    Limits,
    Boot,
    Memory,
    Programs,
}

impl Subject {
    pub fn name(self) -> &'static str {
        match self {
            Subject::Version => "version",
            Subject::Data => "data",
            Subject::Group => "group",
            Subject::Settings => "settings",
            Subject::Options => "options",
            Subject::Tables => "tables",
            Subject::Features => "features",
            Subject::Leftovers => "leftovers",
            Subject::Credentials => "credentials",
            Subject::Disk => "disk",
            Subject::Network => "network",
            Subject::Clock => "clock",
            Subject::Limits => "limits",
            Subject::Boot => "boot",
            Subject::Memory => "memory",
            Subject::Programs => "programs",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub subject: Subject,
    pub severity: Severity,
    /// The finding: a sentence without a full stop.
    pub what: String,
    /// Why it matters: a sentence; empty if all is well.
    pub why: String,
    /// Remedy: a command, a line of configuration, or a sentence; empty if none.
    pub remedy: String,
}

impl Finding {
    pub fn good(subject: Subject, what: impl Into<String>) -> Finding {
        Finding::new(subject, Severity::Good, what, "", "")
    }

    pub fn new(
        subject: Subject,
        severity: Severity,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            subject,
            severity,
            what: what.into(),
            why: why.into(),
            remedy: remedy.into(),
        }
    }
}
