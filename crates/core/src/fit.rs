//! The planner as one function of a list of messages: for programs that keep their conversations themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::budget::{Budget, Trigger};
use crate::estimate::Counter;
use crate::event::{Event, EventBody, FORMAT, NoteReason, ViewEdit};
use crate::history::{History, ItemKind, ViewItem};
use crate::ids::{EditId, Seq, StepId};
use crate::message::{Finish, Message, Part, Role};
use crate::meter;
use crate::plan::{self, MARK, Misfit, Occasion, Plan, Policy, Writer};
use crate::strategy::{Adaptive, Strategy};

/// Edits that are tried at most. One is the rule; a second follows where the first is too little.
const MAX_EDITS: usize = 8;

/// The share of the usable window that fitted messages fill, at most. A session goes down to 0.4 because its next edit
/// should be far away; whoever fits a list has asked for this window.
const FILLED_SHARE: f64 = 0.9;

/// The room that messages have to fit, and how they are counted.
#[derive(Clone, Debug)]
pub struct Window {
    tokens: u64,
    max_output_tokens: Option<u64>,
    fixed_tokens: u64,
    counter: Counter,
}

impl Window {
    /// The context window of a model, in tokens. A part of it is kept free for the answer: 4,096 tokens, and a quarter of
    /// small windows ([`Budget::new`]).
    pub fn tokens(tokens: u64) -> Self {
        Self { tokens, max_output_tokens: None, fixed_tokens: 0, counter: Counter::default() }
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
    pub fn counter(mut self, counter: Counter) -> Self {
        self.counter = counter;
        self
    }
}

/// Messages that fit a window.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fitted {
    /// The messages to send, in order. Messages that stay are as they were; an extract stands for those that are left out. Every
    /// tool call has its result.
    pub messages: Vec<Message>,
    /// The messages that are left out, as indices into the list that was given, ascending.
    pub left_out: Vec<usize>,
    /// The messages that are shown in part: tool results as placeholders, and a newest message that is longer than the
    /// window by its beginning and end. Indices as in `left_out`.
    pub shortened: Vec<usize>,
    /// The estimated tokens of the messages, with the window's fixed tokens.
    pub tokens: u64,
}

/// Fits messages into a window. Nothing changes while they fit; otherwise [`Adaptive`] chooses what goes, down to nine
/// tenths of what the window has beside the answer, and an extract
/// of it (rules, todos, files, errors, names, what the user typed) is made without a model. The newest typed message
/// always stays. Equal inputs give equal outputs.
///
/// A result without its call is left out, because no provider takes it. The messages of an earlier call can be given
/// again, with newer ones behind them.
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
/// # Ok::<(), longhaul_core::plan::Misfit>(())
/// ```
///
/// # Errors
/// [`Misfit`] if the newest typed message does not fit even by its beginning and its end, beside the fixed tokens.
pub fn fit(messages: &[Message], window: &Window) -> Result<Fitted, Misfit> {
    fit_with(messages, window, Arc::new(filling()))
}

/// The strategy of [`fit`]. An extract is shorter than a model's summary, so less room is reserved for it.
fn filling() -> Adaptive {
    Adaptive {
        low_target: FILLED_SHARE,
        ledger_tokens: 1_500,
        max_summary_tokens: 500,
        ..Adaptive::default()
    }
}

/// [`fit`] by a strategy that chooses what goes. A strategy that asks for a summary gets an extract.
///
/// # Errors
/// As [`fit`].
pub fn fit_with(
    messages: &[Message],
    window: &Window,
    strategy: Arc<dyn Strategy>,
) -> Result<Fitted, Misfit> {
    let mut conversation = Conversation::new(window.counter.clone());
    let positions: Vec<Option<Seq>> = messages.iter().map(|message| conversation.add(message)).collect();
    let whole = conversation.history;
    let mut history = whole.clone();
    let budget = Budget::new(window.tokens, window.max_output_tokens);
    let policy = Policy { trigger: Some(Trigger::Overflow), writer: Writer::Nobody, ..Policy::new(strategy) };
    for at in 0..MAX_EDITS {
        let edit = match plan::plan(&history, window.fixed_tokens, &budget, &policy, &Occasion::Routine) {
            Plan::Fits => break,
            Plan::Edit(edit) => *edit,
            Plan::DoesNotFit(misfit) => return Err(misfit),
            Plan::Summarise(draft) => match draft.finish_extractive(&history) {
                Ok(edit) => edit,
                Err(_) => removal(&history, window.fixed_tokens, &budget, &policy)?,
            },
        };
        let id = EditId::new(format!("fit-{at}"));
        history = history.with(EventBody::ViewEdited(Box::new(ViewEdit { id, ..edit })));
    }
    Ok(fitted(messages, &positions, (whole.view(), &history), window.fixed_tokens))
}

