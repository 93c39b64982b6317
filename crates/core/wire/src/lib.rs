//! Messages between members as bytes: frames, codec, handshake.
//!
//! The crate reads from any [`std::io::Read`] and writes to any [`std::io::Write`]. Sockets,
//! threads and timeouts are the node's; encryption is the crate `synod-tls`.
//! `docs/wire-protocol.md` describes frames, handshake, versions and messages.
//!
//! * [`Frame`], [`FrameDecoder`]: length, kind and checksums around every message.
//! * [`FrameReader`], [`FrameWriter`]: reading and writing frames; many messages per flush.
//! * [`handshake`]: the first frame in each direction, of a member or of a client that gives
//!   commands, and what may refuse a peer.
//! * [`PeerMessage`]: every message after that, with [`PeerMessage::encode`] and
//!   [`PeerMessage::decode`].
//!
//! # Rules
//!
//! - Checksums come first: no field of a frame is used before its checksum was verified.
//! - A length is compared with its limit before memory is taken, memory grows with the bytes that
//!   have arrived, and a count is compared with the bytes that are there.
//! - A frame is accepted whole or refused. After a refusal the connection is closed, because the
//!   next frame cannot be found.
//! - Reading never panics, whatever the bytes.
//! - The bytes of a released version never change (test `bytes_of_a_version_never_change`). The
//!   layout of the handshake changes in no version.
//!
//! # The bytes of one message
//!
//! ```
//! use synod_consensus::SessionId;
//! use synod_wire::{FrameDecoder, FrameWriter, PeerMessage};
//!
//! // A writer gathers messages; `flush` sends them together.
//! let message = PeerMessage::Leave { session: SessionId(7) };
//! let mut writer = FrameWriter::new(Vec::new(), 1024);
//! writer.push(5, &message).unwrap();
//! writer.flush().unwrap();
//!
//! let bytes = writer.get_ref();
//! assert_eq!(bytes[..2], *b"Sy"); // the mark
//! assert_eq!(bytes[2], 22); // kind: Leave
//! assert_eq!(bytes[3], 0); // flags: the body is not compressed (0x01)
//! assert_eq!(bytes[4..8], 8_u32.to_le_bytes()); // length of the body
//! // 8..12: CRC32C of the body. 12..16: CRC32C of the bytes before.
//! assert_eq!(bytes[16..], 7_u64.to_le_bytes()); // the body: the session
//!
//! // The other end: feed what arrives, take whole frames, decode them.
//! let mut decoder = FrameDecoder::new(1024);
//! decoder.feed(bytes);
//! let frame = decoder.next_frame().unwrap().unwrap();
//! assert_eq!(PeerMessage::decode(5, frame).unwrap(), message);
//! ```
#![forbid(unsafe_code)]

mod codec;
mod command;
mod consensus_codec;
mod error;
mod fetch;
mod frame;
pub mod handshake;
mod layout;
mod member_codec;
mod message;
mod message_codec;
mod region;
mod stream;
mod version;

pub use command::{Command, CommandRefusal, Done, RefusalReason};
pub use error::{DecodeError, EncodeError, FrameError, HandshakeError, StreamError};
pub use fetch::{FetchAnswer, FetchFrom, FetchRefusal, FetchRequest, FetchedEntries};
pub use frame::{BULK_FRAME_MAX_DEFAULT, CONTROL_FRAME_MAX, Frame, FrameDecoder, FrameLimits};
pub use handshake::{
    Caller, ClientHello, Hello, HelloReply, LocalIdentity, Refusal, RefuseReason, read_caller,
    read_hello, read_reply, write_client_hello, write_hello, write_reply,
};
pub use message::{
    AppliedPosition, DataState, FeedOrder, HeardMember, IntroducedMember, Introduction, Join,
    JoinRefusal, JoinReply, Lane, MemberLag, OutcomeReport, PaceReport, PeerMessage,
    PresenceReport, ProposalRefusal, Propose, Report, StateOffer, StateRequest, StateResult,
    StatusBroadcast, SurvivorReport,
};
pub use region::{Region, RegionError};
pub use stream::{Compression, FrameReader, FrameWriter};
pub use version::{OUR_VERSIONS, choose_version};
