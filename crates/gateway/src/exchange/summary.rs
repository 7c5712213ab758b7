//! The writing of summaries by the upstream's model, or by the configured summariser.

use std::time::Duration;

use futures_util::StreamExt;
use longhaul_core::error::ErrorCode;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::event::ViewEdit;
use longhaul_core::ids::Seq;
use longhaul_core::message::{Message, ModelAnswer, Part};
use longhaul_core::plan::{SummaryDraft, SummaryForm, SummaryRejection, SummaryRequest};
use longhaul_core::shortening::{self, MissingSummaryCause, SummaryProblem, SummaryWriting};
use longhaul_core::usage::Usage;
use longhaul_providers::{ModelEvent, ModelRequest, ProviderError};
use tokio::time::Instant;

use super::client_tools::ClientTools;
use super::in_context;
use super::log::ConversationLog;
use super::request_log::whole_ms;
use super::usage_totals::{PartialUsage, UsageTotals};
use super::view_editor::ViewEditor;
use longhaul_wire::edit::PartialResponse;

/// The multiple of the requested length at which reading stops: some servers ignore the limit.
const MOST_TIMES_ASKED: u64 = 4;

/// The length below which no summary is stopped, in tokens: a model may reason before it writes.
const LEAST_STOPPED_TOKENS: u64 = 2_000;

/// The amount of new text for one count, in bytes.
const COUNTED_AT_ONCE_BYTES: usize = 1_024;

/// The rejection of a summary that was stopped.
const TOO_LONG: &str = "it is too long";

/// An edit, with the cause if the edit holds an extract in the place of a summary.
pub(super) struct PlannedEdit {
    pub(super) edit: ViewEdit,
    /// The reason for an extract instead of a summary.
    pub(super) missing_summary_cause: Option<MissingSummaryCause>,
}

impl PlannedEdit {
    /// Returns an edit without a replacement.
    pub(super) fn as_wanted(edit: ViewEdit) -> Self {
        Self { edit, missing_summary_cause: None }
    }

    /// Returns an extract in the place of the summary; `None` if even the extract is too long.
    pub(super) fn extract(log: &ConversationLog, failed: &SummaryFailure) -> Option<Self> {
        let mut edit = failed.draft.finish_extractive(&log.history).ok()?;
        edit.why = format!("{} ({})", edit.why, failed.why.said);
        Some(Self { edit, missing_summary_cause: Some(failed.why.cause) })
    }
}

/// A failed summary: the reason, and the draft with its cost.
pub(super) struct SummaryFailure {
    pub(super) why: SummaryFailureReason,
    pub(super) draft: SummaryDraft,
}

/// The reason for a missing summary: a cause for the program, and a short text for people.
#[derive(Clone, Debug)]
pub(super) struct SummaryFailureReason {
    pub(super) cause: MissingSummaryCause,
    pub(super) said: String,
}

/// The longest text for people, in characters.
const MOST_SAID_CHARS: usize = 120;

impl SummaryFailureReason {
    /// Returns the reason of a request that does not wait: the summary is written after the request.
    pub(super) fn not_yet_asked() -> Self {
        Self {
            cause: MissingSummaryCause::NotYetAsked,
            said: "a summary is written beside the requests".to_owned(),
        }
    }

    fn new(cause: MissingSummaryCause, said: &str) -> Self {
        let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { cause, said: said.chars().take(MOST_SAID_CHARS).collect() }
    }
}

