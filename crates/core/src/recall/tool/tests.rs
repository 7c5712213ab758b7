use super::*;

fn span(text: &str, from: Seq, to: Seq) -> RecallRequest {
    RecallRequest::Span { handle: text.to_owned(), span: Some(LogRange { from, to }), range: None }
}

fn words(query: &str, hits: usize) -> RecallRequest {
    RecallRequest::Words { query: query.to_owned(), hits }
}

#[test]
fn a_text_alone_or_under_another_name_is_a_query_or_a_handle() {
    for (arguments, asked) in [
        (r#""the port""#, words("the port", DEFAULT_HITS)),
        ("the port", words("the port", DEFAULT_HITS)),
        (r#"{"q":"the port"}"#, words("the port", DEFAULT_HITS)),
        (r#"{"text":"the port","limit":9}"#, words("the port", 9)),
        (r#"{"query":"lh:3-4"}"#, span("lh:3-4", 3, 4)),
        ("lh:7", span("lh:7", 7, 7)),
        (r#"{"id":"lh:7"}"#, span("lh:7", 7, 7)),
        (r#"{"handle":12}"#, span("12", 12, 12)),
        (r#"{"handle":"[lh:12-14]"}"#, span("[lh:12-14]", 12, 14)),
        (r#"{"handle":"","query":"the port"}"#, words("the port", DEFAULT_HITS)),
    ] {
        assert_eq!(RecallRequest::read(arguments), Ok(asked), "{arguments}");
    }
    for nothing in ["", "{}", "[]", "null", r#"{"query":" "}"#, r#"{"limit":3}"#, r#"{"query":"#] {
        assert!(RecallRequest::read(nothing).is_err(), "{nothing}");
    }
}

#[test]
fn a_limit_is_honoured_up_to_the_most() {
    fn hits(limit: &str) -> usize {
        match RecallRequest::read(&format!(r#"{{"query":"port","limit":{limit}}}"#)) {
            Ok(RecallRequest::Words { hits, .. }) => hits,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!([hits("1"), hits("20"), hits("50"), hits("\"20\"")], [1, 20, 50, 20]);
    assert_eq!([hits("0"), hits("-3"), hits("900"), hits("null")], [1, 1, MAX_HITS, DEFAULT_HITS]);
    // Each of so many hits has its room.
    let limit = TextLimit { max_chars: 40_000, max_tokens: 8_000 };
    let extent = extent(MAX_HITS, &limit);
    let found: Vec<RecallSnippet> = (1..=50)
        .map(|seq| {
            let chars = if seq == 1 { extent.best_chars } else { extent.other_chars };
            RecallSnippet { seq, speaker: "user".to_owned(), snippet: "word ".repeat(chars / 5) }
        })
        .collect();
    assert_eq!(hits_text(&found, &limit).matches("<user lh:").count(), 50);
}

#[test]
fn a_wrong_handle_is_answered_with_those_that_exist() {
    let text = wrong_handle("lh:99", Some(LogRange { from: 99, to: 99 }), (1..=40).chain(200..=203));
    let named = "out of view are lh:35, lh:36, lh:37, lh:38, lh:39, lh:40";
    assert!(text.starts_with("recall: nothing is stored under lh:99") && text.contains(named), "{text}");
    assert!(wrong_handle("the file", None, [3, 9].into_iter()).contains("out of view are lh:3, lh:9"));
    assert!(wrong_handle("lh:9", None, std::iter::empty()).contains("nothing is out of view"));
}

#[test]
fn the_tool_takes_few_words() {
    let ToolSpec { name, description, parameters, .. } = spec();
    let tokens = text_tokens(&name) + text_tokens(&description) + text_tokens(parameters.as_str());
    assert!(tokens <= 80, "{tokens}");
}
