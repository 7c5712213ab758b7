//! The recorded material: one line a file of what it holds, counted without this code.

use longhaul_core::message::ToolStatus as Status;

use super::*;

/// Typed messages, notes, answers, calls, results of the file, results that had to be made up.
type Counts = [usize; 6];

/// Input, output and cached tokens of a step.
type Used = (u64, u64, u64);

fn counts(session: &ImportedSession) -> Counts {
    let count = |fits: fn(&EventBody) -> bool| session.events.iter().filter(|(_, body)| fits(body)).count();
    let recorded = count(|body| matches!(body, EventBody::ToolStarted { .. }));
    [
        count(|body| matches!(body, EventBody::MessagesTaken { .. })),
        count(|body| matches!(body, EventBody::NoteAdded { .. })),
        count(|body| matches!(body, EventBody::AssistantAdded { .. })),
        session.events.iter().filter_map(|(_, body)| message(body)).flat_map(Message::tool_calls).count(),
        recorded,
        results(session).len() - recorded,
    ]
}

fn usages(session: &ImportedSession) -> Vec<Option<Used>> {
    let finished = session.events.iter().filter_map(|(_, body)| match body {
        EventBody::StepFinished { usage, .. } => Some(usage.as_ref()),
        _ => None,
    });
    finished.map(|usage| usage.map(|u| (u.input_tokens, u.output_tokens, u.cache_read_tokens))).collect()
}

/// The only session of a file; `None` where the files are not at hand.
fn session(name: &str, format: ImportFormat, expected: Counts) -> Option<ImportedSession> {
    let bytes = fixture(name)?;
    let mut import = import(&bytes, 7).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!((import.format, import.sessions.len()), (format, 1), "{name}");
    let session = import.sessions.remove(0);
    assert_valid(&session);
    History::fold(&stored(&session)).expect("positions follow each other");
    assert_eq!(counts(&session), expected, "{name}");
    Some(session)
}

