//! A model with a script: deterministic, without network, and as strict as the strictest real server.
//!
//! The scripted model replaces a real model in tests, simulations and the demo. The model refuses every request
//! against the [rules](longhaul_wire::validation) and enforces a window by counting tokens. Answers stream in small
//! deltas, calls fail on demand in every way seen in the field, and a [log](ScriptedProvider::log) keeps all calls.
//!
//! ```
//! use longhaul_providers::scripted::{ModelScript, ScriptedProvider, ScriptedAnswer};
//! let model = ScriptedProvider::new(ModelScript::turns([
//!     ScriptedAnswer::text("Let me look.").call("read", r#"{"path":"notes.md"}"#),
//!     ScriptedAnswer::text("It says hello."),
//! ]))
//! .window(8_000);
//! assert!(model.log().is_empty());
//! ```

mod count;
mod log;
mod play;
mod script;
mod summary;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Message, ModelOrigin, ToolSpec};
use serde::Serialize;

pub use self::count::ScriptedTokenCounter;
pub use self::log::{ScriptedCallKind, ScriptedCallOutcome, ScriptedCallRecord};
pub use self::script::{CallIndex, ModelScript, ScriptedAnswer, ScriptedFault, ScriptedPart, ScriptedUsage};
pub use self::summary::{ScriptedSummaries, is_summary_request};

use self::log::ScriptedCallLog;
use self::play::ScriptedPlayback;
use crate::{LimitSource, Limits, ModelRequest, ModelStream, Provider, ProviderError};
use longhaul_wire::validation;

/// The default window of a scripted model, in tokens.
pub const DEFAULT_WINDOW_TOKENS: u64 = 128_000;

type IsSummary = Arc<dyn Fn(&ModelRequest) -> bool + Send + Sync>;

/// A scripted model. See the [module](self).
pub struct ScriptedProvider {
    script: ModelScript,
    model: String,
    window: u64,
    max_output: Option<u64>,
    count: ScriptedTokenCounter,
    reserves_output: bool,
    prefill: bool,
    tools: bool,
    images: bool,
    summaries: Option<ScriptedSummaries>,
    is_summary: IsSummary,
    faults: BTreeMap<CallIndex, ScriptedFault>,
    log: ScriptedCallLog,
    turn: AtomicU64,
    attempt: AtomicU64,
}

impl ScriptedProvider {
    /// Creates a model with the script `script` and a window of [`DEFAULT_WINDOW_TOKENS`].
    pub fn new(script: ModelScript) -> Self {
        Self {
            script,
            model: "scripted".to_owned(),
            window: DEFAULT_WINDOW_TOKENS,
            max_output: None,
            count: ScriptedTokenCounter::default(),
            reserves_output: true,
            prefill: false,
            tools: true,
            images: true,
            summaries: None,
            is_summary: Arc::new(is_summary_request),
            faults: BTreeMap::new(),
            log: ScriptedCallLog::default(),
            turn: AtomicU64::new(0),
            attempt: AtomicU64::new(0),
        }
    }

