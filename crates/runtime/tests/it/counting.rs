//! Servers that offer to count, and do not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use longhaul::agent::Agent;
use longhaul_core::event::RunEnd;
use longhaul_core::message::{ModelAnswer, ModelOrigin, ModelStopReason, Part};
use longhaul_core::run::ServerCountPolicy;
use longhaul_providers::{Limits, ModelEvent, ModelRequest, ModelStream, Provider, ProviderError};
use longhaul_testkit::TestSession;

/// Answers at once, and counts never.
#[derive(Default)]
struct Silent {
    asked: AtomicUsize,
}

#[async_trait]
impl Provider for Silent {
    fn origin(&self) -> ModelOrigin {
        ModelOrigin { provider: "p".into(), api: "a".into(), model: "m".into() }
    }

    async fn limits(&self) -> Limits {
        Limits::default()
    }

    fn render(&self, _: &ModelRequest) -> Result<Bytes, ProviderError> {
        Ok(Bytes::new())
    }

    async fn call(&self, _: ModelRequest) -> Result<ModelStream, ProviderError> {
        let parts = vec![Part::text("yes")];
        let answer = ModelAnswer { parts, finish: ModelStopReason::Stop, usage: None, envelope: None };
        Ok(futures_util::stream::iter([Ok(ModelEvent::Finished(answer))]).boxed())
    }

    async fn count(&self, _: &ModelRequest) -> Result<Option<u64>, ProviderError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_when_it_should_count_is_left_alone_for_a_while() {
    let always = |agent: &mut Agent, _: &_| agent.counting = ServerCountPolicy::Always;
    let TestSession { runtime, session, model, .. } =
        &TestSession::with_provider(Silent::default(), always).await;
    for text in ["one", "two", "three"] {
        assert_eq!(session.ask(text).await.unwrap().end, Some(RunEnd::Stop));
    }
    assert_eq!(model.asked.load(Ordering::Relaxed), 1, "it was waited for once");
    tokio::time::advance(Duration::from_secs(120)).await;
    session.ask("four").await.unwrap();
    assert_eq!(model.asked.load(Ordering::Relaxed), 2, "then it is asked again");
    runtime.close().await;
}
