//! Servers in a session: approval, pictures, long answers, what is sent to the model.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul::agent::Agent;
use longhaul::session::Runtime;
use longhaul::testing::{self, TemporaryFolder};
use longhaul::tools::{Tool, ToolInput, ToolOutput, ToolOutputPart};
use longhaul_core::event::{EventBody, RunEnd};
use longhaul_core::ids::SessionId;
use longhaul_core::message::{Part, RawJson, ToolResult, ToolSpec, ToolStatus};
use longhaul_core::run::ToolApproval;
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_store::{BlobStore, MemoryStore};
use serde_json::json;

use super::{Place, SCHEMA, alive, python, script, until};

struct World {
    runtime: Runtime,
    model: Arc<ScriptedProvider>,
    _folder: TemporaryFolder,
    _place: Place,
}

impl World {
    /// An agent with the script's tools; the model calls these, one a step, and stops.
    async fn new(python: &str, calls: &[(&str, &str)], change: impl FnOnce(&mut Agent)) -> Self {
        let place = Place::new();
        let running = place.start(script(python, &["plain"])).await.unwrap();
        let turns =
            calls.iter().map(|(tool, arguments)| ScriptedAnswer::text("Calling.").call(*tool, *arguments));
        let script = ModelScript::turns(turns.chain([ScriptedAnswer::text("Done.")]).collect::<Vec<_>>());
        let model = Arc::new(ScriptedProvider::new(script).keep_requests());
        let folder = TemporaryFolder::new().unwrap();
        let mut agent = testing::agent(model.clone(), &folder).await.unwrap();
        for tool in running.servers.tools() {
            agent.tools.add(tool).unwrap();
        }
        change(&mut agent);
        let runtime = Runtime::new(agent, Arc::new(MemoryStore::new()), BlobStore::in_memory(64 << 20));
        Self { runtime, model, _folder: folder, _place: place }
    }

    /// What was sent to the model.
    fn requests(&self) -> Vec<ModelRequest> {
        self.model.log().into_iter().filter_map(|record| record.request).collect()
    }

    /// One turn; the results of its calls.
    async fn turn(&self) -> (SessionId, Vec<ToolResult>) {
        let session = self.runtime.create(None).await.unwrap();
        assert_eq!(session.ask("Go.").await.unwrap().end, Some(RunEnd::Stop));
        assert_eq!(self.model.invalid_requests(), 0);
        let log = self.runtime.log(session.id()).await.unwrap();
        let results = log.into_iter().filter_map(|event| match event.body {
            EventBody::ToolFinished { result } => Some(result),
            _ => None,
        });
        (session.id().clone(), results.collect())
    }
}

fn text(result: &ToolResult) -> String {
    result.content.iter().filter_map(Part::as_text).collect()
}

#[tokio::test]
async fn a_tool_that_says_it_only_reads_is_asked_about_all_the_same() {
    let Some(python) = python("a_tool_that_says_it_only_reads_is_asked_about_all_the_same") else { return };
    let denied = ToolApproval::Deny("nobody is there".to_owned());
    let world = World::new(python, &[("t__look", "{}"), ("ls", "{}")], |agent| {
        agent.rules.default_approval = denied;
    });
    let (_, results) = world.await.turn().await;
    assert!(text(&results[0]).contains("nobody is there"), "{results:?}");
    assert_eq!(results[1].status, ToolStatus::Completed, "ours is believed");
    let world = World::new(python, &[("t__look", "{}")], |agent| {
        agent.rules.default_approval = ToolApproval::Deny("nobody is there".to_owned());
        agent.rules.approvals.insert("t__look".to_owned(), ToolApproval::Allow);
    });
    let (_, results) = world.await.turn().await;
    assert_eq!((results[0].status, text(&results[0]).as_str()), (ToolStatus::Completed, "seen"));
}

#[tokio::test]
async fn the_model_is_sent_the_schema_as_it_came_and_sees_the_picture() {
    let Some(python) = python("the_model_is_sent_the_schema_as_it_came_and_sees_the_picture") else { return };
    let world = World::new(python, &[("t__picture", "{}"), ("t__fail", "{}")], |_| {}).await;
    let (_, results) = world.turn().await;
    let [Part::Text(_), Part::Image(image)] = &results[0].content[..] else { panic!("{results:?}") };
    assert_eq!((image.media_type.as_str(), image.width, image.height), ("image/png", Some(1), Some(1)));
    assert_eq!(results[1].status, ToolStatus::Error);
    let requests = world.requests();
    let echo = requests[0].tools.iter().find(|spec| spec.name == "t__echo").unwrap();
    assert_eq!(echo.parameters.as_str(), SCHEMA);
    assert!(requests.iter().all(|request| request.tools == requests[0].tools));
}

/// Gives pictures, and is cancelled before they are stored.
struct Pictures;

#[async_trait]
impl Tool for Pictures {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "pictures".to_owned(),
            description: "Pictures.".to_owned(),
            parameters: RawJson(r#"{"type":"object"}"#.to_owned()),
            read_only: true,
            poll: false,
            source: "test".to_owned(),
        }
    }

    async fn run(&self, call: ToolInput) -> ToolOutput {
        call.context.cancel.cancel();
        let picture = |number: u8| ToolOutputPart::Media {
            bytes: vec![number].into(),
            media_type: "image/png".to_owned(),
            name: None,
        };
        ToolOutput { content: (0..40).map(picture).collect(), ..ToolOutput::text("") }
    }
}

