//! The known properties of terminals, by their names.

use crate::environment::CliEnvironment;

use super::ascii_fallback::GlyphSet;

/// The abilities of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TerminalProfile {
    /// The characters that the terminal shows.
    pub(crate) glyphs: GlyphSet,
    /// `true` if rows that no longer fit become two when the terminal is made narrower. Otherwise they are
    /// cut.
    pub(crate) reflows: bool,
    /// `true` if the terminal can be asked to tell Shift-Enter from Enter. Terminals that cannot ignore the
    /// request silently, but the Linux console does not.
    pub(crate) names_keys: bool,
}

impl TerminalProfile {
    /// Returns the profile that the environment suggests.
    pub(crate) fn of(place: &CliEnvironment) -> Self {
        let term = place.variable("TERM").unwrap_or_default();
        // `xterm-256color` is of the family `xterm`.
        let family = term.split('-').next().unwrap_or_default();
        let is_tmux = place.variable("TMUX").is_some();
        // tmux also calls itself `screen`, but reflows.
        let cuts = matches!(family, "linux" | "rxvt" | "st") || (family == "screen" && !is_tmux);
        // xterm cuts rows. Many terminals have its name in TERM, but only xterm itself sets XTERM_VERSION.
        let reflows = is_tmux || !(cuts || place.variable("XTERM_VERSION").is_some());
        Self { glyphs: GlyphSet::of(place), reflows, names_keys: family != "linux" }
    }
}
