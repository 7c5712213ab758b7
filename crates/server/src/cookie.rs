//! The page's cookie, set by the opening link or a login in place of the token. The name contains the port,
//! because browsers share cookies between the ports of a host.

use axum::http::header::COOKIE;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue};

use crate::token::AccessToken;

/// The lifetime in a browser, in seconds.
// A new token voids the cookie before that time (decision 0021).
const AGE_S: u32 = 30 * 24 * 60 * 60;

/// Returns the cookie's name for a server at the address `host`.
fn name(host: &Authority) -> String {
    host.port_u16().map_or_else(|| "longhaul".to_owned(), |port| format!("longhaul-{port}"))
}

/// Returns the header for setting the cookie.
pub(crate) fn setting(host: &Authority, token: &AccessToken) -> Option<HeaderValue> {
    header(host, &token.cookie(), AGE_S)
}

/// Returns the header for removing the cookie.
pub(crate) fn removing(host: &Authority) -> Option<HeaderValue> {
    header(host, "", 0)
}

fn header(host: &Authority, value: &str, age_s: u32) -> Option<HeaderValue> {
    let name = name(host);
    // `Secure` is missing, because the server speaks plain HTTP and browsers would not send the cookie back.
    // `HttpOnly` keeps the cookie from scripts, and `SameSite=Strict` from requests that other sites start.
    let text = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age_s}");
    HeaderValue::try_from(text).ok()
}

/// Returns whether a request has the cookie.
pub(crate) fn is_brought(headers: &HeaderMap, host: &Authority, token: &AccessToken) -> bool {
    let name = name(host);
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    // A browser may send two cookies of one name, for example with different paths.
    pairs.any(|(key, value)| key == name && token.matches_cookie(value))
}
