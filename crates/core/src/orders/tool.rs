//! The tool `pin` of the model, which pins a standing order: specification, arguments and answers.

use serde::Deserialize;

use super::{OrderSource, StandingOrderError, StandingOrders, key};
use crate::event::EventBody;
use crate::ids::OrderId;
use crate::message::{RawJson, ToolSpec};

/// The tool's name.
pub const NAME: &str = "pin";

/// The smallest window in which the tool is offered, in tokens. A smaller window needs the tool's tokens for other
/// content.
pub const MIN_WINDOW: u64 = 16_000;

/// Returns the tool as described to the model.
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description: "Keeps an instruction of the user that holds from now on.".to_owned(),
        parameters: RawJson(
            r#"{"type":"object","properties":{"text":{"type":"string"},"replaces":{"type":"string","description":"Old order"}},"required":["text"]}"#
                .to_owned(),
        ),
        // An order changes the conversation and no files, so that a call needs no approval.
        read_only: true,
        poll: false,
        source: "builtin".to_owned(),
    }
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PinArguments {
    /// The text of the order.
    pub text: String,
    /// The name or the text of the order to replace.
    #[serde(default)]
    pub replaces: Option<String>,
}

impl PinArguments {
    /// Reads the arguments of a call: a JSON object.
    ///
    /// # Errors
    /// A sentence for the model.
    pub fn read(arguments: &str) -> Result<Self, String> {
        serde_json::from_str(arguments).map_err(|error| format!("pin: {error}"))
    }

    /// Decides a call. Returns the event to store, if the call changes an order, and the answer for the model.
    ///
    /// # Errors
    /// [`StandingOrderError`], whose message is an answer for the model too.
    pub fn decide(&self, orders: &StandingOrders) -> Result<(Option<EventBody>, String), StandingOrderError> {
        let replaces = self.replaced(orders)?;
        let same = orders.check_pin(&self.text, replaces.as_ref())?;
        let is_known = same.is_some();
        let order_id = same.map_or_else(|| orders.next_id(), |same| same.id.clone());
        // An order cannot replace itself, which a model asks for when it repeats a text.
        let replaces = replaces.filter(|replaced| *replaced != order_id);
        let answer = match (is_known, &replaces) {
            (true, None) => return Ok((None, format!("Standing order {order_id} says that already."))),
            (_, None) => format!("Standing order {order_id} is pinned."),
            (_, Some(old)) => format!("Standing order {order_id} is pinned in the place of {old}."),
        };
        let pinned = EventBody::OrderPinned {
            order_id,
            text: self.text.clone(),
            source: OrderSource::Model,
            from: None,
            replaces,
        };
        Ok((Some(pinned), answer))
    }

    /// Returns the order that the call replaces, if any.
    ///
    /// # Errors
    /// [`StandingOrderError`] if no active order is meant.
    fn replaced(&self, orders: &StandingOrders) -> Result<Option<OrderId>, StandingOrderError> {
        let Some(said) = self.replaces.as_deref().map(str::trim).filter(|said| !said.is_empty()) else {
            return Ok(None);
        };
        let wanted = key(said);
        // Models often quote the text of an order where its name is wanted.
        let mut active = orders.active();
        let meant = active.find(|order| key(order.id.as_str()) == wanted || key(&order.text) == wanted);
        match meant {
            Some(order) => Ok(Some(order.id.clone())),
            None => orders.check_active(&OrderId::from(said)).map(|order| Some(order.id.clone())),
        }
    }
}
