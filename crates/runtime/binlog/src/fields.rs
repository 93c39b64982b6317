//! Taking numbers and texts from the front of an event's bytes.

use crate::event::EventError;
use crate::header::EventType;

/// The bytes before the next zero byte, which is taken, too.
pub fn until_zero<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (bytes, after) = rest.split_at(end);
    *rest = &after[1..]; // the zero
    Some(bytes)
}

/// Bytes of an event that have not been read yet.
pub(crate) struct Fields<'a> {
    event_type: EventType,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// All bytes of an event of this type.
    pub(crate) fn of(event_type: EventType, bytes: &'a [u8]) -> Fields<'a> {
        Fields {
            event_type,
            rest: bytes,
        }
    }

    /// The next bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], EventError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(EventError::Short {
                event_type: self.event_type,
                wanted: count,
                found: self.rest.len(),
            });
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], EventError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, EventError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, EventError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, EventError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A number of six bytes, as tables have.
    pub(crate) fn u48(&mut self) -> Result<u64, EventError> {
        let low = u64::from(self.u32()?);
        let high = u64::from(self.u16()?);
        Ok(high << 32 | low)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, EventError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A name with its length before it and a zero byte after it.
    pub(crate) fn name(&mut self) -> Result<&'a [u8], EventError> {
        let length = usize::from(self.u8()?);
        let name = self.bytes(length)?;
        self.zero()?;
        Ok(name)
    }

    /// A zero byte, which ends a text.
    pub(crate) fn zero(&mut self) -> Result<(), EventError> {
        match self.u8()? {
            0 => Ok(()),
            _ => Err(self.malformed("a name has no zero byte at its end")),
        }
    }

    /// All bytes that are left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Number of bytes left.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// An error about this event.
    pub(crate) fn malformed(&self, why: &'static str) -> EventError {
        EventError::Malformed {
            event_type: self.event_type,
            why,
        }
    }
}
