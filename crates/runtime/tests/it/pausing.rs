//! An answer that would run into the end of its window: stopped, room made, gone on with, through the real driver.

use longhaul::api_events::ApiEvent;
use longhaul::event_bus::EventReceiver;
use longhaul::export::{SessionMeta, markdown};
use longhaul::session::Session;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::{Event, EventBody, PartialAnswerReason, RunEnd};
use longhaul_core::message::{Message, Role};
use longhaul_core::run::MAX_PAUSES;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedFault, ScriptedProvider};
use longhaul_providers::{ModelRequest, ProviderError};
use longhaul_testkit::TestSession;

const WINDOW: u64 = 4_096;

/// No part of it comes twice.
fn tale() -> String {
    let parts: Vec<String> = (0..900).map(|at| format!("part{at}")).collect();
    format!("{}.\n", parts.join(" "))
}

/// What a model says to that request that tells that tale: it goes on word for word with what the request ends with.
fn told(request: &ModelRequest, tale: &str) -> ScriptedAnswer {
    let last = request.messages.last().map(|last| (last.role, last.text()));
    let pace = std::time::Duration::from_millis(1);
    match last {
        Some((Role::Assistant, said)) => {
            let rest = tale.strip_prefix(said.as_str());
            ScriptedAnswer::text(rest.unwrap_or("[this is not where I was]")).pace(pace)
        }
        Some((_, asked)) if asked.contains("all of it") => ScriptedAnswer::text(tale).pace(pace),
        _ => ScriptedAnswer::text(" word".repeat(350)),
    }
}

/// A session that has filled more than half of the window.
async fn world(prefill: bool) -> TestSession {
    world_of(prefill, None).await
}

/// Creates a world whose model answers requests that end with its own words with `refusal`, if there is one.
async fn world_of(prefill: bool, refusal: Option<ProviderError>) -> TestSession {
    let tale = tale();
    let model = ScriptedProvider::new(ModelScript::closure(move |request: &ModelRequest, _| {
        let is_begun = request.messages.last().is_some_and(|last| last.role == Role::Assistant);
        Some(match refusal.as_ref().filter(|_| is_begun) {
            Some(error) => ScriptedAnswer::text("").fail(ScriptedFault::Refuse(Box::new(error.clone()))),
            None => told(request, &tale),
        })
    }));
    let model = model.window(WINDOW).without_tools();
    let world = TestSession::with_model(if prefill { model.with_prefill() } else { model }).await;
    for turn in 0..7 {
        let outcome = world.session.ask(&format!("question {turn}")).await.unwrap();
        assert_eq!(outcome.end, Some(RunEnd::Stop));
    }
    world
}

/// A server that refuses to continue an answer is not asked to by later sessions either.
#[tokio::test]
async fn a_refused_prefill_is_known_to_the_next_session() {
    let refusal = ProviderError::new(ErrorCode::InvalidRequest, "prefill is not supported (HTTP 400)");
    let world = world_of(true, Some(refusal)).await;
    let continues = |run: &longhaul_core::run::Run| run.settings().model.prefill;
    assert!(world.session.inspect_run(continues).await.unwrap());
    world.session.ask("tell me all of it").await.unwrap();
    assert!(world.session.inspect_run(|run| run.history().refused_to_go_on()).await.unwrap());
    let later = world.runtime.create(None).await.unwrap();
    assert!(!later.inspect_run(continues).await.unwrap());
}

async fn log(world: &TestSession) -> Vec<Event> {
    world.store.read(world.session.id(), 0, 10_000).await.unwrap()
}

async fn newest(session: &Session) -> Message {
    let last = |run: &longhaul_core::run::Run| run.history().view().last().unwrap().message.clone();
    Message::clone(&session.inspect_run(last).await.unwrap())
}

