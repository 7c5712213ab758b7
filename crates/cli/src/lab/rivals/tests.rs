//! Each peer at its line, what it keeps, what it asks, and that its requests stay valid.

use longhaul_core::budget::Budget;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::event::{Event, EventBody};
use longhaul_core::ids::CallId;
use longhaul_core::message::{Message, ModelStopReason, Part, Role, ToolCall, ToolResult, ToolStatus};

use super::*;
use crate::lab::policy::ViewSegment;
use crate::lab::price::tables;

const FIXED: u64 = 500;
const CONTINUE: &str =
    "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed.";

/// Writes a session.
#[derive(Default)]
struct RivalTestSession {
    events: Vec<Event>,
    calls: usize,
}

impl RivalTestSession {
    fn add(&mut self, body: EventBody) {
        let seq = self.events.len() as u64 + 1;
        self.events.push(Event { seq, at: seq * 1_000, format: 1, body });
    }

    fn typed(mut self, text: &str) -> Self {
        let id = format!("u{}", self.events.len());
        let message = Message::user(id, vec![Part::text(text)]);
        self.add(EventBody::message_taken(message));
        self
    }

    fn said(&mut self, parts: Vec<Part>, finish: ModelStopReason) {
        let name = format!("a{}", self.events.len());
        let message = Message { id: name.as_str().into(), role: Role::Assistant, parts, origin: None };
        self.add(EventBody::AssistantAdded { step_id: name.as_str().into(), message, finish, cut: None });
    }

    fn answer(mut self, text: &str) -> Self {
        self.said(vec![Part::text(text)], ModelStopReason::Stop);
        self
    }

