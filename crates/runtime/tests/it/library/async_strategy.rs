//! A strategy that writes its own replacement texts.

use std::time::Duration;

use longhaul::async_trait;
use longhaul::core::history::ViewItemKind;

use super::*;

/// Keeps the newest two turns; the text for the rest comes late, not at all, or with a panic.
struct Slow {
    text: Result<&'static str, &'static str>,
    delay: Duration,
    requests: mpsc::UnboundedSender<ReplacementRequest>,
}

impl CompactionStrategy for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.5)
    }
    fn choose(&self, context: &PlanContext<'_>, _: ProtectionLevel) -> Option<CompactionSelection> {
        let cut = context.turn_start(2);
        (cut > 0).then(|| {
            CompactionSelection::new(context.before_cut(cut), UnitReplacement::Summary { tokens: 300 })
        })
    }
}

#[async_trait]
impl AsyncStrategy for Slow {
    async fn write_replacement(&self, request: ReplacementRequest) -> Result<String, ReplacementError> {
        tokio::time::sleep(self.delay).await;
        self.requests.send(request)?;
        Ok(self.text?.to_owned())
    }
    fn deadline(&self) -> Duration {
        Duration::from_secs(5)
    }
}

struct Outcome {
    strategies: Vec<String>,
    summary: String,
    summaries_asked: usize,
    requests: Vec<ReplacementRequest>,
}

/// Talks until a compaction was made.
async fn compacted(
    text: Result<&'static str, &'static str>,
    delay: Duration,
    change: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Outcome {
    let (builder, model) = scripted(ModelScript::always("The value is what it was before. ".repeat(20)));
    let (requests, mut asked) = mpsc::unbounded_channel();
    let builder = builder.window_tokens(8_000).async_strategy(Slow { text, delay, requests });
    let agent = change(builder).build().await.unwrap();
    let session = agent.session().await.unwrap();
    let mut strategies = Vec::new();
    for at in 0..60 {
        let (events, output) = whole_turn(&session, &format!("Question {at}: what is the value?")).await;
        output.unwrap();
        strategies.extend(events.into_iter().filter_map(|event| match event {
            SessionEvent::Compacted { strategy, .. } => Some(strategy),
            _ => None,
        }));
        if !strategies.is_empty() {
            break;
        }
    }
    let summary = |item: &longhaul::core::history::ViewItem| {
        matches!(item.kind, ViewItemKind::Summary(_)).then(|| item.message.text())
    };
    let summary =
        session.inspect_run(move |run| run.history().view().iter().find_map(summary)).await.unwrap();
    let summaries_asked = model.log().iter().filter(|call| call.kind == ScriptedCallKind::Summary).count();
    let requests = std::iter::from_fn(|| asked.try_recv().ok()).collect();
    Outcome { strategies, summary: summary.unwrap_or_default(), summaries_asked, requests }
}

#[tokio::test(start_paused = true)]
async fn its_text_stands_in_the_place_of_what_goes() {
    let outcome = compacted(Ok("Written after a while."), Duration::from_secs(2), |builder| builder).await;
    assert_eq!(outcome.strategies, ["slow"]);
    assert!(outcome.summary.contains("Written after a while."), "{}", outcome.summary);
    assert_eq!(outcome.summaries_asked, 0, "no model is asked");
    let request = &outcome.requests[0];
    assert!(
        request.messages.len() > 4 && request.messages[0].text().starts_with("Question 0:"),
        "{request:?}"
    );
    assert!((100..=300).contains(&request.limit_tokens), "{}", request.limit_tokens);
}

#[tokio::test(start_paused = true)]
async fn the_model_writes_where_it_fails_or_is_late() {
    for (text, seconds) in [(Err("the service is away"), 0), (Ok("Too late."), 6)] {
        let outcome = compacted(text, Duration::from_secs(seconds), |builder| builder).await;
        assert_eq!(outcome.strategies, ["slow"]);
        assert!(outcome.summaries_asked > 0 && !outcome.summary.contains("Too late."), "{}", outcome.summary);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_asked_first() {
    let outcome = compacted(Ok("Of the strategy."), Duration::ZERO, |builder| {
        builder.on_pre_compact(|_| async { PreCompactDecision::instruct("Keep every number.") })
    })
    .await;
    assert_eq!(outcome.requests[0].instructions.as_deref(), Some("Keep every number."));
    let outcome = compacted(Ok("Of the strategy."), Duration::ZERO, |builder| {
        builder.on_pre_compact(|_| async { PreCompactDecision::summarize("Of the hook.") })
    })
    .await;
    assert!(outcome.summary.contains("Of the hook.") && outcome.requests.is_empty(), "{}", outcome.summary);
}
