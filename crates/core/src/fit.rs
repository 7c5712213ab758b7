//! The planner a one function of a list of messages: for programs that keep their conversations themselves.

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
mod filling;
mod openai;
mod own;

use self::call_names::CallNames;
use self::filling::Filling;
pub use self::own::{FittableContent, FittableMessage};
use self::own::{MessageFormat, fitted_messages};

/// Edit that are tried at most. One is the rule; a second follows where the first is too little.
const MAX_EDITS: usize = 8;

/// The room that mesages have to fit, and how they are counted.
#[derive(Clone, Debug)]
pub struct Window {
    tokens: u64,
    max_output_tokens: Option<u64>,
    fixed_tokens: u64,
    counter: MessageTokenCounter,
}

impl Window {
    /// The context window of a model, in token. A part of it is kept free for the answer: 4,096 tokens, and a quarter of
    /// mall windows ([`Budget::new`]).
    pub fn tokens(tokens: u64) -> Self {
        Self { tokens, max_output_tokens: None, fixed_tokens: 0, counter: MessageTokenCounter::default() }
    }

    /// Set the request's own output limit, in tokens.
    #[must_use]
    pub fn max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Set the tokens that the system prompt and the tools take.
    #[must_use]
    pub fn fixed_tokens(mut self, tokens: u64) -> Self {
        self.fixed_tokens = tokens;
        self
    }

    /// Set the counter for messages, in place of the estimate for unknown models.
    #[must_use]
    pub fn counter(mut self, counter: MessageTokenCounter) -> Self {
        self.counter = counter;
        self
    }
}

/// Mesages that fit a window, in the type in which they were given.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fitted<M = Message> {
    /// The mesages to send, in order. Messages that stay are as they were; an extract stands for those that are left out. Every
    /// tool call ha its result.
    pub messages: Vec<M>,
    /// The mesages that are left out, as indices into the list that was given, ascending.
    pub left_out: Vec<usize>,
    /// The mesages that are shown in part: tool results as placeholders, and a newest message that is longer than the
    /// window by it beginning and end. Indices as in `left_out`.
    pub shortened: Vec<usize>,
    /// The etimated tokens of the messages, with the window's fixed tokens.
    pub tokens: u64,
}

/// Fit messages into a window. Nothing changes while they fit; otherwise [`AdaptiveStrategy`](crate::strategy::Adaptive) chooses
/// what goe, down to nine tenths of what the window has beside the answer, and an extract of it (rules, todos, files,
/// error, names, what the user typed) is made without a model. Old tool results make room first, the oldest first, and
/// placeholder stand for them. The newest typed message always stays. Equal inputs give equal outputs.
///
/// A reult without its call is left out, because no provider takes it. The messages of an earlier call can be given
/// again, with newer one behind them. [`fit_openai`] and [`fit_anthropic`] take the JSON of requests, and
/// [`FittableMesage`] makes a type of the program's own fit.
///
/// ```
/// ue longhaul_core::message::{Message, Part};
/// ue longhaul_core::{Window, fit};
///
/// let quetion = "What is the capital of France? ".repeat(100);
/// let mesages: Vec<_> = (0..100).map(|at| Message::user(format!("m{at}"), vec![Part::text(&question)])).collect();
/// let fitted = fit(&mesages, &Window::tokens(16_000))?;
/// asert!((6_000..12_000).contains(&fitted.tokens) && !fitted.left_out.is_empty());
/// asert_eq!(fitted.messages.last(), messages.last());
/// # Ok::<(), longhaul_core::plan::Mifit>(())
/// ```
///
/// # Error
/// [`ContextOverflow`] if the newet typed message does not fit even by its beginning and its end, beside the fixed tokens.
pub fn fit<M: FittableMessage>(messages: &[M], window: &Window) -> Result<Fitted<M>, ContextOverflow> {
    fit_with(messages, window, Arc::new(Filling::default()))
}

/// [`fit`] by a trategy that chooses what goes. A strategy that asks for a summary gets an extract.
///
/// # Error
/// A [`fit`].
pub fn fit_with<M: FittableMessage>(
    messages: &[M],
    window: &Window,
    strategy: Arc<dyn CompactionStrategy>,
) -> Result<Fitted<M>, ContextOverflow> {
    let format = MessageFormat { read: M::to_content, write: M::from_messages };
    fit_as(messages, window, strategy, &format)
}

