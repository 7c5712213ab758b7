//! The demands of a server on the form of requests, learned from its refusals.

use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::refusal::PartRefusal;

use crate::ProviderError;

/// The demands of one server, shared by all clones of its client. They are forgotten with the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct LearnedAdaptations<A>(Arc<Mutex<A>>);

impl<A: Copy> LearnedAdaptations<A> {
    /// Returns the demands so far.
    pub(crate) fn current(&self) -> A {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns from a refusal. The error then says that the next request differs, so that the caller repeats it and leaves
    /// nothing out of the conversation.
    ///
    /// `learn` reads a demand from an error, and returns what the next request has in another form because of it.
    pub(crate) fn learn_from(
        &self,
        mut error: ProviderError,
        learn: impl FnOnce(&mut A, &ProviderError) -> Option<&'static str>,
    ) -> ProviderError {
        // Without a status the answer had begun, so the server has taken the form of the request.
        if error.status.is_none() {
            return error;
        }
        let mut adaptations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(change) = learn(&mut adaptations, &error) {
            tracing::warn!(
                "the server refuses the form of requests, and from now on {change} ({})",
                error.message
            );
            error.refusal = Some(Box::new(PartRefusal { is_remedied: true, ..PartRefusal::default() }));
        }
        error
    }
}
