//! The standing orders in the view after compactions. The user gives each order once.
//!
//! The public ones are COMPINT's side constraints (arXiv 2608.11242). Thirty others in six languages are our own. The
//! order is one message of the user in a long chat about other things.

use std::sync::Arc;

use serde::Serialize;

use super::text::{contains_statement, lines_under_titles, single_spaced};
use super::{ChatTurn, ScriptedSummariser, SimulatedChat};

/// The window of every case, in tokens.
pub(crate) const WINDOW_TOKENS: u64 = 32_000;

/// Titles with a promise of standing orders.
const TITLES: [&str; 3] = ["Rules", "Standing orders", "standing orders"];

/// The question at the end of a chat, for nothing in particular.
const LAST_QUESTION: &str = "Thanks. Where were we?";

/// Our own orders, one a line, as `language<TAB>order`.
const OWN_ORDERS: &str = include_str!("data/orders.tsv");

/// The position of the order in the chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OrderPosition {
    /// The order is the second message.
    SecondMessage,
    /// The order follows this share of the chat's tokens, in percent.
    Percent(u8),
}

impl OrderPosition {
    /// Returns the position's name in tables.
    pub(crate) fn name(self) -> String {
        match self {
            Self::SecondMessage => "2nd message".to_owned(),
            Self::Percent(percent) => format!("at {percent} %"),
        }
    }
}

/// A case: one way to give the orders.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrderCase {
    /// The strategy.
    pub(crate) strategy: &'static str,
    /// The model for summaries.
    pub(crate) summariser: ScriptedSummariser,
    /// The length of the chat, in tokens.
    pub(crate) chat_tokens: u64,
    /// The position of the order.
    pub(crate) position: OrderPosition,
    /// The minimum number of compactions. The chat continues until there were so many. The first is requested if
    /// the chat is too short for one.
    pub(crate) rounds: usize,
}

/// The state of the orders in one case at the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrderScore {
    /// The strategy.
    pub(crate) strategy: &'static str,
    /// The author of the summaries.
    pub(crate) summariser: String,
    /// Length of the chat, in tokens.
    pub(crate) chat_tokens: u64,
    /// The position of the order.
    pub(crate) position: OrderPosition,
    /// The minimum number of compactions.
    pub(crate) rounds: usize,
    /// The number of orders verbatim in the view.
    pub(crate) kept: usize,
    /// Given orders, each in a chat of its own.
    pub(crate) orders: usize,
    /// Numbers of the orders missing in the view, counted from 1.
    pub(crate) missing: Vec<usize>,
    /// Lines under titles with a promise of rules, in all views.
    pub(crate) listed: usize,
    /// The number of listed lines equal to the order.
    pub(crate) listed_orders: usize,
    /// Views larger than a request may be.
    pub(crate) overflows: usize,
}

/// Returns our own thirty orders: English, German, French, Spanish, Russian and Chinese, five each.
pub(crate) fn own_orders() -> Vec<String> {
    let rows = OWN_ORDERS.lines().filter_map(|line| line.split_once('\t'));
    rows.map(|(_, order)| order.to_owned()).collect()
}

/// Returns every case of the public measure: three lengths, three positions, five pairs of strategy and summariser.
pub(crate) fn all_cases(rounds: usize) -> Vec<OrderCase> {
    let mut cases = Vec::new();
    for (strategy, summariser) in strategies() {
        for chat_tokens in [10_000, 50_000, 100_000] {
            for position in
                [OrderPosition::SecondMessage, OrderPosition::Percent(10), OrderPosition::Percent(50)]
            {
                let summariser = summariser.clone();
                cases.push(OrderCase { strategy, summariser, chat_tokens, position, rounds });
            }
        }
    }
    cases
}