fn warnings(session: &ImportedSession) -> Vec<String> {
    session.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn swe_agent_calls_functions() {
    let name =
        "SWE-agent__SWE-agent/function_calling_replace_from_source~marshmallow-code__marshmallow-1867.traj";
    let Some(session) = session(name, ImportFormat::SweAgent, [1, 0, 13, 13, 13, 0]) else { return };
    assert!(session.warnings.is_empty(), "{:?}", session.warnings);
    assert!(
        session.system_prompt.as_deref().is_some_and(|text| text.starts_with("SETTING: You are an auto"))
    );
    assert_eq!((session.tools.as_deref(), session.events[1].0), (None, 7));
    // The same id names several calls; each result stands with its own.
    let tools: Vec<&str> = session
        .events
        .iter()
        .filter_map(|(_, body)| message(body))
        .flat_map(Message::tool_calls)
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!(tools[..5], ["bash", "open", "bash", "create", "insert"]);
    let first: Vec<String> = results(&session)
        .iter()
        .map(|result| result.content[0].as_text().unwrap_or_default().chars().take(11).collect())
        .collect();
    assert_eq!(first[..2], ["AUTHORS.rst", "[File: setu"]);
    assert_eq!(first[12], "\r\ndiff --gi");
}

#[test]
fn swe_agent_writes_its_actions() {
    let files: [(&str, Counts); 4] = [
        (
            "xml_sys-env_cursors_window100__t-0.20__p-0.95__c-2.00__install-1~marshmallow-code__marshmallow-1867",
            [1, 0, 12, 12, 12, 0],
        ),
        ("katy", [1, 0, 18, 18, 18, 0]),
        ("rock", [1, 0, 12, 12, 12, 0]),
        ("pydicom__pydicom-1458", [2, 0, 12, 12, 12, 0]),
    ];
    for (name, expected) in files {
        let name = format!("SWE-agent__SWE-agent/{name}.traj");
        let Some(session) = session(&name, ImportFormat::SweAgent, expected) else { continue };
        assert_eq!(
            warnings(&session),
            [format!(
                "actions written as text: {} became calls of `bash`, without the marks around them",
                expected[3]
            )]
        );
        let answers = session.events.iter().filter_map(|(_, body)| match body {
            EventBody::AssistantAdded { message, .. } => Some(message),
            _ => None,
        });
        for answer in answers {
            let text = answer.text();
            assert!(!text.contains("```") && !text.contains("<command>"), "{name}: {text}");
        }
        assert!(session.title.as_deref().is_some_and(|title| title.starts_with("We're currently solving")));
    }
}

/// The last action ends the run; what it gave is told in `trajectory` only.
#[test]
fn the_last_observation_of_swe_agent_is_found() {
    let name = "SWE-agent__SWE-agent/rock.traj";
    let Some(session) = session(name, ImportFormat::SweAgent, [1, 0, 12, 12, 12, 0]) else { return };
    let last = results(&session).pop().expect("twelve results");
    assert_eq!(last.content[0].as_text(), Some("\nflag{IoDJuvwxy\\tuvyxwxvwzx{\\z{vwxyz}\n"));
}

#[test]
fn request_logs_are_imported_one_by_one() {
    let folder = "OpenHands__software-agent-sdk/litellm_proxy_";
    let files: [(&str, Counts, u64, Used); 5] = [
        (
            "_anthropic__claude-sonnet-4-20250514-1757015025.972",
            [1, 0, 1, 1, 0, 1],
            1_757_015_025_972,
            (4812, 146, 0),
        ),
        (
            "_anthropic__claude-sonnet-4-20250514-1757015033.222",
            [1, 0, 3, 3, 2, 1],
            1_757_015_033_221,
            (6123, 120, 0),
        ),
        (
            "_anthropic__claude-sonnet-4-20250514-1757015046.707",
            [1, 0, 6, 6, 5, 1],
            1_757_015_046_707,
            (6729, 199, 0),
        ),
        ("_deepseek__deepseek-chat-1757015062.589", [1, 0, 2, 2, 1, 1], 1_757_015_062_589, (8856, 100, 8000)),
        ("_deepseek__deepseek-chat-1757015068.723", [1, 0, 3, 3, 2, 1], 1_757_015_068_723, (9027, 64, 8896)),
    ];
    for (name, expected, at, usage) in files {
        let file = format!("{folder}{name}.json");
        let Some(session) = session(&file, ImportFormat::OpenaiMessages, expected) else { continue };
        let used = usages(&session);
        let (last, earlier) = used.split_last().expect("steps");
        assert_eq!(*last, Some(usage));
        assert!(earlier.iter().all(Option::is_none));
        assert_eq!(session.events.last().expect("events").0, at);
        assert_eq!(
            session.title.as_deref(),
            Some("Hello! Can you create a new Python file named hello.py that prints 'Hello, World")
        );
        let prompt = session.system_prompt.as_deref().expect("a system prompt");
        assert!(prompt.starts_with("You are OpenHands agent") && prompt.len() < 11_000, "{}", prompt.len());
        let tools: Vec<serde_json::Value> =
            serde_json::from_str(session.tools.as_deref().expect("tools")).expect("a list");
        let names: Vec<_> = tools.iter().map(|tool| tool["function"]["name"].as_str()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(names[0], Some("terminal"));
        let as_text = session.warnings.iter().any(|warning| warning.message.contains("went out as text"));
        assert_eq!(as_text, name.contains("deepseek"));
    }
}

#[test]
fn an_inspect_sample_has_times_and_usage() {
    let name = "UKGovernmentBEIS__inspect_ai/2025-05-12T20-27-36-04-00_browser.json";
    let Some(session) = session(name, ImportFormat::Inspect, [1, 0, 5, 4, 4, 0]) else { return };
    assert!(session.warnings.is_empty(), "{:?}", session.warnings);
    assert_eq!(session.title.as_deref(), Some("browser, sample 1, epoch 1"));
    assert_eq!(
        usages(&session),
        [
            Some((1124, 23, 0)),
            Some((1568, 17, 1024)),
            Some((2732, 17, 1536)),
            Some((3896, 17, 2688)),
            Some((5915, 207, 3840))
        ]
    );
    let at = |fits: fn(&EventBody) -> bool| session.events.iter().find(|(_, b)| fits(b)).map(|(at, _)| *at);
    assert_eq!(at(|body| matches!(body, EventBody::MessagesTaken { .. })), Some(1_747_096_056_998));
    assert_eq!(at(|body| matches!(body, EventBody::ToolFinished { .. })), Some(1_747_096_064_080));
    assert_eq!(session.events.last().map(|(at, _)| *at), Some(1_747_096_076_685));
    let tools: Vec<serde_json::Value> =
        serde_json::from_str(session.tools.as_deref().expect("tools")).expect("a list");
    assert_eq!((tools.len(), tools[0]["name"].as_str()), (8, Some("web_browser_go")));
}

#[test]
fn a_tape_has_calls_for_its_actions() {
    let name = "ServiceNow__TapeAgents/task1_seed42_workarena.servicenow.multi-chart-min-max-retrieval.json";
    let Some(session) = session(name, ImportFormat::TapeAgents, [1, 1, 13, 5, 5, 0]) else { return };
    assert_eq!(warnings(&session), ["steps of kind `set_next_node` have no counterpart here: 5 left out"]);
    assert!(session.title.as_deref().is_some_and(|title| title.starts_with("What is the minimum value")));
    assert_eq!((session.system_prompt.as_deref(), session.tools.as_deref()), (None, None));
    let statuses: Vec<bool> = results(&session).iter().map(|result| result.status == Status::Error).collect();
    assert_eq!(statuses, [false, false, false, true, true]);
    let calls: Vec<(&str, &str)> = session
        .events
        .iter()
        .filter_map(|(_, body)| message(body))
        .flat_map(Message::tool_calls)
        .map(|call| (call.name.as_str(), call.arguments.as_str()))
        .collect();
    assert_eq!(calls[0], ("hover_action", r#"{"bid":"a251"}"#));
    assert_eq!(calls[1], ("click_action", r#"{"bid":"a251","button":"left","modifiers":[]}"#));
}

#[test]
fn claude_code_sessions() {
    let name = "daaain__claude-code-log/representative_messages.jsonl";
    if let Some(session) = session(name, ImportFormat::ClaudeCode, [4, 0, 5, 2, 2, 0]) {
        assert!(session.warnings.is_empty(), "{:?}", session.warnings);
        assert_eq!(
            session.title.as_deref(),
            Some("User learned about Python decorators, including basic decorators and parameteriz")
        );
        assert_eq!(usages(&session)[0], Some((25, 120, 0)));
        assert_eq!(session.events.last().map(|(at, _)| *at), Some(1_749_895_440_000));
    }
    let name = "daaain__claude-code-log/todowrite_examples.jsonl";
    let Some(session) = session(name, ImportFormat::ClaudeCode, [2, 0, 6, 3, 3, 0]) else { return };
    assert!(session.warnings.is_empty(), "{:?}", session.warnings);
    assert_eq!(session.title.as_deref(), Some("Feature Implementation with Task Management"));
    let used: Vec<_> = usages(&session).into_iter().flatten().map(|(input, ..)| input).collect();
    assert_eq!(used, [20, 25, 150, 168, 250, 270]);
    let names: Vec<&str> = session
        .events
        .iter()
        .filter_map(|(_, body)| message(body))
        .flat_map(Message::tool_calls)
        .map(|call| call.name.as_str())
        .collect();
    assert_eq!(names, ["TodoWrite"; 3]);
}

/// No file of the collection is left without a reader.
#[test]
fn every_file_of_the_collection_is_recognised() {
    let folder: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "../../../shared/fixtures/trajectories"].iter().collect();
    if fixture("SOURCES.md").is_none() {
        return;
    }
    let mut read = 0;
    for owner in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        if !owner.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&owner).unwrap().map(|entry| entry.unwrap().path()) {
            let bytes = std::fs::read(&file).unwrap();
            let import = import(&bytes, 0).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            for session in &import.sessions {
                assert_valid(session);
            }
            read += 1;
        }
    }
    assert!(read >= 16, "{read} files");
}
