//! Strategies that write the replacement of old messages themselves, asynchronously.

use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use longhaul_core::history::History;
use longhaul_core::ids::SessionId;
use longhaul_core::message::Message;
use longhaul_core::run::{PreCompactInput, PreCompactOutput};
use longhaul_core::strategy::CompactionStrategy;

/// The default time for a strategy to write a replacement.
pub(crate) const REPLACEMENT_DEADLINE: Duration = Duration::from_secs(60);

/// A strategy that writes the text in the place of old messages. The strategy may ask a model, a database or a service.
///
/// [`CompactionStrategy::choose`] says which messages go, without waiting, as for every strategy. The choice has
/// [`UnitReplacement::Summary`](longhaul_core::strategy::UnitReplacement::Summary). Then
/// [`write_replacement`](Self::write_replacement) is given these messages, beside the session: the planner waits as for
/// a model's summary. A PreCompact hook is asked first, and may cancel or write the text itself.
///
/// ```
/// use longhaul::prelude::*;
///
/// /// Keeps the newest two turns, and counts the rest.
/// struct Counted;
///
/// impl CompactionStrategy for Counted {
///     fn name(&self) -> &str {
///         "counted"
///     }
///     fn trigger(&self) -> StrategyTrigger {
///         StrategyTrigger::Share(0.7)
///     }
///     fn choose(&self, context: &PlanContext<'_>, _: ProtectionLevel) -> Option<CompactionSelection> {
///         let cut = context.turn_start(2);
///         (cut > 0).then(|| CompactionSelection::new(context.before_cut(cut), UnitReplacement::Summary { tokens: 500 }))
///     }
/// }
///
/// #[longhaul::async_trait]
/// impl AsyncStrategy for Counted {
///     async fn write_replacement(&self, request: ReplacementRequest) -> Result<String, ReplacementError> {
///         Ok(format!("{} messages went.", request.messages.len()))
///     }
/// }
///
/// let builder = Agent::builder().async_strategy(Counted);
/// ```
#[async_trait]
pub trait AsyncStrategy: CompactionStrategy {
    /// Writes the text in the place of the messages. The model reads the text as a summary.
    ///
    /// # Errors
    /// Any error, and so a panic and a late text, is logged. The session's model writes the summary then. The same
    /// happens where the text is empty or too long for the request to fit.
    async fn write_replacement(&self, request: ReplacementRequest) -> Result<String, ReplacementError>;

    /// Returns the time limit of [`write_replacement`](Self::write_replacement).
    fn deadline(&self) -> Duration {
        REPLACEMENT_DEADLINE
    }
}

/// An error of [`AsyncStrategy::write_replacement`].
pub type ReplacementError = Box<dyn Error + Send + Sync>;

/// The input for writing a replacement.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReplacementRequest {
    /// The session.
    pub session_id: SessionId,
    /// The messages to be replaced, as the model was shown them, in order.
    pub messages: Vec<Message>,
    /// The intended maximum length of the text, in tokens. A longer text is used if the request fits all the same.
    pub limit_tokens: u64,
    /// The instructions of a person or a hook for the summary.
    pub instructions: Option<String>,
}

impl ReplacementRequest {
    /// Returns the request for a compaction of a session; `None` for a compaction without a text.
    pub(crate) fn new(session_id: &SessionId, ask: &PreCompactInput, history: &History) -> Option<Self> {
        let gone = history
            .view()
            .iter()
            .filter(|item| ask.what_goes.iter().any(|handle| handle.0.overlaps(&item.range)));
        (ask.limit_tokens > 0).then(|| Self {
            session_id: session_id.clone(),
            messages: gone.map(|item| Message::clone(&item.message)).collect(),
            limit_tokens: ask.limit_tokens,
            instructions: ask.custom_instructions.clone(),
        })
    }
}

/// Returns a hook's answer with the strategy's text, unless the hook cancels or has written a text.
pub(crate) async fn with_replacement(
    strategy: &dyn AsyncStrategy,
    mut request: ReplacementRequest,
    answer: Option<PreCompactOutput>,
) -> Option<PreCompactOutput> {
    let answer = answer.unwrap_or_default();
    if answer.cancel || answer.custom_summary.is_some() {
        return Some(answer);
    }
    if answer.custom_instructions.is_some() {
        request.instructions.clone_from(&answer.custom_instructions);
    }
    let session_id = request.session_id.clone();
    // A panic before the future exists is one of the strategy, too.
    let writing = AssertUnwindSafe(async { strategy.write_replacement(request).await }).catch_unwind();
    let error = match tokio::time::timeout(strategy.deadline(), writing).await {
        Ok(Ok(Ok(text))) => return Some(PreCompactOutput { custom_summary: Some(text), ..answer }),
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(_)) => "it panicked".to_owned(),
        Err(_) => format!("it did not write within {} ms", strategy.deadline().as_millis()),
    };
    let (strategy, session) = (strategy.name(), session_id.as_str());
    tracing::warn!(strategy, session, error, "a strategy wrote no replacement; the model writes the summary");
    Some(answer)
}
