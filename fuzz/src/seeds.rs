//! What the targets begin with: recorded traffic and conversations, read where they lie.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Larger recordings add nothing but time, bytes.
const LARGEST: u64 = 48 << 10;

/// Inputs for a target: those of recordings below `fixtures` (`streams/`, `trajectories/`), and a few of our own.
pub fn of(target: &str, fixtures: &Path) -> Vec<Vec<u8>> {
    let mut seeds = own(target);
    let mut files = Vec::new();
    collect(&fixtures.join(if target == "import" { "trajectories" } else { "streams" }), &mut files);
    files.sort();
    for file in files {
        let Ok(bytes) = std::fs::read(&file) else { continue };
        match target {
            "import" => seeds.extend(heads(&bytes)),
            "config" | "handle" | "approval" | "picture" => {}
            _ => seeds.extend(recorded(target, &file, &bytes)),
        }
    }
    seeds
}

/// Writes them into the folder that the environment names.
pub fn write(target: &str) {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (Some(folder), Some(fixtures)) = (named("LONGHAUL_FUZZ_SEEDS"), named("LONGHAUL_FUZZ_FIXTURES"))
    else {
        return;
    };
    for (at, seed) in of(target, &fixtures).iter().enumerate() {
        // What cannot be written is not begun with.
        let _ = std::fs::write(folder.join(format!("seed-{at:05}")), seed);
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_none_or(|kind| kind != "md")
            && path
                .metadata()
                .is_ok_and(|meta| meta.len() <= LARGEST || path.starts_with(folder) && kind_is_text(&path))
        {
            files.push(path);
        }
    }
}

/// Conversations are long, and their beginnings are as good.
fn kind_is_text(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "jsonl" || kind == "traj")
}

fn heads(bytes: &[u8]) -> Vec<Vec<u8>> {
    if bytes.len() as u64 <= LARGEST {
        return vec![bytes.to_vec()];
    }
    let mut head = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if (head.len() + line.len()) as u64 > LARGEST {
            break;
        }
        head.extend_from_slice(line);
    }
    if head.is_empty() { Vec::new() } else { vec![head] }
}

/// Bodies of a recording for a target.
fn recorded(target: &str, file: &Path, bytes: &[u8]) -> Vec<Vec<u8>> {
    let place = file.to_string_lossy().into_owned();
    let mut exchanges = Vec::new();
    if file.extension().is_some_and(|kind| kind == "yaml") {
        let text = String::from_utf8_lossy(bytes);
        let documents = text.split("\n---").filter_map(|text| serde_saphyr::from_str::<Value>(text).ok());
        exchanges.extend(documents.map(|exchange| {
            let part = |one: &str, name: &str| exchange[one][name].as_str().unwrap_or_default().to_owned();
            (part("when", "path"), part("when", "body"), part("then", "body"))
        }));
    } else {
        exchanges.push((place.clone(), String::new(), String::from_utf8_lossy(bytes).into_owned()));
    }
    let mut seeds = Vec::new();
    for (path, asked, answered) in exchanges {
        let dialect = dialect(&format!("{place} {path}"));
        let signed = |body: &str, second: u8| {
            let mut seed = vec![dialect, second];
            seed.extend_from_slice(body.as_bytes());
            seed
        };
        match target {
            "sse" => seeds.push([b"\x05", answered.as_bytes()].concat()),
            "gateway_body" if !asked.is_empty() => seeds.push(signed(&asked, 31)),
            "gateway_stream" => seeds.push(signed(&answered, 7)),
            "anthropic" if dialect == 1 => seeds.push(answered.into_bytes()),
            "openai_responses" if dialect == 2 => seeds.push(answered.into_bytes()),
            "gemini" if place.contains("google") || path.contains("generateContent") => {
                seeds.push(answered.into_bytes())
            }
            "ollama" if place.contains("ollama") => seeds.push(answered.into_bytes()),
            "openai_chat" if dialect == 0 => seeds.push(answered.into_bytes()),
            _ => {}
        }
    }
    seeds.retain(|seed| seed.len() > 2);
    seeds
}

fn dialect(place: &str) -> u8 {
    match place {
        place if place.contains("/messages") || place.contains("anthropic") => 1,
        place if place.contains("responses") => 2,
        _ => 0,
    }
}

fn own(target: &str) -> Vec<Vec<u8>> {
    let chat = r#"{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"ä"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}"#;
    let messages = r#"{"model":"m","max_tokens":9,"system":"s","messages":[{"role":"user","content":"ä"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}]}"#;
    let responses = r#"{"model":"m","instructions":"s","input":[{"role":"user","content":[{"type":"input_text","text":"ä"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}],"max_output_tokens":9}"#;
    let texts: Vec<String> = match target {
        "config" => vec![
            longhaul::config::AgentConfig::reference(),
            "model: { name: m, headers: { a: b }, body: { c: [1, 2.5, null, ~] } }\nmcpServers: { x: { command: y } }".into(),
            "a: &a [1]\nb: *a\n<<: { c: !!str 1 }\n? d\n: |\n  text\n".into(),
        ],
        "handle" => vec!["lh:12".into(), "lh:1-2".into(), "1-10\nlh:2".into(), r#"{"query":"grösser","limit":3}"#.into()],
        "approval" => vec!["git *\n{\"command\":\"git status\"}".into(), "a?b*c\na.b;c".into()],
        "gateway_body" => vec![format!("\0\x1f{chat}"), format!("\x01\x1f{messages}"), format!("\x02\x1f{responses}")],
        "import" => vec![
            r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"yes","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}]"#.into(),
        ],
        _ => Vec::new(),
    };
    let mut seeds: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
    if target == "picture" {
        seeds.push(b"GIF89a\x40\x00\x20\x00\x00\x00\x00".to_vec());
        seeds.push(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10\x08\x06\0\0\0\0\0\0\0".to_vec());
        seeds.push(b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xc0\0\x11\x08\0\x10\0\x10\x03\x01\"\0".to_vec());
        seeds.push(
            b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0".to_vec(),
        );
        seeds.push(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic\0\0\0\x20meta\0\0\0\0".to_vec());
        seeds.push(b"II*\0\x08\0\0\0\x02\0\0\x01\x03\0\x01\0\0\0\x10\0\0\0\x01\x01\x03\0\x01\0\0\0\x10\0\0\0\0\0\0\0".to_vec());
    }
    seeds
}
