//! Families of vocabularies, and the models of each family.

use super::scan::scan;
use super::{CountAccuracy, TextCounter, TokensByScript, weights};

/// A family of vocabularies with similar costs. The estimate has weights for each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenizerFamily {
    /// `o200k_base`, and every vocabulary that is not known to belong elsewhere.
    #[default]
    O200k,
    /// Llama 3: near `o200k_base`, with two thirds of the size. Contractions are two tokens, and other scripts
    /// are dearer.
    Llama,
    /// Qwen 3: each digit is a token.
    Qwen,
    /// Gemma: no pre-tokenizer cuts the text before merges. Each digit, and each line end after marks, is a token.
    Gemma,
}

/// Words in the names of models, with their families. The first match decides.
///
/// The weights are fitted to the published vocabularies of Qwen 3 and Gemma 3; other generations are assumed to be
/// near. Gemini has Gemma's row, because Gemma 3 has the tokenizer of Gemini 2.0 (Gemma 3 technical report).
///
/// Mistral Nemo has Qwen's row: on recorded work the errors are 2.5 % (median) and 9 % (95th percentile), with
/// `o200k_base` 7 and 21 %. Mistral's later models are assumed to be near Nemo. DeepSeek V3 has no row, because no
/// family is nearer than `o200k_base` (3 and 11 %). No current vocabulary of Claude is public.
const NAMES: [(&str, TokenizerFamily); 11] = [
    ("qwen", TokenizerFamily::Qwen),
    ("qwq", TokenizerFamily::Qwen),
    ("gemma", TokenizerFamily::Gemma),
    ("gemini", TokenizerFamily::Gemma),
    ("mistral-nemo", TokenizerFamily::Qwen),
    ("mistral-small", TokenizerFamily::Qwen),
    ("mistral-medium", TokenizerFamily::Qwen),
    ("mistral-large", TokenizerFamily::Qwen),
    ("ministral", TokenizerFamily::Qwen),
    ("devstral", TokenizerFamily::Qwen),
    ("magistral", TokenizerFamily::Qwen),
];

impl TokenizerFamily {
    /// All families.
    pub const ALL: [Self; 4] = [Self::O200k, Self::Llama, Self::Qwen, Self::Gemma];

    /// Returns the family of a model by name.
    ///
    /// Owners (`meta-llama/`) and capitals do not matter. A model made from another model
    /// (`deepseek-r1-distill-qwen-7b`) has that model's vocabulary. An unknown model gets the weights of
    /// `o200k_base`, and calibration has to correct them.
    ///
    /// ```
    /// use longhaul_core::estimate::TokenizerFamily;
    /// assert_eq!(TokenizerFamily::of("qwen3-30b-a3b"), TokenizerFamily::Qwen);
    /// assert_eq!(TokenizerFamily::of("meta-llama/Llama-3.1-8B-Instruct"), TokenizerFamily::Llama);
    /// assert_eq!(TokenizerFamily::of("claude-sonnet-4-5"), TokenizerFamily::default());
    /// ```
    pub fn of(model: &str) -> Self {
        let model = model.to_ascii_lowercase();
        // Routers and model hubs put the owner in front of the name.
        let name = model.rsplit('/').next().unwrap_or_default();
        let named = NAMES.iter().find(|(word, _)| name.contains(word)).map(|(_, family)| *family);
        named.unwrap_or(if is_llama_3(name) { Self::Llama } else { Self::O200k })
    }

    /// Returns the estimated tokens of a text by the kind of writing.
    pub fn groups(self, text: &str) -> TokensByScript {
        weights::groups(&scan(text), weights::of(self), text.len() as u64)
    }

    /// Returns the family's weights in thousandths of a token, in the order of [`pieces`](super::pieces).
    pub fn weights(self) -> &'static [u64] {
        weights::of(self)
    }
}

/// Returns whether a model's name says Llama 3. Llama 2 and 4 have other vocabularies. A name with a size (`-8b`) and
/// without a version means Llama 3, on which other models are built.
fn is_llama_3(name: &str) -> bool {
    let Some((before, after)) = name.split_once("llama") else { return false };
    let number = after.trim_start_matches(['-', '_', ':', 'v']);
    let digits = number.len() - number.trim_start_matches(|char: char| char.is_ascii_digit()).len();
    let (digits, rest) = number.split_at(digits);
    // `codellama` and `tinyllama` are built on Llama 2, so a letter before the word is no match.
    !before.ends_with(char::is_alphanumeric) && (matches!(digits, "" | "3") || rest.starts_with('b'))
}

/// The structured estimate.
impl TextCounter for TokenizerFamily {
    fn groups(&self, text: &str) -> TokensByScript {
        (*self).groups(text)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::O200k => "structured estimate",
            Self::Llama => "structured estimate for Llama 3",
            Self::Qwen => "structured estimate for Qwen",
            Self::Gemma => "structured estimate for Gemma",
        }
    }

    fn kind(&self) -> CountAccuracy {
        CountAccuracy::Estimated
    }
}
