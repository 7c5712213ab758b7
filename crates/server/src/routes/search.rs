//! The route for searching all sessions.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::AppState;
use crate::error_messages::is_blank;
use crate::extract::QueryParams;
use crate::problem::ApiProblem;
use crate::search::{self, SearchResponse};

/// The default and the maximum number of hits.
const HITS: usize = 20;
const MOST_HITS: usize = 100;

/// The maximum length of a query, in characters.
const QUERY_CHARS: usize = 500;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParams {
    /// The words to search for. A hit contains all of them.
    #[param(min_length = 1, max_length = 500)]
    q: String,
    /// The most hits: 20 by default, at most 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
}

/// Search all sessions, the newest first
#[utoipa::path(get, path = "/api/search", operation_id = "search", tag = "sessions", params(SearchParams),
    responses((status = 200, body = SearchResponse, description = "The messages and titles that contain all words, and whether the search was complete.")))]
pub(crate) async fn search(
    State(app): State<AppState>,
    QueryParams(wanted): QueryParams<SearchParams>,
) -> Result<Json<SearchResponse>, ApiProblem> {
    if is_blank(&wanted.q) || wanted.q.chars().count() > QUERY_CHARS {
        return Err(ApiProblem::invalid(format!("`q` must have 1 to {QUERY_CHARS} visible characters.")));
    }
    let limit = wanted.limit.unwrap_or(HITS);
    if !(1..=MOST_HITS).contains(&limit) {
        return Err(ApiProblem::invalid(format!("`limit` is between 1 and {MOST_HITS}.")));
    }
    Ok(Json(search::search(&app, &wanted.q, limit).await?))
}
