//! Few colours, from the sixteen that every theme defines; none where they are unwelcome.

/// The style in which words of a text are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextStyle(u8);

impl TextStyle {
    /// A title or stressed text.
    pub(crate) const BOLD: Self = Self(1);
    /// Less important text, or a block of code.
    pub(crate) const DIM: Self = Self(2);
    /// Slightly stressed text.
    pub(crate) const ITALIC: Self = Self(4);
    /// Code within a line.
    pub(crate) const CODE: Self = Self(8);
    /// The plain style, without a colour of its own.
    pub(crate) const PLAIN: Self = Self(16);

    /// Returns whether marks in the text are literal characters.
    pub(crate) fn is_literal(self) -> bool {
        self.0 & (Self::CODE.0 | Self::PLAIN.0) != 0
    }

    /// Returns the terminal's escape codes for the style; empty for none.
    pub(crate) fn codes(self) -> String {
        let inks = [(Self::BOLD, "1"), (Self::DIM, "2"), (Self::ITALIC, "3"), (Self::CODE, "36")];
        let codes: Vec<&str> =
            inks.into_iter().filter(|(ink, _)| self.0 & ink.0 != 0).map(|(_, code)| code).collect();
        if codes.is_empty() { String::new() } else { format!("\u{1b}[{}m", codes.join(";")) }
    }
}

impl std::ops::BitOr for TextStyle {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Paints text, or leaves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextPainter {
    colour: bool,
}

impl TextPainter {
    /// Creates a painter with colours, or without.
    pub(crate) fn new(colour: bool) -> Self {
        Self { colour }
    }

    /// Returns whether there are colours.
    pub(crate) fn has_colour(self) -> bool {
        self.colour
    }

    /// Paints less important text.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Paints names and titles.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Paints text in the one accent.
    pub(crate) fn accent(self, text: &str) -> String {
        self.paint("36", text)
    }

    /// Paints text that asks for attention.
    pub(crate) fn amber(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Paints a failure.
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
