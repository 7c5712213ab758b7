//! Servers that are programs.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use longhaul::config::{McpCommand, McpTransport};
use longhaul::mcp::McpLaunchOptions;
use longhaul::sandbox::{Confinement, NetworkAccess};
use longhaul::tools::{ToolInput, ToolOutputPart};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{PATIENCE, Place, Running, SCHEMA, StoppedClock, alive, python, script, server, until};

/// The script in a mode; `None` without a Python.
async fn started(test: &str, mode: &[&str]) -> Option<(Place, Running)> {
    let python = python(test)?;
    let place = Place::new();
    let running = place.start(script(python, mode)).await.unwrap();
    Some((place, running))
}

#[tokio::test]
async fn tools_come_in_one_order_with_their_own_schemas() {
    let Some((_place, running)) = started("tools_come_in_one_order_with_their_own_schemas", &["plain"]).await
    else {
        return;
    };
    let specs: Vec<_> = running.servers.tools().iter().map(|tool| tool.spec()).collect();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names.len(), 17, "both pages: {names:?}");
    assert!(names.is_sorted() && names.contains(&"t__zebra"), "{names:?}");
    let known = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(names.iter().all(|name| name.len() <= 64 && name.chars().all(known)), "{names:?}");
    let echo = specs.iter().find(|spec| spec.name == "t__echo").unwrap();
    assert_eq!(echo.parameters.as_str(), SCHEMA);
    assert_eq!((echo.source.as_str(), echo.description.as_str()), ("t", "Gives back what it was sent."));
    let read_only: Vec<&str> =
        specs.iter().filter(|spec| spec.read_only).map(|spec| spec.name.as_str()).collect();
    assert_eq!(read_only, ["t__look"]);
    assert!(!running.tool("look").is_vouched_for(), "somebody else's word");
    let odd = names.iter().find(|name| name.starts_with("t__odd_n_me_")).unwrap();
    assert_eq!(running.ok(odd.strip_prefix("t__").unwrap(), "{}").await, "seen", "called by its own name");
}

#[tokio::test]
async fn arguments_arrive_as_the_model_wrote_them() {
    let Some((_place, running)) = started("arguments_arrive_as_the_model_wrote_them", &["plain"]).await
    else {
        return;
    };
    let written = "{\"n\": 1.10,\n\t\"big\":12345678901234567890123, \"text\":\"\\u00e9 \\/\", \"n\":1e2}";
    let line = running.ok("echo", written).await;
    assert!(line.contains(&written.replace('\n', " ")), "{line}");
    assert!(running.ok("echo", "null").await.contains(r#""name":"echo""#));
    assert!(running.fails("echo", "[1]").await.contains("one JSON object"));
}

#[tokio::test]
async fn answers_of_every_kind() {
    let Some((_place, running)) = started("answers_of_every_kind", &["plain"]).await else { return };
    let picture = running.call("picture", "{}").await;
    assert_eq!(picture.as_text(), "before\n[Attachment 1: image/png, 70 bytes]\nafter");
    let [_, ToolOutputPart::Media { bytes, media_type, .. }] = &picture.content[..] else {
        panic!("{picture:?}")
    };
    assert_eq!((&bytes[1..4], media_type.as_str()), (&b"PNG"[..], "image/png"));
    let structured = running.ok("structured", "{}").await;
    assert_eq!(structured, r#"{"price": 1.10,"id":12345678901234567890123}"#);
    assert_eq!(running.fails("fail", "{}").await, "it did not work");
    let refused = running.fails("refuse", "{}").await;
    assert!(refused.contains("`t` refused the call: never heard of it (-32602)"), "{refused}");
}

/// Tools as real servers list them: a union at the root, references, names that begin with `$`, no schema, a broken
/// one.
const FOREIGN_TOOLS: &str = r##"[
    {"name":"attach","inputSchema":{"type":"object","anyOf":[{"properties":{"content":{"type":"string"}},"required":["content"]},
        {"properties":{"url":{"$ref":"#/$defs/url"}},"required":["url"]}],"$defs":{"url":{"type":"string"}}}},
    {"name":"find","inputSchema":{"type":"object","properties":{"$filter":{"type":"string"},"n":{"type":"number"}},"required":["$filter"]}},
    {"name":"bare"}, {"name":"none","inputSchema":null}, {"name":"empty","inputSchema":{}},
    {"name":"broken","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://example.org/a.json"}}}},
    {"name":"text","inputSchema":{"type":"string"}}
]"##;

