//! Clients of model servers: a small client for each wire format of [`longhaul_wire`].
//!
//! A [`Provider`] makes a single model call and nothing else. A provider never retries, never rewrites history, and
//! never drops unknown content. The loop above decides. A second attempt is made in two cases, because the first
//! attempt did nothing: a refused connection to the local machine, and a base URL without the version of the API.
//!
//! | Cargo feature | default | adds |
//! |---|---|---|
//! | `compression` | yes | answers that a server compresses unasked are read; without it they are an error |
//! | `http2` | yes | HTTP/2, where a server offers it |

mod adaptations;
pub mod anthropic;
#[doc(hidden)]
pub mod catalog_provider;
pub mod conformance;
pub mod connect;
mod endpoint;
pub mod gemini;
pub mod http;
#[doc(hidden)]
pub mod ndjson;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
pub mod scripted;
#[doc(hidden)]
pub mod sse;

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use longhaul_core::message::ModelOrigin;

pub use endpoint::ModelEndpoint;
pub use longhaul_wire::{
    DeclaredLimits, FeatureSupport, LimitSource, Limits, ModelEvent, ModelRequest, ModelSettings,
    ProviderError, ReasoningScope, ToolChoice, UNSUPPORTED,
};

/// A model behind a wire.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Returns the origin: the model and the wire.
    fn origin(&self) -> ModelOrigin;

    /// Returns the known limits and abilities of the model. May ask the server. The loop asks once per session and
    /// after a limit was learned.
    async fn limits(&self) -> Limits;

    /// Returns the exact bytes of the call for `request`, without sending anything.
    ///
    /// # Errors
    /// [`ProviderError`] with code `invalid-request` if the request cannot be expressed on the provider's wire.
    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError>;

    /// Returns the input tokens of `request` by the server's own count; `None` if the server does not count. The
    /// request to the server never delays a call.
    ///
    /// # Errors
    /// [`ProviderError`] if the server was asked and gave no count.
    async fn count(&self, _request: &ModelRequest) -> Result<Option<u64>, ProviderError> {
        Ok(None)
    }

    /// Makes a call. The stream ends with exactly one [`ModelEvent::Finished`], or with an error. `refused` means a
    /// withheld answer; the events so far stay with the caller. Dropping the stream closes the connection.
    ///
    /// # Errors
    /// [`ProviderError`] for every failure before the first event.
    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ProviderError>;
}

/// A shared provider.
pub type SharedProvider = Arc<dyn Provider>;

/// The events of a model call.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ProviderError>> + Send>>;

/// Returns the stream of a known answer, for a provider without streams.
///
/// ```
/// use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};
/// use longhaul_providers::{ModelEvent, stream_events};
///
/// let answer = ModelAnswer { parts: vec![Part::text("Hi")], finish: ModelStopReason::Stop, usage: None, envelope: None };
/// let stream = stream_events([ModelEvent::Text("Hi".to_owned()), ModelEvent::Finished(answer)]);
/// ```
pub fn stream_events<I>(events: I) -> ModelStream
where
    I: IntoIterator<Item = ModelEvent>,
    I::IntoIter: Send + 'static,
{
    Box::pin(futures_util::stream::iter(events.into_iter().map(Ok)))
}
