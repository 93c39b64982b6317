//! Names of the settings that log lines speak of: those of options, and the host's own for the few
//! settings that are no options.

use synod_node::Setting;

/// The host's names of the settings that are no options there.
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
    /// Name of a setting for the host's operators; two names are joined by " or ".
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
