//! Standing orders: instructions that hold beyond the next answer, each with a name, a source and a state.
//!
//! Events of the log pin, edit and remove orders, and [`StandingOrders`] is folded from these events. No order
//! is ever deleted: a removed or replaced order stays in [`StandingOrders::all`] with its state.
//!
//! The model learns of orders in two ways. Summaries, extracts and notes in the place of older messages list all active
//! orders (the planner renders them from [`History::orders`](crate::history::History::orders)). Until the next edit of
//! the view, a note at the tail describes the changes that the model does not know yet ([`StandingOrders::news`]).

use serde::{Deserialize, Serialize};

use crate::ids::{OrderId, Seq};

#[doc(hidden)]
pub mod tool;

pub use self::tool::PinArguments;

/// The maximum length of an order's text, in characters.
#[doc(hidden)]
pub const MAX_ORDER_CHARS: usize = 1_000;

/// The maximum number of active orders.
pub(crate) const MAX_ACTIVE_ORDERS: usize = 256;

/// The divisor of the usable window that gives the room of all active orders together: a quarter. Every view shows all
/// orders whole, so more of them would push out the work itself.
pub(crate) const WINDOW_SHARE: u64 = 4;

/// The author of a standing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OrderSource {
    /// A person, who pinned the order on the page, with `/pin` or by the API.
    User,
    /// The model, which pinned the order with the tool.
    Model,
    /// A summary that quotes the order from the log.
    Summary,
    /// A program, which recognised the order in a typed message.
    Detected,
}

/// The state of a standing order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OrderState {
    /// The order holds.
    Active,
    /// Another order replaced this one.
    Superseded {
        /// The order that holds instead.
        by: OrderId,
    },
    /// The order was removed.
    Removed,
}

impl OrderState {
    /// Returns the state's stable name.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Superseded { .. } => "superseded",
            Self::Removed => "removed",
        }
    }
}

/// A standing order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingOrder {
    /// The order's name.
    pub id: OrderId,
    /// The order's text, byte for byte as given.
    pub text: String,
    /// The author of the order.
    pub source: OrderSource,
    /// The message that gave the order, if known.
    pub from: Option<Seq>,
    /// The event that pinned the order.
    pub at: Seq,
    /// The state of the order.
    pub state: OrderState,
    /// The text that the model was told last; `None` if the model does not know of the order.
    told: Option<String>,
}

impl StandingOrder {
    /// Returns whether the order holds.
    pub fn is_active(&self) -> bool {
        self.state == OrderState::Active
    }

    /// Returns the order's text on one line, for lists.
    pub fn line(&self) -> String {
        one_line(&self.text)
    }
}

/// Returns a text on one line: every run of white space and control characters is one space.
#[doc(hidden)]
pub fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the key of an order's text. Texts that differ in case and spacing only have the same key.
pub(crate) fn key(text: &str) -> String {
    one_line(text).to_lowercase()
}

/// Reasons why an order cannot be pinned, edited or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StandingOrderError {
    /// The text is empty or blank.
    #[error("a standing order must have a text")]
    Empty,
    /// The text is too long.
    #[error("a standing order must have at most {MAX_ORDER_CHARS} characters; this one has {chars}")]
    TooLong {
        /// The length of the text, in characters.
        chars: usize,
    },
    /// The number of active orders is at the limit.
    #[error("there are {MAX_ACTIVE_ORDERS} standing orders already: remove one first")]
    TooMany,
    /// All active orders together would take too much of the window.
    #[error(
        "the standing orders would take {tokens} tokens together; the window has room for {most}: remove one first"
    )]
    TooLarge {
        /// The size of all active orders with the new one, in tokens.
        tokens: u64,
        /// The room of all active orders, in tokens.
        most: u64,
    },
    /// No order has that name.
    #[error("no standing order {0}")]
    NotFound(OrderId),
    /// The order was removed or replaced.
    #[error("standing order {0} does not hold any more")]
    NotActive(OrderId),
    /// Another active order has that text.
    #[error("standing order {0} says the same")]
    Duplicate(OrderId),
}

/// All standing orders of a session, folded from the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StandingOrders {
    all: Vec<StandingOrder>,
}

/// Getters and checks.
impl StandingOrders {
    /// Returns all orders of the session, oldest first, including those that hold no more.
    pub fn all(&self) -> &[StandingOrder] {
        &self.all
    }

    /// Returns the active orders, oldest first.
    pub fn active(&self) -> impl Iterator<Item = &StandingOrder> {
        self.all.iter().filter(|order| order.is_active())
    }

    /// Returns the order with a name, in any state.
    pub fn get(&self, id: &OrderId) -> Option<&StandingOrder> {
        self.all.iter().find(|order| order.id == *id)
    }

    /// Returns the active order whose text equals `text`, case and spacing aside.
    pub fn same(&self, text: &str) -> Option<&StandingOrder> {
        let key = key(text);
        self.active().find(|order| self::key(&order.text) == key)
    }

    /// Returns a name that no order has.
    pub fn next_id(&self) -> OrderId {
        // Imported orders may have any names, so the next number may be taken.
        let mut number = self.all.len() + 1;
        loop {
            let id = OrderId::new(format!("o{number}"));
            if self.get(&id).is_none() {
                return id;
            }
            number += 1;
        }
    }

