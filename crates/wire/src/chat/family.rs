//! The quirks of each server of this wire, as data: one row for each family of servers.
//!
//! A family is known by its host, else by its server's answers (`discover`). Until then, and for every unknown
//! server, the family is [`ServerFamily::COMPATIBLE`], which every server takes.

mod rows;

use url::Url;

use crate::{DeclaredLimits, FeatureSupport, Limits, ReasoningScope};

/// The quirks of one family of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFamily {
    /// The family's name, for people.
    pub name: &'static str,
    /// The hosts, with their subdomains, at which the family is known without a request.
    pub hosts: &'static [&'static str],
    /// The name of the output limit.
    pub output_limit: OutputLimitField,
    /// `true` if a stream reports its usage only on request, with `stream_options`.
    pub asks_for_usage: bool,
    /// The place of plain reasoning in an assistant message.
    pub reasoning: ReasoningPlace,
    /// The plain reasoning that is sent back to the model that wrote it. Reasoning with proof (a signature,
    /// encrypted items) is always sent back.
    pub replay: ReasoningReplay,
    /// `true` if `reasoning_details` without proof are sent back too.
    pub unsigned_details: bool,
    /// The format of a call's id that the server takes.
    pub call_ids: CallIdFormat,
    /// `true` if `tool_choice` can name a tool. Otherwise that tool alone is listed and a call is required.
    pub names_tools: bool,
    /// Support for pictures.
    pub images: FeatureSupport,
    /// Support for documents (PDF).
    pub documents: DocumentSupport,
    /// `true` if a user message may follow a tool's result. Otherwise an assistant message is put between them.
    pub user_after_tool: bool,
    /// Support for an assistant message that ends the request.
    pub prefill: PrefillSupport,
    /// Additional fields of the family's requests, with their JSON.
    pub fields: &'static [(&'static str, &'static str)],
    /// The pages on which the server describes its loaded models.
    pub pages: &'static [DiscoveryEndpoint],
    /// The endpoint that counts tokens.
    pub counter: Option<TokenCountEndpoint>,
}

/// The name of the output limit in the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputLimitField {
    /// `max_tokens`: local and most compatible servers.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// The place of plain reasoning in an assistant message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningPlace {
    /// `reasoning_content`.
    ReasoningContent,
    /// `reasoning`.
    Reasoning,
    /// A block of type `thinking` in `content`.
    Blocks,
}

/// The plain reasoning that is sent back to the model that wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningReplay {
    /// None.
    #[default]
    Never,
    /// The reasoning of the current turn, which is still going on.
    Turn,
    /// The reasoning of every turn in which a tool was called; a call without reasoning gets an empty one.
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

/// The format of a call's id that a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallIdFormat {
    /// Any text up to this many bytes.
    UpTo(usize),
    /// Exactly nine letters or digits.
    NineAlphanumerics,
}

/// A server's support for documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentSupport {
    /// No source says that the server takes documents.
    Unknown,
    /// The server does not take documents.
    No,
    /// Items of type `file` with the document's bytes.
    File,
    /// Items of type `document_url` with a data URL.
    DocumentUrl,
}

/// A server's support for prefill: continuing an assistant message that ends the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefillSupport {
    /// No source says that the server continues the message.
    Unknown,
    /// The server does not continue the message.
    No,
    /// The server continues the message, given these fields of the request with their JSON.
    Fields(&'static [(&'static str, &'static str)]),
    /// The server continues the message if the message has `prefix: true`.
    Prefix,
}

/// A page on which servers describe themselves.
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
    /// Returns the family at a base URL, if its host is known.
    pub fn at(base_url: &str) -> Option<&'static Self> {
        let url = Url::parse(base_url).ok()?;
        let host = url.host_str()?;
        Self::ALL.iter().find(|family| {
            // A host is the family's own or a subdomain of it (`eu.api.openai.com`).
            family.hosts.iter().any(|known| {
                host.strip_suffix(known).is_some_and(|below| below.is_empty() || below.ends_with('.'))
            })
        })
    }

    /// Returns the family with the abilities that the user declared for the model.
    #[must_use]
    pub fn declared(self, declared: &DeclaredLimits) -> Self {
        let documents = match (declared.files, self.documents) {
            (Some(false), _) => DocumentSupport::No,
            // The user declares that the server takes documents, but not the form: OpenAI's form is assumed.
            (Some(true), DocumentSupport::Unknown | DocumentSupport::No) => DocumentSupport::File,
            (_, known) => known,
        };
        let prefill = match (declared.prefill, self.prefill) {
            (Some(false), _) => PrefillSupport::No,
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

    /// Returns the [`Limits`] that follow from the family where the server itself gave none.
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
