//! Security of the attacked group's connections, and the credentials of the stranger.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use synod_e2e::programs::{new_group_secret, output_of};
use synod_e2e::{Outcome, TestCluster, Why};
use synod_tls::{Credentials as TlsCredentials, SecretFile, Tls, TlsFiles, TlsSettingNames};

/// Security of the group's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Configuration {
    /// In clear, on loopback addresses: every program of the machine may call.
    Clear,
    /// Secured by a secret of the group.
    Secret,
    /// Secured by certificates of one authority.
    Certificates,
}

/// Credentials of the stranger.
pub(crate) enum Credentials {
    /// The group needs none.
    None,
    /// The group has a secret, or certificates.
    Some {
        /// Another group's secret, or a certificate of another authority.
        foreign: Arc<Tls>,
        /// The group's secret, or the certificate of a member that was removed.
        valid: Arc<Tls>,
    },
}

impl Configuration {
    pub(crate) const ALL: [Configuration; 3] = [
        Configuration::Clear,
        Configuration::Secret,
        Configuration::Certificates,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Configuration::Clear => "clear",
            Configuration::Secret => "secret",
            Configuration::Certificates => "certificates",
        }
    }

    fn base_port(self) -> u16 {
        match self {
            Configuration::Clear => 28606,
            Configuration::Secret => 28656,
            Configuration::Certificates => 28706,
        }
    }

    /// Starts a group of three.
    pub(crate) fn start(self) -> Outcome<(TestCluster, Credentials)> {
        let name = format!("stranger-{}", self.name());
        let mut cluster = TestCluster::empty(&name, self.base_port(), 3)?;
        let credentials = match self {
            Configuration::Clear => Credentials::None,
            Configuration::Secret => share_secret(&mut cluster)?,
            Configuration::Certificates => certify(&mut cluster)?,
        };
        cluster
            .up(&|node, what| eprintln!("  node{node}: {what}"))
            .why("starting the servers")?;
        cluster.create_account()?;
        Ok((cluster, credentials))
    }
}

fn certify(cluster: &mut TestCluster) -> Outcome<Credentials> {
    let dir = cluster.settings().dir.join("tls");
    let [ours, theirs] = ["group", "foreign"].map(|name| dir.join(name));
    make_certificates(&ours, &["node1", "node2", "node3", "removed"])?;
    make_certificates(&theirs, &["stranger"])?;
    for path in [&dir, &ours] {
        cluster.user().give(path).why(path.display())?;
    }
    for entry in std::fs::read_dir(&ours).why(ours.display())? {
        let path = entry.why(ours.display())?.path();
        cluster.user().give(&path).why(path.display())?;
    }
    let ours_text = ours.display();
    for node in cluster.nodes() {
        let own = cluster.settings_mut().overrides.entry(node).or_default();
        own.provider_options = Some(format!(
            "socket.ssl=yes;socket.ssl_ca={ours_text}/ca.pem;\
             socket.ssl_cert={ours_text}/node{node}.pem;socket.ssl_key={ours_text}/node{node}.key"
        ));
    }
    Ok(Credentials::Some {
        foreign: load(&theirs, "stranger")?,
        valid: load(&ours, "removed")?,
    })
}

fn share_secret(cluster: &mut TestCluster) -> Outcome<Credentials> {
    let dir = cluster.settings().dir.clone();
    let secret = |name: &str| -> Outcome<PathBuf> {
        let path = dir.join(name);
        std::fs::write(&path, new_group_secret()?).why(path.display())?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).why(path.display())?;
        Ok(path)
    };
    let (ours, theirs) = (secret("group.secret")?, secret("foreign.secret")?);
    let [valid, foreign] = [&ours, &theirs].map(|path| load_secret(path));
    let (valid, foreign) = (valid?, foreign?);
    cluster.user().give(&ours).why(ours.display())?;
    for node in cluster.nodes() {
        let own = cluster.settings_mut().overrides.entry(node).or_default();
        own.provider_options = Some(format!("synod.secret_file={}", ours.display()));
    }
    Ok(Credentials::Some { foreign, valid })
}

/// Makes an authority in a new directory, and certificates of it.
fn make_certificates(dir: &Path, names: &[&str]) -> Outcome {
    std::fs::create_dir_all(dir).why(dir.display())?;
    let key = "openssl req -newkey ed25519 -nodes -days 30";
    let mut script = format!("{key} -x509 -subj /CN=ca -keyout ca.key -out ca.pem\n");
    for name in names {
        script += &format!(
            "{key} -x509 -CA ca.pem -CAkey ca.key -subj /CN={name} \
             -addext extendedKeyUsage=serverAuth,clientAuth -addext basicConstraints=CA:FALSE \
             -keyout {name}.key -out {name}.pem\n"
        );
    }
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &script]).current_dir(dir);
    output_of(&mut shell, "openssl").map(|_| ())
}

fn load_secret(path: &Path) -> Outcome<Arc<Tls>> {
    let file = SecretFile {
        path: path.to_owned(),
        setting: "the stranger's file",
    };
    let tls = TlsCredentials::Secret(file).load();
    Ok(Arc::new(tls.why("the stranger's secret")?))
}

fn load(dir: &Path, name: &str) -> Outcome<Arc<Tls>> {
    let file = |suffix: &str| -> PathBuf { dir.join(format!("{name}.{suffix}")) };
    let files = TlsFiles {
        certificate: file("pem"),
        key: file("key"),
        authorities: Some(dir.join("ca.pem")),
        password: None,
        ciphers: String::new(),
        names: TlsSettingNames::default(),
    };
    let tls = TlsCredentials::Certificates(files).load();
    Ok(Arc::new(tls.why("the stranger's certificate")?))
}
