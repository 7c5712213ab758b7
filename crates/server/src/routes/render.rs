//! Markdown of somebody's as markup that is safe to show.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use longhaul_core::error::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::extract::Input;
use crate::problem::Problem;

/// Texts at once, and their bytes, at most.
const TEXTS: usize = 64;
const BYTES: usize = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    texts: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Rendered {
    html: Vec<String>,
}

pub(super) async fn render(
    State(app): State<App>,
    Input(Texts { texts }): Input<Texts>,
) -> Result<Json<Rendered>, Problem> {
    let bytes: usize = texts.iter().map(String::len).sum();
    if texts.len() > TEXTS || bytes > BYTES {
        let detail = format!("At most {TEXTS} texts of {BYTES} bytes in all are rendered at once.");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::InvalidRequest, detail));
    }
    Ok(Json(Rendered { html: app.rendered(texts).await? }))
}
