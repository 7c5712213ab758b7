//! Names of models, in their many spellings.

use super::CatalogModel;
use super::file::ModelCatalog;

/// Regions before a maker's name, as Bedrock writes names.
const REGIONS: &[&str] = &["us", "eu", "ap", "apac", "au", "ca", "jp", "global", "us-gov"];

/// Makers before a model's name, followed by a point, as Bedrock writes names.
const MAKERS: &[&str] = &[
    "anthropic",
    "cohere",
    "deepseek",
    "google",
    "meta",
    "minimax",
    "mistral",
    "moonshot",
    "moonshotai",
    "nvidia",
    "openai",
    "qwen",
    "xai",
    "zai",
];

/// Routing variants behind a colon, as OpenRouter writes names.
const VARIANTS: &[&str] = &["free", "nitro", "floor", "exacto", "extended", "thinking", "online", "beta"];

/// Words without meaning for the choice of a model.
const PLAIN: &[&str] = &["latest", "preview", "exp", "experimental", "beta", "default"];

/// Words for the format of packed open weights.
const PACKED: &[&str] = &[
    "instruct", "it", "chat", "hf", "gguf", "ggml", "mlx", "awq", "gptq", "qat", "bnb", "dwq", "dynamic",
    "imatrix", "ud", "4bit", "5bit", "6bit", "8bit", "16bit",
];

/// Words before a number, with [`QUANTA`] behind the number: `q4_K_M`, `iq4_xs`, `fp8`, `bf16`, `int4`.
const QUANTISED: &[&str] = &["q", "iq", "tq", "fp", "bf", "f", "int", "nf", "mxfp", "nvfp", "exl"];
const QUANTA: &[&str] = &["0", "1", "k", "s", "m", "l", "xs", "xxs", "xl", "nl"];

/// Returns the model with the longest name at the beginning of `asked`, if the rest does not name another model.
pub(super) fn find<'a>(catalog: &'a ModelCatalog, asked: &str) -> Option<&'a CatalogModel> {
    // A name may be a known model with and without its first part, so both forms are tried and the longer match wins.
    let candidates = forms(asked).into_iter().map(|form| words(&form));
    candidates
        .filter_map(|asked| longest(catalog, &asked))
        .max_by_key(|(length, _)| *length)
        .map(|(_, model)| model)
}

/// Reports whether a name is of a fine-tuned model. `ft:gpt-4o-mini-2024-07-18:acme::id` is a separate model with
/// another model's window.
pub(super) fn is_tuned(name: &str) -> bool {
    name.trim().get(..3).is_some_and(|start| start.eq_ignore_ascii_case("ft:"))
}

/// Splits a name into words: the text between the separators, with numbers set off from letters before them.
/// `Llama-3.1-8B`, `llama3.1:8b` and `llama_3_1_8b` are the same.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    for letter in name.to_lowercase().chars() {
        // `llama3` and `llama-3` must give the same words, but `8b` is one word.
        let begins = !last.is_alphanumeric() || (last.is_alphabetic() && letter.is_ascii_digit());
        match words.last_mut() {
            _ if !letter.is_alphanumeric() => {}
            Some(word) if !begins => word.push(letter),
            _ => words.push(letter.to_string()),
        }
        last = letter;
    }
    words
}

/// Returns the forms of a name without the parts for a place of serving.
fn forms(asked: &str) -> Vec<String> {
    let mut name = asked.trim().to_lowercase();
    if is_tuned(&name) {
        // A tuned model is named `ft:MODEL:…`, so its base is the second part.
        name = name.split(':').nth(1).unwrap_or_default().to_owned();
    }
    // OpenRouter's variants follow a name with a maker. Without a maker, Ollama's tag follows the colon, and a tag
    // such as `8b` names another model.
    let owned = name.contains('/');
    // llama.cpp names a model by the path of its file, with backslashes on Windows.
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let last = match last.rsplit_once(':') {
        Some((model, variant)) if owned && VARIANTS.contains(&variant) => model,
        _ => last,
    };
    // The region stands before the maker, so it is taken off first.
    let last = without(REGIONS, last).unwrap_or(last);
    [Some(last), without(MAKERS, last)].into_iter().flatten().map(str::to_owned).collect()
}

