//! The sentences of overflow errors.

use std::sync::LazyLock;

use regex::{Captures, Regex, RegexBuilder};

use super::ReportedOverflow;
use crate::token_count;

/// A number, with or without separators of thousands.
const NUMBER: &str = r"(?:\d{1,3}(?:[,._'\x{a0}\x{202f}]\d{3})+|\d+)";

/// Sentences that mean overflow. `<U>` and `<L>` are the input's tokens and the limit, `<N>` any number. All
/// sentences are tried; the numbers come from the first one that names any.
pub(super) const SENTENCES: &[&str] = &[
    // Anthropic
    r"prompt is too long: <U> tokens > <L>",
    r"prompt is too long: <U>, model maximum context length: <L>",
    r"prompt is too long",
    r"input length and .?max_tokens.? exceed context limit: <U> \+ <N> > <L>",
    r"input length and .?max_tokens.? exceed context limit",
    // Bedrock
    r"input is too long",
    r"prompt tokens \(<U>\) exceed model maximum \(<L>\)",
    r"too many total text bytes",
    // vLLM, three generations: the prompt's own number before the total
    r"maximum context length is <L> tokens.{0,80}requested <N> tokens \(<U> in (?:the|your) (?:messages|prompt)",
    r"maximum context length is <L> tokens.{0,80}your prompt contains <U> input tokens",
    r"maximum context length is <L> tokens.{0,80}your request has <U> input tokens",
    r"you passed <U> input tokens.{0,120}context length is only <L>",
    r"context length is only <L>",
    r"(?:\(length <U>\) )?is longer than the maximum model length of <L>",
    r"maximum input length is <L> tokens",
    r"exceeds the maximum allowed input length of <L> tokens",
    r"input length(?: \(?<U>\)?)?.{0,40}exceeds.{0,40}context length(?: \(?<L>\)?)?",
    // SGLang, TensorRT-LLM, Text Generation Inference
    r"maximum context length of <L> tokens.{0,80}: <U> tokens from the input messages",
    r"input length \(<U>(?: tokens)?\) exceeds the maximum allowed length \(<L>",
    r"(?:prompt|input) length \(?<U>\)? exceeds (?:the )?maximum input length \(?<L>",
    r"prompt length \(<U>\).{0,80}(?:should|must|can)\s?not exceed max_num_tokens \(<L>\)",
    r"`inputs` tokens \+ `max_new_tokens` must be <= <L>\. given: <U> `inputs` tokens",
    r"`inputs` must have less than <L> tokens\. given: <U>",
    r"must have (?:less|fewer) than <L> tokens\W{1,3}given:? <U>",
    // OpenAI chat, DeepSeek and their like
    r"input tokens exceed the configured limit of <L>(?: tokens)?(?:\. your messages resulted in <U> tokens)?",
    r"maximum context length is <L>(?: tokens)?.{0,60}(?:resulted in|requested|used) <U> tokens",
    r"maximum context length is <L>",
    r"reduce the length of the (?:messages|prompt|input|completion)",
    r"current length is <U> while limit is <L>",
    r"input exceeds the context window",
    // a single text beyond ten million characters; only where messages are
    r"'(?:messages|input)\[\d+\][^']*': string too long",
    // too many messages: fewer of them fit. A list of tokens is a prompt.
    r"'(?:messages|input)': array too long",
    r"array too long\b.{0,160}\btokens\b",
    // Google
    r"input token count \(?<U>\)? exceeds the maximum number of tokens allowed \(?<L>\)?",
    r"input token count.{0,30}exceeds the maximum number of tokens allowed(?: \(?<L>\)?)?",
    r"input token count is <U> but (?:the )?model (?:only )?supports up to <L>",
    r"request payload size exceeds the limit",
    // xAI
    r"maximum prompt length is <L> but the request contains <U> tokens",
    r"maximum prompt length is <L>",
    // OpenRouter and others
    r"exceeds? (?:the )?(?:model'?s )?maximum context length(?: of)?(?: \(?<L>)?",
    // proxies
    r"input \(<U> tokens\) is longer than the model'?s context length \(<L> tokens\)",
    r"input too long: <U> input tokens, limit is <L>",
    r"requested input length(?: <U>)?.{0,40}exceeds.{0,40}maximum(?: input length)?(?: \(?<L>)?",
    r"tokens in request more than max tokens allowed",
    r"longer than the model'?s (?:maximum )?context length",
    r"exceeded this model context window limit \(<L>\)",
    // Copilot
    r"prompt token count of <U> exceeds the limit of <L>",
    r"tokens?\b.{0,60}exceeds the limit of <L>",
    // llama.cpp
    r"request \(<U> tokens\) exceeds the available context size \(<L>",
    r"exceeds the available context size",
    r"prompt has <U> tokens, but the configured context size is <L>",
    // LM Studio
    r"keep the first <U> tokens.{0,160}context length of only <L>",
    r"n_keep\W{0,3}<U>\W{0,3}>=\s*n_ctx\W{0,3}<L>",
    r"greater than the context length",
    r"context size has been exceeded",
    r"reached context length of <L> tokens",
    // MiniMax, Kimi, Mistral, Ollama, Alibaba, Zhipu, Volcengine
    r"context window exceeds limit",
    r"exceeded model token limit: <L> \(requested: <U>\)",
    r"exceeded model token limit",
    r"input token length too long",
    r"prompt contains <U> tokens.{0,60}too large for model with <L> maximum context length",
    r"too large for model with <L> maximum context length",
    r"prompt too long; exceeded (?:max )?context length",
    r"prompt is longer than the context length",
    r"range of input length should be \[\s*<N>\s*,\s*<L>\s*\]",
    r"prompt exceeds max length",
    r"prompt 超长",
    r"exceed max message tokens",
    // kronk
    r"input tokens \[<U>\] exceeds? context window \[<L>\]",
    r"context window is full",
    // GitLab
    r"context overflow",
    r"prompt too long",
    r"(?:prompt|input|request)\b[^.]{0,40}\btokens\b[^.]{0,40}\bmaximum\b",
    // GitHub Models, TabbyAPI, Databricks, Replicate, watsonx, Yandex, Cohere, AI21
    r"request body too large for .{1,120}max size: <L> tokens",
    r"length \(?<U>\)? is greater than max_seq_len \(?<L>",
    r"(?:prompt|input)[ _]tokens?[ _]count \(?<U>\)? (?:cannot exceed|must be less than) <L>",
    r"number of input tokens <U> cannot exceed the total tokens limit <L>",
    r"cannot exceed the total tokens limit",
    r"number of (?:input |prompt )?tokens must be (?:no more than|at most|less than) <L>, got <U>",
    r"tokens in the prompt cannot exceed <L> - received <U>",
    r"input has <U> tokens, the limit is <L>",
    // SambaNova, KoboldCpp, GPT4All, Perplexity, GigaChat, Novita, Cortex
    r"prompt is <U> tokens long.{0,120}maximum supported sequence length is (?:just )?<L>",
    r"prompt was <U> tokens but max context is <L>",
    r"exceeds the context window size.{0,60}\(<U> > <L>\)",
    r"input tokens exceeded (?:the )?maximum allowed(?:: <U> > <L>)?",
    r"tokens exceeds? (?:the )?limit: tokens <U>, max <L>",
    r"input tokens <U> plus max_tokens <N> > context <L>",
    r"context window exceeded: n_ctx ?= ?<L>",
    // MLX-LM and llama-cpp-python report the overflow as a server error (500)
    r"prompt length \(?<U>\)? exceeds max kv size \(?<L>",
    r"requested tokens \(?<U>\)? exceeds? context window of <L>",
    // limits in characters: Titan's for a text, Baidu's for the messages. A tool's name has a limit of few digits.
    r"expected maxlength: \d{5,}, actual: \d{5,}",
    r"max input characters is <N>",
    r"length of (?:the )?(?:messages|prompt|input) is too long",
    // anybody
    r"model_context_window_exceeded",
    r"model_max_prompt_tokens_exceeded",
    r"context[ _]length[ _]exceeded",
    r"exceed\w*\b[^.]{0,40}\bcontext (?:window|length|limit|size)",
    r"context (?:window|length|limit|size)\b[^.]{0,40}(?:exceed|overflow|too (?:long|small)|reached)",
    r"too many tokens",
    r"token limit exceeded",
    r"\b<U> tokens > <L>(?: maximum| limit)?",
    r"\b(?:total|input|prompt|many|requested)[ _]tokens?:? <U> > <L>",
    r"prompt of <U> tokens (?:does not|doesn't|cannot|will not) fit\D{0,40}<L>",
    r"\btokens exceeds?\b",
    r"decrease input length",
];

