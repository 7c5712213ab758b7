//! Requests and streams of real clients and servers.

use std::path::{Path, PathBuf};

use super::*;

/// All recorded files of Anthropic's. `None`, said aloud as `test`, where there are none.
fn files(test: &str) -> Option<Vec<(String, String)>> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/streams/anthropic"));
    if !root.is_dir() {
        assert!(
            std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(),
            "no recordings in {}",
            root.display()
        );
        println!("skipped: {test}: no recordings in {}", root.display());
        return None;
    }
    let folders = std::fs::read_dir(root).unwrap();
    let paths = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let mut paths: Vec<PathBuf> = paths.map(|entry| entry.unwrap().path()).collect();
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
        for body in bodies(content).iter().filter(|body| body.contains("\"messages\":")) {
            let envelope = envelope(body);
            let items: Vec<&str> = (0..envelope.items.len()).map(|index| envelope.item(index)).collect();
            let pieces =
                MessagesCodec.parse_segments(&items, 0).unwrap_or_else(|bad| panic!("{file}: {bad}"));
            assert_eq!(pieces.len(), items.len());
            MessagesCodec.fixed_content(&envelope).unwrap();
            let keep =
                RequestEdit { steps: Some(vec![RenderOp::Keep(0..items.len())]), ..RequestEdit::default() };
            assert_eq!(MessagesCodec.render_request(&envelope, &keep).unwrap(), body.as_bytes(), "{file}");
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen} requests");
}

/// The recorded streams, with a JSON object per line.
fn streams(files: &[(String, String)]) -> Vec<(&str, Vec<Bytes>)> {
    let recorded = files.iter().filter(|(file, _)| file.ends_with(".chunks.txt"));
    recorded
        .map(|(file, content)| {
            let event = |line: &str| {
                let data: serde_json::Value = serde_json::from_str(line).unwrap();
                Bytes::from(format!("event: {}\ndata: {line}\n\n", data["type"].as_str().unwrap()))
            };
            (file.as_str(), content.lines().filter(|line| !line.trim().is_empty()).map(event).collect())
        })
        .collect()
}

#[test]
fn recorded_streams_pass_untouched_and_are_read() {
    let Some(files) = files("recorded_streams_pass_untouched_and_are_read") else { return };
    let streams = streams(&files);
    assert!(streams.len() >= 2);
    for (file, events) in streams {
        let mut watcher = MessagesCodec.stream_parser();
        events.iter().for_each(|raw| watcher.read(&SseEvent::parse(raw)));
        let seen = watcher.seen();
        assert!(seen.over && seen.id.is_some() && seen.finish.is_some() && seen.usage.is_some(), "{file}");
        let whole = MessagesCodec.parse_answer(&MessagesCodec.collect_answer(&events).unwrap()).unwrap();
        assert_eq!((&whole.text, whole.finish, &whole.id), (&seen.text, seen.finish, &seen.id), "{file}");
        let usage = |seen: &PartialResponse| {
            seen.usage.clone().map(|usage| (usage.input_tokens, usage.output_tokens))
        };
        assert_eq!(usage(&whole), usage(seen), "{file}");
        let calls = |seen: &PartialResponse| -> Vec<serde_json::Value> {
            seen.calls.iter().map(|call| serde_json::from_str(&call.arguments).unwrap_or_default()).collect()
        };
        assert_eq!(calls(&whole), calls(seen), "{file}");
        if !file.contains("spliced") {
            let mut joint = MessagesCodec.stream_merger();
            let mut out = Vec::new();
            events.iter().for_each(|raw| joint.pass_event(raw, &mut out));
            joint.end(0, &mut out);
            assert_eq!(
                String::from_utf8(out).unwrap(),
                String::from_utf8(events.concat()).unwrap(),
                "{file}"
            );
        }
    }
}

#[test]
fn a_second_start_voids_the_first() {
    let Some(files) = files("a_second_start_voids_the_first") else { return };
    let streams = streams(&files);
    let (_, events) = streams.iter().find(|(file, _)| file.contains("spliced-message-start")).unwrap();
    let mut watcher = MessagesCodec.stream_parser();
    events.iter().for_each(|raw| watcher.read(&SseEvent::parse(raw)));
    assert_eq!(watcher.seen().id.as_deref(), Some("msg_second"));
    assert_eq!(watcher.seen().calls.len(), 1);
    assert_eq!(watcher.seen().position, StreamPosition::Call);
    assert_eq!(watcher.seen().finish, Some(ModelStopReason::ToolCalls));
}

#[test]
fn recorded_answers_are_read() {
    let Some(files) = files("recorded_answers_are_read") else { return };
    let mut seen = 0;
    for (file, content) in &files {
        for body in bodies(content).iter().filter(|body| body.contains("\"stop_reason\":")) {
            let Some(answer) = MessagesCodec.parse_answer(body.as_bytes()) else { continue };
            assert!(answer.finish.is_some() && answer.usage.is_some(), "{file}");
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen} answers");
}
