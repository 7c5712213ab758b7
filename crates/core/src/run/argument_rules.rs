//! Approval that depends on a call's arguments.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ToolApproval;
use super::shell_commands::{PatternFit, ShellCommands};

/// The argument that is read as a command line of a shell.
const COMMAND: &str = "command";

/// The characters that a shell reads as more than a part of a word. A pattern for `git status` must not allow
/// `git status; rm -r .`.
const MEANS_MORE: [char; 15] =
    [';', '&', '|', '<', '>', '`', '$', '(', ')', '{', '}', '\\', '\n', '\r', '\0'];

/// Rules over arguments, in order. The first rule that fits decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentRules {
    /// The rules.
    pub rules: Vec<ArgumentRule>,
    /// The permission if no rule fits. `None` means the tool's default, or a question to a person if that is unknown.
    pub otherwise: Option<Box<ToolApproval>>,
    /// Rules of a second source, in order. If rules of both sources fit, the stricter decision holds.
    pub closures: Vec<ArgumentRule>,
    /// The permission if the text of a command does not show whether a rule that does not allow fits. A stricter
    /// decision of another rule holds over it. `None` means the agent's own, or a question to a person if that is
    /// unknown.
    pub if_unclear: Option<Box<ToolApproval>>,
}

/// The permission of calls with certain arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentRule {
    /// One pattern for each checked argument: `*` is any text, `?` one character, all other characters stand
    /// for themselves. Every pattern must fit the whole argument. An argument that is no text is matched as JSON. A rule
    /// that does not allow also fits if its pattern for `command` fits one of the commands in that shell command line.
    pub patterns: BTreeMap<String, String>,
    /// The permission.
    pub approval: ToolApproval,
}

impl ArgumentRules {
    /// Returns the permission of a call with these arguments, as the model wrote them.
    pub fn decide(&self, arguments: &str) -> ToolApproval {
        // Broken arguments fit no pattern, so they are never allowed by a rule that looks at them.
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        let commands = arguments.get(COMMAND).and_then(Value::as_str).map(ShellCommands::read);
        let (rule, is_rule_in_doubt) = first_fitting(&self.rules, &arguments, commands.as_ref());
        let (closure, is_closure_in_doubt) = first_fitting(&self.closures, &arguments, commands.as_ref());
        let decision = match (rule, closure) {
            (Some(decision), Some(closure)) => stricter(decision, closure),
            (Some(decision), None) | (None, Some(decision)) => decision,
            (None, None) => self.otherwise.as_deref().map_or(ToolApproval::Ask, unnested),
        };
        if !is_rule_in_doubt && !is_closure_in_doubt {
            return decision;
        }
        let unclear = match self.if_unclear.as_deref().map_or(ToolApproval::Ask, unnested) {
            // A doubt about a denial never allows a call.
            ToolApproval::Allow => ToolApproval::Ask,
            unclear => unclear,
        };
        stricter(decision, unclear)
    }
}

/// Returns the decision of the first rule that fits, and whether a rule before it that does not allow may fit too.
fn first_fitting(
    rules: &[ArgumentRule],
    arguments: &Value,
    commands: Option<&ShellCommands>,
) -> (Option<ToolApproval>, bool) {
    let mut is_in_doubt = false;
    for rule in rules {
        match rule.fit(arguments, commands) {
            PatternFit::Yes => return (Some(rule.decision()), is_in_doubt),
            PatternFit::Maybe => is_in_doubt = true,
            PatternFit::No => {}
        }
    }
    (None, is_in_doubt)
}

/// Returns the permission, or [`ToolApproval::Ask`] for one that depends on arguments once more.
fn unnested(approval: &ToolApproval) -> ToolApproval {
    match approval {
        ToolApproval::Matching(_) => ToolApproval::Ask,
        decided => decided.clone(),
    }
}

/// Returns the stricter of two decisions: a denial before a question, a question before a permission.
fn stricter(one: ToolApproval, other: ToolApproval) -> ToolApproval {
    match (&one, &other) {
        (ToolApproval::Deny(_), _) => one,
        (_, ToolApproval::Deny(_)) => other,
        (ToolApproval::Allow, ToolApproval::Allow) => ToolApproval::Allow,
        _ => ToolApproval::Ask,
    }
}

