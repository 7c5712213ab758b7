//! The interface of the decoders that read a model's answer.

use longhaul_core::message::ModelAnswer;
use longhaul_core::usage::Usage;

use crate::{ModelEvent, ProviderError};

/// A decoder for the answers of one wire: payloads in, events out.
pub trait StreamDecoder: Default + Send + 'static {
    /// Whether a stream is one JSON object a line; else it is server-sent events.
    const LINES: bool = false;

    /// The most one event may hold, in bytes.
    const MAX_EVENT_BYTES: usize = 16 << 20;

    /// Decodes the data of one event, or a whole answer.
    ///
    /// # Errors
    /// The server's error, or that of a payload nobody can read.
    fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError>;

    /// Returns whether nothing more can follow.
    fn is_closed(&self) -> bool;

    /// Returns whether the reason to stop is known: what follows is usage at most.
    fn has_finished(&self) -> bool {
        self.is_closed()
    }

    /// Returns whether the model may be at something that it does not show: then pings say as much as there is to
    /// say.
    fn is_working_silently(&self) -> bool {
        false
    }

    /// Returns the usage that was reported until now.
    fn usage(&self) -> Option<Usage>;

    /// Returns the answer.
    ///
    /// # Errors
    /// `truncated-stream` if it did not end.
    fn finish(self) -> Result<ModelAnswer, ProviderError>;
}
