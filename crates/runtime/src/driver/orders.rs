//! Changes of standing orders by people, and the hook-up of the tool `pin`.

use longhaul_core::event::EventBody;
use longhaul_core::ids::OrderId;
use longhaul_core::orders::{StandingOrder, StandingOrderError};
use longhaul_core::run::Run;

/// A change of a session's standing orders.
pub(crate) enum OrderChange {
    Pin { text: String, replaces: Option<OrderId> },
    Edit { id: OrderId, text: String },
    Remove { id: OrderId },
}

impl OrderChange {
    /// Returns the events of the change: none if nothing would change.
    pub(super) fn events(&self, run: &Run) -> Result<Vec<EventBody>, StandingOrderError> {
        match self {
            Self::Pin { text, replaces } => run.pin_order(text, replaces.clone()),
            Self::Edit { id, text } => run.edit_order(id, text),
            Self::Remove { id } => run.remove_order(id),
        }
    }

    /// Returns the order of the change in the present form.
    pub(super) fn order(&self, run: &Run) -> Option<StandingOrder> {
        let orders = run.history().all_orders();
        match self {
            Self::Pin { text, .. } => orders.same(text).cloned(),
            Self::Edit { id, .. } | Self::Remove { id } => orders.get(id).cloned(),
        }
    }
}
