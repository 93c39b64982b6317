//! What a simulated process does: every trait that a member reaches the world through, recorded in
//! one queue, in order. The world looks at it after each call.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use synod_consensus::{
    Config, Core, Effect, EntryId, EntryKind, ForceError, GroupId, LogIndex, MemberId, Seqno, Term,
    WriteOp,
};
use synod_member::{
    CatchUp, Client, Delivery, Disk, DonorRequest, Host, Job, Level, Network, Observer,
    ProposalResult, ResultSlot, StateTransferEvent, View, lock,
};
use synod_wire::PeerMessage;

/// One deed.
pub(crate) enum RecordedEffect {
    /// The core asks for this.
    Effect(CoreEffect),
    Send {
        to: MemberId,
        over: Option<u64>,
        message: PeerMessage,
    },
    Connect(MemberId),
    SetGroup,
    StopSeeking,
    Write(Job),
    Read(CatchUp),
    /// A client's action has a fate.
    Decided {
        transaction: u64,
        fate: ProposalResult,
    },
    /// A client's question has an answer.
    Answered {
        read: u64,
        seqno: Seqno,
    },
    Joined(View),
    Donate(DonorRequest),
    StateTransfer {
        id: u64,
        news: StateTransferEvent,
    },
    Failed(String),
    /// Out of the group in good order.
    Left,
    /// Whether the member goes on without a majority.
    Forced(Result<(), ForceError>),
    Delivered(Delivery),
    /// What was dropped before it was delivered, and no action.
    EntriesSkipped,
    Logged(Level, String),
}

/// An effect, and what the core knew when it asked for it.
pub(crate) struct CoreEffect {
    pub(crate) effect: Effect,
    pub(crate) term: Term,
    /// Of a commit: the entries that are new.
    pub(crate) entries: Vec<Option<EntryId>>,
    /// Of an append: configurations among the entries, and the entry of the one before.
    pub(crate) configs: Vec<(EntryId, Config, Option<EntryId>)>,
}

/// Who keeps a connection to whom, of all processes.
#[derive(Debug, Default)]
pub(crate) struct WantedLinks(Mutex<BTreeMap<MemberId, BTreeMap<MemberId, Link>>>);

/// Whether a connection was tried: before that nobody gives it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    New,
    Tried,
}

impl WantedLinks {
    pub(crate) fn has(&self, who: MemberId, whom: MemberId) -> bool {
        lock(&self.0)
            .get(&who)
            .is_some_and(|known| known.contains_key(&whom))
    }

    /// Answers whether that is new.
    pub(crate) fn add(&self, who: MemberId, whom: MemberId) -> bool {
        let mut all = lock(&self.0);
        let known = all.entry(who).or_default();
        let is_new = !known.contains_key(&whom);
        known.entry(whom).or_insert(Link::New);
        is_new
    }

    /// The two have tried to connect.
    pub(crate) fn tried(&self, a: MemberId, b: MemberId) {
        let mut all = lock(&self.0);
        for (who, whom) in [(a, b), (b, a)] {
            let link = all.get_mut(&who).and_then(|known| known.get_mut(&whom));
            if let Some(link) = link {
                *link = Link::Tried;
            }
        }
    }

    pub(crate) fn forget(&self, who: MemberId) {
        lock(&self.0).remove(&who);
    }

    fn keep(&self, who: MemberId, wanted: &dyn Fn(MemberId) -> bool) {
        let mut all = lock(&self.0);
        let Some(mut known) = all.remove(&who) else {
            return;
        };
        known.retain(|whom, link| {
            let mutual = all
                .get(whom)
                .is_some_and(|theirs| theirs.contains_key(&who));
            wanted(*whom) || mutual || *link == Link::New
        });
        all.insert(who, known);
    }
}

/// The deeds of one process.
pub(crate) struct RecordedEffects {
    me: MemberId,
    wanted_links: Arc<WantedLinks>,
    queue: Mutex<VecDeque<RecordedEffect>>,
    /// There may be something to deliver.
    pub(crate) moved: AtomicBool,
}

impl RecordedEffects {
    pub(crate) fn new(me: MemberId, wanted_links: Arc<WantedLinks>) -> Arc<RecordedEffects> {
        Arc::new(RecordedEffects {
            me,
            wanted_links,
            queue: Mutex::default(),
            moved: AtomicBool::new(true),
        })
    }

    pub(crate) fn push(&self, effect: RecordedEffect) {
        lock(&self.queue).push_back(effect);
    }

    pub(crate) fn next(&self) -> Option<RecordedEffect> {
        lock(&self.queue).pop_front()
    }

    /// Takes the place of a client that asks for the group's position.
    pub(crate) fn reply_to(self: &Arc<Self>, read: u64) -> synod_member::Reply {
        let effects = self.clone();
        Box::new(move |seqno| effects.push(RecordedEffect::Answered { read, seqno }))
    }

    /// Takes the place of an operator who waits until the member has left.
    pub(crate) fn left(self: &Arc<Self>) -> synod_member::LeaveDone {
        let effects = self.clone();
        synod_member::LeaveDone(Box::new(move || effects.push(RecordedEffect::Left)))
    }
}

