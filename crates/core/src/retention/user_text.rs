//! The section of a shortened view that quotes the user's messages in the part that is no longer shown.
//!
//! Messages are quoted verbatim and in order, each with the number of its turn. Repeated lines and repeated longer
//! sentences appear once. The prose in the middle of a long message is quoted last, and a paste is cut to both ends.
//! Blocks that a client's program put into the user's message are left out.
//!
//! If the section has too little room, sentences are ranked. The first message and standing orders come first. Statements
//! that are short messages of their own follow, then those of longer messages, then questions. Among both, statements
//! that name a value or announce a change come first. Within a rank the
//! newest sentences stay. A replaced statement is quoted only if all others are, and its replacement takes over its
//! rank. A replaced order comes after all other orders.

mod cache;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(crate) use self::cache::UserTextCache;
use super::addressed_comments::addressed_comment;
use super::long_sentences::order_parts;
use super::markup_rules::MarkupRules;
use super::mood::{
    CLEAR_ORDER_SCORE, ORDER_SCORE, has_label, is_lasting, is_question, is_slight, order_score,
    order_score_below_label, order_score_in_rules,
};
use super::replaced::{StatementCache, has_order_form, is_telling, replacements};
use super::rule_lists::{RuleList, begins_with_heading};
use super::sentences::sentence_spans;
use super::system_messages;
use crate::estimate::MessageTokenCounter;
use crate::history::{History, LogEntry, LogEntryKind};
use crate::ids::{LogHandle, LogRange, Seq};
use crate::message::Part;
use crate::plan::{ImportedSummary, beside_summary, shortened};
use crate::retention_report::facts::{CodeLines, is_summary, single_spaced};

/// The title of the section.
pub(crate) const TITLE: &str = "What the user said, oldest first; later words win:";

/// The longest message without a middle, in tokens. The prose between the ends of a longer one is quoted last.
pub(crate) const LONG_TOKENS: u64 = 200;

/// The longest message that the user wrote as such, in tokens. A longer one is a paste and is cut to both ends. A task
/// with 25 requirements has about 550 tokens, and a page of a manual has about 1,500.
const PASTE_TOKENS: u64 = 1_500;

/// The longest first message that may be a task from beginning to end, in tokens. Its middle is quoted where room is
/// left, although other messages of its length are pastes.
const MAX_TASK_TOKENS: u64 = 4 * PASTE_TOKENS;

/// The part of each end of a long message that is quoted like a short one, in tokens.
const END_TOKENS: u64 = 100;

/// The longest sentence of a task that is quoted whole, in tokens.
const MAX_TASK_SENTENCE_TOKENS: u64 = 400;

/// The size of a turn's number with brackets and line end, in tokens.
const MESSAGE_TOKENS: u64 = 6;

/// The size of the mark of an omission, in tokens.
const GAP_TOKENS: u64 = 3;

/// The size of the mark of a replaced statement, in tokens.
const REPLACED_TOKENS: u64 = 8;

/// The most rounds in which the section takes room that the estimate has left.
const MAX_FILLING_ROUNDS: usize = 4;

/// The part of the room that may stay empty: one in so many.
const MIN_SPARE_SHARE: u64 = 16;

/// The longest sentence that may be repeated, in words. Short ones have another meaning each time: "Yes, do that."
const SHORT_WORDS: usize = 4;

/// The mark of sentences that are left out of a message.
const GAP: &str = "…";

/// The longest message whose sentences are ranked before those of longer messages, in tokens. A fact or an order that is
/// a message of its own was worth a message.
const SHORT_MESSAGE_TOKENS: u64 = 40;

/// The part of the score that an order gets for holding beyond one task by its verb.
const LASTING_SCORE: i32 = 2;

/// The part of the score that an order gets as a short message of its own.
const SHORT_MESSAGE_SCORE: i32 = 1;

/// The part of a request's limit that the section may take in any case: one in four. A larger section would soon be
/// compacted again, and what is reserved for quotes is lost for long messages that are shown by their ends.
const LIMIT_SHARE: u64 = 4;

