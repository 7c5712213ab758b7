//! Answers to refuse, which are no summary, and good summaries to accept.

use serde::Serialize;

use super::text::single_spaced;
use super::{ChatTurn, ScriptedSummariser, SimulatedChat, SummaryTask};

/// The window of every case, in tokens.
const WINDOW_TOKENS: u64 = 32_000;

/// The length of the chat, in tokens.
const CHAT_TOKENS: u64 = 60_000;

/// The strategies that are offered each answer: one that waits for its summary, and the default.
const STRATEGIES: [&str; 2] = ["reactive-overflow", "adaptive"];

/// Answers that are no summary, by name.
const NO_SUMMARIES: [(&str, &str); 23] = [
    ("apology", "I'm sorry, I can't help with summarising this conversation."),
    (
        "policy",
        "As an AI language model I am not able to process conversations of other people, so I have to decline.",
    ),
    ("cannot comply", "I cannot comply with this request because the content may violate usage policies."),
    ("done", "Done."),
    ("ok", "OK"),
    ("sure", "Sure! Here is the summary you asked for:"),
    (
        "lone think block",
        "<think>The user wants a summary of the conversation. Let me go through the messages first.</think>",
    ),
    (
        "open think block",
        "<think>The user wants a summary. First I should list what was discussed, then the decisions",
    ),
    ("question", "Which part of the conversation would you like me to summarise?"),
    (
        "two questions",
        "Do you want a short summary or a long one? And should I include the recommendations as well?",
    ),
    ("german apology", "Es tut mir leid, aber dabei kann ich leider nicht helfen."),
    ("french apology", "Je suis désolé, je ne peux pas répondre à cette demande."),
    ("spanish apology", "Lo siento, no puedo ayudarte con esa solicitud."),
    ("chinese apology", "抱歉，我无法完成这个请求。"),
    ("russian apology", "Извините, я не могу помочь с этим запросом."),
    (
        "tool call as text",
        "<tool_call>\n{\"name\": \"summarize\", \"arguments\": {\"range\": \"all\"}}\n</tool_call>",
    ),
    ("function call as text", "```json\n{\"tool\": \"read_file\", \"path\": \"conversation.txt\"}\n```"),
    ("json error", "{\"error\": {\"type\": \"invalid_request_error\", \"message\": \"prompt is too long\"}}"),
    ("server error", "Error: 503 Service Unavailable. Please try again later."),
    (
        "empty headings",
        "Goal:\n\nInstructions and constraints:\n\nDone:\n\nDecisions:\n\nState:\n\nNext steps:\n",
    ),
    ("headings of nothing", "Goal: n/a\nDone: n/a\nDecisions: none\nState: n/a\nNext steps: none"),
    (
        "lorem",
        "Goal:\n- lorem ipsum dolor sit amet consectetur adipiscing elit\nDone:\n- sed do eiusmod tempor incididunt ut labore\nState:\n- ut enim ad minim veniam quis nostrud exercitation ullamco laboris nisi ut aliquip ex ea commodo consequat",
    ),
    ("promise", "I will write the summary in my next message, please give me a moment to read everything."),
];

/// The result of the answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefusalScore {
    /// Answers that are no summary.
    pub(crate) no_summaries: usize,
    /// The number of refusals without a trace in a committed compaction.
    pub(crate) refused: usize,
    /// The names of used answers that are no summary.
    pub(crate) let_through: Vec<String>,
    /// Good summaries.
    pub(crate) good_summaries: usize,
    /// The number of good summaries used.
    pub(crate) accepted: usize,
    /// The names of refused good summaries.
    pub(crate) turned_away: Vec<String>,
    /// The size of the smallest view after these chats, in tokens.
    pub(crate) smallest_view_tokens: u64,
}

/// Offers every answer for a chat of 60,000 tokens in a window of 32,000.
pub(crate) fn measure(filler: &[ChatTurn]) -> RefusalScore {
    let mut score = RefusalScore { smallest_view_tokens: u64::MAX, ..RefusalScore::default() };
    for (name, summariser) in no_summaries() {
        score.no_summaries += 1;
        let chats = STRATEGIES.iter().filter_map(|strategy| chat(strategy, filler, &summariser));
        let mut is_refused = true;
        for chat in chats {
            // An answer must be refused under each strategy.
            is_refused &= !has_used_answer(&chat);
            score.smallest_view_tokens = score.smallest_view_tokens.min(chat.view_tokens());
        }
        if is_refused {
            score.refused += 1;
        } else {
            score.let_through.push(name.to_owned());
        }
    }
    for (name, write) in GOOD_SUMMARIES {
        score.good_summaries += 1;
        // The strategy that waits for its summary gives each answer its chance.
        let used = chat(STRATEGIES[0], filler, &ScriptedSummariser::Written(write));
        if used.is_some_and(|chat| has_used_answer(&chat)) {
            score.accepted += 1;
        } else {
            score.turned_away.push(name.to_owned());
        }
    }
    score
}

