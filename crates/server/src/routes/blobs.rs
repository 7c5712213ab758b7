//! The routes of stored content: pictures, files, long outputs. A session can read only content named in its
//! own log.

use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul_core::message::{MediaPart, Part};
use longhaul_core::run::Run;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;

use crate::app::AppState;
use crate::content;
use crate::extract::{PathParams, QueryParams, RawBody};
use crate::openapi::answer;
use crate::problem::ApiProblem;

/// The media types for display in a browser. All other content is downloaded, because other types could run
/// scripts.
const SHOWN: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UploadParams {
    #[param(min_length = 1, max_length = 255)]
    name: Option<String>,
}

/// Upload content
#[utoipa::path(post, path = "/api/sessions/{id}/blobs", operation_id = "uploadBlob", tag = "messages", params(("id" = String, Path), UploadParams), request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, body = answer::UploadResponse, description = "Stored")))]
pub(crate) async fn upload(
    State(app): State<AppState>,
    PathParams(id): PathParams<String>,
    QueryParams(about): QueryParams<UploadParams>,
    headers: HeaderMap,
    RawBody(bytes): RawBody,
) -> Result<(StatusCode, Json<Value>), ApiProblem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    // Without a type from the client, the content's first bytes tell it.
    let kind = kind.unwrap_or_else(|| content::found_type(&bytes)).to_owned();
    let work = {
        let app = app.clone();
        async move {
            // If another node has the session, opening it here sends the request there: that node takes the messages
            // and must know the upload.
            let session = app.open(&id).await?;
            let media = content::store(&app, session.id(), bytes, kind, about.name).await?;
            // Until a message names the content, only this entry lets the session use it.
            app.uploads().add(session.id().clone(), media.clone());
            tracing::debug!(session = %session.id(), bytes = media.blob.bytes, kind = media.media_type, "content was uploaded");
            Ok(media)
        }
    };
    let media = app.to_end(work).await?;
    Ok((StatusCode::CREATED, Json(shown(&media))))
}

/// Returns the content's name, and the part for a message.
fn shown(media: &MediaPart) -> Value {
    let kind = if media.media_type.starts_with("image/") { "image" } else { "file" };
    json!({
        "hash": media.blob.hash, "bytes": media.blob.bytes, "mediaType": media.media_type, "name": media.name,
        "width": media.width, "height": media.height,
        "part": { "type": kind, "blob": media.blob, "mediaType": media.media_type, "name": media.name },
    })
}

/// Get the bytes of a blob that the log names
#[utoipa::path(get, path = "/api/sessions/{id}/blobs/{hash}", operation_id = "readBlob", tag = "messages", params(("id" = String, Path), ("hash" = String, Path)), 
    responses((status = 200, description = "The bytes. Pictures have their media type.", content((Vec<u8> = "application/octet-stream"), (Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/gif"), (Vec<u8> = "image/webp")))))]
pub(crate) async fn read(
    State(app): State<AppState>,
    PathParams((id, hash)): PathParams<(String, String)>,
) -> Result<Response, ApiProblem> {
    let session = app.open(&id).await?;
    let named = app.runtime().store().blobs(session.id()).await?;
    // A hash is no permission: content of other sessions is not found here.
    let Some(blob) = named.into_iter().find(|blob| blob.hash == hash) else {
        return Err(ApiProblem::not_found("such content in this session"));
    };
    // The whole content is read, because only the whole has a hash to check.
    let bytes = app.runtime().blobs().get(&blob).await?;
    let kind = session.inspect_run(move |run| media_type(run, &hash)).await?;
    let kind = kind.filter(|kind| SHOWN.contains(&kind.as_str()));
    let place = if kind.is_some() { "inline" } else { "attachment" };
    let headers = [
        (CONTENT_TYPE, kind.unwrap_or_else(|| "application/octet-stream".to_owned())),
        (CONTENT_DISPOSITION, place.to_owned()),
        // The address names the content by its hash, so the content never changes.
        (CACHE_CONTROL, "private, max-age=31536000, immutable".to_owned()),
        (ETAG, format!("\"{}\"", blob.hash)),
    ];
    Ok((headers, bytes).into_response())
}

/// Returns the content's media type according to the log.
fn media_type(run: &Run, hash: &str) -> Option<String> {
    let parts = run.history().entries().iter().flat_map(|entry| &entry.message.parts);
    parts.flat_map(within).find(|media| media.blob.hash == hash).map(|media| media.media_type.clone())
}

fn within(part: &Part) -> Vec<&MediaPart> {
    match part {
        Part::Image(media) | Part::File(media) => vec![media],
        Part::ToolResult(result) => result.content.iter().flat_map(within).collect(),
        _ => Vec::new(),
    }
}
