//! Servers that cut a request in silence and answer as if nothing had happened, or change their window under way.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use longhaul_core::estimate;
use longhaul_core::event::RunEnd;
use longhaul_core::message::{ModelAnswer, ModelOrigin, ModelStopReason, Part};
use longhaul_core::usage::Usage;
use longhaul_providers::{
    LimitSource, Limits, ModelEvent, ModelRequest, ModelStream, Provider, ProviderError, ToolChoice,
};
use longhaul_testkit::TestSession;

/// Returns the tokens that the model reports as read of a request with so many tokens.
type ReportedTokens = fn(u64) -> u64;

/// A model that may report other tokens than it was sent. Its window is unknown until the test sets it.
struct MisreportingModel {
    calls: AtomicUsize,
    reports: ReportedTokens,
    window: AtomicU64,
}

#[async_trait]
impl Provider for MisreportingModel {
    fn origin(&self) -> ModelOrigin {
        ModelOrigin { provider: "p".into(), api: "a".into(), model: "m".into() }
    }

    async fn limits(&self) -> Limits {
        let window = Some(self.window.load(Ordering::Relaxed)).filter(|window| *window > 0);
        Limits::from_window(window, LimitSource::Server)
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        Ok(Bytes::from(format!("{:?}", request.messages)))
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        assert_eq!(request.tool_choice, ToolChoice::Auto);
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let tools: u64 = request.tools.iter().map(estimate::tool_tokens).sum();
        let messages: u64 = request.messages.iter().map(estimate::message_tokens).sum();
        let input = tools + messages + estimate::text_tokens(&request.system);
        let usage = Usage { input_tokens: (self.reports)(input), output_tokens: 4, ..Usage::default() };
        let parts = vec![Part::text(format!("answer {call}"))];
        let answer = ModelAnswer { parts, finish: ModelStopReason::Stop, usage: Some(usage), envelope: None };
        let events = [Ok(ModelEvent::Finished(answer))];
        Ok(futures_util::stream::iter(events).boxed())
    }
}

async fn session_of_model(reports: ReportedTokens) -> TestSession<MisreportingModel> {
    let model = MisreportingModel { calls: AtomicUsize::new(0), reports, window: AtomicU64::new(0) };
    TestSession::with_provider(model, |_, _| {}).await
}

fn prose(turn: usize) -> String {
    (0..600).map(|at| format!("w{} ", (turn * 7_919 + at * 104_729) % 99_991)).collect()
}

/// Keeps no more than 4,096 tokens of any request, and says so only in its usage.
#[tokio::test]
async fn a_request_cut_in_silence_makes_room_and_is_sent_again() {
    let TestSession { runtime, session, model, .. } = &session_of_model(|input| input.min(4_096)).await;
    let mut turns = 0;
    while session.inspect_run(|run| run.history().compactions()).await.unwrap() == 0 {
        turns += 1;
        assert!(turns < 12, "twelve long messages, and nothing was noticed");
        let settled = session.ask(&prose(turns)).await.unwrap();
        assert_eq!(settled.end, Some(RunEnd::Stop), "{settled:?}");
    }
    assert!(model.calls.load(Ordering::Relaxed) > turns, "the cut request was not sent again");
    let (window, newest) = session
        .inspect_run(|run| (run.budget().window, run.history().view().last().map(|item| item.message.text())))
        .await
        .unwrap();
    assert_eq!(window, 4_096, "what it holds is learned");
    assert!(newest.is_some_and(|text| text.starts_with("answer")), "the second answer stands");
    runtime.close().await;
}

