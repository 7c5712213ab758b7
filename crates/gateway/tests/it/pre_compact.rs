//! The PreCompact hook is asked before a client's conversation is compacted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use longhaul_core::run::{PreCompactInput, PreCompactOutput};
use longhaul_gateway::{Gateway, GatewayDependencies, GatewayOptions, PreCompactHook};
use serde_json::{Value, json};

use crate::shortening::{is_summary_request, spoke_of};
use crate::upstream::*;

const WINDOW: u64 = 32_000;

/// A hook that always gives one answer and keeps what it was asked.
struct Hook {
    answer: Option<PreCompactOutput>,
    asked: Mutex<Vec<(String, PreCompactInput)>>,
}

impl Hook {
    fn new(answer: Option<PreCompactOutput>) -> Arc<Self> {
        Arc::new(Self { answer, asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<(String, PreCompactInput)> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl PreCompactHook for Hook {
    async fn answer(&self, conversation: &str, ask: PreCompactInput) -> Option<PreCompactOutput> {
        self.asked.lock().unwrap().push((conversation.to_owned(), ask));
        self.answer.clone()
    }
}

/// A model that reports no usage and writes summaries when it is asked for one.
async fn model() -> ScriptedUpstream {
    start_upstream(move |number, body| {
        if is_summary_request(body) {
            let text =
                spoke_of(&format!("topic{}", (0..80).map(|at| format!("{at}, topic")).collect::<String>()));
            return UpstreamAnswer::Events(streamed("s", &text, Some((20_000, 60))), Duration::ZERO);
        }
        let mut answer = said(&format!("answer {number}"), 0, 0);
        answer.as_object_mut().unwrap().remove("usage");
        UpstreamAnswer::Json(200, answer)
    })
    .await
}

fn gateway_with(config: GatewayOptions, hook: &Arc<Hook>) -> Gateway {
    let pre_compact = Some(Arc::clone(hook) as Arc<dyn PreCompactHook>);
    Gateway::new(config, GatewayDependencies { pre_compact, ..GatewayDependencies::default() }).unwrap()
}

/// So many messages of about 500 tokens, and a question.
fn long(messages: usize) -> Vec<Value> {
    let says = |at: usize| format!("topic{at} {}", words(490, at));
    let message = |at: usize| if at.is_multiple_of(2) { user(says(at)) } else { assistant(says(at)) };
    (0..messages).map(message).chain([user("go on")]).collect()
}

/// Sends the conversation and returns what was done with it.
async fn action(gateway: &Gateway, messages: &[Value]) -> String {
    let (action, _reason) = action_and_reason(gateway, messages).await;
    action
}

async fn action_and_reason(gateway: &Gateway, messages: &[Value]) -> (String, String) {
    let reply = gateway.answer(chat(request(messages, false))).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.headers);
    let header = |name: &str| reply.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let said = (header("x-longhaul-action"), header("x-longhaul-reason"));
    let _read = body_json(reply).await;
    said
}

/// Waits for the hook's first question, which comes once the conversation is near its trigger.
async fn settled(hook: &Hook, messages: usize) {
    let is_near = messages >= 46;
    for _ in 0..3_000 {
        if !is_near || !hook.asked().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_cancelled_compaction_holds_until_the_request_does_not_fit() {
    let server = model().await;
    let cancel = PreCompactOutput { cancel: true, reason: Some("not now".to_owned()), ..Default::default() };
    let hook = Hook::new(Some(cancel));
    let gateway = gateway_with(GatewayOptions::new(vec![server.upstream(WINDOW)]), &hook);
    let (mut unshortened_after_cancel, mut reasons) = (0, Vec::new());
    for messages in (30..).step_by(2) {
        assert!(messages < 100, "it never had to be shortened");
        let sent = long(messages);
        let was_asked = hook.asked().len();
        let (action, reason) = action_and_reason(&gateway, &sent).await;
        if action == "compacted" {
            assert!(
                server.main_requests().last().unwrap().messages().len() < sent.len(),
                "messages are left out"
            );
            break;
        }
        assert_eq!(server.main_requests().last().unwrap().messages(), sent, "the client's own messages");
        // The hook is asked ahead of need, behind an answer.
        settled(&hook, messages).await;
        if was_asked > 0 {
            assert_eq!(hook.asked().len(), was_asked, "asked once for one compaction");
            unshortened_after_cancel += 1;
            reasons.push(reason);
        }
    }
    assert!(
        reasons.iter().any(|reason| reason == "not shortened: a hook cancelled the compaction: not now"),
        "{reasons:?}"
    );
    assert!(unshortened_after_cancel >= 2, "the cancel held for {unshortened_after_cancel} requests");
    let (name, ask) = &hook.asked()[0];
    assert!(name.starts_with("gateway-") && !ask.manual && ask.dropped_messages > 0, "{name} {ask:?}");
    assert!(ask.current_tokens >= ask.target_tokens && ask.current_tokens < WINDOW, "{ask:?}");
    assert_eq!(server.received().len(), server.main_requests().len(), "no summary is asked for");
}

#[tokio::test]
async fn a_hooks_summary_stands_in_the_view_and_no_model_is_asked() {
    let server = model().await;
    let summary = format!("{} The hook wrote this line.", spoke_of("stones"));
    let hook = Hook::new(Some(PreCompactOutput { custom_summary: Some(summary), ..Default::default() }));
    let gateway = gateway_with(GatewayOptions::new(vec![server.upstream(WINDOW)]), &hook);
    assert_eq!(action(&gateway, &long(80)).await, "compacted");
    assert!(server.main_requests()[0].json().to_string().contains("The hook wrote this line."));
    assert_eq!(server.received().len(), 1, "one request and no other");
}

#[tokio::test]
async fn a_hooks_instructions_are_in_the_request_for_the_summary() {
    let server = model().await;
    let instructions = Some("Keep every ticket number.".to_owned());
    let hook = Hook::new(Some(PreCompactOutput { custom_instructions: instructions, ..Default::default() }));
    let config =
        GatewayOptions { waits_for_summaries: true, ..GatewayOptions::new(vec![server.upstream(WINDOW)]) };
    let gateway = gateway_with(config, &hook);
    assert_eq!(action(&gateway, &long(80)).await, "compacted");
    let asked = server.summary_requests();
    assert!(!asked.is_empty());
    assert!(asked[0].json()["messages"].to_string().contains("Keep every ticket number."));
}

#[tokio::test]
async fn a_hook_without_an_answer_changes_nothing() {
    let server = model().await;
    let hook = Hook::new(None);
    let gateway = gateway_with(GatewayOptions::new(vec![server.upstream(WINDOW)]), &hook);
    assert_eq!(action(&gateway, &long(80)).await, "compacted");
    assert!(!hook.asked().is_empty());
    assert_ne!(json!(server.main_requests()[0].messages()), json!(long(80)));
}
