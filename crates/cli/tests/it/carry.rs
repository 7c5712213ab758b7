//! `backup`, `restore`, `migrate`: what is carried is what was there.

use crate::bench::{Bench, write_closed};

/// What every session says of itself, whole.
pub(crate) fn exported(bench: &Bench) -> Vec<String> {
    let listed = bench.run(&["sessions", "list", "--json"]).exits(0).out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let ids = listed.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap().to_owned());
    ids.map(|id| bench.run(&["sessions", "export", &id]).exits(0).out).collect()
}

/// Two sessions, one with an output so long that it is a blob.
pub(crate) fn with_sessions() -> Bench {
    let bench = Bench::new();
    for prompt in ["hello", "!seq 1 20000"] {
        bench.run(&["--provider", "scripted", "run", "--yes", prompt]).exits(0);
    }
    bench
}

#[test]
fn a_backup_is_restored_as_it_was_and_never_over_something() {
    let bench = with_sessions();
    let before = exported(&bench);
    assert_eq!(before.len(), 2);
    let folder = bench.work().join("backup");
    let folder = folder.to_str().unwrap();
    let said = bench.run(&["backup", folder]).exits(0).out;
    assert!(said.starts_with("2 sessions with ") && said.contains("1 blob "), "{said}");
    let again = bench.run(&["backup", folder]);
    assert!(again.code == Some(2) && again.err.contains("is not empty"), "{again:?}");
    let other = Bench::new();
    other.run(&["restore", folder]).exits(0);
    assert_eq!(exported(&other), before);
    let over = other.run(&["restore", folder]).exits(0).out;
    assert!(over.contains("; 2 were there already, and are the same"), "{over}");
    assert_eq!(exported(&other), before);
    other.run(&["--provider", "scripted", "run", "--yes", "--session", "last", "more"]).exits(0);
    let gone_on = exported(&other);
    let over = other.run(&["restore", folder]);
    assert!(over.code == Some(1) && over.err.contains("already and differs"), "{over:?}");
    other.run(&["--provider", "scripted", "run", "--yes", "another"]).exits(0);
    let over = other.run(&["restore", folder]);
    assert!(over.code == Some(1) && over.err.contains("there are other sessions in"), "{over:?}");
    assert!(gone_on.iter().all(|session| exported(&other).contains(session)));
    let none = other.run(&["restore", "nowhere"]);
    assert!(none.code == Some(2) && none.err.contains("holds no backup"), "{none:?}");
}

