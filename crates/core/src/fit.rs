//! The planner as one function of a list of messages, for programs that keep their conversations themselves.

use std::sync::Arc;

use serde_json::Value;

use crate::budget::{Budget, StrategyTrigger};
use crate::estimate::MessageTokenCounter;
use crate::event::{Event, EventBody, FORMAT, NoteReason, ViewEdit};
use crate::history::History;
use crate::ids::{EditId, Seq, StepId};
use crate::message::{Message, ModelStopReason, Part, Role};
use crate::meter;
use crate::plan::{self, CompactionPolicy, ContextOverflow, MARK, Plan, PlanTrigger, SummaryWriterModel};
use crate::strategy::CompactionStrategy;

mod anthropic;
mod blocks;
mod call_names;
mod openai;
mod own;
mod window_filling;

use self::call_names::CallNames;
pub use self::own::{FittableContent, FittableMessage};
use self::own::{MessageFormat, fitted_messages};
use self::window_filling::WindowFillingStrategy;

/// The maximum number of edits. One is usual; a second follows if the first makes too little room.
const MAX_EDITS: usize = 8;

/// The room for messages, and the counter of their tokens.
#[derive(Clone, Debug)]
pub struct Window {
    tokens: u64,
    max_output_tokens: Option<u64>,
    fixed_tokens: u64,
    counter: MessageTokenCounter,
}

impl Window {
    /// Creates the window of a model, in tokens. A part stays free for the answer: 4,096 tokens, or a quarter of a
    /// small window ([`Budget::new`]).
    pub fn tokens(tokens: u64) -> Self {
        Self { tokens, max_output_tokens: None, fixed_tokens: 0, counter: MessageTokenCounter::default() }
    }

    /// Sets the request's own output limit, in tokens.
    #[must_use]
    pub fn max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Sets the tokens that the system prompt and the tools take.
    #[must_use]
    pub fn fixed_tokens(mut self, tokens: u64) -> Self {
        self.fixed_tokens = tokens;
        self
    }

    /// Sets the counter for messages, in place of the estimate for unknown models.
    #[must_use]
    pub fn counter(mut self, counter: MessageTokenCounter) -> Self {
        self.counter = counter;
        self
    }
}

/// Messages that fit a window, in the caller's type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FittedMessages<M = Message> {
    /// The messages to send, in order. Kept messages are unchanged, and an extract replaces the omitted
    /// messages. Every tool call has a result.
    pub messages: Vec<M>,
    /// The messages that are left out, as indices into the given list, ascending.
    pub left_out: Vec<usize>,
    /// The messages shown in part, as indices into the given list, ascending. Tool results become placeholders.
    /// A newest message that does not fit is shown by beginning and end.
    pub shortened: Vec<usize>,
    /// The estimated tokens of the messages, with the window's fixed tokens.
    pub tokens: u64,
}

/// Fits messages into a window. Messages that fit are returned unchanged.
///
/// Otherwise [`AdaptiveStrategy`](crate::strategy::AdaptiveStrategy) chooses the messages to leave out, until
/// the rest takes at most nine tenths of the window without the answer. An extract of the omitted messages
/// (todos, files, errors, names, the user's text) is made without a model. Old tool results make room first,
/// the oldest first, and become placeholders. The newest typed message always stays. Equal inputs give equal
/// outputs.
///
/// A result without its call is left out, because no provider accepts it. The fitted messages can be given again, with
/// newer ones behind them. [`fit_openai`] and [`fit_anthropic`] take the JSON of requests. [`FittableMessage`] adapts a
/// program's own type.
///
/// ```
/// use longhaul_core::message::{Message, Part};
/// use longhaul_core::{Window, fit};
///
/// let question = "What is the capital of France? ".repeat(100);
/// let messages: Vec<_> = (0..100).map(|at| Message::user(format!("m{at}"), vec![Part::text(&question)])).collect();
/// let fitted = fit(&messages, &Window::tokens(16_000))?;
/// assert!((6_000..12_000).contains(&fitted.tokens) && !fitted.left_out.is_empty());
/// assert_eq!(fitted.messages.last(), messages.last());
/// # Ok::<(), longhaul_core::plan::ContextOverflow>(())
/// ```
///
/// # Errors
/// [`ContextOverflow`] if not even the beginning and end of the newest typed message fit beside the fixed tokens.
pub fn fit<M: FittableMessage>(
    messages: &[M],
    window: &Window,
) -> Result<FittedMessages<M>, ContextOverflow> {
    fit_with(messages, window, Arc::new(WindowFillingStrategy::default()))
}

