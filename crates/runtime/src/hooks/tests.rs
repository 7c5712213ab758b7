//! Each kind of hook at each event, and everything that can go wrong with one.

use std::fmt::Debug;
use std::fs;
use std::future::ready;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use longhaul_testkit::{ReceivedRequest, ScriptedUpstream, UpstreamAnswer};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;
use crate::sandbox::{Sandbox, SandboxPolicy};
use crate::testing::set_thread_subscriber;

/// A machine that runs many tests at once is slow.
const PATIENCE: Duration = Duration::from_secs(60);

const EVENTS: [HookEvent; 4] =
    [HookEvent::PreCompact, HookEvent::PreToolUse, HookEvent::PostToolUse, HookEvent::UserPromptSubmit];

fn everywhere(hook: Arc<dyn Hook>, deadline: Duration) -> HookSet {
    EVENTS.into_iter().fold(HookSet::new(), |hooks, event| hooks.with(event, Arc::clone(&hook), deadline))
}

fn before_compaction() -> PreCompactRequest {
    PreCompactRequest {
        session_id: "s-1".into(),
        trigger: PreCompactTrigger::Auto,
        reason: "over the trigger".to_owned(),
        current_tokens: 9_000,
        target_tokens: 4_000,
        message_count: 12,
        what_goes: CompactionScope { messages: 8, handles: vec!["e1-e8".to_owned()] },
        custom_instructions: None,
    }
}

fn before_tool() -> PreToolUseRequest {
    let args = json!({ "command": "ls" });
    PreToolUseRequest { session_id: "s-1".into(), tool_name: "bash".into(), call_id: "c-1".into(), args }
}

fn after_tool() -> PostToolUseRequest {
    let PreToolUseRequest { session_id, tool_name, call_id, args } = before_tool();
    PostToolUseRequest { session_id, tool_name, call_id, args, success: true, result: "a.txt".to_owned() }
}

fn prompt() -> UserPromptSubmitRequest {
    UserPromptSubmitRequest { session_id: "s-1".into(), prompt: "a s3cret prompt".to_owned() }
}

/// The requests of the four events, in the order of [`EVENTS`].
fn asked() -> [Value; 4] {
    [
        json!({
            "hook": "preCompact", "sessionId": "s-1", "trigger": "auto", "reason": "over the trigger",
            "currentTokens": 9000, "targetTokens": 4000, "messageCount": 12,
            "whatGoes": { "messages": 8, "handles": ["e1-e8"] }, "deadlineMs": 60000,
        }),
        json!({ "hook": "preToolUse", "sessionId": "s-1", "toolName": "bash", "callId": "c-1", "args": { "command": "ls" } }),
        json!({
            "hook": "postToolUse", "sessionId": "s-1", "toolName": "bash", "callId": "c-1",
            "args": { "command": "ls" }, "success": true, "result": "a.txt",
        }),
        json!({ "hook": "userPromptSubmit", "sessionId": "s-1", "prompt": "a s3cret prompt" }),
    ]
}

/// One answer that says everything that any event understands.
fn everything() -> Value {
    json!({
        "cancel": true, "customInstructions": "keep names", "customSummary": "all went well",
        "decision": "deny", "reason": "because", "args": { "command": "pwd" },
        "block": true, "addedContext": "mind the gap",
    })
}

/// Asks at each event and compares what arrives with [`everything`].
async fn hears_everything(hooks: &HookSet) {
    let why = Some("because".to_owned());
    let more = Some("mind the gap".to_owned());
    let compact = PreCompactResponse {
        cancel: true,
        reason: why.clone(),
        custom_instructions: Some("keep names".to_owned()),
        custom_summary: Some("all went well".to_owned()),
    };
    assert_eq!(hooks.pre_compact(before_compaction()).await, Some(compact));
    let args = json!({ "command": "pwd" }).as_object().cloned();
    let before = PreToolUseResponse { decision: Some(PreToolUseDecision::Deny), reason: why.clone(), args };
    assert_eq!(hooks.pre_tool_use(before_tool()).await, Some(before));
    let after = PostToolUseResponse { added_context: more.clone() };
    assert_eq!(hooks.post_tool_use(after_tool()).await, Some(after));
    let message = UserPromptSubmitResponse { block: true, reason: why, added_context: more };
    assert_eq!(hooks.user_prompt_submit(prompt()).await, Some(message));
}

