//! Standing orders in the loop: the model's own calls of `pin`, and the note that tells it of what people changed.

use super::{AppendContinuation, Run, RunEffect, RunPhase};
use crate::event::{EventBody, NoteReason};
use crate::ids::OrderId;
use crate::message::{Message, Part, ToolResult, ToolStatus};
use crate::orders::tool::PinArguments;
use crate::orders::{OrderSource, StandingOrderError, WINDOW_SHARE};

impl Run {
    /// The events that pin an order for a person; none if an active order says the same and replaces nothing.
    ///
    /// # Errors
    /// [`StandingOrderError`].
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

    /// The events that give an order another text; none if it has that text.
    ///
    /// # Errors
    /// [`StandingOrderError`].
    pub fn edit_order(&self, order_id: &OrderId, text: &str) -> Result<Vec<EventBody>, StandingOrderError> {
        let order = self.history.all_orders().check_edit(order_id, text)?;
        if order.text == text {
            return Ok(Vec::new());
        }
        self.fitting(EventBody::OrderEdited { order_id: order_id.clone(), text: text.to_owned() })
    }

    /// The event that removes an order.
    ///
    /// # Errors
    /// [`StandingOrderError::NotFound`], [`StandingOrderError::NotActive`].
    pub fn remove_order(&self, order_id: &OrderId) -> Result<Vec<EventBody>, StandingOrderError> {
        self.history.all_orders().check_active(order_id)?;
        Ok(vec![EventBody::OrderRemoved { order_id: order_id.clone() }])
    }

    /// The event, if all active orders together fit their share of the window with it.
    fn fitting(&self, change: EventBody) -> Result<Vec<EventBody>, StandingOrderError> {
        let most = self.budget().usable / WINDOW_SHARE;
        let before = self.history.order_tokens();
        let tokens = self.history.with(change.clone()).order_tokens();
        // A change for the better is allowed in a window that has become too small.
        if tokens > most && tokens > before {
            return Err(StandingOrderError::TooLarge { tokens, most });
        }
        Ok(vec![change])
    }

    /// A call of `pin` has passed its hooks: the order is stored with the call's result, or the result says why not.
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
        // What a hook has to say of the call follows.
        match result.content.first_mut() {
            Some(first) => *first = Part::text(answer),
            None => result.content.push(Part::text(answer)),
        }
        self.tool_ended_with(events, result, out);
    }

    fn with_source_message(&self, event: EventBody) -> EventBody {
        match event {
            EventBody::OrderPinned { order_id, text, source, replaces, .. } => {
                let from = self.history.said_in(&text);
                EventBody::OrderPinned { order_id, text, source, from, replaces }
            }
            other => other,
        }
    }

    /// Stores changes of orders at once: they leave the view as it is, so a step that goes on does not matter.
    pub(super) fn record_orders(&mut self, events: Vec<EventBody>, out: &mut Vec<RunEffect>) {
        self.append(events, AppendContinuation::OrdersStored, out);
    }

    pub(super) fn orders_stored(&mut self, out: &mut Vec<RunEffect>) {
        if self.is_idle() && self.pending.is_empty() {
            self.wake_if_asked(out);
        } else if self.stop.is_some() {
            // A stop waits for the appends that are under way.
            self.stop_when_quiet(out);
        }
    }

    /// The note on what changed since the model was last told of its orders. `place`: events that are stored before it.
    pub(super) fn order_note(&self, place: usize) -> Option<EventBody> {
        let text = self.history.all_orders().news()?;
        let id = format!("m{}", self.next_seq() + place as u64);
        let message = Message::user(id, vec![Part::text(text)]);
        Some(EventBody::NoteAdded { message, why: NoteReason::Orders })
    }

    /// Stores that note if there is one to store before the next call. An answer that goes on is not interrupted.
    pub(super) fn note_orders(&mut self, out: &mut Vec<RunEffect>) -> bool {
        let note = self.order_note(0).filter(|_| !self.history.is_paused());
        let Some(note) = note else { return false };
        self.phase = RunPhase::Storing;
        self.append(vec![note], AppendContinuation::Prepare, out);
        true
    }
}
