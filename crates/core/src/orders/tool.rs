//! The tool `pin`: what a call of it asks for, and how that is answered.

use serde::Deserialize;

use super::{OrderSource, StandingOrderError, StandingOrders, key};
use crate::event::EventBody;
use crate::ids::OrderId;
use crate::message::{RawJson, ToolSpec};

/// The tool's name.
pub const NAME: &str = "pin";

/// The smallest window in which the tool is offered, in tokens: in a smaller one its words are missed elsewhere.
pub const MIN_WINDOW: u64 = 16_000;

/// What the model is told of the tool.
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description: "Keeps an instruction of the user that holds from now on.".to_owned(),
        parameters: RawJson(
            r#"{"type":"object","properties":{"text":{"type":"string"},"replaces":{"type":"string","description":"Old order"}},"required":["text"]}"#
                .to_owned(),
        ),
        read_only: true,
        poll: false,
        source: "builtin".to_owned(),
    }
}

/// What a call asks for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PinArguments {
    /// The order.
    pub text: String,
    /// The order that it takes the place of: its name or its text.
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

    /// Decides the call: the event to store, if there is anything new, and the answer for the model.
    ///
    /// # Errors
    /// [`StandingOrderError`], whose words are for the model too.
    pub fn decide(&self, orders: &StandingOrders) -> Result<(Option<EventBody>, String), StandingOrderError> {
        let replaces = self.replaced(orders)?;
        let same = orders.check_pin(&self.text, replaces.as_ref())?;
        let is_known = same.is_some();
        let order_id = same.map_or_else(|| orders.next_id(), |same| same.id.clone());
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

    /// Models quote a text rather than a name.
    fn replaced(&self, orders: &StandingOrders) -> Result<Option<OrderId>, StandingOrderError> {
        let Some(said) = self.replaces.as_deref().map(str::trim).filter(|said| !said.is_empty()) else {
            return Ok(None);
        };
        let is_meant = |said: &str| {
            let said = key(said);
            orders.active().find(|order| key(order.id.as_str()) == said || key(&order.text) == said)
        };
        match is_meant(said) {
            Some(order) => Ok(Some(order.id.clone())),
            None => orders.check_active(&OrderId::from(said)).map(|order| Some(order.id.clone())),
        }
    }
}
