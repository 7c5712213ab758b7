//! Standing orders: instructions that hold beyond the next answer, as things with a name, a source and a state.
//!
//! An order is pinned, edited and removed by events of the log, and [`StandingOrders`] is folded from them. Nothing
//! is ever deleted: a removed or replaced order stays in [`StandingOrders::all`] with its state.
//!
//! The model learns of orders in two ways. Everything that stands for older messages lists the active orders whole
//! (the planner renders them from [`History::orders`](crate::history::History::orders)). Until the next edit of the
//! view a note at the tail says what has changed since the model was last told ([`StandingOrders::news`]).

use serde::{Deserialize, Serialize};

use crate::ids::{OrderId, Seq};

pub mod tool;

/// The length of an order's text at most, in characters.
pub const MAX_ORDER_CHARS: usize = 1_000;

/// The number of active orders at most.
pub const MAX_ACTIVE_ORDERS: usize = 256;

/// The share of the usable window that all active orders may take together: one part in so many. Every view shows
/// all of them whole, so beyond that they would push out what they are about.
pub const WINDOW_SHARE: u64 = 4;

/// Who made a standing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderSource {
    /// A person pinned it: on the page, with `/pin`, by the API.
    User,
    /// The model pinned it with its tool.
    Model,
    /// A summary quoted it, and the quote is in the log.
    Summary,
    /// It was recognised in what a person typed.
    Detected,
}

/// Whether a standing order holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum OrderState {
    /// It holds.
    Active,
    /// Another order took its place.
    Superseded {
        /// The order that holds instead.
        by: OrderId,
    },
    /// It was removed.
    Removed,
}

/// A standing order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingOrder {
    /// Its name.
    pub id: OrderId,
    /// Its text, byte for byte as it was given.
    pub text: String,
    /// Who made it.
    pub source: OrderSource,
    /// The message it was said in, if it is known.
    pub from: Option<Seq>,
    /// The event that pinned it.
    pub at: Seq,
    /// Whether it holds.
    pub state: OrderState,
    /// The text that the model was told last; `None` if it knows of no such order.
    told: Option<String>,
}

impl StandingOrder {
    /// Returns whether it holds.
    pub fn is_active(&self) -> bool {
        self.state == OrderState::Active
    }

    /// Its text on one line, for lists.
    pub fn line(&self) -> String {
        one_line(&self.text)
    }
}

/// A text on one line: every run of white space and control characters is one space.
pub fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// What two texts of one order have in common: case and spacing do not matter.
pub(crate) fn key(text: &str) -> String {
    one_line(text).to_lowercase()
}

/// Why an order cannot be pinned, edited or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StandingOrderError {
    /// The text says nothing.
    #[error("a standing order has a text")]
    Empty,
    /// The text is too long.
    #[error("a standing order has at most {MAX_ORDER_CHARS} characters; this one has {chars}")]
    TooLong {
        /// Its length in characters.
        chars: usize,
    },
    /// There are as many as there may be.
    #[error("there are {MAX_ACTIVE_ORDERS} standing orders already: remove one first")]
    TooMany,
    /// All active orders together would take too much of the window.
    #[error(
        "the standing orders would take {tokens} tokens together; the window has room for {most}: remove one first"
    )]
    TooLarge {
        /// What all of them would take, in tokens.
        tokens: u64,
        /// What they may take, in tokens.
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

/// All standing orders of a session, folded from its log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StandingOrders {
    all: Vec<StandingOrder>,
}

/// What is known of orders.
impl StandingOrders {
    /// Every order ever, oldest first.
    pub fn all(&self) -> &[StandingOrder] {
        &self.all
    }

    /// The orders that hold, oldest first.
    pub fn active(&self) -> impl Iterator<Item = &StandingOrder> {
        self.all.iter().filter(|order| order.is_active())
    }

    /// The order of that name, whether it holds or not.
    pub fn get(&self, id: &OrderId) -> Option<&StandingOrder> {
        self.all.iter().find(|order| order.id == *id)
    }

    /// The active order that says the same as `text`, case and spacing aside.
    pub fn same(&self, text: &str) -> Option<&StandingOrder> {
        let key = key(text);
        self.active().find(|order| self::key(&order.text) == key)
    }

    /// A name that no order has.
    pub fn next_id(&self) -> OrderId {
        let free = |number: &usize| {
            let id = OrderId::new(format!("o{number}"));
            self.get(&id).is_none()
        };
        // Imported orders may have any names.
        let number = (self.all.len() + 1..).find(free).unwrap_or(self.all.len() + 1);
        OrderId::new(format!("o{number}"))
    }

    /// Checks whether `text` can be pinned. The order that says the same already is no error: it is returned.
    ///
    /// # Errors
    /// [`StandingOrderError`], for the text or for the order that it is to replace.
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
        let makes_room = replaces.is_some();
        if same.is_none() && !makes_room && self.active().count() >= MAX_ACTIVE_ORDERS {
            return Err(StandingOrderError::TooMany);
        }
        Ok(same)
    }

    /// Checks whether the order of that name can have that text.
    ///
    /// # Errors
    /// [`StandingOrderError`], for the text or the order.
    pub fn check_edit(&self, id: &OrderId, text: &str) -> Result<&StandingOrder, StandingOrderError> {
        check_text(text)?;
        let order = self.check_active(id)?;
        match self.same(text) {
            Some(same) if same.id != *id => Err(StandingOrderError::Duplicate(same.id.clone())),
            _ => Ok(order),
        }
    }

    /// Checks whether the order of that name holds.
    ///
    /// # Errors
    /// [`StandingOrderError::NotFound`], [`StandingOrderError::NotActive`].
    pub fn check_active(&self, id: &OrderId) -> Result<&StandingOrder, StandingOrderError> {
        let order = self.get(id).ok_or_else(|| StandingOrderError::NotFound(id.clone()))?;
        if order.is_active() { Ok(order) } else { Err(StandingOrderError::NotActive(id.clone())) }
    }

    /// What the model has not been told of its orders, as the text of a note; `None` if it knows everything.
    pub fn news(&self) -> Option<String> {
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

/// The fold. A log may come from elsewhere: what breaks a rule changes nothing.
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
                // The model has said its own order, and what stands for messages shows those that were found in them.
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

    /// A note with all the news is in the log.
    pub(crate) fn note_told(&mut self) {
        for order in &mut self.all {
            order.told = order.is_active().then(|| order.text.clone());
        }
    }

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
