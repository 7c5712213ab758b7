//! The second line of defence: whatever the renderer has written, only these elements and attributes come out.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

use super::code::CLASSES;

const ELEMENTS: [&str; 28] = [
    "p",
    "br",
    "hr",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "blockquote",
    "pre",
    "code",
    "em",
    "strong",
    "del",
    "a",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "span",
    "sup",
    "sub",
];

const ALIGNED: [&str; 3] = ["align-left", "align-center", "align-right"];

static WALL: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let attributes = HashMap::from([
        ("a", HashSet::from(["href", "title", "target", "data-src", "class"])),
        ("ol", HashSet::from(["start"])),
        ("code", HashSet::from(["class"])),
        ("span", HashSet::from(["class"])),
        ("th", HashSet::from(["class"])),
        ("td", HashSet::from(["class"])),
    ]);
    let mut wall = Builder::empty();
    wall.tags(HashSet::from(ELEMENTS))
        .tag_attributes(attributes)
        .attribute_filter(allowed)
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        // A relative link would lead into this server, with the page's cookie.
        .url_relative(UrlRelative::Deny)
        // The opened page must neither reach this one nor learn its address.
        .link_rel(Some("noopener noreferrer"))
        .strip_comments(true);
    wall
});

/// Returns the HTML with only the allowed elements and attributes.
pub(super) fn clean(markup: &str) -> String {
    WALL.clean(markup).to_string()
}

fn allowed<'v>(element: &str, attribute: &str, value: &'v str) -> Option<Cow<'v, str>> {
    let is_fine = match (element, attribute) {
        ("code", "class") => {
            value.strip_prefix("language-").is_some_and(|name| name.bytes().all(is_of_language))
        }
        ("span", "class") => CLASSES.contains(&value),
        ("a", "class") => value == "blocked-image",
        ("th" | "td", "class") => ALIGNED.contains(&value),
        ("a", "target") => value == "_blank",
        ("a", "data-src") => value.starts_with("https://") || value.starts_with("http://"),
        ("ol", "start") => value.bytes().all(|digit| digit.is_ascii_digit()),
        _ => true,
    };
    is_fine.then_some(Cow::Borrowed(value))
}

/// Returns whether a byte may occur in the name of a language.
pub(super) fn is_of_language(sign: u8) -> bool {
    sign.is_ascii_lowercase() || sign.is_ascii_digit() || matches!(sign, b'_' | b'+' | b'#' | b'-' | b'.')
}