impl ArgumentRule {
    fn decision(&self) -> ToolApproval {
        unnested(&self.approval)
    }

    /// Returns how well the rule fits: as well as its least fitting pattern.
    fn fit(&self, arguments: &Value, commands: Option<&ShellCommands>) -> PatternFit {
        let fits = self.patterns.iter().map(|(name, pattern)| {
            let value = match arguments.get(name) {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => return PatternFit::No,
            };
            let commands = commands.filter(|_| name == COMMAND);
            self.pattern_fit(pattern, &value, commands)
        });
        fits.min().unwrap_or(PatternFit::Yes)
    }

    fn pattern_fit(&self, pattern: &str, value: &str, commands: Option<&ShellCommands>) -> PatternFit {
        let fits_whole = fits(pattern, value);
        match (&self.approval, commands) {
            // Only permissions are narrowed: a denial must hold whatever else a command says.
            (ToolApproval::Allow, _) if fits_whole && !says_more(value, pattern) => PatternFit::Yes,
            (ToolApproval::Allow, _) => PatternFit::No,
            _ if fits_whole => PatternFit::Yes,
            (_, Some(commands)) => commands.fit(pattern, fits),
            (_, None) => PatternFit::No,
        }
    }
}

/// Returns whether a value can do more than the pattern that allows it shows. Signs of a shell and `..` in a path count
/// if the pattern has none.
fn says_more(value: &str, pattern: &str) -> bool {
    value.contains(|c| MEANS_MORE.contains(&c) && !pattern.contains(c))
        || (goes_up(value) && !goes_up(pattern))
}

/// Returns whether a text has a path with `..`. The path may stand behind an option, such as `--dir=../x`, or between
/// quotes.
fn goes_up(text: &str) -> bool {
    text.split(['/', ' ', '\t', '=', ':', ',', '"', '\'']).any(|part| part == "..")
}

