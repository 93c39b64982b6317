//! Values of the plugin's variables, and the node's configuration that they make.

use std::path::PathBuf;

use synod_binlog::MysqlGtidError;
use synod_binlog::mysql_gtid::Uuid;
use synod_node::{DatabasePosition, GroupId, NodeConfig, Seqno, StartMode};
use synod_options::{
    Address, DEFAULT_PORT, Defaults, ExposedError, HostFacts, HostNames, Options, OptionsError,
};

use crate::events::ServerVersion;

pub(crate) const NAMES: HostNames = HostNames {
    member_name: "synod_name",
    member_address: "synod_address",
    group_address: "synod_members",
    listen_address: "synod_address or synod.listen_addr in synod_options",
};

/// Values of variables, as the plugin hands them over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) members: String,
    pub(crate) options: String,
    pub(crate) incoming: String,
    pub(crate) data_dir: String,
    pub(crate) bootstrap: bool,
    pub(crate) server_version: u32,
    pub(crate) server_version_text: String,
    pub(crate) server_id: u32,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error(
        "synod_group is not set to the UUID of the group: give all servers of the group the same \
         one, such as that of SELECT UUID() ({0})"
    )]
    Group(MysqlGtidError),
    #[error("synod_name is empty: give this server a name of its own in the group")]
    NoName,
    #[error("{variable} cannot be '{value}': {reason}. Write host:port")]
    Address {
        variable: &'static str,
        value: String,
        reason: String,
    },
    #[error("synod_options: {0}")]
    Options(#[from] OptionsError),
    #[error("synod_options: {0}")]
    Exposed(#[from] ExposedError),
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) group: Uuid,
    pub(crate) version: ServerVersion,
    pub(crate) server_id: u32,
    pub(crate) options: Options,
    pub(crate) mode: StartMode,
    pub(crate) warnings: Vec<String>,
    name: String,
    address: Address,
    members: Vec<Address>,
    incoming: String,
    data_dir: PathBuf,
}

impl Settings {
    pub(crate) fn of(variables: Variables) -> Result<Settings, SettingsError> {
        let group: Uuid = variables
            .group
            .trim()
            .parse()
            .map_err(SettingsError::Group)?;
        if group.0 == GroupId::NONE.0 {
            let none = MysqlGtidError::Malformed(variables.group);
            return Err(SettingsError::Group(none));
        }
        if variables.name.is_empty() {
            return Err(SettingsError::NoName);
        }
        let address = address("synod_address", &variables.address)?;
        let members = variables.members.split(',').map(str::trim);
        let members = members.filter(|member| !member.is_empty());
        let members = members.map(|member| self::address("synod_members", member));
        let defaults = Defaults {
            data_dir: variables.data_dir.clone(),
            node_address: address.to_string(),
        };
        let (options, update) = Options::new(defaults, &variables.options)?;
        let exposure = options.exposure()?;
        let notices = update.notices.iter().map(ToString::to_string);
        Ok(Settings {
            group,
            version: ServerVersion {
                number: variables.server_version,
                text: variables.server_version_text,
            },
            server_id: variables.server_id,
            warnings: notices.chain(exposure.warning()).collect(),
            options,
            // The group is the one of the GTIDs, which the servers may have from before.
            mode: match variables.bootstrap {
                true => StartMode::TakeOver,
                false => StartMode::Join,
            },
            name: variables.name,
            members: members.collect::<Result<_, _>>()?,
            address,
            incoming: variables.incoming,
            data_dir: variables.data_dir.into(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn log_dir(&self) -> PathBuf {
        self.options.log_dir(&self.data_dir)
    }

    /// Whether the server was a member: it has the log of one.
    pub(crate) fn has_log(&self) -> bool {
        let names = std::fs::read_dir(self.log_dir()).into_iter().flatten();
        let names = names.filter_map(|file| file.ok()?.file_name().into_string().ok());
        names
            .into_iter()
            .any(|name| name.starts_with("synod-") && name.ends_with(".log"))
    }

    /// The configuration of the node of a database that has everything up to `applied`.
    pub(crate) fn node(&self, applied: Seqno) -> NodeConfig {
        let options = &self.options;
        options.node_config(HostFacts {
            name: self.name.clone(),
            cluster_name: self.group.to_string(),
            address: self.address.to_string(),
            incoming: self.incoming.clone(),
            seeds: self.members.iter().map(ToString::to_string).collect(),
            log_dir: self.log_dir(),
            has_data: true,
            database: DatabasePosition::new(GroupId(self.group.0), applied),
            // innodb_flush_log_at_timeout, which is checked at the server's start.
            flush_period: std::time::Duration::from_secs(1),
        })
    }
}

fn address(variable: &'static str, text: &str) -> Result<Address, SettingsError> {
    let address = Address::parse(text).map_err(|reason| SettingsError::Address {
        variable,
        value: text.to_owned(),
        reason,
    })?;
    Ok(Address {
        port: Some(address.port.unwrap_or(DEFAULT_PORT)),
        ..address
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        Variables {
            group: "5e0dc0de-0000-4000-8000-000000000001".to_owned(),
            name: "db1".to_owned(),
            address: "127.0.0.1:4001".to_owned(),
            members: "127.0.0.1:4001, 127.0.0.1:4002".to_owned(),
            options: "gmcast.listen_addr=tcp://127.0.0.1:4001".to_owned(),
            data_dir: "/data/".to_owned(),
            ..Variables::default()
        }
    }

    #[test]
    fn variables_make_a_member_with_a_database() {
        let settings = Settings::of(variables()).unwrap();
        let node = settings.node(Seqno(7));
        assert_eq!(node.database.group.0, settings.group.0);
        assert_eq!(node.database.seqno, Seqno(7));
        assert_eq!(node.seeds, ["127.0.0.1:4001", "127.0.0.1:4002"]);
        assert_eq!(node.log_dir, PathBuf::from("/data/"));
        assert_eq!(settings.mode, StartMode::Join);
    }

    fn open_to_all(variables: &mut Variables) {
        variables.address = "10.0.0.1:4001".to_owned();
        variables.options = "gmcast.listen_addr=tcp://0.0.0.0:4001".to_owned();
    }

    #[test]
    fn missing_and_wrong_values_are_refused_by_the_names_of_variables() {
        let refused = |change: fn(&mut Variables)| {
            let mut variables = variables();
            change(&mut variables);
            Settings::of(variables).unwrap_err().to_string()
        };
        for (text, name) in [
            (refused(|v| v.group.clear()), "synod_group"),
            (refused(|v| v.name.clear()), "synod_name"),
            (refused(|v| v.address = "a b".into()), "synod_address"),
            (refused(|v| v.members = "a:b".into()), "synod_members"),
            (refused(|v| v.options = "synod.x=1".into()), "synod_options"),
            (refused(open_to_all), "synod.secret_file"),
        ] {
            assert!(text.contains(name), "{text}");
        }
    }
}
