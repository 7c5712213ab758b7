//! Google's reported limits of models.

use std::time::Duration;

use serde_json::Value;

use super::client::model_url;
use crate::http::{BaseUrl, ProviderHttpClient};
use crate::{FeatureSupport, LimitSource, Limits, ModelEndpoint, ReasoningScope};
use longhaul_wire::token_count;

/// The wait for the description of a model.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks `GET models/NAME`, unless everything is declared. If the API is below the version's path, `base` keeps to it.
pub(super) async fn fetch_limits(
    http: &ProviderHttpClient,
    endpoint: &ModelEndpoint,
    base: &BaseUrl,
) -> Limits {
    let declared = endpoint.declared;
    let known = if declared.is_complete() { None } else { describe(http, &endpoint.model, base).await };
    declared.over(Limits { prefill: FeatureSupport::No, ..known.as_ref().map(read).unwrap_or_default() })
}

/// Returns the server's description of a model.
async fn describe(http: &ProviderHttpClient, model: &str, base: &BaseUrl) -> Option<Value> {
    let about = |base: &str| model_url(base, model, "").ok();
    if let Some(known) = http.get_json(about(base.current())?, PATIENCE).await {
        return Some(known);
    }
    let known = http.get_json(about(&base.alternative()?)?, PATIENCE).await?;
    base.adopt_alternative();
    Some(known)
}

/// Reads the limits. The window is the input's; the output has a separate limit.
///
/// In the current step the model is shown its thoughts again, by signatures. The prompt count at the end of a stream
/// includes such thoughts.
fn read(model: &Value) -> Limits {
    let thinks = model.get("thinking").and_then(Value::as_bool);
    Limits {
        max_output: token_count::limit(model.get("outputTokenLimit")),
        reasoning: thinks.map(|thinks| if thinks { ReasoningScope::Turn } else { ReasoningScope::Never }),
        ..Limits::from_window(token_count::limit(model.get("inputTokenLimit")), LimitSource::Server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let model = serde_json::json!({
            "name": "models/gemini-2.5-flash", "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"], "thinking": true
        });
        let limits = read(&model);
        assert_eq!((limits.window, limits.source), (Some(1_048_576), LimitSource::Server));
        assert_eq!((limits.max_output, limits.reasoning), (Some(65_536), Some(ReasoningScope::Turn)));
        assert_eq!(read(&serde_json::json!({"name": "x"})), Limits::default());
    }
}