/// Returns the room of the section, in tokens. The room is the section's share of the tokens that are `free` below the
/// `limit` of the request. Orders may take more, as long as a tenth of the free tokens stays free.
pub(crate) fn user_room(free: u64, limit: u64, share: f64, order_tokens: u64) -> u64 {
    let usual = (free as f64 * share.clamp(0.0, 1.0)) as u64;
    usual.max(order_tokens.min(free - free / 10)).min(limit / LIMIT_SHARE)
}

/// The user's text in a part of the log, in ranked pieces.
#[derive(Debug)]
pub(crate) struct UserText {
    counter: MessageTokenCounter,
    has_recall: bool,
    messages: Vec<TypedMessageInfo>,
    pieces: Vec<UserTextPiece>,
    /// Indices of all pieces, the most important first.
    order: Vec<usize>,
}

/// A typed message, without the text.
#[derive(Debug)]
struct TypedMessageInfo {
    seq: Seq,
    /// The number of the turn: 1 for the first typed message of the session.
    turn: usize,
    /// `true` for the first message with words of the user, which states the goal.
    is_goal: bool,
    /// `false` if the message has only blocks of a program.
    has_own_words: bool,
}

/// A sentence, or the quoted part of a sentence.
#[derive(Debug)]
struct UserTextPiece {
    text: Box<str>,
    tokens: u64,
    /// The message of the piece, as an index.
    message: usize,
    /// The line of the piece within the message, from 0.
    line: usize,
    rank: UserTextRank,
    /// `true` if the line of the piece is an item of a list.
    is_item: bool,
    /// The score of the piece as a standing order.
    order_score: i32,
    /// The message of the statement that replaces the piece, as an index.
    replaced_by: Option<usize>,
}

impl UserTextPiece {
    /// Returns the rank of a piece between the ends of a message of `message_tokens`. The piece has the rank that it
    /// would have in a short message.
    fn middle_rank(&self, message_tokens: u64, is_goal: bool) -> UserTextRank {
        let is_paste = message_tokens > PASTE_TOKENS;
        // The middle of a paste is data, which `recall` finds.
        let is_prose = !is_paste || is_goal && message_tokens <= MAX_TASK_TOKENS;
        let prose = if is_prose { UserTextRank::LongMiddle } else { UserTextRank::PasteMiddle };
        let min_score = if is_paste { CLEAR_ORDER_SCORE } else { ORDER_SCORE };
        let is_order = self.order_score >= min_score && self.tokens <= END_TOKENS;
        match self.rank {
            UserTextRank::LongMiddle => prose,
            // The requirements of the task outlast the small orders that follow.
            _ if is_goal && !is_paste && (is_order || self.is_item) => {
                UserTextRank::Order(Reverse(self.order_score.max(CLEAR_ORDER_SCORE) + 1))
            }
            _ if is_order => UserTextRank::Order(Reverse(self.order_score)),
            rank if !is_paste && (is_goal || self.is_item) => rank,
            _ => prose,
        }
    }
}

/// The importance of a piece; the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UserTextRank {
    /// A sentence of the session's first message, which states the goal.
    Goal,
    /// A standing order, the clearest first. An order with a value or a change scores one point more, and so does one
    /// that is a short message of its own.
    Order(Reverse<i32>),
    /// A statement in a short message that names a value or announces a change.
    ShortTelling,
    /// Another statement in a short message.
    ShortStatement,
    /// A statement that names a value or announces a change.
    Telling,
    Statement,
    Question,
    /// Words that only say that the work goes on.
    Slight,
    /// A sentence between the ends of a long message, or one of a program's block.
    LongMiddle,
    /// A sentence between the ends of a paste, which is never quoted.
    PasteMiddle,
    /// A statement that a later one replaces.
    Replaced,
}

impl UserTextRank {
    /// Returns the rank of a sentence in a short message.
    fn in_short_message(self) -> Self {
        match self {
            Self::Order(Reverse(score)) => Self::Order(Reverse(score + SHORT_MESSAGE_SCORE)),
            Self::Telling => Self::ShortTelling,
            Self::Statement => Self::ShortStatement,
            rank => rank,
        }
    }

