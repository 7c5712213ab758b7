//! A message of the user that alone is longer than the window: the model is shown its beginning and its end.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::AdaptiveStrategy;
use longhaul_core::truncate::MARKER;
use longhaul_gateway::{ClientRequest, GatewayOptions, RecallMode, UpstreamOptions};
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{call, events, list, text_of, upstream as speaking};
use crate::recall::{had, sent};
use crate::steps::{DIALECTS, results, step};
use crate::upstream::*;

const WINDOW: u64 = 8_000;

/// A picture, which no cut may touch.
const PICTURE: &str = "iVBORw0KGgpzb3VuZCBvbmUh";

/// A log of many windows between a question and an order.
fn long_message() -> String {
    let lines: Vec<String> = (0..2_000).map(|at| format!("line {at} of the log is quiet")).collect();
    format!("Find the fault in this log.\n{}\nNever touch main.rs.", lines.join("\n"))
}

fn options(upstream: UpstreamOptions) -> GatewayOptions {
    let policy = CompactionPolicy::new(Arc::new(AdaptiveStrategy::default()));
    GatewayOptions { policy, waits_for_summaries: false, ..waiting(vec![upstream]) }
}

/// A request with a long message and a picture beside it.
fn with_picture(dialect: Dialect) -> ClientRequest {
    let text = json!({ "type": if dialect == Dialect::Responses { "input_text" } else { "text" }, "text": long_message() });
    let address = format!("data:image/png;base64,{PICTURE}");
    let picture = match dialect {
        Dialect::Chat => json!({ "type": "image_url", "image_url": { "url": address } }),
        Dialect::Messages => json!({
            "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": PICTURE },
        }),
        Dialect::Responses => json!({ "type": "input_image", "image_url": address }),
    };
    let mut request = call(dialect, &[json!({ "role": "user", "content": [text, picture] })], true);
    let mut fields: Value = serde_json::from_slice(&request.body).unwrap();
    if dialect == Dialect::Messages {
        fields["max_tokens"] = json!(500);
    }
    request.body = fields.to_string().into();
    request
}

#[tokio::test]
async fn its_ends_and_its_picture_are_shown() {
    for dialect in DIALECTS {
        let server = start_upstream(move |number, _| {
            UpstreamAnswer::Events(
                events(dialect, &format!("id{number}"), "line 7", (2_000, 3)),
                Duration::ZERO,
            )
        })
        .await;
        let gateway = gateway(options(speaking(&server, dialect, WINDOW, false)));
        let reply = gateway.answer(with_picture(dialect)).await;
        assert_eq!(reply.status, StatusCode::OK, "{dialect:?}");
        let why = header(&reply, "x-longhaul-reason").to_owned();
        assert!(why.contains("the newest message does not fit beside system prompt"), "{dialect:?}: {why}");
        body(reply).await;
        let sent = sent(&server)[0].clone();
        let shown = text_of(&sent[list(dialect)][0]);
        assert!(shown.starts_with("Find the fault in this log.\nline 0 of"), "{dialect:?}: {shown}");
        assert!(shown.ends_with("Never touch main.rs."), "{dialect:?}: {shown}");
        assert!(shown.contains(MARKER) && !shown.contains("lh:"), "{dialect:?}: {shown}");
        assert!(sent.to_string().contains(PICTURE), "{dialect:?}: the picture stays");
        assert!(sent.to_string().len() < 4 * 8_000, "{dialect:?}: {}", sent.to_string().len());

        // The client goes on with its whole history. The message stays as it was shown.
        let mut more: Value = serde_json::from_slice(&with_picture(dialect).body).unwrap();
        let items = more[list(dialect)].as_array_mut().unwrap();
        items.extend([assistant("line 7"), user("and line 8?")]);
        let asked = ClientRequest { body: more.to_string().into(), ..with_picture(dialect) };
        let reply = gateway.answer(asked).await;
        assert_eq!(reply.status, StatusCode::OK, "{dialect:?}");
        body(reply).await;
        let again = crate::recall::sent(&server)[1].clone();
        assert!(
            again.to_string().contains("and line 8?") && again.to_string().len() < 4 * 8_000,
            "{dialect:?}"
        );
    }
}

#[tokio::test]
async fn the_model_looks_up_the_rest_where_it_may() {
    for dialect in DIALECTS {
        let server = start_upstream(move |number, body| {
            let events = match number {
                0 => {
                    let shown = text_of(&body[list(dialect)][0]);
                    let from = shown.find("lh:").expect("the marker names a handle");
                    let is_end = |char: char| !char.is_ascii_digit() && !"lh:-".contains(char);
                    let handle = shown[from..].split(is_end).next().unwrap();
                    let asked = json!({ "handle": handle, "range": "30000-30400" });
                    step(dialect, "a", "", &[("c1", "recall", asked)], (2_000, 20))
                }
                _ => step(dialect, "b", "It is quiet.", &[], (2_500, 5)),
            };
            UpstreamAnswer::Events(events, Duration::ZERO)
        })
        .await;
        let options = options(speaking(&server, dialect, WINDOW, false));
        let gateway = gateway(GatewayOptions { recall: RecallMode::Inject, ..options });
        let mut asked = call(dialect, &[user(long_message())], false);
        let mut fields: Value = serde_json::from_slice(&asked.body).unwrap();
        let name = if dialect == Dialect::Responses { "max_output_tokens" } else { "max_tokens" };
        fields[name] = json!(300);
        asked.body = fields.to_string().into();
        let had = had(dialect, gateway.answer(asked).await, false).await;
        assert_eq!(had.text, "It is quiet.", "{dialect:?}: {}", had.all);
        let sent = sent(&server);
        let found = results(dialect, &sent[1]);
        assert!(found.iter().any(|result| result.contains("of the log is quiet")), "{dialect:?}: {found:?}");
    }
}

#[tokio::test]
async fn a_refusal_that_names_the_window_cuts_it_too() {
    let server = start_upstream(|number, body| {
        let size = text_of(&body["messages"][0]).len() as u64 / 4;
        match size > 2_000 {
            true => {
                let message = format!(
                    "This model's maximum context length is 2000 tokens. However, your messages resulted in {size} tokens."
                );
                UpstreamAnswer::Json(
                    400,
                    json!({ "error": { "message": message, "code": "context_length_exceeded" } }),
                )
            }
            false => UpstreamAnswer::Json(200, said(&format!("answer {number}"), size, 3)),
        }
    })
    .await;
    let gateway = gateway(options(server.upstream(64_000)));
    let reply = gateway.answer(chat(request(&[user(long_message())], false))).await;
    assert_eq!(reply.status, StatusCode::OK);
    body(reply).await;
    let sent = sent(&server);
    assert_eq!(sent[0]["messages"][0]["content"], long_message(), "it is tried whole first");
    let shown = text_of(&sent.last().unwrap()["messages"][0]);
    assert!(shown.contains(MARKER) && shown.ends_with("Never touch main.rs."), "{shown}");
}
