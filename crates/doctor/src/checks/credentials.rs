//! The group's secret, or certificates.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use synod_options::key;

use crate::facts::ConfiguredOptions;
use crate::finding::{Finding, Severity, Subject};

pub(super) fn judge(options: &ConfiguredOptions, data_dir: &Path) -> Finding {
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
        return Finding::new(
            Subject::Credentials,
            Severity::Problem,
            "there is no group secret, and there are no certificates",
            "a server that others reach does not start without one",
            "synod keygen > /etc/mysql/synod.secret; chown mysql: /etc/mysql/synod.secret; copy it \
             to all servers, and add synod.secret_file=/etc/mysql/synod.secret to \
             wsrep_provider_options",
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
        Ok(loaded) => not_readable(options.text(key::SECRET_FILE), data_dir)
            .unwrap_or_else(|| Finding::good(Subject::Credentials, loaded.summary())),
    }
}

/// The doctor may be root and read everything: the server is not.
fn not_readable(secret_file: &str, data_dir: &Path) -> Option<Finding> {
    let (file, data) = (
        std::fs::metadata(secret_file).ok()?,
        std::fs::metadata(data_dir).ok()?,
    );
    let may_read = file.uid() == data.uid() && file.mode() & 0o400 != 0
        || file.gid() == data.gid() && file.mode() & 0o040 != 0;
    (!may_read).then(|| {
        Finding::new(
            Subject::Credentials,
            Severity::Problem,
            format!("{secret_file} belongs to another user than the server's data"),
            "the server cannot read it, and does not start",
            format!("chown --reference={} {secret_file}", data_dir.display()),
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
        )
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
