//! What members say to each other: messages as bytes, frames, the handshake.
//!
//! Transport-independent: this crate reads from anything that is [`std::io::Read`] and writes to
//! anything that is [`std::io::Write`]; sockets, threads and timeouts are the node's. The bytes are
//! described in `docs/wire-protocol.md`.
//!
//! * [`frame`]: length, kind and checksums around every message.
//! * [`stream`]: reading and writing frames; many messages per flush.
//! * [`hello`], [`handshake`]: the first frame in each direction, and what may refuse a peer.
//! * [`message`]: everything said after that, and [`PeerMessage::encode`]/[`PeerMessage::decode`].
//!
//! Nothing a peer sends is believed before its checksum and its bounds were checked: a length is
//! compared with the limit before memory is taken, memory grows with what has arrived, and a count
//! is compared with the bytes that are there.
#![forbid(unsafe_code)]

mod codec;
mod consensus_codec;
mod error;
pub mod frame;
pub mod handshake;
pub mod hello;
mod member_codec;
pub mod message;
mod message_codec;
pub mod stream;
mod version;

pub use error::{DecodeError, EncodeError, FrameError, HandshakeError, StreamError};
pub use frame::{BULK_FRAME_MAX_DEFAULT, CONTROL_FRAME_MAX, Frame, FrameDecoder, FrameLimits};
pub use handshake::{LocalIdentity, read_hello, read_reply, write_hello, write_reply};
pub use hello::{Hello, HelloReply, RefuseReason};
pub use message::{
    DataState, Join, JoinRefusal, JoinReply, Lane, OutcomeReport, PeerMessage, ProposalRefusal,
    Propose, Report, StateOffer, StateRequest, StateResult, StatusBroadcast,
};
pub use stream::{FrameReader, FrameWriter};
pub use version::{OUR_VERSIONS, choose_version};
