//! Effects of a simulated process: every trait through which a member acts records its calls as
//! effects, in one queue, in order.
//!
//! [`HostSide`] stands for the network and the disk, [`RecordedEffects`] for the host program,
//! [`WaitingClient`] for a client, and [`EffectObserver`] sees the effects of the core. The runner
//! (`member_runner.rs`) takes the effects after each call, checks and performs them.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use synod_consensus::{
    Config, Core, Effect, EntryId, EntryKind, ForceError, GroupId, LogIndex, MemberId, Seqno, Term,
    WriteOp,
};
use synod_member::{
    Client, Delivery, Disk, DonorRequest, Host, Job, KnownPeer, Level, Network, Observer,
    OutcomeDecision, ProposalResult, ReadForPeer, Remedy, ResultSlot, StateTransferEvent, View,
    lock,
};
use synod_wire::PeerMessage;

use crate::world::wanted_links::WantedLinks;

/// One call of a trait, or one effect of the core.
pub(crate) enum RecordedEffect {
    /// An effect of the consensus core, as the observer saw it.
    Core(CoreEffect),
    /// A message for another member; `over` names a connection that it must not outlive.
    Send {
        to: MemberId,
        over: Option<u64>,
        message: PeerMessage,
    },
    /// The driver wants a connection to this member.
    Connect(MemberId),
    /// The member has found its group.
    SetGroup,
    /// The member no longer looks for a group.
    StopSeeking,
    /// A job for the log's writer.
    Write(Job),
    /// A range of the log to be read for another member.
    Read(ReadForPeer),
    /// A client's transaction has a result.
    Decided {
        transaction: u64,
        result: ProposalResult,
    },
    /// A client's causal read has a position.
    ReadAnswered { read: u64, seqno: Seqno },
    /// The group has this member, in this view.
    Joined(View),
    /// Everything up to here is applied on all databases that are waited for.
    AppliedEverywhere(Seqno),
    /// A joiner asks this member for a full copy.
    Donate(DonorRequest),
    /// An event of the state transfer that this member asked for.
    StateTransfer { id: u64, event: StateTransferEvent },
    /// The member cannot work any more, and why.
    Failed(String, Remedy),
    /// The orderly shutdown is complete.
    Left,
    /// The answer to an order to become a forced primary.
    Forced(Result<(), ForceError>),
    /// An action or a view for the database.
    Delivered(Delivery),
    /// Delivery skips entries that were purged before they were delivered. No action is among them.
    EntriesSkipped,
    /// The decision about an action that failed somewhere.
    OutcomeDecided(OutcomeDecision),
    /// A line of the member's log.
    Logged(Level, String),
}

/// An effect of the core, and what the core knew at that moment.
pub(crate) struct CoreEffect {
    pub(crate) effect: Effect,
    /// The core's term.
    pub(crate) term: Term,
    /// For a commit: the newly committed entries; `None` where the core does not know the term.
    pub(crate) entries: Vec<Option<EntryId>>,
    /// For an append: each configuration among the entries, with the entry of the one before it.
    pub(crate) configs: Vec<(EntryId, Config, Option<EntryId>)>,
}

/// The effects of one process, in order.
pub(crate) struct RecordedEffects {
    me: MemberId,
    wanted_links: Arc<WantedLinks>,
    queue: Mutex<VecDeque<RecordedEffect>>,
    /// Whether there may be something to deliver.
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

    /// The member that has them.
    pub(crate) fn me(&self) -> MemberId {
        self.me
    }

    pub(crate) fn push(&self, effect: RecordedEffect) {
        lock(&self.queue).push_back(effect);
    }

    pub(crate) fn next(&self) -> Option<RecordedEffect> {
        lock(&self.queue).pop_front()
    }

    /// The reply of a client that asks for the group's position.
    pub(crate) fn reply_to(self: &Arc<Self>, read: u64) -> synod_member::Reply {
        let effects = self.clone();
        Box::new(move |seqno| effects.push(RecordedEffect::ReadAnswered { read, seqno }))
    }

    /// The operator who waits for the end of an orderly shutdown.
    pub(crate) fn left(self: &Arc<Self>) -> synod_member::LeaveDone {
        let effects = self.clone();
        synod_member::LeaveDone(Box::new(move || effects.push(RecordedEffect::Left)))
    }
}

/// A client that waits for the result of its transaction.
pub(crate) struct WaitingClient {
    pub(crate) transaction: u64,
    pub(crate) effects: Arc<RecordedEffects>,
    pub(crate) outcome: Mutex<ResultSlot>,
}

impl Client for WaitingClient {
    fn is_decided(&self) -> bool {
        lock(&self.outcome).result().is_some()
    }

    fn decide(&self, result: ProposalResult) -> bool {
        let is_first = lock(&self.outcome).decide(result);
        if is_first {
            let transaction = self.transaction;
            self.effects.push(RecordedEffect::Decided {
                transaction,
                result,
            });
        }
        is_first
    }
}

/// The host's side of the driver's traits: network and disk.
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

    fn set_known(&self, _known: &BTreeMap<MemberId, KnownPeer>) {}

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

    fn read(&self, request: ReadForPeer) {
        self.0.push(RecordedEffect::Read(request));
    }
}

/// Sees every effect of the core, with what only the core knows at that moment.
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
            // Messages are recorded by the network.
            Effect::Send(_) | Effect::SendEntries(_) => return,
            Effect::Role(_) | Effect::Config(_) | Effect::ReadReady { .. } => {}
        }
        self.effects.push(RecordedEffect::Core(CoreEffect {
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

    fn outcome_decided(&self, decision: &OutcomeDecision) {
        self.push(RecordedEffect::OutcomeDecided(decision.clone()));
    }

    fn joined(&self, view: &View) {
        self.push(RecordedEffect::Joined(view.clone()));
    }

    fn primary_changed(&self, _primary: bool) {}

    fn applied_everywhere(&self, seqno: Seqno) {
        self.push(RecordedEffect::AppliedEverywhere(seqno));
    }

    fn donate(&self, request: DonorRequest) {
        self.push(RecordedEffect::Donate(request));
    }

    fn state_transfer_event(&self, id: u64, event: StateTransferEvent) {
        self.push(RecordedEffect::StateTransfer { id, event });
    }

    fn allows(&self, _ip: &str) -> bool {
        true
    }

    fn failed(&self, why: &str, remedy: Remedy) {
        self.push(RecordedEffect::Failed(why.to_owned(), remedy));
    }
}

impl RecordedEffects {
    /// The call for when the readable part of the log has changed.
    pub(crate) fn on_move(self: &Arc<Self>) -> impl Fn() + Send + Sync + 'static {
        let effects = self.clone();
        move || effects.moved.store(true, Ordering::Relaxed)
    }
}
