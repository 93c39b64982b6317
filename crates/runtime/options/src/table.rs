//! The table of all options, and the type of its rows.
//!
//! The table is made while compiling, so that [`key`](super::key) can refuse a name or a type that
//! is not in it. The order of the table is the order in which options are shown.

use super::galera::GALERA;
use super::node_settings::Period;
use super::own::OWN;
use super::value::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settable {
    /// In the server's configuration or the cluster address.
    AtStart,
    Dynamic,
    /// At any time; setting it starts something, and the value is not kept.
    Trigger,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Works,
    /// Accepted and shown, with a notice that says why it has no effect.
    None(&'static str),
    /// Anything but the default is an error that says why.
    Refused(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    Is(&'static str),
    DataDir,
    NodeHost,
    /// The port of the node's address, or 4567.
    NodePort,
    /// All interfaces, or `base_host` if that is a loopback address; port `base_port`.
    AnyAtBasePort,
    /// `base_host`, the port after `base_port`.
    NodeHostNextPort,
    /// The protocol's own default.
    Timing(Period),
}

/// An option: its name, its value's type and default, and what it means here.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    pub name: &'static str,
    pub default: DefaultValue,
    pub kind: Kind,
    pub settable: Settable,
    /// Whether it is shown although it is not set.
    pub listed: bool,
    /// Whether it changes without this server being asked: another server or a command sets it for
    /// the group. So the value in a saved list may be an old one.
    pub of_group: bool,
    /// Whether no installation is expected to need it: the manual lists it at its end.
    pub for_experts: bool,
    /// Unit, or what the text is; may be empty.
    pub unit: &'static str,
    pub meaning: Meaning,
    /// Description for operators: effect, and trade-off of the default, in at most two sentences.
    /// Empty for an option without effect, which has a reason instead.
    pub about: &'static str,
}

/// All options in the order in which they are shown: Galera's in Galera's order, then ours.
pub static SPECS: [OptionSpec; COUNT] = all();

const COUNT: usize = GALERA.len() + OWN.len();

const fn all() -> [OptionSpec; COUNT] {
    let mut specs = [GALERA[0]; COUNT];
    let mut i = 0;
    while i < COUNT {
        specs[i] = if i < GALERA.len() {
            GALERA[i]
        } else {
            OWN[i - GALERA.len()]
        };
        i += 1;
    }
    specs
}

pub(crate) fn find(name: &str) -> Option<usize> {
    SPECS.iter().position(|spec| spec.name == name)
}

/// Like [`find`], while compiling: a name that is not there does not compile.
pub(crate) const fn index_of(name: &str) -> usize {
    const ALL: [OptionSpec; COUNT] = all();
    let mut i = 0;
    while i < COUNT {
        if same(ALL[i].name.as_bytes(), name.as_bytes()) {
            return i;
        }
        i += 1;
    }
    panic!("no option has this name")
}

pub(crate) const fn kind_at(index: usize) -> Kind {
    const ALL: [OptionSpec; COUNT] = all();
    ALL[index].kind
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn spec(
    name: &'static str,
    default: &'static str,
    kind: Kind,
    unit: &'static str,
) -> OptionSpec {
    OptionSpec {
        name,
        default: DefaultValue::Is(default),
        kind,
        settable: Settable::AtStart,
        listed: true,
        of_group: false,
        for_experts: false,
        unit,
        meaning: Meaning::Works,
        about: "",
    }
}

pub(crate) const fn bool(name: &'static str, default: &'static str) -> OptionSpec {
    spec(name, default, Kind::Bool, "yes/no")
}

pub(crate) const fn int(
    name: &'static str,
    default: &'static str,
    min: i64,
    max: i64,
) -> OptionSpec {
    spec(name, default, Kind::Int { min, max }, "number")
}

pub(crate) const fn fraction(name: &'static str, default: &'static str) -> OptionSpec {
    spec(name, default, Kind::Real { min: 0.0, max: 1.0 }, "fraction")
}

pub(crate) const fn duration(name: &'static str, default: &'static str) -> OptionSpec {
    spec(name, default, Kind::Duration, "duration")
}

pub(crate) const fn address(name: &'static str, default: &'static str) -> OptionSpec {
    spec(name, default, Kind::Address, "address")
}

pub(crate) const fn word(
    name: &'static str,
    default: &'static str,
    words: &'static [&'static str],
) -> OptionSpec {
    spec(name, default, Kind::Word(words), "word")
}

pub(crate) const fn text(name: &'static str, default: &'static str) -> OptionSpec {
    spec(name, default, Kind::Text, "text")
}

pub(crate) const fn region(name: &'static str, default: &'static str) -> OptionSpec {
    spec(name, default, Kind::Region, "name")
}

impl OptionSpec {
    pub(crate) const fn default(self, default: DefaultValue) -> OptionSpec {
        OptionSpec { default, ..self }
    }

    pub(crate) const fn dynamic(self) -> OptionSpec {
        OptionSpec {
            settable: Settable::Dynamic,
            ..self
        }
    }

    pub(crate) const fn trigger(self) -> OptionSpec {
        OptionSpec {
            settable: Settable::Trigger,
            ..self
        }
    }

    pub(crate) const fn hidden(self) -> OptionSpec {
        OptionSpec {
            listed: false,
            ..self
        }
    }

    pub(crate) const fn of_group(self) -> OptionSpec {
        OptionSpec {
            of_group: true,
            ..self
        }
    }

    pub(crate) const fn for_experts(self) -> OptionSpec {
        OptionSpec {
            for_experts: true,
            ..self
        }
    }

    pub(crate) const fn unit(self, unit: &'static str) -> OptionSpec {
        OptionSpec { unit, ..self }
    }

    pub(crate) const fn works(self, about: &'static str) -> OptionSpec {
        OptionSpec {
            about,
            meaning: Meaning::Works,
            ..self
        }
    }

    pub(crate) const fn ignored(self, why: &'static str) -> OptionSpec {
        OptionSpec {
            meaning: Meaning::None(why),
            ..self
        }
    }

    pub(crate) const fn refused(self, about: &'static str, why: &'static str) -> OptionSpec {
        OptionSpec {
            about,
            meaning: Meaning::Refused(why),
            ..self
        }
    }
}