/// Writes the draft's summary and returns the edit.
///
/// # Errors
/// [`SummaryFailure`]; the reason is also logged.
pub(super) async fn write(
    editor: &ViewEditor,
    log: &ConversationLog,
    mut draft: SummaryDraft,
) -> Result<ViewEdit, SummaryFailure> {
    // The upstream has read the client's items up to there before, whatever came since.
    draft.end_requests_at_cut();
    let limit = Duration::from_millis(editor.budget.policy.summary_timeout_ms);
    let begun = Instant::now();
    let mut writing = SummaryWriting::new(draft, editor.budget.summary_budget());
    let answered = match tokio::time::timeout(limit, answer(editor, log, &mut writing)).await {
        Ok(answered) => answered,
        Err(_) => {
            let late = format!("the model's summary did not come within {} s", limit.as_secs_f64());
            // A slow writer may be faster later, so this is no rejection.
            Err((MissingSummaryCause::Away, late))
        }
    };
    let draft = writing.into_draft();
    let finished = match answered {
        Ok(()) => editor.request.work(|| finish(editor, log, &draft)).await,
        Err(problem) => Err(problem),
    };
    let (edit, usage) = (finished.as_ref().ok(), draft.usage());
    tracing::info!(
        writer = editor.request.writer(),
        is_used = edit.is_some(),
        before = edit.map(|edit| edit.original_tokens),
        after = edit.map(|edit| edit.compressed_tokens),
        input_tokens = usage.map(|usage| usage.input_tokens),
        output_tokens = usage.map(|usage| usage.output_tokens),
        duration_ms = whole_ms(begun.elapsed()),
        "the writing of a summary has ended"
    );
    finished.map_err(|(cause, problem)| {
        tracing::warn!(
            problem,
            cause = cause.as_str(),
            "no summary by a model: an extract stands in its place"
        );
        SummaryFailure { why: SummaryFailureReason::new(cause, &problem), draft }
    })
}

/// Returns the edit of a draft whose requests are all answered.
fn finish(
    editor: &ViewEditor,
    log: &ConversationLog,
    draft: &SummaryDraft,
) -> Result<ViewEdit, (MissingSummaryCause, String)> {
    let strategy = &*editor.budget.policy.strategy;
    shortening::finish_summary(draft, &log.history, strategy).map_err(|problem| {
        if let SummaryProblem::Rejected(rejected) = &problem {
            editor.budget.note_rejection(rejected);
        }
        (MissingSummaryCause::Rejected, problem.to_string())
    })
}

/// Answers the requests for a summary until none is left. After a refusal for length all are repeated once.
async fn answer(
    editor: &ViewEditor,
    log: &ConversationLog,
    writing: &mut SummaryWriting,
) -> Result<(), (MissingSummaryCause, String)> {
    loop {
        let Err(refused) = answer_all(editor, log, writing).await else { return Ok(()) };
        let SummaryAttemptFailure::Call(error) = &refused else { return Err(refused.said()) };
        let Some(window) = writing.restart_smaller(error.code, error.limit_tokens) else {
            return Err(refused.said());
        };
        let another = editor.request.compaction_setup.summariser.is_some();
        if let Some(limit) = error.limit_tokens.filter(|_| !another) {
            // The limit is a fact about the conversation's own model, so the next request uses it.
            editor.request.target.learn_window(limit);
        }
        tracing::info!(
            limit = error.limit_tokens,
            window,
            "a request for a summary was too long, and all are repeated with less"
        );
    }
}

enum SummaryAttemptFailure {
    Call(ProviderError),
    Rejected(SummaryRejection),
}

impl SummaryAttemptFailure {
    fn said(self) -> (MissingSummaryCause, String) {
        match self {
            Self::Call(error) => {
                let said = match error.status {
                    Some(status) => format!("the model was asked: HTTP {status}: {}", error.message),
                    None => format!("the model was asked: {}", error.message),
                };
                (MissingSummaryCause::of(error.code), said)
            }
            Self::Rejected(rejected) => (MissingSummaryCause::Rejected, rejected.to_string()),
        }
    }
}

async fn answer_all(
    editor: &ViewEditor,
    log: &ConversationLog,
    writing: &mut SummaryWriting,
) -> Result<(), SummaryAttemptFailure> {
    while let Some(asked) = editor.request.work(|| writing.next_request(&log.history)).await {
        let last = writing.draft().last_position().unwrap_or_default();
        let taken =
            match request_summary(editor, log, asked, last).await.map_err(SummaryAttemptFailure::Call)? {
                SummaryAnswer::Whole(answer) => writing.draft_mut().take(answer),
                SummaryAnswer::TooLong(usage) => {
                    tracing::info!(tokens = usage.output_tokens, "a summary was stopped: it became too long");
                    writing.draft_mut().spend(usage);
                    writing.draft_mut().reject(TOO_LONG)
                }
            };
        taken
            .inspect_err(|rejected| editor.budget.note_rejection(rejected))
            .map_err(SummaryAttemptFailure::Rejected)?;
    }
    Ok(())
}

/// The outcome of a request for a summary.
enum SummaryAnswer {
    Whole(ModelAnswer),
    /// The answer was stopped for its length, with its usage by the gateway's count.
    TooLong(Usage),
}

