//! Numbers of the order on their way to the channel. The data of a large transaction come in parts,
//! and are queued as they come: a server keeps a part and an event of it in memory.

use std::ops::ControlFlow;
use std::sync::PoisonError;
use std::time::Instant;

use bytes::Bytes;
use synod_node::{Delivery, Seqno};

use crate::apply::ApplyError;
use crate::deliveries::Delivered;
use crate::events::{self, Place};
use crate::host::Member;
use crate::server::ServerError;
use crate::transaction::{self, Cutter, HEADER_BYTES, Header};

/// A part of what a number of the order stands for.
pub(crate) struct Part {
    pub(crate) seqno: Seqno,
    depends_on: Seqno,
    pub(crate) action_bytes: usize,
    /// None: the number is no transaction.
    data: Option<Bytes>,
    is_last: bool,
}

/// Use of the further parts of a transaction.
pub(crate) enum Begun {
    /// They are events, which the channel gets.
    Events(Cutter),
    /// They are the text of a set, which is complete with the last one.
    Beginning(Vec<u8>),
    /// Only its number is used.
    Nothing,
}

impl Part {
    /// Otherwise only its number is used.
    pub(crate) fn is_transaction(&self) -> bool {
        self.data.is_some()
    }

    /// `Break`: it is a transaction of a client of this server, who commits it. `founds`: this
    /// server has begun the group, and no client of it has proposed anything yet.
    pub(crate) fn of(delivered: Delivered, founds: bool) -> ControlFlow<Seqno, Part> {
        let nothing = |seqno: Seqno| Part {
            seqno,
            // Nothing is applied beside it.
            depends_on: Seqno(seqno.0 - 1),
            action_bytes: 0,
            data: None,
            is_last: true,
        };
        ControlFlow::Continue(match delivered {
            Delivered::Chunk(chunk) => Part {
                seqno: chunk.seqno,
                depends_on: chunk.depends_on,
                action_bytes: chunk.action_bytes,
                data: Some(chunk.data),
                is_last: false,
            },
            Delivered::Last(Delivery::Action {
                seqno,
                depends_on,
                data: Some(data),
                ..
            }) => Part {
                seqno,
                depends_on,
                action_bytes: data.len(),
                data: Some(data),
                is_last: true,
            },
            Delivered::Last(Delivery::Action { seqno, .. }) if founds => nothing(seqno),
            Delivered::Last(Delivery::Action { seqno, .. }) => return ControlFlow::Break(seqno),
            Delivered::Last(Delivery::View(view)) => nothing(view.seqno),
        })
    }
}

impl Member {
    /// Queues a part. `begun` says what becomes of those after the first one.
    pub(crate) fn queue_part(
        &self,
        part: Part,
        begun: &mut Option<Begun>,
    ) -> Result<(), ApplyError> {
        let (seqno, is_last) = (part.seqno, part.is_last);
        let Some(mut data) = part.data else {
            return self.queue_nothing(seqno, part.depends_on);
        };
        let damaged = |why| ApplyError::Events { seqno, why };
        let mut of_part = match begun.take() {
            Some(begun) => begun,
            None => {
                let header = Header::take(&mut data);
                let header = header.map_err(|why| ApplyError::Entry { seqno, why })?;
                let bytes = part.action_bytes - HEADER_BYTES;
                self.begin(&header, seqno, part.depends_on, bytes)?
            }
        };
        match &mut of_part {
            Begun::Events(cutter) => cutter.add(&data, damaged, |_, event| {
                self.queue(event).map_err(ApplyError::Server)
            })?,
            Begun::Beginning(text) => text.extend_from_slice(&data),
            Begun::Nothing => {}
        }
        if !is_last {
            *begun = Some(of_part);
            return Ok(());
        }
        match of_part {
            Begun::Events(cutter) => cutter.end().map_err(damaged),
            Begun::Beginning(text) => {
                self.check_beginning(&text)?;
                self.queue_nothing(seqno, part.depends_on)
            }
            Begun::Nothing => self.queue_nothing(seqno, part.depends_on),
        }
    }

    /// Begins a transaction with so many bytes of events.
    fn begin(
        &self,
        header: &Header,
        seqno: Seqno,
        depends_on: Seqno,
        bytes: usize,
    ) -> Result<Begun, ApplyError> {
        if header.is_beginning {
            return Ok(Begun::Beginning(Vec::new()));
        }
        // A statement of this server whose number is missing before later ones. Those came after it
        // was carried out here, as it conflicts with all that has not seen it; and the engine loses
        // nothing before what it has. So only its number is lost, with the end of the binlog, as
        // that of DROP TABLE IF EXISTS is. Carried out now, it could drop a later table.
        if header.has_statements && seqno <= self.had_at_start {
            return Ok(Begun::Nothing);
        }
        let place = Place {
            group: self.settings.group,
            seqno: seqno.0,
            depends_on: depends_on.0,
            committed_us: header.origin.committed_us,
            server_version: header.origin.server_version,
            server_id: header.origin.server_id,
            has_statements: header.has_statements,
            bytes,
        };
        self.queue(&events::gtid(&place))?;
        Ok(Begun::Events(Cutter::default()))
    }

    /// Gives the channel an event. Where the relay log has no room, the server waits for it here.
    pub(crate) fn queue(&self, event: &[u8]) -> Result<(), ServerError> {
        let note = |since| *self.queuing.lock().unwrap_or_else(PoisonError::into_inner) = since;
        note(Some(Instant::now()));
        let queued = self.server.queue(event);
        note(None);
        queued
    }

    /// A number of the order that is no transaction: it becomes an empty one, so that
    /// `gtid_executed` has no gap there, on any server.
    fn queue_nothing(&self, seqno: Seqno, depends_on: Seqno) -> Result<(), ApplyError> {
        let server_id = self.settings.server_id;
        let [begin, commit] =
            events::nothing(server_id).map_err(|why| ApplyError::Events { seqno, why })?;
        let place = Place {
            group: self.settings.group,
            seqno: seqno.0,
            depends_on: depends_on.0,
            committed_us: transaction::now_us(),
            server_version: self.settings.version.number,
            server_id,
            has_statements: true,
            bytes: begin.len() + commit.len(),
        };
        for event in [events::gtid(&place), begin, commit] {
            self.queue(&event)?;
        }
        Ok(())
    }
}
