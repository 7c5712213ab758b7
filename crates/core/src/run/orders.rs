//! Standing orders in the loop: the model's own calls of `pin`, and the note about changes that users made.

use super::{AppendContinuation, Run, RunEffect, RunPhase};
use crate::event::{EventBody, NoteReason};
use crate::ids::OrderId;
use crate::message::{Message, Part, ToolResult, ToolStatus};
use crate::orders::tool::PinArguments;
use crate::orders::{OrderSource, StandingOrderError, WINDOW_SHARE};

impl Run {
    /// Returns the events that pin an order for a user; none if an active order says the same and replaces nothing.
    ///
    /// # Errors
    /// [`StandingOrderError`] if the text or the replaced order is not valid, or if the orders take too much of the
    /// window.
    pub fn pin_order(
        &self,
        text: &str,
        replaces: Option<OrderId>,
    ) -> Result<Vec<EventBody>, StandingOrderError> {
        let orders = self.history.all_orders();
        let same = orders.check_pin(text, replaces.as_ref())?;
        let order_id = same.map_or_else(|| orders.next_id(), |same| same.id.clone());
        let replaces = replaces.filter(|replaced| *replaced != order_id);
        if same.is_some() && replaces.is_none() {
            return Ok(Vec::new());
        }
        let (text, source, from) = (text.to_owned(), OrderSource::User, self.history.said_in(text));
        self.fitting(EventBody::OrderPinned { order_id, text, source, from, replaces })
    }

    /// Returns the events that change an order's text; none if the text is the same.
    ///
    /// # Errors
    /// [`StandingOrderError`] if the order or its text is not valid, or if the orders take too much of the window.
    pub fn edit_order(&self, order_id: &OrderId, text: &str) -> Result<Vec<EventBody>, StandingOrderError> {
        let order = self.history.all_orders().check_edit(order_id, text)?;
        if order.text == text {
            return Ok(Vec::new());
        }
        self.fitting(EventBody::OrderEdited { order_id: order_id.clone(), text: text.to_owned() })
    }

    /// Returns the event that removes an order.
    ///
    /// # Errors
    /// [`StandingOrderError::NotFound`] or [`StandingOrderError::NotActive`] if there is no such active order.
    pub fn remove_order(&self, order_id: &OrderId) -> Result<Vec<EventBody>, StandingOrderError> {
        self.history.all_orders().check_active(order_id)?;
        Ok(vec![EventBody::OrderRemoved { order_id: order_id.clone() }])
    }

    /// Returns the event if all active orders together fit their share of the window after it.
    fn fitting(&self, change: EventBody) -> Result<Vec<EventBody>, StandingOrderError> {
        let most = self.budget().usable / WINDOW_SHARE;
        let before = self.history.order_tokens();
        let tokens = self.history.with(change.clone()).order_tokens();
        // A change that shortens the orders is allowed, even in a window that has become too small for them.
        if tokens > most && tokens > before {
            return Err(StandingOrderError::TooLarge { tokens, most });
        }
        Ok(vec![change])
    }

    /// Handles a call of `pin` that has passed its hooks. The order is stored with the call's result, or the result
    /// says why not.
    pub(super) fn pin_ended(
        &mut self,
        mut result: ToolResult,
        request: &PinArguments,
        out: &mut Vec<RunEffect>,
    ) {
        let decided = request.decide(self.history.all_orders()).and_then(|(pinned, answer)| {
            let pinned = pinned.map(|event| self.with_source_message(event));
            let events = pinned.map_or_else(|| Ok(Vec::new()), |event| self.fitting(event))?;
            Ok((events, answer))
        });
        let (events, answer) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                result.status = ToolStatus::Error;
                (Vec::new(), format!("Not pinned: {error}."))
            }
        };
        // Only the first part is the answer. Remarks of hooks follow it.
        match result.content.first_mut() {
            Some(first) => *first = Part::text(answer),
            None => result.content.push(Part::text(answer)),
        }
        self.tool_ended_with(events, result, out);
    }

    /// Adds the message that says the order to the event, so that people see its origin.
    fn with_source_message(&self, event: EventBody) -> EventBody {
        match event {
            EventBody::OrderPinned { order_id, text, source, replaces, .. } => {
                let from = self.history.said_in(&text);
                EventBody::OrderPinned { order_id, text, source, from, replaces }
            }
            other => other,
        }
    }

    /// Stores changes of orders at once. The changes leave the view as it is, so an open step is no obstacle.
    pub(super) fn record_orders(&mut self, events: Vec<EventBody>, out: &mut Vec<RunEffect>) {
        self.append(events, AppendContinuation::OrdersStored, out);
    }

    /// Continues after changes of orders are durable.
    pub(super) fn orders_stored(&mut self, out: &mut Vec<RunEffect>) {
        if self.is_idle() && self.pending.is_empty() {
            self.wake_if_asked(out);
        } else if self.stop.is_some() {
            // A stop waits until no append is in flight.
            self.stop_when_quiet(out);
        }
    }

    /// Returns the note about changes that the model was not told of. `place` is the number of events that are stored
    /// before the note.
    pub(super) fn order_note(&self, place: usize) -> Option<EventBody> {
        let text = self.history.all_orders().news()?;
        let id = format!("m{}", self.next_seq() + place as u64);
        let message = Message::user(id, vec![Part::text(text)]);
        Some(EventBody::NoteAdded { message, why: NoteReason::Orders })
    }

    /// Stores the note about changed orders before the next call. Returns whether there was one. A paused answer is not
    /// interrupted.
    pub(super) fn note_orders(&mut self, out: &mut Vec<RunEffect>) -> bool {
        let note = self.order_note(0).filter(|_| !self.history.is_paused());
        let Some(note) = note else { return false };
        self.phase = RunPhase::Storing;
        self.append(vec![note], AppendContinuation::Prepare, out);
        true
    }
}
