//! What is known of a terminal by its name.

use crate::place::Place;

use super::glyphs::Glyphs;

/// What a terminal does and shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manners {
    /// Which characters it shows.
    pub(crate) glyphs: Glyphs,
    /// Whether rows that no longer fit become two when it is made narrower; otherwise they are cut.
    pub(crate) reflows: bool,
    /// Whether it can be asked to tell Shift-Enter from Enter. One that cannot is silent, but for this one.
    pub(crate) names_keys: bool,
}

impl Manners {
    /// By what the surroundings say.
    pub(crate) fn of(place: &Place) -> Self {
        let term = place.variable("TERM").unwrap_or_default();
        let is = |name: &str| term == name || term.starts_with(&format!("{name}-"));
        let is_tmux = place.variable("TMUX").is_some();
        let cuts = is("linux") || is("rxvt") || is("st") || (is("screen") && !is_tmux);
        let reflows = is_tmux || !(cuts || place.variable("XTERM_VERSION").is_some());
        Self { glyphs: Glyphs::of(place), reflows, names_keys: !is("linux") }
    }
}
