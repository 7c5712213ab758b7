//! The counters: a text counter, and the rules for the tokens around a text.

use std::fmt;
use std::sync::{Arc, LazyLock};

use super::{ImageTokenRule, TokenizerFamily, TokensByScript, chars_div_4};
use crate::meter::TokenizerProfile;

/// A counter of the tokens of a text.
///
/// Equal texts must give equal counts, because a session that is folded again must read the same.
pub trait TextCounter: fmt::Debug + Send + Sync {
    /// Returns the tokens of `text` by group; see [`TokensByScript`]. A counter without groups puts all tokens into
    /// the first group.
    fn groups(&self, text: &str) -> TokensByScript;

    /// Returns the tokens of `text`.
    fn tokens(&self, text: &str) -> u64 {
        self.groups(text).total()
    }

    /// Returns the counter's name, for example `o200k_base`.
    fn name(&self) -> &str;

    /// Returns the accuracy of the counts.
    fn kind(&self) -> CountAccuracy;
}

/// The accuracy of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CountAccuracy {
    /// The model's own tokenizer: only the framing is guessed.
    Exact,
    /// The structured estimate.
    Estimated,
    /// Characters by a rule of thumb.
    Characters,
}

impl CountAccuracy {
    /// Returns the expected p99 error of a count before anything was learned, as a share of the count.
    ///
    /// The margin is 1 % for framing alone and 10 % for the structured estimate (measured per document, see
    /// [`estimate`](super)). For characters it is 20 % beside a reported count and 100 % without a report.
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
    /// Tokens around each message: marks and role.
    pub message: u64,
    /// Tokens that open the answer, once per request.
    pub reply: u64,
    /// Tokens around a tool call.
    pub call: u64,
    /// Tokens around a tool result, beside the tokens of its message.
    pub result: u64,
    /// Tokens around a function definition.
    pub tool: u64,
    /// The tokens of a rendered schema, in percent of the tokens of its JSON.
    pub schema_percent: u64,
}

impl Default for FramingTokens {
    /// Returns the framing of OpenAI chat.
    ///
    /// Messages, replies and functions follow the OpenAI cookbook, "How to count tokens with tiktoken". Calls and
    /// results follow measurements by users of the API: about 24 tokens with a result's message. A schema is rendered
    /// shorter than its JSON: 63 tokens for 85 in the published example.
    fn default() -> Self {
        // The reports of the provider correct these figures.
        Self { message: 4, reply: 3, call: 10, result: 10, tool: 10, schema_percent: 75 }
    }
}

impl FramingTokens {
    /// Returns the framing of a model's chat template, by the model's name.
    ///
    /// The marks are counted by the model's own vocabulary, as measured with Qwen 3, Llama 3 and Gemma 3;
    /// gpt-oss follows OpenAI, "Harmony response format". Everything else, and models that are not known,
    /// follow OpenAI chat.
    pub fn of(model: &str) -> Self {
        let other = Self::default();
        // gpt-oss has the vocabulary of `o200k_base` and another template, so the family alone does not tell.
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

/// A counter of texts, messages and tools.
#[derive(Clone, Debug)]
pub struct MessageTokenCounter {
    text: Arc<dyn TextCounter>,
    framing: FramingTokens,
    images: ImageTokenRule,
    prior: Option<Arc<TokenizerProfile>>,
    /// `true` if earlier sessions found the server's usage reports wrong.
    has_unreliable_usage: bool,
}

impl MessageTokenCounter {
    /// Returns a counter that counts texts with `text`, and framing and pictures by the rules of OpenAI's chat.
    pub fn new(text: Arc<dyn TextCounter>) -> Self {
        Self {
            text,
            framing: FramingTokens::default(),
            images: ImageTokenRule::default(),
            prior: None,
            has_unreliable_usage: false,
        }
    }

    /// Returns the counter with the framing and the picture rule of a model, by the model's name.
    #[must_use]
    pub fn for_model(self, model: &str) -> Self {
        Self { framing: FramingTokens::of(model), images: ImageTokenRule::of(model), ..self }
    }

    /// Returns the counter with other framing.
    #[must_use]
    pub fn with_framing(self, framing: FramingTokens) -> Self {
        Self { framing, ..self }
    }

    /// Returns the counter with the profile that earlier sessions have learned of the model's vocabulary.
    #[must_use]
    pub fn with_prior(self, prior: TokenizerProfile) -> Self {
        Self { prior: Some(Arc::new(prior)), ..self }
    }

    /// Returns the profile with which calibration begins; `None` if nothing was learned of the model.
    pub fn prior(&self) -> Option<&TokenizerProfile> {
        self.prior.as_deref()
    }

    /// Returns the counter for a model whose server reports usage that does not follow the requests, as earlier
    /// sessions have learned. A history with this counter ignores the reports from the first one on.
    #[must_use]
    pub fn with_unreliable_usage(self, is_unreliable: bool) -> Self {
        Self { has_unreliable_usage: is_unreliable, ..self }
    }

    /// Returns whether the server's usage reports are known to be wrong before the session's first call.
    pub fn has_unreliable_usage(&self) -> bool {
        self.has_unreliable_usage
    }

    /// Returns the structured estimate with the weights of a family.
    pub fn estimated(family: TokenizerFamily) -> Self {
        Self::new(Arc::new(family))
    }

    /// Returns the structured estimate for an unknown model; see [`estimate`](super).
    pub fn structured() -> &'static Self {
        static STRUCTURED: LazyLock<MessageTokenCounter> =
            LazyLock::new(|| MessageTokenCounter::estimated(TokenizerFamily::default()));
        &STRUCTURED
    }

    /// Returns a counter of characters divided by four.
    pub fn characters() -> Self {
        Self::new(Arc::new(CharacterCounter))
    }

    /// Returns the counter of texts.
    pub fn text_counter(&self) -> &dyn TextCounter {
        &*self.text
    }

    /// Returns the accuracy of the counts.
    pub fn kind(&self) -> CountAccuracy {
        self.text.kind()
    }

    /// Returns the name of the text counter.
    pub fn name(&self) -> &str {
        self.text.name()
    }

    /// Returns the tokens of a text.
    pub fn text(&self, text: &str) -> u64 {
        self.text.tokens(text)
    }

    /// Returns the tokens of the template around a text.
    pub fn framing(&self) -> &FramingTokens {
        &self.framing
    }

    /// Returns the rule for the tokens of a picture.
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
            && self.has_unreliable_usage == other.has_unreliable_usage
            // Text counters cannot be compared, and counters of one name and accuracy count alike.
            && (Arc::ptr_eq(&self.text, &other.text)
                || (self.name(), self.kind()) == (other.name(), other.kind()))
    }
}

/// The counter of characters divided by four.
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