/// Sends one request for a summary. `last` is the newest position that the compaction touches.
async fn request_summary(
    editor: &ViewEditor,
    log: &ConversationLog,
    asked: SummaryRequest,
    last: Seq,
) -> Result<SummaryAnswer, ProviderError> {
    let exchange = &editor.request.proxied;
    let rides = asked.form == SummaryForm::Riding;
    let fixed = if rides {
        exchange.wire.fixed_content(&exchange.envelope).unwrap_or_default()
    } else {
        Default::default()
    };
    let among = if rides { log.system.as_slice() } else { &[] };
    let said = among.iter().filter_map(Part::as_text).chain([fixed.system.as_str()]);
    let system = said.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
    let request = ModelRequest {
        system,
        messages: asked.messages.iter().map(without_media).collect(),
        tools: ClientTools::normalized(fixed.tools).specs,
        max_output_tokens: Some(asked.max_output_tokens),
        ..ModelRequest::default()
    };
    let counter = log.history.counter();
    let most = asked.max_output_tokens.saturating_mul(MOST_TIMES_ASKED).max(LEAST_STOPPED_TOKENS);
    tracing::info!(
        writer = editor.request.writer(),
        form = ?asked.form,
        messages = asked.messages.len(),
        max_output = asked.max_output_tokens,
        "a summary is asked for"
    );
    let mut length = AnswerTokenCounter { counter, counted: 0, rest: String::new() };
    let mut bill =
        SummaryUsageGuard { totals: &editor.totals, is_open: true, counter, sent: &asked.messages };
    // Another model has none of the conversation in its prompt cache, so the client's bytes win nothing there.
    if rides && editor.request.compaction_setup.summariser.is_none() {
        let mut check = StreamLengthCheck { counter, max_tokens: most, checked_bytes: 0 };
        let is_enough = |seen: &PartialResponse| check.is_too_long(seen);
        match in_context::ask_in_context(&editor.request, log, &asked, last, is_enough).await {
            Some(Ok(seen)) => return end_of_ride(log, seen, most, &mut bill),
            Some(Err(error)) => {
                match error.code {
                    ErrorCode::TruncatedStream => bill.broken(&error),
                    _ => bill.refused(&error),
                }
                return Err(error);
            }
            None => {}
        }
    }
    let another = editor.request.compaction_setup.summariser.clone();
    let provider = match another {
        Some(another) => another,
        None => editor.request.provider()?,
    };
    let mut stream = provider.call(request).await.inspect_err(|error| bill.refused(error))?;
    while let Some(event) = stream.next().await {
        match event.inspect_err(|error| bill.broken(error))? {
            ModelEvent::Finished(answer) => {
                bill.paid(answer.usage.as_ref(), || parts_tokens(counter, &answer.parts));
                return Ok(SummaryAnswer::Whole(answer));
            }
            event => length.add(&event),
        }
        if length.tokens() > most {
            return Ok(SummaryAnswer::TooLong(bill.stopped(length.all())));
        }
    }
    Err(ProviderError::new(ErrorCode::TruncatedStream, "the stream ended before the summary did"))
}

/// Returns the outcome of an answer in the client's dialect.
fn end_of_ride(
    log: &ConversationLog,
    seen: PartialResponse,
    most: u64,
    bill: &mut SummaryUsageGuard<'_>,
) -> Result<SummaryAnswer, ProviderError> {
    let counter = log.history.counter();
    let output = counter.text(&seen.text) + counter.text(&seen.reasoning);
    match in_context::answer_of(seen) {
        Some(answer) => {
            bill.paid(answer.usage.as_ref(), || output);
            Ok(SummaryAnswer::Whole(answer))
        }
        None if output > most => Ok(SummaryAnswer::TooLong(bill.stopped(output))),
        None => {
            Err(ProviderError::new(ErrorCode::TruncatedStream, "the stream ended before the summary did"))
        }
    }
}

/// The length of an answer while it is read, in tokens by the gateway's count.
struct AnswerTokenCounter<'h> {
    counter: &'h MessageTokenCounter,
    counted: u64,
    /// The text not counted yet.
    rest: String,
}