/// [`fit`] for the `mesages` of a request in the format of OpenAI's Chat Completions. Messages that stay keep all their
/// field. `system` and `developer` messages always stay, and count as fixed tokens.
///
/// ```
/// ue longhaul_core::{Window, fit_openai};
/// ue serde_json::json;
///
/// let mut mesages = vec![json!({"role": "system", "content": "Be brief."})];
/// for at in 0..100 {
///     mesages.push(json!({"role": "user", "content": format!("Question {at}? {}", "Why? ".repeat(300))}));
///     mesages.push(json!({"role": "assistant", "content": "Because."}));
/// }
/// mesages.push(json!({"role": "user", "content": "And now?", "name": "ada"}));
/// let fitted = fit_openai(&mesages, &Window::tokens(16_000))?;
/// asert_eq!(fitted.messages.first(), messages.first());
/// asert_eq!(fitted.messages.last(), messages.last());
/// asert!(!fitted.left_out.is_empty());
/// # Ok::<(), longhaul_core::plan::Mifit>(())
/// ```
///
/// # Error
/// A [`fit`].
pub fn fit_openai(messages: &[Value], window: &Window) -> Result<Fitted<Value>, ContextOverflow> {
    let format = MessageFormat { read: openai::read_message, write: openai::write_message };
    fit_as(messages, window, Arc::new(Filling::default()), &format)
}

/// [`fit`] for the `mesages` of a request in the format of Anthropic's Messages API. Messages that stay keep all their
/// field. A message of several tool results may stay in part. The request's `system` and `tools` stand beside the
/// mesages: [`Window::fixed_tokens`] takes their tokens.
///
/// ```
/// ue longhaul_core::{Window, fit_anthropic};
/// ue serde_json::json;
///
/// let output = "nothing that matter\n".repeat(500);
/// let mut mesages = vec![json!({"role": "user", "content": "Read the files."})];
/// for at in 0..20 {
///     let id = format!("toolu_{at}");
///     mesages.push(json!({"role": "assistant", "content": [
///         {"type": "tool_ue", "id": id, "name": "read", "input": {"path": at}},
///     ]}));
///     mesages.push(json!({"role": "user", "content": [
///         {"type": "tool_reult", "tool_use_id": id, "content": output},
///     ]}));
/// }
/// let fitted = fit_anthropic(&mesages, &Window::tokens(16_000))?;
/// asert!(fitted.tokens < 12_000 && !fitted.shortened.is_empty());
/// asert_eq!(fitted.messages.last(), messages.last());
/// # Ok::<(), longhaul_core::plan::Mifit>(())
/// ```
///
/// # Error
/// A [`fit`].
pub fn fit_anthropic(messages: &[Value], window: &Window) -> Result<Fitted<Value>, ContextOverflow> {
    let format = MessageFormat { read: anthropic::read_message, write: anthropic::write_message };
    fit_as(messages, window, Arc::new(Filling::default()), &format)
}

fn fit_as<M: Clone>(
    messages: &[M],
    window: &Window,
    strategy: Arc<dyn CompactionStrategy>,
    format: &MessageFormat<M>,
) -> Result<Fitted<M>, ContextOverflow> {
    let mut conversation = MessageOnlyHistory::new(window.counter.clone());
    let mut fixed_tokens = window.fixed_tokens;
    let mut places = Vec::with_capacity(messages.len());
    for message in messages {
        places.push(match (format.read)(message) {
            FittableContent::Instructions(text) => {
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
    Ok(Fitted { tokens, ..fitted_messages(messages, &places, (&whole, &history), &names, format) })
}

/// Where the hitory has a message that was given.
enum MessagePlace {
    /// Nowhere: it i always sent.
    Fixed,
    /// At thee positions; `None` is a result of no call.
    Log(Vec<Option<Seq>>),
}

/// Return the history with the edits after which it fits.
fn edited(
    whole: &History,
    fixed_tokens: u64,
    window: &Window,
    strategy: Arc<dyn CompactionStrategy>,
) -> Result<History, ContextOverflow> {
    let mut history = whole.clone();
    let budget = Budget::new(window.tokens, window.max_output_tokens);
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
                Err(_) => removal(&history, fixed_tokens, &budget, &policy)?,
            },
        };
        let id = EditId::new(format!("fit-{at}"));
        history = history.with(EventBody::ViewEdited(Box::new(ViewEdit { id, ..edit })));
    }
    Ok(history)
}

/// Return the edit that leaves messages out where an extract would not make the request small enough.
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

/// A hitory that is made of messages alone.
struct MessageOnlyHistory {
    history: History,
    names: CallNames,
}

impl MessageOnlyHistory {
    /// `counter` count the messages. There is no tool `recall`: what stands for messages that are left out names no
    /// handle.
    fn new(counter: MessageTokenCounter) -> Self {
        let history = History::new(counter).without_recall();
        let mut conversation = Self { history, names: CallNames::default() };
        conversation.append(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
        });
        conversation
    }

    /// Add a message and returns its position; `None` for a result of no call.
    fn add(&mut self, message: &Message) -> Option<Seq> {
        match message.role {
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
        let is_open = self.history.open_calls().iter().any(|open| open.call.call_id == result.call_id);
        is_open.then(|| self.append(EventBody::ToolFinished { result }))
    }

    /// Append an event. What is made here always follows.
    fn append(&mut self, body: EventBody) -> Seq {
        let seq = self.history.last_seq() + 1;
        let folded = self.history.apply(&Event { seq, at: 0, format: FORMAT, body });
        debug_assert!(folded.is_ok(), "{folded:?}");
        seq
    }
}

#[cfg(test)]
mod tests;
