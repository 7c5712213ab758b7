//! The configured token counter: the server, the model's tokenizer, or the estimate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_core::estimate::{CountAccuracy, MessageTokenCounter, TokenizerFamily};
use longhaul_core::run::ServerCountPolicy;
use longhaul_tokenizers::{
    CachedCounter, OpenAiCounter, TokenizerJsonCounter, TokenizerLoadError, encoding_of,
};

use super::is_this_machine;
use crate::config::{ModelConfig, ProviderKind, TokenCounter};

/// The tokenizer of a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("context.tokenCounter: {}: {error}", file.display())]
pub struct TokenCounterError {
    /// The file.
    pub file: PathBuf,
    /// The reason.
    pub error: TokenizerLoadError,
}

/// Returns the counter for texts of `model`. A relative path of a tokenizer's file begins at `root`. Building a
/// vocabulary takes up to seconds and blocks.
///
/// # Errors
/// [`TokenCounterError`]: the file of a tokenizer cannot be used.
pub fn token_counter(
    wanted: &TokenCounter,
    model: &str,
    root: &Path,
) -> Result<MessageTokenCounter, TokenCounterError> {
    let encoding = match wanted {
        TokenCounter::Chars => return Ok(MessageTokenCounter::characters().for_model(model)),
        TokenCounter::File(file) => return Ok(from_file(root.join(file))?.for_model(model)),
        TokenCounter::Encoding(name) => Some(*name),
        TokenCounter::Auto | TokenCounter::Server => encoding_of(model),
    };
    let exact = encoding.and_then(OpenAiCounter::named);
    let counter = exact.map_or_else(
        || MessageTokenCounter::estimated(TokenizerFamily::of(model)),
        |exact| MessageTokenCounter::new(Arc::new(CachedCounter::new(exact))),
    );
    Ok(counter.for_model(model))
}

fn from_file(file: PathBuf) -> Result<MessageTokenCounter, TokenCounterError> {
    match TokenizerJsonCounter::from_path(&file) {
        Ok(tokenizer) => Ok(MessageTokenCounter::new(Arc::new(CachedCounter::new(tokenizer)))),
        Err(error) => Err(TokenCounterError { file, error }),
    }
}

/// Returns when the server counts. A server on this machine counts before every call: that is near and free. A distant
/// one is asked only if there is no report to build on, and not at all if the model's own tokenizer is at hand.
pub fn server_count_policy(
    wanted: &TokenCounter,
    model: &ModelConfig,
    counter: &MessageTokenCounter,
) -> ServerCountPolicy {
    match (wanted, model.provider) {
        (_, ProviderKind::Scripted) => ServerCountPolicy::Never,
        (TokenCounter::Server, _) => ServerCountPolicy::Always,
        (TokenCounter::Auto, _) if is_this_machine(&model.base_url) => ServerCountPolicy::Always,
        (TokenCounter::Auto, ProviderKind::OpenaiCompatible) => ServerCountPolicy::Never,
        (TokenCounter::Auto, _) if counter.kind() != CountAccuracy::Exact => ServerCountPolicy::Unanchored,
        _ => ServerCountPolicy::Never,
    }
}
