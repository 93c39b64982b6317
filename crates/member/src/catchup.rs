//! Reading old entries for members far behind.

use std::sync::Arc;

use synod_consensus::{MemberId, SendEntries};
use synod_log::{Entry, LogError, LogReader};
use synod_wire::PeerMessage;

use crate::driver::append_message;
use crate::host::{Host, Level};

/// A range that some follower needs.
#[derive(Clone, Copy, Debug)]
pub struct CatchUp {
    pub(crate) from: MemberId,
    pub(crate) range: SendEntries,
    /// Payload bytes in one message.
    pub(crate) bytes_max: usize,
}

impl CatchUp {
    /// Who needs it.
    pub fn to(&self) -> MemberId {
        self.range.to
    }

    /// Reads the range, or as much of it as fits. Nothing, if it was cut or purged meanwhile: the
    /// core finds out and asks for something else.
    ///
    /// # Errors
    /// If a record is damaged, which is the driver's to handle ([`crate::Event::LogDamaged`]).
    pub fn answer(
        &self,
        reader: &LogReader,
        host: &Arc<dyn Host>,
    ) -> Result<Option<PeerMessage>, LogError> {
        let CatchUp {
            from,
            range,
            bytes_max,
        } = self;
        match reader.read(range.first, range.last, *bytes_max) {
            Ok(entries) if !entries.is_empty() => {
                let entries: Vec<&Entry> = entries.iter().collect();
                Ok(Some(append_message(*from, range, &entries)))
            }
            Ok(_) => Ok(None),
            Err(error @ LogError::Damaged { .. }) => Err(error),
            Err(error) => {
                let text = format!(
                    "cannot read entries {}-{} for a member: {error}",
                    range.first, range.last
                );
                host.log(Level::Warning, &text);
                Ok(None)
            }
        }
    }
}
