//! Provider options: what operators write into `wsrep_provider_options` and
//! `wsrep_cluster_address`; the file of a logger has the same names.
//!
//! Galera's names are all understood, so that existing configurations load. Each is implemented
//! here, accepted with a notice because it has no effect, or refused because accepting it would
//! promise something that is not true. Synod's own begin with `synod.`. Any other name is an error.
#![forbid(unsafe_code)]

mod address;
mod document;
mod encryption;
mod error;
mod galera;
pub mod key;
mod node_settings;
mod own;
mod parameters;
mod table;
mod value;
pub mod whereabouts;

use std::time::Duration;

use synod_node::{GroupSetting, GroupSettings, LeaderWeight, Writers};

pub use address::{Address, ClusterUrl, DEFAULT_PORT, Peer, UrlError};
pub use document::markdown_tables;
pub use encryption::{ExposedError, Exposure};
pub use error::{NotRestored, Notice, OptionsError, nearest, removed};
pub use node_settings::{HostFacts, HostNames, Period};
use node_settings::{commit_regions_of, writers_of};
pub use parameters::{Parameter, ParameterValue};
pub use table::{DefaultValue, Meaning, OptionSpec, SPECS, Settable};
pub use value::{Kind, Value};

use key::{AddressKey, BoolKey, DurationKey, IntKey, Key, TextKey, WordKey};

const RELOAD: &str = "socket.ssl_reload";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Data directory of the server, with a slash at the end.
    pub data_dir: String,
    /// `wsrep_node_address`: host, `host:port`, or empty.
    pub node_address: String,
}

#[derive(Clone, Debug)]
pub struct Options {
    defaults: Defaults,
    /// One for each of [`SPECS`], in the same order.
    slots: Vec<Slot>,
}

