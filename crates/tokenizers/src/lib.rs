//! Exact tokenizers for Longhaul: the encodings of OpenAI, built in, and any `tokenizer.json` of the byte-pair kind.
//!
//! [`OpenAiCounter`] and [`TokenizerJsonCounter`] are [`TextCounter`](longhaul_core::estimate::TextCounter)s whose counts are exact;
//! [`CachedCounter`] counts a block once. [`encoding_of`] says which models an encoding belongs to, and says nothing about
//! all others: one family's tokenizer errs on another's text by as much as an estimate does.
//!
//! Text is text here: what looks like a special token is counted as the characters it is written with. What stands
//! around the text is [`FramingTokens`](longhaul_core::estimate::FramingTokens).
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