/// Sentences that occur in no other error. They count under any status that can mean overflow at all. llama.cpp
/// reports a window that fills up during the answer as a server error (500).
pub(super) const UNMISTAKABLE: &[&str] =
    &[r"context size has been exceeded", r"exceeds the available context size"];

/// Sentences of other errors that only sound similar.
pub(super) const VETOES: &[&str] = &[
    r"rate[ _-]?limit",
    r"too many requests",
    r"\bquota\b",
    r"per[ -](?:second|minute|hour|day)",
    r"\b[tr]pm\b",
    r"throttl(?:ing|ed)",
    r"^service unavailable",
    r"(?:context )?deadline exceeded",
    r"(?:request|connection|read|context)\b.{0,20}\btime[ds]?[ -]?out",
    // a limit on the answer, not on the request: compaction would not help
    r"max[_ ]?(?:completion_|output_|new_)?tokens\W{0,3}(?:must (?:not|be \w)|should|cannot|value|is not|exceeds the limit)",
];

/// The words of a server in trouble. A server error in such words is an outage, although it may name the input.
const OUTAGES: &str = r"try again later|retry later|overload|over capacity|at capacity|temporarily|unavailable|\bis loading\b|out of memory";

/// Names of the input and of the window.
const INPUT: &str = r"context|prompt|\binputs?\b|\bmessages\b|n_ctx|kv cache";

