//! Answers that promise what is not durable yet: they wait for the disk, and leave in the term in
//! which they were given.

use crate::core::Core;
use crate::effect::{Effect, WriteTicket};
use crate::message::{AppendOutcome, AppendReply, Body, Message};
use crate::types::{LogIndex, MemberId, Term, Time};

/// Further answers are not given; the peers ask again.
const WAITING_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct Waiting {
    until: WriteTicket,
    term: Term,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Message(Message),
    /// "Durable up to `end`", or further if that is so when it leaves.
    Durable {
        to: MemberId,
        end: LogIndex,
        sent_at: Time,
    },
}

impl Core {
    pub(crate) fn send_when_term_durable(&mut self, to: MemberId, body: Body) {
        let message = self.message(to, body);
        self.wait(self.vote_ticket, Answer::Message(message));
    }

    pub(crate) fn answer_when_term_durable(&mut self, message: Message) {
        self.wait(self.vote_ticket, Answer::Message(message));
    }

    /// Acknowledges "durable up to `end`" to the leader once the disk holds that, and the term.
    pub(crate) fn acknowledge(&mut self, to: MemberId, end: LogIndex, sent_at: Time) {
        let stored = end <= self.durability.index();
        let until = if stored {
            self.vote_ticket
        } else {
            self.durability.issued()
        };
        self.wait(until, Answer::Durable { to, end, sent_at });
    }

    fn wait(&mut self, until: WriteTicket, answer: Answer) {
        if self.durability.covers(until) {
            self.release(answer);
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(Waiting {
                until,
                term: self.hard.term,
                answer,
            });
        } else {
            self.counters.waiting_overflow += 1;
        }
    }

    pub(crate) fn release_waiting(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.term != self.hard.term {
                continue;
            }
            if self.durability.covers(waiting.until) {
                self.release(waiting.answer);
            } else {
                self.waiting.push_back(waiting);
            }
        }
    }

    /// An acknowledgement names what is durable of the log of this term's leader, and replaces an
    /// earlier one that is not polled yet.
    fn release(&mut self, answer: Answer) {
        match answer {
            Answer::Message(message) => self.emit(Effect::Send(message)),
            Answer::Durable { to, end, sent_at } => {
                let index = self.durability.index().min(self.matched);
                if index < end {
                    // The log was reset meanwhile; the reset has an acknowledgement of its own.
                    return;
                }
                let outcome = AppendOutcome::Durable { index };
                let message = self.message(to, Body::AppendReply(AppendReply { outcome, sent_at }));
                match self.effects.back_mut() {
                    Some(Effect::Send(last)) if supersedes(&message, last) => *last = message,
                    _ => self.emit(Effect::Send(message)),
                }
            }
        }
    }
}

fn supersedes(new: &Message, old: &Message) -> bool {
    let (Body::AppendReply(new_reply), Body::AppendReply(old_reply)) = (&new.body, &old.body)
    else {
        return false;
    };
    let durable = |reply: &AppendReply| matches!(reply.outcome, AppendOutcome::Durable { .. });
    new.to == old.to
        && new.term == old.term
        && durable(new_reply)
        && durable(old_reply)
        && new_reply.sent_at >= old_reply.sent_at
}