/// Reports the same small count for every request, before a window that its server states: nothing is left out of the
/// requests because of it.
#[tokio::test]
async fn a_wrong_report_leaves_nothing_out() {
    for reports in [|_| 317, |input: u64| input / 3] as [ReportedTokens; 2] {
        let TestSession { runtime, session, model, .. } = &session_of_model(reports).await;
        model.window.store(200_000, Ordering::Relaxed);
        for turn in 0..46 {
            assert_eq!(session.ask(&prose(turn)[..2_000]).await.unwrap().end, Some(RunEnd::Stop));
        }
        let (shown, compactions) = session
            .inspect_run(|run| (run.history().view().len(), run.history().compactions()))
            .await
            .unwrap();
        assert_eq!((shown, compactions), (92, 0), "questions and answers in view");
        assert_eq!(model.calls.load(Ordering::Relaxed), 46, "no request was sent twice");
        runtime.close().await;
    }
}

/// A later session with the server ignores its reports from the first one on.
#[tokio::test]
async fn unreliable_usage_is_known_to_the_next_session() {
    let TestSession { runtime, session, model, .. } = &session_of_model(|_| 317).await;
    model.window.store(200_000, Ordering::Relaxed);
    for turn in 0..12 {
        session.ask(&prose(turn)[..2_000]).await.unwrap();
    }
    let is_known = |run: &longhaul_core::run::Run| run.history().usage_is_unreliable();
    assert!(session.inspect_run(is_known).await.unwrap());
    let later = runtime.create(None).await.unwrap();
    assert!(later.inspect_run(is_known).await.unwrap());
    later.ask(&prose(99)[..2_000]).await.unwrap();
    let anchor = later.inspect_run(|run| run.history().anchor().cloned()).await.unwrap();
    assert_eq!(anchor, None, "no report was believed");
    runtime.close().await;
}

/// One message is larger than what the server keeps: no edit of the view helps.
#[tokio::test]
async fn a_cut_that_no_edit_helps_against_is_told_with_what_a_person_can_do() {
    let TestSession { runtime, session, model, .. } = &session_of_model(|input| input.min(4_096)).await;
    let mut watch = session.watch();
    let long: String = (1..12).map(prose).collect();
    assert_eq!(session.ask(&long).await.unwrap().end, Some(RunEnd::Stop));
    let told = std::iter::from_fn(|| watch.try_recv().ok()).find(|told| told.name == "llm:error").unwrap();
    let said = told.text("error");
    assert!(said.starts_with("the server read 4096 of about "), "{said}");
    let advice = said.find("Give the model a larger context at its server, or send less at once").unwrap();
    assert!(advice < said.find("nothing older is left").unwrap(), "what helps comes first: {said}");
    assert_eq!(model.calls.load(Ordering::Relaxed), 1, "a second call would be the first one again");
    runtime.close().await;
}

/// Reports only what it had not read before, as some do.
#[tokio::test]
async fn a_server_whose_counts_leave_something_out_is_put_up_with() {
    let TestSession { runtime, session, .. } = &session_of_model(|input| (input / 4).max(1_200)).await;
    for turn in 1..8 {
        let settled = session.ask(&prose(turn)).await.unwrap();
        assert_eq!(settled.end, Some(RunEnd::Stop), "turn {turn}: {settled:?}");
    }
    let compactions = session.inspect_run(|run| run.history().compactions()).await.unwrap();
    assert!(compactions <= 2, "{compactions} compactions for nothing");
    runtime.close().await;
}

/// The server comes back with a smaller window while the session goes on.
#[tokio::test]
async fn a_window_that_changed_is_noticed() {
    let TestSession { runtime, session, model, .. } = &session_of_model(|input| input).await;
    let window = || session.inspect_run(|run| (run.budget().window, run.settings().model.window));
    assert_eq!(window().await.unwrap(), (32_000, None));
    model.window.store(9_000, Ordering::Relaxed);
    session.ask("go").await.unwrap();
    // The limits are asked for beside the run, so the new window may be adopted after the answer.
    for _ in 0..1_500 {
        if window().await.unwrap() == (9_000, Some(9_000)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(window().await.unwrap(), (9_000, Some(9_000)));
    let report = session.context().await.unwrap();
    assert_eq!((report.window, report.window_source.as_str()), (9_000, "server"));
    runtime.close().await;
}
