//! Frames over streams: any cutting of the bytes, bounds on memory.

use std::io::{self, IoSlice, Read, Write};

use bytes::Bytes;
use proptest::prelude::*;
use synod_consensus::{EntryKind, Origin, Term};
use synod_wire::{
    FrameDecoder, FrameError, FrameLimits, FrameReader, FrameWriter, Lane, PeerMessage, Propose,
    StreamError,
};

use crate::messages::{NEWEST, frame_bytes};
use crate::strategies::peer_message;

fn propose(len: usize) -> PeerMessage {
    PeerMessage::Propose(Propose {
        tag: Term(1),
        origin: Origin::default(),
        kind: EntryKind::Action,
        oldest_outstanding: 1,
        payload: Bytes::from(vec![5; len]),
    })
}

/// The header of a frame that claims `len` bytes.
fn header_claiming(len: u32) -> Vec<u8> {
    let mut header = b"Sy\x12\0".to_vec();
    header.extend_from_slice(&len.to_le_bytes());
    header.extend_from_slice(&[0; 4]);
    let crc = crc32c::crc32c(&header);
    header.extend_from_slice(&crc.to_le_bytes());
    header
}

/// A transport that moves a few bytes at a time and is interrupted in between.
#[derive(Debug, Default)]
struct Trickle {
    bytes: Vec<u8>,
    steps: Vec<usize>,
    turn: usize,
    calls: usize,
}

impl Trickle {
    fn step(&mut self) -> io::Result<usize> {
        self.calls += 1;
        self.turn += 1;
        match self.steps.get(self.turn % self.steps.len().max(1)) {
            None => Ok(usize::MAX),
            Some(0) => Err(io::ErrorKind::Interrupted.into()),
            Some(step) => Ok(*step),
        }
    }
}

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.step()?.min(buffer.len()).min(self.bytes.len());
        buffer[..len].copy_from_slice(&self.bytes[..len]);
        self.bytes.drain(..len);
        Ok(len)
    }
}

impl Write for Trickle {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buffer)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let len = self.step()?;
        let before = self.bytes.len();
        let all = slices.iter().flat_map(|slice| slice.iter());
        self.bytes.extend(all.take(len));
        Ok(self.bytes.len() - before)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Step sizes; zero is an interruption. At least one is positive.