/// Fits messages as [`fit`] does, with another strategy. A strategy that asks for a summary gets an extract.
///
/// # Errors
/// As [`fit`].
pub fn fit_with<M: FittableMessage>(
    messages: &[M],
    window: &Window,
    strategy: Arc<dyn CompactionStrategy>,
) -> Result<FittedMessages<M>, ContextOverflow> {
    let format = MessageFormat { read: M::to_content, write: M::from_messages };
    fit_as(messages, window, strategy, &format)
}

/// Fits the `messages` of a request in the format of OpenAI's Chat Completions, as [`fit`] does. Messages that stay
/// keep all their fields. `system` and `developer` messages always stay, and count as fixed tokens.
///
/// ```
/// use longhaul_core::{Window, fit_openai};
/// use serde_json::json;
///
/// let mut messages = vec![json!({"role": "system", "content": "Be brief."})];
/// for at in 0..100 {
///     messages.push(json!({"role": "user", "content": format!("Question {at}? {}", "Why? ".repeat(300))}));
///     messages.push(json!({"role": "assistant", "content": "Because."}));
/// }
/// messages.push(json!({"role": "user", "content": "And now?", "name": "ada"}));
/// let fitted = fit_openai(&messages, &Window::tokens(16_000))?;
/// assert_eq!(fitted.messages.first(), messages.first());
/// assert_eq!(fitted.messages.last(), messages.last());
/// assert!(!fitted.left_out.is_empty());
/// # Ok::<(), longhaul_core::plan::ContextOverflow>(())
/// ```
///
/// # Errors
/// As [`fit`].
pub fn fit_openai(messages: &[Value], window: &Window) -> Result<FittedMessages<Value>, ContextOverflow> {
    let format = MessageFormat { read: openai::read_message, write: openai::write_message };
    fit_as(messages, window, Arc::new(WindowFillingStrategy::default()), &format)
}

/// Fits the `messages` of a request in the format of Anthropic's Messages API, as [`fit`] does. Messages that stay keep
/// all their fields. A message with several tool results may stay in part. The request's `system` and `tools` are no
/// messages: [`Window::fixed_tokens`] takes their tokens.
///
/// ```
/// use longhaul_core::{Window, fit_anthropic};
/// use serde_json::json;
///
/// let output = "nothing that matters\n".repeat(500);
/// let mut messages = vec![json!({"role": "user", "content": "Read the files."})];
/// for at in 0..20 {
///     let id = format!("toolu_{at}");
///     messages.push(json!({"role": "assistant", "content": [
///         {"type": "tool_use", "id": id, "name": "read", "input": {"path": at}},
///     ]}));
///     messages.push(json!({"role": "user", "content": [
///         {"type": "tool_result", "tool_use_id": id, "content": output},
///     ]}));
/// }
/// let fitted = fit_anthropic(&messages, &Window::tokens(16_000))?;
/// assert!(fitted.tokens < 12_000 && !fitted.shortened.is_empty());
/// assert_eq!(fitted.messages.last(), messages.last());
/// # Ok::<(), longhaul_core::plan::ContextOverflow>(())
/// ```
///
/// # Errors
/// As [`fit`].
pub fn fit_anthropic(messages: &[Value], window: &Window) -> Result<FittedMessages<Value>, ContextOverflow> {
    let format = MessageFormat { read: anthropic::read_message, write: anthropic::write_message };
    fit_as(messages, window, Arc::new(WindowFillingStrategy::default()), &format)
}

/// Fits messages of a format.
fn fit_as<M: Clone>(
    messages: &[M],
    window: &Window,
    strategy: Arc<dyn CompactionStrategy>,
    format: &MessageFormat<M>,
) -> Result<FittedMessages<M>, ContextOverflow> {
    let mut conversation = MessageOnlyHistory::new(window.counter.clone());
    let mut fixed_tokens = window.fixed_tokens;
    let mut places = Vec::with_capacity(messages.len());
    for message in messages {
        places.push(match (format.read)(message) {
            FittableContent::Instructions(text) => {
                // Instructions are never planned, so only their tokens enter the history's budget.
                let message = Message::user("", vec![Part::text(text)]);
                fixed_tokens += window.counter.message(&message);
                MessagePlace::Fixed
            }
            FittableContent::Messages(messages) => {
                MessagePlace::Log(messages.iter().map(|message| conversation.add(message)).collect())
            }
        });
    }
    let MessageOnlyHistory { history: whole, names } = conversation;
    let history = edited(&whole, fixed_tokens, window, strategy)?;
    let tokens = meter::read(&history, fixed_tokens).total;
    Ok(FittedMessages { tokens, ..fitted_messages(messages, &places, (&whole, &history), &names, format) })
}

