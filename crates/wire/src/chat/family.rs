//! The quirks of each server of this wire, as data: one row for each family of servers.
//!
//! A family is known by the host, else by the server's answers (`discover`). Until then, and for every unknown
//! server, the family is [`ServerFamily::COMPATIBLE`]: every server takes such requests.

mod rows;

use url::Url;

use crate::{DeclaredLimits, FeatureSupport, Limits, ReasoningScope};

/// The quirks of a family of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerFamily {
    /// The family's name, for people.
    pub name: &'static str,
    /// The hosts, with their subdomains, as signs of the family without a request.
    pub hosts: &'static [&'static str],
    /// The name of the output limit.
    pub output_limit: OutputLimitField,
    /// `true` if a stream reports usage only on request, with `stream_options`.
    pub asks_for_usage: bool,
    /// The place of plain reasoning in an assistant message.
    pub reasoning: ReasoningPlace,
    /// The plain reasoning sent back to its own model. Reasoning with proof (a signature, encrypted items) is always
    /// sent back.
    pub replay: ReasoningReplay,
    /// `true` if `reasoning_details` without proof are sent back too.
    pub unsigned_details: bool,
    /// The server's format of a call's id.
    pub call_ids: CallIdFormat,
    /// `true` if `tool_choice` can name a tool. Otherwise the tool alone is listed and a call is required.
    pub names_tools: bool,
    /// Support for pictures.
    pub images: FeatureSupport,
    /// Support for documents (PDF).
    pub documents: DocumentSupport,
    /// `true` if a user message may follow a tool's result. Otherwise an assistant message is put in between.
    pub user_after_tool: bool,
    /// Support for an assistant message at the end of the request.
    pub prefill: PrefillSupport,
    /// Additional fields of the family's requests, as JSON.
    pub fields: &'static [(&'static str, &'static str)],
    /// The pages for the server's description of loaded models.
    pub pages: &'static [DiscoveryEndpoint],
    /// The endpoint for counting tokens.
    pub counter: Option<TokenCountEndpoint>,
    /// `true` if the system prompt stands at the beginning of the first user message.
    pub system_in_user: bool,
    /// `true` if content beside calls must be a text. Otherwise it is null where a message has none.
    pub content_is_text: bool,
    /// `true` if answers may be streamed.
    pub streams: bool,
    /// `true` if a call without a thought signature gets Google's placeholder for it.
    pub signs_calls: bool,
}

/// The name of the output limit in the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputLimitField {
    /// `max_tokens`: local and most compatible servers.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// The place of plain reasoning in an assistant message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningPlace {
    /// `reasoning_content`.
    ReasoningContent,
    /// `reasoning`.
    Reasoning,
    /// A block of type `thinking` in `content`.
    Blocks,
}

/// The plain reasoning sent back to its own model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningReplay {
    /// None.
    #[default]
    Never,
    /// The reasoning of the current, unfinished turn.
    Turn,
    /// The reasoning of every turn with a tool call; a call without reasoning gets an empty text.
    ToolTurns,
    /// All reasoning.
    Always,
}

impl ReasoningReplay {
    /// Returns the matching [`ReasoningScope`] for [`Limits`]. The scope rather counts too much than too little.
    pub fn retention(self) -> ReasoningScope {
        match self {
            Self::Never => ReasoningScope::Never,
            Self::Turn => ReasoningScope::Turn,
            Self::ToolTurns | Self::Always => ReasoningScope::Always,
        }
    }
}

impl From<ReasoningScope> for ReasoningReplay {
    fn from(kept: ReasoningScope) -> Self {
        match kept {
            ReasoningScope::Never => Self::Never,
            ReasoningScope::Turn => Self::Turn,
            ReasoningScope::Always => Self::Always,
        }
    }
}

/// A server's format of a call's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallIdFormat {
    /// Any text up to this many bytes.
    UpTo(usize),
    /// Exactly nine letters or digits.
    NineAlphanumerics,
}