/// Returns whether a text fits a pattern. The time is at worst the product of both lengths.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // The place of the last `*`, and the length of text that it takes. Only this one is retried, which keeps the time
    // bounded.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(sign) if *sign == '?' || *sign == text[t] => (p, t) = (p + 1, t + 1),
            _ => match &mut star {
                Some((at, reach)) => {
                    *reach += 1;
                    (p, t) = (*at + 1, *reach);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|sign| *sign == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(argument: &str, pattern: &str, approval: ToolApproval) -> ArgumentRule {
        ArgumentRule { patterns: [(argument.to_owned(), pattern.to_owned())].into(), approval }
    }

    fn bash(command: &str) -> String {
        serde_json::json!({ "command": command }).to_string()
    }

    fn deny(why: &str) -> ToolApproval {
        ToolApproval::Deny(why.to_owned())
    }

    fn deny_command(pattern: &str) -> ArgumentRule {
        rule("command", pattern, deny("no"))
    }

    fn rule_without_patterns(approval: ToolApproval) -> ArgumentRule {
        ArgumentRule { patterns: BTreeMap::new(), approval }
    }

    /// Returns rules that allow what none of them fits.
    fn or_allow(rules: Vec<ArgumentRule>) -> ArgumentRules {
        let otherwise = Some(Box::new(ToolApproval::Allow));
        ArgumentRules { rules, otherwise, ..ArgumentRules::default() }
    }

    /// Returns rules of two sources, with the approval of commands that cannot be read.
    fn rules_if_unclear(if_unclear: ToolApproval) -> ArgumentRules {
        ArgumentRules {
            rules: vec![deny_command("git push*")],
            otherwise: Some(Box::new(ToolApproval::Allow)),
            closures: vec![rule("command", "rm *", deny("never"))],
            if_unclear: Some(Box::new(if_unclear)),
        }
    }

    #[test]
    fn patterns_fit_whole_texts() {
        for (pattern, text) in [
            ("git *", "git log -1"),
            ("*", ""),
            ("a?c", "abc"),
            ("**b*", "aab"),
            ("*.rs", "a.rs.rs"),
            ("ä*ß", "äöüß"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("git", "git log"), ("a?c", "ac"), ("", "a"), ("*.rs", "a.rs "), ("a*b", "b")]
        {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
        // Not exponential.
        assert!(!fits(&"a*".repeat(50), &format!("{}b", "c".repeat(5_000))));
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let matching = ArgumentRules {
            rules: vec![
                rule("command", "*rm -r*", ToolApproval::Deny("no".to_owned())),
                rule("command", "git status*", ToolApproval::Allow),
            ],
            otherwise: None,
            ..ArgumentRules::default()
        };
        assert_eq!(matching.decide(&bash("git status --short")), ToolApproval::Allow);
        assert_eq!(matching.decide(&bash("cd x && rm -rf .")), ToolApproval::Deny("no".to_owned()));
        for other in ["git push", "", "GIT STATUS"] {
            assert_eq!(matching.decide(&bash(other)), ToolApproval::Ask, "{other}");
        }
        for arguments in ["", "{", "[]", "null", r#"{"other":"git status"}"#, &"[".repeat(10_000)] {
            assert_eq!(matching.decide(arguments), ToolApproval::Ask, "{arguments:.20}");
        }
        let otherwise = Some(Box::new(ToolApproval::Allow));
        assert_eq!(ArgumentRules { otherwise, ..matching }.decide(&bash("git push")), ToolApproval::Allow);
    }

    #[test]
    fn what_is_allowed_says_no_more_than_its_pattern_shows() {
        let matching = ArgumentRules {
            rules: vec![rule("command", "git log *", ToolApproval::Allow)],
            otherwise: None,
            ..ArgumentRules::default()
        };
        assert_eq!(matching.decide(&bash("git log -p src/a.rs")), ToolApproval::Allow);
        for more in [
            "; rm x",
            "&& rm x",
            "| sh",
            "> x",
            "`rm x`",
            "$(rm x)",
            "\nrm x",
            "-S $HOME",
            "<(rm x)",
            "../../x",
            "../x",
            "--output=../x",
        ] {
            let command = format!("git log {more}");
            assert_eq!(matching.decide(&bash(&command)), ToolApproval::Ask, "{command}");
        }
        let piped = ArgumentRules {
            rules: vec![rule("command", "git log * | head*", ToolApproval::Allow)],
            otherwise: None,
            ..ArgumentRules::default()
        };
        assert_eq!(piped.decide(&bash("git log -p | head -3")), ToolApproval::Allow);
        let path = ArgumentRules {
            rules: vec![rule("path", "docs/*", ToolApproval::Allow)],
            otherwise: None,
            ..ArgumentRules::default()
        };
        assert_eq!(path.decide(r#"{"path":"docs/a..b/c.md"}"#), ToolApproval::Allow);
        assert_eq!(path.decide(r#"{"path":"docs/../src/main.rs"}"#), ToolApproval::Ask);
        // What is denied is denied whatever stands around it.
        let denied = ArgumentRules {
            rules: vec![rule("command", "*push*", ToolApproval::Deny(String::new()))],
            otherwise: None,
            ..ArgumentRules::default()
        };
        assert_eq!(denied.decide(&bash("true; git push")), ToolApproval::Deny(String::new()));
    }

    #[test]
    fn a_denial_holds_for_a_command_however_it_is_written() {
        let matching = ArgumentRules {
            rules: vec![
                rule("command", "git push*", ToolApproval::Deny("no".to_owned())),
                rule("command", "rm *", ToolApproval::Ask),
            ],
            otherwise: Some(Box::new(ToolApproval::Allow)),
            ..ArgumentRules::default()
        };
        for command in
            ["true; git push", "/usr/bin/git push", "sh -c 'git push'", "env git push", "g\\it push"]
        {
            assert_eq!(matching.decide(&bash(command)), ToolApproval::Deny("no".to_owned()), "{command}");
        }
        for command in ["cd x && rm y", "git $X", "echo x | sh", "git commit -m 'no end", "sudo rm x"] {
            assert_eq!(matching.decide(&bash(command)), ToolApproval::Ask, "{command}");
        }
        for command in ["git status", "echo 'git push'", "cargo test \"$X\" && ls *.rs"] {
            assert_eq!(matching.decide(&bash(command)), ToolApproval::Allow, "{command}");
        }
        let of_another = rule("path", "git push*", ToolApproval::Deny(String::new()));
        let matching = ArgumentRules { rules: vec![of_another], ..matching };
        assert_eq!(matching.decide(r#"{"path":"x; git push"}"#), ToolApproval::Allow, "no command line");
    }

    #[test]
    fn a_doubt_asks_and_lets_later_rules_deny() {
        let allow = rule("command", "*", ToolApproval::Allow);
        let line = bash("git $X; rm y");
        assert_eq!(
            or_allow(vec![deny_command("git push*"), deny_command("rm *")]).decide(&line),
            ToolApproval::Deny("no".into())
        );
        let git = bash("git $X");
        let pattern_with_signs = rule("command", "git $X", ToolApproval::Allow);
        assert_eq!(or_allow(vec![deny_command("git push*"), allow.clone()]).decide(&git), ToolApproval::Ask);
        assert_eq!(
            or_allow(vec![pattern_with_signs, deny_command("git push*")]).decide(&git),
            ToolApproval::Allow,
            "in order"
        );
        assert_eq!(or_allow(vec![allow]).decide(&bash("git log")), ToolApproval::Allow);
    }

    #[test]
    fn a_doubt_denies_where_nobody_can_be_asked() {
        let unattended = rules_if_unclear(deny("unclear"));
        for command in
            ["git $X", "timeout 5 $CMD", "CMD='ls -la'; $CMD", "echo \"a", "for b in a b; do git $b; done"]
        {
            assert_eq!(unattended.decide(&bash(command)), deny("unclear"), "{command}");
            assert_eq!(
                rules_if_unclear(ToolApproval::Ask).decide(&bash(command)),
                ToolApproval::Ask,
                "{command}"
            );
            assert_eq!(
                rules_if_unclear(ToolApproval::Allow).decide(&bash(command)),
                ToolApproval::Ask,
                "{command}"
            );
        }
        assert_eq!(unattended.decide(&bash("git status")), ToolApproval::Allow);
        assert_eq!(unattended.decide(&bash("git push")), deny("no"));
        assert_eq!(unattended.decide(&bash("rm $X")), deny("never"), "a sure denial keeps its reason");
    }

    #[test]
    fn the_stricter_of_two_sources_holds() {
        for (rule, closure, expected) in [
            (ToolApproval::Allow, deny("no"), deny("no")),
            (deny("no"), ToolApproval::Allow, deny("no")),
            (ToolApproval::Allow, ToolApproval::Ask, ToolApproval::Ask),
            (ToolApproval::Ask, ToolApproval::Allow, ToolApproval::Ask),
            (ToolApproval::Allow, ToolApproval::Allow, ToolApproval::Allow),
        ] {
            let otherwise = Some(Box::new(ToolApproval::Allow));
            let (rules, closures) = (vec![rule_without_patterns(rule)], vec![rule_without_patterns(closure)]);
            let matching = ArgumentRules { rules, otherwise, closures, ..ArgumentRules::default() };
            assert_eq!(matching.decide("{}"), expected, "{matching:?}");
        }
        let closures = vec![rule("command", "git push*", deny("no"))];
        let matching = ArgumentRules {
            otherwise: Some(Box::new(ToolApproval::Allow)),
            closures,
            ..ArgumentRules::default()
        };
        assert_eq!(matching.decide(&bash("git push")), deny("no"));
        assert_eq!(matching.decide(&bash("git log")), ToolApproval::Allow, "no rule of either source fits");
    }

    #[test]
    fn what_is_no_text_is_matched_as_json() {
        let matching = ArgumentRules {
            rules: vec![rule("replaceAll", "false", ToolApproval::Allow)],
            otherwise: None,
            ..ArgumentRules::default()
        };
        assert_eq!(matching.decide(r#"{"replaceAll":false}"#), ToolApproval::Allow);
        assert_eq!(matching.decide(r#"{"replaceAll":true}"#), ToolApproval::Ask);
    }
}
