//! Requests and streams of real clients and servers.

use std::path::{Path, PathBuf};

use super::*;

/// All recorded files of servers of this dialect. `None`, with a message that names `test`, if there are none.
fn files(test: &str) -> Option<Vec<(String, String)>> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/streams"));
    if !root.is_dir() {
        assert!(
            std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(),
            "no recordings in {}",
            root.display()
        );
        println!("skipped: {test}: no recordings in {}", root.display());
        return None;
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for provider in ["openai", "azure", "open-responses", "chatgpt"] {
        for folder in std::fs::read_dir(root.join(provider)).unwrap() {
            paths.extend(
                std::fs::read_dir(folder.unwrap().path()).unwrap().map(|entry| entry.unwrap().path()),
            );
        }
    }
    paths.sort();
    let named = |path: &PathBuf| (path.display().to_string(), std::fs::read_to_string(path).unwrap());
    Some(paths.iter().map(named).collect())
}

/// Bodies recorded on a single line of YAML.
fn bodies(file: &str) -> Vec<String> {
    let quoted = file.lines().filter_map(|line| line.strip_prefix("  body: '")?.strip_suffix('\''));
    quoted.map(|body| body.replace("''", "'")).collect()
}

#[test]
fn recorded_requests_are_read_and_rendered() {
    let Some(files) = files("recorded_requests_are_read_and_rendered") else { return };
    let mut seen = 0;
    for (file, content) in &files {
        for body in
            bodies(content).iter().filter(|body| body.contains("\"input\":") && body.contains("\"model\":"))
        {
            let Ok(envelope) = ResponsesCodec.parse_request(Bytes::copy_from_slice(body.as_bytes())) else {
                continue;
            };
            let items: Vec<&str> = (0..envelope.items.len()).map(|index| envelope.item(index)).collect();
            ResponsesCodec.parse_segments(&items, 0).unwrap_or_else(|bad| panic!("{file}: {bad}"));
            ResponsesCodec.fixed_content(&envelope).unwrap_or_else(|bad| panic!("{file}: {bad}"));
            let keep =
                RequestEdit { steps: Some(vec![RenderOp::Keep(0..items.len())]), ..RequestEdit::default() };
            assert_eq!(ResponsesCodec.render_request(&envelope, &keep).unwrap(), body.as_bytes(), "{file}");
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen} requests");
}

#[test]
fn recorded_streams_pass_untouched_and_are_read() {
    let Some(files) = files("recorded_streams_pass_untouched_and_are_read") else { return };
    let mut streams = 0;
    for (file, content) in files.iter().filter(|(file, _)| file.ends_with(".chunks.txt")) {
        if !content.contains("\"response.completed\"") {
            continue;
        }
        let event = |line: &str| -> Option<Bytes> {
            let data: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(Bytes::from(format!("event: {}\ndata: {line}\n\n", data["type"].as_str()?)))
        };
        let lines = content.lines().filter(|line| !line.trim().is_empty());
        let Some(events) = lines.map(event).collect::<Option<Vec<Bytes>>>() else {
            println!("skipped: {file}: not every line of it is whole");
            continue;
        };
        let mut watcher = ResponsesCodec.stream_parser();
        events.iter().for_each(|raw| watcher.read(&SseEvent::parse(raw)));
        let seen = watcher.seen();
        assert!(seen.over && seen.id.is_some() && seen.finish.is_some() && seen.usage.is_some(), "{file}");
        let whole = ResponsesCodec.parse_answer(&ResponsesCodec.collect_answer(&events).unwrap()).unwrap();
        assert_eq!((whole.finish, &whole.id), (seen.finish, &seen.id), "{file}");
        // In this recording most deltas of a text were left out.
        if !file.ends_with("openai-phase.1.chunks.txt") {
            assert_eq!(whole.text, seen.text, "{file}");
        }
        assert_eq!((&whole.calls, &whole.usage), (&seen.calls, &seen.usage), "{file}");
        let mut joint = ResponsesCodec.stream_merger();
        let mut out = Vec::new();
        events.iter().for_each(|raw| joint.pass_event(raw, &mut out));
        joint.end(0, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), String::from_utf8(events.concat()).unwrap(), "{file}");
        streams += 1;
    }
    assert!(streams >= 6, "{streams} streams");
}