fn steps() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..3000usize, 0..6).prop_map(|mut steps| {
        steps.push(17);
        steps
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn messages_arrive_however_the_transport_cuts_them(
        messages in proptest::collection::vec(peer_message(), 0..10),
        write_steps in steps(),
        read_steps in steps(),
    ) {
        let transport = Trickle { steps: write_steps, ..Trickle::default() };
        let mut writer = FrameWriter::new(transport, u32::MAX);
        for message in &messages {
            writer.push(NEWEST, message).unwrap();
        }
        let expected: usize = messages.iter().map(|message| frame_bytes(message).len()).sum();
        prop_assert_eq!(writer.queued_bytes(), expected);
        writer.flush().unwrap();
        prop_assert_eq!(writer.queued_bytes(), 0);

        let bytes = std::mem::take(&mut writer.get_mut().bytes);
        let transport = Trickle { bytes, steps: read_steps, ..Trickle::default() };
        let mut reader = FrameReader::new(transport, u32::MAX);
        for message in messages {
            let frame = reader.read_frame().unwrap().expect("as many frames as messages");
            prop_assert_eq!(PeerMessage::decode(NEWEST, frame), Ok(message));
        }
        prop_assert!(reader.read_frame().unwrap().is_none());
    }
}

#[test]
fn many_messages_leave_in_one_write() {
    let mut writer = FrameWriter::new(Trickle::default(), 1 << 20);
    for _ in 0..20 {
        writer.push(NEWEST, &PeerMessage::LeaveReply).unwrap();
    }
    writer.flush().unwrap();
    assert_eq!(writer.get_ref().calls, 1);
}

#[test]
fn oversized_frame_is_refused_by_its_header() {
    let limits = FrameLimits::default();
    for lane in [Lane::Control, Lane::Bulk] {
        let max = limits.of(lane);
        for len in [max + 1, u32::MAX] {
            let mut decoder = FrameDecoder::new(max);
            decoder.feed(&header_claiming(len));
            let error = FrameError::TooLarge { kind: 18, len, max };
            assert_eq!(decoder.next_frame(), Err(error));
            assert!(decoder.memory_bytes() < 1024);
            // And for good.
            decoder.feed(&frame_bytes(&propose(1)));
            assert_eq!(decoder.next_frame(), Err(error));
        }
    }
}

#[test]
fn memory_grows_with_what_arrives_not_with_what_is_claimed() {
    let claimed = 80 << 20;
    let mut decoder = FrameDecoder::new(claimed);
    decoder.feed(&header_claiming(claimed));
    assert_eq!(decoder.next_frame(), Ok(None));
    assert!(
        decoder.memory_bytes() <= 128 << 10,
        "{}",
        decoder.memory_bytes()
    );
    let chunk = [1; 8192];
    for arrived in (1..=256).map(|chunks| chunks * chunk.len()) {
        decoder.feed(&chunk);
        assert_eq!(decoder.next_frame(), Ok(None));
        let bound = 2 * arrived + (128 << 10);
        assert!(
            decoder.memory_bytes() <= bound,
            "{} of {bound}",
            decoder.memory_bytes()
        );
    }
}

#[test]
fn message_above_the_limit_is_not_sent() {
    let mut writer = FrameWriter::new(Trickle::default(), 1000);
    let refused = writer.push(NEWEST, &propose(2000));
    assert!(matches!(
        refused,
        Err(StreamError::TooLarge {
            kind: 18,
            max: 1000,
            ..
        })
    ));
    assert_eq!(writer.queued_bytes(), 0);
    writer.push(NEWEST, &propose(500)).unwrap();
}

#[test]
fn flags_of_later_versions_are_refused() {
    let mut header = header_claiming(0);
    header[3] = 1;
    let crc = crc32c::crc32c(&header[..12]);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    let mut decoder = FrameDecoder::new(100);
    decoder.feed(&header);
    assert_eq!(
        decoder.next_frame(),
        Err(FrameError::UnknownFlags { kind: 18, flags: 1 })
    );
}

/// A transport whose reads time out now and then, as sockets with a read timeout do.
struct Impatient<'a> {
    bytes: &'a [u8],
    patience: bool,
}

impl Read for Impatient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.patience = !self.patience;
        if !self.patience {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = self.bytes.len().min(5);
        self.bytes.read(&mut buffer[..len])
    }
}

/// Gives its bytes in two portions; with the second, more is allowed.
struct Rising<'a> {
    portions: Vec<&'a [u8]>,
    max: &'a std::cell::Cell<u32>,
}

impl io::Read for Rising<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(portion) = self.portions.pop() else {
            return Ok(0);
        };
        if self.portions.is_empty() {
            self.max.set(1 << 20);
        }
        buffer[..portion.len()].copy_from_slice(portion);
        Ok(portion.len())
    }
}

#[test]
fn limit_that_rises_while_a_frame_is_awaited_holds_for_it() {
    let bytes = frame_bytes(&propose(100));
    for (first, passes) in [(10, true), (20, false)] {
        let max = std::cell::Cell::new(8);
        let (first, second) = bytes.split_at(first);
        let portions = vec![second, first];
        let mut reader = FrameReader::new(
            Rising {
                portions,
                max: &max,
            },
            8,
        );
        let frame = reader.read_frame_below(|| max.get());
        assert_eq!(
            frame.is_ok(),
            passes,
            "the header is whole with its 16th byte"
        );
    }
}

#[test]
fn reading_continues_after_a_timeout() {
    let bytes = frame_bytes(&propose(100));
    let mut reader = FrameReader::new(
        Impatient {
            bytes: &bytes,
            patience: true,
        },
        1 << 20,
    );
    let frame = loop {
        match reader.read_frame() {
            Ok(frame) => break frame.unwrap(),
            Err(StreamError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(PeerMessage::decode(NEWEST, frame), Ok(propose(100)));
}
