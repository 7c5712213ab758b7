use super::*;

fn html(text: &str) -> String {
    MarkdownRenderer::default().render(text)
}

#[test]
fn markdown_becomes_markup() {
    for (text, expected) in [
        (
            "Hello *there* **you** ~~not~~",
            "<p>Hello <em>there</em> <strong>you</strong> <del>not</del></p>\n",
        ),
        ("# One\n\ntwo", "<h1>One</h1>\n<p>two</p>\n"),
        ("- a\n- [x] b\n- [ ] c", "<ul><li>a</li>\n<li>☑ b</li>\n<li>☐ c</li>\n</ul>\n"),
        ("3. a", "<ol start=\"3\"><li>a</li>\n</ol>\n"),
        ("> q", "<blockquote><p>q</p>\n</blockquote>\n"),
        ("a  \nb\nc", "<p>a<br>\nb\nc</p>\n"),
        ("`a < b`", "<p><code>a &lt; b</code></p>\n"),
        ("---", "<hr>\n"),
    ] {
        assert_eq!(html(text), expected, "{text}");
    }
    let table = html("| a | b |\n|:--|--:|\n| 1 | 2 |");
    assert!(table.contains("<th class=\"align-left\">a</th><th class=\"align-right\">b</th>"), "{table}");
    assert!(table.contains("<td class=\"align-left\">1</td><td class=\"align-right\">2</td>"), "{table}");
}

#[test]
fn markup_of_the_text_is_shown() {
    assert_eq!(html("a <b>x</b>"), "<p>a &lt;b&gt;x&lt;/b&gt;</p>\n");
    let block = html("<div onclick=\"x()\">\nhello\n</div>");
    assert!(block.contains("&lt;div onclick=") && block.contains("&lt;/div&gt;"), "{block}");
}

#[test]
fn links_go_out_and_tell_nothing() {
    let link = html("[a](https://a.example/x?y=1&z \"t\")");
    for part in [
        "href=\"https://a.example/x?y=1&amp;z\"",
        "rel=\"noopener noreferrer\"",
        "target=\"_blank\"",
        "title=\"t\"",
    ] {
        assert!(link.contains(part), "{part} in {link}");
    }
    assert!(html("<mail@a.example>").contains("href=\"mailto:mail@a.example\""));
    for elsewhere in
        ["javascript:alert(1)", "/api/sessions", "//evil.example", "data:text/html,x", "file:///etc", "#x"]
    {
        assert_eq!(html(&format!("[a]({elsewhere})")), "<p>a</p>\n", "{elsewhere}");
    }
}

#[test]
fn pictures_are_never_loaded() {
    let picture = html("![a cat](https://a.example/cat.png?secret)");
    assert!(
        picture.contains("class=\"blocked-image\" data-src=\"https://a.example/cat.png?secret\""),
        "{picture}"
    );
    assert!(
        picture.contains(">a cat</a>") && !picture.contains("<img") && !picture.contains("href"),
        "{picture}"
    );
    assert!(html("![](https://a.example/)").contains(">image</a>"), "there is something to press");
    assert_eq!(html("![alt](data:image/png;base64,AA)"), "<p>alt</p>\n");
    let badge = html("[![alt](https://a.example/b.svg)](https://b.example/)");
    assert!(badge.contains(">alt</a>") && !badge.contains("a.example"), "{badge}");
}

#[test]
fn code_is_told_apart() {
    let rust = html("```rust\nfn main() { let x = \"<b>\"; } // 1\n```");
    assert!(rust.starts_with("<pre><code class=\"language-rust\">"), "{rust}");
    for piece in [
        "<span class=\"hl-keyword\">fn",
        "<span class=\"hl-function\">main</span>",
        "<span class=\"hl-string\">\"&lt;b&gt;\"</span>",
        "<span class=\"hl-comment\">// 1",
    ] {
        assert!(rust.contains(piece), "{piece} in {rust}");
    }
    for (language, code, class) in [
        ("python", "def f(a): return 1", "hl-keyword"),
        ("ts", "const a = 1", "hl-number"),
        ("json", "{\"a\": 1}", "hl-string"),
        ("sh", "if true; then echo x; fi", "hl-keyword"),
        ("diff", "+a\n-b\n", "hl-inserted"),
        ("html", "<a href=\"x\">y</a>", "hl-tag"),
        ("go", "func f() {}", "hl-keyword"),
        ("yaml", "a: \"b\"", "hl-string"),
    ] {
        let shown = html(&format!("```{language}\n{code}\n```"));
        assert!(shown.contains(class), "{language}: {shown}");
    }
    assert_eq!(
        html("```nonesuch\na < b\n```"),
        "<pre><code class=\"language-nonesuch\">a &lt; b\n</code></pre>\n"
    );
    assert_eq!(html("```\"onx=1\na\n```"), "<pre><code>a\n</code></pre>\n");
}

#[test]
fn a_budget_ends_the_colours_not_the_text() {
    let mut renderer = MarkdownRenderer { highlighted_bytes: 40 };
    let code = "```rust\nfn f() { return 1 }\n```\n";
    assert!(renderer.render(code).contains("hl-"));
    let plain = renderer.render(&code.repeat(2));
    assert!(plain.contains("fn f() { return 1 }"), "{plain}");
    let long = format!("```rust\nlet a = 1;\nlet b = \"{}\";\n```", "x".repeat(5_000));
    let shown = html(&long);
    assert!(shown.contains("hl-number") && shown.contains(&"x".repeat(5_000)));
}

#[test]
fn depth_and_size_are_bounded() {
    for text in [
        ">".repeat(20_000),
        format!("{}x", "- ".repeat(20_000)),
        "*a **b ".repeat(5_000),
        "[".repeat(50_000),
        "![".repeat(30_000),
        "`".repeat(100_000),
        format!("{}\n{}\n{}", "|a".repeat(2_000), "|-".repeat(2_000), "|b\n".repeat(2_000)),
        "[a]: https://a.example/x\n\n".to_owned() + &"[a]".repeat(20_000),
        "<".repeat(100_000),
        "&".repeat(100_000),
    ] {
        let shown = html(&text);
        let start: String = text.chars().take(12).collect();
        assert!(depth(&shown) <= DEEPEST + 4, "{start}: {}", depth(&shown));
        assert!(shown.len() < 16 << 20, "{start}: {}", shown.len());
    }
    let huge = "a *b* <i>\n".repeat(LARGEST_BYTES / 10 + 1);
    let shown = html(&huge);
    assert!(shown.starts_with("<pre>a *b* &lt;i&gt;") && !shown.contains("<em>"), "{}", &shown[..40]);
}

/// Elements within each other.
fn depth(markup: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for (at, _) in markup.match_indices('<') {
        let rest = &markup[at + 1..];
        if rest.starts_with('/') {
            depth = depth.saturating_sub(1);
        } else if !rest.starts_with("br") && !rest.starts_with("hr") {
            depth += 1;
            deepest = deepest.max(depth);
        }
    }
    deepest
}
