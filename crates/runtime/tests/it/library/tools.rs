//! Function tools: what the model is told of them, and what it reads of a call.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul::core::message::ToolStatus;
use longhaul::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{scripted, whole_turn};

/// The arguments of a tool that has none.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// What to buy.
    item: String,
    address: Address,
    /// How many; one unless it is said.
    count: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
struct Address {
    city: String,
}

struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the shop is closed")
    }
}

fn order() -> impl Tool + use<> {
    tool_fn("order", "Orders an item", |order: Order, _| async move {
        match order.item.as_str() {
            "nothing" => Err(Broken),
            item => {
                Ok(json!({ "item": item, "city": order.address.city, "count": order.count.unwrap_or(1) }))
            }
        }
    })
}

/// What the model reads of one call of a tool.
async fn result_of(tool: impl Tool + 'static, arguments: &str) -> (ToolStatus, String) {
    let name = tool.spec().name;
    let script =
        ModelScript::turns([ScriptedAnswer::calling(name, arguments), ScriptedAnswer::text("Done.")]);
    let agent = scripted(script).0.tool(tool).build().await.unwrap();
    let (events, output) = whole_turn(&agent.session().await.unwrap(), "Do it.").await;
    assert_eq!(output.unwrap().text, "Done.");
    let result = events.into_iter().find_map(|event| match event {
        SessionEvent::ToolResult { status, content, .. } => {
            Some((status, content.iter().filter_map(Part::as_text).collect()))
        }
        _ => None,
    });
    result.unwrap()
}

#[tokio::test]
async fn the_schema_is_derived_from_the_arguments() {
    let schema: Value = serde_json::from_str(order().spec().parameters.as_str()).unwrap();
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["item", "address"]));
    assert_eq!(schema["properties"]["item"], json!({ "type": "string", "description": "What to buy." }));
    assert_eq!(schema["properties"]["address"]["properties"]["city"]["type"], "string", "no references");
    assert!(schema.get("title").is_none() && schema.get("$schema").is_none(), "{schema}");
    assert_eq!(
        serde_json::from_str::<Value>(
            tool_fn("none", "", |_: Nothing, _| async { "" }).spec().parameters.as_str()
        )
        .unwrap()["type"],
        "object"
    );
}

#[tokio::test]
async fn a_function_is_called_with_typed_arguments() {
    let (status, text) = result_of(order(), r#"{"item":"tea","address":{"city":"Bern"}}"#).await;
    assert_eq!(status, ToolStatus::Completed);
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({ "item": "tea", "city": "Bern", "count": 1 })
    );
}

#[tokio::test]
async fn the_model_reads_why_a_call_failed() {
    let (status, text) = result_of(order(), r#"{"item":"nothing","address":{"city":"Bern"}}"#).await;
    assert_eq!((status, text.as_str()), (ToolStatus::Error, "Error: the shop is closed"));
    let (status, text) = result_of(order(), r#"{"item":"tea"}"#).await;
    assert_eq!(status, ToolStatus::Error);
    assert!(text.contains("`order`") && text.contains("missing field `address`"), "{text}");
}

#[tokio::test]
async fn a_tool_that_panics_is_an_error_for_the_model() {
    let tool = tool_fn("fall", "Falls", |_: Nothing, _| async {
        let numbers = Vec::<usize>::new();
        numbers[0].to_string()
    });
    let (status, text) = result_of(tool, "{}").await;
    assert_eq!(status, ToolStatus::Error);
    assert!(text.contains("failed unexpectedly") && !text.contains("index"), "{text}");
}

#[tokio::test]
async fn a_schema_by_hand_keeps_the_names_of_the_program() {
    let schema = json!({ "type": "object", "properties": { "$filter": { "type": "string" } } });
    let tool = tool_fn_with_schema("find", "Finds", schema, |args: Value, _| async move {
        args["$filter"].as_str().unwrap_or("no filter").to_owned()
    });
    let told = tool.spec().parameters;
    assert!(!told.as_str().contains('$'), "providers refuse such names: {told:?}");
    assert_eq!(result_of(tool, r#"{"filter":"blue"}"#).await, (ToolStatus::Completed, "blue".to_owned()));
}

#[tokio::test]
async fn a_cancelled_call_is_dropped() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let was_dropped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&was_dropped);
    let waits = Arc::new(tokio::sync::Notify::new());
    let tells = Arc::clone(&waits);
    let tool = tool_fn("wait", "Waits for ever", move |_: Nothing, _| {
        let (dropped, tells) = (Dropped(Arc::clone(&seen)), Arc::clone(&tells));
        async move {
            tells.notify_one();
            std::future::pending::<()>().await;
            drop(dropped);
            "never"
        }
    });
    let agent = scripted(ModelScript::always(ScriptedAnswer::calling("wait", "{}")))
        .0
        .tool(tool)
        .build()
        .await
        .unwrap();
    let session = agent.session().await.unwrap();
    let mut turn = session.turn("Wait.").await.unwrap();
    while let Some(event) = turn.next().await {
        if let SessionEvent::ToolStarted { .. } = event.unwrap() {
            waits.notified().await;
            session.cancel(false).await.unwrap();
        }
    }
    assert!(was_dropped.load(Ordering::SeqCst));
    assert_eq!(turn.finish().await.unwrap().end, Some(RunEnd::Cancelled));
}

#[tokio::test]
async fn tools_of_a_list_are_offered_in_order() {
    let named = |name: &str| -> Arc<dyn Tool> { Arc::new(tool_fn(name, "", |_: Nothing, _| async { "" })) };
    let (builder, model) = scripted(ModelScript::always("Hi."));
    let agent = builder.tools([named("b"), named("a")]).build().await.unwrap();
    agent.session().await.unwrap().turn("Hi").await.unwrap().finish().await.unwrap();
    assert_eq!(super::offered(&model.log()[0]), ["b", "a", "pin"]);
}
