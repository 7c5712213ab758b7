//! What counts: a text counter, and the rules for what stands around the text.

use std::fmt;
use std::sync::{Arc, LazyLock};

use super::{ImageTokenRule, TokenizerFamily, TokensByScript, chars_div_4};
use crate::meter::TokenizerProfile;

/// Counts the tokens of a text.
///
/// Equal texts must give equal counts: a session that is folded again must read the same.
pub trait TextCounter: fmt::Debug + Send + Sync {
    /// Tokens of `text`, by group; see [`TokensByScript`]. Who does not tell groups apart puts all into the first.
    fn groups(&self, text: &str) -> TokensByScript;

    /// Tokens of `text`.
    fn tokens(&self, text: &str) -> u64 {
        self.groups(text).total()
    }

    /// What it is, for example `o200k_base`.
    fn name(&self) -> &str;

    /// How far it can be trusted.
    fn kind(&self) -> CountAccuracy;
}

/// How far a count can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CountAccuracy {
    /// The model's own tokenizer: only the framing is guessed.
    Exact,
    /// The structured estimate.
    Estimated,
    /// Characters by a rule of thumb.
    Characters,
}

impl CountAccuracy {
    /// Expected p99 error of what was counted so, before anything was learned, as a share: 1 % for framing, 10 % for
    /// the structured estimate (measured per document, see [`estimate`](super)), 20 % for characters beside a
    /// reported count and 100 % without one.
    pub fn first_margin(self, anchored: bool) -> f64 {
        match (self, anchored) {
            (Self::Exact, _) => 0.01,
            (Self::Estimated, _) => 0.10,
            (Self::Characters, true) => 0.20,
            (Self::Characters, false) => 1.00,
        }
    }
}

impl fmt::Display for CountAccuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Estimated => "estimated",
            Self::Characters => "characters",
        })
    }
}

/// The tokens of the template around a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramingTokens {
    /// Around each message: its marks and its role.
    pub message: u64,
    /// Opens the answer, once per request.
    pub reply: u64,
    /// Around a tool call.
    pub call: u64,
    /// Around a tool result, beside its message's own.
    pub result: u64,
    /// Around a function definition.
    pub tool: u64,
    /// What a schema costs of its JSON, in percent.
    pub schema_percent: u64,
}

impl Default for FramingTokens {
    /// OpenAI chat. Messages, replies and functions: OpenAI cookbook, "How to count tokens with tiktoken". Calls and
    /// results: with a result's message about 24, as users of the API measure. A schema is rendered shorter than its
    /// JSON: 63 tokens for 85 in the published example.
    fn default() -> Self {
        Self { message: 4, reply: 3, call: 10, result: 10, tool: 10, schema_percent: 75 }
    }
}

impl FramingTokens {
    /// The framing of a model's chat template, by its name: its marks as its own vocabulary counts them (measured
    /// with the vocabularies of Qwen 3, Llama 3 and Gemma 3; gpt-oss: OpenAI, "Harmony response format"). The rest,
    /// and models that are not known, as OpenAI chat.
    pub fn of(model: &str) -> Self {
        let other = Self::default();
        if model.to_ascii_lowercase().contains("gpt-oss") {
            return Self { message: 5, reply: 2, ..other };
        }
        match TokenizerFamily::of(model) {
            TokenizerFamily::Qwen => Self { message: 5, reply: 3, ..other },
            TokenizerFamily::Llama => Self { message: 5, reply: 4, ..other },
            TokenizerFamily::Gemma => Self { message: 5, reply: 3, ..other },
            TokenizerFamily::O200k => other,
        }
    }
}

/// Counts texts, messages and tools in one way.
#[derive(Clone, Debug)]
pub struct MessageTokenCounter {
    text: Arc<dyn TextCounter>,
    framing: FramingTokens,
    images: ImageTokenRule,
    prior: Option<Arc<TokenizerProfile>>,
}

impl MessageTokenCounter {
    /// Counts texts with `text`, framing and pictures as OpenAI's chat has them.
    pub fn new(text: Arc<dyn TextCounter>) -> Self {
        Self { text, framing: FramingTokens::default(), images: ImageTokenRule::default(), prior: None }
    }

    /// With the framing and the rule for pictures of a model, by its name.
    #[must_use]
    pub fn for_model(self, model: &str) -> Self {
        Self { framing: FramingTokens::of(model), images: ImageTokenRule::of(model), ..self }
    }

    /// With other framing.
    #[must_use]
    pub fn with_framing(self, framing: FramingTokens) -> Self {
        Self { framing, ..self }
    }

    /// With what earlier sessions have shown of the model's vocabulary.
    #[must_use]
    pub fn with_prior(self, prior: TokenizerProfile) -> Self {
        Self { prior: Some(Arc::new(prior)), ..self }
    }

    /// Returns what calibration begins with; `None` if nothing was learned of the model.
    pub fn prior(&self) -> Option<&TokenizerProfile> {
        self.prior.as_deref()
    }

    /// The structured estimate with the weights of a family.
    pub fn estimated(family: TokenizerFamily) -> Self {
        Self::new(Arc::new(family))
    }

    /// The structured estimate for a model that is not known; see [`estimate`](super).
    pub fn structured() -> &'static Self {
        static STRUCTURED: LazyLock<MessageTokenCounter> =
            LazyLock::new(|| MessageTokenCounter::estimated(TokenizerFamily::default()));
        &STRUCTURED
    }

    /// Characters divided by four.
    pub fn characters() -> Self {
        Self::new(Arc::new(CharacterCounter))
    }

    /// What counts the texts.
    pub fn text_counter(&self) -> &dyn TextCounter {
        &*self.text
    }

    /// How far its counts can be trusted.
    pub fn kind(&self) -> CountAccuracy {
        self.text.kind()
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        self.text.name()
    }

    /// Tokens of a text.
    pub fn text(&self, text: &str) -> u64 {
        self.text.tokens(text)
    }

    /// The tokens of the template around the text.
    pub fn framing(&self) -> &FramingTokens {
        &self.framing
    }

    /// What a picture costs.
    pub fn images(&self) -> ImageTokenRule {
        self.images
    }
}

impl Default for MessageTokenCounter {
    fn default() -> Self {
        Self::structured().clone()
    }
}

impl PartialEq for MessageTokenCounter {
    fn eq(&self, other: &Self) -> bool {
        self.framing == other.framing
            && self.images == other.images
            && self.prior == other.prior
            && (Arc::ptr_eq(&self.text, &other.text)
                || (self.name(), self.kind()) == (other.name(), other.kind()))
    }
}

/// Characters divided by four.
#[derive(Debug)]
struct CharacterCounter;

impl TextCounter for CharacterCounter {
    fn groups(&self, text: &str) -> TokensByScript {
        TokensByScript::of(chars_div_4(text))
    }

    fn name(&self) -> &'static str {
        "chars/4"
    }

    fn kind(&self) -> CountAccuracy {
        CountAccuracy::Characters
    }
}
