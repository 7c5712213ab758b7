//! The files that a search finds, and links that must not lead it elsewhere.

use std::collections::BTreeSet;
use std::path::Path;

use ignore::WalkBuilder;
use proptest::prelude::*;
use rustix::fs::Mode;

use super::*;
use crate::tools::walk::files;

const SEARCHES: [&str; 2] = ["glob", "grep"];

fn search(tool: &str, pattern: &str) -> Value {
    match tool {
        "glob" => json!({"pattern": pattern}),
        _ => json!({"pattern": "needle", "glob": pattern}),
    }
}

fn found(workspace: &Workspace, start: &str) -> Vec<String> {
    let start = workspace.resolve(start, crate::workspace::PathAccess::Read).unwrap();
    let mut found = Vec::new();
    files(workspace, &start, &CancellationToken::new(), |file| {
        found.push(file.path.relative().display().to_string());
        true
    })
    .unwrap();
    found
}

/// Returns the files of a walk that reads the rules by itself, wherever they lead.
fn reference(root: &Path, start: &str) -> Vec<String> {
    let mut walk = WalkBuilder::new(root.join(start));
    // As for the tools: hidden files count, no repository is needed, and global rules do not apply.
    walk.hidden(false).require_git(false).git_global(false).sort_by_file_name(std::ffi::OsStr::cmp);
    walk.filter_entry(|entry| entry.file_name() != ".git");
    let files = walk.build().map(Result::unwrap).filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|file| file.path().strip_prefix(root).unwrap().display().to_string()).collect()
}

fn folder() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "target", ".c"]), 0..4)
        .prop_map(|names| names.iter().flat_map(|name| [name, "/"]).collect())
}

