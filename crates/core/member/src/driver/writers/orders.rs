//! Operators' orders to change a setting of the group: on their way to the leader, until a
//! configuration that obeys them is committed. An order is repeated with each slow tick: the leader
//! may change, another change of the configuration may be under way, messages may be lost. It ends
//! once: done, refused, or given up when its time is over.

use std::time::Duration;

use synod_consensus::{GroupSetting, GroupSettings, Time};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingRefusal {
    /// Some member cannot obey it, or the leader refuses it for another reason; in words.
    Refused(String),
    /// The group did not commit it in time. It may still be made.
    NotInTime,
}

pub struct SettingRequest {
    pub setting: GroupSetting,
    /// For how long the order is pursued.
    pub limit: Duration,
    /// Takes the answer: the setting is committed, or why not. It runs on the driver's thread and
    /// must return at once; dropped uncalled if the driver stops first.
    pub reply: Box<dyn FnOnce(Result<(), SettingRefusal>) + Send>,
}

struct Order {
    request: SettingRequest,
    until: Time,
}

/// The orders of this member's operators that have no answer yet, oldest first.
#[derive(Default)]
pub(super) struct SettingOrders(Vec<Order>);

impl SettingOrders {
    pub(super) fn add(&mut self, now: Time, request: SettingRequest) {
        let until = now.plus(request.limit);
        self.0.push(Order { request, until });
    }

    /// The setting to ask for: that of the latest order. So two that contradict each other do not
    /// undo each other again and again.
    pub(super) fn wanted(&self) -> Option<GroupSetting> {
        self.0.last().map(|order| order.request.setting)
    }

    pub(super) fn committed(&mut self, settings: GroupSettings) {
        self.end(|order| settings.has(order.request.setting), &Ok(()));
    }

    pub(super) fn refused(&mut self, setting: GroupSetting, text: &str) {
        let refusal = SettingRefusal::Refused(text.to_owned());
        self.end(|order| order.request.setting == setting, &Err(refusal));
    }

    pub(super) fn expire(&mut self, now: Time) {
        self.end(|order| order.until <= now, &Err(SettingRefusal::NotInTime));
    }

    fn end(&mut self, is_over: impl Fn(&Order) -> bool, answer: &Result<(), SettingRefusal>) {
        for order in self.0.extract_if(.., |order| is_over(order)) {
            (order.request.reply)(answer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};
    use synod_consensus::Writers;

    const ANY: GroupSetting = GroupSetting::Writers(Writers::Any);
    const LEADER: GroupSetting = GroupSetting::Writers(Writers::Leader);
    const LIMIT: Duration = Duration::from_secs(1);

    fn order(orders: &mut SettingOrders, writers: Writers) -> Receiver<Result<(), SettingRefusal>> {
        let (sender, receiver) = channel();
        let request = SettingRequest {
            setting: GroupSetting::Writers(writers),
            limit: LIMIT,
            reply: Box::new(move |answer| sender.send(answer).unwrap()),
        };
        orders.add(Time(5), request);
        receiver
    }

    #[test]
    fn order_ends_when_the_group_obeys() {
        let mut orders = SettingOrders::default();
        let leader = order(&mut orders, Writers::Leader);
        let any = order(&mut orders, Writers::Any);
        assert_eq!(orders.wanted(), Some(ANY), "the latest");
        orders.committed(GroupSettings::default());
        assert_eq!(any.try_recv(), Ok(Ok(())));
        assert!(leader.try_recv().is_err(), "not yet");
        orders.committed(GroupSettings::default().with(LEADER));
        assert_eq!(leader.try_recv(), Ok(Ok(())));
        assert_eq!(orders.wanted(), None);
    }

    #[test]
    fn order_ends_when_it_is_refused_or_its_time_is_over() {
        let mut orders = SettingOrders::default();
        let refused = order(&mut orders, Writers::Leader);
        let late = order(&mut orders, Writers::Any);
        orders.refused(LEADER, "no");
        let refusal = SettingRefusal::Refused("no".to_owned());
        assert_eq!(refused.try_recv(), Ok(Err(refusal)));
        orders.expire(Time(5).plus(LIMIT / 2));
        assert!(late.try_recv().is_err(), "there is time");
        orders.expire(Time(5).plus(LIMIT));
        assert_eq!(late.try_recv(), Ok(Err(SettingRefusal::NotInTime)));
    }
}
