//! The interface of the decoders that read a model's answer.

use longhaul_core::message::ModelAnswer;
use longhaul_core::usage::Usage;

use crate::{ModelEvent, ProviderError, empty_answer};

/// A decoder for the answers of one wire: payloads in, events out.
pub trait StreamDecoder: Default + Send + 'static {
    /// `true` if a stream is one JSON object per line. Otherwise it is server-sent events.
    const LINES: bool = false;

    /// The largest size of one event, in bytes.
    const MAX_EVENT_BYTES: usize = 16 << 20;

    /// Decodes the data of one event, or a whole answer.
    ///
    /// # Errors
    /// The server's error, or the error of an unreadable payload.
    fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError>;

    /// Reports whether nothing more can follow.
    fn is_closed(&self) -> bool;

    /// Reports whether the stop reason is known: only usage may follow.
    fn has_finished(&self) -> bool {
        self.is_closed()
    }

    /// Reports whether the model may be writing something that produces no event. Pings then count as progress.
    fn is_working_silently(&self) -> bool {
        false
    }

    /// Returns the usage that was reported so far.
    fn usage(&self) -> Option<Usage>;

    /// Returns the answer.
    ///
    /// # Errors
    /// `truncated-stream` if the answer did not end.
    fn finish(self) -> Result<ModelAnswer, ProviderError>;

    /// Returns the answer of `body`, which came whole and not as a stream. A body without content is an empty answer.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish); `third-party` for a body that is no answer of a model.
    fn finish_whole(self, body: &str) -> Result<ModelAnswer, ProviderError> {
        empty_answer::settle(body, self.finish())
    }
}
