//! Images and long outputs in a bucket of a real S3 server: moto, started with Python. Where it is not installed
//! (`pip install 'moto[s3]' flask flask-cors`) the tests say so and pass, unless `LONGHAUL_REQUIRE_S3` is set.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use futures_util::TryStreamExt;
use longhaul_store::blobs::conformance;
use longhaul_store::{BlobError, BlobStore};
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::prefix::PrefixStore;
use reqwest::Method;
use serde_json::json;

use crate::bench::Bench;
use crate::carry::{exported, with_sessions};
use crate::postgres::Schema;
use crate::shared::Node;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/bucket/server.py");

/// A picture of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// An S3 server of the test's own, which ends with it.
struct MotoServer {
    child: Child,
    endpoint: String,
    key: String,
    secret: String,
}

impl MotoServer {
    /// `None`, and a word about it, where it is not installed.
    fn start(test: &str) -> Option<Self> {
        Self::start_with(test, &[], None)
    }

    /// With a key that is known and may nothing, or `free` requests after which only keys that are known are let in.
    fn start_with(test: &str, args: &[&str], free: Option<&str>) -> Option<Self> {
        let python = python();
        let installed = Command::new(&python).args(["-c", "import boto3, moto.server"]).output();
        if !installed.is_ok_and(|tried| tried.status.success()) {
            let why = format!("{} has no moto", python.display());
            assert!(std::env::var_os("LONGHAUL_REQUIRE_S3").is_none(), "{test} needs an S3 server: {why}");
            eprintln!("SKIPPED {test}: {why}");
            return None;
        }
        let mut command = Command::new(python);
        command.arg(SERVER).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.envs(free.map(|count| ("INITIAL_NO_AUTH_ACTION_COUNT", count)));
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let [port, key, secret] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let endpoint = format!("http://127.0.0.1:{port}");
        Some(Self { child, endpoint, key: key.to_owned(), secret: secret.to_owned() })
    }

    /// What a command must know of it.
    fn tell(&self, command: &mut Command) {
        tell(command, &self.endpoint, &self.key, &self.secret);
    }

    fn objects(&self) -> impl ObjectStore {
        let builder = AmazonS3Builder::new().with_bucket_name("box").with_region("us-east-1");
        let builder = builder.with_endpoint(&self.endpoint).with_allow_http(true);
        builder.with_access_key_id(&self.key).with_secret_access_key(&self.secret).build().unwrap()
    }

    async fn names(&self) -> Vec<String> {
        let listed: Vec<_> = self.objects().list(None).try_collect().await.unwrap();
        listed.into_iter().map(|object| object.location.to_string()).collect()
    }

    fn run(&self, bench: &Bench, args: &[&str]) -> crate::bench::Given {
        let mut command = bench.command(args);
        self.tell(&mut command);
        crate::bench::given(command.output().unwrap())
    }
}

impl Drop for MotoServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tell(command: &mut Command, endpoint: &str, key: &str, secret: &str) {
    command.env("AWS_ENDPOINT", endpoint).env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", key).env("AWS_SECRET_ACCESS_KEY", secret);
}