fn no_summaries() -> Vec<(&'static str, ScriptedSummariser)> {
    let fixed = NO_SUMMARIES.iter().map(|(name, text)| (*name, ScriptedSummariser::Fixed((*text).into())));
    let echo: fn(&SummaryTask<'_>) -> String = |task| task.order.chars().take(900).collect();
    let empty: fn(&SummaryTask<'_>) -> String = |_| " \n".to_owned();
    let made = [("order echoed back", echo), ("blank", empty)];
    fixed.chain(made.map(|(name, write)| (name, ScriptedSummariser::Written(write)))).collect()
}

fn chat(strategy: &str, filler: &[ChatTurn], summariser: &ScriptedSummariser) -> Option<SimulatedChat> {
    let mut chat = SimulatedChat::new(strategy, WINDOW_TOKENS, summariser.clone())?;
    let counter = chat.history().counter().clone();
    let mut tokens = 0;
    for turn in filler.iter().cycle() {
        chat.say(turn);
        tokens += counter.text(&turn.text);
        if tokens >= CHAT_TOKENS {
            break;
        }
    }
    // The last message may be the one that reaches the trigger.
    chat.plan_request();
    // Every answer must be offered at least once, also under a strategy that has not acted by itself.
    if chat.compactions() == 0 {
        chat.compact();
    }
    Some(chat)
}

/// Returns whether a committed compaction shows a telling line of an answer that was given for it.
fn has_used_answer(chat: &SimulatedChat) -> bool {
    chat.committed().any(|(shown, answers)| answers.iter().any(|answer| shows_answer(&shown, answer)))
}

/// Returns whether a text has the longest line of an answer. A short line counts only as a line of its own.
pub(super) fn shows_answer(shown: &str, answer: &str) -> bool {
    const TELLING_CHARS: usize = 24;
    // The planner removes reasoning from a summary, so only the text behind it can be shown.
    let body = answer.rsplit("</think>").next().filter(|body| !body.trim().is_empty()).unwrap_or(answer);
    let body = body.replace("<think>", "").replace("</think>", "");
    let lines = body.lines().map(single_spaced).filter(|line| !line.is_empty());
    // The longest line is the least likely to be in a view by chance.
    let Some(line) = lines.max_by_key(|line| line.chars().count()) else { return false };
    if line.chars().count() < TELLING_CHARS {
        shown.lines().any(|shown| single_spaced(shown) == line)
    } else {
        single_spaced(shown).contains(&line)
    }
}

/// A way to write a good summary.
type WriteSummary = fn(&SummaryTask<'_>) -> String;

/// Good summaries of varied form. Each is made of the assistant's messages.
const GOOD_SUMMARIES: [(&str, WriteSummary); 10] = [
    ("headings and lists", |task| summary_with_headings(task, 500, ["Goal:", "Done:", "State:"], "- ")),
    ("short", |task| summary_with_headings(task, 160, ["Goal:", "State:", "Next steps:"], "- ")),
    ("long", |task| {
        summary_with_headings(task, task.limit_tokens * 8 / 10, ["Goal:", "Done:", "State:"], "- ")
    }),
    ("Markdown headings", |task| {
        summary_with_headings(task, 400, ["## Goal", "## Decisions", "## State"], "* ")
    }),
    ("bold headings", |task| {
        summary_with_headings(task, 400, ["**Goal**", "**Done**", "**Next steps**"], "- ")
    }),
    ("numbered", |task| summary_with_headings(task, 400, ["1. Goal", "2. Done", "3. State"], "   ")),
    ("prose under headings", |task| summary_with_headings(task, 400, ["Goal", "Decisions", "State"], "")),
    ("think block before it", |task| {
        let body = summary_with_headings(task, 400, ["Goal:", "Done:", "State:"], "- ");
        format!("<think>I go through the messages and keep what matters.</think>\n\n{body}")
    }),
    ("German under the asked headings", |task| german(task, ["Goal:", "Done:", "State:"])),
    ("German headings", |task| german(task, ["Ziel:", "Erledigt:", "Stand:"])),
];

fn summary_with_headings(task: &SummaryTask<'_>, tokens: u64, titles: [&str; 3], bullet: &str) -> String {
    // A summary at its limit could be cut, and a cut summary may be refused for another reason.
    let sentences = task.assistant_sentences(tokens.min(task.limit_tokens * 8 / 10));
    written(&sentences, titles, bullet)
}

/// Returns a German summary with the names from the assistant's sentences, under `titles`.
fn german(task: &SummaryTask<'_>, titles: [&str; 3]) -> String {
    let sentences = task.assistant_sentences(task.limit_tokens.min(500));
    let sentences: Vec<String> = sentences.iter().filter_map(|sentence| german_sentence(sentence)).collect();
    written(&sentences, titles, "- ")
}

/// Returns a German sentence with the names of another, or `None` if that one has none.
fn german_sentence(sentence: &str) -> Option<String> {
    // The first word of a sentence has a capital letter without being a name.
    let words = sentence.split_whitespace().skip(1);
    let names: Vec<&str> =
        words.filter(|word| word.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())).collect();
    (!names.is_empty()).then(|| format!("Es ging um {}, das wurde ausführlich besprochen.", names.join(" ")))
}

fn written(sentences: &[String], titles: [&str; 3], bullet: &str) -> String {
    let mut text = String::new();
    for (title, lines) in titles.iter().zip(sentences.chunks(sentences.len().div_ceil(3).max(1))) {
        text.push_str(&format!("{title}\n"));
        lines.iter().for_each(|line| text.push_str(&format!("{bullet}{line}\n")));
    }
    text
}
