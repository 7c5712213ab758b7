//! A provider with limits completed by the catalogue.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use longhaul_core::message::ModelOrigin;

use crate::{
    Limits, ModelRequest, ModelStream, Provider, ProviderError, ReasoningScope, SharedProvider, openai_chat,
};
use longhaul_wire::catalog;

/// Returns the provider, with limits from the catalogue where neither the user nor the server gives a limit.
///
/// The provider's own limits win, declared ones among them: `declared.over(server.or(catalogue))`.
pub fn with_catalog_limits(provider: SharedProvider, base_url: impl Into<String>) -> SharedProvider {
    Arc::new(CatalogProvider { provider, base_url: base_url.into() })
}

/// Returns the catalogue's limits of a model behind a wire.
pub fn limits(origin: &ModelOrigin, base_url: &str) -> Limits {
    let known = catalog::limits(&origin.model, base_url);
    // Servers of OpenAI's open weights (`gpt-oss`) do send reasoning, so the rule leaves them out.
    if origin.api == openai_chat::API
        && catalog::find(&origin.model).is_some_and(|model| model.maker() == "openai" && !model.is_open())
    {
        // Chat Completions has no field for the reasoning of OpenAI's own models, in either direction.
        return Limits { reasoning: Some(ReasoningScope::Never), ..known };
    }
    known
}

struct CatalogProvider {
    provider: SharedProvider,
    base_url: String,
}

#[async_trait]
impl Provider for CatalogProvider {
    fn origin(&self) -> ModelOrigin {
        self.provider.origin()
    }

    async fn limits(&self) -> Limits {
        let origin = self.origin();
        // The server is asked first, because the catalogue only fills the gaps.
        let known = self.provider.limits().await;
        let limits = known.or(limits(&origin, &self.base_url));
        tracing::debug!(
            model = %origin.model,
            window = limits.window,
            max_output = limits.max_output,
            source = ?limits.source,
            from_catalogue = known.window.is_none() && limits.window.is_some(),
            "the model's limits are known"
        );
        limits
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

#[cfg(test)]
mod tests {
    use longhaul_core::error::ErrorCode;

    use super::*;
    use crate::{FeatureSupport, LimitSource};

    /// A provider of a model with the given limits and no others.
    struct Says(&'static str, Limits);

    #[async_trait]
    impl Provider for Says {
        fn origin(&self) -> ModelOrigin {
            ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: self.0.to_owned() }
        }

        async fn limits(&self) -> Limits {
            self.1
        }

        fn render(&self, _request: &ModelRequest) -> Result<Bytes, ProviderError> {
            Ok(Bytes::from_static(b"rendered"))
        }

        async fn count(&self, _request: &ModelRequest) -> Result<Option<u64>, ProviderError> {
            Ok(Some(7))
        }

        async fn call(&self, _request: ModelRequest) -> Result<ModelStream, ProviderError> {
            Err(ProviderError::new(ErrorCode::Auth, "called"))
        }
    }

    async fn of(model: &'static str, says: Limits, base_url: &str) -> Limits {
        with_catalog_limits(Arc::new(Says(model, says)), base_url).limits().await
    }

    #[tokio::test]
    async fn the_catalogue_stands_behind_what_is_said() {
        let there = "https://api.anthropic.com";
        let unsaid = of("claude-sonnet-4-5", Limits::default(), there).await;
        assert_eq!((unsaid.window, unsaid.source), (Some(200_000), LimitSource::Catalogue));
        assert_eq!((unsaid.files, unsaid.reasoning), (FeatureSupport::Yes, Some(ReasoningScope::Turn)));
        let declared =
            Limits { files: FeatureSupport::No, ..Limits::from_window(Some(9_000), LimitSource::Declared) };
        let said = of("claude-sonnet-4-5", declared, there).await;
        assert_eq!((said.window, said.source), (Some(9_000), LimitSource::Declared));
        assert_eq!((said.files, said.max_output), (FeatureSupport::No, Some(64_000)));
        let local = of("qwen3-8b", Limits::default(), "http://localhost:8080/v1").await;
        assert_eq!((local.window, local.source), (None, LimitSource::Unknown));
    }

    #[tokio::test]
    async fn everything_else_is_the_providers_own() {
        let known = with_catalog_limits(Arc::new(Says("m", Limits::default())), "");
        assert_eq!(known.origin().model, "m");
        assert_eq!(known.render(&ModelRequest::default()), Ok(Bytes::from_static(b"rendered")));
        assert_eq!(known.count(&ModelRequest::default()).await, Ok(Some(7)));
        assert_eq!(
            known.call(ModelRequest::default()).await.err().map(|error| error.code),
            Some(ErrorCode::Auth)
        );
    }

    #[test]
    fn reasoning_that_a_wire_has_no_place_for_is_never_shown_again() {
        let of = |api: &str, model: &str| {
            let origin =
                ModelOrigin { provider: "p".to_owned(), api: api.to_owned(), model: model.to_owned() };
            limits(&origin, "https://api.openai.com/v1").reasoning
        };
        assert_eq!(of(openai_chat::API, "gpt-5"), Some(ReasoningScope::Never));
        assert_eq!(of("openai-responses", "gpt-5"), Some(ReasoningScope::Turn));
        assert_eq!(of(openai_chat::API, "gpt-oss-20b"), Some(ReasoningScope::Turn));
    }
}
