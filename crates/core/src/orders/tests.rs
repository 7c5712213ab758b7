use proptest::prelude::*;

use super::tool::PinArguments;
use super::*;
use crate::estimate::MessageTokenCounter;
use crate::event::{Event, EventBody, FORMAT, NoteReason};
use crate::history::History;
use crate::message::{Message, Part};

/// A log as it grows.
#[derive(Default)]
struct Log {
    events: Vec<Event>,
    history: History,
}

impl Log {
    fn add(&mut self, body: EventBody) {
        let event = Event { seq: self.events.len() as u64 + 1, at: 7, format: FORMAT, body };
        self.history.apply(&event).unwrap();
        self.events.push(event);
    }

    fn pin(&mut self, id: &str, text: &str, source: OrderSource, replaces: Option<&str>) {
        let (order_id, replaces) = (id.into(), replaces.map(OrderId::from));
        self.add(EventBody::OrderPinned { order_id, text: text.to_owned(), source, from: None, replaces });
    }

    fn edit(&mut self, id: &str, text: &str) {
        self.add(EventBody::OrderEdited { order_id: id.into(), text: text.to_owned() });
    }

    fn remove(&mut self, id: &str) {
        self.add(EventBody::OrderRemoved { order_id: id.into() });
    }

    fn tell(&mut self) {
        let text = self.history.all_orders().news().unwrap_or_default();
        let message = Message::user("m", vec![Part::text(text)]);
        self.add(EventBody::NoteAdded { message, why: NoteReason::Orders });
    }

    fn active(&self) -> Vec<(&str, &str)> {
        self.history.orders().map(|order| (order.id.as_str(), order.text.as_str())).collect()
    }

    fn news(&self) -> String {
        self.history.all_orders().news().unwrap_or_default()
    }

    fn state(&self, id: &str) -> &OrderState {
        &self.history.all_orders().get(&id.into()).unwrap().state
    }
}

#[test]
fn orders_are_pinned_edited_replaced_and_removed() {
    let mut log = Log::default();
    log.pin("o1", "Answer in\nFrench.", OrderSource::User, None);
    log.pin("o2", "Never push to main.", OrderSource::Model, None);
    log.edit("o2", "Never push to main or release.");
    log.pin("o3", "Answer in German.", OrderSource::User, Some("o1"));
    assert_eq!(log.active(), [("o2", "Never push to main or release."), ("o3", "Answer in German.")]);
    assert_eq!(log.state("o1"), &OrderState::Superseded { by: "o3".into() });
    log.remove("o2");
    assert_eq!(log.state("o2"), &OrderState::Removed);
    assert_eq!(log.active(), [("o3", "Answer in German.")]);
    assert_eq!(log.history.all_orders().all()[0].line(), "Answer in French.");
    assert_eq!(log.history.all_orders().all()[0].text, "Answer in\nFrench.", "stored as it was given");
    assert_eq!(log.history.all_orders().next_id(), "o4".into());
}

#[test]
fn the_same_text_is_the_same_order() {
    let mut log = Log::default();
    log.pin("o1", "Use  British spelling", OrderSource::Model, None);
    log.pin("o2", "use british\n spelling ", OrderSource::User, None);
    assert_eq!(log.active(), [("o1", "Use  British spelling")]);
    log.pin("o3", "Be brief", OrderSource::User, None);
    log.pin("o4", "USE BRITISH SPELLING", OrderSource::User, Some("o3"));
    assert_eq!(log.state("o3"), &OrderState::Superseded { by: "o1".into() });
    log.remove("o1");
    log.pin("o5", "use british spelling", OrderSource::User, None);
    assert_eq!(log.active(), [("o5", "use british spelling")], "a removed order does not stand in the way");
}

