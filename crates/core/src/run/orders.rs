//! Standing orders in the loop: the model's own calls of `pin`, and the note about changes that users made.

use super::loop_state::{AppendContinuation, LoopState, RunPhase};
use super::session::SessionState;
use super::{RunEffect, tools};
use crate::event::{EventBody, NoteReason};
use crate::ids::OrderId;
use crate::message::{Message, Part, ToolResult, ToolStatus};
use crate::orders::tool::PinArguments;
use crate::orders::{OrderSource, StandingOrderError, WINDOW_SHARE};

/// Handles a call of `pin` that has passed all hooks. The order is stored with the call's result, or the result
/// says why not.
pub(super) fn pin_ended(
    state: &mut LoopState,
    mut result: ToolResult,
    request: &PinArguments,
    out: &mut Vec<RunEffect>,
) {
    let decided = request.decide(state.session.history.all_orders()).and_then(|(pinned, answer)| {
        let pinned = pinned.map(|event| with_source_message(&state.session, event));
        let events = pinned.map_or_else(|| Ok(Vec::new()), |event| fitting(&state.session, event))?;
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
    tools::tool_ended_with(state, events, result, out);
}

/// Stores changes of orders at once. The changes leave the view unchanged, so an open step is no obstacle.
pub(super) fn record_orders(state: &mut LoopState, events: Vec<EventBody>, out: &mut Vec<RunEffect>) {
    state.append(events, AppendContinuation::OrdersStored, out);
}

/// Stores the note about changed orders before the next call. Returns whether there was one. A paused answer is not
/// interrupted.
pub(super) fn note_orders(state: &mut LoopState, out: &mut Vec<RunEffect>) -> bool {
    let note = order_note(&state.session, 0).filter(|_| !state.session.history.is_paused());
    let Some(note) = note else { return false };
    state.phase = RunPhase::Storing;
    state.append(vec![note], AppendContinuation::Prepare, out);
    true
}

/// Returns the events that pin an order for a user; none if an active order says the same and replaces nothing.
///
/// # Errors
/// [`StandingOrderError`] if the text or the replaced order is not valid, or if the orders take too much of the
/// window.
pub(super) fn pin_order(
    session: &SessionState,
    text: &str,
    replaces: Option<OrderId>,
) -> Result<Vec<EventBody>, StandingOrderError> {
    let orders = session.history.all_orders();
    let same = orders.check_pin(text, replaces.as_ref())?;
    let order_id = same.map_or_else(|| orders.next_id(), |same| same.id.clone());
    let replaces = replaces.filter(|replaced| *replaced != order_id);
    if same.is_some() && replaces.is_none() {
        return Ok(Vec::new());
    }
    let (text, source, from) = (text.to_owned(), OrderSource::User, session.history.said_in(text));
    fitting(session, EventBody::OrderPinned { order_id, text, source, from, replaces })
}

/// Returns the events that change an order's text; none if the text is the same.
///
/// # Errors
/// [`StandingOrderError`] if the order or its text is not valid, or if the orders take too much of the window.
pub(super) fn edit_order(
    session: &SessionState,
    order_id: &OrderId,
    text: &str,
) -> Result<Vec<EventBody>, StandingOrderError> {
    let order = session.history.all_orders().check_edit(order_id, text)?;
    if order.text == text {
        return Ok(Vec::new());
    }
    fitting(session, EventBody::OrderEdited { order_id: order_id.clone(), text: text.to_owned() })
}

/// Returns the event that removes an order.
///
/// # Errors
/// [`StandingOrderError::NotFound`] or [`StandingOrderError::NotActive`] if there is no such active order.
pub(super) fn remove_order(
    session: &SessionState,
    order_id: &OrderId,
) -> Result<Vec<EventBody>, StandingOrderError> {
    session.history.all_orders().check_active(order_id)?;
    Ok(vec![EventBody::OrderRemoved { order_id: order_id.clone() }])
}

/// Returns the event if all active orders together fit their share of the window after it.
fn fitting(session: &SessionState, change: EventBody) -> Result<Vec<EventBody>, StandingOrderError> {
    let most = session.budget().usable / WINDOW_SHARE;
    let before = session.history.order_tokens();
    let tokens = session.history.with(change.clone()).order_tokens();
    // A change that shortens the orders is allowed, even in a window that has become too small for them.
    if tokens > most && tokens > before {
        return Err(StandingOrderError::TooLarge { tokens, most });
    }
    Ok(vec![change])
}

/// Adds the message that says the order to the event, so that people see its origin.
fn with_source_message(session: &SessionState, event: EventBody) -> EventBody {
    match event {
        EventBody::OrderPinned { order_id, text, source, replaces, .. } => {
            let from = session.history.said_in(&text);
            EventBody::OrderPinned { order_id, text, source, from, replaces }
        }
        other => other,
    }
}

/// Returns the note about changes that the model was not told of. `place` is the number of events that are stored
/// before the note.
pub(super) fn order_note(session: &SessionState, place: usize) -> Option<EventBody> {
    let text = session.history.all_orders().news()?;
    let id = format!("m{}", session.next_seq() + place as u64);
    let message = Message::user(id, vec![Part::text(text)]);
    Some(EventBody::NoteAdded { message, why: NoteReason::Orders })
}
