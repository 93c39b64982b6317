//! Frames over blocking readers and writers.
//!
//! A reader takes what the transport has and gives whole frames. A writer queues messages without
//! copying their payloads, and sends all of them with as few system calls as possible.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};

use bytes::{Buf, Bytes};

use crate::error::StreamError;
use crate::frame::{Frame, FrameDecoder, HEADER_LEN, compressed_frame};
use crate::message::PeerMessage;

/// Bytes asked of the transport at a time.
const READ_BYTES: usize = 64 * 1024;
/// Segments handed to the transport at a time; Linux takes at most 1024.
const SEGMENTS_PER_WRITE: usize = 256;

#[derive(Debug)]
pub struct FrameReader<R> {
    inner: R,
    decoder: FrameDecoder,
    buffer: Box<[u8]>,
    /// The part of `buffer` that was read and is not yet decoded.
    unread: std::ops::Range<usize>,
}

impl<R: Read> FrameReader<R> {
    pub fn new(inner: R, max: u32) -> FrameReader<R> {
        let buffer = vec![0; READ_BYTES].into_boxed_slice();
        FrameReader {
            inner,
            decoder: FrameDecoder::new(max),
            buffer,
            unread: 0..0,
        }
    }

    /// Another limit from the next frame on (after the handshake).
    pub fn set_max(&mut self, max: u32) {
        self.decoder.set_max(max);
    }

    /// Takes compressed bodies, too, from the next frame on.
    pub fn take_compressed(&mut self) {
        self.decoder.take_compressed();
    }

    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// The transport, for its settings; reading from it loses frames.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// The transport, and the bytes that were read from it behind the last whole frame. For
    /// connections on which something else than frames follows.
    pub fn into_parts(self) -> (R, Vec<u8>) {
        let unread = self.buffer[self.unread].to_vec();
        (self.inner, unread)
    }

    /// The next frame; `None` if the connection ended after a whole one. Blocks as the transport
    /// does. After a transport error of kind `WouldBlock` or `TimedOut` it may be called again.
    pub fn read_frame(&mut self) -> Result<Option<Frame>, StreamError> {
        let max = self.decoder.max();
        self.read_frame_below(|| max)
    }

    /// Like [`FrameReader::read_frame`], with a limit that may change while the frame is awaited:
    /// `max` is called whenever bytes have arrived.
    pub fn read_frame_below(
        &mut self,
        max: impl Fn() -> u32,
    ) -> Result<Option<Frame>, StreamError> {
        loop {
            if let Some(frame) = self.buffered_frame(max())? {
                return Ok(Some(frame));
            }
            if self.fill()? == 0 {
                return if self.decoder.is_inside_frame() {
                    Err(StreamError::EndedInside)
                } else {
                    Ok(None)
                };
            }
        }
    }

    /// The next frame, of at most this many bytes, if it has been read already. Never blocks.
    pub fn buffered_frame(&mut self, max: u32) -> Result<Option<Frame>, StreamError> {
        self.decoder.set_max(max);
        let mut input = &self.buffer[self.unread.clone()];
        let frame = self.decoder.advance(&mut input);
        self.unread.start = self.unread.end - input.len();
        Ok(frame?)
    }

    fn fill(&mut self) -> io::Result<usize> {
        loop {
            match self.inner.read(&mut self.buffer) {
                Ok(len) => {
                    self.unread = 0..len;
                    return Ok(len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compression {
    /// Bytes that it has without.
    pub plain: usize,
    pub sent: usize,
}

impl std::ops::AddAssign for Compression {
    fn add_assign(&mut self, other: Compression) {
        self.plain += other.plain;
        self.sent += other.sent;
    }
}

#[derive(Debug)]
pub struct FrameWriter<W> {
    inner: W,
    max: u32,
    queue: VecDeque<Bytes>,
    queued_bytes: usize,
}

impl<W: Write> FrameWriter<W> {
    pub fn new(inner: W, max: u32) -> FrameWriter<W> {
        FrameWriter {
            inner,
            max,
            queue: VecDeque::new(),
            queued_bytes: 0,
        }
    }

    /// Another limit from the next message on.
    pub fn set_max(&mut self, max: u32) {
        self.max = max;
    }

    pub fn get_ref(&self) -> &W {
        &self.inner
    }

    /// The transport, for its settings; writing to it damages the stream.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// Queues a message; no byte is sent before [`FrameWriter::flush`]. Payloads are not copied.
    pub fn push(
        &mut self,
        version: u16,
        message: &PeerMessage,
    ) -> Result<Compression, StreamError> {
        let segments = self.encode(version, message)?;
        let plain = self.push_segments(segments);
        Ok(Compression { plain, sent: plain })
    }

    /// Compresses the message if that makes it shorter. The peer must take compressed bodies.
    pub fn push_compressed(
        &mut self,
        version: u16,
        message: &PeerMessage,
    ) -> Result<Compression, StreamError> {
        let segments = self.encode(version, message)?;
        let plain = segments.iter().map(Bytes::len).sum();
        // Nearly all of it is payloads, which the message holds apart from each other.
        let body = segments[1..].concat();
        let frame = compressed_frame(message.kind(), &body);
        let sent = self.push_segments(frame.map_or(segments, |frame| vec![frame]));
        Ok(Compression { plain, sent })
    }

    fn encode(&self, version: u16, message: &PeerMessage) -> Result<Vec<Bytes>, StreamError> {
        let mut segments = Vec::new();
        message.encode(version, &mut segments)?;
        let bytes: usize = segments.iter().map(Bytes::len).sum();
        let len = bytes - HEADER_LEN;
        if len > self.max as usize {
            return Err(StreamError::TooLarge {
                kind: message.kind(),
                len,
                max: self.max,
            });
        }
        Ok(segments)
    }

    /// Queues an encoded frame; its length in bytes.
    pub(crate) fn push_segments(&mut self, segments: Vec<Bytes>) -> usize {
        let bytes = segments.iter().map(Bytes::len).sum();
        self.queued_bytes += bytes;
        self.queue
            .extend(segments.into_iter().filter(|segment| !segment.is_empty()));
        bytes
    }

    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Sends everything queued. After a transport error of kind `WouldBlock` or `TimedOut` it may
    /// be called again; after any other error the connection cannot be used any more.
    pub fn flush(&mut self) -> Result<(), StreamError> {
        while !self.queue.is_empty() {
            let slices: Vec<IoSlice<'_>> = self
                .queue
                .iter()
                .take(SEGMENTS_PER_WRITE)
                .map(|s| IoSlice::new(s))
                .collect();
            match self.inner.write_vectored(&slices) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) => self.consume(written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.inner.flush()?)
    }

    fn consume(&mut self, mut written: usize) {
        self.queued_bytes = self.queued_bytes.saturating_sub(written);
        while let Some(segment) = self.queue.front_mut() {
            if written < segment.len() {
                segment.advance(written);
                return;
            }
            written -= segment.len();
            self.queue.pop_front();
        }
    }
}
