//! What may be wrong with the place where an upstream is said to be.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};

use super::{Opened, Passage};
use crate::upstream::{Server, Target};
use crate::wire::{Fault, FaultKind};

/// Characters of what was answered that are repeated.
const MOST_SAID_CHARS: usize = 200;

impl Passage {
    /// A path that is not there, with what may be the reason.
    pub(super) fn with_hint(
        &self,
        target: &Arc<Target>,
        opened: Result<Opened, Fault>,
    ) -> Result<Opened, Fault> {
        match opened {
            Ok(Opened::Whole(StatusCode::NOT_FOUND, mut headers, bytes)) => {
                let said = String::from_utf8_lossy(&bytes);
                let Some(hint) = hint(&target.server, &said) else {
                    return Ok(Opened::Whole(StatusCode::NOT_FOUND, headers, bytes));
                };
                let said: String = said.chars().take(MOST_SAID_CHARS).collect();
                let name = &target.server.upstream.name;
                let message = format!("the upstream `{name}` has no such path ({}). {hint}", said.trim());
                let fault = Fault::new(FaultKind::NoSuchPath, message);
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                Ok(Opened::Whole(StatusCode::NOT_FOUND, headers, self.wire.error(&fault)))
            }
            Err(mut fault) if fault.status == StatusCode::NOT_FOUND => {
                if let Some(hint) = hint(&target.server, &fault.message) {
                    fault.message = format!("{}. {hint}", fault.message);
                }
                Err(fault)
            }
            other => other,
        }
    }
}

/// A server that says which model it lacks is where it should be.
fn hint(server: &Server, said: &str) -> Option<String> {
    let base_url = &server.upstream.endpoint.base_url;
    let url = reqwest::Url::parse(base_url).ok().filter(|url| url.path().trim_matches('/').is_empty())?;
    let names_model = said.to_lowercase().contains("model");
    let place = format!("{}/v1", url.origin().ascii_serialization());
    (!names_model).then(|| format!("Its base URL has no path: did you mean {place} ?"))
}
