//! The route for the exact original of any content of a session.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use longhaul::recall::{DEFAULT_HITS, RecallSnippet, as_text, recall as find, search as find_all};
use longhaul_core::error::ErrorCode;
use longhaul_core::ids::LogHandle;
use longhaul_core::truncate::TextLimit;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::IntoParams;

use crate::app::AppState;
use crate::extract::{PathParams, QueryParams};
use crate::openapi::answer;
use crate::problem::{ApiProblem, sentence};

/// The size limit of one answer; a range returns the rest.
const LIMIT: TextLimit = TextLimit { max_chars: 1_000_000, max_tokens: 400_000 };

/// The maximum number of hits.
const HITS: usize = 50;

#[derive(Debug, Deserialize, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RecallParams {
    handle: Option<String>,
    range: Option<String>,
    query: Option<String>,
    #[param(minimum = 1, maximum = 50)]
    limit: Option<usize>,
}

/// Recall an exact original, or search a session
#[utoipa::path(get, path = "/api/sessions/{id}/recall", operation_id = "recall", tag = "context", params(("id" = String, Path), RecallParams), 
    responses((status = 200, body = answer::RecallResponse, description = "The original or the hits.")))]
pub(crate) async fn recall(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    QueryParams(wanted): QueryParams<RecallParams>,
) -> Result<Json<Value>, ApiProblem> {
    check(&wanted)?;
    // Originals can be read from a store that takes no writes.
    let session = app.open_or_read(&id).await?;
    let source = session.recall_source().await?;
    if let (None, Some(query)) = (&wanted.handle, &wanted.query) {
        let hits = wanted.limit.unwrap_or(DEFAULT_HITS);
        let hits = find_all(query, hits, &source, app.runtime().blobs(), &LIMIT).await;
        let text = as_text(&hits, &LIMIT);
        let hits: Vec<Value> = hits.iter().map(shown).collect();
        return Ok(Json(json!({ "sessionId": id, "text": text, "hits": hits })));
    }
    // The route takes the way of the tool, so that people and models get the same passages.
    let arguments = serde_json::to_string(&wanted).map_err(|_| ApiProblem::internal())?;
    let found = find(&arguments, &source, app.runtime().blobs(), &LIMIT).await;
    // The prefix names the tool for a model. A person has asked by the route.
    let text = found.map_err(|why| refused(why.trim_start_matches("recall: ")))?;
    Ok(Json(json!({ "sessionId": id, "text": text })))
}

fn shown(hit: &RecallSnippet) -> Value {
    json!({ "handle": hit.handle().to_string(), "seq": hit.seq, "speaker": hit.speaker, "text": hit.snippet })
}

fn check(wanted: &RecallParams) -> Result<(), ApiProblem> {
    match (&wanted.handle, &wanted.query) {
        (None, None) => return Err(ApiProblem::invalid("Give a `handle` or a `query`.")),
        (Some(handle), _) => {
            handle.parse::<LogHandle>().map_err(|error| ApiProblem::invalid(sentence(&error.to_string())))?;
        }
        (None, Some(query)) if query.trim().is_empty() => {
            return Err(ApiProblem::invalid("The `query` is empty."));
        }
        _ => {}
    }
    if wanted.limit.is_some_and(|limit| !(1..=HITS).contains(&limit)) {
        return Err(ApiProblem::invalid(format!("`limit` is between 1 and {HITS}.")));
    }
    Ok(())
}

fn refused(why: &str) -> ApiProblem {
    // The search explains itself in words for a model and has no error kinds.
    let (status, code) = if why.contains("is not a range") {
        (StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest)
    } else {
        (StatusCode::NOT_FOUND, ErrorCode::NotFound)
    };
    ApiProblem::new(status, code, sentence(why))
}
