//! The route for exporting a session as a file.

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use longhaul::export::{self, SessionMeta};
use longhaul_core::ids::{Seq, SessionId};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::AppState;
use crate::extract::{PathParams, QueryParams};
use crate::problem::ApiProblem;

/// The header with the positions of damaged events, left out of an export.
const DAMAGED_EVENTS: HeaderName = HeaderName::from_static("x-longhaul-damaged-events");

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportParams {
    #[serde(default)]
    format: ExportFormat,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[schema(as = ExportFormat)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExportFormat {
    #[default]
    Jsonl,
    Markdown,
}

/// Export a session
#[utoipa::path(get, path = "/api/sessions/{id}/export", operation_id = "exportSession", tag = "sessions", params(("id" = String, Path), ExportParams), 
    responses((status = 200, description = "The file. Damaged events are left out; the header `x-longhaul-damaged-events` lists their positions.", content((String = "application/x-ndjson"), (String = "text/markdown")))))]
pub(crate) async fn export(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    QueryParams(how): QueryParams<ExportParams>,
) -> Result<Response, ApiProblem> {
    let id = SessionId::from(id);
    // Read from the store directly, because a damaged session cannot be opened.
    let record = app.runtime().store().session(&id).await?;
    // Everything that is not damaged is exported, since no better copy may exist.
    let found = app.runtime().store().read_undamaged(&id, 0, usize::MAX).await?;
    let (events, damaged) = (found.events, found.damaged);
    let meta = SessionMeta { id: record.id, title: record.title, created_at: record.created_at };
    let (file, kind, ending) = match how.format {
        ExportFormat::Markdown => {
            (export::markdown(&meta, &events).into_bytes(), "text/markdown; charset=utf-8", "md")
        }
        ExportFormat::Jsonl => {
            let mut contents = Vec::new();
            for blob in export::blob_refs(&events) {
                let content = app.runtime().blobs().get(&blob).await?;
                contents.push((blob, content));
            }
            let mut file = Vec::new();
            let pairs = contents.iter().map(|(blob, content)| (blob, content));
            export::jsonl(&mut file, &meta, &events, pairs).map_err(|_| ApiProblem::internal())?;
            (file, "application/x-ndjson", "jsonl")
        }
    };
    // An id has only letters, digits and dashes, so it cannot end the quoted string.
    let name = format!("attachment; filename=\"{}.{ending}\"", meta.id);
    let mut answer = ([(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name)], file).into_response();
    if !damaged.is_empty() {
        tracing::warn!(session = %meta.id, ?damaged, "damaged events are left out of an export");
        let seqs = damaged.iter().map(Seq::to_string).collect::<Vec<_>>().join(",");
        answer.headers_mut().extend(HeaderValue::from_str(&seqs).ok().map(|seqs| (DAMAGED_EVENTS, seqs)));
    }
    Ok(answer)
}