fn rules() -> impl Strategy<Value = String> {
    let lines = [
        "*.log",
        "!kept.log",
        "target/",
        "/a",
        "b/",
        "a/**",
        "!a/x.rs",
        "**/b/*.rs",
        "# note",
        "",
        "\\!x",
        "x.*",
        "!x.rs",
        "/target/a",
        ".c",
        // An invalid pattern, which both walks must skip.
        "[",
        "a/b/",
        "*",
    ];
    prop::collection::vec(prop::sample::select(lines.to_vec()), 1..5).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn rules_mean_what_they_mean_elsewhere(
        names in prop::collection::vec((folder(), prop::sample::select(vec!["x.rs", "y.log", "kept.log", "!x"])), 1..25),
        ignored in prop::collection::vec(
            (folder(), prop::sample::select(vec![".gitignore", ".ignore", ".git/info/exclude"]), rules()), 0..6,
        ),
        start in folder(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let write = |path: String, content: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        names.iter().for_each(|(folder, name)| write(format!("{folder}{name}"), ""));
        ignored.iter().for_each(|(folder, name, rules)| write(format!("{folder}{name}"), rules));
        fs::create_dir_all(root.join(&start)).unwrap();
        let workspace = Workspace::new(&root, &[]).unwrap();
        let start = if start.is_empty() { "." } else { start.trim_end_matches('/') };
        let expected: Vec<String> =
            reference(&root, start).iter().map(|path| path.trim_start_matches("./").to_owned()).collect();
        prop_assert_eq!(found(&workspace, start), expected);
    }
}

#[tokio::test]
async fn rules_that_lead_elsewhere_are_none() {
    let bench = bench();
    bench.file("a.log", "needle\n");
    fs::write(bench.base.join("data/rules"), "*.log\n").unwrap();
    fs::create_dir_all(bench.base.join("ws/.git")).unwrap();
    let outside = bench.base.join("data");
    let ways = [
        (".gitignore", outside.join("rules")),
        (".ignore", outside.join("rules")),
        (".gitignore", "/dev/zero".into()),
        (".ignore", "/dev/zero".into()),
        (".git/info", outside.clone()),
    ];
    fs::write(outside.join("exclude"), "*.log\n").unwrap();
    for (name, target) in ways {
        let link = bench.base.join("ws").join(name);
        symlink(&target, &link).unwrap();
        for tool in SEARCHES {
            let text = bench.ok(tool, search(tool, "*.log")).await;
            assert!(text.contains("a.log"), "{tool}, {name} -> {}: {text}", target.display());
        }
        fs::remove_file(link).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn rules_that_never_come_are_not_waited_for() {
    use rustix::fs::{CWD, FileType, mknodat};
    let bench = bench();
    bench.file("a.log", "needle\n");
    fs::create_dir_all(bench.base.join("ws/.git/info")).unwrap();
    for name in [".gitignore", ".ignore", ".git/info/exclude"] {
        let path = bench.base.join("ws").join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for tool in SEARCHES {
            let searching = bench.ok(tool, search(tool, "*.log"));
            let text = tokio::time::timeout(Duration::from_secs(20), searching).await.unwrap_or_default();
            // A thread that waits for a writer would hold up the end of the test: there is one now.
            drop(fs::File::options().read(true).write(true).open(&path));
            assert!(text.contains("a.log"), "{tool}, {name}: {text}");
        }
        fs::remove_file(path).unwrap();
    }
}

#[tokio::test]
async fn rules_without_end_are_none() {
    let bench = bench();
    bench.file("a.log", "needle\n");
    bench.file(".gitignore", "*.log\n".repeat(1 << 18));
    for tool in SEARCHES {
        assert!(bench.ok(tool, search(tool, "*.log")).await.contains("a.log"), "{tool}");
    }
    // Nor may all of those above a folder have more together than one.
    let most = "*.txt\n".repeat(60 * 1024 / 6);
    for folder in ["", "a/", "a/b/"] {
        bench.file(&format!("{folder}.gitignore"), format!("{most}*.log\n"));
        bench.file(&format!("{folder}a.log"), "needle\n");
        bench.file(&format!("{folder}only.md"), "needle\n");
    }
    bench.file("a/b/.ignore", "*.md\n".repeat(60 * 1024 / 5));
    let text = bench.ok("glob", search("glob", "*")).await;
    assert!(text.contains("a/b/only.md") && !text.contains(".log"), "{text}");
}

#[tokio::test]
async fn a_search_of_one_endless_line_can_be_stopped() {
    let bench = bench();
    let line: String = (0..4_000_000_u32)
        .map(|n| if n.wrapping_mul(2_654_435_761) >> 31 == 0 { 'a' } else { 'b' })
        .collect();
    bench.file("f", &line);
    // The pattern never matches and keeps hundreds of states in play, so a search takes long.
    let slow = json!({"pattern": "[ab]*a[ab]{400}[cd]"});
    let cancel = bench.context.cancel.clone();
    let searches = async {
        let begun = Instant::now();
        let calls = (0..8).map(|_| bench.run("grep", slow.clone()));
        futures_util::future::join_all(calls).await;
        begun.elapsed()
    };
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
    };
    tokio::join!(searches, stopping);
    // Others have room as soon as these have looked up.
    let mut other = bench.context.clone();
    other.cancel = CancellationToken::new();
    let call = ToolInput::new(json!({"pattern": "^ab.*b$|a$"}), other);
    let found = tokio::time::timeout(Duration::from_secs(60), ToolSet::builtin().run("grep", call)).await;
    assert!(found.unwrap().as_text().contains("f:1:"));
}

#[tokio::test]
async fn long_lines_are_searched_to_their_end_and_slow_patterns_are_refused() {
    let bench = bench();
    let line = format!("{}needle;{}", "x;".repeat(100_000), "y".repeat(100_000));
    bench.file("f", &line);
    for (pattern, found) in
        [("needle;y", true), ("y$", true), (";$", false), ("^x;x", true), ("needle;$", false)]
    {
        let text = bench.ok("grep", json!({"pattern": pattern})).await;
        assert_eq!(text.contains("[1 matches"), found, "{pattern}: {text}");
    }
    let text = bench.fails("grep", json!({"pattern": "[ab]*a[ab]{100000}[^ab]"})).await;
    assert!(text.contains("`pattern` is not a regular expression") && text.contains("size limit"), "{text}");
}

#[test]
fn folders_that_no_path_reaches_are_passed_over() {
    let bench = bench();
    bench.file("a.rs", "");
    let mut deep = bench.base.join("ws/d");
    fs::create_dir(&deep).unwrap();
    let mut here = fs::File::open(&deep).unwrap();
    // Names are added from within, as a command would.
    for _ in 0..30 {
        let name = "n".repeat(200);
        rustix::fs::mkdirat(&here, &name, Mode::from_raw_mode(0o700)).unwrap();
        let how = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        here = fs::File::from(rustix::fs::openat(&here, &name, how, Mode::empty()).unwrap());
        deep.push(name);
        rustix::fs::openat(
            &here,
            "f.rs",
            rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC,
            Mode::from_raw_mode(0o600),
        )
        .unwrap();
    }
    let found: BTreeSet<usize> = found(&bench.context.workspace, ".").iter().map(String::len).collect();
    assert!(found.contains(&4) && found.last() > Some(&3_800) && found.last() < Some(&4_200), "{found:?}");
}
