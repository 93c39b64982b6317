//! From the events of a dump to parts of transactions.
//!
//! Invariants: a part has whole events of one transaction. Each transaction begins with its GTID
//! and ends with what ends it, also if a filter leaves nothing else.

mod kinds;
pub(crate) mod mysql;
mod parts;
mod raw;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use synod_binlog::bodies::{FormatDescription, Query, Rotate};
use synod_binlog::event::{ARTIFICIAL, HEADER_BYTES};
use synod_binlog::gtid::{DDL, GtidEvent, STANDALONE, TRANSACTIONAL};
use synod_binlog::{Checksum, EventError, EventHeader, EventType, Gtid};

use self::kinds::{EventKind, Member, Statement};
use self::mysql::Translator;
use self::parts::{Parts, Selection};
use self::raw::RawEvent;
use crate::config::Filter;
use crate::error::{Corruption, Obstacle, UpstreamError};
use crate::position::{FilePosition, Incoming};

/// Readers that do not know the event may leave it out.
const IGNORABLE: u16 = 0x80;
/// Offset of the flags in the body of a GTID event.
const FLAGS_AT: usize = 12;
/// The event that executes a statement with a file, after those with the file.
const EXECUTE_LOAD: EventType = EventType(18);

#[derive(Debug)]
pub(crate) struct Decoder {
    filter: Filter,
    part_bytes: usize,
    checksum: Checksum,
    translator: Option<Translator>,
    /// The upstream's `explicit_defaults_for_timestamp`, for files of which a version wrote the
    /// statements that does not say it.
    explicit_defaults: bool,
    /// The present file is one.
    lacks_explicit_defaults: bool,
    place: FilePosition,
    open: Option<Open>,
    /// Parts of one event, still to be returned.
    out: VecDeque<Incoming>,
}

#[derive(Debug)]
struct Open {
    flags: u8,
    parts: Parts,
    /// Its GTID event, until it is known whether its statement is kept.
    beginning: Option<RawEvent>,
    selection: Selection,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    #[error(transparent)]
    NotFollowed(#[from] Obstacle),
}

impl From<EventError> for Fault {
    fn from(why: EventError) -> Fault {
        Fault::Corrupt(why.into())
    }
}

impl Decoder {
    /// For a dump whose first events have this checksum; with what translates it, if it is one of
    /// MySQL.
    pub(crate) fn new(
        filter: Filter,
        part_bytes: usize,
        checksum: Checksum,
        translator: Option<Translator>,
    ) -> Decoder {
        Decoder {
            filter,
            part_bytes,
            checksum,
            translator,
            explicit_defaults: false,
            lacks_explicit_defaults: false,
            place: FilePosition::default(),
            open: None,
            out: VecDeque::new(),
        }
    }

    /// The same for an upstream of MariaDB with this `explicit_defaults_for_timestamp`.
    pub(crate) fn with_explicit_defaults(mut self, are_set: bool) -> Decoder {
        self.explicit_defaults = are_set;
        self
    }

    pub(crate) fn place(&self) -> &FilePosition {
        &self.place
    }

    /// Whether what comes is a transaction that the reader has.
    pub(crate) fn is_skipping(&self) -> bool {
        self.translator
            .as_ref()
            .is_some_and(Translator::is_skipping)
    }

    pub(crate) fn give(&mut self) -> Option<Incoming> {
        self.out.pop_front()
    }

    pub(crate) fn take(&mut self, packet: Vec<u8>, skipped: usize) -> Result<(), UpstreamError> {
        self.decode(packet, skipped).map_err(|fault| {
            // An event that cannot be followed has moved nothing.
            let place = self.place.clone();
            match fault {
                Fault::Corrupt(why) => UpstreamError::Corrupt { place, why },
                Fault::NotFollowed(why) => UpstreamError::NotFollowed { place, why },
            }
        })
    }

    fn decode(&mut self, packet: Vec<u8>, skipped: usize) -> Result<(), Fault> {
        let event = RawEvent::of_packet(packet, skipped, self.checksum)?;
        let Some(translator) = &mut self.translator else {
            return self.pass(event);
        };
        match EventKind::of(event.event_type()) {
            EventKind::Format | EventKind::Rotate | EventKind::Heartbeat | EventKind::Incident => {
                return self.pass(event);
            }
            EventKind::OfFile
            | EventKind::Gtid
            | EventKind::InTransaction(_)
            | EventKind::Unknown => {}
        }
        let header = event.header;
        for event in translator.take(event)? {
            self.pass(event)?;
        }
        self.advance(&header);
        Ok(())
    }

