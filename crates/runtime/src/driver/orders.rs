//! Changes of standing orders that people ask for, and the hook-up of the tool `pin`.

use longhaul_core::event::EventBody;
use longhaul_core::ids::OrderId;
use longhaul_core::orders::{StandingOrder, StandingOrderError};
use longhaul_core::run::{Run, RunLoopInput};
use longhaul_store::StoreError;
use tokio::sync::oneshot;

use super::SessionDriver;
use crate::session::{PinOutcome, SessionError};

/// A change of a session's standing orders.
pub(crate) enum OrderChange {
    Pin { text: String, replaces: Option<OrderId> },
    Edit { id: OrderId, text: String },
    Remove { id: OrderId },
}

impl OrderChange {
    /// Returns the events of the change: none if the orders have that form already.
    fn events(&self, run: &Run) -> Result<Vec<EventBody>, StandingOrderError> {
        match self {
            Self::Pin { text, replaces } => run.pin_order(text, replaces.clone()),
            Self::Edit { id, text } => run.edit_order(id, text),
            Self::Remove { id } => run.remove_order(id),
        }
    }

    /// Returns the order of the change in its present form.
    fn order(&self, run: &Run) -> Option<StandingOrder> {
        let orders = run.history().all_orders();
        match self {
            Self::Pin { text, .. } => orders.same(text).cloned(),
            Self::Edit { id, .. } | Self::Remove { id } => orders.get(id).cloned(),
        }
    }
}

impl SessionDriver {
    /// Stores a change of the orders in any state of the run: standing orders leave the view unchanged.
    pub(super) async fn change_orders(
        &mut self,
        change: OrderChange,
        reply: oneshot::Sender<Result<PinOutcome, SessionError>>,
    ) -> Result<(), StoreError> {
        // The same text pinned twice is one order, so its novelty must be known before the change.
        let is_new = change.order(&self.run).is_none();
        let events = match change.events(&self.run) {
            Ok(events) => events,
            Err(error) => {
                let _ = reply.send(Err(error.into()));
                return Ok(());
            }
        };
        if !events.is_empty() {
            self.process_input(RunLoopInput::RecordOrders(events)).await?;
        }
        let order = change.order(&self.run);
        let stored = order.ok_or_else(|| SessionError::Conflict("the order was not stored".to_owned()));
        let _ = reply.send(stored.map(|order| PinOutcome { order, is_new }));
        Ok(())
    }
}