impl AnswerTokenCounter<'_> {
    fn add(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Text(more) | ModelEvent::Reasoning(more) => self.rest.push_str(more),
            ModelEvent::ToolInput { delta, .. } => self.rest.push_str(delta),
            _ => {}
        }
    }

    /// Returns the tokens, without a last piece too short for a count.
    fn tokens(&mut self) -> u64 {
        if self.rest.len() >= COUNTED_AT_ONCE_BYTES { self.all() } else { self.counted }
    }

    fn all(&mut self) -> u64 {
        // Counted in blocks: a count of each small piece would round up at every seam.
        self.counted += self.counter.text(&std::mem::take(&mut self.rest));
        self.counted
    }
}

/// A check of an answer's length while it is read in the client's dialect.
struct StreamLengthCheck<'h> {
    counter: &'h MessageTokenCounter,
    max_tokens: u64,
    /// The length of the answer at the newest count, in bytes.
    checked_bytes: usize,
}

impl StreamLengthCheck<'_> {
    /// Returns whether the answer is too long. A last piece too short for a count is ignored.
    fn is_too_long(&mut self, seen: &PartialResponse) -> bool {
        if seen.written_bytes() < self.checked_bytes + COUNTED_AT_ONCE_BYTES {
            return false;
        }
        self.checked_bytes = seen.written_bytes();
        self.counter.text(&seen.text) + self.counter.text(&seen.reasoning) > self.max_tokens
    }
}

/// Returns the tokens of parts by the gateway's count.
fn parts_tokens<'p>(counter: &MessageTokenCounter, parts: impl IntoIterator<Item = &'p Part>) -> u64 {
    parts.into_iter().map(|part| counter.part(part)).sum()
}

/// The bill of a call. Dropping the bill accounts for an abandoned call, too.
struct SummaryUsageGuard<'t> {
    totals: &'t UsageTotals,
    is_open: bool,
    counter: &'t MessageTokenCounter,
    /// The messages of the request.
    sent: &'t [Message],
}

impl SummaryUsageGuard<'_> {
    /// Returns the sent tokens, by the gateway's count.
    fn input_tokens(&self) -> u64 {
        parts_tokens(self.counter, self.sent.iter().flat_map(|message| &message.parts))
    }

    /// Bills an answered call. `written` supplies the output tokens if the server reports nothing.
    fn paid(&mut self, usage: Option<&Usage>, written: impl FnOnce() -> u64) {
        self.is_open = false;
        self.totals.add(usage, || PartialUsage {
            input: self.input_tokens(),
            output: written(),
            is_estimated: true,
        });
    }

    /// Bills a call that was stopped after `output` tokens.
    fn stopped(&mut self, output: u64) -> Usage {
        self.is_open = false;
        let input = self.input_tokens();
        self.totals.partial(PartialUsage { input, output, is_estimated: true });
        Usage { input_tokens: input, output_tokens: output, ..Usage::default() }
    }

    /// Bills a call whose answer did not begin.
    fn refused(&mut self, error: &ProviderError) {
        match &error.usage {
            Some(usage) => self.paid(Some(usage), || 0),
            // After a time-out the upstream may have read the whole input. The open bill counts it when
            // dropped.
            None if error.code == ErrorCode::Timeout => {}
            None => {
                self.is_open = false;
                // Without a status the server was never reached, so nothing was billed.
                if error.status.is_some() {
                    self.totals.refused();
                }
            }
        }
    }

    /// Bills a call that broke off, if the server reported usage. Otherwise dropping the bill counts the input.
    fn broken(&mut self, error: &ProviderError) {
        if let Some(usage) = &error.usage {
            self.paid(Some(usage), || 0);
        }
    }
}

impl Drop for SummaryUsageGuard<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.totals.unanswered(self.input_tokens());
        }
    }
}

/// Returns the message with media replaced by text. Media are only in the client's request, and a summary does not need
/// them.
fn without_media(message: &Message) -> Message {
    Message { parts: message.parts.iter().map(part_without_media).collect(), ..message.clone() }
}

fn part_without_media(part: &Part) -> Part {
    match part {
        Part::Image(_) | Part::File(_) => Part::text("[picture or file]"),
        Part::ToolResult(result) => {
            let mut result = result.clone();
            for part in &mut result.content {
                if matches!(part, Part::Image(_) | Part::File(_)) {
                    *part = Part::text("[picture or file]");
                }
            }
            Part::ToolResult(result)
        }
        other => other.clone(),
    }
}