#[tokio::test]
async fn a_cancel_ends_the_storing_of_pictures() {
    let folder = TemporaryFolder::new().unwrap();
    let script = [ScriptedAnswer::text("Calling.").call("pictures", "{}"), ScriptedAnswer::text("Done.")];
    let model = Arc::new(ScriptedProvider::new(ModelScript::turns(script)));
    let mut agent = testing::agent(model, &folder).await.unwrap();
    agent.tools.add(Arc::new(Pictures)).unwrap();
    let runtime = Runtime::new(agent, Arc::new(MemoryStore::new()), BlobStore::in_memory(64 << 20));
    let session = runtime.create(None).await.unwrap();
    session.ask("Go.").await.unwrap();
    let log = runtime.log(session.id()).await.unwrap();
    let mut results = log.into_iter().filter_map(|event| match event.body {
        EventBody::ToolFinished { result } => Some(result),
        _ => None,
    });
    let result = results.next().unwrap();
    let [Part::Image(_), Part::Text(_)] = &result.content[..] else { panic!("{result:?}") };
    assert!(text(&result).contains("39 attachments were not stored"), "{result:?}");
}

#[tokio::test]
async fn a_long_answer_is_cut_and_kept_whole() {
    let Some(python) = python("a_long_answer_is_cut_and_kept_whole") else { return };
    let world = World::new(python, &[("t__long", "{}")], |agent| {
        agent.rules.default_max_output_chars = 5_000;
    });
    let world = world.await;
    let (_, results) = world.turn().await;
    let sent = world.requests().pop().unwrap();
    let shown = sent.messages.iter().flat_map(|message| &message.parts).find_map(|part| match part {
        Part::ToolResult(result) => Some(text(result)),
        _ => None,
    });
    let shown = shown.unwrap();
    assert!(shown.contains("[Output truncated - exceeded maximum length]"), "{shown}");
    assert!(shown.starts_with("line 0\n") && shown.contains("line 59999\n"), "{shown}");
    let cut = results[0].truncated.as_ref().unwrap();
    let whole = world.runtime.blobs().get(&cut.blob).await.unwrap();
    let lines: String = (0..60_000).map(|number| format!("line {number}\n")).collect();
    assert!(whole == lines.as_bytes(), "{} bytes", whole.len());
}

#[tokio::test]
async fn the_display_has_a_row_for_the_server_and_closing_ends_it() {
    let Some(python) = python("the_display_has_a_row_for_the_server_and_closing_ends_it") else { return };
    let world = World::new(python, &[("t__pid", "{}")], |_| {}).await;
    let (id, results) = world.turn().await;
    let report = world.runtime.open(&id).await.unwrap().context().await.unwrap();
    let sources: Vec<&str> = report.tools.iter().map(|share| share.source.as_str()).collect();
    assert_eq!(sources, ["builtin", "t"]);
    let pids = text(&results[0]);
    assert!(pids.split(' ').all(alive));
    world.runtime.close().await;
    until("the server's end", || !pids.split(' ').any(alive)).await;
}

#[tokio::test]
async fn what_nobody_can_read_is_cut_at_the_source_and_kept_whole() {
    let Some(python) = python("what_nobody_can_read_is_cut_at_the_source_and_kept_whole") else { return };
    let encoded = "seq 20000 | base64";
    let calls = [
        ("bash", json!({ "command": format!("echo before; {encoded}; echo after") })),
        ("bash", json!({ "command": format!("echo before; {encoded} -w 0; echo; echo after") })),
        (
            "bash",
            json!({ "command": r"echo before; yes $'\xff\xfe\x01\x02\x80' | head -n 20000; echo after" }),
        ),
        ("bash", json!({ "command": "echo before; printf 'var a=1;%.0s' $(seq 9000); echo; echo after" })),
        // Arguments are part of an answer, which has a limit.
        ("t__echo", json!({ "text": "var a=1;".repeat(400) })),
    ];
    let calls: Vec<(&str, String)> = calls.iter().map(|(tool, call)| (*tool, call.to_string())).collect();
    let calls: Vec<(&str, &str)> = calls.iter().map(|(tool, call)| (*tool, call.as_str())).collect();
    let world = World::new(python, &calls, |agent| agent.rules.default_approval = ToolApproval::Allow).await;
    let (_, results) = world.turn().await;
    for (result, (tool, call)) in results.iter().zip(&calls) {
        let shown = text(result);
        assert!(shown.chars().count() < 2_500, "{tool} {call}: {} characters", shown.len());
        assert!(shown.contains(" cut"), "{tool} {call}: {shown}");
        // `bash` itself says once what the sign stands for.
        assert!(shown.matches('\u{fffd}').count() < 2, "{tool} {call}: {shown}");
        let truncation = result.truncated.as_ref().unwrap();
        let least = if *tool == "bash" { 50_000 } else { 3_000 };
        assert!(truncation.total_chars > least, "{tool} {call}: {truncation:?}");
        assert_eq!(truncation.omitted_chars, truncation.total_chars - shown.chars().count() as u64);
        if *tool == "bash" {
            assert!(
                shown.starts_with("before\n")
                    && shown.contains("\nafter\n")
                    && shown.ends_with("[exit code 0]"),
                "{call}: {shown}"
            );
        }
    }
    let marked = format!("{:?}", world.requests().last().unwrap().messages);
    assert_eq!(marked.matches(longhaul_core::truncate::MARKER).count(), calls.len(), "each has its marker");
}
