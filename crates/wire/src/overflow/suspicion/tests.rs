use longhaul_core::message::{OpaquePart, RawJson, ReasoningPart};
use longhaul_core::usage::Usage;

use super::*;

fn answer(text: &str, finish: ModelStopReason, usage: Option<(u64, u64)>) -> ModelAnswer {
    let usage =
        usage.map(|(input_tokens, output_tokens)| Usage { input_tokens, output_tokens, ..Usage::default() });
    ModelAnswer { parts: vec![Part::text(text)], finish, usage, envelope: None }
}

fn said(envelope: &str) -> ModelAnswer {
    ModelAnswer {
        envelope: Some(RawJson(envelope.to_owned())),
        ..answer("Half an", ModelStopReason::Length, Some((10, 5)))
    }
}

const EXACT: AnsweredRequestTokens = AnsweredRequestTokens {
    counted_before: 0,
    estimated: 0,
    last_input: 0,
    has_grown: false,
    may_be_left_out: 0,
    margin: 0.1,
    window: None,
    source: LimitSource::Unknown,
    max_output: Some(1_000),
};

fn server(window: u64) -> AnsweredRequestTokens {
    AnsweredRequestTokens { window: Some(window), source: LimitSource::Server, ..EXACT }
}

#[test]
fn an_ordinary_answer_is_not_suspected() {
    for sent in [
        EXACT,
        server(8_192),
        AnsweredRequestTokens { window: Some(8_192), source: LimitSource::Declared, ..EXACT },
    ] {
        let sent = AnsweredRequestTokens { counted_before: 3_000, estimated: 500, ..sent };
        for usage in [None, Some((3_480, 200)), Some((3_100, 1_000))] {
            for finish in [
                ModelStopReason::Stop,
                ModelStopReason::ToolCalls,
                ModelStopReason::ContentFilter,
                ModelStopReason::Other,
            ] {
                assert_eq!(suspect(&sent, &answer("Done.", finish, usage)), None, "{sent:?} {usage:?}");
            }
        }
        let limited = answer("as long as it may be", ModelStopReason::Length, Some((3_480, 1_000)));
        assert_eq!(suspect(&sent, &limited), None, "{sent:?}");
    }
}

/// Ollama: 4,096 by default, 2,050 kept of a message beyond the window.
#[test]
fn half_a_window_is_silent_truncation() {
    let sent = AnsweredRequestTokens { estimated: 9_000, ..EXACT };
    let cut = answer("About the end of it …", ModelStopReason::Stop, Some((2_050, 80)));
    let expected = SuspectedOverflow::SilentlyTruncated { reported: 2_050, counted: 9_000 };
    assert_eq!(suspect(&sent, &cut), Some(expected));
    assert_eq!(expected.overflow(), ReportedOverflow { used_tokens: None, limit_tokens: Some(2_050) });
    let declared = AnsweredRequestTokens { window: Some(32_768), source: LimitSource::Declared, ..sent };
    assert_eq!(suspect(&declared, &cut), None, "a small report casts no doubt on a stated window");
    let roomy = AnsweredRequestTokens { window: Some(32_768), source: LimitSource::Server, ..sent };
    assert_eq!(suspect(&roomy, &cut), None, "a server that has the room has no reason to cut");
    let narrow = AnsweredRequestTokens { window: Some(4_096), source: LimitSource::Server, ..sent };
    assert_eq!(suspect(&narrow, &cut), Some(expected));
}

/// A server must count earlier content again, so dropped messages show at once.
#[test]
fn a_request_that_grew_and_was_counted_smaller_was_cut() {
    let sent = AnsweredRequestTokens { counted_before: 5_000, estimated: 600, ..EXACT };
    let cut = answer("What were we doing?", ModelStopReason::Stop, Some((3_900, 20)));
    assert_eq!(
        suspect(&sent, &cut),
        Some(SuspectedOverflow::SilentlyTruncated { reported: 3_900, counted: 5_600 })
    );
    let reasoning = AnsweredRequestTokens { may_be_left_out: 1_500, ..sent };
    assert_eq!(suspect(&reasoning, &cut), None, "dropped reasoning explains it");
    let whole = answer("Going on.", ModelStopReason::Stop, Some((5_300, 20)));
    assert_eq!(suspect(&sent, &whole), None);
}