/// Returns a sample of cases for quick runs: two lengths for each pair, and five rounds.
#[cfg(test)]
pub(crate) fn sample_cases() -> Vec<OrderCase> {
    let mut cases = Vec::new();
    for (strategy, summariser) in strategies() {
        for (chat_tokens, position, rounds) in [
            (50_000, OrderPosition::Percent(10), 1),
            (100_000, OrderPosition::Percent(50), 1),
            (10_000, OrderPosition::Percent(50), 5),
        ] {
            cases.push(OrderCase { strategy, summariser: summariser.clone(), chat_tokens, position, rounds });
        }
    }
    cases
}

/// Returns the pairs of strategy and summariser that the measure covers.
pub(crate) fn strategies() -> [(&'static str, ScriptedSummariser); 5] {
    [
        ("adaptive", ScriptedSummariser::Extract),
        ("adaptive", ScriptedSummariser::refusing()),
        ("adaptive", ScriptedSummariser::OrderBlind),
        ("pruning-agent", ScriptedSummariser::OrderBlind),
        ("reactive-overflow", ScriptedSummariser::OrderBlind),
    ]
}

/// Gives each order in a chat of its own and looks for it in the last view. Returns `None` if there is no such
/// strategy.
pub(crate) fn measure(orders: &[String], filler: &[ChatTurn], case: &OrderCase) -> Option<OrderScore> {
    let mut score = OrderScore {
        strategy: case.strategy,
        summariser: case.summariser.name(),
        chat_tokens: case.chat_tokens,
        position: case.position,
        rounds: case.rounds,
        kept: 0,
        orders: orders.len(),
        missing: Vec::new(),
        listed: 0,
        listed_orders: 0,
        overflows: 0,
    };
    for (number, order) in (1..).zip(orders) {
        let chat = chat_with_order(order, filler, case)?;
        let view = chat.view_text();
        if contains_statement(&view, order) {
            score.kept += 1;
        } else {
            score.missing.push(number);
        }
        let listed = lines_under_titles(&view, &TITLES);
        score.listed += listed.len();
        score.listed_orders += listed.iter().filter(|line| is_order(line, order)).count();
        score.overflows += usize::from(chat.overflows());
    }
    Some(score)
}

/// Returns whether a listed line is the order: all of it, or a part of it that says something.
fn is_order(line: &str, order: &str) -> bool {
    const TELLING_CHARS: usize = 12;
    let bare = single_spaced(line);
    let is_part = bare.chars().count() >= TELLING_CHARS && single_spaced(order).contains(&bare);
    contains_statement(line, order) || is_part
}

fn chat_with_order(order: &str, filler: &[ChatTurn], case: &OrderCase) -> Option<SimulatedChat> {
    let mut chat = SimulatedChat::new(case.strategy, WINDOW_TOKENS, case.summariser.clone())?;
    let counter = chat.history().counter().clone();
    let goes_at = match case.position {
        OrderPosition::SecondMessage => 0,
        OrderPosition::Percent(percent) => case.chat_tokens * u64::from(percent) / 100,
    };
    // `take_if` gives the order once, at the first message past its position.
    let mut order = Some(ChatTurn::user(order));
    let mut tokens = 0;
    let mut turns = filler.iter().cycle();
    for turn in turns.by_ref() {
        chat.say(turn);
        tokens += counter.text(&turn.text);
        if let Some(order) = order.take_if(|_| tokens >= goes_at) {
            chat.say(&order);
        }
        if tokens >= case.chat_tokens {
            break;
        }
    }
    end_with_question(&mut chat);
    // A short chat is compacted because its user asks for it.
    if chat.compactions() == 0 {
        chat.compact();
    }
    while chat.compactions() < case.rounds {
        chat.say(turns.next()?);
        // Asked again, so that the view is that of a request after the last compaction.
        if chat.compactions() == case.rounds {
            end_with_question(&mut chat);
        }
    }
    Some(chat)
}

fn end_with_question(chat: &mut SimulatedChat) {
    chat.say(&ChatTurn { role: longhaul_core::message::Role::User, text: Arc::from(LAST_QUESTION) });
    chat.plan_request();
}