/// A client that waits for the fate of its transaction.
pub(crate) struct WaitingClient {
    pub(crate) transaction: u64,
    pub(crate) effects: Arc<RecordedEffects>,
    pub(crate) outcome: Mutex<ResultSlot>,
}

impl Client for WaitingClient {
    fn is_decided(&self) -> bool {
        lock(&self.outcome).fate().is_some()
    }

    fn decide(&self, fate: ProposalResult) -> bool {
        let is_first = lock(&self.outcome).decide(fate);
        if is_first {
            let transaction = self.transaction;
            self.effects
                .push(RecordedEffect::Decided { transaction, fate });
        }
        is_first
    }
}

/// The other side of a driver's traits.
pub(crate) struct HostSide(pub(crate) Arc<RecordedEffects>);

impl Network for HostSide {
    fn send(&self, to: MemberId, message: PeerMessage) {
        let over = None;
        self.0.push(RecordedEffect::Send { to, over, message });
    }

    fn send_over(&self, to: MemberId, connection: u64, message: PeerMessage) {
        let over = Some(connection);
        self.0.push(RecordedEffect::Send { to, over, message });
    }

    fn knows(&self, member: MemberId) -> bool {
        self.0.wanted_links.has(self.0.me, member)
    }

    fn connect(&self, member: MemberId, _address: &str) {
        if self.0.wanted_links.add(self.0.me, member) {
            self.0.push(RecordedEffect::Connect(member));
        }
    }

    fn keep_only(&self, wanted: &dyn Fn(MemberId) -> bool) {
        self.0.wanted_links.keep(self.0.me, wanted);
    }

    fn set_group(&self, _group: GroupId) {
        self.0.push(RecordedEffect::SetGroup);
    }

    fn stop_seeking(&self) {
        self.0.push(RecordedEffect::StopSeeking);
    }
}

impl Disk for HostSide {
    fn write(&self, job: Job) {
        self.0.push(RecordedEffect::Write(job));
    }

    fn read(&self, request: CatchUp) {
        self.0.push(RecordedEffect::Read(request));
    }
}

/// Sees every effect, with what only the core knows at that moment.
pub(crate) struct EffectObserver {
    pub(crate) effects: Arc<RecordedEffects>,
    pub(crate) committed: LogIndex,
}

impl Observer for EffectObserver {
    fn effect(&mut self, core: &Core, effect: &Effect) {
        let id_at = |index: LogIndex| {
            let term = core.term_at(index)?;
            Some(EntryId { term, index })
        };
        let (mut entries, mut configs) = (Vec::new(), Vec::new());
        match effect {
            Effect::Committed { index } => {
                let new = self.committed.next().0..=index.0;
                entries.extend(new.map(|at| id_at(LogIndex(at))));
                self.committed = *index;
            }
            Effect::Write { op, .. } => match op {
                WriteOp::Append(headers) => {
                    for header in headers.iter().filter(|h| h.kind == EntryKind::Config) {
                        let Some(at) = core.config_at(header.index) else {
                            continue;
                        };
                        let before = core.config_at(header.index.prev());
                        let before = before
                            .filter(|config| config.index > LogIndex(0))
                            .and_then(|config| id_at(config.index));
                        configs.push((header.id(), at.config.clone(), before));
                    }
                }
                WriteOp::Reset(base) => self.committed = base.last.index,
                WriteOp::Truncate { .. } | WriteOp::Vote(_) => {}
            },
            // What is sent comes along as it is.
            Effect::Send(_) | Effect::SendEntries(_) => return,
            Effect::Role(_) | Effect::Config(_) | Effect::ReadReady { .. } => {}
        }
        self.effects.push(RecordedEffect::Effect(CoreEffect {
            effect: effect.clone(),
            term: core.term(),
            entries,
            configs,
        }));
    }
}

impl Host for RecordedEffects {
    fn log(&self, level: Level, text: &str) {
        self.push(RecordedEffect::Logged(level, text.to_owned()));
    }

    fn deliver(&self, delivery: Delivery) -> ControlFlow<()> {
        self.push(RecordedEffect::Delivered(delivery));
        ControlFlow::Continue(())
    }

    fn entries_skipped(&self) {
        self.push(RecordedEffect::EntriesSkipped);
    }

    fn joined(&self, view: &View) {
        self.push(RecordedEffect::Joined(view.clone()));
    }

    fn primary_changed(&self, _primary: bool) {}

    fn donate(&self, request: DonorRequest) {
        self.push(RecordedEffect::Donate(request));
    }

    fn state_transfer_event(&self, id: u64, news: StateTransferEvent) {
        self.push(RecordedEffect::StateTransfer { id, news });
    }

    fn allows(&self, _ip: &str) -> bool {
        true
    }

    fn failed(&self, why: &str) {
        self.push(RecordedEffect::Failed(why.to_owned()));
    }
}

impl RecordedEffects {
    /// To be called when the readable part of the log has moved.
    pub(crate) fn on_move(self: &Arc<Self>) -> impl Fn() + Send + Sync + 'static {
        let effects = self.clone();
        move || effects.moved.store(true, Ordering::Relaxed)
    }
}
