//! Having a summary written by the upstream's model.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::ViewEdit;
use longhaul_core::message::{Answer, Message, Part};
use longhaul_core::plan::{SummaryDraft, SummaryForm, SummaryRequest};
use longhaul_providers::{ModelEvent, ProviderError, Request};

use super::Route;
use super::log::Log;

/// The edit with its summary; without a model's where none is to be had; `None` if even that is too long.
pub(super) async fn finish(route: &Route, log: &Log, mut draft: SummaryDraft) -> Option<ViewEdit> {
    let history = &log.history;
    let limit = Duration::from_millis(route.policy.summary_timeout_ms);
    let written = match tokio::time::timeout(limit, write(route, log, &mut draft)).await {
        Ok(written) => written,
        Err(_) => Err(format!("it did not come within {} s", limit.as_secs())),
    };
    let end = || {
        let edit = written.and_then(|()| draft.finish(history).map_err(|rejected| rejected.to_string()));
        let edit = edit.and_then(|edit| route.policy.strategy.validate(history, &edit).map(|()| edit));
        match edit {
            Ok(edit) => Some(edit),
            Err(problem) => {
                tracing::warn!(problem, "no summary by a model: an extract stands in its place");
                draft.finish_extractive(history).ok()
            }
        }
    };
    route.work(end).await
}

/// Answers the draft's requests until it has none.
async fn write(route: &Route, log: &Log, draft: &mut SummaryDraft) -> Result<(), String> {
    let history = &log.history;
    let shown = history.view();
    let end = shown.len() - usize::from(history.is_paused());
    while let Some(asked) = route.work(|| draft.request(&shown[..end], &route.budget())).await {
        let answer = ask(route, log, asked).await.map_err(|error| {
            // The next request is measured by it.
            if let Some(limit) = error.limit_tokens.filter(|_| error.code == ErrorCode::ContextOverflow) {
                route.target.learn_window(limit);
            }
            error.message
        })?;
        draft.take(answer).map_err(|rejected| rejected.to_string())?;
    }
    Ok(())
}

async fn ask(route: &Route, log: &Log, asked: SummaryRequest) -> Result<Answer, ProviderError> {
    let passage = &route.passage;
    let rides = asked.form == SummaryForm::Riding;
    let fixed =
        if rides { passage.wire.fixed(&passage.envelope).unwrap_or_default() } else { Default::default() };
    let among = if rides { log.system.as_slice() } else { &[] };
    let said = among.iter().filter_map(Part::as_text).chain([fixed.system.as_str()]);
    let system = said.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
    let request = Request {
        system,
        messages: asked.messages.iter().map(without_media).collect(),
        tools: fixed.tools,
        max_output_tokens: Some(asked.max_output_tokens),
        ..Request::default()
    };
    let provider = Arc::clone(&route.target.summariser(passage.key.as_deref()));
    let mut stream = provider.call(request).await?;
    while let Some(event) = stream.next().await {
        if let ModelEvent::Finished(answer) = event? {
            route.totals.add(answer.usage.as_ref());
            return Ok(answer);
        }
    }
    Err(ProviderError::new(ErrorCode::TruncatedStream, "the stream ended before the summary did"))
}

/// Pictures stand in the client's request only; a summary does without.
fn without_media(message: &Message) -> Message {
    let part = |part: &Part| match part {
        Part::Image(_) | Part::File(_) => Part::text("[picture or file]"),
        Part::ToolResult(result) => {
            let mut result = result.clone();
            for part in &mut result.content {
                if matches!(part, Part::Image(_) | Part::File(_)) {
                    *part = Part::text("[picture or file]");
                }
            }
            Part::ToolResult(result)
        }
        other => other.clone(),
    };
    Message { parts: message.parts.iter().map(part).collect(), ..message.clone() }
}
