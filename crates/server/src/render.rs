//! The rendering of Markdown as safe HTML. A model's text may contain anything from anybody.
//!
//! HTML in the text stays text. Links lead to the web or to mail, and reveal nothing of the page. Pictures are
//! never loaded: a remote one becomes a mark for a person to open. The output passes the [`sanitizer`] with its
//! list of the elements and attributes made here.

mod code;
#[cfg(test)]
mod hostile;
mod sanitizer;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use ammonia::Url;
use pulldown_cmark::{Alignment, CodeBlockKind, Event, LinkType, Options, Parser, Tag};

/// The maximum depth of elements; deeper ones are left out, and their text is kept.
const DEEPEST: usize = 48;

/// The largest text to parse, in bytes. A larger one is shown unchanged.
const LARGEST_BYTES: usize = 512 << 10;

/// The amount of highlighted code in one request, in bytes. Further code is shown plain.
const HIGHLIGHTED_BYTES: usize = 256 << 10;

/// A renderer for the texts of one request, with one highlighting budget.
#[derive(Debug)]
pub(crate) struct MarkdownRenderer {
    highlighted_bytes: usize,
}

impl Default for MarkdownRenderer {
    fn default() -> Self {
        Self { highlighted_bytes: HIGHLIGHTED_BYTES }
    }
}

impl MarkdownRenderer {
    /// Returns the HTML of a Markdown text.
    pub(crate) fn render(&mut self, text: &str) -> String {
        // The size bounds the time that one text can take from the others.
        if text.len() > LARGEST_BYTES {
            return sanitizer::clean(&format!("<pre>{}</pre>", escaped(text)));
        }
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let mut writer = HtmlWriter::new(&mut self.highlighted_bytes, text.len());
        Parser::new_ext(text, options).for_each(|event| writer.event(event));
        sanitizer::clean(&writer.markup)
    }
}

struct HtmlWriter<'a> {
    markup: String,
    /// The closing tags of all open elements.
    open: Vec<Cow<'static, str>>,
    /// The language and the text of the open code block.
    code: Option<(Option<String>, String)>,
    /// The columns of the table, and the index of the next cell.
    columns: Vec<Alignment>,
    column: usize,
    is_head: bool,
    /// The place where the text of the open link or picture begins.
    anchor: Option<usize>,
    highlighted_bytes: &'a mut usize,
}

