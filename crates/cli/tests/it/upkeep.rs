//! What a server deletes by itself: old sessions if it is told to, and blobs that nobody names.

use std::time::{Duration, SystemTime};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions};

use crate::bench::{Bench, names, until};
use crate::serve::{ask, end, start, token};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The blobs that are in their place, and those that are set aside.
fn kept(bench: &Bench) -> (usize, usize) {
    let count = |name: &str| {
        let top = bench.data().join("blobs").join(name);
        names(&top).iter().map(|folder| names(&top.join(folder)).len()).sum()
    };
    let aside = if bench.data().join("blobs/aside").exists() { count("aside") } else { 0 };
    (count("blob"), aside)
}

/// As if everything had been stored so many days ago.
fn age(bench: &Bench, days: u32) {
    for name in ["blob", "aside"] {
        let top = bench.data().join("blobs").join(name);
        if !top.exists() {
            continue;
        }
        for file in names(&top).iter().flat_map(|folder| {
            let folder = top.join(folder);
            names(&folder).into_iter().map(move |file| folder.join(file))
        }) {
            let old = SystemTime::now() - DAY * days;
            std::fs::File::options().append(true).open(file).unwrap().set_modified(old).unwrap();
        }
    }
}

fn serve(
    bench: &Bench,
    config: &str,
) -> (std::process::Child, String, std::io::BufReader<std::process::ChildStderr>) {
    let file = bench.write("agent.yml", config);
    let args = ["--config", file.to_str().unwrap(), "serve", "--addr", "127.0.0.1:0", "--yes"];
    let mut command = bench.command(args);
    command.env("LONGHAUL_LOG", "info");
    start(command)
}

const SCRIPTED: &str = "model: { provider: scripted }\n";

#[test]
fn a_session_deleted_through_the_api_takes_its_blobs_with_it() {
    let bench = Bench::new();
    for prompt in ["!seq 1 20000", "!seq 1 30000"] {
        bench.run(&["--provider", "scripted", "run", "--yes", prompt]).exits(0);
    }
    age(&bench, 2);
    let (mut server, address, _said) = serve(&bench, SCRIPTED);
    let token = token(&bench);
    assert_eq!(kept(&bench), (2, 0));
    let listed = ask(&address, "GET", "/api/sessions", &token, "").1;
    let id = listed["sessions"][0]["id"].as_str().unwrap();
    assert_eq!(ask(&address, "DELETE", &format!("/api/sessions/{id}"), &token, "").0, 200);
    until("what only it had is set aside", || kept(&bench) == (1, 1));
    end(&mut server);
    // A day later it goes.
    age(&bench, 2);
    let (mut server, ..) = serve(&bench, SCRIPTED);
    until("it is gone", || kept(&bench) == (1, 0));
    end(&mut server);
    bench.run(&["sessions", "export", "last"]).exits(0);
}

#[tokio::test]
async fn old_sessions_go_where_the_agent_file_says_so() {
    let bench = Bench::new();
    for prompt in ["the old one", "the new one"] {
        bench.run(&["--provider", "scripted", "run", "--yes", prompt]).exits(0);
    }
    let hundred_days = DAY.as_millis() as i64 * 100;
    let mut db =
        SqliteConnectOptions::new().filename(bench.data().join("longhaul.db")).connect().await.unwrap();
    let sql = format!(
        "UPDATE session SET updated_ms = updated_ms - {hundred_days}, changed_hour = changed_hour - 2400 WHERE no = 1"
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
    sqlx::Connection::close(db).await.unwrap();
    let titles = |address: &str| {
        let listed = ask(address, "GET", "/api/sessions", &token(&bench), "").1;
        listed["sessions"].as_array().unwrap().iter().map(|one| one["title"].to_string()).collect::<String>()
    };
    let removed = |address: &str| {
        let metrics = crate::serve::ask_text(address, "/metrics", &token(&bench));
        metrics
            .lines()
            .find_map(|line| line.strip_prefix("longhaul_sessions_expired_total ")?.parse::<u64>().ok())
    };
    // Unless it says so, everything is kept.
    let (mut server, address, _said) = serve(&bench, SCRIPTED);
    until("the upkeep was done", || removed(&address) == Some(0));
    assert!(titles(&address).contains("the old one"));
    end(&mut server);
    let (mut server, address, _said) = serve(&bench, &format!("{SCRIPTED}server: {{ keepSessions: 90d }}\n"));
    until("it is deleted", || removed(&address) == Some(1));
    let left = titles(&address);
    assert!(left.contains("the new one") && !left.contains("the old one"), "{left}");
    end(&mut server);
}