#[test]
fn small_differences_and_reports_without_sense_are_no_truncation() {
    let small = AnsweredRequestTokens { estimated: 1_400, ..EXACT };
    assert_eq!(
        suspect(&small, &answer("ok", ModelStopReason::Stop, Some((600, 5)))),
        None,
        "no window is that small"
    );
    let odd = AnsweredRequestTokens { counted_before: 100_000, estimated: 10_000, ..EXACT };
    assert_eq!(
        suspect(&odd, &answer("ok", ModelStopReason::Stop, Some((12, 5)))),
        None,
        "that server counts something else"
    );
    assert_eq!(suspect(&odd, &answer("ok", ModelStopReason::Stop, Some((0, 0)))), None);
    assert_eq!(suspect(&odd, &answer("ok", ModelStopReason::Stop, Some((96_000, 5)))), None);
}

#[test]
fn length_with_the_window_full() {
    let cut = answer("It goes on and", ModelStopReason::Length, Some((3_970, 126)));
    let full = Some(SuspectedOverflow::WindowFull { total: Some(4_096) });
    let sent = AnsweredRequestTokens { estimated: 3_950, ..EXACT };
    assert_eq!(suspect(&AnsweredRequestTokens { estimated: 3_950, ..server(4_096) }, &cut), full);
    assert_eq!(
        suspect(&AnsweredRequestTokens { estimated: 3_950, ..server(16_384) }, &cut),
        None,
        "there was room"
    );
    assert_eq!(suspect(&sent, &cut), full, "nobody limits an answer to 126 tokens when 1,000 are asked for");
    assert_eq!(
        suspect(&AnsweredRequestTokens { max_output: Some(126), ..sent }, &cut),
        None,
        "we asked for 126"
    );
    assert_eq!(
        suspect(
            &AnsweredRequestTokens { estimated: 300, ..EXACT },
            // A request this short fills no window, whatever ended the answer.
            &answer("Hm", ModelStopReason::Length, Some((300, 3)))
        ),
        None
    );
    let uncounted = answer("", ModelStopReason::Length, None);
    assert_eq!(
        suspect(&AnsweredRequestTokens { estimated: 4_090, ..server(4_096) }, &uncounted),
        Some(SuspectedOverflow::WindowFull { total: None })
    );
}

#[test]
fn more_input_than_the_window_holds() {
    let sent = AnsweredRequestTokens { counted_before: 131_000, estimated: 500, ..server(128_000) };
    let read = answer("Well.", ModelStopReason::Stop, Some((131_480, 9)));
    assert_eq!(suspect(&sent, &read), Some(SuspectedOverflow::WindowFull { total: Some(131_489) }));
}

#[test]
fn a_report_far_above_the_window_is_a_wrong_one() {
    let sent = AnsweredRequestTokens { estimated: 900, ..server(4_096) };
    assert_eq!(suspect(&sent, &answer("Well.", ModelStopReason::Stop, Some((9_000, 9)))), None);
}