/// An output limit that the server has reckoned as the rest of the window (vLLM): "max_tokens must be at least 1, got
/// -4904". A single digit is a caller's own -1, which stands for "no limit".
const NEGATIVE_ROOM: &str =
    r"max_(?:completion_|output_|new_)?tokens\b.{0,60}\b(?:got|given|received):? ?-\d{2,}";

/// Google's wording: the excess is given in tokens, and is not about the output limit.
const TOKENS_EXCEED: &str =
    r"(?:input|prompt|request)\b[^.]*\btokens?\b[^.]*\bexceeds?\b|\bexceeds?\b[^.]*\btokens?\b";

/// A request above a whole budget of tokens per time (Groq, OpenAI): "on tokens per minute (TPM): Limit 9000, Requested
/// 14441".
const BUDGET: &str =
    r"tokens per (?:min|minute|hour|day)\b[^:]{0,20}: limit:? <L>,? (?:used:? <N>,? )?requested:? <U>";

/// Compiles a sentence. A test compiles them all, so none fails here.
pub(super) fn compile(sentence: &str) -> Option<Regex> {
    let sentence = sentence
        .replace("<U>", &format!("(?<used>{NUMBER})"))
        .replace("<L>", &format!("(?<limit>{NUMBER})"))
        .replace("<N>", NUMBER);
    // Proxies change the case of messages, and break their lines.
    RegexBuilder::new(&sentence).case_insensitive(true).dot_matches_new_line(true).build().ok()
}

fn compile_all(sentences: &[&str]) -> Vec<Regex> {
    sentences.iter().filter_map(|sentence| compile(sentence)).collect()
}

// Compiled once and at the first error, because most processes never need them.
static COMPILED: LazyLock<Vec<Regex>> = LazyLock::new(|| compile_all(SENTENCES));
static COMPILED_UNMISTAKABLE: LazyLock<Vec<Regex>> = LazyLock::new(|| compile_all(UNMISTAKABLE));
static COMPILED_VETOES: LazyLock<Vec<Regex>> = LazyLock::new(|| compile_all(VETOES));
static COMPILED_TOKENS: LazyLock<Vec<Regex>> = LazyLock::new(|| compile_all(&[TOKENS_EXCEED]));
static COMPILED_OUTAGES: LazyLock<Vec<Regex>> = LazyLock::new(|| compile_all(&[OUTAGES]));
static COMPILED_INPUT: LazyLock<Vec<Regex>> = LazyLock::new(|| compile_all(&[INPUT]));
static COMPILED_ROOM: LazyLock<Vec<Regex>> = LazyLock::new(|| compile_all(&[NEGATIVE_ROOM]));
static COMPILED_BUDGET: LazyLock<Vec<Regex>> = LazyLock::new(|| compile_all(&[BUDGET]));

pub(super) fn matches(text: &str) -> bool {
    COMPILED.iter().any(|regex| regex.is_match(text))
}

pub(super) fn is_unmistakable(text: &str) -> bool {
    COMPILED_UNMISTAKABLE.iter().any(|regex| regex.is_match(text))
}

pub(super) fn vetoed(text: &str) -> bool {
    COMPILED_VETOES.iter().any(|regex| regex.is_match(text))
}

pub(super) fn is_outage(text: &str) -> bool {
    COMPILED_OUTAGES.iter().any(|regex| regex.is_match(text))
}

pub(super) fn names_input(text: &str) -> bool {
    COMPILED_INPUT.iter().any(|regex| regex.is_match(text))
}

pub(super) fn has_negative_room(text: &str) -> bool {
    COMPILED_ROOM.iter().any(|regex| regex.is_match(text))
}

pub(super) fn tokens_exceed(text: &str) -> bool {
    COMPILED_TOKENS.iter().any(|regex| regex.is_match(text))
}

/// Returns the budget of tokens per time that the request alone exceeds. `None` if the request fits into the budget: a
/// wait helps then.
pub(super) fn exceeded_budget(text: &str) -> Option<u64> {
    let captures = COMPILED_BUDGET.iter().find_map(|regex| regex.captures(text))?;
    let (limit, requested) = (captured_number(&captures, "limit")?, captured_number(&captures, "used")?);
    // A budget of 0 is an account without access to the model, and no request is short enough for it.
    (limit > 0 && requested > limit).then_some(limit)
}

/// Returns the numbers that the texts name.
pub(super) fn numbers(texts: &[String]) -> ReportedOverflow {
    // By sentence first and by text second: the order of the sentences says which numbers are the right ones.
    let named = COMPILED.iter().flat_map(|regex| texts.iter().filter_map(|text| regex.captures(text)));
    named.fold(ReportedOverflow::default(), |known, captures| {
        known.or(ReportedOverflow {
            used_tokens: captured_number(&captures, "used"),
            limit_tokens: captured_number(&captures, "limit"),
        })
    })
}

pub(super) fn captured_number(captures: &Captures<'_>, name: &str) -> Option<u64> {
    parse(captures.name(name)?.as_str())
}

fn parse(number: &str) -> Option<u64> {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    // A number beyond any window is a garbled one.
    digits.parse().ok().filter(|tokens| *tokens <= token_count::MOST)
}
