//! Answers that went wrong for people who run agents, in `../shared/cases`.

use longhaul_testkit::ScriptedUpstream;
use std::path::Path;

use longhaul_core::error::ErrorCode;
use longhaul_core::message::Part;
use longhaul_providers::ModelEvent;
use longhaul_providers::openai_chat::{OpenAiChatConfig, OpenAiChatProvider};

use crate::answers::answer;
use crate::wire::{self, Outcome, finished, hi, patient};

/// The outcome of a call whose answer is a file; `None` if the folder is absent and not required.
async fn outcome(file: &str) -> Option<Outcome> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases"));
    if !folder.is_dir() {
        assert!(std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(), "{} is missing", folder.display());
        println!("{file}: SKIPPED, {} is missing", folder.display());
        return None;
    }
    let stream = std::fs::read(folder.join(file)).unwrap();
    let fake = ScriptedUpstream::start(move |_| answer(200, "text/event-stream", stream.clone())).await;
    let mut config = OpenAiChatConfig::new(fake.url("/v1"), "m");
    config.endpoint.timeouts = patient();
    Some(wire::call(&OpenAiChatProvider::new(config).unwrap(), hi()).await)
}

#[tokio::test]
async fn an_error_inside_the_choice_reaches_the_user() {
    let Some((events, error)) = outcome("choice_error.sse").await else { return };
    assert_eq!(events[0], ModelEvent::Text("Half of an ans".to_owned()));
    assert_eq!(error.unwrap().message, "Overloaded XYZ");
}

#[tokio::test]
async fn a_stream_of_nothing_but_its_end_is_an_error() {
    let Some((events, error)) = outcome("only_done.sse").await else { return };
    assert_eq!((events, error.unwrap().code), (Vec::new(), ErrorCode::TruncatedStream));
}

#[tokio::test]
async fn empty_arguments_are_an_empty_object() {
    let Some(outcome) = outcome("empty_arguments.sse").await else { return };
    let answer = finished(outcome);
    let [Part::ToolCall(call)] = answer.parts.as_slice() else { panic!("{:?}", answer.parts) };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("ls", "{}"));
}
