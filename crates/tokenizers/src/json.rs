//! Counters from any `tokenizer.json` of the byte-pair kind, as Qwen, Llama, Gemma, Mistral and DeepSeek publish
//! it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use longhaul_core::estimate::{CountAccuracy, TextCounter, TokensByScript, text_tokens};
use tokenizers::pipeline::{EncodeOptions, Override, PipelineTokenizer};

/// The largest file that is read, in bytes. Gemma's file, the largest known, has 33 MB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The largest id of a token. Tables are as long as the largest id, whatever the file's size is. The largest
/// known vocabularies have a quarter of a million tokens.
const MAX_ID: u64 = 1 << 22;

/// A counter that counts exactly as its `tokenizer.json` says.
pub struct TokenizerJsonCounter {
    name: String,
    tokenizer: PipelineTokenizer,
    options: EncodeOptions,
}

/// The reason why a `tokenizer.json` cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerLoadError {
    /// The path cannot be read, or is not a file.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
    /// The file is not UTF-8, not JSON, not the description of a tokenizer, or larger than any known one.
    #[error("this is not a tokenizer.json: {0}")]
    Malformed(String),
    /// The tokenizer is of an unsupported kind. Only byte-pair encodings are supported (no Unigram, WordPiece,
    /// WordLevel), and no pre-tokenizer with a regular expression of its own.
    #[error("this tokenizer.json is of a kind that is not supported: {0}")]
    Unsupported(String),
}

impl TokenizerJsonCounter {
    /// Reads a `tokenizer.json`.
    ///
    /// Building takes seconds for large vocabularies (Gemma's 262,144 tokens: 2 s and 200 MB; Qwen's: 0.7 s and 70 MB)
    /// and blocks.
    ///
    /// # Errors
    /// [`TokenizerLoadError`].
    pub fn from_path(path: &Path) -> Result<Self, TokenizerLoadError> {
        let bytes =
            read(path).map_err(|source| TokenizerLoadError::Read { path: path.to_owned(), source })?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(TokenizerLoadError::Malformed(format!(
                "it is larger than {} MiB",
                MAX_FILE_BYTES >> 20
            )));
        }
        Self::from_bytes(&bytes)
    }

    /// Parses the content of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`TokenizerLoadError`], except `Read`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenizerLoadError> {
        let canonical = canonical(bytes)?;
        let tokenizer = tokenizers::from_json(&canonical)
            .map_err(|error| TokenizerLoadError::Unsupported(error.to_string()))?;
        let hash = blake3::hash(bytes).to_hex();
        let name = format!("tokenizer.json {}", hash.get(..8).unwrap_or_default());
        let options = EncodeOptions {
            add_special_tokens: false,
            // A text that spells a special token comes from a person or a tool, so it counts as ordinary text.
            encode_special_tokens: true,
            padding: Override::Off,
            truncation: Override::Off,
        };
        // A pattern that no built-in pre-tokenizer covers is noticed at the first text only.
        tokenizer
            .encode_into("a 1\n", &options, &mut Vec::new())
            .map_err(|error| TokenizerLoadError::Unsupported(error.to_string()))?;
        Ok(Self { name, tokenizer, options })
    }
}

/// Reads a file's content, or one byte more than the largest size. A path that is no file may never end, or never
/// begin: opening a pipe waits for its writer.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses ids that only a hostile file has.
fn check_ids(value: &serde_json::Value) -> Result<(), TokenizerLoadError> {
    let vocabulary = value["model"]["vocab"].as_object().into_iter().flat_map(|vocab| vocab.values());
    let added = value["added_tokens"].as_array().into_iter().flatten().map(|token| &token["id"]);
    match vocabulary.chain(added).filter_map(serde_json::Value::as_u64).max() {
        Some(id) if id > MAX_ID => Err(TokenizerLoadError::Malformed(format!(
            "a token has the id {id}, the largest that is taken is {MAX_ID}"
        ))),
        _ => Ok(()),
    }
}

/// Returns the description in the form that the tokenizer library reads; files of older releases have another.
fn canonical(bytes: &[u8]) -> Result<String, TokenizerLoadError> {
    let mut value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| TokenizerLoadError::Malformed(error.to_string()))?;
    // Before the library sees the file: its tables are as long as the largest id, whatever the file's size.
    check_ids(&value)?;
    tokenizers::canonicalize_value(&mut value)
        .map_err(|error| TokenizerLoadError::Malformed(error.to_string()))?;
    Ok(value.to_string())
}

impl TextCounter for TokenizerJsonCounter {
    fn groups(&self, text: &str) -> TokensByScript {
        TokensByScript::of(self.tokens(text))
    }

    fn tokens(&self, text: &str) -> u64 {
        let mut tokens = Vec::with_capacity(text.len() / 4);
        match self.tokenizer.encode_into(text, &self.options, &mut tokens) {
            Ok(()) => tokens.len() as u64,
            // Only texts of more than 4 GiB fail here, where one token in a hundred more or less no longer
            // matters.
            Err(_) => text_tokens(text),
        }
    }

    /// Returns `tokenizer.json` and the first eight digits of the file's BLAKE3 hash, so that two files have two
    /// names.
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> CountAccuracy {
        CountAccuracy::Exact
    }
}

impl fmt::Debug for TokenizerJsonCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenizerJsonCounter").field(&self.name).finish()
    }
}
