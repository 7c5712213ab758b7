//! The reason for a turn's end, in the protocol's words, and errors as an editor shows them.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{self, SessionId, StopReason};
use longhaul::session::{RunOutcome, SessionError};
use longhaul_core::error::ErrorCode;
use longhaul_core::event::RunEnd;
use longhaul_store::StoreError;
use serde_json::json;

use crate::failure::CommandError;

/// Returns the stop reason of a run. An end that the protocol has no word for is an error with a message.
pub(super) fn reason(settled: &RunOutcome) -> Result<StopReason, Error> {
    match settled.end {
        // Each is a limit on what the model may do in one turn.
        Some(RunEnd::MaxSteps | RunEnd::Timeout | RunEnd::LoopDetected) => Ok(StopReason::MaxTurnRequests),
        Some(RunEnd::Cancelled) => Ok(StopReason::Cancelled),
        Some(RunEnd::Length) => Ok(StopReason::MaxTokens),
        Some(RunEnd::Error) => match &settled.error {
            Some(error) if error.code == ErrorCode::Refused => Ok(StopReason::Refusal),
            Some(error) => Err(internal(&error.message).data(json!({ "code": error.code }))),
            None => Err(internal("the run failed")),
        },
        _ => Ok(StopReason::EndTurn),
    }
}

/// Returns an explanation for an end that its stop reason alone does not explain.
pub(super) fn remark(settled: &RunOutcome) -> Option<&'static str> {
    match settled.end? {
        RunEnd::MaxSteps => Some("The step limit (run.maxSteps) is reached. Send a message to go on."),
        RunEnd::Timeout => Some("The time limit (run.timeout) is reached. Send a message to go on."),
        RunEnd::LoopDetected => Some(
            "The model repeated a call or a passage without end, in spite of a warning: the run was stopped.",
        ),
        _ => None,
    }
}

/// Creates an internal error with a sentence for the person.
pub(super) fn internal(message: impl Into<String>) -> Error {
    Error::new(agent_client_protocol::ErrorCode::INTERNAL_ERROR, message)
}

/// Creates the error for an invalid request of an editor.
pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(agent_client_protocol::ErrorCode::INVALID_PARAMS, message)
}

/// Converts an error of a command, whole.
pub(super) fn failed(failure: &CommandError) -> Error {
    internal(failure.message())
}

/// Converts an error of a session.
pub(super) fn refused(id: &str, error: &SessionError) -> Error {
    match error {
        SessionError::Store(StoreError::NotFound(_)) => not_found(id),
        error => internal(error.to_string()).data(json!({ "code": error.code() })),
    }
}

/// Creates the error for an unknown session.
pub(super) fn not_found(id: &str) -> Error {
    schema::Error::session_not_found(SessionId::new(id)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::event::ErrorInfo;

    fn ended(end: RunEnd, code: Option<ErrorCode>) -> RunOutcome {
        let error = code.map(|code| ErrorInfo { code, message: "why".to_owned() });
        RunOutcome { end: Some(end), error }
    }

    #[test]
    fn each_end_has_its_word() {
        for (end, expected) in [
            (RunEnd::Stop, StopReason::EndTurn),
            (RunEnd::MaxSteps, StopReason::MaxTurnRequests),
            (RunEnd::Timeout, StopReason::MaxTurnRequests),
            (RunEnd::LoopDetected, StopReason::MaxTurnRequests),
            (RunEnd::Cancelled, StopReason::Cancelled),
            (RunEnd::Length, StopReason::MaxTokens),
        ] {
            assert_eq!(reason(&ended(end, None)).unwrap(), expected);
        }
        let refused = ended(RunEnd::Error, Some(ErrorCode::Refused));
        assert_eq!(reason(&refused).unwrap(), StopReason::Refusal);
        let failed = reason(&ended(RunEnd::Error, Some(ErrorCode::Auth))).unwrap_err();
        assert_eq!((failed.message.as_str(), failed.data), ("why", Some(json!({ "code": "auth" }))));
    }
}
