//! Syntax highlighting: the scopes of the grammars, mapped to a dozen classes.

use std::sync::LazyLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::escaped;

/// The largest highlighted block, and the longest highlighted line. Larger ones are shown plain.
const LARGEST_BYTES: usize = 64 << 10;
const LONGEST_LINE_BYTES: usize = 2_000;

// Loading takes long, so it happens once, at the first code block.
static GRAMMARS: LazyLock<SyntaxSet> = LazyLock::new(SyntaxSet::load_defaults_newlines);

/// The classes, without duplicates.
pub(super) const CLASSES: [&str; 13] = [
    "hl-comment",
    "hl-string",
    "hl-number",
    "hl-literal",
    "hl-operator",
    "hl-keyword",
    "hl-function",
    "hl-type",
    "hl-tag",
    "hl-attribute",
    "hl-variable",
    "hl-inserted",
    "hl-deleted",
];

/// The scope names of the grammars with their classes. The longest matching name counts.
const NAMES: [(&str, &str); 29] = [
    ("comment", "hl-comment"),
    ("string", "hl-string"),
    ("constant", "hl-literal"),
    ("constant.numeric", "hl-number"),
    ("constant.other.color", "hl-number"),
    ("keyword", "hl-keyword"),
    ("keyword.operator", "hl-operator"),
    ("keyword.operator.word", "hl-keyword"),
    ("keyword.operator.logical.python", "hl-keyword"),
    ("storage", "hl-keyword"),
    ("variable.language", "hl-keyword"),
    ("variable.parameter", "hl-variable"),
    ("variable.other.readwrite.assignment", "hl-variable"),
    ("entity.name.function", "hl-function"),
    ("entity.name.class", "hl-type"),
    ("entity.name.struct", "hl-type"),
    ("entity.name.type", "hl-type"),
    ("entity.name.enum", "hl-type"),
    ("entity.name.trait", "hl-type"),
    ("entity.name.impl", "hl-type"),
    ("entity.name.tag", "hl-tag"),
    ("entity.other.attribute-name", "hl-attribute"),
    ("entity.other.inherited-class", "hl-type"),
    ("support.function", "hl-function"),
    ("variable.function", "hl-function"),
    ("support.type", "hl-type"),
    ("support.class", "hl-type"),
    ("markup.inserted", "hl-inserted"),
    ("markup.deleted", "hl-deleted"),
];

static SCOPES: LazyLock<Vec<(Scope, &'static str)>> = LazyLock::new(|| {
    let mut scopes: Vec<_> =
        // The names are constants, so none is left out. A panic at the first page would be worse.
        NAMES.iter().filter_map(|(name, class)| Some((Scope::new(name).ok()?, *class))).collect();
    // The search takes the first match, so longer names come first.
    scopes.sort_by_key(|(scope, _)| std::cmp::Reverse(scope.len()));
    scopes
});

/// Languages without a grammar of their own, and the fitting grammar.
const ALIASES: [(&str, &str); 15] = [
    ("ts", "js"),
    ("tsx", "js"),
    ("jsx", "js"),
    ("mjs", "js"),
    ("typescript", "js"),
    ("json5", "json"),
    ("jsonc", "json"),
    ("jsonl", "json"),
    ("shell", "bash"),
    ("console", "bash"),
    ("zsh", "bash"),
    ("c++", "cpp"),
    ("golang", "go"),
    ("rust", "rs"),
    ("patch", "diff"),
];

/// Returns a code block, highlighted if the language is known and within the byte budget.
pub(super) fn block(code: &str, language: Option<&str>, bytes_left: &mut usize) -> String {
    let class = language.map(|name| format!(" class=\"language-{name}\"")).unwrap_or_default();
    let grammar = language.and_then(grammar).filter(|_| code.len() <= LARGEST_BYTES.min(*bytes_left));
    let shown = match grammar {
        Some(grammar) => {
            *bytes_left -= code.len();
            highlighted(code, grammar)
        }
        None => escaped(code),
    };
    format!("<pre><code{class}>{shown}</code></pre>\n")
}

fn grammar(language: &str) -> Option<&'static SyntaxReference> {
    let known = ALIASES.iter().find(|(alias, _)| *alias == language).map_or(language, |(_, known)| known);
    let grammar = GRAMMARS.find_syntax_by_token(known)?;
    // Plain text has no scopes, and its bytes must not use up the budget.
    (grammar.name != "Plain Text").then_some(grammar)
}

fn highlighted(code: &str, grammar: &SyntaxReference) -> String {
    let mut state = ParseState::new(grammar);
    let mut line_writer = CodeSpanWriter::default();
    let mut stack = ScopeStack::new();
    for line in code.split_inclusive('\n') {
        // Grammars are regular expressions, whose time on a long line has no good bound.
        let parsed = (line.len() <= LONGEST_LINE_BYTES).then(|| state.parse_line(line, &GRAMMARS));
        let Some(Ok(operations)) = parsed else {
            line_writer.push(line, None);
            continue;
        };
        let mut from = 0;
        for (at, operation) in operations {
            line_writer.push(&line[from..at], class(&stack));
            from = at;
            // A faulty grammar must not fail the page: the block continues with an empty stack.
            if stack.apply(&operation).is_err() {
                stack = ScopeStack::new();
            }
        }
        line_writer.push(&line[from..], class(&stack));
    }
    line_writer.end()
}

/// Returns the class of the innermost scope with a class.
fn class(stack: &ScopeStack) -> Option<&'static str> {
    let mut innermost_first = stack.as_slice().iter().rev();
    innermost_first
        .find_map(|scope| SCOPES.iter().find(|(name, _)| name.is_prefix_of(*scope)).map(|(_, class)| *class))
}

/// Writes pieces of code, with pieces of the same class joined.
#[derive(Default)]
struct CodeSpanWriter {
    markup: String,
    class: Option<&'static str>,
}

impl CodeSpanWriter {
    fn push(&mut self, text: &str, class: Option<&'static str>) {
        if text.is_empty() {
            return;
        }
        // Whitespace has no colour, so it does not end a span.
        let class = if text.trim().is_empty() { self.class } else { class };
        if class != self.class {
            self.close();
            if let Some(class) = class {
                self.markup.push_str(&format!("<span class=\"{class}\">"));
            }
            self.class = class;
        }
        self.markup.push_str(&escaped(text));
    }

    fn close(&mut self) {
        if self.class.take().is_some() {
            self.markup.push_str("</span>");
        }
    }

    fn end(mut self) -> String {
        self.close();
        self.markup
    }
}