    /// Checks whether `text` can be pinned. An active order with the same text is no error and is returned.
    ///
    /// # Errors
    /// [`StandingOrderError`], for the text or for the order `replaces`.
    pub fn check_pin(
        &self,
        text: &str,
        replaces: Option<&OrderId>,
    ) -> Result<Option<&StandingOrder>, StandingOrderError> {
        check_text(text)?;
        if let Some(replaced) = replaces {
            self.check_active(replaced)?;
        }
        let same = self.same(text);
        // A pinned text that is active already adds no order, and a replacement ends the old one.
        let makes_room = replaces.is_some();
        if same.is_none() && !makes_room && self.active().count() >= MAX_ACTIVE_ORDERS {
            return Err(StandingOrderError::TooMany);
        }
        Ok(same)
    }

    /// Checks whether an order can get the text `text`, and returns the order.
    ///
    /// # Errors
    /// [`StandingOrderError`], for the text or the order.
    pub fn check_edit(&self, id: &OrderId, text: &str) -> Result<&StandingOrder, StandingOrderError> {
        check_text(text)?;
        let order = self.check_active(id)?;
        match self.same(text) {
            // An edit that only changes case or spacing finds the order itself.
            Some(same) if same.id != *id => Err(StandingOrderError::Duplicate(same.id.clone())),
            _ => Ok(order),
        }
    }

    /// Checks whether an order is active, and returns the order.
    ///
    /// # Errors
    /// [`StandingOrderError::NotFound`], [`StandingOrderError::NotActive`].
    pub fn check_active(&self, id: &OrderId) -> Result<&StandingOrder, StandingOrderError> {
        let order = self.get(id).ok_or_else(|| StandingOrderError::NotFound(id.clone()))?;
        if order.is_active() { Ok(order) } else { Err(StandingOrderError::NotActive(id.clone())) }
    }

    /// Returns a note with the changes of orders that the model does not know yet; `None` if there are none.
    pub fn news(&self) -> Option<String> {
        // The note follows from the difference of states and not from events: a change that was taken back needs no
        // note.
        let news: Vec<String> = self.all.iter().filter_map(|order| self.news_of(order)).collect();
        (!news.is_empty()).then(|| news.join("\n"))
    }

    fn news_of(&self, order: &StandingOrder) -> Option<String> {
        let StandingOrder { id, told, state, .. } = order;
        let text = order.line();
        match (state, told) {
            (OrderState::Active, None) => Some(format!("[Standing order {id}, pinned by the user: {text}]")),
            (OrderState::Active, Some(told)) if *told != order.text => {
                Some(format!("[Standing order {id}, changed by the user, now reads: {text}]"))
            }
            // The text that the model knows is quoted, because the text may have changed again before the order ended.
            (OrderState::Superseded { by }, Some(told)) => {
                Some(format!("[Standing order {id}, replaced by {by}, holds no more: {}]", one_line(told)))
            }
            (OrderState::Removed, Some(told)) => {
                Some(format!("[Standing order {id}, removed by the user, holds no more: {}]", one_line(told)))
            }
            _ => None,
        }
    }
}

fn check_text(text: &str) -> Result<(), StandingOrderError> {
    if one_line(text).is_empty() {
        return Err(StandingOrderError::Empty);
    }
    let chars = text.chars().count();
    if chars > MAX_ORDER_CHARS { Err(StandingOrderError::TooLong { chars }) } else { Ok(()) }
}

/// The fold of events. Logs may come from other programs, so an event that breaks a rule changes nothing.
impl StandingOrders {
    pub(crate) fn pin(
        &mut self,
        at: Seq,
        (id, text): (&OrderId, &str),
        (source, from): (OrderSource, Option<Seq>),
        replaces: Option<&OrderId>,
    ) {
        let holds = match self.check_pin(text, replaces) {
            Ok(Some(same)) => same.id.clone(),
            Ok(None) if self.get(id).is_none() => {
                // The model pinned its own order, and orders of other sources stand in messages that the model reads.
                let told = (source != OrderSource::User).then(|| text.to_owned());
                let state = OrderState::Active;
                let (id, text) = (id.clone(), text.to_owned());
                self.all.push(StandingOrder { id: id.clone(), text, source, from, at, state, told });
                id
            }
            _ => return,
        };
        if let Some(replaced) = replaces.filter(|replaced| **replaced != holds) {
            let is_told = source == OrderSource::Model;
            self.end(replaced, OrderState::Superseded { by: holds }, is_told);
        }
    }

    pub(crate) fn edit(&mut self, id: &OrderId, text: &str) {
        if self.check_edit(id, text).is_ok()
            && let Some(order) = self.get_mut(id)
        {
            text.clone_into(&mut order.text);
        }
    }

    pub(crate) fn remove(&mut self, id: &OrderId) {
        if self.check_active(id).is_ok() {
            self.end(id, OrderState::Removed, false);
        }
    }

    /// Records that the log has a note with all news.
    pub(crate) fn note_told(&mut self) {
        for order in &mut self.all {
            // An order that has ended needs no news any more, and one that holds is known by its present text.
            order.told = order.is_active().then(|| order.text.clone());
        }
    }

    /// Ends an order. `is_told` is `true` if the model knows of the end, as of a replacement that it made itself.
    fn end(&mut self, id: &OrderId, state: OrderState, is_told: bool) {
        if let Some(order) = self.get_mut(id) {
            order.state = state;
            if is_told {
                order.told = None;
            }
        }
    }

    fn get_mut(&mut self, id: &OrderId) -> Option<&mut StandingOrder> {
        self.all.iter_mut().find(|order| order.id == *id)
    }
}

#[cfg(test)]
mod tests;