impl<'a> HtmlWriter<'a> {
    fn new(highlighted_bytes: &'a mut usize, bytes: usize) -> Self {
        Self {
            markup: String::with_capacity(bytes * 3 / 2),
            open: Vec::new(),
            code: None,
            columns: Vec::new(),
            column: 0,
            is_head: false,
            anchor: None,
            highlighted_bytes,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(_) => self.end(),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.text(&text),
            },
            Event::Code(text) => {
                self.markup.push_str("<code>");
                self.text(&text);
                self.markup.push_str("</code>");
            }
            // HTML in the text is shown as text.
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text)
            }
            Event::SoftBreak => self.markup.push('\n'),
            Event::HardBreak => self.markup.push_str("<br>\n"),
            Event::Rule => self.markup.push_str("<hr>\n"),
            Event::TaskListMarker(is_done) => self.markup.push_str(if is_done { "☑ " } else { "☐ " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let (opening, closing) = match tag {
            Tag::CodeBlock(kind) => {
                self.code = Some((language(&kind), String::new()));
                (Cow::Borrowed(""), Cow::Borrowed(""))
            }
            _ if self.open.len() >= DEEPEST => Default::default(),
            tag => self.element(tag),
        };
        self.markup.push_str(&opening);
        // Also for an element that is left out, because its end event will come too.
        self.open.push(closing);
    }

    /// Returns the opening and the closing tag of an element.
    fn element(&mut self, tag: Tag<'_>) -> (Cow<'static, str>, Cow<'static, str>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => fixed_tags("<p>", "</p>\n"),
            Tag::Heading { level, .. } => (format!("<{level}>").into(), format!("</{level}>\n").into()),
            Tag::BlockQuote(_) => fixed_tags("<blockquote>", "</blockquote>\n"),
            Tag::List(Some(first)) => (format!("<ol start=\"{first}\">").into(), "</ol>\n".into()),
            Tag::List(None) => fixed_tags("<ul>", "</ul>\n"),
            Tag::Item => fixed_tags("<li>", "</li>\n"),
            Tag::Emphasis => fixed_tags("<em>", "</em>"),
            Tag::Strong => fixed_tags("<strong>", "</strong>"),
            Tag::Strikethrough => fixed_tags("<del>", "</del>"),
            Tag::Table(columns) => {
                self.columns = columns;
                fixed_tags("<table>", "</tbody></table>\n")
            }
            Tag::TableHead => {
                (self.is_head, self.column) = (true, 0);
                fixed_tags("<thead><tr>", "</tr></thead><tbody>\n")
            }
            Tag::TableRow => {
                (self.is_head, self.column) = (false, 0);
                fixed_tags("<tr>", "</tr>\n")
            }
            Tag::TableCell => self.cell(),
            Tag::Link { link_type: LinkType::Email, dest_url, title, .. } => {
                self.anchor(link(&format!("mailto:{dest_url}"), &title))
            }
            Tag::Link { dest_url, title, .. } => self.anchor(link(&dest_url, &title)),
            Tag::Image { dest_url, title, .. } => self.anchor(picture(&dest_url, &title)),
            _ => fixed_tags("", ""),
        }
    }

    fn cell(&mut self) -> (Cow<'static, str>, Cow<'static, str>) {
        let aligned = match self.columns.get(self.column) {
            Some(Alignment::Left) => " class=\"align-left\"",
            Some(Alignment::Center) => " class=\"align-center\"",
            Some(Alignment::Right) => " class=\"align-right\"",
            _ => "",
        };
        self.column += 1;
        let name = if self.is_head { "th" } else { "td" };
        (format!("<{name}{aligned}>").into(), if self.is_head { "</th>".into() } else { "</td>".into() })
    }

    /// Opens a link. Links cannot be nested in HTML, so only the text of an inner one is shown.
    fn anchor(&mut self, opening: Option<String>) -> (Cow<'static, str>, Cow<'static, str>) {
        match opening.filter(|_| self.anchor.is_none()) {
            Some(opening) => {
                self.anchor = Some(self.markup.len() + opening.len());
                (opening.into(), "</a>".into())
            }
            None => Default::default(),
        }
    }

    fn end(&mut self) {
        if let Some((language, code)) = self.code.take() {
            self.markup.push_str(&code::block(&code, language.as_deref(), self.highlighted_bytes));
        }
        let closing = self.open.pop().unwrap_or_default();
        // A picture without a description would be an empty link that cannot be clicked.
        if closing == "</a>" && self.anchor.take() == Some(self.markup.len()) {
            self.markup.push_str("image");
        }
        self.markup.push_str(&closing);
    }

    fn text(&mut self, text: &str) {
        self.markup.push_str(&escaped(text));
    }
}

/// Returns the named language of a code block.
fn language(kind: &CodeBlockKind<'_>) -> Option<String> {
    let CodeBlockKind::Fenced(info) = kind else { return None };
    let name = info.split([' ', ',', '\t', '{']).next().unwrap_or_default().to_ascii_lowercase();
    // The name becomes a class attribute, so it must not bring other signs.
    let is_name = (1..=24).contains(&name.len()) && name.bytes().all(sanitizer::is_of_language);
    is_name.then_some(name)
}

fn link(address: &str, title: &str) -> Option<String> {
    let address = goes_out(address, &["http", "https", "mailto"])?;
    let title = attribute("title", title);
    Some(format!("<a href=\"{address}\"{title} target=\"_blank\">"))
}

fn picture(address: &str, title: &str) -> Option<String> {
    let address = goes_out(address, &["http", "https"])?;
    let title = attribute("title", title);
    // Loading a remote picture would tell its server who reads the text, and when.
    Some(format!("<a class=\"blocked-image\" data-src=\"{address}\"{title}>"))
}

fn fixed_tags(opening: &'static str, closing: &'static str) -> (Cow<'static, str>, Cow<'static, str>) {
    (Cow::Borrowed(opening), Cow::Borrowed(closing))
}

fn attribute(name: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" {name}=\"{}\"", escaped(text)) }
}

/// Returns an absolute address as parsed by browsers, if the scheme is in the list.
fn goes_out(address: &str, schemes: &[&str]) -> Option<String> {
    let address = Url::parse(address).ok().filter(|address| schemes.contains(&address.scheme()))?;
    Some(escaped(address.as_str()))
}

fn escaped(text: &str) -> String {
    // A sixteenth more is usually enough for the escapes, so the buffer seldom grows.
    let mut escaped = String::with_capacity(text.len() + text.len() / 16);
    for sign in text.chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Browsers drop or replace NUL, which could join two harmless pieces into a tag.
            '\0' => escaped.push('\u{fffd}'),
            sign => escaped.push(sign),
        }
    }
    escaped
}
