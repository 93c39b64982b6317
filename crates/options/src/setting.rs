//! What a host calls the settings that log lines speak of: options by their names, and the few that
//! are no options by the host's own.

use synod_node::Setting;

/// What a host calls the settings that are no options there.
#[derive(Clone, Copy, Debug)]
pub struct HostNames {
    /// [`Setting::MemberName`].
    pub member_name: &'static str,
    /// [`Setting::MemberAddress`].
    pub member_address: &'static str,
    /// [`Setting::GroupAddress`].
    pub group_address: &'static str,
    /// [`Setting::ListenAddress`]: a server has other options for it than a logger.
    pub listen_address: &'static str,
}

impl HostNames {
    /// What the host's operators call a setting; two names are joined by " or ".
    pub fn name_of(&self, setting: Setting) -> &'static str {
        match setting {
            Setting::MemberName => self.member_name,
            Setting::MemberAddress => self.member_address,
            Setting::GroupAddress => self.group_address,
            Setting::ListenAddress => self.listen_address,
            Setting::LogDirectory => "synod.log_dir",
            Setting::LogRetainSize => "synod.log_retain_size",
            Setting::LogMinFree => "synod.log_min_free",
            Setting::LogFull => "synod.log_full",
            Setting::Encryption => "synod.secret_file or socket.ssl",
            Setting::AcceptUnencrypted => "socket.dynamic",
        }
    }
}