/// Everything that is announced meanwhile, in order.
async fn watched(mut watch: EventReceiver, meanwhile: impl Future<Output = ()>) -> Vec<ApiEvent> {
    let mut meanwhile = std::pin::pin!(meanwhile);
    let mut all = Vec::new();
    loop {
        tokio::select! {
            // Announcements come first: `meanwhile` may end while some still wait to be read.
            biased;
            told = watch.recv() => all.push(ApiEvent::clone(&told.unwrap())),
            () = &mut meanwhile => break,
        }
    }
    while let Ok(told) = watch.try_recv() {
        all.push(ApiEvent::clone(&told));
    }
    all
}

#[tokio::test]
async fn a_long_answer_in_a_small_window_is_one_answer() {
    let world = world(true).await;
    let told = watched(world.session.watch(), async {
        let settled = world.session.ask("tell me all of it").await.unwrap();
        assert_eq!((settled.end, settled.error), (Some(RunEnd::Stop), None));
    });
    let told = told.await;
    assert_eq!(newest(&world.session).await.text(), tale());

    let log = log(&world).await;
    let pieces: Vec<(&Message, Option<PartialAnswerReason>)> = log
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::AssistantAdded { message, cut, .. } => Some((message, *cut)),
            _ => None,
        })
        .skip(7)
        .collect();
    let (last, paused) = pieces.split_last().unwrap();
    assert!((1..=MAX_PAUSES as usize).contains(&paused.len()), "{} pauses", paused.len());
    assert!(paused.iter().all(|(_, cut)| *cut == Some(PartialAnswerReason::Paused)) && last.1.is_none());
    assert_eq!(pieces.iter().map(|(message, _)| message.text()).collect::<String>(), tale());
    for (piece, _) in paused {
        assert!(
            !piece.text().ends_with(char::is_whitespace),
            "no wire takes every text that ends with a blank"
        );
    }
    let is_edit = |event: &&Event| matches!(event.body, EventBody::ViewEdited(_));
    assert_eq!(log.iter().filter(is_edit).count(), paused.len(), "room is made once for each pause");
    assert_eq!(world.model.invalid_requests(), 0);

    // Who watches reads one message, letter by letter, each once.
    let chunks = told.iter().filter(|told| told.name == "llm:chunk" && told.text("chunkType") == "text");
    let mut seen = String::new();
    let first = format!("{}", pieces[0].0.id);
    for chunk in chunks {
        assert_eq!(chunk.text("messageId"), first);
        assert_eq!(chunk.payload["offset"], seen.chars().count());
        seen.push_str(chunk.text("content"));
    }
    assert_eq!(seen, tale());
    let added: Vec<&ApiEvent> =
        told.iter().filter(|told| told.name == "message:added" && told.text("role") == "assistant").collect();
    assert_eq!(added.len(), pieces.len());
    assert!(added[0].payload.contains_key("paused") && !added[0].payload.contains_key("continues"));
    assert_eq!(added.last().unwrap().text("continues"), first);
    assert!(!added.last().unwrap().payload.contains_key("paused"));

    let response = told.iter().rfind(|told| told.name == "llm:response").unwrap();
    assert_eq!(response.text("content"), tale(), "one answer, and not its last piece");

    // And who reads the transcript.
    let meta = SessionMeta { id: world.session.id().clone(), title: None, created_at: 0 };
    let transcript = markdown(&meta, &log);
    assert_eq!(transcript.matches(tale().trim_end()).count(), 1, "{transcript}");
    assert_eq!(transcript.matches("part0 ").count(), 1);
    assert!(world.session.ask("thanks").await.unwrap().end == Some(RunEnd::Stop));
    assert_eq!(world.model.invalid_requests(), 0);
}

#[tokio::test]
async fn a_model_that_cannot_go_on_ends_with_its_length() {
    let world = world(false).await;
    let settled = world.session.ask("tell me all of it").await.unwrap();
    assert_eq!((settled.end, settled.error), (Some(RunEnd::Length), None));
    let said = newest(&world.session).await.text();
    assert!(tale().starts_with(&said) && said.len() < tale().len());
    let paused = |event: &Event| {
        matches!(event.body, EventBody::AssistantAdded { cut: Some(PartialAnswerReason::Paused), .. })
    };
    assert!(!log(&world).await.iter().any(paused));
    assert_eq!(world.model.invalid_requests(), 0);
}
