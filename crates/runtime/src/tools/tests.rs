use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::sandbox::SandboxPolicy;

mod process;
mod walk;

struct Bench {
    _dir: tempfile::TempDir,
    base: PathBuf,
    context: ToolContext,
    progress: mpsc::Receiver<ToolProgress>,
}

/// `base/ws` is the workspace, `base/data/secret` out of it.
fn bench() -> Bench {
    bench_with(ToolLimits::default())
}

fn bench_with(limits: ToolLimits) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    for folder in ["ws", "data", "scratch"] {
        fs::create_dir(base.join(folder)).unwrap();
    }
    fs::write(base.join("data/secret"), "hidden-content\n").unwrap();
    let closed = vec![base.join("data"), base.join("ws/.longhaul")];
    let mut policy = SandboxPolicy::new(base.join("ws"), base.join("scratch"));
    policy.protected = vec![base.join("data")];
    let (sender, progress) = mpsc::channel(1000);
    let context = ToolContext {
        workspace: Arc::new(Workspace::new(&base.join("ws"), &closed).unwrap()),
        sandbox: Arc::new(Sandbox::new(policy).unwrap()),
        cancel: CancellationToken::new(),
        progress: sender,
        limits,
    };
    Bench { _dir: dir, base, context, progress }
}

impl Bench {
    async fn run(&self, tool: &str, arguments: Value) -> ToolOutput {
        ToolSet::builtin().run(tool, ToolInput::new(arguments, self.context.clone())).await
    }

    async fn ok(&self, tool: &str, arguments: Value) -> String {
        let output = self.run(tool, arguments.clone()).await;
        assert!(!output.is_error, "{tool} {arguments}: {}", output.as_text());
        output.as_text()
    }

    async fn fails(&self, tool: &str, arguments: Value) -> String {
        let output = self.run(tool, arguments.clone()).await;
        assert!(output.is_error, "{tool} {arguments}: {}", output.as_text());
        output.as_text()
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.base.join("ws").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.base.join("ws").join(path)).unwrap()
    }
}

#[test]
fn the_set_is_ordered_and_its_schemas_are_json() {
    let set = ToolSet::builtin();
    let specs = set.specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["read", "bash", "edit", "write", "grep", "glob", "ls"]);
    assert_eq!(names, BUILTIN[..7]);
    let read_only: Vec<&str> =
        specs.iter().filter(|spec| spec.read_only).map(|spec| spec.name.as_str()).collect();
    assert_eq!(read_only, ["read", "grep", "glob", "ls"]);
    for spec in &specs {
        let schema: Value = serde_json::from_str(spec.parameters.as_str()).unwrap();
        assert_eq!(schema["type"], "object", "{}", spec.name);
        assert_eq!(schema["additionalProperties"], false, "{}", spec.name);
        for required in schema["required"].as_array().unwrap_or(&Vec::new()) {
            assert!(
                schema["properties"].get(required.as_str().unwrap()).is_some(),
                "{}: {required}",
                spec.name
            );
        }
    }
    assert_eq!(specs, ToolSet::builtin().specs());
}

/// Descriptions for small windows take at most 500 tokens, `recall` included.
#[test]
fn brief_specs_are_brief() {
    let set = ToolSet::builtin();
    let specs = set.brief_specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["read", "bash", "edit", "write", "grep"]);
    let tokens = |specs: &[ToolSpec]| specs.iter().map(longhaul_core::estimate::tool_tokens).sum::<u64>();
    let recall = longhaul_core::estimate::tool_tokens(&crate::recall::spec());
    assert!(tokens(&specs) + recall <= 500, "{} + {recall}", tokens(&specs));
    assert!(tokens(&set.specs()) > 2 * tokens(&specs), "{}", tokens(&set.specs()));
    for (brief, whole) in specs.iter().zip(set.specs()) {
        let properties = |spec: &ToolSpec| {
            let schema: Value = serde_json::from_str(spec.parameters.as_str()).unwrap();
            assert_eq!(schema["additionalProperties"], false, "{}", spec.name);
            let names: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
            (names, schema["required"].clone())
        };
        let (known, needed) = properties(&whole);
        let (told, asked) = properties(brief);
        assert!(told.iter().all(|name| known.contains(name)), "{}", brief.name);
        assert_eq!(needed, asked, "{}", brief.name);
    }
}

