//! The page's cookie, given to a browser by the opening link, or in exchange for the token.

use std::time::Instant;

use axum::extract::State;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::app::AppState;
use crate::cookie;
use crate::extract::{PathParams, PreAuthJsonBody};
use crate::guard::RequestAuthInfo;
use crate::openapi::answer;
use crate::problem::ApiProblem;

/// The page's address, relative to an opening link. A reverse proxy may serve the page below a path that the server
/// does not know.
const PAGE: &str = "../";

/// The address for an invalid key, where the page explains the reason.
const SPENT: &str = "../#opening-link-spent";

#[derive(Deserialize, ToSchema)]
#[schema(as = LoginRequest)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginRequestBody {
    token: String,
}

/// Open the page with a login link, which sets its cookie
#[utoipa::path(get, path = "/open/{key}", operation_id = "openPage", tag = "page", params(("key" = String, Path)), 
    responses((status = 303, description = "A redirect to the page.")))]
pub(crate) async fn open(
    State(app): State<AppState>,
    Extension(visit): Extension<RequestAuthInfo>,
    PathParams(key): PathParams<String>,
) -> Response {
    // The key is consumed in any case, so that a link in a browser's history opens nothing.
    let opens = app.openings().take(&key, Instant::now());
    tracing::info!(opens, is_known = visit.is_known, "an opening link was used");
    // A browser with the cookie needs no key: people open old links from their history.
    let to = if opens || visit.is_known { PAGE } else { SPENT };
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
    if opens {
        set(&mut response, cookie::setting(&visit.host, &app.config().token));
    }
    response
}

/// Exchange the token for the page's cookie
#[utoipa::path(post, path = "/api/login", operation_id = "login", tag = "page",  request_body = LoginRequestBody,
    responses((status = 200, body = answer::OkResponse, description = "A redirect to the page that sets the cookie.")))]
pub(crate) async fn login(
    State(app): State<AppState>,
    Extension(visit): Extension<RequestAuthInfo>,
    PreAuthJsonBody(login): PreAuthJsonBody<LoginRequestBody>,
) -> Result<Response, ApiProblem> {
    // People paste the token with the line break of its file.
    if !app.config().token.matches(login.token.trim()) {
        tracing::info!(host = %visit.host, "refused: a login with another token");
        return Err(ApiProblem::wrong_token());
    }
    tracing::info!(host = %visit.host, "the page was given its cookie");
    Ok(done(cookie::setting(&visit.host, &app.config().token)))
}

/// Remove the page's cookie
#[utoipa::path(post, path = "/api/logout", operation_id = "logout", tag = "page",  
    responses((status = 200, body = answer::OkResponse, description = "The cookie is removed.")))]
pub(crate) async fn logout(Extension(visit): Extension<RequestAuthInfo>) -> Response {
    done(cookie::removing(&visit.host))
}

fn done(cookie: Option<HeaderValue>) -> Response {
    let mut response = Json::<Value>(json!({ "ok": true })).into_response();
    set(&mut response, cookie);
    response
}

fn set(response: &mut Response, cookie: Option<HeaderValue>) {
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}
