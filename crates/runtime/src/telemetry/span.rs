//! One operation in progress: a span of `tracing`, and one of OpenTelemetry if an exporter is set.

use std::time::{Duration, Instant};

use futures_util::future::FutureExt as _;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::export::{ExportedSpan, TelemetryExporter, within};
use super::names;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationKind {
    InvokeAgent,
    Chat,
    CountTokens,
    ExecuteTool,
    Compact,
}

impl OperationKind {
    /// Returns the value of `gen_ai.operation.name`. `compact` and `count_tokens` are our own, because the conventions
    /// have no names for them.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::InvokeAgent => "invoke_agent",
            Self::Chat => "chat",
            Self::CountTokens => "count_tokens",
            Self::ExecuteTool => "execute_tool",
            Self::Compact => "compact",
        }
    }

    /// Reports whether another server does the work.
    pub(super) fn is_client(self) -> bool {
        matches!(self, Self::Chat | Self::CountTokens)
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AttributeValue {
    Text(String),
    Words(Vec<&'static str>),
    Count(u64),
    Flag(bool),
    Seconds(f64),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for AttributeValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

/// An operation in progress. If the value is dropped before its end, the operation was interrupted.
#[derive(Debug)]
pub(super) struct OperationSpan {
    span: tracing::Span,
    exported: Option<ExportedSpan>,
    began: Instant,
    error: Option<String>,
    has_ended: bool,
}

/// The scope of an operation: spans that begin in the scope become the operation's children.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanScope {
    span: Option<tracing::Span>,
    exported: Option<ExportedSpan>,
}

/// Makes a `tracing` span with all its fields, because `tracing` accepts no further ones later.
macro_rules! listed {
    ($name:literal, $parent:expr) => {
        tracing::info_span!(
            target: "longhaul", parent: $parent, $name,
            "otel.name" = Empty, "otel.kind" = Empty, "otel.status_code" = Empty, "error.type" = Empty,
            "gen_ai.operation.name" = Empty, "gen_ai.provider.name" = Empty, "gen_ai.request.model" = Empty,
            "gen_ai.request.max_tokens" = Empty, "gen_ai.response.id" = Empty, "gen_ai.response.model" = Empty,
            "gen_ai.response.finish_reasons" = Empty, "gen_ai.response.time_to_first_chunk" = Empty,
            "gen_ai.usage.input_tokens" = Empty, "gen_ai.usage.output_tokens" = Empty,
            "gen_ai.usage.cache_read.input_tokens" = Empty, "gen_ai.usage.cache_write.input_tokens" = Empty,
            "gen_ai.usage.reasoning.output_tokens" = Empty, "gen_ai.conversation.id" = Empty,
            "gen_ai.conversation.compacted" = Empty, "gen_ai.agent.name" = Empty, "gen_ai.tool.name" = Empty,
            "gen_ai.tool.call.id" = Empty, "llm.provider" = Empty, "llm.model" = Empty,
            "longhaul.purpose" = Empty, "longhaul.retries" = Empty, "longhaul.run.id" = Empty,
            "longhaul.run.end" = Empty, "longhaul.compaction.strategy" = Empty,
            "longhaul.compaction.tokens_before" = Empty, "longhaul.compaction.tokens_after" = Empty,
        )
    };
}

impl OperationSpan {
    /// Begins an operation. `what` names its object: a model, a tool.
    pub(super) fn begin(
        exporting: Option<&TelemetryExporter>,
        kind: OperationKind,
        what: Option<&str>,
        session_id: &str,
        parent: Option<&OperationSpan>,
    ) -> Self {
        let name = match what {
            Some(what) => format!("{} {what}", kind.as_str()),
            None => kind.as_str().to_owned(),
        };
        let above = parent.and_then(|parent| parent.span.id());
        let span = match kind {
            // `info_span!` needs a literal name, so each kind has a line.
            OperationKind::InvokeAgent => listed!("invoke_agent", above),
            OperationKind::Chat => listed!("chat", above),
            OperationKind::CountTokens => listed!("count_tokens", above),
            OperationKind::ExecuteTool => listed!("execute_tool", above),
            OperationKind::Compact => listed!("compact", above),
        };
        span.record("otel.name", name.as_str());
        span.record("otel.kind", if kind.is_client() { "client" } else { "internal" });
        let above = parent.and_then(|parent| parent.exported.as_ref());
        let exported = exporting.map(|exporting| exporting.begin(name, kind, session_id, above));
        let open = Self { span, exported, began: Instant::now(), error: None, has_ended: false };
        open.set(names::OPERATION, kind.as_str());
        open.set(names::CONVERSATION, session_id);
        open.set(names::SESSION, session_id);
        open
    }

    /// Sets an attribute.
    pub(super) fn set(&self, name: &'static str, value: impl Into<AttributeValue>) {
        let value = value.into();
        match &value {
            AttributeValue::Text(text) => self.span.record(name, text.as_str()),
            AttributeValue::Words(words) => self.span.record(name, words.join(",").as_str()),
            AttributeValue::Count(count) => self.span.record(name, *count),
            AttributeValue::Flag(flag) => self.span.record(name, *flag),
            AttributeValue::Seconds(seconds) => self.span.record(name, *seconds),
        };
        if let Some(exported) = &self.exported {
            exported.set(name, value);
        }
    }

    /// Sets an attribute with the content of messages, in OpenTelemetry only.
    pub(super) fn quote(&self, name: &'static str, text: String) {
        if let Some(exported) = &self.exported {
            exported.set(name, AttributeValue::Text(text));
        }
    }

    /// Marks the operation as failed or stopped. The last error counts.
    pub(super) fn fail(&mut self, error: &str) {
        self.error = Some(error.to_owned());
    }

    /// Removes the error again.
    pub(super) fn forgive(&mut self) {
        self.error = None;
    }

    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn scope(&self) -> SpanScope {
        SpanScope { span: Some(self.span.clone()), exported: self.exported.clone() }
    }

    /// Ends the operation.
    pub(super) fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        // `end` and `Drop` both come here, and a span ends once.
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        if let Some(error) = self.error.take() {
            self.set(names::ERROR_TYPE, error.as_str());
            self.span.record("otel.status_code", "ERROR");
            if let Some(exported) = &self.exported {
                exported.fail();
            }
        }
        if let Some(exported) = &self.exported {
            exported.end();
        }
    }
}

impl Drop for OperationSpan {
    fn drop(&mut self) {
        if !self.has_ended {
            // A span that is dropped open belongs to work that was dropped, so it must not look like a success.
            self.error.get_or_insert_with(|| "interrupted".to_owned());
            self.finish();
        }
    }
}

impl SpanScope {
    /// Runs a future in the operation's scope: log lines name the operation. Spans of a tool or of a model's client
    /// become its children, with the session in their baggage.
    pub(crate) fn around<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        let work = within(self.exported, work);
        match self.span {
            Some(span) => work.instrument(span).left_future(),
            None => work.right_future(),
        }
    }
}
