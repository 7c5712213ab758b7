//! Exact tokenizers for Longhaul: the encodings of OpenAI, built in, and any `tokenizer.json` of the byte-pair kind.
//!
//! [`OpenAiCounter`] and [`TokenizerJsonCounter`] are [`TextCounter`](longhaul_core::estimate::TextCounter)s
//! whose counts are exact; [`CachedCounter`] counts a block once. [`encoding_of`] returns the encoding of
//! OpenAI's models and `None` for all others. One family's tokenizer errs on another family's text by as much as
//! an estimate does.
//!
//! A special token in a text is counted as its plain characters. The tokens around a text are
//! [`FramingTokens`](longhaul_core::estimate::FramingTokens).
//!
//! ```
//! use longhaul_core::estimate::TextCounter;
//! use longhaul_tokenizers::{CachedCounter, OpenAiCounter, encoding_of};
//!
//! let encoding = encoding_of("gpt-4o-mini").ok_or("not a model of OpenAI's")?;
//! let counter = CachedCounter::new(OpenAiCounter::named(encoding).ok_or("not built in")?);
//! assert_eq!(counter.tokens("The cat sat on the mat."), 7);
//! # Ok::<(), &str>(())
//! ```

mod cached;
mod json;
mod models;
mod openai;
mod runs;

pub use cached::{CachedCounter, ContentKey};
pub use json::{TokenizerJsonCounter, TokenizerLoadError};
pub use models::encoding_of;
pub use openai::{ENCODINGS, OpenAiCounter};
