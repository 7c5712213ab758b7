//! Opening the store, or being told clearly why not.

use longhaul_store::{ClusterStore, Store, StoreError};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use tokio::task::JoinSet;

use crate::cluster::skip;
use crate::place::Place;
use crate::{append, begin, create, notes, quick};

async fn refused(url: &str) -> String {
    match PostgresStore::open(url, quick()).await {
        Err(StoreError::Storage(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let Some(place) = Place::new().await else { return };
    place.open().await.close().await;
    let sql = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
               VALUES (9000, 'from the future', true, '\\x00', 0)";
    place.execute(sql).await;
    let why = refused(&place.url()).await;
    assert!(why.contains("newer version") && why.contains("9000"), "{why}");
}

#[tokio::test]
async fn a_database_that_may_lose_commits_is_refused() {
    let Some(place) = Place::new().await else { return };
    // Each of these acknowledges a commit before it is flushed everywhere that it has to be.
    for value in ["off", "local", "remote_write"] {
        let why = refused(&format!("{}&options[synchronous_commit]={value}", place.url())).await;
        assert!(why.contains("synchronous_commit must be on") && why.contains(value), "{why}");
    }
    let url = format!("{}&options[synchronous_commit]=remote_apply", place.url());
    PostgresStore::open(&url, quick()).await.unwrap().close().await;
}

#[tokio::test]
async fn a_database_that_is_not_there_is_said_to_be_away() {
    let why = refused("postgres://nobody@127.0.0.1:1/none").await;
    assert!(why.starts_with("the database is away"), "{why}");
    let Some(place) = Place::new().await else { return };
    let url = place.url();
    let (server, name) = url.split_once('?').unwrap().0.rsplit_once('/').unwrap();
    let why = refused(&format!("{server}/{name}_that_nobody_made")).await;
    let words =
        format!("PostgreSQL refuses the connection: database \"{name}_that_nobody_made\" does not exist");
    assert_eq!(why, words);
    let why = refused("not an address").await;
    assert!(why.starts_with("the address of the database cannot be read"), "{why}");
}

#[tokio::test]
async fn options_that_cannot_keep_a_lease_are_refused() {
    let options = PostgresOptions { fence_after: quick().ttl, ..quick() };
    let refused = PostgresStore::open("postgres://nobody@127.0.0.1:1/none", options).await.unwrap_err();
    assert!(refused.to_string().contains("a lease must be renewed"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_together_migrate_once() {
    let Some(place) = Place::new().await else { return };
    let mut opening = JoinSet::new();
    for _ in 0..6 {
        let url = place.url();
        let options = PostgresOptions { connections: 1, ..PostgresOptions::default() };
        opening.spawn(async move { PostgresStore::open(&url, options).await.unwrap() });
    }
    let stores = opening.join_all().await;
    assert_eq!(stores[0].nodes().await.unwrap().len(), 6);
    for store in stores {
        store.close().await;
    }
}

#[tokio::test]
async fn what_was_kept_is_there_after_opening_again() {
    let Some(place) = Place::new().await else { return };
    let store = place.open().await;
    let lease = begin(&store, "s\0\u{1a}").await;
    append(&store, &lease, "kept").await.unwrap();
    store.close().await;
    let store = place.open().await;
    assert_eq!(notes(&store, "s\0\u{1a}").await, ["kept"]);
    let again = store.claim(&"s\0\u{1a}".into(), "test").await.unwrap();
    assert!(again.epoch > lease.epoch);
    store.close().await;
}

#[tokio::test]
async fn a_server_that_wants_tls_gets_it() {
    let Some(place) = Place::new().await else { return };
    let mut db = place.connect().await;
    let offered: String = sqlx::query_scalar("SHOW ssl").fetch_one(&mut db).await.unwrap();
    if offered != "on" {
        return skip("the server offers no TLS");
    }
    let url = format!("{}&sslmode=require", place.url());
    let store = PostgresStore::open(&url, quick()).await.unwrap();
    let encrypted: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_stat_ssl WHERE ssl").fetch_one(&mut db).await.unwrap();
    assert!(encrypted >= 1, "{encrypted} connections are encrypted");
    create(&store, "s").await;
    store.close().await;
}
