//! Provider options, which users of Galera bring along.

use crate::facts::ConfiguredOptions;
use crate::finding::{Finding, Severity, Subject};

pub(super) fn judge(options: &ConfiguredOptions) -> Vec<Finding> {
    let (_, update) = match &options.read {
        Ok(read) => read,
        Err(error) => {
            return vec![Finding::new(
                Subject::Options,
                Severity::Problem,
                format!("wsrep_provider_options is refused: {error}"),
                "a server with this text does not start with Synod",
                "change or remove the option; docs/options.md has them all",
            )];
        }
    };
    let notices = update.notices.iter().map(|notice| {
        Finding::new(
            Subject::Options,
            Severity::Note,
            format!("the provider option {} has no effect", notice.name),
            notice.why,
            format!("remove {} from wsrep_provider_options", notice.name),
        )
    });
    let mut findings: Vec<Finding> = notices.collect();
    if findings.is_empty() {
        findings.push(Finding::good(
            Subject::Options,
            "the provider options are understood",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_options::{Defaults, Options};

    fn judged(text: &str) -> Vec<Finding> {
        let read = Options::new(Defaults::default(), text).map_err(|error| error.to_string());
        judge(&ConfiguredOptions {
            text: text.to_owned(),
            read,
        })
    }

    #[test]
    fn options_of_galera_are_told_apart() {
        let kept = judged("gcache.size=2G;evs.suspect_timeout=PT10S");
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(kept[0].severity, Severity::Note);
        assert!(kept[0].what.contains("gcache.size"), "{kept:?}");
        let refused = judged("synod.log_dri=/var");
        assert_eq!(refused[0].severity, Severity::Problem);
        assert!(
            refused[0].what.contains("synod.log_dir"),
            "names the nearest: {refused:?}"
        );
        assert_eq!(judged("")[0].severity, Severity::Good);
    }
}
