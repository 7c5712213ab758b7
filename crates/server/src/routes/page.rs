//! The page and its files, compiled into the program. Development builds read the files from disk.

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, REFERRER_POLICY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rust_embed::{Embed, EmbeddedFile};

use crate::extract::PathParams;
use crate::problem::ApiProblem;

/// The content security policy. Everything is loaded from this server, scripts are separate files, the page cannot be
/// framed, and only its one Trusted Types policy turns text into HTML.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types longhaul";

const INDEX: &str = "index.html";

#[derive(Embed)]
#[folder = "web/"]
struct WebAssets;

/// The page
#[utoipa::path(get, path = "/", operation_id = "getPage", tag = "page",  
    responses((status = 200, body = String, content_type = "text/html", description = "The page"), (status = 304, description = "The content is unchanged.")))]
pub(crate) async fn index(headers: HeaderMap) -> Result<Response, ApiProblem> {
    file(INDEX, &headers)
}

/// Get a file of the page
#[utoipa::path(get, path = "/web/{path}", operation_id = "getPageFile", tag = "page", params(("path" = String, Path, description = "The path of the file.")), 
    responses((status = 200, description = "The file", content((String = "text/html"), (String = "text/javascript"), (String = "text/css"), (String = "image/svg+xml"))), (status = 304, description = "The content is unchanged.")))]
pub(crate) async fn asset(
    PathParams(path): PathParams<String>,
    request: Request,
) -> Result<Response, ApiProblem> {
    file(&path, request.headers())
}

fn file(path: &str, asked: &HeaderMap) -> Result<Response, ApiProblem> {
    let (Some(kind), Some(EmbeddedFile { data, metadata })) = (kind(path), WebAssets::get(path)) else {
        return Err(ApiProblem::not_found("such file"));
    };
    let tag = format!("\"{}\"", hex(&metadata.sha256_hash()[..16]));
    let is_known = asked.get_all(IF_NONE_MATCH).iter().any(|tags| names(tags, &tag));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(CONTENT_TYPE, kind)], data.into_owned()).into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in [
        // The browser asks each time. Cached files of two versions must not run together after an update.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        // Links in texts lead to foreign sites, which must not learn the page's address.
        (REFERRER_POLICY, "no-referrer"),
        // A page opened from here must get no handle on this window.
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // A file without a tag is only loaded more often.
    headers.extend(HeaderValue::try_from(tag).map(|tag| (ETAG, tag)));
    Ok(response)
}

/// Returns whether a list of ETags contains the ETag.
fn names(tags: &HeaderValue, tag: &str) -> bool {
    let tags = tags.to_str().unwrap_or_default();
    // Proxies that compress answers weaken the tag to `W/`.
    tags.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == tag || one == "*")
}

/// Returns the media type of a file by its extension; `None` if such files are not served.
fn kind(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        _ => return None,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
