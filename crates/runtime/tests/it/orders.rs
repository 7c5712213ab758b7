//! Standing orders: by a person at rest and amid a run, by the model, across an edit of the view, a fork, a restart.

use std::time::Duration;

use longhaul::export;
use longhaul::session::SessionError;
use longhaul_core::event::{Event, FORMAT, RunEnd};
use longhaul_core::history::History;
use longhaul_core::message::{Message, Part};
use longhaul_core::orders::{MAX_ORDER_CHARS, OrderSource, OrderState, StandingOrder, StandingOrderError};
use longhaul_core::run::RunStatus;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_testkit::{TestSession, WAITING_COMMAND};

const WINDOW: u64 = 64_000;

async fn world(script: ModelScript) -> TestSession {
    TestSession::with_model(ScriptedProvider::new(script).window(WINDOW)).await
}

/// Returns the texts of the newest request.
fn told(world: &TestSession) -> String {
    world.newest_request().messages.iter().map(Message::text).collect::<Vec<_>>().join("\n")
}

fn tools_offered(world: &TestSession) -> Vec<String> {
    world.newest_request().tools.iter().map(|tool| tool.name.clone()).collect()
}

fn texts(orders: &[StandingOrder]) -> Vec<&str> {
    orders.iter().filter(|order| order.is_active()).map(|order| order.text.as_str()).collect()
}

#[tokio::test]
async fn orders_are_pinned_edited_replaced_and_removed_and_the_model_hears_of_it() {
    let world = world(ModelScript::always("Yes.")).await;
    let session = &world.session;
    let first = session.pin_order("Answer in\nFrench.", None).await.unwrap();
    assert!(first.is_new && first.order.source == OrderSource::User);
    let again = session.pin_order("answer in french.", None).await.unwrap();
    assert_eq!((again.is_new, &again.order), (false, &first.order));
    session.ask("hello").await.unwrap();
    assert!(told(&world).contains("[Standing order o1, pinned by the user: Answer in French.]\n\nhello"));

    let second = session.pin_order("Answer in Greek.", Some(first.order.id.clone())).await.unwrap();
    session.edit_order(second.order.id.clone(), "Answer in German.").await.unwrap();
    session.ask("and now?").await.unwrap();
    let newest = told(&world);
    assert!(
        newest.contains("[Standing order o1, replaced by o2, holds no more: Answer in French.]"),
        "{newest}"
    );
    assert!(newest.contains("[Standing order o2, pinned by the user: Answer in German.]"), "{newest}");
    let orders = session.orders().await.unwrap();
    assert_eq!(texts(&orders), ["Answer in German."]);
    assert_eq!(orders[0].state, OrderState::Superseded { by: second.order.id.clone() });

    let removed = session.remove_order(second.order.id.clone()).await.unwrap();
    assert_eq!(removed.state, OrderState::Removed);
    session.ask("and now?").await.unwrap();
    assert!(told(&world).contains("o2, removed by the user, holds no more: Answer in German."));
    assert_eq!(world.model.invalid_requests(), 0);
}

#[tokio::test]
async fn what_is_refused_stores_nothing() {
    let world = world(ModelScript::always("Yes.")).await;
    let session = &world.session;
    let before = session.inspect_run(|run| run.history().last_seq()).await.unwrap();
    let refused = |refused: Result<_, SessionError>| match refused {
        Err(SessionError::Order(error)) => error,
        other => panic!("{other:?}"),
    };
    let long = "x".repeat(MAX_ORDER_CHARS + 1);
    let pin = |text: String| async move { session.pin_order(text, None).await.map(|pinned| pinned.order) };
    assert_eq!(refused(pin(" \n".to_owned()).await), StandingOrderError::Empty);
    assert_eq!(refused(pin(long).await), StandingOrderError::TooLong { chars: MAX_ORDER_CHARS + 1 });
    let missing = StandingOrderError::NotFound("o9".into());
    assert_eq!(refused(session.edit_order("o9".into(), "x").await), missing);
    assert_eq!(refused(session.remove_order("o9".into()).await), missing);
    assert_eq!(session.inspect_run(|run| run.history().last_seq()).await.unwrap(), before);
}

