//! A session as a file.

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use longhaul::export::{self, SessionMeta};
use longhaul_core::ids::SessionId;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::extract::{Named, Params};
use crate::problem::Problem;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct How {
    #[serde(default)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[schema(as = ExportFormat)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    #[default]
    Jsonl,
    Markdown,
}

/// A session as a file
#[utoipa::path(get, path = "/api/sessions/{id}/export", operation_id = "exportSession", tag = "sessions", params(("id" = String, Path), How), 
    responses((status = 200, description = "The file", content((String = "application/x-ndjson"), (String = "text/markdown")))))]
pub(crate) async fn export(
    State(app): State<App>,
    Named(id): Named<String>,
    Params(how): Params<How>,
) -> Result<Response, Problem> {
    let id = SessionId::from(id);
    let record = app.runtime().store().session(&id).await?;
    let events = app.runtime().log(&id).await?;
    let meta = SessionMeta { id: record.id, title: record.title, created_at: record.created_at };
    let (file, kind, ending) = match how.format {
        Format::Markdown => {
            (export::markdown(&meta, &events).into_bytes(), "text/markdown; charset=utf-8", "md")
        }
        Format::Jsonl => {
            let mut contents = Vec::new();
            for blob in export::blob_refs(&events) {
                let content = app.runtime().blobs().get(&blob).await?;
                contents.push((blob, content));
            }
            let mut file = Vec::new();
            let pairs = contents.iter().map(|(blob, content)| (blob, content));
            export::jsonl(&mut file, &meta, &events, pairs).map_err(|_| Problem::internal())?;
            (file, "application/x-ndjson", "jsonl")
        }
    };
    // Ids are letters, digits and dashes: nothing in them ends a quoted string.
    let name = format!("attachment; filename=\"{}.{ending}\"", meta.id);
    Ok(([(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name)], file).into_response())
}
