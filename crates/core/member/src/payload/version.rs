//! Versions of payloads: the first byte of most kinds. A program writes the newest version that all
//! members of the group read, which the group's protocol version tells, and reads all that it
//! knows: logs keep older entries for days, and a member under a newer program must not need a full
//! copy because of them. Discards have no such byte; their length tells the form.

use std::ops::RangeInclusive;

use super::action::PayloadError;

#[derive(Clone, Debug)]
pub(crate) struct Versions {
    pub(crate) what: &'static str,
    pub(crate) known: RangeInclusive<u8>,
}

impl Versions {
    pub(crate) const fn new(what: &'static str, known: RangeInclusive<u8>) -> Versions {
        Versions { what, known }
    }

    pub(crate) const fn newest(&self) -> u8 {
        *self.known.end()
    }

    pub(crate) fn check(&self, found: u8) -> Result<u8, PayloadError> {
        if self.known.contains(&found) {
            return Ok(found);
        }
        let (oldest, newest) = (self.known.start(), self.known.end());
        Err(PayloadError {
            what: self.what,
            why: format!("it has version {found}, this program reads {oldest} to {newest}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::action::{ActionPiece, Chunk};
    use crate::payload::decision::OutcomeDecision;
    use crate::payload::view::View;
    use bytes::Bytes;
    use synod_consensus::Seqno;

    #[test]
    fn older_versions_are_read_and_newer_ones_named() {
        let versions = Versions::new("view", 2..=4);
        assert_eq!(versions.newest(), 4);
        for known in 2..=4 {
            assert_eq!(versions.check(known), Ok(known));
        }
        for unknown in [1, 5] {
            let error = versions.check(unknown).unwrap_err().to_string();
            let both = format!("version {unknown}, this program reads 2 to 4");
            assert!(error.contains(&both), "{error}");
        }
    }

    #[test]
    fn every_kind_names_the_version_that_it_does_not_read() {
        let later = Bytes::from_static(&[77; 60]);
        let errors = [
            ActionPiece::decode(later.clone()).unwrap_err(),
            Chunk::decode(later.clone()).unwrap_err(),
            OutcomeDecision::decode(later.clone()).unwrap_err(),
            View::decode(Seqno(1), later).unwrap_err(),
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.contains("version 77, this program reads 1"), "{text}");
        }
    }
}
