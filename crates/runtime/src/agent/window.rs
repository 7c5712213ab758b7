//! A provider with a declared window, which overrules the server's window.

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::message::ModelOrigin;
use longhaul_providers::{
    DeclaredLimits, Limits, ModelRequest, ModelStream, Provider, ProviderError, SharedProvider,
};

/// A provider whose window is declared. A session asks its provider for the limits again, so a declaration elsewhere
/// would be lost.
pub(super) struct DeclaredWindowProvider {
    pub(super) provider: SharedProvider,
    /// The context window, in tokens.
    pub(super) tokens: u64,
}

#[async_trait]
impl Provider for DeclaredWindowProvider {
    fn origin(&self) -> ModelOrigin {
        self.provider.origin()
    }

    async fn limits(&self) -> Limits {
        DeclaredLimits { window: Some(self.tokens), ..DeclaredLimits::default() }
            .over(self.provider.limits().await)
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        self.provider.render(request)
    }

    async fn count(&self, request: &ModelRequest) -> Result<Option<u64>, ProviderError> {
        self.provider.count(request).await
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        self.provider.call(request).await
    }
}