    fn pass(&mut self, event: RawEvent) -> Result<(), Fault> {
        let header = event.header;
        match EventKind::of(event.event_type()) {
            EventKind::Format => {
                let format = FormatDescription::parse(event.body())?;
                self.checksum = format.checksum;
                self.lacks_explicit_defaults = self.translator.is_none()
                    && !raw::writes_explicit_defaults(&format.server_version);
            }
            EventKind::Rotate => return self.rotate(&event),
            EventKind::Heartbeat => self.out.push_back(Incoming::Heartbeat),
            EventKind::OfFile => {}
            EventKind::Incident => return Err(incident(event.body()).into()),
            EventKind::Gtid => self.begin(event)?,
            EventKind::InTransaction(member) => {
                let event = match self.lacks_explicit_defaults {
                    true => raw::with_explicit_defaults(event, self.explicit_defaults)?,
                    false => event,
                };
                return self.member(event, member);
            }
            EventKind::Unknown if header.flags & IGNORABLE != 0 => {}
            EventKind::Unknown => return Err(Obstacle::UnknownEvent(header.event_type.0).into()),
        }
        self.advance(&header);
        Ok(())
    }

    /// The event ends here, if it has a place in the file. Its header has the lower 32 bits.
    fn advance(&mut self, header: &EventHeader) {
        if header.end_position == 0 || header.flags & ARTIFICIAL != 0 {
            return;
        }
        let before = self.place.offset;
        let high = before >> 32;
        // Files grow: a number that is much lower has begun again at zero.
        let has_wrapped = (before as u32).saturating_sub(header.end_position) > u32::MAX / 2;
        self.place.offset = (high + u64::from(has_wrapped)) << 32 | u64::from(header.end_position);
    }

    fn rotate(&mut self, event: &RawEvent) -> Result<(), Fault> {
        let rotate = Rotate::parse(event.body())?;
        let next = FilePosition {
            file: String::from_utf8_lossy(rotate.file).into_owned(),
            offset: rotate.position,
        };
        if next.file != self.place.file {
            // What is open was not committed: the upstream has crashed while it wrote it.
            self.open = None;
            if let Some(translator) = &mut self.translator {
                translator.give_up();
            }
            if !self.place.file.is_empty() {
                let file = next.file.clone();
                self.out.push_back(Incoming::Rotated { file });
            }
        }
        self.place = next;
        Ok(())
    }

    fn begin(&mut self, event: RawEvent) -> Result<(), Fault> {
        let (gtid, flags) = gtid_of(&event)?;
        if let Some(open) = &self.open {
            return Err(Corruption::Open {
                open: open.parts.gtid().to_string(),
                next: gtid.to_string(),
            }
            .into());
        }
        let mut open = Open {
            flags,
            parts: Parts::new(gtid, self.part_bytes),
            beginning: None,
            selection: Selection::default(),
        };
        let translated = self.translator.as_ref();
        open.parts.set_mysql(translated.and_then(Translator::open));
        if open.is_standalone() && !self.filter.keeps_all() {
            open.beginning = Some(event);
        } else {
            // Never full: it is the first event.
            open.parts.add(event.bytes, &self.place);
        }
        self.open = Some(open);
        Ok(())
    }

    fn member(&mut self, event: RawEvent, member: Member) -> Result<(), Fault> {
        let header = event.header;
        let Some(mut open) = self.open.take() else {
            return Err(Corruption::Outside(header.event_type.0).into());
        };
        let statement = match member {
            Member::Query => Some(Statement::of(header.event_type, event.body())?),
            Member::Before | Member::TableMap | Member::Rows | Member::Load | Member::End => None,
        };
        let ends = open.ends_with(header.event_type, member, statement.as_ref());
        let selected = if self.filter.keeps_all() {
            vec![event]
        } else {
            open.select(event, member, statement.as_ref(), &self.filter)?
        };
        for event in selected {
            let lack = kinds::lack_of(&event, open.is_alone())?;
            let full = open.parts.add(event.bytes, &self.place);
            self.out.extend(full.map(Incoming::Part));
            open.parts.note(lack);
        }
        self.advance(&header);
        if ends {
            if let Some(translator) = &mut self.translator {
                translator.finish();
                open.mark_as_transactional(header.event_type);
            }
            let last = open.parts.finish(&self.place);
            self.out.push_back(Incoming::Part(last));
        } else {
            self.open = Some(open);
        }
        Ok(())
    }
}

impl Open {
    /// A commit shows that the transaction can be rolled back, which MySQL does not say at its
    /// beginning. One that has several parts is applied by itself.
    fn mark_as_transactional(&mut self, end: EventType) {
        if end != EventType::XID || self.is_alone() {
            return;
        }
        if let Some(beginning) = self.parts.beginning_mut() {
            *beginning = with_flags(beginning, |flags| flags | TRANSACTIONAL);
        }
    }

