use longhaul_core::error::ErrorCode;
use longhaul_wire::surrogates::whole;

use super::*;

fn event(data: &str) -> Result<SseEvent<'static>, ProviderError> {
    Ok(SseEvent { name: None, data: data.to_owned().into() })
}

/// Returns the events after joining; the last one may be an error.
async fn passed(events: Vec<Result<SseEvent<'static>, ProviderError>>) -> Vec<Result<String, ErrorCode>> {
    let events = join_characters(Box::pin(futures_util::stream::iter(events)));
    let all: Vec<_> = events.collect().await;
    all.into_iter()
        .map(|event| event.map(|event| event.data.into_owned()).map_err(|error| error.code))
        .collect()
}

async fn texts(events: &[&str]) -> Vec<String> {
    let passed = passed(events.iter().map(|data| event(data)).collect()).await;
    passed.into_iter().map(Result::unwrap).collect()
}

#[tokio::test]
async fn halves_of_two_events_are_joined() {
    let found =
        texts(&[r#"{"t":"a\ud83d","x":"y"}"#, r#"{"t":"\ude00b\uD83D"}"#, r#"{"t":"\uDE01"}"#, "[DONE]"])
            .await;
    assert_eq!(
        found,
        [r#"{"t":"a\ud83d\ude00","x":"y"}"#, r#"{"t":"b\uD83D\uDE01"}"#, r#"{"t":""}"#, "[DONE]"]
    );
}

#[tokio::test]
async fn halves_are_joined_field_by_field() {
    let found = texts(&[
        r#"{"reasoning":"a\ud83d","details":[{"text":"a\ud83d"}]}"#,
        r#"{"details":[{"text" : "\ude00b"}],"reasoning":"\ude01b"}"#,
    ])
    .await;
    assert_eq!(
        found,
        [
            r#"{"reasoning":"a\ud83d\ude01","details":[{"text":"a\ud83d\ude00"}]}"#,
            r#"{"details":[{"text" : "b"}],"reasoning":"b"}"#
        ]
    );
}

#[tokio::test]
async fn a_ping_between_two_halves_ends_no_waiting() {
    let ping = r#"{"type": "ping"}"#;
    let found = texts(&[r#"{"t":"\ud83d"}"#, ping, r#"{"t":"\ude00"}"#]).await;
    assert_eq!(found, [ping, r#"{"t":"\ud83d\ude00"}"#, r#"{"t":""}"#]);
}

#[tokio::test]
async fn a_half_that_stays_alone_is_replaced() {
    for (lone, expected) in [
        (r#"{"t":"a\ud83d"}"#, r#"{"t":"a\ufffd"}"#),
        (r#"{"t":"\ude00b"}"#, r#"{"t":"\ufffdb"}"#),
        (r#"{"t":"a\ud800b"}"#, r#"{"t":"a\ufffdb"}"#),
        (r#"{"t":"\ude00\ud83d"}"#, r#"{"t":"\ufffd\ufffd"}"#),
        (r#"{"t":"\ud83d\ud83d\ude00"}"#, r#"{"t":"\ufffd\ud83d\ude00"}"#),
        (r#"{"\ud83d":"\\\udfff\\"}"#, r#"{"\ufffd":"\\\ufffd\\"}"#),
    ] {
        assert_eq!(texts(&[lone]).await, [expected]);
        assert_eq!(texts(&[lone, r#"{"t":"next"}"#]).await, [expected, r#"{"t":"next"}"#]);
        assert_eq!(whole(lone), expected);
        let broken = ProviderError::new(ErrorCode::Network, "broken");
        let found = passed(vec![event(lone), Err(broken)]).await;
        assert_eq!(found, [Ok(expected.to_owned()), Err(ErrorCode::Network)], "nothing held is lost");
    }
}

#[tokio::test]
async fn what_is_whole_stays_as_it_is() {
    for json in [
        r#"{"t":"\ud83d\ude00"}"#,
        r#"{"t":"\uD83D\uDE00\ud83d\ude00x"}"#,
        r#"{"t":"\\ud83d"}"#,
        r#"{"t":"\\","u":"\\ude00"}"#,
        r#"{"t":"\ud7ff\ue000"}"#,
        r#"{"t":"\ud8"}"#,
        r#"{"t":"\u"#,
        "\\ud83d",
        "\"\\",
        "",
    ] {
        assert_eq!(texts(&[json]).await, [json]);
        assert_eq!(whole(json), json);
    }
}

#[tokio::test]
async fn the_end_of_an_answer_is_not_held_for_ever() {
    let last = futures_util::stream::iter([event(r#"{"t":"a\ud83d"}"#)]);
    let mut events = join_characters(Box::pin(last.chain(futures_util::stream::pending())));
    assert_eq!(events.next().await.unwrap().unwrap().data, r#"{"t":"a\ufffd"}"#);
}