    /// Sets the model's name.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = name.into();
        self
    }

    /// Sets the context window, in tokens.
    #[must_use]
    pub fn window(mut self, tokens: u64) -> Self {
        self.window = tokens;
        self
    }

    /// Sets the largest output of a call, in tokens. A request for more is refused.
    #[must_use]
    pub fn max_output(mut self, tokens: u64) -> Self {
        self.max_output = Some(tokens);
        self
    }

    /// Sets the counter for the model's reports and limits.
    #[must_use]
    pub fn count(mut self, count: ScriptedTokenCounter) -> Self {
        self.count = count;
        self
    }

    /// Accepts a request without room for the output limit beside the input, as llama.cpp does. The answer then ends
    /// with `length` where the window ends. By default such a request is refused.
    #[must_use]
    pub fn without_output_reserve(mut self) -> Self {
        self.reserves_output = false;
        self
    }

    /// Accepts requests with the beginning of the answer at the end.
    #[must_use]
    pub fn with_prefill(mut self) -> Self {
        self.prefill = true;
        self
    }

    /// Refuses requests with tools.
    #[must_use]
    pub fn without_tools(mut self) -> Self {
        self.tools = false;
        self
    }

    /// Refuses requests with images.
    #[must_use]
    pub fn without_images(mut self) -> Self {
        self.images = false;
        self
    }

    /// Answers every recognised summary request as `how` describes, without the script.
    ///
    /// By default, a list of turns leaves summary requests to [`ScriptedSummaries::Extract`]. A closure is asked
    /// first; if the closure returns `None`, the extract is the answer.
    #[must_use]
    pub fn summaries(mut self, how: ScriptedSummaries) -> Self {
        self.summaries = Some(how);
        self
    }

    /// Replaces the rule for recognising a summary request, [`is_summary_request`].
    #[must_use]
    pub fn recognise_summaries(
        mut self,
        rule: impl Fn(&ModelRequest) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.is_summary = Arc::new(rule);
        self
    }

    /// Lets a single attempt fail. Attempts count from 0 and are the valid, fitting requests other than summary
    /// requests. The script's turn is not used up: the next attempt gets the same turn.
    #[must_use]
    pub fn fail_at(mut self, attempt: CallIndex, fault: ScriptedFault) -> Self {
        self.faults.insert(attempt, fault);
        self
    }

    /// Keeps every request whole in the log.
    #[must_use]
    pub fn keep_requests(mut self) -> Self {
        self.log.keep_requests();
        self
    }

    /// Returns the records of all calls so far, in the order of their arrival.
    pub fn log(&self) -> Vec<ScriptedCallRecord> {
        self.log.records()
    }

    /// Returns the number of requests refused by the rules.
    pub fn invalid_requests(&self) -> usize {
        self.log.records().iter().filter(|record| record.violation.is_some()).count()
    }

    /// Returns the number of used turns of the script.
    pub fn turns_used(&self) -> CallIndex {
        self.turn.load(Ordering::SeqCst)
    }

    /// Returns the model's count of `request`, in tokens.
    pub fn count_input(&self, request: &ModelRequest) -> u64 {
        self.count.input(request)
    }

    fn check_request(&self, request: &ModelRequest) -> Result<(), ScriptedRefusal> {
        let rules = if self.prefill { validation::check_prefill } else { validation::check };
        rules(request).map_err(|violation| ScriptedRefusal::Invalid(Box::new(violation)))?;
        if !self.tools && !request.tools.is_empty() {
            return Err(ScriptedRefusal::error(invalid("this model does not support tools")));
        }
        if !self.images && request.messages.iter().any(has_image) {
            return Err(ScriptedRefusal::error(invalid("this model does not support image input")));
        }
        if let (Some(asked), Some(most)) = (request.max_output_tokens, self.max_output)
            && asked > most
        {
            let message = format!(
                "max_tokens is too large: {asked}. This model supports at most {most} completion tokens, whereas you \
                 provided {asked}."
            );
            return Err(ScriptedRefusal::error(invalid(&message)));
        }
        Ok(())
    }

    fn check_window(&self, input: u64, request: &ModelRequest) -> Result<(), ProviderError> {
        let output = request.max_output_tokens.filter(|_| self.reserves_output);
        if input > self.window {
            return Err(overflow(Some(input), Some(self.window), None));
        }
        match output {
            // OpenAI refuses a request whose output limit does not fit beside its input.
            Some(output) if input.saturating_add(output) > self.window => {
                Err(overflow(Some(input), Some(self.window), Some(output)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the room for the output of a call, in tokens.
    fn room(&self, input: u64, request: &ModelRequest) -> u64 {
        let asked = request.max_output_tokens.unwrap_or(u64::MAX);
        self.window.saturating_sub(input).min(asked).min(self.max_output.unwrap_or(u64::MAX))
    }

    fn answer(
        &self,
        request: &ModelRequest,
        kind: ScriptedCallKind,
    ) -> Result<(ScriptedAnswer, CallIndex), ProviderError> {
        let turn = self.turn.load(Ordering::SeqCst);
        // Summary requests take no turn, so a script need not know when a compaction happens.
        if kind == ScriptedCallKind::Summary
            && let Some(how) = self.summaries.as_ref().or(self.script.default_summaries())
        {
            return Ok((how.answer(request), turn));
        }
        let fault = self.faults.get(&self.attempt.fetch_add(1, Ordering::SeqCst));
        // A failed attempt does not use its turn up, so a retry gets the answer that the script meant.
        let turn = if fault.is_some() { turn } else { self.turn.fetch_add(1, Ordering::SeqCst) };
        let scripted = self.script.answer(request, turn);
        let answer = match scripted {
            Some(answer) => answer,
            // A list that is used up is a mistake of the test, and must not pass for an answer.
            None if self.script.is_list() => return Err(over(turn)),
            None => ScriptedSummaries::Extract.answer(request),
        };
        let answer = fault.into_iter().fold(answer, |answer, fault| answer.fail(fault.clone()));
        Ok((answer, turn))
    }

    fn play_answer(
        &self,
        request: &ModelRequest,
        input: u64,
        kind: ScriptedCallKind,
    ) -> Result<ScriptedPlayback, ProviderError> {
        // An overlong request is refused before it can take a turn of the script.
        self.check_window(input, request)?;
        let (answer, turn) = self.answer(request, kind)?;
        if let Some(error) = answer.refusal() {
            return Err(error);
        }
        Ok(ScriptedPlayback::compose(answer, &self.count, input, self.room(input, request), turn))
    }
}

/// The reason for a request's refusal.
enum ScriptedRefusal {
    Invalid(Box<validation::RequestViolation>),
    Error(Box<ProviderError>),
}

impl ScriptedRefusal {
    fn error(error: ProviderError) -> Self {
        Self::Error(Box::new(error))
    }
}

#[async_trait]
impl Provider for ScriptedProvider {
    fn origin(&self) -> ModelOrigin {
        ModelOrigin { provider: "scripted".into(), api: "scripted".into(), model: self.model.clone() }
    }

    async fn limits(&self) -> Limits {
        Limits {
            window: Some(self.window),
            max_output: self.max_output,
            source: LimitSource::Declared,
            tools: self.tools.into(),
            images: self.images.into(),
            prefill: self.prefill.into(),
            ..Limits::default()
        }
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        render(request).map_err(|error| invalid(&error.to_string()))
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        // The model counts every request, even one that it refuses, so that the log always has a count.
        let input = self.count.input(&request);
        let kind =
            if (self.is_summary)(&request) { ScriptedCallKind::Summary } else { ScriptedCallKind::Main };
        // The call is logged before any check, so that the log has refused requests too.
        let entry = self.log.open(kind, input, self.render(&request)?, &request);
        match self.check_request(&request) {
            Err(ScriptedRefusal::Invalid(violation)) => {
                let error = invalid(&violation.to_string());
                entry.invalid(*violation);
                return Err(error);
            }
            Err(ScriptedRefusal::Error(error)) => {
                entry.refuse(error.code);
                return Err(*error);
            }
            Ok(()) => {}
        }
        match self.play_answer(&request, input, kind) {
            Ok(play) => Ok(play.stream(entry)),
            Err(error) => {
                entry.refuse(error.code);
                Err(error)
            }
        }
    }
}

impl fmt::Debug for ScriptedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedProvider")
            .field("model", &self.model)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

/// The body of a request, as hashed and rendered by the model.
#[derive(Serialize)]
struct ScriptedRequestBody<'a> {
    system: &'a str,
    tools: &'a [ToolSpec],
    messages: &'a [Message],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
}

fn render(request: &ModelRequest) -> Result<Bytes, serde_json::Error> {
    let rendered = ScriptedRequestBody {
        system: &request.system,
        tools: &request.tools,
        messages: &request.messages,
        max_output_tokens: request.max_output_tokens,
    };
    serde_json::to_vec(&rendered).map(Bytes::from)
}

fn has_image(message: &Message) -> bool {
    use longhaul_core::message::Part;
    message.parts.iter().any(|part| match part {
        Part::ToolResult(result) => result.content.iter().any(|part| matches!(part, Part::Image(_))),
        part => matches!(part, Part::Image(_)),
    })
}

fn invalid(message: &str) -> ProviderError {
    let body = error_body(message, "invalid_request_error", None);
    ProviderError {
        status: Some(400),
        body: Some(body),
        ..ProviderError::new(ErrorCode::InvalidRequest, message)
    }
}

fn over(turn: CallIndex) -> ProviderError {
    let message = format!("the script has no turn {turn}");
    ProviderError {
        // Not retryable: a script that has ended has no turn at the next attempt either.
        status: Some(500),
        retryable: false,
        ..ProviderError::new(ErrorCode::ThirdParty, message)
    }
}

/// Returns the overflow error of OpenAI's chat API, with the given numbers.
fn overflow(input: Option<u64>, limit: Option<u64>, output: Option<u64>) -> ProviderError {
    let message = overflow_text(input, limit, output);
    let body = error_body(&message, "invalid_request_error", Some("context_length_exceeded"));
    ProviderError {
        status: Some(400),
        used_tokens: input,
        limit_tokens: limit,
        body: Some(body),
        ..ProviderError::new(ErrorCode::ContextOverflow, message)
    }
}

fn overflow_text(input: Option<u64>, limit: Option<u64>, output: Option<u64>) -> String {
    let (Some(input), Some(limit)) = (input, limit) else {
        return "Your input exceeds the context window of this model. Please adjust your input and try again.".into();
    };
    match output {
        Some(output) => format!(
            "This model's maximum context length is {limit} tokens. However, you requested {} tokens ({input} in \
             the messages, {output} in the completion). Please reduce the length of the messages or completion.",
            input.saturating_add(output)
        ),
        None => format!(
            "This model's maximum context length is {limit} tokens. However, your messages resulted in {input} \
             tokens. Please reduce the length of the messages."
        ),
    }
}

fn error_body(message: &str, kind: &str, code: Option<&str>) -> String {
    serde_json::json!({ "error": { "message": message, "type": kind, "param": "messages", "code": code } })
        .to_string()
}

#[cfg(test)]
mod tests;