    /// Returns whether a later statement may replace a sentence of the rank.
    fn is_statement(self) -> bool {
        matches!(
            self,
            Self::Goal
                | Self::Order(_)
                | Self::ShortTelling
                | Self::ShortStatement
                | Self::Telling
                | Self::Statement
        )
    }
}

/// The properties that a line gives to its sentences.
struct LineRule {
    is_code: bool,
    /// `true` if the line begins with a label in capitals.
    has_label: bool,
    /// `true` if the line is a rule in a list of rules, or behind a heading of rules.
    is_rule: bool,
    /// The score of the rules that the line sets in markup.
    markup_score: Option<i32>,
}

impl LineRule {
    /// Returns the score of a sentence of the line as a standing order. `sentence_at` is the place of the sentence.
    fn score(&self, sentence: &str, sentence_at: usize) -> i32 {
        match self.markup_score {
            Some(score) => score,
            // Pasted code has comments such as "never call this twice", which are no orders of the user.
            None if self.is_code => addressed_comment(sentence).map_or(0, order_score),
            None if self.has_label && sentence_at > 0 => order_score_below_label(sentence),
            None if self.is_rule => order_score_in_rules(sentence),
            None => order_score(addressed_comment(sentence).unwrap_or(sentence)),
        }
    }

    /// Returns the rank of a sentence of the line with its `score`, in a message that is not long.
    fn rank(&self, sentence: &str, score: i32, has_own_words: bool) -> UserTextRank {
        match () {
            () if !has_own_words => UserTextRank::LongMiddle,
            () if is_slight(sentence) => UserTextRank::Slight,
            () if score >= ORDER_SCORE => {
                let lasting = if is_lasting(sentence) { LASTING_SCORE } else { 0 };
                UserTextRank::Order(Reverse(score + i32::from(is_telling(sentence)) + lasting))
            }
            () if is_question(sentence) => UserTextRank::Question,
            () if !self.is_code && is_telling(sentence) => UserTextRank::Telling,
            () => UserTextRank::Statement,
        }
    }
}

/// The rank of an order that a later statement replaces.
const LAST_ORDER: UserTextRank = UserTextRank::Order(Reverse(0));

impl UserText {
    /// Reads the user's text in the messages that `handles` lead to. `statements` keeps what was read of sentences.
    fn of(history: &History, handles: &[LogHandle], statements: &mut StatementCache) -> Self {
        let is_covered = |seq: Seq| handles.iter().any(|LogHandle(range)| range.contains(seq));
        let imported = ImportedSummary::all(history);
        let is_imported = |seq: Seq| imported.iter().any(|summary| summary.seq == seq);
        let typed = history.entries().iter().filter(|entry| entry.kind == LogEntryKind::Typed);
        // Some clients begin with a message that has only blocks of the program. The goal is the first typed text.
        let has_own_words = |entry: &&LogEntry| !own_lines_of(&entry.message.parts).is_empty();
        let goal = typed.clone().find(has_own_words).map(|entry| entry.seq);
        let mut messages = Vec::new();
        let mut texts: Vec<Vec<&str>> = Vec::new();
        // The log has not the messages that an imported summary quotes, so their quotes take the messages' place. A
        // client sends the summary before all that it still shows.
        let quotes =
            imported.iter().flat_map(|summary| summary.quotes.iter().map(|quote| (summary.seq, quote)));
        for (seq, quote) in quotes.clone().filter(|(seq, _)| is_covered(*seq)) {
            // Where there is an imported summary, the session's first message is among its quotes.
            let is_goal = quote.turn == 1;
            messages.push(TypedMessageInfo { seq, turn: quote.turn, is_goal, has_own_words: true });
            texts.push(quote.lines.iter().map(String::as_str).collect());
        }
        let quoted_turns = quotes.map(|(_, quote)| quote.turn).max().unwrap_or(0);
        for (index, entry) in typed.enumerate().filter(|(_, entry)| is_covered(entry.seq)) {
            let parts = if is_imported(entry.seq) {
                beside_summary(&entry.message)
            } else {
                entry.message.parts.as_slice()
            };
            let own = own_lines_of(parts);
            // A message of blocks alone is quoted after all others, because no message goes without a quote.
            let has_own_words = !own.is_empty();
            let lines = if has_own_words { own } else { all_lines_of(parts) };
            // A client's program may have put a block of its own before the summary.
            let is_summary = lines.first().is_some_and(|line| is_summary(line));
            if !lines.is_empty() && !is_summary {
                // Turns are counted over the whole session, so that a message has the same number in every view.
                let is_goal = goal == Some(entry.seq);
                let turn = quoted_turns + index + 1;
                messages.push(TypedMessageInfo { seq: entry.seq, turn, is_goal, has_own_words });
                texts.push(lines);
            }
        }
        let mut text = Self {
            counter: history.counter().clone(),
            has_recall: history.has_recall(),
            messages,
            pieces: Vec::new(),
            order: Vec::new(),
        };
        let repeated = repeated_lines(&texts);
        for (message, lines) in texts.iter().enumerate() {
            // Without an order nothing is quoted. The caller drops the result of a stopped computation anyway.
            if history.stop_flag().is_raised() {
                return text;
            }
            text.add_message(message, lines, &repeated);
        }
        text.mark_replaced(statements);
        text.order = (0..text.pieces.len()).collect();
        let key = |at: &usize| (text.pieces[*at].rank, Reverse(text.pieces[*at].message), *at);
        let mut order = std::mem::take(&mut text.order);
        order.sort_by_key(key);
        text.order = order;
        text
    }