/// A server's support for documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentSupport {
    /// No source confirms documents.
    Unknown,
    /// The server does not take documents.
    No,
    /// Items of type `file` with the document's bytes.
    File,
    /// Items of type `document_url` with a data URL.
    DocumentUrl,
}

/// A server's support for prefill: continuing an assistant message at the end of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrefillSupport {
    /// No source confirms prefill.
    Unknown,
    /// The server does not continue the message.
    No,
    /// The server continues the message, given fields of the request with their JSON.
    Fields(&'static [(&'static str, &'static str)]),
    /// The server continues the message if the message has `prefix: true`.
    Prefix,
}

/// A page for a server's description of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryEndpoint {
    /// llama.cpp: `/props`.
    Props,
    /// LM Studio 0.4: `/api/v1/models`.
    LmStudioV1,
    /// LM Studio 0.3: `/api/v0/models`.
    LmStudioV0,
    /// Ollama: `/api/ps`.
    OllamaLoaded,
    /// `/models` below the base URL.
    Models,
}

/// A server's method of counting tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenCountEndpoint {
    /// llama.cpp: `/apply-template`, then `/tokenize`.
    ApplyTemplate,
    /// vLLM: `/tokenize` with the messages.
    Tokenize,
}

impl ServerFamily {
    /// Returns the family at a base URL, if the host is known.
    pub fn at(base_url: &str) -> Option<&'static Self> {
        // An address that is no URL belongs to no family here. The client reports its error.
        let url = Url::parse(base_url).ok()?;
        let host = url.host_str()?;
        Self::ALL.iter().find(|family| {
            // A host is the family's own or a subdomain of it (`eu.api.openai.com`).
            family.hosts.iter().any(|known| {
                host.strip_suffix(known).is_some_and(|below| below.is_empty() || below.ends_with('.'))
            })
        })
    }

    /// Returns the family with the user's declared abilities of the model.
    #[must_use]
    pub fn declared(self, declared: &DeclaredLimits) -> Self {
        let documents = match (declared.files, self.documents) {
            // What a person declares counts more than what a row says: servers change.
            (Some(false), _) => DocumentSupport::No,
            // The user declares that the server takes documents, but not the form: OpenAI's form is assumed.
            (Some(true), DocumentSupport::Unknown | DocumentSupport::No) => DocumentSupport::File,
            (_, known) => known,
        };
        let prefill = match (declared.prefill, self.prefill) {
            (Some(false), _) => PrefillSupport::No,
            // The user declares the ability but not the form. The plainest form is assumed: no field beside the last
            // message.
            (Some(true), PrefillSupport::Unknown | PrefillSupport::No) => PrefillSupport::Fields(&[]),
            (_, known) => known,
        };
        let replay = declared.reasoning.map_or(self.replay, ReasoningReplay::from);
        Self {
            images: FeatureSupport::from(declared.images).or(self.images),
            documents,
            prefill,
            replay,
            ..self
        }
    }

    /// Returns the family's [`Limits`], for limits without a report of the server itself.
    pub fn abilities(&self) -> Limits {
        Limits {
            images: self.images,
            files: match self.documents {
                DocumentSupport::Unknown => FeatureSupport::Unknown,
                DocumentSupport::No => FeatureSupport::No,
                DocumentSupport::File | DocumentSupport::DocumentUrl => FeatureSupport::Yes,
            },
            prefill: match self.prefill {
                PrefillSupport::Unknown => FeatureSupport::Unknown,
                PrefillSupport::No => FeatureSupport::No,
                PrefillSupport::Fields(_) | PrefillSupport::Prefix => FeatureSupport::Yes,
            },
            // Details without a signature are sent back for every turn, so all of them count.
            reasoning: Some(if self.unsigned_details {
                ReasoningScope::Always
            } else {
                self.replay.retention()
            }),
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests;