/// The place of a given message in the history.
enum MessagePlace {
    /// No place: the message is always sent.
    Fixed,
    /// The positions of the message's parts; `None` for a result without a call.
    Log(Vec<Option<Seq>>),
}

/// Returns the history with the edits that make it fit.
fn edited(
    whole: &History,
    fixed_tokens: u64,
    window: &Window,
    strategy: Arc<dyn CompactionStrategy>,
) -> Result<History, ContextOverflow> {
    let mut history = whole.clone();
    let budget = Budget::new(window.tokens, window.max_output_tokens);
    // The list is given once, so it is edited only if it does not fit, and no model writes a summary.
    let policy = CompactionPolicy {
        trigger: Some(StrategyTrigger::Overflow),
        writer: SummaryWriterModel::Nobody,
        ..CompactionPolicy::new(strategy)
    };
    for at in 0..MAX_EDITS {
        let edit = match plan::plan(&history, fixed_tokens, &budget, &policy, &PlanTrigger::Routine) {
            Plan::Fits => break,
            Plan::Edit(edit) => *edit,
            Plan::DoesNotFit(misfit) => return Err(misfit),
            Plan::Summarise(draft) => match draft.finish_extractive(&history) {
                Ok(edit) => edit,
                // Why the extract failed does not matter: the removal below needs less room, or returns the error.
                Err(_) => removal(&history, fixed_tokens, &budget, &policy)?,
            },
        };
        let id = EditId::new(format!("fit-{at}"));
        history = history.with(EventBody::ViewEdited(Box::new(ViewEdit { id, ..edit })));
    }
    Ok(history)
}

/// Returns an edit that leaves messages out without an extract, because an extract makes too little room.
fn removal(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &CompactionPolicy,
) -> Result<ViewEdit, ContextOverflow> {
    match plan::without_summary(history, fixed_tokens, budget, policy, &PlanTrigger::Routine) {
        Plan::Edit(edit) => Ok(*edit),
        Plan::DoesNotFit(misfit) => Err(misfit),
        Plan::Fits | Plan::Summarise(_) => Err(ContextOverflow {
            fixed_tokens,
            needed_tokens: meter::read(history, fixed_tokens).bound(),
            usable_tokens: budget.usable,
            window_tokens: budget.window,
        }),
    }
}

/// A history of messages alone, without runs and steps.
struct MessageOnlyHistory {
    history: History,
    names: CallNames,
}

impl MessageOnlyHistory {
    /// Creates an empty history. The program has no tool `recall`, so that extracts and placeholders name no handles.
    fn new(counter: MessageTokenCounter) -> Self {
        let history = History::new(counter).without_recall();
        let mut conversation = Self { history, names: CallNames::default() };
        conversation.append(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
            folder: None,
        });
        conversation
    }

    /// Adds a message and returns the position; `None` for a result without a call.
    fn add(&mut self, message: &Message) -> Option<Seq> {
        match message.role {
            // An extract of an earlier call: as a typed message it would be quoted as the user's own words.
            Role::User if message.text().starts_with(MARK) => {
                let (message, why) = (message.clone(), NoteReason::Imported);
                Some(self.append(EventBody::NoteAdded { message, why }))
            }
            Role::User => {
                let message = message.clone();
                Some(self.append(EventBody::message_taken(message)))
            }
            Role::Assistant => Some(self.add_answer(message)),
            Role::Tool => self.add_result(message),
        }
    }

    fn add_answer(&mut self, message: &Message) -> Seq {
        let step_id = StepId::new(format!("s{}", self.history.last_seq()));
        let finish = if message.tool_calls().next().is_some() {
            ModelStopReason::ToolCalls
        } else {
            ModelStopReason::Stop
        };
        let message = self.names.rename_calls(message.clone());
        self.append(EventBody::AssistantAdded { step_id, message, finish, cut: None })
    }

    fn add_result(&mut self, message: &Message) -> Option<Seq> {
        let result = message.parts.iter().find_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            _ => None,
        })?;
        let result = self.names.rename_result(result.clone())?;
        // Providers refuse a result without an open call before it, and so does the fold.
        let is_open = self.history.open_calls().iter().any(|open| open.call.call_id == result.call_id);
        is_open.then(|| self.append(EventBody::ToolFinished { result }))
    }

    /// Appends an event and returns the position.
    fn append(&mut self, body: EventBody) -> Seq {
        let seq = self.history.last_seq() + 1;
        // A list of messages tells no times, and no decision of the planner needs them here.
        let folded = self.history.apply(&Event { seq, at: 0, format: FORMAT, body });
        // The events are built here in valid order, so the fold cannot refuse one.
        debug_assert!(folded.is_ok(), "{folded:?}");
        seq
    }
}

#[cfg(test)]
mod tests;