    /// Returns whether there is no text of the user.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the estimated tokens of a section that quotes all but the middles of pastes.
    pub(crate) fn whole_tokens(&self) -> u64 {
        let pieces = self.pieces.iter().filter(|piece| piece.rank != UserTextRank::PasteMiddle);
        let quoted: u64 = pieces.map(|piece| piece.tokens).sum();
        quoted + self.messages.len() as u64 * MESSAGE_TOKENS + self.counter.text(TITLE)
    }

    /// Returns the estimated tokens of the goal and the standing orders.
    pub(crate) fn order_tokens(&self) -> u64 {
        self.tokens_of(|rank| matches!(rank, UserTextRank::Goal | UserTextRank::Order(_)))
    }

    /// Returns the estimated tokens of the standing orders without the goal.
    pub(crate) fn standing_order_tokens(&self) -> u64 {
        self.tokens_of(|rank| matches!(rank, UserTextRank::Order(_)))
    }

    /// Returns the estimated tokens of a section with the pieces of some ranks, each beside a gap.
    fn tokens_of(&self, is_wanted: impl Fn(UserTextRank) -> bool) -> u64 {
        let pieces = self.pieces.iter().filter(|piece| is_wanted(piece.rank));
        let tokens: u64 = pieces.map(|piece| piece.tokens + MESSAGE_TOKENS + GAP_TOKENS).sum();
        if tokens == 0 { 0 } else { tokens + self.counter.text(TITLE) }
    }

    /// Returns the section in at most `room_tokens`. The text is empty if not even one sentence fits.
    pub(crate) fn fit(&self, room_tokens: u64) -> String {
        let mut room = room_tokens.saturating_sub(self.counter.text(TITLE) + 1);
        while room > 0 {
            let kept = self.select(room, None);
            if !kept.contains(&true) {
                break;
            }
            let text = self.render(&kept);
            let excess = self.counter.text(&text).saturating_sub(room_tokens);
            if excess == 0 {
                return self.filled(text, kept, room, room_tokens);
            }
            // The sum of the pieces' tokens is an estimate. Steps of at least 1/32 bound the number of rounds.
            room = room.saturating_sub(excess.max(room / 32));
        }
        String::new()
    }