#[test]
fn what_breaks_a_rule_is_refused_and_changes_nothing_in_the_fold() {
    let mut log = Log::default();
    log.pin("o1", "one", OrderSource::User, None);
    log.pin("o2", "two", OrderSource::User, None);
    let orders = log.history.all_orders().clone();
    let long = "x".repeat(MAX_ORDER_CHARS + 1);
    let chars = MAX_ORDER_CHARS + 1;
    assert_eq!(orders.check_pin(" \n", None), Err(StandingOrderError::Empty));
    assert_eq!(orders.check_pin(&long, None), Err(StandingOrderError::TooLong { chars }));
    assert_eq!(orders.check_pin("x", Some(&"o9".into())), Err(StandingOrderError::NotFound("o9".into())));
    assert_eq!(orders.check_edit(&"o1".into(), "TWO"), Err(StandingOrderError::Duplicate("o2".into())));
    assert!(orders.check_edit(&"o1".into(), "One").is_ok(), "its own text in another case");
    log.pin("o3", &long, OrderSource::User, None);
    log.pin("o3", " ", OrderSource::User, None);
    log.pin("o2", "another text under a name that is taken", OrderSource::User, None);
    log.pin("o3", "three", OrderSource::User, Some("o9"));
    log.edit("o1", "two");
    log.edit("o9", "two");
    log.remove("o9");
    assert_eq!(log.history.all_orders(), &orders);
    log.remove("o1");
    assert_eq!(
        log.history.all_orders().check_active(&"o1".into()).map(|_| ()),
        Err(StandingOrderError::NotActive("o1".into()))
    );
}

#[test]
fn as_many_orders_as_may_be_and_one_in_the_place_of_another() {
    let mut log = Log::default();
    for n in 1..=MAX_ACTIVE_ORDERS + 3 {
        log.pin(&format!("o{n}"), &format!("order {n}"), OrderSource::User, None);
    }
    assert_eq!(log.active().len(), MAX_ACTIVE_ORDERS);
    assert_eq!(log.history.all_orders().check_pin("new", None), Err(StandingOrderError::TooMany));
    log.pin("last", "new", OrderSource::User, Some("o1"));
    assert_eq!((log.active().len(), *log.active().last().unwrap()), (MAX_ACTIVE_ORDERS, ("last", "new")));
}

