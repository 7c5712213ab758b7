//! Callers that stop waiting in the middle of a call, as a client's request does that hangs up.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use longhaul_store_postgres::PostgresOptions;
use sqlx::PgConnection;

use crate::place::Place;
use crate::{append, begin, enqueue};

/// Polls so often at most, and stops waiting then.
async fn given_up<F: Future>(future: F, polls: usize) {
    let mut future = pin!(future);
    for _ in 0..polls {
        let is_done = poll_fn(|task| Poll::Ready(future.as_mut().poll(task).is_ready())).await;
        if is_done {
            return;
        }
        // Not long enough that all of it comes at once.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn rows(db: &mut PgConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(db).await.unwrap()
}

#[tokio::test]
async fn what_is_written_after_a_call_that_was_given_up_is_kept() {
    let Some(place) = Place::new().await else { return };
    // All use the same connection.
    let store = place.open_with(PostgresOptions { connections: 1, ..PostgresOptions::default() }).await;
    let lease = begin(&store, "s").await;
    let mut other = place.connect().await;
    for round in 0..60 {
        let (asked, text) = (format!("q{round}"), round.to_string());
        given_up(enqueue(&store, "s", &asked), round % 12).await;
        append(&store, &lease, &text).await.unwrap();
        let kept = rows(&mut other, "SELECT count(*) FROM event").await;
        assert_eq!(kept, 2 + i64::try_from(round).unwrap(), "it was acknowledged, and others do not see it");
    }
}
