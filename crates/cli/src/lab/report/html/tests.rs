use super::*;
use crate::lab::report::sample::{self, outcome};

fn hostile() -> ReplayReport {
    let name = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u{0}";
    let mut header = sample::header();
    header.command = format!("lab replay {name}");
    header.assumptions.push(name.to_owned());
    let outcomes = ["append-only", "adaptive", "codex", name].map(|policy| {
        let mut outcome = outcome(name, policy, 1.0, (9, 0, 1));
        outcome.group = name.to_owned();
        outcome.prices = name.to_owned();
        outcome.context = vec![10, 20, 30];
        outcome.edits = vec![1, 99];
        outcome
    });
    ReplayReport::new(header, outcomes.to_vec())
}

/// The tags of a page, without what the style and the script contain.
fn tags(page: &str) -> Vec<&str> {
    let (mut tags, mut rest) = (Vec::new(), page);
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        tags.push(tag);
        rest = &rest[end + 1..];
        if let Some(raw) = ["style", "script"].into_iter().find(|it| tag.split(' ').next() == Some(*it)) {
            rest = &rest[rest.find(&format!("</{raw}>")).unwrap()..];
        }
    }
    tags
}

fn check_well_formed(page: &str) {
    let mut open = Vec::new();
    for tag in tags(page) {
        let name = tag.trim_start_matches('/').trim_end_matches('/').split(' ').next().unwrap();
        match tag {
            "!doctype html" => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "closed but not open"),
            _ if tag.ends_with('/') => {}
            _ => open.push(name),
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn the_page_is_well_formed_whatever_names_say() {
    for report in [sample::report(), hostile(), ReplayReport::new(sample::header(), Vec::new())] {
        let page = report.html();
        check_well_formed(&page);
        assert_eq!(tags(&page).iter().filter(|it| it.starts_with("script")).count(), 1);
        assert!(!tags(&page).iter().any(|it| it.starts_with("img")));
        assert!(!page.contains("\u{0}"));
    }
}

#[test]
fn nothing_is_loaded() {
    for report in [sample::report(), hostile()] {
        let page = report.html();
        for tag in tags(&page) {
            for attribute in ["src=", "srcset=", "action=", "style=", "onclick=", "onload=", "xlink:"] {
                let outside_of_quotes = tag.split('"').step_by(2).any(|part| part.contains(attribute));
                assert!(!outside_of_quotes, "{tag}");
            }
            assert!(!tag.contains("href=") || tag.contains("href=\"data:,\""), "{tag}");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import") && !SCRIPT.contains("fetch"));
    }
}

#[test]
fn the_policy_of_the_page_allows_its_own_style_and_script_only() {
    let page = sample::report().html();
    let between = |from: &str, to: &str| {
        let start = page.find(from).unwrap() + from.len();
        &page[start..start + page[start..].find(to).unwrap()]
    };
    let policy = between("Content-Security-Policy\" content=\"", "\"").replace("&#39;", "'");
    let style = hash_of(between("<style>", "</style>"));
    let script = hash_of(between("<script type=\"module\">", "</script>"));
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data:; base-uri 'none'; form-action 'none'"
        )
    );
    // Of the standard's own examples.
    assert_eq!(hash_of("alert('Hello, world.');"), "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
    let first = page.find("<style>").unwrap();
    assert!(page.find("Content-Security-Policy").unwrap() < first, "the policy stands before what it allows");
}

#[test]
fn the_page_says_result_reasons_goals_and_limits() {
    let page = sample::report().html();
    let headings: Vec<&str> =
        page.split("<h1>").skip(1).map(|it| it.split("</h1>").next().unwrap()).collect();
    assert_eq!(headings.len(), 1);
    assert!(headings[0].starts_with("With adaptive, sessions cost 46.1"), "{headings:?}");
    for said in [
        "A replay is not counterfactual",
        "does not beat every modelled rival",
        "Where not, and why: ",
        "✓ met",
        "✗ not met",
        "A summary has as many tokens as the policy&#39;s limit allows.",
        "trigger 0.8 of the window: https://example.org/codex/compact.rs#L12",
        "longhaul lab replay before-compaction.jsonl",
        "large = a large model: nobody&#39;s price list",
        "SYNTHETIC",
        "user constraints",
    ] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn charts_have_names_descriptions_and_units() {
    let page = sample::report().html();
    let drawings = page.matches("<svg ").count();
    assert_eq!(drawings, 5 * 10 + 2 * 2, "each policy for each session, a scatter for each table and kind");
    assert_eq!(page.matches("<desc ").count(), drawings);
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).map(|it| it.split('"').next().unwrap()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "no id twice");
    for unit in ["tokens sent", "model call", "cost, % of append-only", "needed later and in view, %"] {
        assert!(page.contains(unit), "{unit}");
    }
}

#[test]
fn a_row_stands_for_each_session_and_window() {
    let page = sample::report().html();
    let table = page.split("A row for each session in each window").nth(1).unwrap();
    let table = table.split("</table>").next().unwrap();
    assert_eq!(table.matches("<tr").count(), 1 + 5 * 3);
    assert!(page.contains("The sessions at the other prices"));
    assert!(table.contains("refactor the lexer &lt;b&gt;&amp;&quot;quoted&quot;&lt;/b&gt;"));
    assert!(page.contains("Every policy: 300 rows"), "and every outcome below");
}

/// Lightness, chroma and hue of a token in one of the two schemes.
fn token(name: &str, dark: bool) -> [f64; 3] {
    let line = STYLE.lines().find(|line| line.trim().starts_with(&format!("--{name}: light-dark("))).unwrap();
    let colour = line.split("oklch(").nth(if dark { 2 } else { 1 }).unwrap();
    let parts = colour.split(')').next().unwrap().split(' ').map(|part| part.parse().unwrap());
    parts.collect::<Vec<f64>>().try_into().unwrap()
}

/// Relative luminance of an OKLCH colour, by way of linear sRGB (css.land/lch, Björn Ottosson's matrices).
fn luminance([lightness, chroma, hue]: [f64; 3]) -> f64 {
    let (a, b) = (chroma * hue.to_radians().cos(), chroma * hue.to_radians().sin());
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548 * b).powi(3);
    let red = 4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s;
    let green = -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s;
    let blue = -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701 * s;
    let [red, green, blue] = [red, green, blue].map(|it| it.clamp(0.0, 1.0));
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

#[test]
fn every_text_colour_can_be_read_on_every_ground_in_both_schemes() {
    for dark in [false, true] {
        for ground in ["paper", "raised", "wash"] {
            for text in ["ink", "quiet", "subject", "ours", "peer", "baseline", "yes", "no"] {
                let (one, other) = (luminance(token(text, dark)), luminance(token(ground, dark)));
                let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                assert!(contrast >= 4.5, "{text} on {ground}, dark {dark}: {contrast:.2}");
            }
        }
    }
}