#[test]
fn builtin_tools_are_chosen_by_name() {
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let names = |specs: Vec<ToolSpec>| specs.into_iter().map(|spec| spec.name).collect::<Vec<String>>();
    let chosen = |enabled: Option<&[&str]>, disabled: &[&str]| {
        ToolSet::builtin().choose_builtin(enabled.map(named).as_deref(), &named(disabled))
    };
    let set = chosen(Some(&["ls", "read", "recall"]), &["read"]);
    assert_eq!(names(set.specs()), ["ls"]);
    assert_eq!(names(set.brief_specs()), ["ls"], "it was asked for");
    assert!(set.has_recall());
    let set = chosen(None, &["bash", "recall"]);
    assert_eq!(names(set.specs()), ["read", "edit", "write", "grep", "glob", "ls"]);
    assert!(!set.has_recall());
    assert_eq!(names(chosen(Some(&[]), &[]).specs()), named(&[]));
}

#[test]
fn a_name_is_taken_once() {
    let mut set = ToolSet::builtin();
    assert_eq!(set.add(Arc::new(ls::LsTool)), Err(DuplicateTool("ls".to_owned())));
    assert_eq!(set.specs().len(), 7);
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_known_ones() {
    let text = bench().fails("raed", json!({})).await;
    assert_eq!(
        text,
        "Error: there is no tool named `raed`. The tools are: read, bash, edit, write, grep, glob, ls."
    );
}

#[tokio::test]
async fn wrong_arguments_name_the_field_and_what_it_should_be() {
    let bench = bench();
    let cases = [
        ("read", json!({}), "`read` needs the argument `path`, a string"),
        ("read", json!({"file": "x"}), "`read` needs the argument `path`, a string (given: `file`)"),
        ("read", json!({"path": 7}), "`path` must be a string, but is 7"),
        ("read", json!({"path": "x", "limit": 0}), "`limit` must be a whole number, at least 1, but is 0"),
        ("read", json!({"path": "x", "offset": "many"}), "`offset` must be a whole number"),
        (
            "read",
            json!({"path": "x", "lines": 3}),
            "`read` has no argument `lines`; it takes `path`, `offset`, `limit`",
        ),
        ("read", json!("x"), "`read` takes one JSON object as arguments, but got the string \"x\""),
        ("write", json!({"path": "x"}), "needs the argument `content`"),
        (
            "edit",
            json!({"path": "x", "old": "a", "new": "b", "replaceAll": "maybe"}),
            "`replaceAll` must be true or false",
        ),
        ("grep", json!({"pattern": "("}), "`pattern` is not a regular expression"),
        (
            "grep",
            json!({"pattern": "x", "context": 99}),
            "`context` must be a whole number from 0 to 20, but is 99",
        ),
        ("glob", json!({"pattern": "[z-a]"}), "`pattern` is not a file pattern"),
        ("ls", json!({"path": ["a"]}), "`path` must be a string, but is an array"),
        ("bash", json!({"command": " "}), "`command` is empty"),
        ("bash", json!({"command": "a\0b"}), "NUL"),
        (
            "bash",
            json!({"command": "true", "timeoutMs": -1}),
            "`timeoutMs` must be a whole number from 1 to 3600000",
        ),
    ];
    for (tool, arguments, words) in cases {
        let text = bench.fails(tool, arguments.clone()).await;
        assert!(text.contains(words), "{tool} {arguments}: {text}");
    }
}

#[tokio::test]
async fn arguments_of_clear_meaning_are_taken() {
    let bench = bench();
    bench.file("x", "a a\n");
    bench.ok("read", json!({"path": "x", "offset": "1", "limit": 1.0})).await;
    bench.ok("edit", json!({"path": "x", "old": "a", "new": "b", "replace_all": "true"})).await;
    assert_eq!(bench.content("x"), "b b\n");
    bench.ok("ls", Value::Null).await;
    bench.ok("ls", json!({"path": null})).await;
    let whole = bench.ok("read", json!({"path": "x", "offset": 0})).await;
    assert_eq!(whole, bench.ok("read", json!({"path": "x"})).await);
    let found = bench.ok("grep", json!({"pattern": "b b", "path": "*x"})).await;
    assert!(found.contains("x:1:b b"), "{found}");
}

#[tokio::test]
async fn no_tool_reads_or_writes_outside() {
    let bench = bench();
    let root = bench.base.join("ws");
    bench.file(".longhaul/db", "hidden-content");
    bench.file("sub/x", "x");
    symlink(bench.base.join("data"), root.join("folder")).unwrap();
    symlink(bench.base.join("data/secret"), root.join("link")).unwrap();
    let data = bench.base.join("data/secret").display().to_string();
    let paths = [
        "../data/secret",
        "sub/../../data/secret",
        "folder/secret",
        "link",
        &data,
        "/proc/self/environ",
        "/etc/passwd",
        ".longhaul/db",
    ];
    for path in paths {
        let calls = [
            ("read", json!({"path": path})),
            ("write", json!({"path": path, "content": "x"})),
            ("edit", json!({"path": path, "old": "hidden", "new": "x"})),
            ("grep", json!({"pattern": ".", "path": path})),
            ("ls", json!({"path": path})),
            ("glob", json!({"pattern": "*", "path": path})),
        ];
        for (tool, arguments) in calls {
            let text = bench.fails(tool, arguments).await;
            assert!(!text.contains("hidden-content"), "{tool} {path}: {text}");
            assert!(text.contains("outside the workspace") || text.contains("closed to tools"), "{text}");
        }
    }
    let found = bench.ok("grep", json!({"pattern": "hidden"})).await;
    assert_eq!(found, "No matches.");
    let found = bench.ok("glob", json!({"pattern": "**"})).await;
    assert_eq!(found, "sub/x\n[1 files.]");
    assert!(!bench.ok("ls", json!({})).await.contains(".longhaul"));
    assert_eq!(fs::read_to_string(bench.base.join("data/secret")).unwrap(), "hidden-content\n");
}

#[tokio::test]
async fn read_numbers_lines_and_says_how_to_go_on() {
    let bench = bench();
    bench.file("f", (1..=5).map(|n| format!("line {n}\n")).collect::<String>());
    let all = bench.ok("read", json!({"path": "f"})).await;
    assert_eq!(
        all,
        "     1\tline 1\n     2\tline 2\n     3\tline 3\n     4\tline 4\n     5\tline 5\n[All 5 lines.]"
    );
    let part = bench.ok("read", json!({"path": "f", "offset": 2, "limit": 2})).await;
    assert_eq!(part, "     2\tline 2\n     3\tline 3\n[Lines 2 to 3 of 5. For more, read with offset 4.]");
    let end = bench.ok("read", json!({"path": "f", "offset": 4})).await;
    assert!(end.ends_with("[Lines 4 to 5, the last of 5.]"), "{end}");
    let beyond = bench.fails("read", json!({"path": "f", "offset": 6})).await;
    assert!(beyond.contains("the file has 5 lines"), "{beyond}");
}

#[tokio::test]
async fn read_keeps_to_its_limits() {
    let bench = bench();
    bench.file("long", "x\n".repeat(2_500));
    let text = bench.ok("read", json!({"path": "long", "limit": 9_999})).await;
    assert_eq!(text.lines().count(), 2_001);
    assert!(text.ends_with("[Lines 1 to 2000 of 2500. For more, read with offset 2001.]"), "{text}");
    bench.file("wide", format!("{}\n{}", "ä".repeat(2_000), "ä".repeat(3_000)));
    let text = bench.ok("read", json!({"path": "wide"})).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0].chars().filter(|c| *c == 'ä').count(), 2_000);
    assert!(!lines[0].contains("cut"));
    assert_eq!(lines[1].chars().filter(|c| *c == 'ä').count(), 2_000);
    assert!(lines[1].ends_with("[line cut: 6000 bytes in all]"), "{}", &lines[1][lines[1].len() - 60..]);
    assert_eq!(lines[2], "[All 2 lines.]");
}

