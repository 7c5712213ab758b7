//! The route for rendering Markdown as safe HTML.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use longhaul_core::error::ErrorCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::AppState;
use crate::extract::JsonBody;
use crate::problem::ApiProblem;

/// The maximum number of texts in a request, and their total size in bytes.
const TEXTS: usize = 64;
const BYTES: usize = 1 << 20;

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = RenderRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenderRequestBody {
    #[schema(max_items = 64)]
    texts: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Rendered)]
pub(crate) struct RenderResponse {
    html: Vec<String>,
}

/// Render Markdown as safe HTML
#[utoipa::path(post, path = "/api/render", operation_id = "renderMarkdown", tag = "page",  request_body = RenderRequestBody,
    responses((status = 200, body = RenderResponse, description = "The HTML of each text, in the order of the request.")))]
pub(crate) async fn render(
    State(app): State<AppState>,
    JsonBody(RenderRequestBody { texts }): JsonBody<RenderRequestBody>,
) -> Result<Json<RenderResponse>, ApiProblem> {
    let bytes: usize = texts.iter().map(String::len).sum();
    // The body's own limit is larger, and rendering costs more than reading.
    if texts.len() > TEXTS || bytes > BYTES {
        let detail = format!("At most {TEXTS} texts of {BYTES} bytes in all are rendered at once.");
        return Err(ApiProblem::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::InvalidRequest, detail));
    }
    Ok(Json(RenderResponse { html: app.rendered(texts).await? }))
}