/// Returns the edit that leaves messages out where an extract would not make the request small enough.
fn removal(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &Policy,
) -> Result<ViewEdit, Misfit> {
    match plan::without_summary(history, fixed_tokens, budget, policy, &Occasion::Routine) {
        Plan::Edit(edit) => Ok(*edit),
        Plan::DoesNotFit(misfit) => Err(misfit),
        Plan::Fits | Plan::Summarise(_) => Err(Misfit {
            fixed_tokens,
            needed_tokens: meter::read(history, fixed_tokens).bound(),
            usable_tokens: budget.usable,
            window_tokens: budget.window,
        }),
    }
}

fn fitted(
    messages: &[Message],
    positions: &[Option<Seq>],
    (whole, history): (&[ViewItem], &History),
    fixed_tokens: u64,
) -> Fitted {
    // A message is compared with how it was shown before, because a history gives some messages ids of its own.
    let shown: BTreeMap<Seq, &Message> = whole.iter().map(|item| (item.range.from, &*item.message)).collect();
    let given: BTreeMap<Seq, (usize, &Message)> = positions
        .iter()
        .enumerate()
        .filter_map(|(at, position)| Some((position.as_ref()?, at)))
        .filter_map(|(seq, at)| Some((*seq, (at, *shown.get(seq)?))))
        .collect();
    let mut fitted = Fitted {
        messages: Vec::with_capacity(history.view().len()),
        left_out: Vec::new(),
        shortened: Vec::new(),
        tokens: meter::read(history, fixed_tokens).total,
    };
    let mut is_shown = vec![false; messages.len()];
    for item in history.view() {
        let before = given.get(&item.range.from).filter(|_| stands_for_itself(item));
        if let Some((at, _)) = before {
            is_shown[*at] = true;
        }
        match before {
            Some((at, whole)) if **whole == *item.message => fitted.messages.push(messages[*at].clone()),
            Some((at, _)) => {
                fitted.shortened.push(*at);
                fitted
                    .messages
                    .push(Message { id: messages[*at].id.clone(), ..Message::clone(&item.message) });
            }
            None => fitted.messages.push(Message::clone(&item.message)),
        }
    }
    fitted.left_out = (0..messages.len()).filter(|at| !is_shown[*at]).collect();
    fitted.shortened.sort_unstable();
    fitted
}

/// Returns whether an item shows a message of the log, whole or in part, and not a summary of several.
fn stands_for_itself(item: &ViewItem) -> bool {
    !matches!(item.kind, ItemKind::Summary(_) | ItemKind::Removed(_))
}

/// A history that is made of messages alone.
struct Conversation {
    history: History,
}

impl Conversation {
    /// `counter` counts the messages. There is no tool `recall`: what stands for messages that are left out names no
    /// handles.
    fn new(counter: Counter) -> Self {
        let mut conversation = Self { history: History::new(counter).without_recall() };
        conversation.append(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
        });
        conversation
    }

    /// Adds a message and returns its position; `None` for a result of no call.
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
        let finish = if message.tool_calls().next().is_some() { Finish::ToolCalls } else { Finish::Stop };
        self.append(EventBody::AssistantAdded { step_id, message: message.clone(), finish, cut: None })
    }

    fn add_result(&mut self, message: &Message) -> Option<Seq> {
        let result = message.parts.iter().find_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            _ => None,
        })?;
        let is_open = self.history.open_calls().iter().any(|open| open.call.call_id == result.call_id);
        is_open.then(|| self.append(EventBody::ToolFinished { result: result.clone() }))
    }

    /// Appends an event. What is made here always follows.
    fn append(&mut self, body: EventBody) -> Seq {
        let seq = self.history.last_seq() + 1;
        let folded = self.history.apply(&Event { seq, at: 0, format: FORMAT, body });
        debug_assert!(folded.is_ok(), "{folded:?}");
        seq
    }
}

#[cfg(test)]
mod tests;
