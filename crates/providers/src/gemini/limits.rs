//! Google's reported limits of models.

use std::time::Duration;

use reqwest::Url;
use serde_json::Value;

use crate::http::ProviderHttpClient;
use crate::{FeatureSupport, LimitSource, Limits, ModelEndpoint, ReasoningScope};
use longhaul_wire::token_count;

/// The wait for the description of a model.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks `GET models/NAME`, unless everything is declared.
pub(super) async fn ask(http: &ProviderHttpClient, endpoint: &ModelEndpoint, about: Url) -> Limits {
    let declared = endpoint.declared;
    let known = if declared.is_complete() { None } else { http.get_json(about, PATIENCE).await };
    declared.over(Limits { prefill: FeatureSupport::No, ..known.as_ref().map(read).unwrap_or_default() })
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