    /// Returns the section with more pieces where the estimate of their tokens was too high. `room` is the estimate of
    /// the selection `kept`.
    fn filled(&self, mut text: String, mut kept: Vec<bool>, mut room: u64, room_tokens: u64) -> String {
        for _ in 0..MAX_FILLING_ROUNDS {
            let spare = room_tokens.saturating_sub(self.counter.text(&text));
            if spare <= room_tokens / MIN_SPARE_SHARE || !kept.contains(&false) {
                break;
            }
            room += spare;
            let more = self.select(room, Some(&kept));
            let longer = self.render(&more);
            if self.counter.text(&longer) > room_tokens {
                break;
            }
            (text, kept) = (longer, more);
        }
        text
    }

    /// Adds the pieces of a message. `repeated` has the newest place of each line and longer sentence.
    fn add_message(&mut self, message: usize, lines: &[&str], repeated: &BTreeMap<String, (usize, usize)>) {
        let text = lines.join("\n");
        let code = CodeLines::of(&text);
        let first = self.pieces.len();
        let TypedMessageInfo { is_goal, has_own_words, .. } = self.messages[message];
        let mut rules = RuleList::default();
        let mut markup = MarkupRules::of(&text);
        for (line_at, line) in lines.iter().enumerate() {
            let is_item = is_list_item(line) && !code.is_code(line_at);
            let has_label = has_label(line);
            // Every line is read, because markup may begin on a line that is said again later.
            let markup_score = markup.read_line(line);
            let is_rule = rules.read_line(line, is_item) || !has_label && begins_with_heading(line);
            if repeated.get(&line_key(line)).is_some_and(|newest| *newest != (message, line_at)) {
                continue;
            }
            let line_rule = LineRule { is_code: code.is_code(line_at), has_label, is_rule, markup_score };
            for (sentence_at, sentence) in item_spans(line.trim_end()).into_iter().enumerate() {
                let is_said_again =
                    repeated.get(&line_key(sentence)).is_some_and(|newest| *newest != (message, line_at));
                if sentence.trim().is_empty() || is_said_again {
                    continue;
                }
                for part in order_parts(sentence) {
                    let score = line_rule.score(part, sentence_at);
                    let rank = line_rule.rank(part, score, has_own_words);
                    let tokens = self.counter.text(part) + 1;
                    self.pieces.push(UserTextPiece {
                        text: part.into(),
                        tokens,
                        message,
                        line: line_at,
                        rank,
                        is_item,
                        order_score: score,
                        replaced_by: None,
                    });
                }
            }
        }
        let all: u64 = self.pieces[first..].iter().map(|piece| piece.tokens).sum();
        let max_sentence = if is_goal { MAX_TASK_SENTENCE_TOKENS } else { END_TOKENS };
        if all <= SHORT_MESSAGE_TOKENS {
            for piece in &mut self.pieces[first..] {
                piece.rank = piece.rank.in_short_message();
            }
        }
        let middle = if all > LONG_TOKENS { self.middle(first, max_sentence) } else { first..first };
        if is_goal {
            for at in (first..self.pieces.len()).filter(|at| !middle.contains(at)) {
                self.pieces[at].rank = UserTextRank::Goal;
            }
        }
        for at in middle {
            let piece = &mut self.pieces[at];
            piece.rank = piece.middle_rank(all, is_goal);
        }
    }

    /// Returns the pieces between the ends of a long message. `first` is the message's first piece. A sentence at an end
    /// is shortened if it is longer than `max_sentence_tokens`, so that even a message of one sentence shows its ends.
    fn middle(&mut self, first: usize, max_sentence_tokens: u64) -> Range<usize> {
        let pieces = &mut self.pieces[first..];
        let (mut head_end, mut tail_start) = (0, pieces.len());
        let mut used = 0;
        while head_end < pieces.len() && used + pieces[head_end].tokens <= END_TOKENS {
            used += pieces[head_end].tokens;
            head_end += 1;
        }
        used = 0;
        while tail_start > head_end && used + pieces[tail_start - 1].tokens <= END_TOKENS {
            tail_start -= 1;
            used += pieces[tail_start].tokens;
        }
        let is_long_head = head_end == 0 && tail_start > 0;
        let is_long_tail = used == 0 && tail_start > head_end + usize::from(is_long_head);
        let long_ends = [is_long_head.then_some(0), is_long_tail.then(|| tail_start - 1)];
        for at in long_ends.into_iter().flatten() {
            let piece = &mut pieces[at];
            if piece.tokens <= max_sentence_tokens {
                continue;
            }
            if let Some(short) = shortened(&piece.text, END_TOKENS, &|text| self.counter.text(text)) {
                piece.tokens = self.counter.text(&short) + 1;
                piece.text = short.into();
            }
        }
        first + head_end + usize::from(is_long_head)..first + tail_start - usize::from(is_long_tail)
    }

