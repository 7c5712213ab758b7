//! The simulated model and tools: what they count, answer and get wrong.

use longhaul_core::error::ErrorCode;
use longhaul_core::estimate::{self, MessageTokenCounter};
use longhaul_core::message::{
    BlobRef, MediaPart, Message, ModelAnswer, ModelStopReason, OutputTruncation, Part, RawJson,
    ReasoningPart, TextPart, ToolCall, ToolResult, ToolStatus,
};
use longhaul_core::run::ModelCallFailure;
use longhaul_core::truncate::{self, TextLimit, TruncationMode};
use longhaul_core::usage::Usage;

use super::scene::Truth;
use crate::pool::text;
use crate::rng::Rng;

/// How a model call goes.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// Whether anything comes before it ends.
    pub(crate) begins: bool,
    /// Whether it ends because it was to pause.
    pub(crate) pauses: bool,
    pub(crate) end: Result<ModelAnswer, (ModelCallFailure, Vec<Part>)>,
}

impl Truth {
    /// What the model counts for a request of that many tokens by our estimate.
    pub(crate) fn input(&self, ours: u64) -> u64 {
        ours * self.bias / 1_000 + self.overhead
    }

    fn output(&self, parts: &[Part]) -> u64 {
        parts.iter().map(estimate::part_tokens).sum::<u64>() * self.bias / 1_000
    }

    /// The model's reaction to a request of `input` tokens.
    pub(crate) fn course(&self, rng: &mut Rng, input: u64, max_output: u64, tools: bool) -> Course {
        let too_long = input > self.window || (self.strict_output && input + max_output > self.window);
        if too_long {
            return Course {
                begins: false,
                pauses: false,
                end: Err((self.overflow(rng, input), Vec::new())),
            };
        }
        if rng.chance(self.failures) {
            return self.failure(rng);
        }
        let room = max_output.min(self.window - input).max(1);
        let mut answer = self.answer(rng, room, tools);
        if rng.chance(self.reports_usage) {
            answer.usage = Some(self.usage(rng, input, &answer.parts));
        }
        Course { begins: true, pauses: false, end: Ok(answer) }
    }

    fn overflow(&self, rng: &mut Rng, input: u64) -> ModelCallFailure {
        let mut failure = ModelCallFailure::new(ErrorCode::ContextOverflow, "prompt is too long", false);
        if rng.chance(self.names_numbers) {
            failure.used_tokens = Some(input);
            failure.limit_tokens = Some(self.window);
        }
        failure
    }

    fn failure(&self, rng: &mut Rng) -> Course {
        let partial = || vec![Part::text("this is where the stream broke off")];
        match rng.below(6) {
            0 => {
                let mut failure = ModelCallFailure::new(ErrorCode::RateLimitExceeded, "slow down", true);
                failure.retry_after_ms = rng.chance(50).then(|| rng.magnitude(10, 100_000));
                Course { begins: false, pauses: false, end: Err((failure, Vec::new())) }
            }
            1 => broken(false, ErrorCode::Network, true, Vec::new()),
            2 => broken(false, ErrorCode::Auth, false, Vec::new()),
            3 => broken(true, ErrorCode::TruncatedStream, true, partial()),
            4 => broken(true, ErrorCode::TruncatedStream, true, Vec::new()),
            _ => {
                let parts = if rng.chance(50) { Vec::new() } else { vec![Part::text("  \n")] };
                let answer =
                    ModelAnswer { parts, finish: ModelStopReason::Stop, usage: None, envelope: None };
                Course { begins: true, pauses: false, end: Ok(answer) }
            }
        }
    }

    fn usage(&self, rng: &mut Rng, input: u64, parts: &[Part]) -> Usage {
        let reasoning: Vec<Part> =
            parts.iter().filter(|part| matches!(part, Part::Reasoning(_))).cloned().collect();
        let reasoning_tokens = if rng.chance(70) { self.output(&reasoning) } else { 0 };
        Usage {
            input_tokens: input,
            output_tokens: self.output(parts),
            reasoning_tokens,
            cache_read_tokens: input / 2,
            ..Usage::default()
        }
    }

    fn answer(&self, rng: &mut Rng, room: u64, tools: bool) -> ModelAnswer {
        let mut parts = Vec::new();
        if rng.chance(25) {
            parts.push(reasoning(rng));
        }
        if self.loops && tools && rng.chance(85) {
            let name = if rng.chance(80) { "read" } else { "poll" };
            parts.push(call(rng, name, "{\"path\":\"same.rs\"}".to_owned()));
            return self.within(parts, room, ModelStopReason::ToolCalls);
        }
        let is_final = !tools || rng.chance(self.final_answers);
        if is_final || rng.chance(60) {
            let chars = rng.magnitude(3, 3_000) as usize;
            parts.push(Part::text(format!("Well: {}", text(rng, chars))));
        }
        if is_final {
            return self.within(parts, room, ModelStopReason::Stop);
        }
        let most = if rng.chance(10) { 7 } else { 3 };
        for _ in 0..=rng.below(most) {
            let name = *rng.pick(&["read", "read", "grep", "grep", "write", "bash", "rm", "poll", "nope"]);
            let arguments = arguments(rng);
            parts.push(call(rng, name, arguments));
        }
        self.within(parts, room, ModelStopReason::ToolCalls)
    }

