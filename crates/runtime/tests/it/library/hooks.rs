//! Typed hooks of the builder: before and after a tool, and about a message.

use longhaul::prelude::*;
use longhaul::testing::TemporaryFolder;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{scripted, whole_turn};

#[derive(Deserialize, JsonSchema)]
struct City {
    name: String,
}

/// Returns the result of a call of `weather` as the model reads it.
async fn weather_told(change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> String {
    let script = ModelScript::turns([
        ScriptedAnswer::calling("weather", r#"{"name":"Atlantis"}"#),
        ScriptedAnswer::text("Done."),
    ]);
    let weather =
        tool_fn("weather", "", |city: City, _| async move { format!("It is sunny in {}.", city.name) });
    let agent = change(scripted(script).0.tool(weather)).build().await.unwrap();
    let (events, output) = whole_turn(&agent.session().await.unwrap(), "How is the weather?").await;
    output.unwrap();
    let result = events.into_iter().find_map(|event| match event {
        SessionEvent::ToolResult { content, .. } => {
            Some(content.iter().filter_map(Part::as_text).collect::<String>())
        }
        _ => None,
    });
    result.unwrap()
}

#[tokio::test]
async fn a_closure_denies_a_tool_call() {
    let told = weather_told(|builder| {
        builder.on_pre_tool_use(|request| async move {
            ToolCallDecision::deny_if(request.args["name"] == "Atlantis", "no such city")
        })
    });
    let told = told.await;
    assert!(told.ends_with("did not run: no such city"), "{told}");
}

#[tokio::test]
async fn a_closure_replaces_the_arguments_of_a_tool_call() {
    let told = weather_told(|builder| {
        builder.on_pre_tool_use(|mut request| async move {
            request.args["name"] = "Bern".into();
            request.args.as_object().cloned().map_or(ToolCallDecision::Proceed, ToolCallDecision::replace)
        })
    });
    assert_eq!(told.await, "It is sunny in Bern.");
}

#[tokio::test]
async fn a_closure_adds_to_a_result() {
    let told = weather_told(|builder| {
        builder.on_post_tool_use(|request| async move {
            request.result.contains("Atlantis").then(|| "It lies under water.".to_owned())
        })
    });
    let told = told.await;
    assert!(told.starts_with("It is sunny in Atlantis.") && told.ends_with("It lies under water."), "{told}");
}

#[tokio::test]
async fn a_closure_decides_about_messages() {
    let (builder, model) = scripted(ModelScript::always("Done."));
    let agent = builder.on_user_prompt_submit(|request| async move {
        match request.prompt.as_str() {
            "no" => PromptDecision::refuse("not so short"),
            _ => PromptDecision::add("Answer in German."),
        }
    });
    let agent = agent.build().await.unwrap();
    let session = agent.session().await.unwrap();
    let refused = session.turn("no").await.err().unwrap();
    assert!(matches!(&refused, SessionError::Refused(reason) if reason == "not so short"), "{refused}");
    session.turn("Why?").await.unwrap().finish().await.unwrap();
    let asked = model.log()[0].request.as_ref().unwrap().messages[0].text();
    assert!(asked.starts_with("Why?") && asked.ends_with("Answer in German."), "{asked}");
}

#[tokio::test]
async fn a_hook_of_the_file_and_a_closure_replace_each_other() {
    let folder = TemporaryFolder::new().unwrap();
    let path = folder.path().join("longhaul.yml");
    let file = "model: { provider: scripted, name: m }\nhooks: { preToolUse: { command: 'echo' } }";
    std::fs::write(&path, file).unwrap();
    let closure = |builder: AgentBuilder| {
        builder.on_pre_tool_use(|_| async { ToolCallDecision::deny("the closure says no") })
    };
    let denied = weather_told(|builder| closure(builder.from_config(&path).unwrap())).await;
    assert!(denied.ends_with("the closure says no"), "{denied}");
    let allowed = weather_told(|builder| closure(builder).from_config(&path).unwrap()).await;
    assert_eq!(allowed, "It is sunny in Atlantis.");
}
