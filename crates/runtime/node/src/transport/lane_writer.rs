//! The writing end of a lane's connection.
//!
//! It belongs to the thread that sends at the moment: the lane's thread, which waits for the
//! socket, or a thread that drives, which never does ([`LaneWriter::flush_now`]). What did not fit
//! then stays here, in order, until it is flushed again.

use std::io;
use std::net::TcpStream;

use std::time::{Duration, Instant};

use synod_wire::{Compression, FrameWriter, PeerMessage, StreamError};

use super::channel::Channel;
use super::link_speed::{LinkSpeed, Sent};

/// Encodes messages for one connection and writes them.
pub(super) struct LaneWriter {
    frames: FrameWriter<Channel>,
    version: u16,
    /// Measurements of a lane that may compress.
    speed: Option<LinkSpeed>,
    /// Bytes pushed since the last flush, and the time that compressing them took.
    pushed: (Compression, Duration),
}

/// Result of encoding messages.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    /// Bytes of a lane that may compress, without and with that.
    pub(super) bytes: Compression,
    /// Why messages could not be encoded. They are left out.
    pub(super) errors: Vec<StreamError>,
}

impl LaneWriter {
    /// A writer of frames with bodies of at most `max` bytes, in this version. `speed` decides when
    /// to compress; without it, nothing is.
    pub(super) fn new(
        channel: Channel,
        version: u16,
        max: u32,
        speed: Option<LinkSpeed>,
    ) -> LaneWriter {
        LaneWriter {
            frames: FrameWriter::new(channel, max),
            version,
            speed,
            pushed: Default::default(),
        }
    }

    /// Whether messages are compressed at the moment, which takes time.
    pub(super) fn compresses(&self) -> bool {
        self.speed.as_ref().is_some_and(LinkSpeed::compresses)
    }

    pub(super) fn stream(&self) -> &TcpStream {
        self.frames.get_ref().stream()
    }

    /// Encodes messages; none is sent before a flush. Those that the connection's version does not
    /// have are left out.
    pub(super) fn push<'a>(
        &mut self,
        messages: impl IntoIterator<Item = &'a PeerMessage>,
    ) -> Pushed {
        let (version, compressed) = (self.version, self.compresses());
        let (begun, mut result) = (Instant::now(), Pushed::default());
        for message in messages.into_iter().filter(|m| m.is_carried_by(version)) {
            let pushed = if compressed {
                self.frames.push_compressed(version, message)
            } else {
                self.frames.push(version, message)
            };
            match pushed {
                Ok(bytes) => result.bytes += bytes,
                Err(error) => result.errors.push(error),
            }
        }
        if self.speed.is_none() {
            result.bytes = Compression::default();
        }
        self.pushed.0 += result.bytes;
        if compressed {
            self.pushed.1 += begun.elapsed();
        }
        result
    }

    /// Writes everything; waits for the socket.
    pub(super) fn flush(&mut self) -> Result<(), StreamError> {
        let begun = Instant::now();
        self.frames.flush()?;
        self.note_time(begun);
        Ok(())
    }

    /// Writes what the socket takes without a wait; whether that is everything.
    pub(super) fn flush_now(&mut self) -> Result<bool, StreamError> {
        let begun = Instant::now();
        self.frames.get_mut().set_waiting_writes(false);
        let flushed = self.frames.flush();
        self.frames.get_mut().set_waiting_writes(true);
        self.note_time(begun);
        match flushed {
            Ok(()) => Ok(true),
            Err(StreamError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes what was written since then.
    fn note_time(&mut self, begun: Instant) {
        let (bytes, compressing) = std::mem::take(&mut self.pushed);
        if let Some(speed) = &mut self.speed {
            let now = Instant::now();
            let writing = now - begun;
            let sent = Sent {
                bytes,
                compressing,
                writing,
            };
            speed.note(now, &sent);
        }
    }
}
