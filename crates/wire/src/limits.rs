//! The known limits of a model: window, abilities, and the source of each.

/// Limits and abilities of a model. A limit without a source stays unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The context window in tokens.
    pub window: Option<u64>,
    /// The largest number of output tokens in a call.
    pub max_output: Option<u64>,
    /// The source of the window.
    pub source: LimitSource,
    /// Support for tools.
    pub tools: FeatureSupport,
    /// Support for images.
    pub images: FeatureSupport,
    /// Support for documents (PDF).
    pub files: FeatureSupport,
    /// Support for prefill: the model continues an assistant message at the end of the request.
    pub prefill: FeatureSupport,
    /// The part of its own earlier reasoning shown to the model again; `None` without a source.
    pub reasoning: Option<ReasoningScope>,
}

/// The source of a window, the most trusted first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LimitSource {
    /// The user.
    Declared,
    /// The running server.
    Server,
    /// A provider's refusal.
    Learned,
    /// The built-in catalogue.
    Catalogue,
    /// No source.
    #[default]
    Unknown,
}

impl LimitSource {
    /// Returns the name of the source for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Server => "server",
            Self::Learned => "learned",
            Self::Catalogue => "catalogue",
            Self::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for LimitSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A model's support for a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeatureSupport {
    /// The model supports the feature.
    Yes,
    /// The model does not support the feature.
    No,
    /// No source gave an answer.
    #[default]
    Unknown,
}

impl FeatureSupport {
    /// Reports whether to try the feature. An unknown model is offered every feature: the server's refusal is more
    /// exact than a guess of ours.
    pub fn may(self) -> bool {
        self != Self::No
    }

    /// Returns `self`, or `other` if `self` is unknown.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self == Self::Unknown { other } else { self }
    }
}

impl From<Option<bool>> for FeatureSupport {
    fn from(said: Option<bool>) -> Self {
        match said {
            Some(true) => Self::Yes,
            Some(false) => Self::No,
            None => Self::Unknown,
        }
    }
}

impl From<bool> for FeatureSupport {
    fn from(can: bool) -> Self {
        Some(can).into()
    }
}

/// The part of its own earlier reasoning shown to a model again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningScope {
    /// None: the server drops or refuses reasoning.
    #[default]
    Never,
    /// The reasoning of the current, unfinished turn.
    Turn,
    /// All reasoning.
    Always,
}

/// The user's declared limits and abilities; each overrides every other source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeclaredLimits {
    /// The context window in tokens.
    pub window: Option<u64>,
    /// The largest number of output tokens in a call.
    pub max_output: Option<u64>,
    /// Support for tools.
    pub tools: Option<bool>,
    /// Support for images.
    pub images: Option<bool>,
    /// Support for documents (PDF).
    pub files: Option<bool>,
    /// Support for prefill: the model continues an assistant message at the end of the request.
    pub prefill: Option<bool>,
    /// The part of its own earlier reasoning shown to the model again.
    pub reasoning: Option<ReasoningScope>,
}

impl DeclaredLimits {
    /// Reports whether the user declared window, tools and images: no other source has to be asked then.
    pub fn is_complete(&self) -> bool {
        self.window.is_some() && self.tools.is_some() && self.images.is_some()
    }

    /// Returns the declared limits, completed with `known`.
    #[must_use]
    pub fn over(self, known: Limits) -> Limits {
        // The source is that of the window, even if other limits were declared.
        let source = if self.window.is_some() { LimitSource::Declared } else { known.source };
        Limits {
            window: self.window.or(known.window),
            max_output: self.max_output.or(known.max_output),
            source,
            tools: FeatureSupport::from(self.tools).or(known.tools),
            images: FeatureSupport::from(self.images).or(known.images),
            files: FeatureSupport::from(self.files).or(known.files),
            prefill: FeatureSupport::from(self.prefill).or(known.prefill),
            reasoning: self.reasoning.or(known.reasoning),
        }
    }
}

impl Limits {
    /// Returns limits with a window and its source. Without a window the source is unknown.
    pub fn from_window(window: Option<u64>, source: LimitSource) -> Self {
        let source = if window.is_some() { source } else { LimitSource::Unknown };
        Self { window, source, ..Self::default() }
    }

    /// Returns `self`, completed with `other` where a limit is unknown.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        // The source is that of the window: the trust in a window depends on who stated it.
        let source = if self.window.is_some() { self.source } else { other.source };
        Self {
            window: self.window.or(other.window),
            max_output: self.max_output.or(other.max_output),
            source,
            tools: self.tools.or(other.tools),
            images: self.images.or(other.images),
            files: self.files.or(other.files),
            prefill: self.prefill.or(other.prefill),
            reasoning: self.reasoning.or(other.reasoning),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_wins() {
        let declared = DeclaredLimits { window: Some(1000), tools: Some(false), ..DeclaredLimits::default() };
        let server = Limits::from_window(Some(4096), LimitSource::Server);
        let limits = declared.over(Limits { tools: FeatureSupport::Yes, max_output: Some(5), ..server });
        assert_eq!((limits.window, limits.source), (Some(1000), LimitSource::Declared));
        assert_eq!((limits.max_output, limits.tools), (Some(5), FeatureSupport::No));
    }

    #[test]
    fn what_nobody_says_is_unknown_and_may_be_tried() {
        let limits = DeclaredLimits::default().over(Limits::from_window(None, LimitSource::Server));
        assert_eq!(limits, Limits::default());
        assert_eq!((limits.source.as_str(), limits.tools.may()), ("unknown", true));
    }
}
