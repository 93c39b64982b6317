//! The group's secret, or certificates.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use synod_options::{Options, key};

use crate::facts::ConfiguredOptions;
use crate::finding::{Finding, Severity, Subject};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate that expires sooner should be renewed now.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * DAY.as_secs());

/// `loads_galera`: these options are read by Galera's library, at whose next start the server ends
/// if there is one that it does not know.
pub(super) fn judge(options: &ConfiguredOptions, data_dir: &Path, loads_galera: bool) -> Finding {
    let Ok((options, _)) = &options.read else {
        return Finding::new(
            Subject::Credentials,
            Severity::Note,
            "credentials were not looked at",
            "the provider options are refused",
            "correct the options first",
        );
    };
    let Some(tls) = options.tls() else {
        let told = options
            .exposure()
            .ok()
            .and_then(|exposure| exposure.warning());
        let (severity, why) = match told {
            Some(warning) => (Severity::Warning, warning),
            None => (
                Severity::Problem,
                "a server that others reach does not start without one".to_owned(),
            ),
        };
        let place = match loads_galera {
            true => {
                "leave it as it is: Galera's library does not start with options of Synod. In \
                     the file that will name libsynod.so (migration.md)"
            }
            false => "in it",
        };
        return Finding::new(
            Subject::Credentials,
            severity,
            "wsrep_provider_options names no group secret and no certificates",
            why,
            format!(
                "{place}, set synod.secret_file=/etc/mysql/synod.secret. If there is no such \
                 file: synod keygen > /etc/mysql/synod.secret; chown mysql: \
                 /etc/mysql/synod.secret; and copy it to all servers"
            ),
        );
    };
    match tls.credentials.load() {
        Err(error) => Finding::new(
            Subject::Credentials,
            Severity::Problem,
            format!("the credentials cannot be used: {error}"),
            "a server does not start with them",
            "see the text; tls.md",
        ),
        Ok(loaded) => not_readable(confidential_file(options), data_dir)
            .or_else(|| expires_soon(loaded.summary(), loaded.valid_until_unix()?, now()))
            .unwrap_or_else(|| Finding::good(Subject::Credentials, loaded.summary())),
    }
}

/// The file that only the server may read: the secret, or the certificate's key.
fn confidential_file(options: &Options) -> &str {
    match options.text(key::SECRET_FILE) {
        "" => options.text(key::SOCKET_SSL_KEY),
        secret => secret,
    }
}

fn now() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// One that has expired is refused when it is loaded.
fn expires_soon(summary: &str, valid_until_unix: u64, now: Duration) -> Option<Finding> {
    let left = Duration::from_secs(valid_until_unix).saturating_sub(now);
    (left < RENEW_BEFORE).then(|| {
        Finding::new(
            Subject::Credentials,
            Severity::Warning,
            format!("{summary}: in {} days", left.as_secs() / DAY.as_secs()),
            "from then on the other members refuse this server when it connects again",
            "issue a new one, put it in the place of the old one, and: SET GLOBAL \
             wsrep_provider_options = 'socket.ssl_reload=1' (a logger or relay: systemctl reload); \
             tls.md",
        )
    })
}

/// The doctor may be root and read everything: the server is not.
fn not_readable(confidential: &str, data_dir: &Path) -> Option<Finding> {
    let (file, data) = (
        std::fs::metadata(confidential).ok()?,
        std::fs::metadata(data_dir).ok()?,
    );
    let may_read = file.uid() == data.uid() && file.mode() & 0o400 != 0
        || file.gid() == data.gid() && file.mode() & 0o040 != 0;
    (!may_read).then(|| {
        Finding::new(
            Subject::Credentials,
            Severity::Problem,
            format!("{confidential} cannot be read by the user to whom the server's data belong"),
            "the server does not start",
            format!(
                "chown --reference={0} {confidential}; chmod u+r {confidential}",
                data_dir.display()
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use synod_options::{Defaults, Options};

    fn judged(text: &str, data_dir: &Path) -> Finding {
        let read = Options::new(Defaults::default(), text).map_err(|error| error.to_string());
        judge(
            &ConfiguredOptions {
                text: text.to_owned(),
                read,
            },
            data_dir,
            false,
        )
    }

    #[test]
    fn options_of_galera_are_left_as_they_are() {
        let text = "gcache.size=1G".to_owned();
        let read = Options::new(Defaults::default(), &text).map_err(|error| error.to_string());
        let options = ConfiguredOptions { text, read };
        let of_galera = judge(&options, Path::new("/"), true);
        assert!(
            of_galera.remedy.starts_with("leave it as it is"),
            "{of_galera:?}"
        );
        let own = judge(&options, Path::new("/"), false);
        assert!(
            own.remedy.starts_with("in it, set synod.secret_file"),
            "{own:?}"
        );
    }

    #[test]
    fn certificate_is_to_be_renewed_a_month_before_it_expires() {
        let now = 1000 * DAY;
        let days_left = |days: u64| {
            let finding = expires_soon("valid until then", (1000 + days) * DAY.as_secs(), now)?;
            Some((finding.severity, finding.what))
        };
        let soon = (Severity::Warning, "valid until then: in 29 days".to_owned());
        assert_eq!(days_left(29), Some(soon));
        assert_eq!(days_left(30), None);
    }

    #[test]
    fn key_of_a_certificate_is_confidential_as_a_secret_is() {
        let read = |text: &str| {
            let (options, _) = Options::new(Defaults::default(), text).unwrap();
            confidential_file(&options).to_owned()
        };
        assert_eq!(read("socket.ssl_key=/k;socket.ssl_cert=/c"), "/k");
        assert_eq!(read("synod.secret_file=/s"), "/s");
    }

    #[test]
    fn secret_is_read_as_the_server_would() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let text = format!("synod.secret_file={}", path.display());
        assert_eq!(
            judged("", directory.path()).severity,
            Severity::Problem,
            "none"
        );
        let insecure = judged("synod.insecure=yes", directory.path());
        assert_eq!(insecure.severity, Severity::Warning, "it runs");
        let missing = judged(&text, directory.path());
        assert!(missing.what.contains("No such file"), "{missing:?}");
        let secret = synod_tls::GroupSecret::from_random([7; 32]).to_line();
        std::fs::write(&path, secret).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(judged(&text, directory.path()).what.contains("chmod 600"));
        mode(0o600);
        assert_eq!(judged(&text, directory.path()).severity, Severity::Good);
        mode(0o200);
        // Root, which may run this test, reads it nevertheless.
        assert_eq!(judged(&text, directory.path()).severity, Severity::Problem);
    }
}
