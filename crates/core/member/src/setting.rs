//! Settings that texts for operators speak of. The crates below the host name the *thing*. The host
//! knows what its operators call it ([`crate::Host::setting_name`]): a server option in one host, a
//! key of a file in another.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    MemberName,
    MemberAddress,
    GroupAddress,
    ListenAddress,
    LogDirectory,
    LogRetainSize,
    /// The share of the disk that a log leaves free when it grows for members that need it.
    LogMinFree,
    /// Policy for logs that are full of actions that too few databases have.
    LogFull,
    Region,
    /// The number of regions in which commits are on a voter's disk.
    CommitRegions,
    CommitRegionsTimeout,
    Encryption,
    /// Whether members without encryption are accepted, for the time of a change.
    AcceptUnencrypted,
}

impl Setting {
    /// All of them, for hosts that check their table of names.
    pub const ALL: [Setting; 13] = [
        Setting::MemberName,
        Setting::MemberAddress,
        Setting::GroupAddress,
        Setting::ListenAddress,
        Setting::LogDirectory,
        Setting::LogRetainSize,
        Setting::LogMinFree,
        Setting::LogFull,
        Setting::Region,
        Setting::CommitRegions,
        Setting::CommitRegionsTimeout,
        Setting::Encryption,
        Setting::AcceptUnencrypted,
    ];

    /// The name of the setting for a host that has no names of its own.
    pub fn plain_name(self) -> &'static str {
        match self {
            Setting::MemberName => "member name",
            Setting::MemberAddress => "member address",
            Setting::GroupAddress => "group address",
            Setting::ListenAddress => "listen address",
            Setting::LogDirectory => "log directory",
            Setting::LogRetainSize => "log retain size",
            Setting::LogMinFree => "log min free",
            Setting::LogFull => "log full",
            Setting::Region => "region",
            Setting::CommitRegions => "commit regions",
            Setting::CommitRegionsTimeout => "commit regions timeout",
            Setting::Encryption => "encryption",
            Setting::AcceptUnencrypted => "acceptance of unencrypted connections",
        }
    }
}
