//! Few colours, from the sixteen that every theme defines; none where they are unwelcome.

/// Paints text, or leaves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// With colours, or without.
    pub(crate) fn new(colour: bool) -> Self {
        Self { colour }
    }

    /// Beside the point.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Names and titles.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// The one accent.
    pub(crate) fn accent(self, text: &str) -> String {
        self.paint("36", text)
    }

    /// Wants attention.
    pub(crate) fn amber(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Has failed.
    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}