#[test]
fn a_backup_that_was_interrupted_is_none_and_is_begun_again() {
    let bench = with_sessions();
    let folder = bench.work().join("backup");
    let name = folder.to_str().unwrap();
    bench.run(&["backup", name]).exits(0);
    // As it is before its end; the source goes on.
    std::fs::rename(folder.join("backup-complete"), folder.join("backup-begun")).unwrap();
    bench.run(&["--provider", "scripted", "run", "--yes", "--session", "last", "more"]).exits(0);
    let other = Bench::new();
    let torn = other.run(&["restore", name]);
    assert!(torn.code == Some(2) && torn.err.contains("was interrupted"), "{torn:?}");
    let again = bench.run(&["backup", name]).exits(0).out;
    assert!(
        again.starts_with("1 session with ") && again.contains("; 1 was there already, and is the same"),
        "{again}"
    );
    other.run(&["restore", name]).exits(0);
    assert_eq!(exported(&other), exported(&bench));
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn sessions_move_into_a_database_and_back() {
    let Some(schema) = crate::postgres::Schema::new("migrate").await else { return };
    let bench = with_sessions();
    let before = exported(&bench);
    let (url, blobs) = (schema.url(), bench.work().with_file_name("common"));
    let blobs = blobs.to_str().unwrap().to_owned();
    let there = ["migrate", "--to", &url, "--blobs", &blobs];
    let said = bench.run(&there).exits(0).out;
    assert!(said.starts_with("2 sessions with "), "{said}");
    assert!(said.contains("1 blob "), "{said}");
    let again = bench.run(&there).exits(0).out;
    assert!(again.contains("; 2 were there already, and are the same"), "{again}");
    assert!(again.starts_with("0 sessions with 0 events and 0 blobs"), "{again}");
    let lost = Bench::new().run(&["migrate", "--from", &url]);
    assert!(lost.code == Some(2) && lost.err.contains("name the folder or bucket of the nodes"), "{lost:?}");
    let other = Bench::new();
    other.run(&["migrate", "--from", &url, "--blobs", &blobs]).exits(0);
    assert_eq!(exported(&other), before);
    // Who only looks at a session changes nothing in it.
    let (mut server, address, _said) =
        crate::serve::start(other.command(["--provider", "scripted", "serve", "--addr", "127.0.0.1:0"]));
    let token = crate::serve::token(&other);
    let listed: serde_json::Value = get(&address, &token, "/api/sessions").await;
    for session in listed["sessions"].as_array().unwrap() {
        get(&address, &token, &format!("/api/sessions/{}/messages", session["id"].as_str().unwrap())).await;
    }
    crate::serve::end(&mut server);
    let looked = other.run(&["migrate", "--from", &url, "--blobs", &blobs]).exits(0).out;
    assert!(looked.contains("; 2 were there already, and are the same"), "{looked}");
    // What went on since is not written over.
    other.run(&["--provider", "scripted", "run", "--yes", "--session", "last", "more"]).exits(0);
    let over = other.run(&["migrate", "--to", &url, "--blobs", &blobs]);
    assert!(over.code == Some(1) && over.err.contains("already and differs"), "{over:?}");
    let nothing = other.run(&["migrate"]);
    assert!(nothing.code == Some(2) && nothing.err.contains("name one database"), "{nothing:?}");
    let away = other.run(&["migrate", "--to", "postgres://nobody@127.0.0.1:1/none"]);
    assert!(away.code == Some(1) && !away.err.is_empty(), "{away:?}");
    let empty = Bench::new().run(&["migrate", "--to", &url]);
    assert!(empty.code == Some(2) && empty.err.contains("there is no database in"), "{empty:?}");
    let nowhere = Bench::new().run(&["migrate", "--from", &url, "--blobs", "/nowhere/at/all"]);
    assert!(nowhere.code == Some(2) && nowhere.err.contains("there is no such folder"), "{nowhere:?}");
}

#[cfg(feature = "postgres")]
async fn get(address: &str, token: &str, path: &str) -> serde_json::Value {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = http.get(format!("http://{address}{path}")).bearer_auth(token).send().await.unwrap();
    answer.error_for_status().unwrap().json().await.unwrap()
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn where_nodes_keep_things_is_looked_at_first() {
    let Some(schema) = crate::postgres::Schema::new("looked_at").await else { return };
    let bench = Bench::new();
    let url = schema.url();
    let token = bench.work().with_file_name("token");
    write_closed(&token, "a-token-that-all-nodes-have");
    let token = token.to_str().unwrap().to_owned();
    let serve = ["--provider", "scripted", "serve", "--addr", "127.0.0.1:0", "--token-file", &token];
    let with = |more: &[&'static str]| -> Vec<String> {
        serve.iter().chain(more).map(|word| (*word).to_owned()).collect()
    };
    for (more, said) in [
        (with(&["--db", "postgres://postgres@127.0.0.1:5432"]), "names none: postgres://USER@HOST/DATABASE"),
        (with(&["--db", "mysql://there"]), "is not the address of a PostgreSQL"),
        (
            [with(&["--db"]), vec![url.clone()], vec!["--blobs".into(), "gs://x/y".into()]].concat(),
            "in s3://BUCKET/PREFIX or in a folder",
        ),
        (
            [with(&["--db"]), vec![url.clone()], vec!["--blobs".into(), "s3://".into()]].concat(),
            "names no bucket",
        ),
        (
            [with(&["--db"]), vec![url.clone()], vec!["--advertise".into(), "foo".into()]].concat(),
            "and a port, for example",
        ),
        (
            [with(&["--db"]), vec![url.clone()], vec!["--advertise".into(), "http://127.0.0.1:4599".into()]]
                .concat(),
            "and a port, for example",
        ),
    ] {
        let words: Vec<&str> = more.iter().map(String::as_str).collect();
        let refused = bench.run(&words);
        assert!(refused.code != Some(0) && refused.err.contains(said), "{words:?}: {refused:?}");
    }
    // A data folder has one node, too.
    let mut command = bench.command(serve);
    command.args(["--db", &url]);
    let (mut server, ..) = crate::serve::start(command);
    for more in [with(&["--db"]).into_iter().chain([url.clone()]).collect(), with(&[])] {
        let words: Vec<&str> = more.iter().map(String::as_str).collect();
        let second = bench.run(&words);
        assert!(second.code == Some(1) && second.err.contains("is in use by another longhaul"), "{second:?}");
    }
    crate::serve::end(&mut server);
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_migration_that_failed_leaves_the_database_at_once() {
    let Some(schema) = crate::postgres::Schema::new("migrate_failed").await else { return };
    let bench = with_sessions();
    let (url, blobs) = (schema.url(), bench.work().with_file_name("common"));
    let blobs = blobs.to_str().unwrap().to_owned();
    bench.run(&["migrate", "--to", &url, "--blobs", &blobs]).exits(0);
    // A folder that a server has cannot be written.
    let busy = Bench::new();
    let serving = ["--provider", "scripted", "serve", "--addr", "127.0.0.1:0"];
    let (mut server, ..) = crate::serve::start(busy.command(serving));
    let refused = busy.run(&["migrate", "--from", &url, "--blobs", &blobs]);
    crate::serve::end(&mut server);
    assert!(!refused.exits(1).err.contains("nodes still serve"));
    // Nobody has to wait for a lease.
    let other = Bench::new();
    other.run(&["migrate", "--from", &url, "--blobs", &blobs]).exits(0);
    assert_eq!(exported(&other), exported(&bench));
}

/// Makes everything in the blob store two days old.
fn age(bench: &Bench) {
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 24 * 60 * 60);
    for file in blobs(bench) {
        std::fs::File::options().append(true).open(file).unwrap().set_modified(old).unwrap();
    }
}

fn blobs(bench: &Bench) -> Vec<std::path::PathBuf> {
    let folders = std::fs::read_dir(bench.data().join("blobs/blob")).unwrap().flatten();
    folders
        .flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten())
        .map(|file| file.path())
        .collect()
}

#[test]
fn deleting_a_session_removes_what_only_it_had_and_nothing_new() {
    let bench = Bench::new();
    let run = |prompt: &str| bench.run(&["--provider", "scripted", "run", "--yes", prompt]).exits(0);
    for prompt in ["!seq 1 20000", "!seq 1 20000", "!seq 1 30000"] {
        run(prompt);
    }
    assert_eq!(blobs(&bench).len(), 2, "the same content is stored once");
    age(&bench);
    let said = bench.run(&["sessions", "delete", "last", "--yes"]).exits(0);
    assert!(said.err.contains("1 file"), "{said:?}");
    assert_eq!(blobs(&bench).len(), 1);
    // Another session still has it.
    assert_eq!(bench.run(&["sessions", "delete", "last", "--yes"]).exits(0).err, "");
    assert_eq!(blobs(&bench).len(), 1);
    // What is younger than a day may belong to a message that is being written.
    run("!seq 1 40000");
    bench.run(&["sessions", "delete", "last", "--yes"]).exits(0);
    assert_eq!(blobs(&bench).len(), 2);
    exported(&bench);
}

#[test]
fn the_help_of_restore_says_where_the_sessions_go() {
    let help = Bench::new().run(&["restore", "--help"]).exits(0).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("into an empty data folder or database"), "{help}");
    assert!(help.contains("that receives the sessions") && !help.contains("with the sessions"), "{help}");
}
