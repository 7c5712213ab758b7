//! What each server of this wire does in its own way, as data: one row for each family of servers.
//!
//! A family is known by its host, else by what its server answers (`discover`); until then,
//! and for everybody else, it is [`ServerFamily::COMPATIBLE`]: what all of them take.

mod rows;

use url::Url;

use crate::{DeclaredLimits, FeatureSupport, Limits, ReasoningScope};

/// What a family of servers does in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFamily {
    /// Its name, for people.
    pub name: &'static str,
    /// The hosts, and those below them, at which it is known without asking.
    pub hosts: &'static [&'static str],
    /// What the output limit is called.
    pub output_limit: OutputLimitField,
    /// Whether a stream reports its usage only if `stream_options` asks for it.
    pub asks_for_usage: bool,
    /// Where plain reasoning goes in an assistant message.
    pub reasoning: ReasoningPlace,
    /// How much plain reasoning goes back to the model that wrote it. Reasoning with proof (a signature,
    /// encrypted items) always does.
    pub replay: ReasoningReplay,
    /// Whether `reasoning_details` that prove nothing go back too.
    pub unsigned_details: bool,
    /// What it takes as the name of a call.
    pub call_ids: CallIdFormat,
    /// Whether `tool_choice` can name a tool; if not, that tool alone is listed and one is required.
    pub names_tools: bool,
    /// Whether it takes pictures.
    pub images: FeatureSupport,
    /// How it takes documents (PDF).
    pub documents: DocumentSupport,
    /// Whether a user message may follow a tool's result; if not, an assistant's word is put between.
    pub user_after_tool: bool,
    /// How it goes on with an assistant message that ends the request.
    pub prefill: PrefillSupport,
    /// Fields that its requests have besides, with their JSON.
    pub fields: &'static [(&'static str, &'static str)],
    /// Where it says what it has loaded.
    pub pages: &'static [DiscoveryEndpoint],
    /// How it counts.
    pub counter: Option<TokenCountEndpoint>,
}

/// What the output limit is called in the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputLimitField {
    /// `max_tokens`: local and most compatible servers.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// Where plain reasoning goes in an assistant message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningPlace {
    /// `reasoning_content`.
    ReasoningContent,
    /// `reasoning`.
    Reasoning,
    /// A block of type `thinking` in `content`.
    Blocks,
}

/// How much plain reasoning goes back to the model that wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningReplay {
    /// None.
    #[default]
    Never,
    /// That of the turn which is still going on.
    Turn,
    /// That of every turn in which a tool was called; a call without reasoning has an empty one.
    ToolTurns,
    /// All of it.
    Always,
}

impl ReasoningReplay {
    /// The same in the words of [`Limits`], on the side of counting too much.
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

/// What a server takes as the name of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallIdFormat {
    /// Anything up to this many bytes.
    UpTo(usize),
    /// Exactly nine letters or digits.
    NineAlphanumerics,
}

/// How a server takes documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentSupport {
    /// Nobody said that it does.
    Unknown,
    /// It does not.
    No,
    /// As items of type `file` with their bytes.
    File,
    /// As items of type `document_url` with a data URL.
    DocumentUrl,
}

/// How a server goes on with an assistant message that ends the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefillSupport {
    /// Nobody said that it does.
    Unknown,
    /// It does not.
    No,
    /// It does, given these fields of the request with their JSON.
    Fields(&'static [(&'static str, &'static str)]),
    /// It does if the message has `prefix: true`.
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

/// How a server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenCountEndpoint {
    /// llama.cpp: `/apply-template`, then `/tokenize`.
    ApplyTemplate,
    /// vLLM: `/tokenize` with the messages.
    Tokenize,
}

impl ServerFamily {
    /// The family at a base URL, if its host tells.
    pub fn at(base_url: &str) -> Option<&'static Self> {
        let url = Url::parse(base_url).ok()?;
        let host = url.host_str()?;
        let is_at = |known: &&str| {
            host.strip_suffix(known).is_some_and(|below| below.is_empty() || below.ends_with('.'))
        };
        Self::ALL.iter().find(|family| family.hosts.iter().any(&is_at))
    }

    /// With what the user knows better of the model.
    #[must_use]
    pub fn declared(self, declared: &DeclaredLimits) -> Self {
        let documents = match (declared.files, self.documents) {
            (Some(false), _) => DocumentSupport::No,
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

    /// Returns the [`Limits`] that follow from the family where the server itself said nothing.
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
