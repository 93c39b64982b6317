//! An entry with its payload. The two always belong together, by length and CRC32C: the writer
//! accepts no other, and a reader gives no other.

use bytes::Bytes;
use synod_consensus::EntryHeader;

use crate::{LogError, PAYLOAD_BYTES_MAX};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub header: EntryHeader,
    pub payload: Bytes,
}

impl Entry {
    /// Computes `payload_len` and `payload_crc`; their values in `header` are ignored.
    pub fn new(mut header: EntryHeader, payload: Bytes) -> Result<Entry, LogError> {
        header.payload_len = Self::checked_len(&header, &payload)?;
        header.payload_crc = crc32c::crc32c(&payload);
        Ok(Entry { header, payload })
    }

    pub fn checked(header: EntryHeader, payload: Bytes) -> Result<Entry, LogError> {
        let entry = Entry { header, payload };
        entry.check()?;
        Ok(entry)
    }

    pub(crate) fn check(&self) -> Result<(), LogError> {
        let len = Self::checked_len(&self.header, &self.payload)?;
        let crc = crc32c::crc32c(&self.payload);
        if len == self.header.payload_len && crc == self.header.payload_crc {
            return Ok(());
        }
        Err(LogError::PayloadMismatch {
            index: self.header.index,
            expected_len: self.header.payload_len,
            found_len: len,
            expected_crc: self.header.payload_crc,
            found_crc: crc,
        })
    }

    fn checked_len(header: &EntryHeader, payload: &Bytes) -> Result<u32, LogError> {
        match u32::try_from(payload.len()) {
            Ok(len) if len <= PAYLOAD_BYTES_MAX => Ok(len),
            _ => Err(LogError::TooLarge {
                index: header.index,
                bytes: payload.len() as u64, // usize is at most 64 bits
                max: u64::from(PAYLOAD_BYTES_MAX),
            }),
        }
    }
}
