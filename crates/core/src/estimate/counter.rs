//! What counts: a text counter, and the rules for what stands around the text.

use std::fmt;
use std::sync::{Arc, LazyLock};

use super::{Family, Groups, ImageRule, chars_div_4};
use crate::meter::TokenizerProfile;

/// Counts the tokens of a text.
///
/// Equal texts must give equal counts: a session that is folded again must read the same.
pub trait TextCounter: fmt::Debug + Send + Sync {
    /// Tokens of `text`, by group; see [`Groups`]. Who does not tell groups apart puts all into the first.
    fn groups(&self, text: &str) -> Groups;

    /// Tokens of `text`.
    fn tokens(&self, text: &str) -> u64 {
        self.groups(text).total()
    }

    /// What it is, for example `o200k_base`.
    fn name(&self) -> &str;

    /// How far it can be trusted.
    fn kind(&self) -> CountKind;
}

/// How far a count can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CountKind {
    /// The model's own tokenizer: only the framing is guessed.
    Exact,
    /// The structured estimate.
    Estimated,
    /// Characters by a rule of thumb.
    Characters,
}

impl CountKind {
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

impl fmt::Display for CountKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Estimated => "estimated",
            Self::Characters => "characters",
        })
    }
}

/// What stands around the text, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
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

impl Default for Framing {
    /// OpenAI chat. Messages, replies and functions: OpenAI cookbook, "How to count tokens with tiktoken". Calls and
    /// results: with a result's message about 24, as users of the API measure. A schema is rendered shorter than its
    /// JSON: 63 tokens for 85 in the published example.
    fn default() -> Self {
        Self { message: 4, reply: 3, call: 10, result: 10, tool: 10, schema_percent: 75 }
    }
}

impl Framing {
    /// The framing of a model's chat template, by its name: its marks as its own vocabulary counts them (measured
    /// with the vocabularies of Qwen 3, Llama 3 and Gemma 3; gpt-oss: OpenAI, "Harmony response format"). The rest,
    /// and models that are not known, as OpenAI chat.
    pub fn of(model: &str) -> Self {
        let other = Self::default();
        if model.to_ascii_lowercase().contains("gpt-oss") {
            return Self { message: 5, reply: 2, ..other };
        }
        match Family::of(model) {
            Family::Qwen => Self { message: 5, reply: 3, ..other },
            Family::Llama => Self { message: 5, reply: 4, ..other },
            Family::Gemma => Self { message: 5, reply: 3, ..other },
            Family::O200k => other,
        }
    }
}

/// Counts texts, messages and tools in one way.
#[derive(Clone, Debug)]
pub struct Counter {
    text: Arc<dyn TextCounter>,
    framing: Framing,
    images: ImageRule,
    prior: Option<Arc<TokenizerProfile>>,
}

impl Counter {
    /// Counts texts with `text`, framing and pictures as OpenAI's chat has them.
    pub fn new(text: Arc<dyn TextCounter>) -> Self {
        Self { text, framing: Framing::default(), images: ImageRule::default(), prior: None }
    }

    /// With the framing and the rule for pictures of a model, by its name.
    #[must_use]
    pub fn for_model(self, model: &str) -> Self {
        Self { framing: Framing::of(model), images: ImageRule::of(model), ..self }
    }

    /// With other framing.
    #[must_use]
    pub fn with_framing(self, framing: Framing) -> Self {
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
    pub fn estimated(family: Family) -> Self {
        Self::new(Arc::new(family))
    }

    /// The structured estimate for a model that is not known; see [`estimate`](super).
    pub fn structured() -> &'static Self {
        static STRUCTURED: LazyLock<Counter> = LazyLock::new(|| Counter::estimated(Family::default()));
        &STRUCTURED
    }

    /// Characters divided by four.
    pub fn characters() -> Self {
        Self::new(Arc::new(Characters))
    }

    /// What counts the texts.
    pub fn text_counter(&self) -> &dyn TextCounter {
        &*self.text
    }

    /// How far its counts can be trusted.
    pub fn kind(&self) -> CountKind {
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

    /// What stands around the text.
    pub fn framing(&self) -> &Framing {
        &self.framing
    }

    /// What a picture costs.
    pub fn images(&self) -> ImageRule {
        self.images
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::structured().clone()
    }
}

impl PartialEq for Counter {
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
struct Characters;

impl TextCounter for Characters {
    fn groups(&self, text: &str) -> Groups {
        Groups::of(chars_div_4(text))
    }

    fn name(&self) -> &'static str {
        "chars/4"
    }

    fn kind(&self) -> CountKind {
        CountKind::Characters
    }
}
