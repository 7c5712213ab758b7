//! A provider's own server whose key is missing: it is not called, not even for what it knows of a model.

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::Origin;
use longhaul_providers::{Declared, Limits, ModelStream, Provider, ProviderError, Request, SharedProvider};

/// The model there.
pub(super) struct Keyless {
    model: SharedProvider,
    declared: Declared,
    why: String,
}

impl Keyless {
    /// `why` is what each call is answered with.
    pub(super) fn new(model: SharedProvider, declared: Declared, why: String) -> Self {
        Self { model, declared, why }
    }
}

#[async_trait]
impl Provider for Keyless {
    fn origin(&self) -> Origin {
        self.model.origin()
    }

    async fn limits(&self) -> Limits {
        self.declared.over(Limits::default())
    }

    fn render(&self, request: &Request) -> Result<Bytes, ProviderError> {
        self.model.render(request)
    }

    async fn call(&self, _: Request) -> Result<ModelStream, ProviderError> {
        Err(ProviderError::new(ErrorCode::Auth, self.why.clone()))
    }
}
