//! The server's own count of a request's tokens, by the server's template and vocabulary.

use std::time::Duration;

use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::Part;
use reqwest::Url;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::discover::root;
use crate::http::{self, ProviderHttpClient};
use crate::{ModelRequest, ProviderError};
use longhaul_wire::chat::family::TokenCountEndpoint;
use longhaul_wire::raw_json;
use longhaul_wire::request_body::{RequestBody, parse_body, pick_fields};
use longhaul_wire::token_count::ReportedTokenCount;

/// The wait for a count. A server at work on another client's long prompt answers late.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest size of a count's answer, in bytes: a million tokens, one number each.
const MAX_COUNT_BYTES: usize = 64 << 20;

/// The fields of a request for the prompt, as read by vLLM at `/tokenize`.
const PROMPT_FIELDS: &[&str] = &[
    "model",
    "messages",
    "tools",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "chat_template",
    "chat_template_kwargs",
];

/// Reports whether a request holds media: only the model's own processor can count media.
pub(super) fn has_media(request: &ModelRequest) -> bool {
    request.messages.iter().flat_map(|message| &message.parts).any(|part| match part {
        Part::ToolResult(result) => result.content.iter().any(|part| is_media(request, part)),
        part => is_media(request, part),
    })
}

fn is_media(request: &ModelRequest, part: &Part) -> bool {
    match part {
        Part::Image(media) | Part::File(media) => {
            request.media.contains_key(&media.blob.hash) || request.links.contains_key(&media.blob.hash)
        }
        _ => false,
    }
}

/// Counts the request with `body`; `None` if the server does not count.
///
/// # Errors
/// As [`post`].
pub(super) async fn ask(
    http: &ProviderHttpClient,
    base_url: &str,
    counter: TokenCountEndpoint,
    body: &Bytes,
) -> Result<Option<u64>, ProviderError> {
    let root = root(base_url);
    match counter {
        TokenCountEndpoint::ApplyTemplate => apply_template(http, &root, body).await,
        TokenCountEndpoint::Tokenize => tokenize(http, &root, body).await,
    }
}

/// Counts by `/apply-template`: the endpoint takes the request unchanged, tools included. The server then tokenizes
/// the prompt with special tokens added and parsed, as for the request itself.
async fn apply_template(
    http: &ProviderHttpClient,
    root: &str,
    body: &Bytes,
) -> Result<Option<u64>, ProviderError> {
    #[derive(Deserialize)]
    struct Applied {
        prompt: String,
    }
    #[derive(Deserialize)]
    struct Tokens {
        // Only the number of tokens matters, so a million values are skipped instead of kept.
        tokens: Vec<IgnoredAny>,
    }
    let applied = post::<Applied>(http, http::endpoint(root, &["apply-template"])?, body.clone()).await?;
    let Some(Applied { prompt }) = applied else { return Ok(None) };
    let mut ask = RequestBody::default();
    // A router of several models chooses one by this name.
    if let Some(model) = parse_body(body)?.get("model").and_then(raw_json::value) {
        ask.put("model", &model)?;
    }
    ask.put("content", &prompt)?;
    // llama.cpp adds and parses special tokens for a chat, but its `/tokenize` does so only on request.
    ask.put("add_special", &true)?;
    ask.put("parse_special", &true)?;
    let counted = post::<Tokens>(http, http::endpoint(root, &["tokenize"])?, ask.finish()).await?;
    Ok(counted.map(|counted| counted.tokens.len() as u64))
}

async fn tokenize(http: &ProviderHttpClient, root: &str, body: &Bytes) -> Result<Option<u64>, ProviderError> {
    #[derive(Deserialize)]
    struct Counted {
        count: ReportedTokenCount,
    }
    let ask = pick_fields(&parse_body(body)?, PROMPT_FIELDS)?;
    let counted = post::<Counted>(http, http::endpoint(root, &["tokenize"])?, ask).await?;
    Ok(counted.map(|counted| counted.count.0))
}

/// Posts JSON and reads the answer; `None` if the page does not exist.
///
/// # Errors
/// The error of an answer outside 2xx; `network` or `timeout` without an answer; `third-party` if the answer has
/// another form.
pub(crate) async fn post<T: DeserializeOwned>(
    http: &ProviderHttpClient,
    url: Url,
    body: Bytes,
) -> Result<Option<T>, ProviderError> {
    let asked = async {
        let response = http.post(url, body).await?;
        http::collect(http.bytes(response), MAX_COUNT_BYTES).await
    };
    let answer = tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| {
        let words = format!("the server gave no count for {} s", PATIENCE.as_secs());
        Err(ProviderError::new(ErrorCode::Timeout, words))
    });
    match answer {
        Ok(answer) => serde_json::from_slice(&answer)
            .map(Some)
            .map_err(|error| http.hide_secrets(unexpected(&answer, &error))),
        // The statuses of servers without this page.
        Err(error) if matches!(error.status, Some(404 | 405 | 501)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn unexpected(answer: &[u8], error: &serde_json::Error) -> ProviderError {
    // The answer may be a whole web page. Its beginning is enough to recognise it.
    let body = String::from_utf8_lossy(answer).chars().take(300).collect::<String>();
    let error = ProviderError::new(
        ErrorCode::ThirdParty,
        format!("the server's answer is not a count: {error}: {body}"),
    );
    ProviderError { body: Some(body), ..error }
}
