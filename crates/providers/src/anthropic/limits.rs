//! The API's reported limits of models.

use std::time::Duration;

use serde_json::{Map, Value};

use super::AnthropicConfig;
use crate::http::{BaseUrl, ProviderHttpClient};
use crate::{FeatureSupport, LimitSource, Limits};
use longhaul_wire::token_count;

/// The wait for the description of a model.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the server, unless every limit is declared. An unmentioned ability is assumed: every model of the API has had
/// these abilities since the third generation.
pub(super) async fn fetch_limits(
    http: &ProviderHttpClient,
    base: &BaseUrl,
    config: &AnthropicConfig,
) -> Limits {
    let declared = config.endpoint.declared;
    let said = if declared.is_complete() { None } else { describe(http, base, config).await };
    let usual = Limits {
        tools: FeatureSupport::Yes,
        images: FeatureSupport::Yes,
        files: FeatureSupport::Yes,
        prefill: prefill(&config.endpoint.body),
        ..Limits::default()
    };
    // The usual abilities stand last, because older servers describe no abilities at all.
    declared.over(said.as_ref().map(read).unwrap_or_default().or(usual))
}

/// Returns the support for prefill. No model continues a begun answer while thinking; otherwise the support depends
/// on the model.
fn prefill(body: &Map<String, Value>) -> FeatureSupport {
    // `thinking` is an extra field of the configuration, so the configured body is the place to look.
    let thinks = body.get("thinking").and_then(|thinking| thinking.get("type"));
    match thinks.and_then(Value::as_str) {
        Some("enabled" | "adaptive") => FeatureSupport::No,
        _ => FeatureSupport::Unknown,
    }
}

async fn describe(http: &ProviderHttpClient, base: &BaseUrl, config: &AnthropicConfig) -> Option<Value> {
    // `new` has refused a base URL that cannot be used, so this error cannot be lost here.
    let url = base.endpoint(&["models", &config.endpoint.model]).ok()?;
    http.get_json(url, PATIENCE).await
}

/// Reads the limits from `GET /v1/models/{id}`. Older servers give no more than a name.
fn read(model: &Value) -> Limits {
    Limits {
        max_output: token_count::limit(model.get("max_tokens")),
        images: support(model, "image_input"),
        files: support(model, "pdf_input"),
        ..Limits::from_window(token_count::limit(model.get("max_input_tokens")), LimitSource::Server)
    }
}

fn support(model: &Value, capability: &str) -> FeatureSupport {
    let stated = model.get("capabilities").and_then(|all| all.get(capability)?.get("supported"));
    stated.and_then(Value::as_bool).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_description_is_read_and_a_name_alone_says_nothing() {
        let limits = read(&json!({
            "id": "claude", "max_input_tokens": 1_000_000, "max_tokens": 64_000,
            "capabilities": {"image_input": {"supported": true}, "pdf_input": {"supported": false}},
        }));
        assert_eq!((limits.window, limits.source), (Some(1_000_000), LimitSource::Server));
        assert_eq!(
            (limits.max_output, limits.images, limits.files),
            (Some(64_000), FeatureSupport::Yes, FeatureSupport::No)
        );
        assert_eq!(read(&json!({"id": "claude", "display_name": "Claude"})), Limits::default());
        assert_eq!(read(&json!({"max_input_tokens": null, "capabilities": null})), Limits::default());
    }

    #[test]
    fn a_model_that_thinks_does_not_go_on_with_an_answer() {
        let of = |thinking: Value| prefill(&Map::from_iter([("thinking".to_owned(), thinking)]));
        assert_eq!(of(json!({ "type": "enabled", "budget_tokens": 1_024 })), FeatureSupport::No);
        assert_eq!(of(json!({ "type": "adaptive" })), FeatureSupport::No);
        assert_eq!(
            (of(json!({ "type": "disabled" })), prefill(&Map::new())),
            (FeatureSupport::Unknown, FeatureSupport::Unknown)
        );
    }
}
