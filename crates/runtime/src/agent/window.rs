//! A provider whose window somebody knows better than its server.

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::message::Origin;
use longhaul_providers::{Declared, Limits, ModelStream, Provider, ProviderError, Request, SharedProvider};

/// A provider whose window is declared. A session asks its provider for the limits again, so that they must be
/// declared here.
pub(super) struct DeclaredWindow {
    pub(super) provider: SharedProvider,
    /// The context window, in tokens.
    pub(super) tokens: u64,
}

#[async_trait]
impl Provider for DeclaredWindow {
    fn origin(&self) -> Origin {
        self.provider.origin()
    }

    async fn limits(&self) -> Limits {
        Declared { window: Some(self.tokens), ..Declared::default() }.over(self.provider.limits().await)
    }

    fn render(&self, request: &Request) -> Result<Bytes, ProviderError> {
        self.provider.render(request)
    }

    async fn count(&self, request: &Request) -> Result<Option<u64>, ProviderError> {
        self.provider.count(request).await
    }

    async fn call(&self, request: Request) -> Result<ModelStream, ProviderError> {
        self.provider.call(request).await
    }
}