#[tokio::test]
async fn read_tells_pictures_binaries_and_odd_texts_apart() {
    let bench = bench();
    let gif = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;";
    bench.file("p.gif", gif);
    let output = bench.run("read", json!({"path": "p.gif"})).await;
    let ToolOutputPart::Media { bytes, media_type, name } = &output.content[1] else { panic!("{output:?}") };
    assert_eq!((&bytes[..], media_type.as_str(), name.as_deref()), (&gif[..], "image/gif", Some("p.gif")));

    bench.file("b", b"\x7fELF\0\0\0");
    assert!(bench.fails("read", json!({"path": "b"})).await.contains("binary"));
    bench.file("empty", "");
    assert_eq!(bench.ok("read", json!({"path": "empty"})).await, "[The file is empty.]");
    bench.file("latin", b"caf\xe9\nplain\n");
    let text = bench.ok("read", json!({"path": "latin"})).await;
    assert!(text.contains("caf\u{fffd}\n") && text.contains("not UTF-8") && text.contains("plain"), "{text}");
    bench.file("crlf", "a\r\nb\r\n");
    assert_eq!(bench.ok("read", json!({"path": "crlf"})).await, "     1\ta\n     2\tb\n[All 2 lines.]");
}

#[tokio::test]
async fn write_makes_and_replaces_files() {
    let bench = bench();
    let text = bench.ok("write", json!({"path": "a/b.txt", "content": "one\ntwö\n"})).await;
    assert_eq!(text, "Wrote a/b.txt (9 bytes, 2 lines).");
    bench.ok("write", json!({"path": "a/b.txt", "content": ""})).await;
    assert_eq!(bench.content("a/b.txt"), "");
    let text = bench.fails("write", json!({"path": "a", "content": "x"})).await;
    assert!(text.contains("`a` is a folder, not a file"), "{text}");
}

