//! The encodings of OpenAI's models, by the model's name.

/// Model families and their encodings. Source: the table of OpenAI's `tiktoken` (`model.py`).
const FAMILIES: [(&str, &str); 14] = [
    ("chatgpt-4o", "o200k_base"),
    ("gpt-3.5", "cl100k_base"),
    ("gpt-35", "cl100k_base"),
    ("gpt-4", "cl100k_base"),
    ("gpt-4.1", "o200k_base"),
    ("gpt-4.5", "o200k_base"),
    ("gpt-4o", "o200k_base"),
    ("gpt-5", "o200k_base"),
    ("gpt-5.", "o200k_base"),
    ("o1", "o200k_base"),
    ("o3", "o200k_base"),
    ("o4", "o200k_base"),
    ("text-embedding-3", "cl100k_base"),
    ("text-embedding-ada", "cl100k_base"),
];

/// The family of open weights, which others pack and serve.
const OPEN: (&str, &str) = ("gpt-oss", "o200k_harmony");

/// The words that may follow a family's name, beside numbers and dates: OpenAI's own words and those that routers
/// append. Any other word (`gpt-4-x-vicuna`, `gpt-4o-distill-qwen`) makes the name another maker's model.
const QUALIFIERS: [&str; 29] = [
    "api", "audio", "chat", "codex", "deep", "exacto", "extended", "floor", "free", "high", "instruct",
    "large", "latest", "low", "max", "medium", "mini", "nano", "nitro", "online", "preview", "pro",
    "realtime", "research", "search", "small", "thinking", "turbo", "vision",
];

/// The owners under whose names OpenAI's own models are offered.
const OWNERS: [&str; 5] = ["", "azure", "azure_openai", "github", "openai"];

/// Returns the encoding of one of OpenAI's models by its name, as [`OpenAiCounter::named`](crate::OpenAiCounter::named)
/// takes it; `None` for every other model.
///
/// A provider's prefix (`openai/gpt-4o`), a fine-tune's frame (`ft:gpt-4o-mini:acme::id`) and capitals do not matter.
/// Under another owner's name only the open weights (gpt-oss) are recognised.
///
/// ```
/// use longhaul_tokenizers::encoding_of;
/// assert_eq!(encoding_of("openai/gpt-4o-2024-08-06"), Some("o200k_base"));
/// assert_eq!(encoding_of("claude-sonnet-4-5"), None);
/// ```
pub fn encoding_of(model: &str) -> Option<&'static str> {
    let lower = model.to_ascii_lowercase();
    let name = match lower.strip_prefix("ft:") {
        Some(tuned) => tuned.split(':').next()?,
        None => &lower,
    };
    let (owner, name) = name.rsplit_once('/').unwrap_or(("", name));
    if name.strip_prefix(OPEN.0).is_some_and(is_packed) {
        return Some(OPEN.1);
    }
    if !owner.rsplit('/').next().is_some_and(|owner| OWNERS.contains(&owner)) {
        return None;
    }
    let family = FAMILIES
        .iter()
        .find(|(family, _)| name.strip_prefix(family).is_some_and(|rest| is_qualified(family, rest)));
    family.map(|(_, encoding)| *encoding)
}

/// Reports whether only qualifiers and numbers follow, each separated.
fn is_qualified(family: &str, rest: &str) -> bool {
    // A separator must follow, so that `gpt-4` does not take `gpt-4.1`, which has another encoding.
    let set_off = rest.is_empty() || family.ends_with('.') || rest.starts_with(SEPARATORS);
    set_off && rest.split(SEPARATORS).all(|word| word.is_empty() || is_qualifier(word))
}

const SEPARATORS: [char; 3] = ['-', ':', '@'];

fn is_qualifier(word: &str) -> bool {
    let number = word.strip_suffix('k').unwrap_or(word);
    QUALIFIERS.contains(&word) || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Reports whether a size follows, and after it the format of packed weights.
fn is_packed(rest: &str) -> bool {
    let rest = rest.strip_prefix("-safeguard").unwrap_or(rest);
    let after = ["-20b", ":20b", "-120b", ":120b"].iter().find_map(|size| rest.strip_prefix(size));
    matches!(rest, "" | ":latest")
        || after.is_some_and(|after| after.is_empty() || after.starts_with(['-', ':', '.', '@', '_']))
}