    /// A call with a result of so many words.
    fn step(self, words: usize) -> Self {
        let at = self.calls;
        let arguments = format!(r#"{{"path":"src/file_{at}.rs"}}"#);
        self.uses("read", &arguments, &format!("result {at} {}", "word ".repeat(words)))
    }

    /// A call of a tool with a result.
    fn uses(mut self, tool: &str, arguments: &str, content: &str) -> Self {
        let call_id: CallId = format!("c{}", self.calls).as_str().into();
        self.calls += 1;
        self.said(
            vec![Part::ToolCall(ToolCall {
                call_id: call_id.clone(),
                name: tool.to_owned(),
                arguments: arguments.to_owned(),
                provider_id: None,
                native: None,
            })],
            ModelStopReason::ToolCalls,
        );
        let result = ToolResult {
            call_id,
            status: ToolStatus::Completed,
            content: vec![Part::text(content)],
            truncated: None,
        };
        self.add(EventBody::ToolFinished { result });
        self
    }

    fn steps(self, count: usize, words: usize) -> Self {
        (0..count).fold(self, |script, _| script.step(words))
    }

    /// Ends with an answer, so that there is a request before it.
    fn recorded(self) -> SessionRecording {
        let events = self.answer("The end.").events;
        SessionRecording::of("test", "tests", events, FIXED, MessageTokenCounter::default()).unwrap()
    }
}

fn situation(window: u64, last_input: u64, last_output: u64) -> PolicyInput {
    PolicyInput {
        budget: Budget::new(window, None),
        prices: tables::anthropic_sonnet(),
        last_input,
        last_output,
        cache_is_warm: true,
        at: None,
    }
}

/// The last request of a recording, by a policy that has made none before.
fn last(
    policy: &mut dyn ContextPolicy,
    recording: &SessionRecording,
    window: u64,
    last_input: u64,
    last_output: u64,
) -> PolicyRequest {
    policy.request(recording, recording.entries.len() - 1, &situation(window, last_input, last_output))
}

/// All requests of a recording, with what they would have been reported as.
fn run(policy: &mut dyn ContextPolicy, recording: &SessionRecording, window: u64) -> Vec<PolicyRequest> {
    let (mut requests, mut input, mut output) = (Vec::new(), 0, 0);
    for next in recording.answers() {
        let request = policy.request(recording, next, &situation(window, input, output));
        input = recording.overhead_tokens() + request.view.iter().map(|segment| segment.tokens).sum::<u64>();
        output = recording.entries[next].tokens;
        requests.push(request);
    }
    requests
}

fn texts(request: &PolicyRequest) -> Vec<&str> {
    request.view.iter().map(|segment| &*segment.text).collect()
}

fn ids(segments: &[ViewSegment]) -> Vec<u64> {
    segments.iter().map(|segment| segment.id).collect()
}

/// The names of the entries from one on, as they are in a view that keeps them.
fn entry_ids(recording: &SessionRecording, from: usize) -> Vec<u64> {
    (from..recording.entries.len() - 1).map(|at| recording.id(at)).collect()
}

fn number_after(text: &str, mark: &str) -> Option<u64> {
    let (_, rest) = text.split_once(mark)?;
    rest.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
}

/// Every call has its result behind it, every result its call before it.
fn assert_valid(request: &PolicyRequest, of: &str) {
    let texts = texts(request);
    for (at, text) in texts.iter().enumerate() {
        if let Some(number) = call_number(text) {
            let next = texts.get(at + 1).copied().unwrap_or_default();
            let answers = number_after(next, "result ") == Some(number) && is_result(next);
            assert!(answers || is_cut(next), "{of}: call {number} is followed by {next:.40}");
        }
        if is_result(text) || is_cut(text) {
            let before = at.checked_sub(1).and_then(|before| call_number(texts[before]));
            let is_that = number_after(text, "result ").is_none_or(|number| before == Some(number));
            assert!(before.is_some() && is_that, "{of}: {text:.40}");
        }
    }
}

/// Returns the number of the file that a call reads; `None` if the text is no call.
fn call_number(text: &str) -> Option<u64> {
    number_after(text.strip_prefix("\n[call read]")?, "file_")
}

fn is_result(text: &str) -> bool {
    text.starts_with("result ") || text.starts_with("<tool_output_masked>")
}

fn is_cut(text: &str) -> bool {
    text == "[cleared]" || text.contains("content cleared]") || text.contains(" omitted] ...")
}

fn fresh(calls: &[SideCall]) -> Vec<u64> {
    calls.iter().map(|call| call.fresh_tokens).collect()
}

#[test]
fn append_only_sends_everything() {
    let recording = RivalTestSession::default().typed("go").steps(3, 50).recorded();
    let request = last(&mut AppendOnlyPolicy::default(), &recording, 200_000, 0, 0);
    assert_eq!(ids(&request.view), entry_ids(&recording, 0));
    assert!(request.edit.is_none() && request.side_calls.is_empty());
}

#[test]
fn every_peer_stays_valid_keeps_the_pending_prompt_and_breaks_the_prefix_only_by_an_edit() {
    let mut script = RivalTestSession::default();
    for turn in 0..8 {
        script = script.typed(&format!("prompt {turn}")).steps(6, 400).answer(&format!("answer {turn}"));
    }
    let recording = script.recorded();
    for window in [2_000, 8_000, 32_000, 200_000] {
        for mut policy in all() {
            let name = format!("{} in {window}", policy.name());
            let requests = run(&mut *policy, &recording, window);
            for (request, next) in requests.iter().zip(recording.answers()) {
                assert_valid(request, &name);
                let newest = &recording.entries[next - 1];
                if newest.kind == LogEntryKind::Typed {
                    let prompt = texts(request).iter().any(|text| text.contains(&*newest.text));
                    assert!(prompt, "{name}: {} is not in view", newest.text);
                }
            }
            for pair in requests.windows(2) {
                let before = ids(&pair[0].view);
                let goes_on = ids(&pair[1].view).starts_with(&before);
                assert!(goes_on || pair[1].edit.is_some(), "{name}: the prefix broke without an edit");
            }
        }
    }
}

/// The length of a recording's first result in the last request of a policy, in characters.
fn first_result_chars(name: &str, recording: &SessionRecording) -> usize {
    let request = last(&mut *named(name).unwrap(), recording, 400_000, 0, 0);
    request.view[2].text.chars().count()
}

#[test]
fn long_results_are_shortened_when_they_come_in() {
    let recording = RivalTestSession::default().typed("go").step(60_000).recorded();
    for name in ["append-only", "claude-code", "langchain-summarization", "crush"] {
        assert_eq!(first_result_chars(name, &recording), 300_009, "{name}");
    }
    for (name, chars) in [("codex", 10_000), ("gemini-cli", 40_000), ("cline", 48_000), ("opencode", 51_200)]
    {
        let shortened = first_result_chars(name, &recording);
        assert!((chars..chars + 60).contains(&shortened), "{name}: {shortened}");
    }
    assert!(first_result_chars("goose", &recording) < 100);
}

#[test]
fn every_peer_names_itself_and_cites_its_numbers() {
    let names: Vec<String> = all().iter().map(|policy| policy.name().to_owned()).collect();
    let unique: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    for policy in all() {
        assert!(named(policy.name()).is_some() && !policy.has_recall());
        assert!(policy.name() == "append-only" || policy.sources().len() > 3, "{}", policy.name());
    }
    assert!(named("nobody").is_none());
}

#[test]
fn opencode_acts_when_the_reported_usage_reaches_the_usable_room() {
    let recording = RivalTestSession::default().typed("go").steps(30, 1_000).recorded();
    let usable = Budget::new(40_000, None).usable;
    let before = last(&mut OpenCodePolicy::new(), &recording, 40_000, usable - 101, 100);
    assert!(before.edit.is_none() && before.side_calls.is_empty());
    let request = last(&mut OpenCodePolicy::new(), &recording, 40_000, usable - 100, 100);
    let view = texts(&request);
    assert_eq!((view[0], *view.last().unwrap()), ("What did we do so far?", CONTINUE));
    assert!(view[1].starts_with("Goal:\n- go") && view[1].contains("src/file_0.rs"));
    // The summariser sees 2,000 of the 5,009 characters of each result.
    let [call] = request.side_calls[..] else { panic!("{:?}", request.side_calls) };
    assert!(call.waits && call.cached_tokens == 0);
    assert!((8_000..12_000).contains(&call.fresh_tokens), "{call:?}");
}

#[test]
fn opencode_keeps_a_quarter_of_the_room_from_a_call_on() {
    let recording = RivalTestSession::default().typed("go").steps(30, 1_000).recorded();
    for (window, room) in [(40_000, 8_976), (42_500, 9_601), (45_000, 10_226), (100_000, 15_000)] {
        let request = last(&mut OpenCodePolicy::new(), &recording, window, window, 0);
        let tail = &request.view[2..request.view.len() - 1];
        assert!(tail[0].text.starts_with("\n[call read]"), "{:.40}", tail[0].text);
        assert_eq!(ids(tail), entry_ids(&recording, recording.entries.len() - 1 - tail.len()));
        let kept: u64 = tail.iter().map(|segment| chars_by_four(&segment.text)).sum();
        assert!(kept <= room && kept + 1_300 > room, "{kept} of {room}");
    }
}

#[test]
fn opencode_cuts_no_result_from_its_call() {
    let recording = RivalTestSession::default().typed("go").steps(12, 1_000).recorded();
    // A quarter of the room grows by 5 tokens each time, over a whole step.
    for window in (30_000..35_300).step_by(20) {
        assert_valid(&last(&mut OpenCodePolicy::new(), &recording, window, window, 0), "opencode");
    }
}

#[test]
fn opencode_says_the_newest_prompt_again_after_a_refusal_and_loses_its_steps() {
    let recording = RivalTestSession::default()
        .typed("first")
        .steps(2, 1_000)
        .answer("done")
        .typed("second")
        .step(9_000)
        .recorded();
    let request = last(&mut OpenCodePolicy::new(), &recording, 12_000, 3_000, 10);
    let view = texts(&request);
    assert_eq!(*view.last().unwrap(), "second");
    assert!(view.iter().all(|text| !text.starts_with("result 2")));
    assert!(request.edit.unwrap().compaction);
}

/// The number of cleared results after a first turn with so many results of 12,490 tokens each. The two turns after it
/// are never looked at.
fn cleared_by_opencode(mut policy: OpenCodePolicy, results: usize) -> usize {
    let script = RivalTestSession::default()
        .typed("a")
        .steps(results, 9_990)
        .answer("x")
        .typed("b")
        .step(9_990)
        .answer("y");
    let recording = script.typed("c").step(9_990).answer("z").typed("d").recorded();
    let request = last(&mut policy, &recording, 200_000, 80_000, 10);
    let cleared = texts(&request).iter().filter(|text| text.contains("content cleared")).count();
    assert_valid(&request, "opencode-prune");
    assert_eq!(ids(&request.view)[1 + 2 * cleared..], entry_ids(&recording, 1 + 2 * cleared)[..]);
    assert_eq!(request.edit.as_ref().map(|edit| edit.compaction), (cleared > 0).then_some(false));
    assert!(request.side_calls.is_empty());
    cleared
}

#[test]
fn opencode_prunes_after_a_run_beyond_the_protected_output() {
    // Three are protected; one beyond them is less than 20,000 tokens, two are more.
    assert_eq!(cleared_by_opencode(OpenCodePolicy::with_pruning(), 4), 0);
    assert_eq!(cleared_by_opencode(OpenCodePolicy::with_pruning(), 5), 2);
    assert_eq!(cleared_by_opencode(OpenCodePolicy::new(), 5), 0);
}

#[test]
fn gemini_knows_one_window_only() {
    let recording = RivalTestSession::default().typed("a").steps(4, 500).answer("x").typed("b").recorded();
    let edit =
        |mut policy: GeminiCliPolicy, last_input| last(&mut policy, &recording, 32_000, last_input, 50).edit;
    assert!(edit(GeminiCliPolicy::new(), 524_287).is_none());
    assert!(edit(GeminiCliPolicy::new(), 524_288).is_some());
    assert!(edit(GeminiCliPolicy::declared(), 15_999).is_none());
    assert!(edit(GeminiCliPolicy::declared(), 16_000).is_some());
}

#[test]
fn gemini_cuts_at_a_prompt_after_seven_tenths_and_asks_twice() {
    let script = RivalTestSession::default()
        .typed("a")
        .steps(7, 500)
        .answer("x")
        .typed("b")
        .steps(2, 500)
        .answer("y")
        .typed("c");
    let recording = script.recorded();
    let request = last(&mut GeminiCliPolicy::declared(), &recording, 32_000, 20_000, 50);
    let view = texts(&request);
    assert!(view[0].starts_with("<state_snapshot>"));
    assert_eq!(view[1], "Got it. Thanks for the additional context!");
    let from = recording.entries.iter().position(|entry| &*entry.text == "b").unwrap();
    assert_eq!(ids(&request.view[2..]), entry_ids(&recording, from));
    let [summary, check] = request.side_calls[..] else { panic!("{:?}", request.side_calls) };
    assert_eq!((summary.cached_tokens, check.cached_tokens), (0, summary.fresh_tokens));
    assert_eq!(check.fresh_tokens, summary.output_tokens + 75);
    // A run with one prompt is never compressed, however long.
    let recording = RivalTestSession::default().typed("a").steps(20, 500).recorded();
    assert!(last(&mut GeminiCliPolicy::declared(), &recording, 32_000, 30_000, 50).edit.is_none());
}

/// The number of masked results among so many of 7,502 tokens each, and a newest one that waits for its answer.
fn masked_by_gemini(results: usize) -> usize {
    let recording = RivalTestSession::default().typed("a").steps(results + 1, 6_000).recorded();
    let request = last(&mut GeminiCliPolicy::new(), &recording, 200_000, 100_000, 50);
    assert_valid(&request, "gemini-cli");
    let masks = texts(&request).iter().filter(|text| text.starts_with("<tool_output_masked>")).count();
    assert_eq!(request.edit.is_some(), masks > 0);
    masks
}

#[test]
fn gemini_masks_old_output_in_batches() {
    // Seven results are more than the 50,000 tokens that are protected, the batch is of 30,000. The newest result is
    // not looked at.
    assert_eq!((masked_by_gemini(9), masked_by_gemini(10)), (0, 4));
}

#[test]
fn codex_counts_what_came_after_the_answer_and_keeps_the_prompts() {
    let script = RivalTestSession::default()
        .typed("first prompt")
        .steps(4, 1_000)
        .answer("x")
        .typed("second prompt")
        .step(790);
    let recording = script.recorded();
    let new = recording.entries[recording.entries.len() - 2].text.len() as u64;
    let line = 45_000 - new.div_ceil(4);
    assert!(last(&mut CodexPolicy::default(), &recording, 50_000, line - 101, 100).edit.is_none());
    let request = last(&mut CodexPolicy::default(), &recording, 50_000, line - 100, 100);
    let view = texts(&request);
    assert_eq!(view[..2], ["first prompt", "second prompt"]);
    assert!(view.len() == 3 && view[2].contains("Goal:"), "{view:?}");
    assert_eq!(request.view[0].id, recording.id(0));
    let all: u64 = recording.entries[..recording.entries.len() - 1].iter().map(|entry| entry.tokens).sum();
    assert_eq!(fresh(&request.side_calls), [all + 90]);
}

#[test]
fn codex_compacts_before_a_prompt_and_keeps_twenty_thousand_tokens_of_them() {
    let long = "b".repeat(60_000);
    let recording = RivalTestSession::default()
        .typed("oldest")
        .answer("x")
        .typed(&long)
        .answer("y")
        .typed(&"c".repeat(60_000))
        .answer("z");
    let recording = recording.typed("pending").recorded();
    let request = last(&mut CodexPolicy::default(), &recording, 100_000, 90_000, 0);
    let view = texts(&request);
    assert_eq!(view.len(), 4, "{view:.60?}");
    assert!(view[0].starts_with("bbb") && view[0].contains("tokens truncated") && view[0].len() < 20_100);
    assert_eq!(view[1].len(), 60_000);
    assert!(view[2].contains("Goal:") && view[3] == "pending");
}

/// Returns whether the second request behind a prompt is compacted although the meter is low.
fn is_compacted_by_codex(prompt: &str) -> bool {
    let recording = RivalTestSession::default().typed("go").answer("x").typed(prompt).step(10).recorded();
    let mut codex = CodexPolicy::default();
    codex.request(&recording, 3, &situation(6_000, 600, 1));
    codex.request(&recording, 5, &situation(6_000, 600, 1)).edit.is_some()
}

#[test]
fn codex_compacts_after_a_refusal_even_if_the_meter_is_low() {
    assert!(is_compacted_by_codex(&"word ".repeat(5_000)));
    assert!(!is_compacted_by_codex("short"));
}

#[test]
fn claude_code_acts_where_its_documentation_says() {
    let threshold = |window, max_output| ClaudeCodePolicy::threshold(&Budget::new(window, Some(max_output)));
    assert_eq!((threshold(200_000, 32_000), threshold(1_000_000, 64_000)), (167_000, 967_000));
    // A smaller declared output limit is what it keeps free, and small windows have no room left.
    assert_eq!((threshold(64_000, 4_096), threshold(16_000, 4_096)), (46_904, 0));
}

/// The window in which the last request of a recording is as large as Claude Code's threshold.
fn claude_code_window(recording: &SessionRecording) -> u64 {
    let entries = &recording.entries[..recording.entries.len() - 1];
    let request = recording.overhead_tokens() + entries.iter().map(|entry| entry.tokens).sum::<u64>();
    request + 4_096 + 13_000
}

#[test]
fn claude_code_summarises_on_the_cached_prefix_and_reads_five_files_again() {
    let recording = RivalTestSession::default().typed("go").steps(10, 500).recorded();
    let window = claude_code_window(&recording);
    let before = last(&mut ClaudeCodePolicy::default(), &recording, window + 1, 0, 0);
    assert!(before.edit.is_none() && before.side_calls.is_empty());
    let request = last(&mut ClaudeCodePolicy::default(), &recording, window, 0, 0);
    assert!(request.edit.unwrap().compaction);
    let [summary, files @ ..] = &request.view[..] else { panic!("no view") };
    assert!(summary.text.contains("Goal:\n- go"), "{}", summary.text);
    let heads: Vec<&str> = files.iter().filter_map(|file| file.text.split(" word").next()).collect();
    let expected =
        [9, 8, 7, 6, 5].map(|at| format!("Read again after the compaction: src/file_{at}.rs\nresult {at}"));
    assert_eq!(heads, expected);
    // All but the newest result was in the last request.
    let [.., newest, _] = &recording.entries[..] else { panic!("no entries") };
    let [call] = request.side_calls[..] else { panic!("{:?}", request.side_calls) };
    assert!(call.waits);
    assert_eq!(call.fresh_tokens, newest.tokens + 1_200);
    assert_eq!(call.cached_tokens + newest.tokens + 4_096 + 13_000, window);
}

#[test]
fn claude_code_reads_edited_files_first_and_names_large_ones() {
    let script = RivalTestSession::default()
        .typed("go")
        .uses("read", r#"{"path":"edited.rs"}"#, "before the edit")
        .uses("edit", r#"{"path":"edited.rs","oldText":"a","newText":"b"}"#, "done")
        .uses("write", r#"{"path":"written.rs","content":"the whole file"}"#, "done")
        .uses("edit", r#"{"path":"unseen.rs","oldText":"a","newText":"b"}"#, "done")
        .uses("read", r#"{"path":"edited.rs"}"#, "after the edit")
        .uses("grep", r#"{"path":"src","pattern":"a"}"#, "src/file_0.rs")
        .step(10)
        .step(9_000)
        .answer("x");
    let recording = script.typed("pending").recorded();
    let window = claude_code_window(&recording);
    let request = last(&mut ClaudeCodePolicy::default(), &recording, window, 0, 0);
    let view = texts(&request);
    assert_eq!(
        view[1..4],
        [
            "Referenced file: unseen.rs",
            "Read again after the compaction: written.rs\nthe whole file",
            "Read again after the compaction: edited.rs\nafter the edit",
        ]
    );
    assert_eq!(view[4], "Referenced file: src/file_7.rs");
    assert!(view[5].starts_with("Read again after the compaction: src/file_6.rs\nresult 6 word"));
    assert_eq!(view[6..], ["pending"]);
}

/// The number of results that Claude Code leaves in a run of so many, each of so many words; `None` if it summarises.
fn results_kept_by_claude_code(results: usize, words: usize) -> Option<usize> {
    let recording = RivalTestSession::default().typed("go").steps(results, words).recorded();
    let window = claude_code_window(&recording);
    let request = last(&mut ClaudeCodePolicy::default(), &recording, window, 0, 0);
    assert_valid(&request, "claude-code");
    if request.edit.as_ref().unwrap().compaction {
        return None;
    }
    assert!(request.side_calls.is_empty());
    let cleared = texts(&request).iter().filter(|text| is_cut(text)).count();
    assert_eq!(ids(&request.view)[1 + 2 * cleared..], entry_ids(&recording, 1 + 2 * cleared)[..]);
    Some(results - cleared)
}

#[test]
fn claude_code_clears_old_results_before_it_summarises() {
    // 40,000 tokens of the newest results stay, and three of any size.
    assert_eq!(results_kept_by_claude_code(20, 9_000), Some(4));
    assert_eq!(results_kept_by_claude_code(6, 30_000), Some(3));
    // One result of 9,000 tokens beyond them is too little.
    assert_eq!(results_kept_by_claude_code(5, 9_000), None);
}

#[test]
fn goose_looks_when_a_person_writes() {
    let recording = goose_script().typed("pending").recorded();
    assert!(last(&mut GoosePolicy::default(), &recording, 50_000, 39_900, 100).edit.is_none());
    let request = last(&mut GoosePolicy::default(), &recording, 50_000, 39_901, 100);
    let view = texts(&request);
    assert!(view.len() == 3 && view[0].starts_with("Goal:") && view[2] == "pending", "{view:?}");
    assert_eq!(request.view[2].id, recording.id(recording.entries.len() - 2));
    // In a tool loop it does not look, until a request is refused.
    let recording = goose_script().typed("pending").step(500).recorded();
    assert!(last(&mut GoosePolicy::default(), &recording, 50_000, 49_000, 100).edit.is_none());
    let refused = last(&mut GoosePolicy::default(), &recording, 3_500, 3_000, 100);
    assert!(refused.edit.unwrap().compaction);
    assert_eq!(&*refused.view[2].text, "pending");
}

fn goose_script() -> RivalTestSession {
    RivalTestSession::default().typed("first").steps(4, 500).answer("x")
}

#[test]
fn goose_leaves_out_results_from_the_middle_until_its_prompt_fits() {
    let recording = RivalTestSession::default().typed("go").steps(10, 500).recorded();
    let request = last(&mut GoosePolicy::default(), &recording, 5_000, 4_000, 100);
    let usable = Budget::new(5_000, None).usable;
    let [sent] = fresh(&request.side_calls)[..] else { panic!("{:?}", request.side_calls) };
    // Half of the results is gone: of 500 tokens each, five are left.
    assert!(sent <= usable && sent > 5 * 500 - 500, "{sent}");
}

/// A run with so many short results, and the beginning of another one.
fn short_results(count: usize) -> SessionRecording {
    RivalTestSession::default().typed("a").steps(count, 50).answer("x").typed("b").step(50).recorded()
}

#[test]
fn goose_describes_the_oldest_ten_calls_while_the_model_works() {
    let at_line = run(&mut GoosePolicy::default(), &short_results(20), 50_000);
    assert!(at_line.iter().all(|request| request.side_calls.is_empty()));
    let recording = short_results(21);
    let requests = run(&mut GoosePolicy::default(), &recording, 50_000);
    let [.., asked, done] = &requests[..] else { panic!("{}", requests.len()) };
    assert_eq!(asked.side_calls.len(), 10);
    assert!(asked.side_calls.iter().all(|call| !call.waits && call.cached_tokens == 0));
    assert!(asked.edit.is_none());
    let described = texts(done).iter().filter(|text| text.starts_with("A call to read was made")).count();
    assert_eq!((described, done.edit.as_ref().map(|edit| edit.compaction)), (10, Some(false)));
    assert_eq!(&*done.view[0].text, "a");
    assert_valid(done, "goose");
}

#[test]
fn langchain_keeps_twenty_messages_from_a_call_on() {
    let recording = RivalTestSession::default().typed("go").steps(15, 100).recorded();
    assert!(last(&mut LangChainSummarization::default(), &recording, 50_000, 39_900, 99).edit.is_none());
    let request = last(&mut LangChainSummarization::default(), &recording, 50_000, 39_900, 100);
    // 31 messages; the twentieth from the end is a call.
    assert_eq!(ids(&request.view[1..]), entry_ids(&recording, 11));
    assert!(
        request.view[0].text.starts_with("Here is a summary of the conversation to date:\n\nGoal:\n- go")
    );
    let old: u64 = recording.entries[..11].iter().map(|entry| entry.tokens).sum();
    assert_eq!(fresh(&request.side_calls), [old + 340]);
    // By its own estimate too: characters by four.
    let recording = RivalTestSession::default().typed("go").steps(15, 1_000).recorded();
    let by_estimate =
        |window| last(&mut LangChainSummarization::default(), &recording, window, 0, 0).edit.is_some();
    assert_eq!((by_estimate(23_000), by_estimate(25_000)), (true, false));
}

#[test]
fn langchain_summarises_nothing_where_the_last_tokens_hold_no_prompt() {
    let recording = RivalTestSession::default().typed("the task").steps(20, 1_000).recorded();
    let request = last(&mut LangChainSummarization::default(), &recording, 25_000, 0, 0);
    assert!(request.side_calls.is_empty());
    assert!(request.view[0].text.ends_with("Previous conversation was too long to summarize."));
    assert!(texts(&request).iter().all(|text| !text.contains("the task")));
}

#[test]
fn langchain_clears_all_but_three_results_over_a_hundred_thousand_tokens() {
    let above = RivalTestSession::default().typed("go").steps(10, 8_000).step(0).recorded();
    assert!(last(&mut LangChainToolClearing::default(), &above, 200_000, 0, 0).edit.is_some());
    let below = RivalTestSession::default().typed("go").steps(9, 8_000).step(0).recorded();
    assert!(last(&mut LangChainToolClearing::default(), &below, 200_000, 0, 0).edit.is_none());
    let recording = RivalTestSession::default().typed("go").steps(10, 8_000).step(10).recorded();
    let request = last(&mut LangChainToolClearing::default(), &recording, 200_000, 0, 0);
    assert_eq!(texts(&request).iter().filter(|text| **text == "[cleared]").count(), 8);
    assert_eq!(ids(&request.view)[17..], entry_ids(&recording, 17)[..]);
    assert!(!request.edit.unwrap().compaction);
}

#[test]
fn crush_keeps_a_fifth_or_twenty_thousand_free() {
    let recording = RivalTestSession::default().typed("the task").steps(4, 500).recorded();
    let edit =
        |window, reported: u64| last(&mut CrushPolicy::default(), &recording, window, reported - 10, 10).edit;
    assert!(edit(50_000, 39_999).is_none() && edit(50_000, 40_000).is_some());
    assert!(edit(300_000, 279_999).is_none() && edit(300_000, 280_000).is_some());
    // A conversation that does not fit cannot be summarised: nothing happens.
    assert!(last(&mut CrushPolicy::default(), &recording, 2_000, 1_900, 10).edit.is_none());
}

#[test]
fn crush_says_the_prompt_again_and_wraps_it_each_time() {
    let recording = RivalTestSession::default().typed("the task").steps(60, 400).recorded();
    let requests = run(&mut CrushPolicy::default(), &recording, 10_000);
    let edited: Vec<&PolicyRequest> = requests.iter().filter(|request| request.edit.is_some()).collect();
    let again =
        |request: &PolicyRequest| texts(request)[1].matches("The previous session was interrupted").count();
    assert_eq!((again(edited[0]), again(edited[1])), (1, 2));
    assert!(texts(edited[1])[1].contains("`the task`") && edited[0].view.len() == 2);
    let prompt =
        RivalTestSession::default().typed("the task").steps(2, 500).answer("x").typed("next").recorded();
    let request = last(&mut CrushPolicy::default(), &prompt, 50_000, 45_000, 0);
    assert_eq!((request.view.len(), texts(&request)[1]), (2, "next"));
}

#[test]
fn cline_acts_at_four_fifths_by_thirds_and_keeps_the_turn() {
    let recording = RivalTestSession::default().typed("go").steps(20, 1_000).recorded();
    let estimate: u64 = recording.entries[..recording.entries.len() - 1]
        .iter()
        .map(|entry| (entry.text.chars().count() as u64).div_ceil(3))
        .sum();
    let line = ((estimate + FIXED) as f64 / 0.81) as u64;
    assert!(last(&mut ClinePolicy::default(), &recording, line + 5, 0, 0).edit.is_none());
    let request = last(&mut ClinePolicy::default(), &recording, line, 0, 0);
    // From the end 20,000 tokens by thirds: twelve results of 1,670, and the one that crosses the line.
    assert_eq!(ids(&request.view[1..]), entry_ids(&recording, recording.entries.len() - 1 - 24));
    assert!(request.view[0].text.starts_with("Context summary:\n\nGoal:\n- go"));
    assert!(request.side_calls[0].fresh_tokens < 8 * 500 + 1_000, "results are cut to 2,000 characters");
    let script =
        RivalTestSession::default().typed("a").steps(5, 1_000).answer("x").typed("b").steps(15, 1_000);
    let recording = script.recorded();
    let request = last(&mut ClinePolicy::default(), &recording, 40_000, 0, 0);
    let from = recording.entries.iter().position(|entry| &*entry.text == "b").unwrap();
    assert_eq!(ids(&request.view[1..]), entry_ids(&recording, from));
}
