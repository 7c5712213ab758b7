//! What is known of a terminal by its name.

use crate::environment::CliEnvironment;

use super::ascii_fallback::GlyphSet;

/// What a terminal does and shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TerminalProfile {
    /// Which characters it shows.
    pub(crate) glyphs: GlyphSet,
    /// Whether rows that no longer fit become two when it is made narrower; otherwise they are cut.
    pub(crate) reflows: bool,
    /// Whether it can be asked to tell Shift-Enter from Enter. One that cannot is silent, but for this one.
    pub(crate) names_keys: bool,
}

impl TerminalProfile {
    /// By what the surroundings say.
    pub(crate) fn of(place: &CliEnvironment) -> Self {
        let term = place.variable("TERM").unwrap_or_default();
        let is = |name: &str| term == name || term.starts_with(&format!("{name}-"));
        let is_tmux = place.variable("TMUX").is_some();
        let cuts = is("linux") || is("rxvt") || is("st") || (is("screen") && !is_tmux);
        let reflows = is_tmux || !(cuts || place.variable("XTERM_VERSION").is_some());
        Self { glyphs: GlyphSet::of(place), reflows, names_keys: !is("linux") }
    }
}
