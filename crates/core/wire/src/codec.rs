//! Fields as bytes: little-endian numbers, strings with a u16 length, lists with a u32 count.
//!
//! Writing gathers small fields in one buffer and keeps large payloads as segments of their own, so
//! that they are never copied. Reading slices payloads out of the received frame.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::error::{DecodeError, EncodeError};
use crate::layout::Wire;
use crate::version::OUR_VERSIONS;

/// Texts for humans are shortened to this many bytes when written.
const TEXT_MAX: usize = 1024;
/// Payloads below this are copied: cheaper than a segment of their own. Bytes.
const COPY_BELOW: usize = 4096;

#[derive(Debug)]
pub(crate) struct Writer {
    version: u16,
    done: Vec<BytesOrMut>,
    current: BytesMut,
}

/// A finished segment: gathered fields, or a payload.
#[derive(Debug)]
pub(crate) enum BytesOrMut {
    Fields(BytesMut),
    Payload(Bytes),
}

impl BytesOrMut {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            BytesOrMut::Fields(bytes) => bytes,
            BytesOrMut::Payload(bytes) => bytes,
        }
    }

    pub(crate) fn freeze(self) -> Bytes {
        match self {
            BytesOrMut::Fields(bytes) => bytes.freeze(),
            BytesOrMut::Payload(bytes) => bytes,
        }
    }
}

impl Writer {
    /// For what no version changes.
    pub(crate) fn new() -> Writer {
        Writer::of_version(OUR_VERSIONS.min)
    }

    pub(crate) fn of_version(version: u16) -> Writer {
        Writer {
            version,
            done: Vec::new(),
            current: BytesMut::with_capacity(128),
        }
    }

    pub(crate) fn version(&self) -> u16 {
        self.version
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.current.put_u8(value);
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.current.put_slice(value);
    }

    pub(crate) fn string(
        &mut self,
        what: &'static str,
        value: &str,
        max: usize,
    ) -> Result<(), EncodeError> {
        let len = value.len();
        let too_long = EncodeError::TooLong { what, len, max };
        if len > max {
            return Err(too_long);
        }
        u16::try_from(len).map_err(|_| too_long)?.write(self)?;
        self.bytes(value.as_bytes());
        Ok(())
    }

    /// A text for humans, shortened if it is long.
    pub(crate) fn text(&mut self, value: &str) {
        let mut end = value.len().min(TEXT_MAX);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&(end as u16).to_le_bytes()); // At most TEXT_MAX.
        self.bytes(&value.as_bytes()[..end]);
    }

    pub(crate) fn count(
        &mut self,
        what: &'static str,
        len: usize,
        max: u32,
    ) -> Result<(), EncodeError> {
        let count = u32::try_from(len).ok().filter(|count| *count <= max);
        let too_many = EncodeError::TooMany {
            what,
            len,
            max: max as usize,
        };
        count.ok_or(too_many)?.write(self)
    }

    /// Bytes whose length the reader knows by other means.
    pub(crate) fn payload(&mut self, payload: &Bytes) {
        if payload.len() < COPY_BELOW {
            self.current.put_slice(payload);
            return;
        }
        self.end_segment();
        self.done.push(BytesOrMut::Payload(payload.clone()));
    }

    pub(crate) fn into_segments(mut self) -> Vec<BytesOrMut> {
        self.end_segment();
        self.done
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        let segments = self.into_segments();
        let mut out = Vec::with_capacity(segments.iter().map(|s| s.as_slice().len()).sum());
        segments
            .iter()
            .for_each(|segment| out.extend_from_slice(segment.as_slice()));
        out
    }

    fn end_segment(&mut self) {
        if !self.current.is_empty() {
            self.done.push(BytesOrMut::Fields(self.current.split()));
        }
    }
}

#[derive(Debug)]
pub(crate) struct Reader {
    version: u16,
    left: Bytes,
}

impl Reader {
    pub(crate) fn of_version(version: u16, bytes: Bytes) -> Reader {
        Reader {
            version,
            left: bytes,
        }
    }

    pub(crate) fn version(&self) -> u16 {
        self.version
    }

    /// For what no version changes.
    pub(crate) fn copy_of(bytes: &[u8]) -> Reader {
        Reader::of_version(OUR_VERSIONS.min, Bytes::copy_from_slice(bytes))
    }

    /// The next bytes, sharing the frame's memory.
    pub(crate) fn take(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        if len > self.left.len() {
            return Err(DecodeError::Truncated {
                needed: len,
                left: self.left.len(),
            });
        }
        Ok(self.left.split_to(len))
    }

    pub(crate) fn take_rest(&mut self) -> Bytes {
        std::mem::take(&mut self.left)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let truncated = DecodeError::Truncated {
            needed: N,
            left: self.left.len(),
        };
        let array = *self.left.first_chunk::<N>().ok_or(truncated)?;
        self.left.advance(N);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn string(&mut self, what: &'static str, max: usize) -> Result<String, DecodeError> {
        let len = usize::from(u16::read(self)?);
        if len > max {
            return Err(DecodeError::TooLong { what, len, max });
        }
        let bytes = self.take(len)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| DecodeError::NotUtf8 { what })?;
        Ok(text.to_owned())
    }

    pub(crate) fn text(&mut self) -> Result<String, DecodeError> {
        self.string("text", TEXT_MAX)
    }

    /// The rest of the message can hold so many items, so the result may be used to allocate.
    pub(crate) fn count(
        &mut self,
        what: &'static str,
        item_bytes_min: usize,
        max: u32,
    ) -> Result<usize, DecodeError> {
        let count = u32::read(self)?;
        let left = self.left.len();
        let possible = u64::from(count) * item_bytes_min as u64 <= left as u64;
        if count > max || !possible {
            return Err(DecodeError::ImpossibleCount { what, count, left });
        }
        Ok(count as usize)
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        match self.left.len() {
            0 => Ok(()),
            left => Err(DecodeError::TrailingBytes { left }),
        }
    }
}