/// Returns whether every event goes on without an answer.
async fn is_ignored(hooks: &HookSet) -> bool {
    hooks.pre_compact(before_compaction()).await.is_none()
        && hooks.pre_tool_use(before_tool()).await.is_none()
        && hooks.post_tool_use(after_tool()).await.is_none()
        && hooks.user_prompt_submit(prompt()).await.is_none()
}

/// The folder in which commands run.
struct Place {
    dir: tempfile::TempDir,
    policy: SandboxPolicy,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["ws", "scratch"] {
            fs::create_dir(base.join(folder)).unwrap();
        }
        let policy = SandboxPolicy::new(base.join("ws"), base.join("scratch"));
        Self { dir, policy }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("ws").join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    fn command(&self, line: &str) -> Arc<dyn Hook> {
        let sandbox = Arc::new(Sandbox::new(self.policy.clone()).unwrap());
        Arc::new(CommandHook::new(line, &self.policy.workspace, sandbox))
    }

    fn hooks(&self, line: &str) -> HookSet {
        everywhere(self.command(line), PATIENCE)
    }
}

#[tokio::test]
async fn a_closure_is_asked_and_heard_at_every_event() {
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let asks = Arc::clone(&seen);
    let hook = ClosureHook::new(move |ask| {
        asks.lock().unwrap().push(ask);
        ready(Ok(everything()))
    });
    hears_everything(&everywhere(Arc::new(hook), PATIENCE)).await;
    assert_eq!(*seen.lock().unwrap(), asked());
}

#[tokio::test]
async fn a_command_is_asked_and_heard_at_every_event() {
    let place = Place::new();
    fs::write(place.file("answer.json"), everything().to_string()).unwrap();
    hears_everything(&place.hooks("cat >> asks; echo >> asks; cat answer.json")).await;
    let asks: Vec<Value> =
        place.read("asks").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(asks, asked());
}

#[tokio::test]
async fn a_server_is_asked_and_heard_at_every_event() {
    let server = serve(200, everything()).await;
    hears_everything(&asking(&server)).await;
    let seen = server.received();
    assert_eq!(seen.iter().map(ReceivedRequest::json).collect::<Vec<_>>(), asked());
    let mut names: Vec<&str> = seen[0].headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "content-length", "content-type", "host", "user-agent"]);
    assert_eq!(seen[0].headers["content-type"], "application/json");
}

/// Starts a server that gives every request this answer.
async fn serve(status: u16, answer: impl ToString) -> ScriptedUpstream {
    let answer = answer.to_string();
    ScriptedUpstream::start(move |_| UpstreamAnswer::Text(status, "text/plain", answer.clone())).await
}

/// Returns hooks that ask a server at every event.
fn asking(server: &ScriptedUpstream) -> HookSet {
    everywhere(Arc::new(HttpHook::new(&server.url("/hook?key=s3cret")).unwrap()), PATIENCE)
}

#[tokio::test]
async fn exit_code_2_means_no_for_the_reason_on_standard_error() {
    let place = Place::new();
    // What stands on standard output does not count then.
    let hooks =
        place.hooks("echo '{\"decision\":\"allow\",\"block\":false}'; echo ' not today ' >&2; exit 2");
    let why = Some("not today".to_owned());
    assert!(hooks.pre_compact(before_compaction()).await.unwrap().cancel);
    let before = hooks.pre_tool_use(before_tool()).await.unwrap();
    assert_eq!((before.decision, &before.reason), (Some(PreToolUseDecision::Deny), &why));
    assert_eq!(hooks.post_tool_use(after_tool()).await.unwrap().added_context, why);
    let message = hooks.user_prompt_submit(prompt()).await.unwrap();
    assert!(message.block && message.reason == why, "{message:?}");
    let silent = place.hooks("exit 2").user_prompt_submit(prompt()).await.unwrap();
    assert_eq!((silent.block, silent.reason), (true, None));
}