#[test]
fn the_model_is_told_what_people_changed_and_once() {
    let mut log = Log::default();
    log.pin("o1", "Answer in\nFrench.", OrderSource::User, None);
    log.pin("o2", "Mine.", OrderSource::Model, None);
    log.pin("o3", "Gone before it was told.", OrderSource::User, None);
    log.remove("o3");
    insta::assert_snapshot!(log.news(), @"[Standing order o1, pinned by the user: Answer in French.]");
    log.tell();
    assert_eq!(log.news(), "");
    log.edit("o1", "Answer in German.");
    log.remove("o2");
    insta::assert_snapshot!(log.news(), @r"
    [Standing order o1, changed by the user, now reads: Answer in German.]
    [Standing order o2, removed by the user, holds no more: Mine.]
    ");
    log.edit("o1", "Answer in\nFrench.");
    log.tell();
    log.pin("o4", "Answer in Greek.", OrderSource::User, Some("o1"));
    insta::assert_snapshot!(log.news(), @r"
    [Standing order o1, replaced by o4, holds no more: Answer in French.]
    [Standing order o4, pinned by the user: Answer in Greek.]
    ");
    log.tell();
    log.pin("o5", "Answer in Dutch.", OrderSource::Model, Some("o4"));
    assert_eq!(log.news(), "", "the model knows what it did itself");
}

#[test]
fn a_call_of_the_tool_names_an_order_by_its_name_or_its_text() {
    let mut log = Log::default();
    log.pin("o1", "Answer in French.", OrderSource::User, None);
    let decide = |arguments: &str| {
        let request = PinArguments::read(arguments)?;
        let decided = request.decide(log.history.all_orders());
        decided.map_err(|error| error.to_string())
    };
    for replaced in ["o1", " O1", "answer  in french."] {
        let arguments = serde_json::json!({ "text": "Answer in Greek.", "replaces": replaced }).to_string();
        let (event, answer) = decide(&arguments).unwrap();
        assert_eq!(answer, "Standing order o2 is pinned in the place of o1.");
        let Some(EventBody::OrderPinned { source, replaces, .. }) = event else { panic!("{event:?}") };
        assert_eq!((source, replaces), (OrderSource::Model, Some("o1".into())));
    }
    let again = decide(r#"{"text":"answer in french.","replaces":"o1"}"#);
    assert_eq!(again, Ok((None, "Standing order o1 says that already.".to_owned())));
    assert_eq!(decide(r#"{"text":"x","replaces":"o7"}"#), Err("no standing order o7".to_owned()));
    assert_eq!(decide(r#"{"text":"x","replaces":""}"#).unwrap().1, "Standing order o2 is pinned.");
    assert!(decide("{}").unwrap_err().contains("text"));
}

#[test]
fn the_tool_costs_few_tokens() {
    let tokens = MessageTokenCounter::default().tool(&tool::spec());
    assert!(tokens <= 60, "{tokens} tokens");
}

#[test]
fn events_keep_their_stored_form() {
    let pinned = EventBody::OrderPinned {
        order_id: "o1".into(),
        text: "Be brief.".to_owned(),
        source: OrderSource::User,
        from: None,
        replaces: Some("o0".into()),
    };
    let edited = EventBody::OrderEdited { order_id: "o1".into(), text: "Be brief!".to_owned() };
    let removed = EventBody::OrderRemoved { order_id: "o1".into() };
    let stored: Vec<String> =
        [&pinned, &edited, &removed].map(|body| Event::encode_body(body).unwrap()).to_vec();
    insta::assert_snapshot!(stored.join("\n"), @r#"
    {"kind":"order-pinned","orderId":"o1","text":"Be brief.","source":"user","replaces":"o0"}
    {"kind":"order-edited","orderId":"o1","text":"Be brief!"}
    {"kind":"order-removed","orderId":"o1"}
    "#);
    for (body, stored) in [pinned, edited, removed].into_iter().zip(stored) {
        assert_eq!(serde_json::from_str::<EventBody>(&stored).unwrap(), body);
    }
}

#[derive(Clone, Debug)]
enum Change {
    Pin { id: u8, text: String, source: OrderSource, replaces: Option<u8> },
    Edit { id: u8, text: String },
    Remove { id: u8 },
    Tell,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[aA][bB]? ?[cC]?",
        2 => "(?s).{0,12}",
        1 => Just("y".repeat(MAX_ORDER_CHARS)),
        1 => Just("z".repeat(MAX_ORDER_CHARS + 1)),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let source = prop::sample::select(vec![
        OrderSource::User,
        OrderSource::Model,
        OrderSource::Summary,
        OrderSource::Detected,
    ]);
    prop_oneof![
        5 => (0_u8..12, text(), source, prop::option::of(0_u8..12))
            .prop_map(|(id, text, source, replaces)| Change::Pin { id, text, source, replaces }),
        2 => (0_u8..12, text()).prop_map(|(id, text)| Change::Edit { id, text }),
        2 => (0_u8..12).prop_map(|id| Change::Remove { id }),
        1 => Just(Change::Tell),
    ]
}

proptest! {
    /// Whatever a log says, from whomever it is.
    #[test]
    fn every_log_of_orders_keeps_the_rules(changes in prop::collection::vec(change(), 0..60)) {
        let mut log = Log::default();
        let mut known: Vec<StandingOrder> = Vec::new();
        for change in changes {
            let told = matches!(change, Change::Tell);
            match change {
                Change::Pin { id, text, source, replaces } => {
                    let replaces = replaces.map(|id| format!("o{id}"));
                    log.pin(&format!("o{id}"), &text, source, replaces.as_deref());
                }
                Change::Edit { id, text } => log.edit(&format!("o{id}"), &text),
                Change::Remove { id } => log.remove(&format!("o{id}")),
                Change::Tell => log.tell(),
            }
            let orders = log.history.all_orders();
            let active: Vec<&StandingOrder> = log.history.orders().collect();
            let mut keys: Vec<String> = active.iter().map(|order| key(&order.text)).collect();
            keys.sort_unstable();
            keys.dedup();
            prop_assert_eq!(keys.len(), active.len(), "no two active orders say the same");
            prop_assert!(active.len() <= MAX_ACTIVE_ORDERS);
            prop_assert!(active.windows(2).all(|pair| pair[0].at < pair[1].at), "oldest first");
            prop_assert!(active.iter().all(|order| check_text(&order.text).is_ok()));
            // Nothing is forgotten, and what holds no more never holds again.
            prop_assert!(orders.all().len() >= known.len());
            for (before, now) in known.iter().zip(orders.all()) {
                prop_assert_eq!(&before.id, &now.id);
                prop_assert!(before.is_active() || before.state == now.state);
            }
            for order in orders.all() {
                if let OrderState::Superseded { by } = &order.state {
                    prop_assert!(*by != order.id && orders.get(by).is_some());
                }
            }
            prop_assert!(orders.get(&orders.next_id()).is_none());
            // After a note the model knows of exactly those that hold.
            if told {
                prop_assert_eq!(orders.news(), None);
            }
            known = orders.all().to_vec();
        }
        prop_assert_eq!(&History::fold(&log.events).unwrap(), &log.history, "one by one is all at once");
    }
}