#[tokio::test]
async fn an_order_pinned_amid_a_run_is_durable_at_once_and_told_at_the_next_step() {
    let script = ModelScript::turns([
        ScriptedAnswer::text("Working.").call("bash", WAITING_COMMAND),
        ScriptedAnswer::text("Done."),
    ]);
    let world = world(script).await;
    world.session.send(vec![Part::text("go")]).await.unwrap();
    world.wait_for_status(RunStatus::ExecutingTools).await;
    let pinned = world.session.pin_order("Be brief.", None);
    // Who waited for the tool would wait in vain: it ends only after this.
    let pinned = tokio::time::timeout(Duration::from_secs(30), pinned).await.unwrap().unwrap();
    let log = world.log().await;
    assert_eq!(log.last().unwrap().seq, pinned.order.at, "it is in the store, and the tool still runs");
    assert_eq!(*world.session.status().borrow(), RunStatus::ExecutingTools);
    world.end_waiting_command();
    assert_eq!(world.session.settled().await.unwrap().end, Some(RunEnd::Stop));
    assert!(told(&world).ends_with("[Standing order o1, pinned by the user: Be brief.]"), "{}", told(&world));
    assert_eq!((world.model.log().len(), world.model.invalid_requests()), (2, 0));
}

#[tokio::test]
async fn the_model_pins_an_order_of_its_own() {
    let script = ModelScript::turns([
        ScriptedAnswer::text("Noted.").call("pin", r#"{"text":"Answer in French."}"#),
        ScriptedAnswer::text("Oui.")
            .call("pin", r#"{"text":"Answer in German.","replaces":"Answer in French."}"#),
        ScriptedAnswer::text("Hm.").call("pin", r#"{"wrong":1}"#),
        ScriptedAnswer::text("Ja."),
    ]);
    let world = world(script).await;
    let said = "From now on answer in French. Answer in German. Whichever.";
    assert_eq!(world.session.ask(said).await.unwrap().end, Some(RunEnd::Stop));
    let orders = world.session.orders().await.unwrap();
    assert_eq!(texts(&orders), ["Answer in German."]);
    let typed = world.session.inspect_run(|run| run.history().entries()[0].seq).await.unwrap();
    let facts: Vec<_> = orders.iter().map(|order| (order.source, order.from)).collect();
    assert_eq!(facts, [(OrderSource::Model, Some(typed)); 2], "where it was said is in the log");
    let results = world.tool_results().await;
    let results: Vec<_> = results.iter().filter_map(|result| result.content[0].as_text()).collect();
    assert_eq!(
        results[..2],
        ["Standing order o1 is pinned.", "Standing order o2 is pinned in the place of o1."]
    );
    assert!(results[2].starts_with("pin: missing field `text`"), "{results:?}");
    assert!(!told(&world).contains("[Standing order"), "its calls are there");
    assert_eq!(world.model.invalid_requests(), 0);
}

#[tokio::test]
async fn the_tool_is_offered_from_16_000_tokens_on_and_never_twice() {
    for (window, is_offered) in [(15_999, false), (16_000, true)] {
        let world =
            TestSession::with_model(ScriptedProvider::new(ModelScript::always("Yes.")).window(window)).await;
        world.session.ask("hello").await.unwrap();
        let pins = tools_offered(&world).iter().filter(|name| *name == "pin").count();
        assert_eq!(pins, usize::from(is_offered), "{window}");
    }
}

#[tokio::test]
async fn orders_outlive_the_process_and_go_with_a_fork_and_an_export() {
    let world = world(ModelScript::always("Yes.")).await;
    world.session.pin_order("Never push to main.", None).await.unwrap();
    world.session.ask("hello").await.unwrap();
    world.session.pin_order("Not told yet.", None).await.unwrap();
    let id = world.session.id().clone();
    let events = world.runtime.log(&id).await.unwrap();
    let at = events.last().unwrap().seq;
    let fork = world.runtime.fork(&id, at).await.unwrap();
    let expected = ["Never push to main.", "Not told yet."];
    assert_eq!(texts(&fork.orders().await.unwrap()), expected);

    let record = world.store.session(&id).await.unwrap();
    let meta = export::SessionMeta { id: record.id, title: record.title, created_at: record.created_at };
    let mut file = Vec::new();
    export::jsonl(&mut file, &meta, &events, std::iter::empty()).unwrap();
    let import = longhaul::import::import(&file, 0).unwrap();
    let bodies = import.sessions[0].events.iter().map(|(_, body)| body.clone());
    let imported: Vec<Event> =
        (1..).zip(bodies).map(|(seq, body)| Event { seq, at: 0, format: FORMAT, body }).collect();
    let history = History::fold(&imported).unwrap();
    let orders: Vec<&str> = history.orders().map(|order| order.text.as_str()).collect();
    assert_eq!(orders, expected);

    let model = ScriptedProvider::new(ModelScript::always("Yes.")).window(WINDOW);
    let world = world.restart(model, |_, _| {}).await;
    assert_eq!(texts(&world.session.orders().await.unwrap()), expected);
    world.session.ask("again").await.unwrap();
    let told = told(&world);
    assert!(told.contains("[Standing order o2, pinned by the user: Not told yet.]"), "{told}");
}
