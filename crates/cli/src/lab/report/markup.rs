//! A writer of HTML and SVG that escapes all text. Only `own` does not, and it takes only the program's own text.

use super::figures::visible;

/// A piece of a page.
#[derive(Debug, Default)]
pub(super) struct MarkupWriter(String);

/// Names and values of an element.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

impl MarkupWriter {
    /// Appends an element with contents.
    pub(super) fn element(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Self),
    ) {
        self.tag(name, attributes, ">");
        inside(self);
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
    }

    /// Appends an element of text only.
    pub(super) fn leaf(&mut self, name: &'static str, attributes: Attributes<'_>, text: &str) {
        self.element(name, attributes, |it| it.text(text));
    }

    /// Appends an empty element.
    pub(super) fn void(&mut self, name: &'static str, attributes: Attributes<'_>) {
        // The closing slash is needed in SVG and allowed in HTML.
        self.tag(name, attributes, "/>");
    }

    /// Appends escaped text.
    pub(super) fn text(&mut self, text: &str) {
        self.escape(text);
    }

    /// Appends the program's own text unescaped: style, script.
    pub(super) fn own(&mut self, text: &'static str) {
        self.0.push_str(text);
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }

    fn tag(&mut self, name: &'static str, attributes: Attributes<'_>, end: &str) {
        self.0.push('<');
        self.0.push_str(name);
        for (name, value) in attributes {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            self.escape(value);
            self.0.push('"');
        }
        self.0.push_str(end);
    }

    fn escape(&mut self, text: &str) {
        // Names and texts come from recordings, so the page must not trust them.
        for c in visible(text).chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let mut page = MarkupWriter::default();
        page.element("p", &[("title", "\" onclick=\"x")], |it| it.text("<script>&'\u{0}</script>"));
        page.void("br", &[]);
        let expected = "<p title=\"&quot; onclick=&quot;x\">&lt;script&gt;&amp;&#39;&lt;/script&gt;</p><br/>";
        assert_eq!(page.into_string(), expected);
    }
}
