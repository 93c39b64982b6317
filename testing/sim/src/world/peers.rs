//! Connections between the members: how members find each other, what drivers learn about
//! connections, and messages as bytes under way.
//!
//! Every message is encoded and decoded as in production, so that a wrong codec breaks a run.

use bytes::{Bytes, BytesMut};
use synod_consensus::{AppendOutcome, Body, GroupId, MemberId};
use synod_member::Event as Input;
use synod_wire::{FrameDecoder, FrameLimits, Lane, OUR_VERSIONS, PeerMessage};

use crate::expected::count_message;
use crate::invariants::Violation;
use crate::trace::What;
use crate::world::messages::{index_of, is_repeated, kind_of, protocol};
use crate::world::{Event, MS, SECOND, World};

/// Time between two rounds of looking for the group, in microseconds.
const SEEK_US: u64 = 500 * MS;

impl World {
    // --- messages ---------------------------------------------------------------------------

    /// Hands a message to the network.
    pub(crate) fn send(&mut self, from: MemberId, to: MemberId, message: &PeerMessage) {
        let known = self.wanted_links.has(from, to) && self.net.is_connected(from, to);
        if from == to || !known {
            return;
        }
        // A full lane takes no more bulk. Messages that keep the connection alive use another lane.
        let is_bulk = message.lane() == Lane::Bulk && !matches!(message, PeerMessage::Propose(_));
        if is_bulk && self.net.backlog_us(self.now_us, (from, to)) > 2 * SECOND {
            self.note_lost(to, message);
            return;
        }
        let frame = match encode(message) {
            Ok(frame) => frame,
            Err(why) => return self.report_garbled(from, why),
        };
        self.coverage
            .count_if(matches!(message, PeerMessage::Fed { .. }), "learner fed");
        if let PeerMessage::Append { payloads, .. } = message {
            let left_out = payloads.iter().any(Option::is_none);
            self.coverage.count_if(left_out, "payload left out");
        }
        if let Some(Body::AppendReply(reply)) = protocol(message).map(|message| &message.body) {
            let lacks_one = matches!(reply.outcome, AppendOutcome::PayloadMissing { .. });
            self.coverage.count_if(lacks_one, "payload missing");
        }
        let (now_us, bytes) = (self.now_us, frame.len() as u64);
        let way = (from, to);
        let arrivals = self
            .net
            .carry(&mut self.rng, &self.options, now_us, way, bytes);
        let connection = self.net.connection(from, to);
        let group = self.net.group(from, to);
        let Some(first) = arrivals.first else {
            self.coverage.count("message lost");
            self.note_lost(to, message);
            // Only messages that the protocol repeats by itself may vanish without a broken
            // connection.
            if !is_repeated(message) {
                self.reconnect_later(from, to);
            }
            return;
        };
        for at in [Some(first), arrivals.second].into_iter().flatten() {
            let frame = frame.clone();
            self.schedule_at(
                at,
                Event::Arrives {
                    from,
                    to,
                    connection,
                    group,
                    frame,
                },
            );
        }
        if arrivals.second.is_some() {
            self.coverage.count("message duplicated");
        }
    }

    /// A frame from another member arrives.
    pub(crate) fn arrives(&mut self, from: MemberId, to: MemberId, group: GroupId, frame: &Bytes) {
        let message = match decode(frame) {
            Ok(message) => message,
            Err(why) => return self.report_garbled(from, why),
        };
        self.overheard(&message);
        count_message(&mut self.coverage, &message);
        let term = protocol(&message).map_or(Default::default(), |message| message.term);
        let (kind, index) = (kind_of(&message), index_of(&message));
        self.note(
            to,
            What::Received {
                from,
                kind,
                term,
                index,
            },
        );
        self.feed(
            to,
            Input::Peer {
                from,
                certificate: None,
                group,
                message,
            },
        );
    }

    fn report_garbled(&mut self, from: MemberId, why: String) {
        self.judge(Err(Violation {
            rule: "messages survive the wire",
            what: format!("a message of {from}: {why}"),
        }));
    }

    fn note_lost(&mut self, to: MemberId, message: &PeerMessage) {
        let kind = kind_of(message);
        self.note(to, What::Lost { to, kind });
    }

    // --- connections ------------------------------------------------------------------------