    /// Marks replaced statements, and gives their ranks to the statements that replace them.
    fn mark_replaced(&mut self, statements: &mut StatementCache) {
        let at: Vec<usize> =
            (0..self.pieces.len()).filter(|at| self.pieces[*at].rank.is_statement()).collect();
        let stated: Vec<(usize, &str)> =
            at.iter().map(|at| (self.pieces[*at].message, &*self.pieces[*at].text)).collect();
        let replaced_by = replacements(&stated, statements);
        for (earlier, later) in at.iter().zip(replaced_by) {
            let Some(later) = later.map(|later| at[later]) else { continue };
            let later_message = self.pieces[later].message;
            // "We call the project B now" has not the form of an order, but changes one and must last as long.
            self.pieces[later].rank = self.pieces[later].rank.min(self.pieces[*earlier].rank);
            let piece = &mut self.pieces[*earlier];
            piece.replaced_by = Some(later_message);
            // Words decide what is replaced, and may err. An order stays one, the last of all.
            let is_order = piece.order_score >= ORDER_SCORE && has_order_form(&piece.text);
            piece.rank = if is_order { LAST_ORDER } else { UserTextRank::Replaced };
        }
    }

    /// Chooses the pieces that fit `room` tokens, the most important first. Replaced statements are quoted only if
    /// all other pieces are.
    ///
    /// Beside an earlier selection in less room, questions are added only if all statements are kept, and lower ranks not
    /// at all.
    fn select(&self, room: u64, earlier: Option<&[bool]>) -> Vec<bool> {
        let mut kept = vec![false; self.pieces.len()];
        let mut opened = vec![false; self.messages.len()];
        let mut used = 0;
        let mut is_full = false;
        for at in self.order.iter().copied().filter(|at| self.pieces[*at].rank != UserTextRank::PasteMiddle) {
            let piece = &self.pieces[at];
            let opening = if opened[piece.message] { 0 } else { MESSAGE_TOKENS };
            let mark = piece.replaced_by.map_or(0, |_| REPLACED_TOKENS);
            // Pieces are chosen by rank, so the neighbour may come later: then the gap need not have been counted.
            let is_beside_kept = at > 0 && kept[at - 1];
            let gap = if is_beside_kept { 0 } else { GAP_TOKENS };
            // After a piece that did not fit, smaller ones of lower rank may follow, but no replaced statements.
            let is_added = earlier.is_some_and(|earlier| !earlier[at]);
            let is_low =
                piece.rank > UserTextRank::Question || is_full && piece.rank == UserTextRank::Question;
            let is_idle = is_full && piece.rank == UserTextRank::Replaced || is_added && is_low;
            if is_idle || used + opening + mark + gap + piece.tokens > room {
                is_full = true;
                continue;
            }
            used += opening + mark + gap + piece.tokens;
            kept[at] = true;
            opened[piece.message] = true;
        }
        kept
    }

