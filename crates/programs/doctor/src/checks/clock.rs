//! The clock. The order of transactions does not depend on clocks; what people compare does.

use crate::finding::{Finding, Severity, Subject};

pub(super) fn judge(is_synchronised: Option<bool>) -> Finding {
    let finding = |severity, what: &str| {
        Finding::new(
            Subject::Clock,
            severity,
            what,
            "times in logs and in NOW() of different servers cannot be compared, and certificates \
             may seem expired",
            "apt-get install chrony",
        )
    };
    match is_synchronised {
        Some(true) => Finding::good(Subject::Clock, "the clock is synchronised"),
        Some(false) => finding(Severity::Warning, "the clock is not synchronised"),
        None => finding(
            Severity::Note,
            "whether the clock is synchronised is not known",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_nothing_sets_is_a_warning() {
        assert_eq!(judge(Some(true)).severity, Severity::Good);
        assert_eq!(judge(Some(false)).severity, Severity::Warning);
        assert_eq!(judge(None).severity, Severity::Note);
    }
}