#[tokio::test]
async fn edit_replaces_exactly_one_place_unless_told_otherwise() {
    let bench = bench();
    bench.file("f", "fn a() {\n    one();\n}\nfn b() {\n    one();\n}\n");
    let text = bench.fails("edit", json!({"path": "f", "old": "one();", "new": "two();"})).await;
    assert!(text.contains("is in f 2 times, at lines 2, 5"), "{text}");
    let text = bench
        .ok("edit", json!({"path": "f", "old": "fn b() {\n    one();", "new": "fn b() {\n    $1two();"}))
        .await;
    assert_eq!(text, "Replaced once in f (line 4).");
    assert_eq!(bench.content("f"), "fn a() {\n    one();\n}\nfn b() {\n    $1two();\n}\n");
    let text = bench.ok("edit", json!({"path": "f", "old": "n", "new": "N", "replaceAll": true})).await;
    assert_eq!(text, "Replaced 3 times in f (line 1, 2, 4).");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_of_one_file_at_the_same_time_are_all_done() {
    let bench = bench();
    let lines: String = (0..12).map(|n| format!("line {n}: before\n")).collect();
    // A long file makes each edit slow enough to overlap with the others.
    bench.file("f", format!("{lines}{}", "filling\n".repeat(50_000)));
    let edits = (0..12).map(|n| {
        // Two spellings of one path must share a lock.
        json!({ "path": if n % 2 == 0 { "f" } else { "./f" }, "old": format!("line {n}: before"), "new": format!("line {n}: after") })
    });
    futures_util::future::join_all(edits.map(|edit| bench.ok("edit", edit))).await;
    assert_eq!(bench.content("f").matches(": after\n").count(), 12);
    assert_eq!(fs::read_dir(bench.base.join("ws")).unwrap().count(), 1, "nothing is left beside it");
}

#[tokio::test]
async fn edit_makes_no_file_that_it_could_not_edit() {
    let bench = bench();
    let most = 64 * 1024 * 1024;
    bench.file("f", "a".repeat(most / 64));
    let replace = |characters: usize| json!({"path": "f", "old": "a", "new": "b".repeat(characters), "replaceAll": true});
    let text = bench.fails("edit", replace(65)).await;
    assert!(text.contains("`f` would be too large with `new` in 1048576 places (over 64 MiB)"), "{text}");
    assert_eq!(bench.content("f").len(), most / 64);
    assert_eq!(
        bench.ok("edit", replace(64)).await,
        "Replaced 1048576 times in f (line 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, …)."
    );
    assert_eq!(bench.content("f").len(), most);
}

#[tokio::test]
async fn edit_explains_what_it_does_not_find() {
    let bench = bench();
    bench.file("f", "start\n\tif x {\n\t\ty();\n");
    let text = bench.fails("edit", json!({"path": "f", "old": "    if x {", "new": "z"})).await;
    assert!(text.contains("`old` is not in f. Its first line is at line 2, but spaces"), "{text}");
    let text = bench.fails("edit", json!({"path": "f", "old": "nothing", "new": "z"})).await;
    assert!(text.contains("Read the file again"), "{text}");
    assert!(
        bench.fails("edit", json!({"path": "f", "old": "", "new": "z"})).await.contains("`old` is empty")
    );
    assert!(bench.fails("edit", json!({"path": "f", "old": "x", "new": "x"})).await.contains("the same"));
    assert!(
        bench.fails("edit", json!({"path": "g", "old": "x", "new": "y"})).await.contains("does not exist")
    );
}

#[tokio::test]
async fn edit_keeps_line_endings_and_foreign_bytes() {
    let bench = bench();
    bench.file("crlf", "a\r\nb\r\nc\r\n");
    bench.ok("edit", json!({"path": "crlf", "old": "a\nb", "new": "a\nx\nb"})).await;
    assert_eq!(bench.content("crlf"), "a\r\nx\r\nb\r\nc\r\n");
    bench.file("mixed", "a\r\nb\nc\n");
    bench.ok("edit", json!({"path": "mixed", "old": "b\nc", "new": "b\nd"})).await;
    assert_eq!(bench.content("mixed"), "a\r\nb\nd\n");
    bench.file("latin", b"caf\xe9 one");
    bench.ok("edit", json!({"path": "latin", "old": "one", "new": "two"})).await;
    assert_eq!(fs::read(bench.base.join("ws/latin")).unwrap(), b"caf\xe9 two");
}

#[tokio::test]
async fn utf_16_files_are_read_and_edited_in_their_encoding() {
    let encoded = |text: &str, mark: &[u8], bytes: fn(u16) -> [u8; 2]| {
        let units = text.encode_utf16().flat_map(bytes);
        mark.iter().copied().chain(units).collect::<Vec<u8>>()
    };
    let bench = bench();
    for (name, mark, bytes) in [
        ("le", &b"\xff\xfe"[..], u16::to_le_bytes as fn(u16) -> [u8; 2]),
        ("be", b"\xfe\xff", u16::to_be_bytes),
        ("bare", b"", u16::to_le_bytes),
    ] {
        let text = if mark.is_empty() { "one\r\ntwo\r\n" } else { "one é🦀\r\ntwo\r\n" };
        bench.file(name, encoded(text, mark, bytes));
        let shown = bench.ok("read", json!({ "path": name })).await;
        assert!(shown.contains("     1\tone") && shown.contains("     2\ttwo\n"), "{shown}");
        bench.ok("edit", json!({"path": name, "old": "\ntwo", "new": "\nthree 次\nfour"})).await;
        let expected = encoded(&text.replace("two", "three 次\r\nfour"), mark, bytes);
        assert_eq!(fs::read(bench.base.join("ws").join(name)).unwrap(), expected, "{name}");
        let found = bench.ok("grep", json!({ "pattern": "^three", "path": name })).await;
        assert!(found.starts_with(&format!("{name}:2:three 次\n")), "{found}");
        let said = bench.ok("write", json!({ "path": name, "content": "new 次\n" })).await;
        assert!(said.ends_with("UTF-16 as before)."), "{said}");
        let expected = encoded("new 次\n", mark, bytes);
        assert_eq!(fs::read(bench.base.join("ws").join(name)).unwrap(), expected, "{name}");
    }
    bench.file("marked", "\u{feff}one\n");
    assert!(bench.ok("grep", json!({ "pattern": "^one$" })).await.starts_with("marked:1:one\n"));
    bench.ok("write", json!({ "path": "marked", "content": "two\n" })).await;
    assert_eq!(bench.content("marked"), "\u{feff}two\n");
    // A model that writes the mark itself gets one mark.
    bench.ok("write", json!({ "path": "marked", "content": "\u{feff}three\n" })).await;
    assert_eq!(bench.content("marked"), "\u{feff}three\n");
    bench.file("half", b"\xff\xfea\0\x00\xd8b\0");
    assert!(bench.fails("edit", json!({"path": "half", "old": "a", "new": "b"})).await.contains("UTF-16"));
}

#[tokio::test]
async fn a_byte_order_mark_stays_and_is_not_in_the_way() {
    let bench = bench();
    bench.file("marked", "\u{feff}one\r\ntwo\r\n");
    assert!(bench.ok("read", json!({"path": "marked"})).await.contains("     1\tone\n"));
    bench.ok("edit", json!({"path": "marked", "old": "one\ntwo", "new": "1\n2"})).await;
    assert_eq!(bench.content("marked"), "\u{feff}1\r\n2\r\n");
}

#[tokio::test]
async fn grep_shows_path_line_and_text() {
    let bench = bench();
    bench.file("a.rs", "one\ntwo\nThree\n");
    bench.file("sub/b.txt", "two and two\n");
    bench.file("ignored.log", "two\n");
    bench.file(".gitignore", "*.log\n");
    bench.file(".git/config", "two\n");
    bench.file("binary", b"two\0");
    let text = bench.ok("grep", json!({"pattern": "two"})).await;
    assert_eq!(text, "a.rs:2:two\nsub/b.txt:1:two and two\n[2 matches in 2 files.]");
    let text = bench.ok("grep", json!({"pattern": "^three$", "ignoreCase": true, "glob": "*.rs"})).await;
    assert_eq!(text, "a.rs:3:Three\n[1 matches in 1 files.]");
    let text = bench.ok("grep", json!({"pattern": "two", "path": "sub"})).await;
    assert_eq!(text, "sub/b.txt:1:two and two\n[1 matches in 1 files.]");
    let text = bench.ok("grep", json!({"pattern": "two", "path": "sub/b.txt"})).await;
    assert!(text.starts_with("sub/b.txt:1:"), "{text}");
    let text = bench.ok("grep", json!({"pattern": "two", "glob": "sub/**/*.txt"})).await;
    assert!(text.starts_with("sub/b.txt:1:"), "{text}");
    assert_eq!(bench.ok("grep", json!({"pattern": "absent"})).await, "No matches.");
}

#[tokio::test]
async fn grep_shows_context_in_groups() {
    let bench = bench();
    bench.file("f", "1\nhit\n3\n4\n5\n6\nhit\nhit\n9\n10\n");
    let text = bench.ok("grep", json!({"pattern": "hit", "context": 1})).await;
    assert_eq!(text, "f-1-1\nf:2:hit\nf-3-3\n--\nf-6-6\nf:7:hit\nf:8:hit\nf-9-9\n[3 matches in 1 files.]");
    bench.file("f", "hit\n2\n3\nhit\n5\n");
    let text = bench.ok("grep", json!({"pattern": "hit", "context": 1})).await;
    assert_eq!(text, "f:1:hit\nf-2-2\nf-3-3\nf:4:hit\nf-5-5\n[2 matches in 1 files.]");
}

#[tokio::test]
async fn grep_keeps_to_its_limits() {
    let bench = bench();
    bench.file("exact", "x\n".repeat(1_000));
    assert!(bench.ok("grep", json!({"pattern": "x"})).await.ends_with("[1000 matches in 1 files.]"));
    bench.file("more", "x\n");
    let text = bench.ok("grep", json!({"pattern": "x"})).await;
    assert_eq!(text.lines().count(), 1_001);
    assert!(text.contains("[Stopped at 1000 matches; there are more."), "{text}");
    bench.file("exact", format!("{}hit{}\n", "ä".repeat(5_000), "ö".repeat(5_000)));
    let text = bench.ok("grep", json!({"pattern": "hit", "path": "exact"})).await;
    let line = text.lines().next().unwrap();
    assert!(line.contains("ähitö") && line.chars().count() < 500, "{line}");
    assert!(line.ends_with("[line cut: 20003 bytes in all]"), "{line}");
}

#[tokio::test]
async fn glob_lists_the_newest_first() {
    let bench = bench();
    for (index, name) in ["old.rs", "deep/down/new.rs", "middle.rs"].iter().enumerate() {
        bench.file(name, "");
        let file = fs::File::options().write(true).open(bench.base.join("ws").join(name)).unwrap();
        // The times are set by hand, because files made in a row may have the same time.
        let order = [1_000, 3_000, 2_000][index];
        file.set_modified(SystemTimeAt(order).into()).unwrap();
    }
    bench.file("other.txt", "");
    let text = bench.ok("glob", json!({"pattern": "*.rs"})).await;
    assert_eq!(text, "deep/down/new.rs\nmiddle.rs\nold.rs\n[3 files.]");
    let text = bench.ok("glob", json!({"pattern": "deep/*.rs"})).await;
    assert_eq!(text, "No files match.");
    let text = bench.ok("glob", json!({"pattern": "**/*.rs", "path": "deep"})).await;
    assert_eq!(text, "deep/down/new.rs\n[1 files.]");
}

struct SystemTimeAt(u64);

impl From<SystemTimeAt> for std::time::SystemTime {
    fn from(at: SystemTimeAt) -> Self {
        Self::UNIX_EPOCH + Duration::from_secs(at.0)
    }
}

#[tokio::test]
async fn ls_lists_by_name() {
    let bench = bench();
    bench.file("b.txt", "1234");
    bench.file("a/x", "");
    symlink("b.txt", bench.base.join("ws/link")).unwrap();
    assert_eq!(bench.ok("ls", json!({})).await, "a/\nb.txt  4\nlink -> b.txt\n[3 entries.]");
    assert_eq!(bench.ok("ls", json!({"path": "a"})).await, "x  0\n[1 entries.]");
    bench.file("odd/a  5\n[1 entries.]\n\u{1b}", "");
    symlink("x\ny", bench.base.join("ws/odd/b")).unwrap();
    let text = bench.ok("ls", json!({"path": "odd"})).await;
    assert_eq!(text, "a  5\\n[1 entries.]\\n\\u{1b}  0\nb -> x\\ny\n[2 entries.]");
    let text = bench.fails("ls", json!({"path": "b.txt"})).await;
    assert!(text.contains("`b.txt` is a file, not a folder"), "{text}");
}

/// Swaps `sub` for a link to the folder outside and back, again and again, while `attempt` is repeated, until it says
/// that it has met enough.
#[cfg(target_os = "linux")]
async fn while_swapped(bench: &Bench, mut attempt: impl AsyncFnMut() -> bool) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let (one, other) = (bench.base.join("ws/sub"), bench.base.join("ws/swap"));
    symlink(bench.base.join("data"), &other).unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let swapping = std::thread::spawn(move || {
        while !told.load(std::sync::atomic::Ordering::Relaxed) {
            // The exchange is atomic: the name always exists, and the tools meet both states.
            renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        }
    });
    let begun = Instant::now();
    while !attempt().await || begun.elapsed() < Duration::from_secs(2) {
        if begun.elapsed() > Duration::from_secs(60) {
            break;
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapping.join().unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_is_found_while_a_folder_is_swapped_for_a_link_lies_inside() {
    let bench = bench();
    bench.file("sub/inside.txt", "own-content\n");
    while_swapped(&bench, async || {
        for (tool, arguments) in [
            ("glob", json!({"pattern": "*"})),
            ("grep", json!({"pattern": "content"})),
            ("ls", json!({"path": "sub"})),
        ] {
            let text = bench.run(tool, arguments).await.as_text();
            assert!(!text.contains("secret") && !text.contains("hidden"), "{tool}: {text}");
        }
        true
    })
    .await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_is_written_while_a_folder_is_swapped_for_a_link_lies_inside() {
    let bench = bench();
    bench.file("sub/secret", "own-content 0");
    let (mut written, mut edited) = (0, 0);
    while_swapped(&bench, async || {
        let write = bench.run("write", json!({"path": "sub/written", "content": "by the tool"})).await;
        let (old, new) = (format!("content {edited}"), format!("content {}", edited + 1));
        let edit = bench.run("edit", json!({"path": "sub/secret", "old": old, "new": new})).await;
        written += u32::from(!write.is_error);
        edited += u32::from(!edit.is_error);
        let outside = fs::read_to_string(bench.base.join("data/secret")).unwrap();
        assert!(outside == "hidden-content\n" && !bench.base.join("data/written").exists(), "{outside}");
        written > 0 && edited > 0
    })
    .await;
    assert!(written > 0 && edited > 0, "{written} written, {edited} edited");
}

#[tokio::test]
async fn the_agent_file_in_use_is_read_and_not_changed() {
    let mut bench = bench();
    bench.file("agents/own.yml", "name: mine\n");
    symlink("agents/own.yml", bench.base.join("ws/link.yml")).unwrap();
    let edit = |path: &str| json!({"path": path, "old": "mine", "new": "theirs"});
    bench.ok("edit", edit("agents/own.yml")).await;
    bench.file("agents/own.yml", "name: mine\n");
    let used = [bench.base.join("ws/link.yml")];
    let closed = bench.base.join("ws/.longhaul");
    let workspace = Workspace::new(&bench.base.join("ws"), &[closed]).unwrap().with_agent_files(&used);
    bench.context.workspace = Arc::new(workspace);
    let absolute = bench.base.join("ws/agents/own.yml").display().to_string();
    for path in ["agents/own.yml", "link.yml", "agents/../agents/./own.yml", &absolute] {
        for (tool, arguments) in
            [("edit", edit(path)), ("write", json!({"path": path, "content": "name: theirs\n"}))]
        {
            let said = bench.fails(tool, arguments).await;
            assert!(said.contains("`agents/own.yml` is the agent file in use"), "{tool} {path}: {said}");
        }
        assert!(bench.ok("read", json!({"path": path})).await.contains("mine"));
    }
    assert_eq!(bench.content("agents/own.yml"), "name: mine\n");
    bench.ok("write", json!({"path": "agents/other.yml", "content": "name: other\n"})).await;
}

#[tokio::test]
async fn a_program_that_may_do_more_than_commands_is_read_and_not_changed() {
    let mut bench = bench();
    bench.file("server.py", "print()\n");
    let closed = bench.base.join("ws/.longhaul");
    let workspace = Workspace::new(&bench.base.join("ws"), &[closed]).unwrap();
    bench.context.workspace = Arc::new(workspace.with_mcp_programs(&[bench.base.join("ws/server.py")]));
    for (tool, arguments) in [
        ("edit", json!({"path": "server.py", "old": "print", "new": "send"})),
        ("write", json!({"path": "./server.py", "content": "send()\n"})),
    ] {
        let said = bench.fails(tool, arguments).await;
        assert!(said.contains("`server.py` belongs to an MCP program"), "{tool}: {said}");
    }
    assert!(bench.ok("read", json!({"path": "server.py"})).await.contains("print"));
    bench.ok("write", json!({"path": "other.py", "content": "print()\n"})).await;
}

#[tokio::test]
async fn a_picture_that_would_fill_memory_is_refused_unopened() {
    let bench = bench();
    bench.file("bomb.gif", b"GIF89a\xff\xff\xff\xff\x00\x00\x00");
    let text = bench.fails("read", json!({"path": "bomb.gif"})).await;
    assert!(text.contains("65535 × 65535 pixels is too large"), "{text}");
    bench.file("small.gif", b"GIF89a\x40\x00\x20\x00\x00\x00\x00");
    bench.ok("read", json!({"path": "small.gif"})).await;
}

#[tokio::test]
async fn a_cancelled_call_does_nothing() {
    let bench = bench();
    bench.file("f", "x\n");
    bench.context.cancel.cancel();
    let calls = [
        ("grep", json!({"pattern": "x"})),
        ("write", json!({"path": "made", "content": "x"})),
        ("bash", json!({"command": "echo x > made"})),
    ];
    for (tool, arguments) in calls {
        let output = bench.run(tool, arguments).await;
        assert!(output.cancelled && output.is_error, "{tool}: {output:?}");
    }
    assert!(!bench.base.join("ws/made").exists());
}
