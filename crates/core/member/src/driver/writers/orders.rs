//! Operators' orders to change the setting: on their way to the leader, until a configuration that
//! obeys them is committed. An order is repeated with each slow tick: the leader may change,
//! another change of the configuration may be under way, messages may be lost. It ends once: done,
//! refused, or given up when its time is over.

use std::time::Duration;

use synod_consensus::{Time, Writers};

/// Why the setting was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WritersRefusal {
    /// Some member cannot obey it, or the leader refuses it for another reason; in words.
    Refused(String),
    /// The group did not commit it in time. It may still be made.
    NotInTime,
}

pub struct WritersRequest {
    pub writers: Writers,
    /// For how long the order is pursued.
    pub limit: Duration,
    /// Takes the answer: the setting is committed, or why not. It runs on the driver's thread and
    /// must return at once; dropped uncalled if the driver stops first.
    pub reply: Box<dyn FnOnce(Result<(), WritersRefusal>) + Send>,
}

struct Order {
    request: WritersRequest,
    until: Time,
}

/// The orders of this member's operators that have no answer yet, oldest first.
#[derive(Default)]
pub(super) struct WritersOrders(Vec<Order>);

impl WritersOrders {
    pub(super) fn add(&mut self, now: Time, request: WritersRequest) {
        let until = now.plus(request.limit);
        self.0.push(Order { request, until });
    }

    /// The setting to ask for: that of the latest order. So two that contradict each other do not
    /// undo each other again and again.
    pub(super) fn wanted(&self) -> Option<Writers> {
        self.0.last().map(|order| order.request.writers)
    }

    pub(super) fn committed(&mut self, writers: Writers) {
        self.end(|order| order.request.writers == writers, &Ok(()));
    }

    pub(super) fn refused(&mut self, writers: Writers, text: &str) {
        let refusal = WritersRefusal::Refused(text.to_owned());
        self.end(|order| order.request.writers == writers, &Err(refusal));
    }

    pub(super) fn expire(&mut self, now: Time) {
        self.end(|order| order.until <= now, &Err(WritersRefusal::NotInTime));
    }

    fn end(&mut self, is_over: impl Fn(&Order) -> bool, answer: &Result<(), WritersRefusal>) {
        for order in self.0.extract_if(.., |order| is_over(order)) {
            (order.request.reply)(answer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    const LIMIT: Duration = Duration::from_secs(1);

    fn order(orders: &mut WritersOrders, writers: Writers) -> Receiver<Result<(), WritersRefusal>> {
        let (sender, receiver) = channel();
        let request = WritersRequest {
            writers,
            limit: LIMIT,
            reply: Box::new(move |answer| sender.send(answer).unwrap()),
        };
        orders.add(Time(5), request);
        receiver
    }

    #[test]
    fn order_ends_when_the_group_obeys() {
        let mut orders = WritersOrders::default();
        let leader = order(&mut orders, Writers::Leader);
        let any = order(&mut orders, Writers::Any);
        assert_eq!(orders.wanted(), Some(Writers::Any), "the latest");
        orders.committed(Writers::Any);
        assert_eq!(any.try_recv(), Ok(Ok(())));
        assert!(leader.try_recv().is_err(), "not yet");
        orders.committed(Writers::Leader);
        assert_eq!(leader.try_recv(), Ok(Ok(())));
        assert_eq!(orders.wanted(), None);
    }

    #[test]
    fn order_ends_when_it_is_refused_or_its_time_is_over() {
        let mut orders = WritersOrders::default();
        let refused = order(&mut orders, Writers::Leader);
        let late = order(&mut orders, Writers::Any);
        orders.refused(Writers::Leader, "no");
        let refusal = WritersRefusal::Refused("no".to_owned());
        assert_eq!(refused.try_recv(), Ok(Err(refusal)));
        orders.expire(Time(5).plus(LIMIT / 2));
        assert!(late.try_recv().is_err(), "there is time");
        orders.expire(Time(5).plus(LIMIT));
        assert_eq!(late.try_recv(), Ok(Err(WritersRefusal::NotInTime)));
    }
}
