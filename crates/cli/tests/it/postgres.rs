//! A schema of its own for each test, in a PostgreSQL that is there: the one that `LONGHAUL_TEST_POSTGRES` names, or
//! `postgres://postgres@127.0.0.1:5432/test`.

use sqlx::{Connection, PgConnection};
use uuid::Uuid;

const DEFAULT_URL: &str = "postgres://postgres@127.0.0.1:5432/test";

/// Dropped with its content when the test is over.
pub(crate) struct Schema {
    server: String,
    name: String,
}

impl Schema {
    /// `None`, and a word about it, where there is no PostgreSQL.
    pub(crate) async fn new(test: &str) -> Option<Self> {
        let server = std::env::var_os("LONGHAUL_TEST_POSTGRES");
        let server = server.map_or(DEFAULT_URL.to_owned(), |url| url.into_string().unwrap());
        if let Err(error) = PgConnection::connect(&server).await {
            let is_required = std::env::var_os("LONGHAUL_REQUIRE_POSTGRES").is_some();
            assert!(!is_required, "{test} needs PostgreSQL: {error}");
            eprintln!("SKIPPED {test}: no PostgreSQL at {server}: {error}");
            return None;
        }
        let schema = Self { server, name: format!("longhaul_{test}_{}", Uuid::now_v7().simple()) };
        execute(&schema.server, format!("CREATE SCHEMA {}", schema.name)).await;
        Some(schema)
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?options[search_path]={}", self.server, self.name)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let sql = format!("SET client_min_messages = warning; DROP SCHEMA {name} CASCADE");
            runtime.block_on(execute(&server, sql));
        });
        let _ = dropping.join();
    }
}

async fn execute(server: &str, sql: String) {
    let mut db = PgConnection::connect(server).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
}