#[test]
fn the_servers_own_word_for_it() {
    let full = Some(SuspectedOverflow::WindowFull { total: Some(15) });
    for envelope in [
        r#"{"stop_reason":"model_context_window_exceeded","stop_sequence":null}"#,
        r#"{"id":"1","choices":[{"finish_reason":"model_length"}]}"#,
        // LM Studio's own API. The two above are Anthropic's and Mistral's.
        r#"{"stats":{"stopReason":"contextLengthReached"}}"#,
    ] {
        assert_eq!(suspect(&EXACT, &said(envelope)), full, "{envelope}");
    }
    // The word must be a code: the model may write it as text.
    for envelope in [r#"{"stop_reason":"max_tokens"}"#, r#"{"content":"model_context_window_exceeded"}"#, ""]
    {
        assert_eq!(suspect(&EXACT, &said(envelope)), None, "{envelope}");
    }
}

/// LM Studio: an over-long prompt gives 200 and no content (bug tracker 2339).
#[test]
fn an_empty_answer_to_a_long_request() {
    let long = AnsweredRequestTokens { estimated: 4_200, ..EXACT };
    for usage in [None, Some((0, 0)), Some((4_050, 0))] {
        let empty = answer(" \n", ModelStopReason::Stop, usage);
        assert_eq!(suspect(&long, &empty), Some(SuspectedOverflow::Empty), "{usage:?}");
        assert_eq!(
            suspect(&AnsweredRequestTokens { estimated: 4_000, ..server(4_096) }, &empty),
            Some(SuspectedOverflow::Empty)
        );
        assert_eq!(
            suspect(&AnsweredRequestTokens { estimated: 4_200, ..server(32_768) }, &empty),
            None,
            "a hiccup"
        );
        assert_eq!(suspect(&AnsweredRequestTokens { estimated: 200, ..EXACT }, &empty), None, "a hiccup");
    }
    let filtered = answer("", ModelStopReason::ContentFilter, None);
    assert_eq!(suspect(&long, &filtered), None);
}

#[test]
fn an_empty_answer_that_ended_for_its_length_had_no_room() {
    let long = AnsweredRequestTokens { estimated: 3_000, ..server(8_192) };
    let empty = |output| answer("", ModelStopReason::Length, Some((3_000, output)));
    assert_eq!(suspect(&long, &empty(0)), Some(SuspectedOverflow::Empty), "the stated window is too large");
    assert_eq!(suspect(&long, &empty(1)), Some(SuspectedOverflow::Empty));
    assert_eq!(suspect(&long, &empty(600)), None, "hidden reasoning has used up the output limit");
    let probe = AnsweredRequestTokens { max_output: Some(1), ..long };
    assert_eq!(suspect(&probe, &empty(1)), None, "the caller asked for one token");
    let short = AnsweredRequestTokens { estimated: 300, ..server(8_192) };
    assert_eq!(suspect(&short, &answer("", ModelStopReason::Length, Some((300, 0)))), None);
    let text = answer("Hm", ModelStopReason::Length, Some((3_000, 1)));
    assert_eq!(suspect(&long, &text), None, "it is an answer");
    let uncounted = answer("", ModelStopReason::Length, None);
    assert_eq!(suspect(&long, &uncounted), None, "far from the window's end");
    let near = AnsweredRequestTokens { estimated: 7_000, ..server(8_192) };
    assert_eq!(suspect(&near, &uncounted), Some(SuspectedOverflow::Empty));
}

#[test]
fn reasoning_and_calls_are_an_answer() {
    let long = AnsweredRequestTokens { estimated: 4_200, ..EXACT };
    // A model that calls a server's tool or only thinks has answered.
    let opaque =
        Part::Opaque(OpaquePart { kind: "server_tool_use".to_owned(), native: RawJson("{}".to_owned()) });
    let thought = Part::Reasoning(ReasoningPart { text: "Hm.".to_owned(), native: None });
    for part in [opaque, thought] {
        let answer = ModelAnswer { parts: vec![part], ..answer("", ModelStopReason::Stop, None) };
        assert_eq!(suspect(&long, &answer), None, "{answer:?}");
    }
}

#[test]
fn a_count_that_stands_still_after_it_grew_is_where_the_server_cuts() {
    let sent = AnsweredRequestTokens {
        counted_before: 4_110,
        estimated: 150,
        last_input: 4_096,
        has_grown: true,
        ..EXACT
    };
    let cut = Some(SuspectedOverflow::SilentlyTruncated { reported: 4_096, counted: 4_260 });
    assert_eq!(suspect(&sent, &answer("Yes.", ModelStopReason::Stop, Some((4_096, 9)))), cut);
    assert_eq!(
        suspect(&sent, &answer("Yes.", ModelStopReason::Stop, Some((4_097, 9)))),
        None,
        "a token more"
    );
    let declared = AnsweredRequestTokens { window: Some(32_000), source: LimitSource::Declared, ..sent };
    assert_eq!(
        suspect(&declared, &answer("Yes.", ModelStopReason::Stop, Some((4_096, 9)))),
        None,
        "it has the room"
    );
    let again = AnsweredRequestTokens { counted_before: 4_110, estimated: 20, ..sent };
    assert_eq!(
        suspect(&again, &answer("Yes.", ModelStopReason::Stop, Some((4_096, 9)))),
        None,
        "hardly more was sent"
    );
    let thought = AnsweredRequestTokens { may_be_left_out: 150, ..sent };
    assert_eq!(
        suspect(&thought, &answer("Yes.", ModelStopReason::Stop, Some((4_096, 9)))),
        None,
        "reasoning went"
    );
}

/// A report without growth proves no cut, however much is missing.
#[test]
fn a_report_that_never_grew_is_a_wrong_one() {
    let standing = answer("Yes.", ModelStopReason::Stop, Some((4_096, 9)));
    for estimated in [150, 2_000, 60_000] {
        let sent = AnsweredRequestTokens { counted_before: 4_110, estimated, last_input: 4_096, ..EXACT };
        assert_eq!(suspect(&sent, &standing), None, "{estimated}");
    }
}

/// Nothing was cut below half of any possible window: the report counts something else.
#[test]
fn a_report_below_half_a_window_is_a_wrong_one() {
    let sent = AnsweredRequestTokens { estimated: 40_000, ..server(32_768) };
    assert_eq!(suspect(&sent, &answer("Yes.", ModelStopReason::Stop, Some((9_000, 9)))), None);
    let cut = Some(SuspectedOverflow::SilentlyTruncated { reported: 16_500, counted: 40_000 });
    assert_eq!(suspect(&sent, &answer("Yes.", ModelStopReason::Stop, Some((16_500, 9)))), cut);
}
