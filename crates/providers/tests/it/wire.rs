//! Helpers for the tests of all wires: a short request, a whole call, the outcome.

use std::time::Duration;

use futures_util::StreamExt;
use longhaul_core::message::{Message, ModelAnswer, Part};
use longhaul_providers::http::HttpTimeouts;
use longhaul_providers::{ModelEvent, ModelRequest, Provider, ProviderError};

/// All events of a call, and the error at the end.
pub(crate) type Outcome = (Vec<ModelEvent>, Option<ProviderError>);

/// Somebody says hi.
pub(crate) fn hi() -> ModelRequest {
    ModelRequest { messages: vec![Message::user("u", vec![Part::text("hi")])], ..ModelRequest::default() }
}

/// A wait long enough for a busy local server.
pub(crate) fn patient() -> HttpTimeouts {
    HttpTimeouts {
        connect: Duration::from_secs(10),
        first_byte: Some(Duration::from_secs(20)),
        idle: Duration::from_secs(20),
        signs_of_life: None,
    }
}

pub(crate) async fn call(provider: &dyn Provider, request: ModelRequest) -> Outcome {
    let mut stream = match provider.call(request).await {
        Ok(stream) => stream,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}

/// The answer of a successful call.
pub(crate) fn finished((events, error): Outcome) -> ModelAnswer {
    assert_eq!(error, None);
    match events.into_iter().next_back() {
        Some(ModelEvent::Finished(answer)) => answer,
        other => panic!("{other:?}"),
    }
}