    fn render(&self, kept: &[bool]) -> String {
        let shown: BTreeSet<usize> =
            self.pieces.iter().zip(kept).filter(|(_, kept)| **kept).map(|(piece, _)| piece.message).collect();
        let mut text = format!("{TITLE}\n");
        let mut at = 0;
        for (index, message) in self.messages.iter().enumerate() {
            let end = at + self.pieces[at..].iter().take_while(|piece| piece.message == index).count();
            if shown.contains(&index) {
                text.push_str(&format!("[{}] ", message.turn));
                self.render_message(&mut text, message, at..end, kept);
                text.push('\n');
            }
            at = end;
        }
        // A message whose lines are all repeated later has no piece, and alone is no reason for the line below.
        let left_out = self.pieces.iter().zip(kept).filter(|(_, kept)| !**kept).count();
        let left_out_messages = self.messages.len() - shown.len();
        if left_out > 0 && left_out_messages > 0 {
            let how = if self.has_recall { " are not quoted; `recall` finds them" } else { "" };
            text.push_str(&format!("[{left_out_messages} more messages{how}]\n"));
        }
        text
    }

    fn render_message(
        &self,
        text: &mut String,
        message: &TypedMessageInfo,
        range: Range<usize>,
        kept: &[bool],
    ) {
        let mut line = None;
        let mut omitted = 0;
        for at in range {
            let piece = &self.pieces[at];
            if !kept[at] {
                omitted += piece.text.chars().count();
                continue;
            }
            if line.is_some_and(|before| before != piece.line) {
                text.truncate(text.trim_end().len());
                text.push_str("\n    ");
            }
            if omitted > 0 {
                let blank = if text.ends_with(' ') { "" } else { " " };
                text.push_str(&format!("{blank}{} ", self.gap(message, omitted)));
                omitted = 0;
            }
            text.push_str(if line.is_some() { &piece.text } else { piece.text.trim_start() });
            if let Some(later) = piece.replaced_by {
                text.truncate(text.trim_end().len());
                text.push_str(&format!(" (replaced by [{}]) ", self.messages[later].turn));
            }
            line = Some(piece.line);
        }
        if omitted > 0 {
            text.push(' ');
            text.push_str(&self.gap(message, omitted));
        }
        text.truncate(text.trim_end().len());
    }

    /// Returns the mark of an omission of `chars` characters. The mark of a long passage names a handle.
    fn gap(&self, message: &TypedMessageInfo, chars: usize) -> String {
        match (chars > 200, self.has_recall) {
            (false, _) => GAP.to_owned(),
            (true, true) => {
                format!("[{GAP} {chars} characters, handle {} {GAP}]", LogHandle(LogRange::one(message.seq)))
            }
            (true, false) => format!("[{GAP} {chars} characters {GAP}]"),
        }
    }
}

/// The title of the list of standing orders.
pub(crate) const ORDERS_TITLE: &str = "Standing orders, in force until they are removed:";

/// Returns the complete list of the session's active standing orders; an empty text if there are none.
pub(crate) fn order_list(history: &History) -> String {
    let items: String = history.orders().map(|order| format!("- {}: {}\n", order.id, order.line())).collect();
    if items.is_empty() { items } else { format!("{ORDERS_TITLE}\n{items}") }
}

/// Returns a summary's text without quotes of the user, standing orders and system messages. Each view renders these
/// again from the log.
pub(crate) fn without_section(text: &str) -> Cow<'_, str> {
    // Neither of the first two sections has a blank line within, because blank lines of the user's messages are not
    // quoted. A system message is quoted with its blank lines.
    let sections = [(TITLE, "\n\n"), (ORDERS_TITLE, "\n\n"), (system_messages::TITLE, system_messages::END)];
    sections.into_iter().fold(Cow::Borrowed(text), |text, (title, end)| {
        // Summaries of older versions may have a second section, which a model has written.
        let mut text = text;
        while let Some(start) = text.find(title) {
            let rest = text[start..].find(end).map_or("", |at| &text[start + at + end.len()..]);
            text = Cow::Owned([&text[..start], rest].concat());
        }
        text
    })
}

/// Returns whether a line is an item of a list: `- …`, `* …`, `3. …`.
fn is_list_item(line: &str) -> bool {
    let line = line.trim_start();
    let text = line.trim_start_matches(|char: char| char.is_ascii_digit());
    let is_numbered = text.len() < line.len() && text.starts_with(['.', ')']);
    let text = if is_numbered { &text[1..] } else { line.trim_start_matches(['-', '*', '•', '+']) };
    text.len() < line.len() && text.starts_with(' ')
}

