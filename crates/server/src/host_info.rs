//! Facts that the host program knows and this library does not.

use std::fmt;

pub use futures_util::future::BoxFuture;
use serde::Serialize;
use utoipa::ToSchema;

/// A model server on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Backend)]
pub struct ModelBackend {
    /// The probable kind of server, for example `Ollama`.
    pub name: String,
    /// The base URL of its API.
    pub base_url: String,
    /// The names of the server's models.
    pub models: Vec<String>,
}

/// The environment of the server, as the host program knows it.
pub trait ServerEnvironment: fmt::Debug + Send + Sync {
    /// Returns the model servers on this machine that answer now.
    fn backends(&self) -> BoxFuture<'_, Vec<ModelBackend>>;

    /// Returns whether the model is the scripted one of the demo, because no other was found.
    fn is_demo(&self) -> bool;
}

/// An environment without any facts.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyEnvironment;

impl ServerEnvironment for EmptyEnvironment {
    fn backends(&self) -> BoxFuture<'_, Vec<ModelBackend>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn is_demo(&self) -> bool {
        false
    }
}