#[tokio::test]
async fn nothing_said_is_no_objection() {
    let place = Place::new();
    for line in ["true", "echo", "echo null", "echo '{}'"] {
        let hooks = place.hooks(line);
        assert_eq!(
            hooks.pre_compact(before_compaction()).await,
            Some(PreCompactResponse::default()),
            "{line}"
        );
        assert_eq!(hooks.pre_tool_use(before_tool()).await, Some(PreToolUseResponse::default()), "{line}");
    }
    let silent = serve(204, "").await;
    assert_eq!(asking(&silent).post_tool_use(after_tool()).await, Some(PostToolUseResponse::default()));
    assert_eq!(HookSet::new().pre_tool_use(before_tool()).await, None);
}

#[tokio::test]
async fn failures_and_rubbish_are_ignored() {
    let place = Place::new();
    for line in
        ["exit 1", "exit 3", "kill -9 $$", "./not-there", "echo hello", "echo '[]'", "echo '{\"block\":'"]
    {
        assert!(is_ignored(&place.hooks(line)).await, "{line}");
    }
    // A field of the wrong kind.
    let hooks = place.hooks(r#"echo '{"args":[1],"block":"yes","cancel":1,"addedContext":5}'"#);
    assert!(is_ignored(&hooks).await);
    assert!(is_ignored(&place.hooks(r#"printf '{"addedContext":"\377"}'"#)).await);
    let unknown = place.hooks(r#"echo '{"decision":"ask"}'"#);
    assert_eq!(unknown.pre_tool_use(before_tool()).await, None);
    let fails = ClosureHook::new(|_| ready(Err(HookError::Failed("no".to_owned()))));
    assert!(is_ignored(&everywhere(Arc::new(fails), PATIENCE)).await);
}

#[tokio::test]
async fn a_closure_that_panics_or_never_ends_is_ignored() {
    let early = ClosureHook::new(|ask: Value| {
        assert!(ask.is_null(), "panics before there is a future");
        ready(Ok(ask))
    });
    let late = ClosureHook::new(|ask: Value| async move {
        assert!(ask.is_null(), "panics inside the future");
        Ok(ask)
    });
    assert!(is_ignored(&everywhere(Arc::new(early), PATIENCE)).await);
    assert!(is_ignored(&everywhere(Arc::new(late), PATIENCE)).await);
    let never = ClosureHook::new(|_| std::future::pending());
    assert!(is_ignored(&everywhere(Arc::new(never), Duration::from_millis(20))).await);
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let place = Place::new();
    let hooks = place.hooks("exec yes");
    assert!(tokio::time::timeout(PATIENCE / 2, is_ignored(&hooks)).await.unwrap());
    let long = format!(r#"{{"addedContext":"{}"}}"#, "x".repeat(MAX_ANSWER_BYTES));
    assert!(is_ignored(&asking(&serve(200, long).await)).await);
    // The largest allowed answer must still pass.
    let most = MAX_ANSWER_BYTES - r#"{"addedContext":""}"#.len();
    let line = format!(r#"printf '{{"addedContext":"%{most}s"}}' x"#);
    let added = place.hooks(&line).post_tool_use(after_tool()).await.unwrap().added_context.unwrap();
    assert_eq!(added.len(), most);
}

#[tokio::test]
async fn much_is_asked_and_much_is_complained_without_a_jam() {
    let place = Place::new();
    let long = UserPromptSubmitRequest { session_id: "s-1".into(), prompt: "x".repeat(4 << 20) };
    let deaf = place.hooks("head -c 3000000 /dev/zero >&2; echo '{\"addedContext\":\"heard\"}'");
    let answer = deaf.user_prompt_submit(long.clone()).await.unwrap();
    assert_eq!(answer.added_context.as_deref(), Some("heard"));
    let counts = place.hooks("printf '{\"addedContext\":\"%s\"}' $(wc -c)");
    let answer = counts.user_prompt_submit(long).await.unwrap();
    let asked = r#"{"hook":"userPromptSubmit","sessionId":"s-1","prompt":""}"#.len() + (4 << 20);
    assert_eq!(answer.added_context, Some(asked.to_string()));
}

#[tokio::test]
async fn a_hung_command_is_killed_with_its_group() {
    let place = Place::new();
    let hook = place.command("trap '' TERM; sleep 600 & echo $$ > begun; mv begun pid; sleep 600");
    let hooks = HookSet::new().with(HookEvent::PreToolUse, hook, PATIENCE * 2);
    let hung = async {
        while !place.file("pid").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Time that is paused goes on to the deadline as soon as nothing else is to be done.
        tokio::time::pause();
    };
    let (answer, ()) = tokio::join!(hooks.pre_tool_use(before_tool()), hung);
    tokio::time::resume();
    assert_eq!(answer, None);
    let pid = rustix::process::Pid::from_raw(place.read("pid").trim().parse().unwrap()).unwrap();
    let gone = async {
        while rustix::process::test_kill_process_group(pid).is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
}

#[tokio::test]
async fn what_a_command_leaves_running_is_not_waited_for() {
    let place = Place::new();
    let hooks = place.hooks("sleep 600 & echo '{\"block\":true}'");
    let answer = tokio::time::timeout(PATIENCE / 2, hooks.user_prompt_submit(prompt())).await.unwrap();
    assert!(answer.unwrap().block);
}

#[tokio::test]
async fn a_hung_server_is_left() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    let hooks = everywhere(Arc::new(HttpHook::new(&url).unwrap()), Duration::from_millis(100));
    assert!(is_ignored(&hooks).await);
}

#[tokio::test]
async fn a_server_that_fails_or_sends_elsewhere_is_ignored() {
    let (willing, refusing, rubbish) =
        (serve(200, everything()).await, serve(500, everything()).await, serve(200, "<html>").await);
    let elsewhere = vec![("location", willing.url("/"))];
    let redirecting =
        ScriptedUpstream::start(move |_| UpstreamAnswer::Head(307, elsewhere.clone(), Bytes::new())).await;
    for server in [refusing, rubbish, redirecting] {
        assert!(is_ignored(&asking(&server)).await, "{:?}", server.received());
    }
    assert!(willing.received().is_empty(), "nobody goes where an answer sends them");
    // The listener is closed again at once, so nobody answers at its port.
    let nobody = {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        format!("http://{address}/")
    };
    assert!(is_ignored(&everywhere(Arc::new(HttpHook::new(&nobody).unwrap()), PATIENCE)).await);
    for url in ["", "localhost:80", "file:///etc/passwd", "s3cret"] {
        let error = HttpHook::new(url).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn keys_do_not_reach_a_command() {
    let mut place = Place::new();
    place.policy.environment = [("OPENAI_API_KEY", "s3cret"), ("MY_KEY", "s3cret"), ("TZ", "Asia/Tokyo")]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
    place.policy.pass = vec!["MY_KEY".to_owned()];
    place.policy.secret = vec!["MY_KEY".to_owned()];
    let hooks = place.hooks("cat > /dev/null; env > env.txt");
    assert!(hooks.pre_tool_use(before_tool()).await.is_some());
    let env = place.read("env.txt");
    assert!(env.contains("TZ=Asia/Tokyo") && !env.contains("s3cret"), "{env}");
}

/// Keeps all fields of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

#[tokio::test]
async fn the_log_names_the_hook_and_holds_nothing_of_what_was_said() {
    let warnings = Warnings::default();
    let _guard = set_thread_subscriber(warnings.clone());
    let place = Place::new();
    for line in [
        "cat; cat >&2",
        "cat >&2; exit 1 # s3cret",
        "echo '{\"block\":\"s3cret\"}'",
        "echo '{\"s3cret\":true}'",
        "echo s3cret",
    ] {
        place.hooks(line).user_prompt_submit(prompt()).await;
    }
    let server = serve(400, "s3cret").await;
    asking(&server).user_prompt_submit(prompt()).await;
    let told = warnings.0.lock().unwrap().clone();
    let ignored = "a hook is ignored hook=\"userPromptSubmit\" session=\"s-1\" error=";
    let expected = [
        "message=a hook's answer has fields that are not known unknown=3 known=block, reason, addedContext "
            .to_owned(),
        format!("message={ignored}it ended with exit code 1 "),
        format!("message={ignored}its answer is not a JSON object with the fields of this hook "),
        "message=a hook's answer has fields that are not known unknown=1 known=block, reason, addedContext "
            .to_owned(),
        format!("message={ignored}its answer is not a JSON object with the fields of this hook "),
        format!("message={ignored}it answered HTTP 400 "),
    ];
    assert_eq!(told, expected);
    let shown =
        format!("{:?} {:?}", HttpHook::new(&server.url("/hook?key=s3cret")), place.hooks("echo s3cret"));
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn a_typed_closure_takes_the_place_of_another_hook_and_gives_it_up() {
    let json = || Arc::new(ClosureHook::new(|_| ready(Ok(json!({ "reason": "JSON" })))));
    let typed = |_: PreCompactRequest| ready(PreCompactDecision::cancel("typed"));
    let reason =
        async |hooks: &HookSet| hooks.pre_compact(before_compaction()).await.and_then(|answer| answer.reason);

    let hooks = everywhere(json(), PATIENCE).with_pre_compact(typed, Duration::from_secs(3));
    assert_eq!(reason(&hooks).await.as_deref(), Some("typed"));
    assert_eq!(hooks.pre_compact_deadline(), Some(Duration::from_secs(3)));
    assert_eq!(hooks.pre_tool_use(before_tool()).await.unwrap().reason.as_deref(), Some("JSON"));

    let hooks = hooks.with(HookEvent::PreCompact, json(), PATIENCE);
    assert_eq!(reason(&hooks).await.as_deref(), Some("JSON"));
    assert_eq!(hooks.pre_compact_deadline(), Some(PATIENCE));
}

#[tokio::test(start_paused = true)]
async fn a_typed_closure_that_is_late_is_ignored() {
    let hooks = HookSet::new().with_pre_compact(|_| std::future::pending(), DEADLINE);
    assert!(hooks.has(HookEvent::PreCompact));
    assert_eq!(hooks.pre_compact(before_compaction()).await, None);
}

#[tokio::test]
async fn every_event_has_a_typed_closure() {
    let arguments = json!({ "command": "pwd" }).as_object().cloned().unwrap();
    let given = arguments.clone();
    let hooks = everywhere(Arc::new(ClosureHook::new(|_| ready(Ok(Value::Null)))), PATIENCE)
        .with_pre_tool_use(
            move |ask| {
                ready(if ask.tool_name == "bash" {
                    ToolCallDecision::replace(given.clone())
                } else {
                    ToolCallDecision::Proceed
                })
            },
            PATIENCE,
        )
        .with_post_tool_use(|ask| ready(ask.success.then(|| "well done".to_owned())), PATIENCE)
        .with_user_prompt_submit(|_| ready(PromptDecision::add("be quick")), PATIENCE);
    assert_eq!(hooks.pre_tool_use(before_tool()).await.unwrap().args, Some(arguments));
    assert_eq!(hooks.post_tool_use(after_tool()).await.unwrap().added_context.as_deref(), Some("well done"));
    assert_eq!(hooks.user_prompt_submit(prompt()).await.unwrap().added_context.as_deref(), Some("be quick"));

    let hooks = HookSet::new()
        .with_pre_tool_use(|_| ready(ToolCallDecision::deny("no")), PATIENCE)
        .with_user_prompt_submit(
            |ask| ready(PromptDecision::refuse_if(ask.prompt.contains("s3cret"), "no")),
            PATIENCE,
        );
    let denied = hooks.pre_tool_use(before_tool()).await.unwrap();
    assert_eq!((denied.decision, denied.reason.as_deref()), (Some(PreToolUseDecision::Deny), Some("no")));
    let refused = hooks.user_prompt_submit(prompt()).await.unwrap();
    assert_eq!((refused.block, refused.reason.as_deref()), (true, Some("no")));
    assert!(!hooks.has(HookEvent::PostToolUse) && hooks.has(HookEvent::PreToolUse));
    assert!(!hooks.without(HookEvent::PreToolUse).has(HookEvent::PreToolUse));
}

#[tokio::test]
async fn a_typed_closure_that_panics_is_ignored() {
    let hooks = HookSet::new().with_pre_tool_use(
        |ask| {
            assert_eq!(ask.tool_name, "read");
            ready(ToolCallDecision::deny("no"))
        },
        PATIENCE,
    );
    assert_eq!(hooks.pre_tool_use(before_tool()).await, None);
}
