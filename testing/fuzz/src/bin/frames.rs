//! Frames: in whatever portions the bytes arrive, the same frames come out. Memory grows only with
//! the bytes that have arrived.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use synod_fuzz::frames::frame_bytes;
use synod_fuzz::{split_byte, split_part};
use synod_wire::{Frame, FrameDecoder, FrameError, FrameReader, StreamError};

/// Largest body accepted here.
const BODY_MAX: u32 = 1 << 20;
/// Bytes of memory taken before a body arrives; see `FrameDecoder`.
const FIRST_BYTES: usize = 64 << 10;

fuzz_target!(|input: &[u8]| {
    let (mode, rest) = split_byte(input);
    let (step, rest) = split_byte(rest);
    let stream = match mode & 1 {
        0 => rest.to_vec(),
        _ => sealed_frames(rest),
    };
    let whole = decode(&stream, stream.len().max(1));
    let pieces = decode(&stream, usize::from(step) + 1);
    assert_eq!(whole, pieces, "the cut of the stream matters");
    check_reader(&stream, usize::from(step) + 1, whole);
});

/// Kind, flags, then a part that is the body, again and again.
fn sealed_frames(mut rest: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let [kind, flags, body @ ..] = rest {
        let (body, after) = split_part(body);
        stream.extend_from_slice(&frame_bytes(*kind, *flags, body));
        rest = after;
    }
    stream
}

/// The frames of a stream, the error after them, and whether it ends inside a frame.
fn decode(stream: &[u8], step: usize) -> (Vec<Frame>, Option<FrameError>, bool) {
    let mut decoder = FrameDecoder::new(BODY_MAX);
    let mut frames = Vec::new();
    for (i, piece) in stream.chunks(step).enumerate() {
        decoder.feed(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next_frame(), Err(error), "errors are final");
                    return (frames, Some(error), true);
                }
            }
        }
        let fed = (i + 1) * step;
        assert!(decoder.memory_bytes() <= 3 * fed + FIRST_BYTES);
    }
    (frames, None, decoder.is_inside_frame())
}

/// A transport that gives few bytes at a time.
struct Slowly<'a> {
    left: &'a [u8],
    step: usize,
}

impl Read for Slowly<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let len = self.step.min(buf.len()).min(self.left.len());
        let (now, later) = self.left.split_at(len);
        buf[..len].copy_from_slice(now);
        self.left = later;
        Ok(len)
    }
}

fn check_reader(stream: &[u8], step: usize, expected: (Vec<Frame>, Option<FrameError>, bool)) {
    let (frames, error, inside) = expected;
    let mut reader = FrameReader::new(Slowly { left: stream, step }, BODY_MAX);
    for frame in frames {
        assert_eq!(reader.read_frame().ok().flatten(), Some(frame));
    }
    match (reader.read_frame(), error) {
        (Ok(None), None) => assert!(!inside),
        (Err(StreamError::EndedInside), None) => assert!(inside),
        (Err(StreamError::Frame(found)), Some(expected)) => assert_eq!(found, expected),
        (found, expected) => panic!("the reader says {found:?}, the decoder {expected:?}"),
    }
}