    /// Cuts an answer off where the output limit is.
    fn within(&self, mut parts: Vec<Part>, room: u64, finish: ModelStopReason) -> ModelAnswer {
        if self.output(&parts) <= room {
            return ModelAnswer { parts, finish, usage: None, envelope: None };
        }
        while self.output(&parts) > room {
            match parts.pop() {
                Some(Part::ToolCall(mut call)) => {
                    call.arguments.truncate(call.arguments.floor_char_boundary(call.arguments.len() / 2));
                    parts.push(Part::ToolCall(call));
                    break;
                }
                Some(Part::Text(TextPart { text, .. })) if text.len() > 40 => {
                    parts.push(Part::text(&text[..text.floor_char_boundary(text.len() / 2)]));
                }
                _ => break,
            }
        }
        ModelAnswer { parts, finish: ModelStopReason::Length, usage: None, envelope: None }
    }

    /// The summariser's reaction.
    pub(crate) fn summary(
        &self,
        rng: &mut Rng,
        input: u64,
        limit: u64,
        pruned: Option<String>,
    ) -> Result<ModelAnswer, Box<ModelCallFailure>> {
        let failed = |failure: ModelCallFailure| Err(Box::new(failure));
        if input > self.window {
            return failed(self.overflow(rng, input));
        }
        let good = |rng: &mut Rng, chars: usize| format!("[SUMMARY]\nGoal: {}", text(rng, chars));
        let answer = |parts, finish| {
            let usage = Some(Usage { input_tokens: input, output_tokens: 99, ..Usage::default() });
            Ok(ModelAnswer { parts, finish, usage, envelope: None })
        };
        if rng.chance(self.good_summaries) {
            let chars = rng.below(limit * 2) as usize;
            let text = pruned.unwrap_or_else(|| good(rng, chars));
            return answer(vec![Part::text(text)], ModelStopReason::Stop);
        }
        match rng.below(7) {
            0 => answer(vec![Part::text(good(rng, 100_000))], ModelStopReason::Stop),
            1 => answer(Vec::new(), ModelStopReason::Stop),
            2 => answer(vec![Part::text("[SUMMARY]  ")], ModelStopReason::Stop),
            3 => answer(vec![call(rng, "read", "{}".to_owned())], ModelStopReason::ToolCalls),
            4 => answer(vec![Part::text(good(rng, 50))], ModelStopReason::Length),
            5 => failed(ModelCallFailure::new(ErrorCode::ThirdParty, "the summariser is ill", true)),
            _ => failed(ModelCallFailure::new(ErrorCode::Timeout, "the summariser never came back", true)),
        }
    }
}

fn broken(begins: bool, code: ErrorCode, retryable: bool, partial: Vec<Part>) -> Course {
    Course {
        begins,
        pauses: false,
        end: Err((ModelCallFailure::new(code, "the call failed", retryable), partial)),
    }
}

/// What a message of a request has by our estimate.
pub(crate) fn sent_tokens(message: &Message) -> u64 {
    let unsent = message
        .parts
        .iter()
        .filter(|part| matches!(part, Part::Reasoning(ReasoningPart { native: None, .. })))
        .map(estimate::part_tokens);
    estimate::message_tokens(message) - unsent.sum::<u64>()
}

fn reasoning(rng: &mut Rng) -> Part {
    let chars = rng.magnitude(10, 2_000) as usize;
    let native = rng.chance(50).then(|| RawJson("{\"signature\":\"abc\"}".to_owned()));
    Part::Reasoning(ReasoningPart { text: text(rng, chars).to_owned(), native })
}

fn call(rng: &mut Rng, name: &str, arguments: String) -> Part {
    // Local servers repeat the names of their calls.
    let given = *rng.pick(&["", "call_0", "call_1"]);
    Part::ToolCall(ToolCall {
        call_id: given.into(),
        name: name.to_owned(),
        arguments,
        provider_id: None,
        native: None,
    })
}

fn arguments(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => "{\"path\": \"src/ru".to_owned(),
        1 => "[1, 2]".to_owned(),
        _ => {
            let chars = rng.magnitude(1, 400) as usize;
            let number = rng.below(1_000);
            serde_json::json!({ "path": format!("src/file{number}.rs"), "text": text(rng, chars) })
                .to_string()
        }
    }
}

/// What a tool gives, cut to what the model may be shown.
pub(crate) fn tool_result(rng: &mut Rng, call: &ToolCall, limit: &TextLimit, same: bool) -> ToolResult {
    let most = if rng.chance(25) { 50_000 } else { 4_000 };
    let chars = if same { 40 } else { rng.magnitude(2, most) };
    let whole = if same { "the same as ever" } else { text(rng, chars as usize) };
    let status = if !same && rng.chance(10) { ToolStatus::Error } else { ToolStatus::Completed };
    let keep = *rng.pick(&[TruncationMode::Head, TruncationMode::Tail, TruncationMode::Both]);
    let (text, truncated) = match truncate::truncate(whole, limit, keep, MessageTokenCounter::structured()) {
        None => (whole.to_owned(), None),
        Some(cut) => {
            let truncation = OutputTruncation {
                head_bytes: cut.head_bytes,
                omitted_chars: cut.omitted_chars,
                total_chars: cut.total_chars,
                blob: BlobRef { hash: "0".repeat(64), bytes: whole.len() as u64 },
                lost_bytes: 0,
            };
            (cut.kept, Some(truncation))
        }
    };
    let mut content = vec![Part::text(text)];
    if !same && rng.chance(2) {
        content.push(image());
    }
    ToolResult { call_id: call.call_id.clone(), status, content, truncated }
}

pub(crate) fn image() -> Part {
    Part::Image(MediaPart {
        blob: BlobRef { hash: "1".repeat(64), bytes: 4_000 },
        media_type: "image/png".to_owned(),
        name: None,
        width: Some(64),
        height: Some(64),
    })
}
