//! A schema of its own for each test, in a server that is there.

use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use sqlx::{Connection, PgConnection};

use crate::cluster::skip;

const DEFAULT_URL: &str = "postgres://postgres@127.0.0.1:5432/test";

/// A new schema; dropped with its content when the test is over.
pub(crate) struct Place {
    server: String,
    schema: String,
}

impl Place {
    /// `None`, and a word about it, if there is no server.
    pub(crate) async fn new() -> Option<Self> {
        let server = std::env::var_os("LONGHAUL_TEST_POSTGRES");
        let server = server.map_or(DEFAULT_URL.to_owned(), |url| url.into_string().unwrap());
        match PgConnection::connect(&server).await {
            Ok(_) => Some(Self::in_server(server).await),
            Err(error) => {
                skip(&format!("no PostgreSQL at {server}: {error}"));
                None
            }
        }
    }

    pub(crate) async fn in_server(server: String) -> Self {
        let schema = format!("longhaul_test_{}", uuid::Uuid::now_v7().simple());
        let place = Self { server, schema };
        place.execute(&format!("CREATE SCHEMA {}", place.schema)).await;
        place
    }

    pub(crate) fn url(&self) -> String {
        self.url_at(&self.server)
    }

    /// The same place, reached another way.
    pub(crate) fn url_at(&self, server: &str) -> String {
        format!("{server}?options[search_path]={}", self.schema)
    }

    /// Where the server listens on this machine, if it does.
    pub(crate) fn port(&self) -> Option<u16> {
        self.server.split_once("@127.0.0.1:")?.1.split('/').next()?.parse().ok()
    }

    /// The server as it is reached through another port.
    pub(crate) fn server_at(&self, port: u16) -> String {
        self.server.replace(&format!(":{}/", self.port().unwrap()), &format!(":{port}/"))
    }

    pub(crate) async fn open(&self) -> PostgresStore {
        self.open_with(PostgresOptions { connections: 8, ..PostgresOptions::default() }).await
    }

    pub(crate) async fn open_with(&self, options: PostgresOptions) -> PostgresStore {
        PostgresStore::open(&self.url(), options).await.unwrap()
    }

    /// A connection of the test's own.
    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url()).await.unwrap()
    }

    /// Does something behind the store's back.
    pub(crate) async fn execute(&self, sql: &str) {
        let mut db = self.connect().await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut db).await.unwrap();
        db.close().await.unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (server, schema) = (self.server.clone(), self.schema.clone());
        // A runtime cannot be started within another one, and `drop` cannot wait for a future: hence a thread.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                // A server that a test has killed takes its schemas with it.
                let Ok(mut db) = PgConnection::connect(&server).await else { return };
                let sql =
                    format!("SET client_min_messages = warning; DROP SCHEMA IF EXISTS {schema} CASCADE");
                let _ = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut db).await;
            });
        });
        let _ = dropping.join();
    }
}