/// Splits a line into sentences. The number of a list's item belongs to the first of them.
fn item_spans(line: &str) -> Vec<&str> {
    let mut spans = sentence_spans(line);
    if let [number, _, ..] = spans[..]
        && is_list_item(line)
        && number
            .trim_end()
            .trim_end_matches(['.', ')'])
            .trim_start()
            .bytes()
            .all(|byte| byte.is_ascii_digit())
    {
        spans[1] = &line[..number.len() + spans[1].len()];
        spans.remove(0);
    }
    spans
}

/// Returns the newest place of each line and each longer sentence, by its words.
fn repeated_lines(texts: &[Vec<&str>]) -> BTreeMap<String, (usize, usize)> {
    let mut newest = BTreeMap::new();
    let is_long = |sentence: &&str| sentence.split_whitespace().nth(SHORT_WORDS).is_some();
    for (message, lines) in texts.iter().enumerate() {
        for (line_at, line) in lines.iter().enumerate() {
            for sentence in sentence_spans(line.trim_end()).into_iter().filter(is_long) {
                newest.insert(line_key(sentence), (message, line_at));
            }
            newest.insert(line_key(line), (message, line_at));
        }
    }
    newest
}

fn line_key(line: &str) -> String {
    single_spaced(line).to_lowercase()
}

/// Returns the lines of a typed message that the user wrote.
fn own_lines_of(parts: &[Part]) -> Vec<&str> {
    parts.iter().filter_map(Part::as_text).flat_map(own_lines).collect()
}

/// Returns all lines of a typed message but blank ones.
fn all_lines_of(parts: &[Part]) -> Vec<&str> {
    let texts = parts.iter().filter_map(Part::as_text);
    texts.flat_map(str::lines).filter(|line| !line.trim().is_empty()).collect()
}

/// Returns the lines of a text that the user wrote. Blank lines are left out, and so are blocks that a client's
/// program has added, such as `<system-reminder>…</system-reminder>`.
fn own_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = split_block(rest) {
        lines.extend(before.lines());
        rest = after;
    }
    lines.extend(rest.lines());
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// Names of the blocks that known clients and agents put into a user's message. Every other tag is the user's own:
/// people write `<house_rules>` and `<output_format>`, too.
const PROGRAM_BLOCKS: &[&str] = &[
    "additional_data",
    "attached_files",
    "bash-stderr",
    "bash-stdout",
    "current_file",
    "environment_context",
    "environment_details",
    "file_content",
    "file_contents",
    "final_file_content",
    "folder_content",
    "function_result",
    "function_results",
    "git_status",
    "open_and_recently_viewed_files",
    "project_layout",
    "state_snapshot",
    "system-reminder",
    "system_reminder",
    "terminal_output",
    "tool_call",
    "tool_output",
    "tool_output_masked",
    "tool_response",
    "tool_result",
    "tool_results",
    "tool_use_error",
    "turn_aborted",
    "url_content",
    "user_info",
    "user_instructions",
    "workspace_info",
];

/// Beginnings of the names of such blocks.
const PROGRAM_BLOCK_PREFIXES: &[&str] = &["command-", "ide_", "local-command-"];

/// Splits a text at its first block of a program: the text between `<name>` at the beginning of a line and `</name>`.
fn split_block(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    while let Some(at) = text[from..].find('<').map(|at| from + at) {
        from = at + 1;
        let is_line_start = text[..at].rsplit('\n').next().is_none_or(|line| line.trim().is_empty());
        let name_end = text[from..].find(|char: char| !(char.is_ascii_lowercase() || "-_".contains(char)));
        let Some(name) = name_end.map(|end| &text[from..from + end]) else { continue };
        let is_program = PROGRAM_BLOCKS.contains(&name)
            || PROGRAM_BLOCK_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if !is_line_start || !is_program {
            continue;
        }
        let close = format!("</{name}>");
        if let Some(end) = text[from..].find(&close) {
            return Some((&text[..at], &text[from + end + close.len()..]));
        }
    }
    None
}