#[derive(Clone, Debug)]
struct Slot {
    /// Text of the value as it was written, or of the default: shown by `options_get`.
    text: String,
    value: Value,
    /// Whether it was set: at start, or since.
    is_set: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Update {
    /// Options named in the text, in its order, with their new values.
    pub changed: Vec<(&'static str, Value)>,
    /// Options that a saved list would have changed, and that only a person may.
    pub not_restored: Vec<NotRestored>,
    /// Notices to the operator. For the log, at INFO.
    pub notices: Vec<Notice>,
}

impl Update {
    /// The new value of an option, if the text named it; of the last mention.
    pub fn value(&self, key: impl Key) -> Option<&Value> {
        let name = SPECS[key.index()].name;
        self.changed
            .iter()
            .rev()
            .find(|(changed, _)| *changed == name)
            .map(|(_, value)| value)
    }

    pub fn group_settings(&self) -> Vec<GroupSetting> {
        let writers = match self.value(key::WRITERS) {
            Some(Value::Word(word)) => Some(GroupSetting::Writers(writers_of(word))),
            _ => None,
        };
        let regions = match self.value(key::COMMIT_REGIONS) {
            Some(Value::Int(number)) => {
                Some(GroupSetting::CommitRegions(commit_regions_of(*number)))
            }
            _ => None,
        };
        [writers, regions].into_iter().flatten().collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    Running,
}

impl Options {
    /// The options of a starting server: defaults, then what `wsrep_provider_options` says.
    pub fn new(defaults: Defaults, text: &str) -> Result<(Options, Update), OptionsError> {
        let slots = SPECS.iter().map(Slot::default_of).collect();
        let mut options = Options { defaults, slots };
        options.fill_dependent();
        let update = options.apply(value::parse_list(text)?, Phase::Start)?;
        Ok((options, update))
    }

    /// Options that are written one by one, as in the file of a logger; then defaults.
    pub fn from_pairs(
        defaults: Defaults,
        pairs: &[(String, String)],
    ) -> Result<(Options, Update), OptionsError> {
        let (mut options, _) = Options::new(defaults, "")?;
        let update = options.apply(pairs.to_vec(), Phase::Start)?;
        Ok((options, update))
    }

    /// Applies the `?name=value` part of a cluster address, before connecting. All or nothing.
    pub fn set_from_url(&mut self, pairs: &[(String, String)]) -> Result<Update, OptionsError> {
        self.apply(pairs.to_vec(), Phase::Start)
    }

    /// Applies `SET GLOBAL wsrep_provider_options`. All or nothing, but for what a saved list says
    /// of the group ([`NotRestored`]).
    pub fn set(&mut self, text: &str) -> Result<Update, OptionsError> {
        self.apply(value::parse_list(text)?, Phase::Running)
    }

    /// All options as `name = value; `, Galera's in Galera's order, then ours. Given to
    /// [`Options::new`], it makes the same options.
    pub fn to_text(&self) -> String {
        let listed = SPECS.iter().zip(&self.slots).filter(|(spec, slot)| {
            // FLUSH SSL has the credentials read again only where it finds this name.
            let reloads = spec.name == RELOAD && self.has_credentials();
            spec.listed || slot.is_set || reloads
        });
        listed
            .map(|(spec, slot)| format!("{} = {}; ", spec.name, value::escaped(&slot.text)))
            .collect()
    }

    pub fn bool(&self, key: BoolKey) -> bool {
        matches!(self.value(key), Value::Bool(true))
    }

    pub fn int(&self, key: IntKey) -> i64 {
        match self.value(key) {
            Value::Int(number) => *number,
            other => unreachable!("an integer option holds {other:?}"),
        }
    }

    /// An integer that is never negative (bytes, counts).
    pub fn unsigned(&self, key: IntKey) -> u64 {
        u64::try_from(self.int(key)).unwrap_or(0)
    }

    /// [`Options::unsigned`], for sizes in memory.
    pub fn size(&self, key: IntKey) -> usize {
        usize::try_from(self.unsigned(key)).unwrap_or(usize::MAX)
    }

    pub fn duration(&self, key: DurationKey) -> Duration {
        match self.value(key) {
            Value::Duration(duration) => *duration,
            other => unreachable!("a duration option holds {other:?}"),
        }
    }

    pub fn word(&self, key: WordKey) -> &'static str {
        match self.value(key) {
            Value::Word(word) => word,
            other => unreachable!("a word has the value {other:?}"),
        }
    }

    pub fn text(&self, key: TextKey) -> &str {
        &self.slots[key.index()].text
    }

    /// An address; `None` if empty.
    pub fn address(&self, key: AddressKey) -> Option<&Address> {
        match self.value(key) {
            Value::Address(address) => address.as_ref(),
            other => unreachable!("an address option holds {other:?}"),
        }
    }

    /// Address to listen on for peers: `synod.listen_addr` if set, else `gmcast.listen_addr`. A
    /// missing port is `base_port`.
    pub fn listen_address(&self) -> Address {
        let base_port = u16::try_from(self.int(key::BASE_PORT)).unwrap_or(DEFAULT_PORT);
        let configured = self
            .address(key::LISTEN_ADDR)
            .or_else(|| self.address(key::GMCAST_LISTEN_ADDR));
        let address = configured
            .cloned()
            .unwrap_or_else(|| Address::any(base_port));
        Address {
            port: Some(address.port.unwrap_or(base_port)),
            ..address
        }
    }

    /// Address at which peers reach this member: `base_host`, or the host of `fallback`
    /// (`host:port`, IPv6 in brackets), and the port listened on.
    pub fn own_address(&self, fallback: &str) -> Address {
        let parse = |text: &str| Address::parse(text).ok();
        let host = parse(self.text(key::BASE_HOST))
            .or_else(|| parse(fallback))
            .map_or_else(|| "127.0.0.1".to_owned(), |address| address.host);
        Address {
            host,
            port: self.listen_address().port,
            tls: false,
        }
    }

    pub fn group_settings(&self) -> Vec<GroupSetting> {
        let writers = self.is_set(key::WRITERS);
        let regions = self.is_set(key::COMMIT_REGIONS);
        let writers = writers.then(|| GroupSetting::Writers(self.writers()));
        let regions = regions.then(|| GroupSetting::CommitRegions(self.commit_regions()));
        [writers, regions].into_iter().flatten().collect()
    }

    /// Shows as options what the group has agreed on, whatever was set here.
    pub fn follow_group(&mut self, settings: GroupSettings) {
        let text = match settings.writers {
            Writers::Any => "any",
            Writers::Leader => "leader",
        };
        let slot = &mut self.slots[key::WRITERS.index()];
        slot.value = Value::Word(text);
        slot.text = text.to_owned();
        let regions = settings.commit_regions.get();
        let slot = &mut self.slots[key::COMMIT_REGIONS.index()];
        slot.value = Value::Int(regions.into());
        slot.text = regions.to_string();
    }

    /// Shows as `synod.leader_weight` what this member has, whatever was set here.
    pub fn follow_leader_weight(&mut self, weight: LeaderWeight) {
        let slot = &mut self.slots[key::LEADER_WEIGHT.index()];
        slot.value = Value::Int(weight.get().into());
        slot.text = weight.get().to_string();
    }

    pub fn is_set(&self, key: impl Key) -> bool {
        self.slots[key.index()].is_set
    }

    fn value(&self, key: impl Key) -> &Value {
        &self.slots[key.index()].value
    }

    fn apply(
        &mut self,
        pairs: Vec<(String, String)>,
        phase: Phase,
    ) -> Result<Update, OptionsError> {
        let mut next = self.clone();
        let mut update = Update::default();
        let is_saved = phase == Phase::Running && is_saved_list(&pairs);
        for (name, text) in pairs {
            let index = table::find(&name).ok_or_else(|| error::unknown(&name))?;
            let spec = &SPECS[index];
            let value = check(spec, &next.slots[index].value, &text, phase)?;
            if is_saved && spec.of_group {
                if next.slots[index].value != value {
                    let name = spec.name;
                    update.not_restored.push(NotRestored { name, text });
                }
                continue;
            }
            update
                .notices
                .extend(notice(spec, &next.slots[index], &value));
            update.changed.push((spec.name, value.clone()));
            if spec.settable != Settable::Trigger {
                next.slots[index] = Slot {
                    text,
                    value,
                    is_set: true,
                };
            }
        }
        next.fill_dependent();
        next.check_timing()?;
        next.check_election_timeout()?;
        next.check_staleness()?;
        next.check_encryption()?;
        let known = self.encryption_notices();
        let notices = next.encryption_notices();
        update
            .notices
            .extend(notices.into_iter().filter(|notice| !known.contains(notice)));
        *self = next;
        Ok(update)
    }

    /// Computes the defaults that depend on the server and on other options.
    fn fill_dependent(&mut self) {
        let node = Address::parse(&self.defaults.node_address).ok();
        let host = node.as_ref().map(Address::host_text).unwrap_or_default();
        let port = node.and_then(|node| node.port).unwrap_or(DEFAULT_PORT);
        self.default_to(DefaultValue::DataDir, self.defaults.data_dir.clone());
        self.default_to(DefaultValue::NodeHost, host);
        self.default_to(DefaultValue::NodePort, port.to_string());

        let base_port = self.int(key::BASE_PORT);
        let base_host = self.text(key::BASE_HOST).to_owned();
        let own = Address::parse(&base_host).ok();
        let listen_at = match &own {
            // Others on this machine reach it there, and nothing else does.
            Some(own) if own.is_loopback() => own.host_text(),
            // A member that the others know by an IPv6 address must be found there.
            Some(own) if own.host.contains(':') => "[::]".to_owned(),
            _ => "0.0.0.0".to_owned(),
        };
        self.default_to(
            DefaultValue::AnyAtBasePort,
            format!("tcp://{listen_at}:{base_port}"),
        );
        let ist = if base_host.is_empty() {
            String::new()
        } else {
            format!(
                "{base_host}:{}",
                base_port.saturating_add(1).min(i64::from(u16::MAX))
            )
        };
        self.default_to(DefaultValue::NodeHostNextPort, ist);
    }

    fn default_to(&mut self, which: DefaultValue, text: String) {
        for (spec, slot) in SPECS.iter().zip(&mut self.slots) {
            if spec.default == which && !slot.is_set {
                // A host that is no address (say, a broken node address) leaves the option empty;
                // what needs the address complains where it is used.
                if let Ok(value) = value::parse(spec.kind, &text) {
                    *slot = Slot {
                        text: text.clone(),
                        value,
                        is_set: false,
                    };
                }
            }
        }
    }
}

impl Slot {
    fn default_of(spec: &OptionSpec) -> Slot {
        let text = match spec.default {
            DefaultValue::Is(text) => text.to_owned(),
            DefaultValue::NodePort => DEFAULT_PORT.to_string(),
            DefaultValue::Timing(period) => period.default_text(),
            DefaultValue::DataDir
            | DefaultValue::NodeHost
            | DefaultValue::AnyAtBasePort
            | DefaultValue::NodeHostNextPort => String::new(),
        };
        let value = value::parse(spec.kind, &text).unwrap_or(Value::Text(String::new()));
        Slot {
            text,
            value,
            is_set: false,
        }
    }
}

fn check(
    spec: &'static OptionSpec,
    present: &Value,
    text: &str,
    phase: Phase,
) -> Result<Value, OptionsError> {
    let value = value::parse(spec.kind, text).map_err(|reason| OptionsError::BadValue {
        name: spec.name,
        value: text.to_owned(),
        reason,
    })?;
    // What it is already may be said again: operators put a whole saved list of options back.
    let changes = *present != value;
    if changes && phase == Phase::Running && spec.settable == Settable::AtStart {
        return Err(OptionsError::ReadOnly { name: spec.name });
    }
    match spec.meaning {
        Meaning::Refused(reason) if value != Slot::default_of(spec).value => {
            Err(OptionsError::Refused {
                name: spec.name,
                value: text.to_owned(),
                reason,
            })
        }
        _ => Ok(value),
    }
}

/// Whether a list that is given to a running server is one that a server has shown, and no order of
/// a person: it names options that cannot be changed any more.
fn is_saved_list(pairs: &[(String, String)]) -> bool {
    let mut specs = pairs.iter().filter_map(|(name, _)| table::find(name));
    specs.any(|index| SPECS[index].settable == Settable::AtStart)
}

/// The notice about an option without effect, unless it is set to what it is already.
fn notice(spec: &'static OptionSpec, slot: &Slot, value: &Value) -> Option<Notice> {
    match spec.meaning {
        Meaning::None(why) if slot.value != *value => Some(Notice {
            name: spec.name,
            why,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
