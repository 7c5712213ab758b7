//! The provider for a hosted server whose key is missing. The server is not called, not even for its facts
//! about a model.

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::ModelOrigin;
use longhaul_providers::{
    DeclaredLimits, Limits, ModelRequest, ModelStream, Provider, ProviderError, SharedProvider,
};

/// A model of the hosted server. Each call fails with the reason that the key is missing.
pub(super) struct KeylessProvider {
    model: SharedProvider,
    declared: DeclaredLimits,
    why: String,
}

impl KeylessProvider {
    /// Creates the provider. `why` is the error of each call.
    pub(super) fn new(model: SharedProvider, declared: DeclaredLimits, why: String) -> Self {
        Self { model, declared, why }
    }
}

#[async_trait]
impl Provider for KeylessProvider {
    fn origin(&self) -> ModelOrigin {
        self.model.origin()
    }

    async fn limits(&self) -> Limits {
        // Asking the inner provider would send a request without a key.
        self.declared.over(Limits::default())
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        self.model.render(request)
    }

    async fn call(&self, _: ModelRequest) -> Result<ModelStream, ProviderError> {
        Err(ProviderError::new(ErrorCode::Auth, self.why.clone()))
    }
}
