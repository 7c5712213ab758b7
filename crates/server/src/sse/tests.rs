//! Watchers as a connection sees them that takes frames and may be slow to send them.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use longhaul::testing::{self, TemporaryFolder};
use longhaul_core::event::EventBody;
use longhaul_store::LogAppend;

use super::backpressure::MOST_HELD_BYTES;
use super::reading::REPLAYS;
use super::*;
use crate::app::HttpServerConfig;
use crate::token::AccessToken;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A body and what was taken of it and is not sent.
struct Body {
    frames: Pin<Box<dyn Stream<Item = Result<Bytes, Infallible>> + Send>>,
    unsent: Vec<Bytes>,
    wakes: Arc<Wakes>,
}

impl Body {
    fn new(app: &AppState, session: &Session, after: Option<Seq>) -> Self {
        let frames = SseWatcher::new(app.clone(), session.clone(), after).frames();
        Self { frames: Box::pin(frames), unsent: Vec::new(), wakes: Arc::default() }
    }

    /// Takes what it is given.
    async fn take(&mut self) {
        let waker = Waker::from(Arc::clone(&self.wakes));
        let mut context = Context::from_waker(&waker);
        let take = std::future::poll_fn(|_| {
            while let Poll::Ready(Some(Ok(frame))) = self.frames.as_mut().poll_next(&mut context) {
                self.unsent.push(frame);
            }
            Poll::Ready(())
        });
        tokio::task::unconstrained(take).await;
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }

    fn unsent_bytes(&self) -> usize {
        self.unsent.iter().map(Bytes::len).sum()
    }
}

/// The positions that `frames` tell of.
fn positions(frames: &[Bytes]) -> Vec<Seq> {
    let events = frames.iter().filter_map(|frame| {
        let text = std::str::from_utf8(frame).unwrap();
        let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
        serde_json::from_str::<Value>(data).unwrap()["seq"].as_u64()
    });
    events.collect()
}

/// Returns whether two bodies were given the same bytes, and not equal ones.
fn share(one: &Body, other: &Body, but: usize) -> bool {
    let places = |body: &Body| body.unsent.iter().map(|frame| frame.as_ptr()).collect::<Vec<_>>();
    let (one, other) = (places(one), places(other));
    one.len() == other.len() && one.iter().zip(&other).filter(|(one, other)| one != other).count() == but
}

async fn session_that_says(text: &str) -> (AppState, Session, TemporaryFolder) {
    let (runtime, folder) = testing::runtime_that_says(text).unwrap();
    let session = runtime.create(None).await.unwrap();
    (
        AppState::new(runtime, HttpServerConfig::new(AccessToken::new("a token that is long enough"))),
        session,
        folder,
    )
}

#[tokio::test]
async fn a_frame_is_written_once_for_all_who_watch() {
    let (app, session, _folder) = session_that_says("Some words that come in pieces.").await;
    let mut bodies: Vec<Body> = (0..50).map(|_| Body::new(&app, &session, None)).collect();
    for body in &mut bodies {
        body.take().await;
    }
    session.ask("go").await.unwrap();
    for body in &mut bodies {
        body.take().await;
    }
    assert!(bodies[0].unsent.len() > 10);
    // The queue is looked up for each.
    assert!(bodies[1..].iter().all(|body| share(&bodies[0], body, 1)));
}

#[tokio::test]
async fn the_log_is_read_once_for_all_who_come_back() {
    let (app, session, _folder) = session_that_says(&"Some words. ".repeat(2_000)).await;
    for _ in 0..12 {
        session.ask("go").await.unwrap();
    }
    let mut bodies: Vec<Body> = (0..50).map(|_| Body::new(&app, &session, Some(0))).collect();
    for body in &mut bodies {
        body.take().await;
    }
    assert!(bodies[1..].iter().all(|body| share(&bodies[0], body, 0)));
    // They go on, each a little further than the one before, and stop.
    for (at, body) in bodies.iter_mut().enumerate() {
        for _ in 0..at % 8 {
            body.unsent.clear();
            body.take().await;
        }
    }
    let kept = app.readings().of(session.id()).replays().await;
    assert!((1..=REPLAYS).contains(&kept), "{kept} replays for {} who stopped", bodies.len());
}

#[tokio::test]
async fn who_does_not_send_holds_little_sleeps_and_finds_the_rest_later() {
    let (app, session, _folder) = session_that_says(&"many words ".repeat(4_000)).await;
    let mut body = Body::new(&app, &session, Some(0));
    let (mut told, mut most) = (Vec::new(), 0);
    for _ in 0..6 {
        body.take().await;
        let largest = body.unsent.iter().map(Bytes::len).max().unwrap_or_default();
        assert!(body.unsent_bytes() < MOST_HELD_BYTES + largest);
        most = most.max(body.unsent_bytes());
        let before = body.wakes();
        session.ask("go").await.unwrap();
        if body.unsent_bytes() >= MOST_HELD_BYTES {
            assert_eq!(body.wakes(), before, "what happens wakes one that could not be given it");
            told.append(&mut positions(&body.unsent));
            body.unsent.clear();
            assert!(body.wakes() > before, "there is room again");
        }
    }
    assert!(most >= MOST_HELD_BYTES, "it was never full");
    let last = session.subscribe().told;
    while told.last() != Some(&last) {
        body.take().await;
        assert!(!body.unsent.is_empty(), "nothing comes after {:?} of {last}", told.last());
        told.append(&mut positions(&body.unsent));
        body.unsent.clear();
    }
    let mut expected = Vec::new();
    let mut replay = app.runtime().replay(session.id());
    for event in app.runtime().log(session.id()).await.unwrap() {
        expected.extend(replay.take(&event).unwrap().iter().map(|_| event.seq));
    }
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_process_that_is_behind_the_log_sends_its_watchers_away() {
    let (app, session, _folder) = session_that_says("Some words.").await;
    session.ask("go").await.unwrap();
    let told = session.subscribe().told;
    // Somebody else has gone on with it.
    let store = app.runtime().store();
    let lease = store.claim(session.id(), "somebody else").await.unwrap();
    let events = vec![EventBody::RunStarted { run_id: "theirs".into() }];
    store.append(&lease, LogAppend { at: 1, events, ..LogAppend::default() }).await.unwrap();
    let part = format!("{}.1", told + 1).parse().unwrap();
    for position in [SsePosition::from(told + 1), part] {
        let watcher = SseWatcher::behind(app.clone(), session.clone(), Some(position));
        let events: Vec<Arc<SharedEvent>> = watcher.events().collect().await;
        assert!(events.is_empty(), "{position:?}: {events:?}");
    }
}