    /// Two members connect (again) soon.
    pub(crate) fn reconnect_later(&mut self, from: MemberId, to: MemberId) {
        let (a, b) = (from.min(to), from.max(to));
        if a != b && self.reconnecting.insert((a, b)) {
            let after_us = self.draw((MS, 200 * MS));
            self.schedule(after_us, Event::Reconnect { a, b });
        }
    }

    /// Breaks the connection if there is one, and makes it again if the network allows.
    pub(crate) fn reconnect(&mut self, a: MemberId, b: MemberId) {
        self.disconnect(a, b);
        self.wanted_links.tried(a, b);
        let calls = [(a, b), (b, a)].map(|(me, other)| self.wanted_links.has(me, other));
        let wanted = calls.contains(&true);
        let blocked = self.net.is_blocked(a, b) || self.net.is_blocked(b, a);
        if !wanted || blocked || !self.is_up(a) || !self.is_up(b) {
            return;
        }
        let paused = [a, b].map(|id| self.node(id).paused_until_us);
        if paused.iter().any(|until| *until > self.now_us) {
            return self.reconnect_later(a, b);
        }
        let groups = [a, b].map(|id| self.process(id).driver.group());
        let connection = self.net.connect(a, b, (groups[0], groups[1]));
        for (me, other, group, calls) in [(a, b, groups[1], calls[0]), (b, a, groups[0], calls[1])]
        {
            if calls {
                let address = self.node(other).name.clone();
                let found = Input::MemberFound {
                    member: other,
                    address,
                    group,
                };
                self.feed_without_turn(me, found);
            } else {
                // The transport connects back, so that there is a way for answers.
                self.wanted_links.add(me, other);
                self.wanted_links.tried(me, other);
            }
            self.feed_without_turn(me, Input::InboundLink { member: other });
            let up = Input::LinkUp {
                member: other,
                connection,
                session: self.process(other).session,
            };
            self.feed(me, up);
        }
    }

    /// A connection breaks, and both ends notice.
    pub(crate) fn disconnect(&mut self, a: MemberId, b: MemberId) {
        if !self.net.disconnect(a, b) {
            return;
        }
        for (me, other) in [(a, b), (b, a)] {
            self.feed(me, Input::LinkDown { member: other });
        }
    }

    /// All connections work again.
    pub(crate) fn heal_network(&mut self) {
        for (a, b) in self.net.unblock_all() {
            self.reconnect(a, b);
        }
    }

    /// The member has found its group. Peers that know it as a stranger learn that by a new
    /// connection.
    pub(crate) fn introduce(&mut self, id: MemberId) {
        for other in self.net.connected_to(id) {
            self.reconnect_later(id, other);
        }
    }

    // --- finding the group ------------------------------------------------------------------

    /// Contacts every member that is up, as operators would have listed all addresses.
    pub(crate) fn seek(&mut self, id: MemberId) {
        if !self.process(id).is_seeking {
            return;
        }
        let (node, epoch) = (id, self.node(id).epoch);
        self.schedule(SEEK_US, Event::Seek { node, epoch });
        for other in self.up().into_iter().filter(|other| *other != id) {
            let blocked = self.net.is_blocked(id, other) || self.net.is_blocked(other, id);
            let is_paused = self.node(other).paused_until_us > self.now_us;
            if blocked || is_paused {
                continue;
            }
            let (member, address) = (other, self.node(other).name.clone());
            let group = self.process(other).driver.group();
            self.feed(
                id,
                Input::MemberFound {
                    member,
                    address,
                    group,
                },
            );
            if !self.is_up(id) {
                return;
            }
        }
    }
}

fn encode(message: &PeerMessage) -> Result<Bytes, String> {
    let mut segments = Vec::new();
    message
        .encode(OUR_VERSIONS.max, &mut segments)
        .map_err(|error| error.to_string())?;
    let mut frame = BytesMut::with_capacity(segments.iter().map(Bytes::len).sum());
    for segment in segments {
        frame.extend_from_slice(&segment);
    }
    Ok(frame.freeze())
}

pub(crate) fn decode(frame: &Bytes) -> Result<PeerMessage, String> {
    let mut decoder = FrameDecoder::new(FrameLimits::default().of(Lane::Bulk));
    decoder.feed(frame);
    let whole = decoder.next_frame().map_err(|error| error.to_string())?;
    let whole = whole.ok_or("a frame is incomplete")?;
    PeerMessage::decode(OUR_VERSIONS.max, whole).map_err(|error| error.to_string())
}
