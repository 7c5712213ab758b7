//! Google's quota details beside the message of an error: whether waiting helps.

use longhaul_core::error::ErrorCode;
use serde_json::Value;

use crate::ProviderError;

/// Adds `google.rpc.QuotaFailure` of an error's body to the error. A quota that is used up for the day is not asked for
/// again (<https://ai.google.dev/gemini-api/docs/rate-limits>).
pub fn explain(mut error: ProviderError) -> ProviderError {
    if error.code != ErrorCode::RateLimitExceeded {
        return error;
    }
    let body: Value =
        error.body.as_deref().and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
    // Gemini puts the error object of a stream into a list.
    let object = body.get(0).unwrap_or(&body);
    let details = object.pointer("/error/details").and_then(Value::as_array);
    for detail in details.into_iter().flatten() {
        error.retryable &= !is_daily(detail);
    }
    error
}

fn is_daily(detail: &Value) -> bool {
    let violations = detail.get("violations").and_then(Value::as_array);
    let mut quotas = violations.into_iter().flatten().filter_map(|one| one.get("quotaId")?.as_str());
    quotas.any(|quota| quota.contains("PerDay"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server_error;

    fn refused(details: &str) -> ProviderError {
        let body = format!(
            r#"[{{"error":{{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{details}]}}}}]"#
        );
        explain(server_error::from_response(429, None, body))
    }

    #[test]
    fn the_delay_is_in_the_body() {
        let error = refused(
            r#"{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}"#,
        );
        assert_eq!((error.code, error.retryable), (ErrorCode::RateLimitExceeded, true));
        assert_eq!(error.retry_after, Some(Duration::from_millis(34_500)));
    }

    #[test]
    fn what_is_used_up_for_the_day_is_not_asked_again() {
        let error = refused(
            r#"{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"8s"}"#,
        );
        assert!(!error.retryable);
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let error =
            server_error::from_response(503, None, r#"{"error":{"details":[{"retryDelay":"8s"}]}}"#.into());
        assert_eq!(explain(error.clone()), error);
        for delay in ["", "s", "-3s", "NaNs", "1e300s", "5"] {
            assert_eq!(refused(&format!(r#"{{"retryDelay":"{delay}"}}"#)).retry_after, None, "{delay:?}");
        }
    }
}
