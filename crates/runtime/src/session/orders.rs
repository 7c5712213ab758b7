//! The standing orders of a session: pinned, edited, removed, listed.

use longhaul_core::ids::OrderId;
use longhaul_core::orders::StandingOrder;

use super::{Session, SessionError};
use crate::driver::{OrderChange, SessionCommand};

/// The outcome of pinning an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinOutcome {
    /// The order.
    pub order: StandingOrder,
    /// True if the order was made now. An order with the same text is not made twice.
    pub is_new: bool,
}

impl Session {
    /// Pins a standing order: an instruction in every request from the next step on, in full and whatever is compacted.
    /// The order is durable when the future resolves, even while a run is in progress. `replaces` names an order to be
    /// made inactive.
    ///
    /// An active order with the same text, case and spacing aside, is returned unchanged.
    ///
    /// # Errors
    /// [`SessionError::Order`] if the text is empty or longer than
    /// [`MAX_ORDER_CHARS`](longhaul_core::orders::MAX_ORDER_CHARS) characters, if there are too many orders or the
    /// window has no room for them, or if the order to replace is missing; [`SessionError::Stopped`].
    ///
    /// ```
    /// # async fn example(session: longhaul::session::Session) -> Result<(), longhaul::session::SessionError> {
    /// let pinned = session.pin_order("Never push to main.", None).await?;
    /// let replaced = session.pin_order("Never push at all.", Some(pinned.order.id)).await?;
    /// session.remove_order(replaced.order.id).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pin_order(
        &self,
        text: impl Into<String>,
        replaces: Option<OrderId>,
    ) -> Result<PinOutcome, SessionError> {
        self.change_orders(OrderChange::Pin { text: text.into(), replaces }).await
    }

    /// Gives a standing order another text and returns the order. The model sees the change before its next step.
    ///
    /// # Errors
    /// The errors of [`Session::pin_order`]; [`SessionError::Order`] if the order does not exist or is inactive, or if
    /// another order has the text.
    pub async fn edit_order(
        &self,
        id: OrderId,
        text: impl Into<String>,
    ) -> Result<StandingOrder, SessionError> {
        self.change_orders(OrderChange::Edit { id, text: text.into() }).await.map(|changed| changed.order)
    }

    /// Removes and returns a standing order. The log keeps the order, and the model sees the removal before its next
    /// step.
    ///
    /// # Errors
    /// [`SessionError::Order`] if the order does not exist or is inactive; [`SessionError::Stopped`].
    pub async fn remove_order(&self, id: OrderId) -> Result<StandingOrder, SessionError> {
        self.change_orders(OrderChange::Remove { id }).await.map(|changed| changed.order)
    }

    /// Returns all standing orders ever made, oldest first; [`StandingOrder::is_active`] reports those in force.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn orders(&self) -> Result<Vec<StandingOrder>, SessionError> {
        self.inspect_run(|run| run.history().all_orders().all().to_vec()).await
    }

    async fn change_orders(&self, change: OrderChange) -> Result<PinOutcome, SessionError> {
        self.request(|reply| SessionCommand::ChangeOrders { change, reply }).await?
    }
}