    /// One statement that is a transaction by itself, without an event that ends it.
    fn is_standalone(&self) -> bool {
        self.flags & STANDALONE != 0
    }

    /// One statement is all that changes anything.
    fn is_alone(&self) -> bool {
        self.flags & (STANDALONE | DDL) != 0
    }

    fn ends_with(
        &self,
        event_type: EventType,
        member: Member,
        statement: Option<&Statement>,
    ) -> bool {
        match member {
            Member::Before => false,
            Member::Load => self.is_standalone() && event_type == EXECUTE_LOAD,
            Member::End => true,
            Member::Query | Member::TableMap | Member::Rows if self.is_standalone() => true,
            Member::TableMap | Member::Rows => false,
            Member::Query => matches!(statement, Some(Statement::End | Statement::XaEnd)),
        }
    }

    /// Applies a filter to the event and to those held before it.
    fn select(
        &mut self,
        event: RawEvent,
        member: Member,
        statement: Option<&Statement>,
        filter: &Filter,
    ) -> Result<Vec<RawEvent>, Fault> {
        let mut out = Vec::new();
        match member {
            Member::Before => self.selection.before(event)?,
            Member::TableMap => self.selection.table_map(event, filter)?,
            Member::Rows => self.selection.rows(event, &mut out)?,
            Member::End => self.selection.end(event, &mut out),
            Member::Load => return Err(Obstacle::Statement("LOAD DATA".to_owned()).into()),
            Member::Query => {
                self.check_statement(&event, statement)?;
                if keeps(&event, statement, filter)? {
                    out.extend(self.beginning.take());
                    self.selection.query(event, &mut out);
                } else {
                    self.selection.leave_out();
                    self.empty(&event, &mut out)?;
                }
            }
        }
        Ok(out)
    }

    /// Checks that a filter can judge the statement.
    fn check_statement(
        &self,
        event: &RawEvent,
        statement: Option<&Statement>,
    ) -> Result<(), Fault> {
        let changes_rows = |statement| kinds::changes_rows(event, statement, self.is_alone());
        if statement.is_some_and(changes_rows) {
            let quoted = kinds::quoted(event.event_type(), event.body());
            return Err(Obstacle::Statement(quoted).into());
        }
        Ok(())
    }

    /// Replaces a filtered standalone statement by its GTID and an empty commit.
    fn empty(&mut self, event: &RawEvent, out: &mut Vec<RawEvent>) -> Result<(), Fault> {
        if let Some(beginning) = self.beginning.take() {
            let gtid = with_flags(&beginning.bytes, |flags| flags & !(STANDALONE | DDL));
            out.push(RawEvent {
                header: beginning.header,
                bytes: gtid,
            });
            let commit = Query {
                statement: b"COMMIT",
                ..Query::parse(event.body())?
            };
            out.push(event.replaced(EventType::QUERY, &commit.body()?));
        }
        Ok(())
    }
}

fn keeps(event: &RawEvent, statement: Option<&Statement>, filter: &Filter) -> Result<bool, Fault> {
    let schema = Query::parse(event.body())?.schema;
    Ok(match statement {
        Some(Statement::End | Statement::Control | Statement::XaEnd) => true,
        Some(Statement::Rows | Statement::Other) | None => filter.keeps_schema(schema),
    })
}

/// The GTID of the event, and its bits. The name of an XA transaction follows what is read here.
fn gtid_of(event: &RawEvent) -> Result<(Gtid, u8), EventError> {
    let parsed = GtidEvent::parse(event.body())?;
    let gtid = Gtid::new(parsed.domain, event.header.server_id, parsed.sequence);
    Ok((gtid, parsed.flags))
}

fn with_flags(event: &Bytes, change: impl FnOnce(u8) -> u8) -> Bytes {
    let mut bytes = BytesMut::from(&**event);
    if let Some(flags) = bytes.get_mut(HEADER_BYTES + FLAGS_AT) {
        *flags = change(*flags);
    }
    bytes.freeze()
}

/// A number of two bytes, a text with its length before it.
fn incident(body: &[u8]) -> Obstacle {
    let text = body.get(3..).unwrap_or_default();
    let text = match text {
        [] => "without a text".into(),
        text => String::from_utf8_lossy(text),
    };
    Obstacle::Incident(text.into_owned())
}
