//! Identifiers from a server: the id of an answer, and the name of the answering model.
//!
//! Identifiers are exported even without content capture. A server can put any text there, such as the prompt or the
//! key that it was just sent. Only texts in the form of an identifier pass. The key itself is unknown here, but a key
//! with a well-known prefix does not pass.

/// The maximum length of an identifier, in bytes.
const MAX_BYTES: usize = 128;

/// The maximum length of a model name unrelated to the requested one, in bytes. Routers return such names.
const MAX_OTHER_MODEL_BYTES: usize = 64;

/// The prefixes, in lower case, of well-known services' keys and tokens. A text that contains one anywhere is dropped:
/// a lost `task-1` is cheaper than a key in a trace.
const KEY_MARKS: [&str; 21] = [
    "sk-",
    "sk_",
    "gsk_",
    "bearer",
    "aiza",
    "aq.ab",
    "ya29.",
    "xai-",
    "pplx-",
    "nvapi-",
    "hf_",
    "r8_",
    "fw_",
    "tgp_v1_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "akia",
    // A JSON Web Token.
    "eyj",
];

/// Returns a text of the server if it has the form of an identifier.
pub(super) fn identifier(text: &str) -> Option<&str> {
    let has_length = (1..=MAX_BYTES).contains(&text.len());
    let is_legal = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/@+-".contains(&byte));
    (has_length && is_legal && !has_key_mark(text)).then_some(text)
}

/// Returns the server's model name if it is the requested name, a related one, or a short one.
pub(super) fn model<'a>(text: &'a str, requested: &str) -> Option<&'a str> {
    // The requested name is exported in any case.
    if text == requested {
        return Some(text);
    }
    identifier(text).filter(|name| name.len() <= MAX_OTHER_MODEL_BYTES || are_related(name, requested))
}

/// Reports whether one name is a version of the other: `gpt-4o-2024-08-06` of `openai/gpt-4o`.
fn are_related(one: &str, other: &str) -> bool {
    let [one, other] =
        [one, other].map(|name| name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase());
    !one.is_empty() && !other.is_empty() && (one.starts_with(&other) || other.starts_with(&one))
}

fn has_key_mark(text: &str) -> bool {
    // A server may put a prefix of its own before a key, so a mark counts anywhere in the text.
    let text = text.to_ascii_lowercase();
    KEY_MARKS.iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_real_servers_pass() {
        for id in [
            "chatcmpl-BvQ3k2Lw9XyZ",
            "resp_0a1b2c3d4e5f",
            "msg_01XFDUDYJgAACzvnptvVoYEL",
            "gen-1752000000-abcDEF",
            "mAitaLmkHPPlz7IPvtfUqQ4",
            "7f0c1b52-6f2e-4a53-9b3e-0d6a4f1f9a10",
        ] {
            assert_eq!(identifier(id), Some(id));
        }
    }

    #[test]
    fn text_does_not() {
        for text in ["", "two words", "line\nline", "tab\t", "{\"a\":1}", "naïve", "a,b", "key=value", "why?"]
        {
            assert_eq!(identifier(text), None, "{text}");
        }
        assert!(identifier(&"x".repeat(128)).is_some());
        assert_eq!(identifier(&"x".repeat(129)), None);
    }

    #[test]
    fn keys_that_say_what_they_are_do_not() {
        for key in [
            "sk-proj-1234567890",
            "chatcmpl-sk-ant-api03-1234",
            "SK-PROJ-1234567890",
            "Bearer:1234",
            "xBearer1234",
            "AIzaSyA1234567890",
            "gsk_1234",
            "eyJhbGciOiJIUzI1NiJ9.e30.x",
        ] {
            assert_eq!(identifier(key), None, "{key}");
            assert_eq!(model(key, "gpt-4o"), None, "{key}");
            assert_eq!(model(&format!("gpt-4o-{key}"), "gpt-4o"), None, "{key}");
        }
    }

    #[test]
    fn a_model_is_the_requested_one_or_has_a_short_name() {
        let long = format!("openai/gpt-4o-{}", "x".repeat(64));
        assert_eq!(model(&long, "gpt-4o"), Some(long.as_str()));
        assert_eq!(model(&long, "openrouter/auto"), None);
        assert_eq!(model("anthropic/claude-9", "openrouter/auto"), Some("anthropic/claude-9"));
        assert_eq!(model("qwen3:8b-q4_K_M", "qwen3"), Some("qwen3:8b-q4_K_M"));
        assert_eq!(model("what you asked", "auto"), None);
        assert_eq!(model("My Model (local)", "My Model (local)"), Some("My Model (local)"));
    }
}