/// A server that lists these tools, and what is changed of its configuration.
async fn listed(
    test: &str,
    tools: &str,
    change: impl FnOnce(&mut longhaul::config::McpServerConfig),
) -> Option<(Place, Running)> {
    let python = python(test)?;
    let place = Place::new();
    fs::write(place.path("ws/tools.json"), tools).unwrap();
    let mut config = script(python, &["listed", "tools.json"]);
    change(&mut config);
    let running = place.start(config).await.unwrap();
    Some((place, running))
}

fn names(running: &Running) -> Vec<String> {
    running.servers.tools().iter().map(|tool| tool.spec().name).collect()
}

#[tokio::test]
async fn foreign_schemas_are_normalised_and_a_broken_one_costs_its_tool_alone() {
    let test = "foreign_schemas_are_normalised_and_a_broken_one_costs_its_tool_alone";
    let Some((_place, running)) = listed(test, FOREIGN_TOOLS, |_| {}).await else { return };
    assert_eq!(names(&running), ["t__attach", "t__bare", "t__empty", "t__find", "t__none"]);
    for tool in running.servers.tools() {
        let schema: serde_json::Value = serde_json::from_str(tool.spec().parameters.as_str()).unwrap();
        assert_eq!(schema["type"], "object", "{schema}");
        assert!(schema["properties"].is_object() && schema.get("anyOf").is_none(), "{schema}");
        assert!(!schema.to_string().contains('$'), "{schema}");
    }
    let sent = running.ok("find", r#"{"filter":"x","n": 1.10}"#).await;
    assert!(sent.contains(r#""arguments":{"$filter":"x","n":1.10}"#), "{sent}");
    let sent = running.ok("attach", r#"{ "url": "u" }"#).await;
    assert!(sent.contains(r#""arguments":{ "url": "u" }"#), "what was not changed keeps its bytes: {sent}");
}

#[tokio::test]
async fn a_servers_tools_are_allowed_and_denied_by_name() {
    let test = "a_servers_tools_are_allowed_and_denied_by_name";
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (allow, deny, expected) in [
        (owned(&["find", "bare"]), owned(&[]), owned(&["t__bare", "t__find"])),
        (owned(&[]), owned(&["find", "b*"]), owned(&["t__attach", "t__empty", "t__none"])),
        (owned(&["*n*"]), owned(&["none"]), owned(&["t__find"])),
    ] {
        let choose = |config: &mut longhaul::config::McpServerConfig| {
            config.tools.allow = allow.clone();
            config.tools.deny = deny.clone();
        };
        let Some((_place, running)) = listed(test, FOREIGN_TOOLS, choose).await else { return };
        assert_eq!(names(&running), expected, "{allow:?} {deny:?}");
    }
}

/// Cancels as soon as the call has made progress.
async fn cancelled(running: &Running, tool: &str) -> (longhaul::tools::ToolOutput, Duration) {
    let cancel = CancellationToken::new();
    let (context, mut watching) = running.context(&cancel);
    let tool = running.tool(tool);
    let call = tokio::spawn(async move { tool.run(ToolInput::new(json!({}), context)).await });
    let first = watching.recv().await.unwrap();
    let second = watching.recv().await.unwrap();
    assert_eq!((first.offset, first.text.as_str()), (0, "[1 of 100] still here\n"));
    assert_eq!((second.offset, second.text.as_str()), (22, "[2 of 100] still here\n"));
    let begun = Instant::now();
    cancel.cancel();
    (call.await.unwrap(), begun.elapsed())
}

#[tokio::test]
async fn an_optional_program_that_never_answers_is_waited_for_no_longer_than_for_a_call() {
    let args = ["-c", "echo $$ > pid; exec sleep 600"].map(str::to_owned).to_vec();
    let command = McpCommand { program: "/bin/sh".to_owned(), args, env: BTreeMap::new(), network: None };
    let mut config = server(McpTransport::Command(command));
    (config.timeout, config.optional) = (Duration::from_millis(700), true);
    let place = Place::new();
    let begun = Instant::now();
    let error = place.start(config).await.err().unwrap();
    assert!(error.optional && error.why.contains("within 0.7 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20), "it was waited for longer");
    // The program may be ended before it has written its number.
    if let Ok(pid) = fs::read_to_string(place.path("ws/pid")) {
        until("the program to be ended", || !alive(pid.trim())).await;
    }
}

#[tokio::test]
async fn a_cancelled_call_is_called_off() {
    let Some((place, running)) = started("a_cancelled_call_is_called_off", &["plain"]).await else { return };
    let (output, took) = cancelled(&running, "wait").await;
    assert!(output.cancelled && output.is_error, "{output:?}");
    assert!(took < PATIENCE / 2, "{took:?}");
    let heard = place.path("ws/cancelled.txt");
    until("the server to hear of it", || {
        fs::read_to_string(&heard).is_ok_and(|text| text.contains("cancelled"))
    })
    .await;
    running.ok("echo", "{}").await;
}

#[tokio::test]
async fn an_answer_that_comes_within_the_grace_counts() {
    let Some((_place, running)) = started("an_answer_that_comes_within_the_grace_counts", &["plain"]).await
    else {
        return;
    };
    // However slow the machine is, the answer comes within the grace.
    let _clock = StoppedClock::new();
    let (output, _) = cancelled(&running, "late").await;
    assert!(!output.cancelled && !output.is_error, "{output:?}");
    assert_eq!(output.as_text(), "done all the same");
}

#[tokio::test]
async fn calls_do_not_wait_for_each_other_and_end_with_their_time() {
    let test = "calls_do_not_wait_for_each_other_and_end_with_their_time";
    let Some(python) = python(test) else { return };
    let place = Place::new();
    let running = place.start(script(python, &["plain"])).await.unwrap();
    let waiting = running.fails("wait", "{}");
    let answered = async {
        running.ok("echo", "{}").await;
        // Time that is paused goes on to the time limit as soon as nothing else is to be done.
        tokio::time::pause();
        Instant::now()
    };
    let ((late, ended), answered) = tokio::join!(async { (waiting.await, Instant::now()) }, answered);
    tokio::time::resume();
    assert!(answered < ended);
    assert!(late.contains("did not answer within 60000 ms") && late.contains("effect is unknown"), "{late}");
    let heard = place.path("ws/cancelled.txt");
    until("the server to hear of it", || {
        fs::read_to_string(&heard).is_ok_and(|text| text.contains("too long"))
    })
    .await;
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_started_again() {
    let Some((_place, running)) = started("a_server_that_dies_in_a_call_is_started_again", &["plain"]).await
    else {
        return;
    };
    let first = running.ok("pid", "{}").await;
    let (first, child) = first.split_once(' ').unwrap();
    let told = running.fails("die", "{}").await;
    assert!(
        told.contains("lost in the middle of the call: its program has ended with exit code 3"),
        "{told}"
    );
    assert!(told.contains("effect is unknown") && !told.contains("last words"), "{told}");
    until("the group to end", || !alive(first) && !alive(child)).await;
    let second = running.ok("pid", "{}").await;
    assert!(!second.starts_with(&format!("{first} ")), "{second}");
}

#[tokio::test]
async fn a_server_that_ended_between_calls_is_started_again_without_a_word() {
    let test = "a_server_that_ended_between_calls_is_started_again_without_a_word";
    let Some((_place, running)) = started(test, &["plain"]).await else { return };
    let first = running.ok("pid", "{}").await;
    let first = first.split_once(' ').unwrap().0;
    let pid = rustix::process::Pid::from_raw(first.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until("its end", || !alive(first)).await;
    // What was sent before the end was noticed may be lost, and is then told as lost.
    let mut output = running.call("pid", "{}").await;
    if output.is_error {
        assert!(output.as_text().contains("signal 9"), "{output:?}");
        output = running.call("pid", "{}").await;
    }
    assert!(!output.is_error, "{output:?}");
}

#[tokio::test]
async fn a_server_that_cannot_be_started_again_is_told_and_tried_again() {
    let test = "a_server_that_cannot_be_started_again_is_told_and_tried_again";
    let Some((place, running)) = started(test, &["once", "starts.txt"]).await else { return };
    running.fails("die", "{}").await;
    // The pause begins at some time within this call, so it cannot be over sooner than its length from here on.
    let begun = Instant::now();
    let told = running.fails("echo", "{}").await;
    assert!(told.contains("the call was not made") && told.contains("could not be started again"), "{told}");
    assert!(!told.contains("licence"), "{told}");
    fs::remove_file(place.path("ws/starts.txt")).unwrap();
    running.ok("echo", "{}").await;
    assert!(begun.elapsed() > Duration::from_millis(500), "after a pause: {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_program_that_was_changed_is_not_started_again_with_more_than_commands_may() {
    let test = "a_program_that_was_changed_is_not_started_again_with_more_than_commands_may";
    let Some(python) = python(test) else { return };
    for (network, is_refused) in [(Some(NetworkAccess::Open), true), (None, false)] {
        let mut place = Place::new();
        place.policy.network = NetworkAccess::Denied;
        let mut config = script(python, &["plain"]);
        let McpTransport::Command(command) = &mut config.transport else { panic!() };
        command.network = network;
        let Ok(running) = place.start(config).await else {
            eprintln!("SKIPPED {test}: the network cannot be denied");
            assert!(network.is_none() && std::env::var_os("LONGHAUL_REQUIRE_LANDLOCK").is_none());
            continue;
        };
        let file = place.path("ws/server.py");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{before}\n# changed\n")).unwrap();
        running.fails("die", "{}").await;
        let output = running.call("echo", "{}").await;
        assert_eq!(output.is_error, is_refused, "{output:?}");
        if is_refused {
            let told = output.as_text();
            assert!(told.contains("the call was not made") && told.contains("`server.py`"), "{told}");
            assert!(
                told.contains("has changed since its first start") && told.contains("check the file"),
                "{told}"
            );
            fs::write(&file, before).unwrap();
            running.ok("echo", "{}").await;
        }
    }
}

async fn changed(running: &Running) {
    running.ok("change", "{}").await;
    until("the change to be noticed", || !running.servers.changes().is_empty()).await;
}

async fn the_list_stays(running: Running) {
    let before: Vec<_> = running.servers.tools().iter().map(|tool| tool.spec()).collect();
    changed(&running).await;
    let after: Vec<_> = running.servers.tools().iter().map(|tool| tool.spec()).collect();
    assert!(before == after, "the model's list moved");
    let change = running.servers.changes().remove(0);
    assert_eq!((change.added, change.removed), (vec!["t__extra".to_owned()], vec!["t__fail".to_owned()]));
    assert_eq!(change.changed, ["t__refuse"]);
    let gone = running.fails("fail", "{}").await;
    assert!(gone.contains("`t` no longer offers `fail`"), "{gone}");
    let told = running.fails("refuse", "{}").await;
    assert!(told.starts_with("not like that\n[The server has changed this tool"), "{told}");
    running.ok("change", "{}").await;
    until("the old list", || running.servers.changes().is_empty()).await;
    assert_eq!(running.fails("fail", "{}").await, "it did not work");
}

#[tokio::test]
async fn a_list_that_changes_is_told_and_the_models_list_stays() {
    let test = "a_list_that_changes_is_told_and_the_models_list_stays";
    let Some((_place, running)) = started(test, &["plain"]).await else { return };
    the_list_stays(running).await;
}

#[tokio::test]
async fn servers_of_the_protocol_without_a_handshake() {
    let Some((_place, running)) = started("servers_of_the_protocol_without_a_handshake", &["modern"]).await
    else {
        return;
    };
    let line = running.ok("echo", r#"{"n": 1.10}"#).await;
    assert!(line.contains(r#""arguments":{"n": 1.10}"#) && line.contains("2026-07-28"), "{line}");
    the_list_stays(running).await;
}

#[tokio::test]
async fn lines_that_are_no_messages_are_passed_over() {
    let Some((_place, running)) = started("lines_that_are_no_messages_are_passed_over", &["noisy"]).await
    else {
        return;
    };
    running.ok("echo", "{}").await;
}

/// Makes the server write a line of ours as its answer.
fn raw(line: &str, pad: usize) -> String {
    json!({ "line": line, "pad": pad }).to_string()
}

#[tokio::test]
async fn an_answer_that_is_hard_to_read_is_read_at_once() {
    let Some(python) = python("an_answer_that_is_hard_to_read_is_read_at_once") else { return };
    let mut config = script(python, &["plain"]);
    // An answer that is noticed only when the time is up is taken then, too.
    config.timeout = 60 * PATIENCE;
    let running = Place::new().start(config).await.unwrap();
    let block = r#"{"type":"text","text":"half: \ud800"}"#;
    let half = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":[{block}]}}}}"#);
    let told = tokio::time::timeout(PATIENCE, running.ok("raw", &raw(&half, 0))).await;
    assert_eq!(told.unwrap(), block, "as it was written");
    let nested = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let deep = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"structuredContent":{nested}}}}}"#);
    let told = tokio::time::timeout(PATIENCE, running.ok("raw", &raw(&deep, 0))).await;
    assert_eq!(told.unwrap(), nested);
    running.ok("echo", "{}").await;
}

#[tokio::test]
async fn an_answer_that_nobody_can_read_fails_its_call_at_once() {
    let test = "an_answer_that_nobody_can_read_fails_its_call_at_once";
    let Some((_place, running)) = started(test, &["plain"]).await else { return };
    let pid = running.ok("pid", "{}").await;
    for line in [
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":NaN}]}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"\ud800"}}"#,
        r#"{"jsonrpc":"2.0","result":{"content":["#,
    ] {
        let told = running.fails("raw", &raw(line, 0)).await;
        assert!(told.contains("`t` answered, but the answer cannot be read: it is not JSON"), "{told}");
        assert!(told.contains("effect is unknown"), "{told}");
    }
    let again = running.ok("pid", "{}").await;
    assert_eq!(pid.split(' ').next(), again.split(' ').next(), "the server lives on");
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_told_as_that() {
    let Some((_place, running)) = started("an_answer_that_is_too_large_is_told_as_that", &["plain"]).await
    else {
        return;
    };
    let pid = running.ok("pid", "{}").await;
    let large = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"PAD"}]}}"#;
    let told = running.fails("raw", &raw(large, 70 << 20)).await;
    assert!(told.contains("the answer cannot be read: it is larger than 64 MiB"), "{told}");
    let again = running.ok("pid", "{}").await;
    assert_eq!(pid.split(' ').next(), again.split(' ').next(), "the server lives on");
}

#[tokio::test]
async fn a_secret_that_a_program_repeats_is_not_shown() {
    let Some(python) = python("a_secret_that_a_program_repeats_is_not_shown") else { return };
    let mut config = script(python, &["plain"]);
    let McpTransport::Command(command) = &mut config.transport else { panic!() };
    command.env.insert("FILES_TOKEN".into(), "s3cret-of-files".into());
    let running = Place::new().start(config).await.unwrap();
    let seen = running.ok("environment", "{}").await;
    assert!(seen.contains("FILES_TOKEN=[redacted]") && !seen.contains("s3cret"), "{seen}");
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_named_with_its_last_words() {
    let Some(python) = python("a_server_that_cannot_be_started_is_named_with_its_last_words") else { return };
    let place = Place::new();
    let broken = place.start(script(python, &["broken"])).await.err().unwrap().to_string();
    assert!(broken.starts_with("the MCP server `t` could not be started: "), "{broken}");
    assert!(broken.contains("exit code 7") && broken.contains("no licence found"), "{broken}");
    let missing = place.start(script("no-such-program", &[])).await.err().unwrap().to_string();
    assert!(missing.contains("no-such-program could not be started"), "{missing}");
}

#[tokio::test]
async fn a_server_that_never_answers_does_not_hang_the_agent() {
    let Some(python) = python("a_server_that_never_answers_does_not_hang_the_agent") else { return };
    let place = Place::new();
    let mut at = McpLaunchOptions::new(place.base.join("ws"), place.sandbox());
    at.start_timeout = Duration::from_secs(2);
    let begun = Instant::now();
    let error = place.start_at(script(python, &["silent"]), at).await.err().unwrap().to_string();
    assert!(error.contains("`t` could not be started: it did not answer within 2 s"), "{error}");
    assert!(begun.elapsed() < PATIENCE / 2);
}

#[tokio::test]
async fn dropping_the_tools_leaves_no_process() {
    let Some((_place, running)) = started("dropping_the_tools_leaves_no_process", &["plain"]).await else {
        return;
    };
    let pids = running.ok("pid", "{}").await;
    let (leader, child) = pids.split_once(' ').unwrap();
    let last = running.tool("echo");
    drop(running);
    assert!(alive(leader) && alive(child), "a tool is left, and with it its server");
    drop(last);
    until("the group to end", || !alive(leader) && !alive(child)).await;
}

#[tokio::test]
async fn closing_lets_the_server_end_by_itself() {
    let Some((place, running)) = started("closing_lets_the_server_end_by_itself", &["plain"]).await else {
        return;
    };
    let pids = running.ok("pid", "{}").await;
    let (leader, child) = pids.split_once(' ').unwrap();
    running.servers.close().await;
    assert!(!alive(leader) && !alive(child), "{pids}");
    assert_eq!(fs::read_to_string(place.path("ws/ended.txt")).unwrap(), "input closed\n");
}

#[tokio::test]
async fn the_environment_is_the_configured_one() {
    let Some(python) = python("the_environment_is_the_configured_one") else { return };
    let mut place = Place::new();
    let inherited = [("PATH", "/usr/bin:/bin"), ("LC_ALL", "C"), ("PROVIDER_API_KEY", "key-value")];
    place.policy.environment = inherited.map(|(name, value)| (name.into(), value.into())).to_vec();
    let mut config = script(python, &["plain"]);
    let McpTransport::Command(command) = &mut config.transport else { panic!() };
    command.env.insert("FILES_PLACE".into(), "configured-value".into());
    let running = place.start(config).await.unwrap();
    let seen = running.ok("environment", "{}").await;
    assert!(seen.contains("FILES_PLACE=configured-value") && seen.contains("LC_ALL=C"), "{seen}");
    assert!(!seen.contains("key-value"), "{seen}");
    let known = ["PATH", "LC_ALL", "HOME", "TMPDIR", "FILES_PLACE", "LC_CTYPE"];
    let names = seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    assert_eq!(names.filter(|name| !known.contains(name)).collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test]
async fn the_data_folder_is_closed_to_servers() {
    let test = "the_data_folder_is_closed_to_servers";
    let Some(python) = python(test) else { return };
    let mut place = Place::new();
    let status = place.sandbox().status().clone();
    if !matches!(status.confinement, Confinement::Landlock { .. }) {
        eprintln!("SKIPPED {test}: {status}");
        assert!(std::env::var_os("LONGHAUL_REQUIRE_LANDLOCK").is_none(), "{test} needs Landlock: {status}");
        return;
    }
    let read = json!({ "path": place.path("data/secret") }).to_string();
    let confined = place.start(script(python, &["plain"])).await.unwrap();
    let told = confined.fails("read", &read).await;
    assert!(told.contains("Permission denied") && !told.contains("hidden-content"), "{told}");
    let own = json!({ "path": "server.py" }).to_string();
    assert!(confined.ok("read", &own).await.contains("An MCP server for tests"));
    place.policy.confine = false;
    let free = place.start(script(python, &["plain"])).await.unwrap();
    assert_eq!(free.ok("read", &read).await, "hidden-content", "the same read, unconfined");
}