/// The Python that `.ci/run` prepares, or the machine's.
fn python() -> PathBuf {
    let prepared = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/python"));
    match std::env::var_os("LONGHAUL_PYTHON") {
        Some(named) => named.into(),
        None if prepared.exists() => prepared,
        None => "python3".into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_keeps_blobs_as_a_folder_does() {
    let Some(server) = MotoServer::start("a_bucket_keeps_blobs_as_a_folder_does") else { return };
    for prefix in ["", "some/prefix"] {
        let objects = PrefixStore::new(server.objects(), prefix);
        conformance::all(&BlobStore::new(Arc::new(objects), conformance::LIMIT)).await;
    }
    let names = server.names().await;
    assert!(names.iter().any(|name| name.starts_with("some/prefix/blob/")), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_node_puts_into_a_bucket_the_others_read_and_without_it_nothing_is_accepted() {
    let Some(server) = MotoServer::start("what_one_node_puts_into_a_bucket") else { return };
    let Some(schema) = Schema::new("bucket").await else { return };
    let start = || {
        Node::start(&schema, |command| {
            server.tell(command.args(["--blobs", "s3://box/nodes"]));
        })
    };
    let (one, other) = (start(), start());
    let image = json!({ "type": "image", "mediaType": "image/png", "data": PIXEL });
    let seen = one.say(json!([{ "type": "text", "text": "look" }, image])).await;
    let long = one.say(json!("!seq 1 20000")).await;
    let names = server.names().await;
    assert_eq!(names.iter().filter(|name| name.starts_with("nodes/blob/")).count(), 2, "{names:?}");
    let hashes: Vec<&str> = names.iter().filter_map(|name| name.rsplit('/').next()).collect();
    // Once through the node that has the sessions, once by the other itself.
    let mut read = 0;
    for by_itself in [false, true] {
        for session in [&seen, &long] {
            for hash in &hashes {
                let path = format!("/api/sessions/{session}/blobs/{hash}");
                let got = other.request(Method::GET, &path).send().await.unwrap();
                if got.status() == 200 {
                    let bytes = got.bytes().await.unwrap();
                    assert_eq!(blake3::hash(&bytes).to_hex().as_str(), *hash);
                    read += 1;
                }
            }
        }
        if !by_itself {
            assert_eq!(read, 2, "each session reads its own");
        }
    }
    assert_eq!(read, 4);
    one.end();
    let (status, page) = other.get(&format!("/api/sessions/{long}/messages")).await;
    assert!(status == 200 && page.to_string().contains(hashes[0]) || page.to_string().contains(hashes[1]));
    for hash in &hashes {
        let of_either = [&seen, &long].map(|session| format!("/api/sessions/{session}/blobs/{hash}"));
        let mut found = Vec::new();
        for path in of_either {
            found.push(other.request(Method::GET, &path).send().await.unwrap().status().as_u16());
        }
        found.sort_unstable();
        assert_eq!(found, [200, 404], "{hash}");
    }
    without_its_bucket(&other, server, &seen).await;
    other.end();
}

/// The bucket goes away: what would need it is refused, everything else goes on.
async fn without_its_bucket(node: &Node, server: MotoServer, session: &str) {
    drop(server);
    let before = node.get(&format!("/api/sessions/{session}")).await.1["lastSeq"].clone();
    let other_pixel = format!("{}A{}", &PIXEL[..60], &PIXEL[61..]);
    let image = json!({ "type": "image", "mediaType": "image/png", "data": other_pixel });
    let (status, refused) =
        node.post("/api/message", &json!({ "sessionId": session, "content": [image] })).await;
    assert_eq!((status, &refused["code"]), (503, &json!("storage")), "{refused}");
    let (_, shown) = node.get(&format!("/api/sessions/{session}")).await;
    assert_eq!((&shown["lastSeq"], &shown["queued"]), (&before, &json!(0)), "nothing of it is there");
    node.say(json!("words need no bucket")).await;
}

#[tokio::test]
async fn sessions_move_into_a_database_with_a_bucket_and_back() {
    let Some(server) = MotoServer::start("sessions_move_into_a_database_with_a_bucket_and_back") else {
        return;
    };
    let Some(schema) = Schema::new("bucket_migrate").await else { return };
    let bench = with_sessions();
    let before = exported(&bench);
    let url = schema.url();
    let there = ["migrate", "--to", &url, "--blobs", "s3://box/moved"];
    let said = server.run(&bench, &there).exits(0).out;
    assert!(said.starts_with("2 sessions with ") && said.contains(" 1 blob "), "{said}");
    let names = server.names().await;
    assert!(names.len() == 1 && names[0].starts_with("moved/blob/"), "{names:?}");
    let back = Bench::new();
    server.run(&back, &["migrate", "--from", &url, "--blobs", "s3://box/moved"]).exits(0);
    assert_eq!(exported(&back), before);
    let folder = bench.work().join("backup");
    let folder = folder.to_str().unwrap();
    server.run(&bench, &["backup", folder, "--db", &url, "--blobs", "s3://box/moved"]).exits(0);
    drop(server);
    // A backup has everything: the bucket is gone.
    let restored = Bench::new();
    restored.run(&["restore", folder]).exits(0);
    assert_eq!(exported(&restored), before);
    let again = Bench::new();
    let lost = again.run(&["migrate", "--from", &url, "--blobs", "s3://box/moved"]);
    assert!(lost.code != Some(0) && !lost.err.is_empty(), "{lost:?}");
}

/// What `migrate` says of a bucket that cannot be used; nothing is carried.
async fn refused(schema: &Schema, tell: impl FnOnce(&mut Command), bucket: &str) -> String {
    let bench = Bench::new();
    let url = schema.url();
    let mut command = bench.command(["migrate", "--from", &url, "--blobs", bucket]);
    tell(&mut command);
    let given = crate::bench::given(command.output().unwrap()).exits(1);
    assert!(given.err.contains(&format!("--blobs {bucket} cannot be used")), "{given:?}");
    given.err
}

/// Answers every request like that.
fn always(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn a_bucket_that_cannot_be_used_is_said_to_be_so_at_the_start() {
    let Some(schema) = Schema::new("bucket_refused").await else { return };
    let said = refused(&schema, |command| tell(command, "http://127.0.0.1:1", "k", "s"), "s3://box/x").await;
    assert!(said.contains("127.0.0.1:1"), "{said}");
    // As S3 itself answers for a bucket of another region; with bodies of their own length.
    for answer in [
        "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 57\r\n\r\n<Error><Code>AuthorizationHeaderMalformed</Code></Error> \n",
        "HTTP/1.1 301 Moved Permanently\r\nconnection: close\r\ncontent-length: 46\r\n\r\n<Error><Code>PermanentRedirect</Code></Error>\n",
    ] {
        let endpoint = always(answer);
        let said = refused(&schema, |command| tell(command, &endpoint, "k", "s"), "s3://box/x").await;
        assert!(said.contains("the bucket is in another region: name it with AWS_REGION"), "{said}");
    }
    let test = "a_bucket_that_cannot_be_used_is_said_to_be_so_at_the_start";
    let Some(open) = MotoServer::start(test) else { return };
    let said = refused(&schema, |command| open.tell(command), "s3://another/x").await;
    assert!(said.contains("there is no such bucket"), "{said}");
    let Some(closed) = MotoServer::start_with(test, &["closed"], Some("3")) else { return };
    let said = refused(&schema, |command| closed.tell(command), "s3://box/x").await;
    assert!(said.contains("the key may not list what is there"), "{said}");
    let said = refused(
        &schema,
        |command: &mut Command| tell(command, &closed.endpoint, "AKIAUNKNOWN", "s"),
        "s3://box/x",
    )
    .await;
    assert!(said.contains("the key is not accepted") && !said.contains("AKIAUNKNOWN"), "{said}");
}

#[tokio::test]
async fn a_blob_that_a_bucket_does_not_take_is_not_said_to_be_kept() {
    let test = "a_blob_that_a_bucket_does_not_take_is_not_said_to_be_kept";
    let Some(closed) = MotoServer::start_with(test, &["closed"], Some("3")) else { return };
    let blobs = BlobStore::new(Arc::new(closed.objects()), 1 << 20);
    for refused in [blobs.put("x").await.map(|_| ()), blobs.check().await] {
        assert!(matches!(refused, Err(BlobError::Storage(_))), "{refused:?}");
    }
}
