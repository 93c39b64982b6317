//! Arguments that name a member on another machine, and what proves that its orders may be given.

use std::path::PathBuf;

use clap::Args;
use synod_admin::RemoteMember;
use synod_tls::{Credentials, SecretFile, TlsFiles, TlsSettingNames};

const ARGUMENT_NAMES: TlsSettingNames = TlsSettingNames {
    certificate: "--cert",
    key: "--key",
    authorities: "--ca",
    password: "--key-password-file",
    ciphers: "the ciphers",
    switch: "--cert",
};

/// A member on another machine.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub struct MemberAddress {
    /// Ask this member, over the connections of its group [port: 4567]
    ///
    /// The address at which other members reach it. The group must have a secret or certificates.
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "dir")]
    #[arg(requires = "credentials")]
    member: Option<String>,
    /// File with the group's secret, with --member
    #[arg(long, value_name = "FILE", requires = "member", group = "credentials")]
    secret_file: Option<PathBuf>,
    /// Certificate that an authority of the group has signed, with --member
    #[arg(long, value_name = "FILE", requires = "member", group = "credentials")]
    #[arg(requires = "key")]
    cert: Option<PathBuf>,
    /// Key of the certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Authorities that sign the members' certificates [default: all members use this certificate]
    #[arg(long, value_name = "FILE", requires = "cert")]
    ca: Option<PathBuf>,
    /// File whose first line decrypts the key
    #[arg(long, value_name = "FILE", requires = "cert")]
    key_password_file: Option<PathBuf>,
    /// Name that the group must have (wsrep_cluster_name)
    #[arg(long, value_name = "NAME", requires = "member")]
    cluster: Option<String>,
}

impl MemberAddress {
    /// The member, if one is named.
    pub(super) fn remote(&self) -> Option<RemoteMember> {
        Some(RemoteMember {
            address: self.member.clone()?,
            cluster_name: self.cluster.clone().unwrap_or_default(),
            credentials: self.credentials(),
        })
    }

    fn credentials(&self) -> Credentials {
        if let Some(path) = &self.secret_file {
            return Credentials::Secret(SecretFile {
                path: path.clone(),
                setting: "--secret-file",
            });
        }
        // A missing file is named by the text of the error.
        Credentials::Certificates(TlsFiles {
            certificate: self.cert.clone().unwrap_or_default(),
            key: self.key.clone().unwrap_or_default(),
            authorities: self.ca.clone(),
            password: self.key_password_file.clone(),
            ciphers: String::new(),
            names: ARGUMENT_NAMES,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::operate::ServerArgs;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        server: ServerArgs,
    }

    fn parse(line: &str) -> Result<Line, String> {
        let words = line.split_ascii_whitespace();
        Line::try_parse_from(["synod"].into_iter().chain(words)).map_err(|e| e.to_string())
    }

    #[test]
    fn member_is_named_with_one_kind_of_credentials() {
        let line = parse("--member db1:4567 --secret-file /s --cluster shop").unwrap();
        let remote = line.server.place.member.remote().unwrap();
        assert_eq!(
            (&*remote.address, &*remote.cluster_name),
            ("db1:4567", "shop")
        );
        assert!(matches!(remote.credentials, Credentials::Secret(_)));
        let line = parse("--member db1 --cert /c --key /k --ca /a").unwrap();
        let remote = line.server.place.member.remote().unwrap();
        assert!(matches!(remote.credentials, Credentials::Certificates(_)));
        assert!(
            parse("--dir /d")
                .unwrap()
                .server
                .place
                .member
                .remote()
                .is_none()
        );
    }

    #[test]
    fn half_of_the_arguments_is_wrong_usage() {
        for line in [
            "--member db1",
            "--secret-file /s",
            "--member db1 --cert /c",
            "--member db1 --key /k",
            "--member db1 --secret-file /s --cert /c --key /k",
            "--member db1 --secret-file /s --dir /d",
            "--cluster shop --dir /d",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
