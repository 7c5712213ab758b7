//! A server that repeats what it was sent where its own names belong.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use longhaul::agent::Agent;
use longhaul::telemetry::ContentCapture;
use longhaul_core::event::RunEnd;
use longhaul_core::message::{ModelAnswer, ModelOrigin, Part, RawJson};
use longhaul_providers::scripted::ScriptedProvider;
use longhaul_providers::{Limits, ModelEvent, ModelRequest, ModelStream, Provider, ProviderError};
use serde_json::json;

use super::{ObservedSession, attribute, text, world, writes_once};

/// What a server calls an answer, its model and a tool call.
#[derive(Clone, Copy)]
struct Names {
    id: &'static str,
    model: &'static str,
    call: &'static str,
}

/// A model that is served under such names.
struct Echo {
    model: ScriptedProvider,
    names: Names,
}

#[async_trait]
impl Provider for Echo {
    fn origin(&self) -> ModelOrigin {
        self.model.origin()
    }

    async fn limits(&self) -> Limits {
        self.model.limits().await
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        self.model.render(request)
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        let names = self.names;
        let events = self.model.call(request).await?;
        Ok(Box::pin(events.map(move |event| event.map(|event| renamed(event, names)))))
    }
}

fn renamed(event: ModelEvent, names: Names) -> ModelEvent {
    match event {
        ModelEvent::PartDone(part) => ModelEvent::PartDone(part_renamed(part, names)),
        ModelEvent::Finished(answer) => ModelEvent::Finished(ModelAnswer {
            parts: answer.parts.into_iter().map(|part| part_renamed(part, names)).collect(),
            envelope: Some(RawJson(json!({ "id": names.id, "model": names.model }).to_string())),
            ..answer
        }),
        other => other,
    }
}

fn part_renamed(part: Part, names: Names) -> Part {
    match part {
        Part::ToolCall(mut call) => {
            call.call_id = names.call.into();
            call.provider_id = Some(names.call.to_owned());
            Part::ToolCall(call)
        }
        other => other,
    }
}

/// A run that calls a tool, against a server with such names.
async fn run(names: Names) -> ObservedSession {
    let model = writes_once().model("heron-1");
    let serve = |agent: &mut Agent| agent.provider = Arc::new(Echo { model, names });
    let world = world(writes_once(), ContentCapture::LeftOut, serve).await;
    assert_eq!(world.test.session.ask("Please flamingo.").await.unwrap().end, Some(RunEnd::Stop));
    world
}

#[tokio::test]
async fn a_server_that_repeats_prompt_and_key_is_not_passed_on() {
    const LONG: &str = "please-flamingo-please-flamingo-please-flamingo-please-flamingo-please";
    for said in [
        "Please flamingo.",
        "ID flamingo [{\"role\":\"user\"}]",
        "Bearer sk-flamingo-12345678",
        "sk-flamingo-12345678",
        "heron-1-sk-flamingo-12345678",
        "chatcmpl-sk-flamingo-12345678",
        "flamingo\n",
    ] {
        let world = run(Names { id: said, model: said, call: said }).await;
        let exported = world.exported();
        assert!(exported.contains("gen_ai.request.model"), "nothing was exported");
        assert!(!exported.contains("flamingo"), "{said:?} was told");
        for call in world.named("chat heron-1") {
            assert_eq!(attribute(&call, "gen_ai.response.id"), None, "{said:?}");
            assert_eq!(attribute(&call, "gen_ai.response.model"), None, "{said:?}");
        }
    }
    let world = run(Names { id: "chatcmpl-1", model: LONG, call: LONG }).await;
    assert!(!world.exported().contains("flamingo"), "a long name of a model that nobody asked for was told");
}

#[tokio::test]
async fn what_looks_like_a_name_is_told_of_calls_and_never_in_metrics() {
    let names = Names { id: "chatcmpl-9xYz_1.2", model: "ibis/heron-1-2026-08-06", call: "call_ostrich" };
    let world = run(names).await;
    let calls = world.named("chat heron-1");
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert_eq!(text(&call, "gen_ai.response.id"), names.id);
        assert_eq!(text(&call, "gen_ai.response.model"), names.model);
    }
    let call_id = text(&world.one("execute_tool write"), "gen_ai.tool.call.id");
    assert!(call_id.starts_with("c-s"), "{call_id} is not ours");
    assert!(!world.exported().contains(names.call));
    let metrics = format!("{:?}", world.metrics.get_finished_metrics().unwrap());
    assert!(metrics.contains("gen_ai.client.inference.duration") && metrics.contains("heron-1"), "{metrics}");
    for said in ["gen_ai.response.model", "ibis", names.id] {
        assert!(!metrics.contains(said), "{said} is in metrics");
    }
}
