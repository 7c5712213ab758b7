//! What is known of a model: its window, its abilities, and who said so.

/// Limits and abilities of a model. What nobody said stays unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The context window in tokens.
    pub window: Option<u64>,
    /// The most it writes in one call, in tokens.
    pub max_output: Option<u64>,
    /// Who said what the window is.
    pub source: LimitSource,
    /// Whether it takes tools.
    pub tools: FeatureSupport,
    /// Whether it takes images.
    pub images: FeatureSupport,
    /// Whether it takes documents (PDF).
    pub files: FeatureSupport,
    /// Whether it goes on with an assistant message that ends the request.
    pub prefill: FeatureSupport,
    /// How much of its own reasoning it is shown again; `None` if nobody said.
    pub reasoning: Option<ReasoningScope>,
}

/// Who said how large a window is, the most trusted first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitSource {
    /// The user.
    Declared,
    /// The running server.
    Server,
    /// A provider's refusal.
    Learned,
    /// The catalogue that comes with this build.
    Catalogue,
    /// Nobody.
    #[default]
    Unknown,
}

impl LimitSource {
    /// As it is shown.
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

/// Whether a model can do something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeatureSupport {
    /// It can.
    Yes,
    /// It cannot.
    No,
    /// Nobody said.
    #[default]
    Unknown,
}

impl FeatureSupport {
    /// Returns whether to try: a model of which nothing is known is offered everything, its refusal teaches more than
    /// ours.
    pub fn may(self) -> bool {
        self != Self::No
    }

    /// This, or if it is unknown `other`.
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

/// How much of its own reasoning a model is shown again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningScope {
    /// None: the server drops it, or refuses it.
    #[default]
    Never,
    /// That of the turn which is still going on.
    Turn,
    /// All of it.
    Always,
}

/// Limits and abilities that the user declared; each wins over what anybody else says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeclaredLimits {
    /// The context window in tokens.
    pub window: Option<u64>,
    /// The most the model writes in one call, in tokens.
    pub max_output: Option<u64>,
    /// Whether it takes tools.
    pub tools: Option<bool>,
    /// Whether it takes images.
    pub images: Option<bool>,
    /// Whether it takes documents (PDF).
    pub files: Option<bool>,
    /// Whether it goes on with an assistant message that ends the request.
    pub prefill: Option<bool>,
    /// How much of its own reasoning it is shown again.
    pub reasoning: Option<ReasoningScope>,
}

impl DeclaredLimits {
    /// Returns whether there is nothing left to ask.
    pub fn is_complete(&self) -> bool {
        self.window.is_some() && self.tools.is_some() && self.images.is_some()
    }

    /// What was declared, over `known`.
    #[must_use]
    pub fn over(self, known: Limits) -> Limits {
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
    /// A window, if it was said, and who said it.
    pub fn from_window(window: Option<u64>, source: LimitSource) -> Self {
        let source = if window.is_some() { source } else { LimitSource::Unknown };
        Self { window, source, ..Self::default() }
    }

    /// What is known here, and where nothing is, `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
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
