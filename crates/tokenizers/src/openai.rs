//! The encodings of OpenAI, built in.

use std::fmt;

use longhaul_core::estimate::{CountAccuracy, TextCounter, TokensByScript};
use tiktoken::CoreBpe;

use crate::runs;

/// The names that [`OpenAiCounter::named`] knows.
pub const ENCODINGS: [&str; 3] = ["o200k_base", "o200k_harmony", "cl100k_base"];

/// Counts exactly as one of OpenAI's encodings does.
#[derive(Clone, Copy)]
pub struct OpenAiCounter {
    name: &'static str,
    bpe: &'static CoreBpe,
}

impl OpenAiCounter {
    /// The encoding of that name, one of [`ENCODINGS`].
    ///
    /// The first call for a name builds its tables: about a tenth of a second and 24 MB for `o200k_base`, half of it
    /// for `cl100k_base`, kept until the process ends. Call it where it may block. `o200k_harmony` differs from
    /// `o200k_base` in special tokens only, so both are the same counter.
    pub fn named(name: &str) -> Option<Self> {
        let name = match name {
            "o200k_base" | "o200k_harmony" => "o200k_base",
            "cl100k_base" => "cl100k_base",
            _ => return None,
        };
        Some(Self { name, bpe: tiktoken::get_encoding(name)? })
    }
}

impl TextCounter for OpenAiCounter {
    fn groups(&self, text: &str) -> TokensByScript {
        TokensByScript::of(self.tokens(text))
    }

    fn tokens(&self, text: &str) -> u64 {
        runs::count(self.bpe, text)
    }

    fn name(&self) -> &str {
        self.name
    }

    fn kind(&self) -> CountAccuracy {
        CountAccuracy::Exact
    }
}

impl fmt::Debug for OpenAiCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenAiCounter").field(&self.name).finish()
    }
}