fn without<'a>(known: &[&str], name: &'a str) -> Option<&'a str> {
    name.split_once('.').filter(|(first, _)| known.contains(first)).map(|(_, rest)| rest)
}

fn longest<'a>(catalog: &'a ModelCatalog, asked: &[String]) -> Option<(usize, &'a CatalogModel)> {
    let known = catalog.models.iter().zip(&catalog.words);
    let begins = known.filter(|(_, words)| asked.starts_with(words));
    // A shorter name is not tried if the longest one fails. Otherwise an unknown `gpt-4o-mini-x` would become
    // `gpt-4o`.
    let (model, words) = begins.max_by_key(|(_, words)| words.len())?;
    let rest: Vec<&str> = asked[words.len()..].iter().map(String::as_str).collect();
    is_the_same(&rest, model.is_open()).then_some((words.len(), model))
}

/// Reports whether the words behind a name leave the model the same.
fn is_the_same(rest: &[&str], open: bool) -> bool {
    let mut rest = rest;
    while !rest.is_empty() {
        let taken = match rest {
            // Google dates a preview without a year: `gemini-2.5-pro-preview-05-06`.
            [word, month, day, ..] if is_trial(word) && is_month(month) && is_day(day) => 3,
            // OpenAI: `gpt-4o-2024-08-06`.
            [year, month, day, ..] if is_year(year) && is_month(month) && is_day(day) => 3,
            // Google: `gemini-2.5-flash-preview-09-2025`. Cohere: `command-r-08-2024`.
            [month, year, ..] if is_month(month) && is_year(year) => 2,
            [word, ..] if PLAIN.contains(word) || is_date(word) || is_revision(word) => 1,
            // Bedrock: `claude-sonnet-4-5-20250929-v1:0`. A number behind letters is a word of its own.
            ["v", major, minor, ..] if is_small(major) && is_small(minor) => 3,
            ["v", major, ..] if is_small(major) => 2,
            // Only the maker packs closed weights, so there these words belong to another model's name.
            [word, ..] if open && PACKED.contains(word) => 1,
            [word, bits, ..] if open && QUANTISED.contains(word) && is_small(bits) => {
                2 + rest[2..].iter().take_while(|word| QUANTA.contains(word)).count()
            }
            // Bedrock's version of open weights: `gpt-oss-120b-1:0`.
            ["1", "0"] if open => 2,
            _ => return false,
        };
        rest = &rest[taken..];
    }
    true
}

fn is_trial(word: &str) -> bool {
    matches!(word, "preview" | "exp")
}

fn number(word: &str, digits: usize) -> Option<u32> {
    (word.len() == digits).then(|| word.parse().ok()).flatten()
}

fn is_small(word: &str) -> bool {
    matches!(word.len(), 1 | 2) && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_year(word: &str) -> bool {
    number(word, 4).is_some_and(|year| (2022..2100).contains(&year))
}

fn is_month(word: &str) -> bool {
    number(word, 2).is_some_and(|month| (1..=12).contains(&month))
}

fn is_day(word: &str) -> bool {
    number(word, 2).is_some_and(|day| (1..=31).contains(&day))
}

/// Reports whether a word is `20250929`, or a month with a day or a year: `0613`, `2507`.
fn is_date(word: &str) -> bool {
    number(word, 8).is_some_and(|date| (20_220_101..21_000_101).contains(&date)) || number(word, 4).is_some()
}

/// Reports whether a word is a revision like Google's `001`.
fn is_revision(word: &str) -> bool {
    number(word, 3).is_some_and(|revision| revision < 10)
}
