//! Keys for sending, never for display.

use std::fmt;

/// The least length of a hidden value, in bytes. Shorter values are words of a protocol (`true`, `2023-06-01`),
/// not keys: hiding them would garble errors.
const MIN_HIDDEN_BYTES: usize = 8;

/// A key, printed as `Secret(…)`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the key itself, for sending only.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Reports whether the secret is empty but for a scheme (`Bearer `).
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.0.trim(), "" | "Bearer" | "Basic")
    }

    /// Returns the forms of the secret in errors: unchanged, and without the scheme (`Bearer …`).
    pub fn forms(&self) -> Vec<Secret> {
        // Some servers repeat the key of a refused request without its scheme.
        let bare = self.0.rsplit(' ').next().unwrap_or_default();
        let mut forms = vec![self.clone()];
        if bare != self.0 {
            forms.push(Self::new(bare));
        }
        forms
    }

    /// Returns `text` with the key replaced.
    pub fn hide_in(&self, text: String) -> String {
        if self.0.len() < MIN_HIDDEN_BYTES || !text.contains(&self.0) {
            return text;
        }
        text.replace(&self.0, "[redacted]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_in_no_form() {
        let key = Secret::new("Bearer sk-1234567890");
        assert_eq!(format!("{key:?}"), "Secret(…)");
        let mut text = "sent `Bearer sk-1234567890`, saw sk-1234567890".to_owned();
        for form in key.forms() {
            text = form.hide_in(text);
        }
        assert_eq!(text, "sent `[redacted]`, saw [redacted]");
    }

    #[test]
    fn short_values_are_left_alone() {
        assert_eq!(Secret::new("true").hide_in("it is true".to_owned()), "it is true");
    }
}
