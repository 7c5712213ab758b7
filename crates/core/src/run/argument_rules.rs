//! Approval that depends on a call's arguments.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ToolApproval;

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
}

/// The permission of calls with certain arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentRule {
    /// One pattern for each checked argument: `*` is any text, `?` one character, all other characters stand
    /// for themselves. Every pattern must fit the whole argument. An argument that is no text is matched as JSON.
    pub patterns: BTreeMap<String, String>,
    /// The permission.
    pub approval: ToolApproval,
}

impl ArgumentRules {
    /// Returns the permission of a call with these arguments, as the model wrote them.
    pub fn decide(&self, arguments: &str) -> ToolApproval {
        // Broken arguments fit no pattern, so they are never allowed by a rule that looks at them.
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        let first_fitting = |rules: &[ArgumentRule]| {
            rules.iter().find(|rule| rule.fits(&arguments)).map(ArgumentRule::decision)
        };
        match (first_fitting(&self.rules), first_fitting(&self.closures)) {
            (Some(decision), Some(closure)) => stricter(decision, closure),
            (Some(decision), None) | (None, Some(decision)) => decision,
            (None, None) => self.otherwise.as_deref().map_or(ToolApproval::Ask, unnested),
        }
    }
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

    fn fits(&self, arguments: &Value) -> bool {
        let allows = self.approval == ToolApproval::Allow;
        self.patterns.iter().all(|(name, pattern)| {
            let value = match arguments.get(name) {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => return false,
            };
            // Only permissions are narrowed: a denial must hold whatever else a command says.
            fits(pattern, &value) && !(allows && says_more(&value, pattern))
        })
    }
}

/// Returns whether a value can do more than the pattern that allows it shows. Signs of a shell and `..` in a path count
/// if the pattern has none.
fn says_more(value: &str, pattern: &str) -> bool {
    // A path may stand behind an option, such as `--dir=../x`, or between quotes.
    let goes_up =
        |text: &str| text.split(['/', ' ', '\t', '=', ':', ',', '"', '\'']).any(|part| part == "..");
    value.contains(|c| MEANS_MORE.contains(&c) && !pattern.contains(c))
        || (goes_up(value) && !goes_up(pattern))
}

/// Returns whether a text fits a pattern. The time is at worst the product of both lengths.
fn fits(pattern: &str, text: &str) -> bool {
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
    fn the_stricter_of_two_sources_holds() {
        let any = |approval| ArgumentRule { patterns: BTreeMap::new(), approval };
        let deny = || ToolApproval::Deny("no".to_owned());
        for (rule, closure, expected) in [
            (ToolApproval::Allow, deny(), deny()),
            (deny(), ToolApproval::Allow, deny()),
            (ToolApproval::Allow, ToolApproval::Ask, ToolApproval::Ask),
            (ToolApproval::Ask, ToolApproval::Allow, ToolApproval::Ask),
            (ToolApproval::Allow, ToolApproval::Allow, ToolApproval::Allow),
        ] {
            let otherwise = Some(Box::new(ToolApproval::Allow));
            let matching = ArgumentRules { rules: vec![any(rule)], otherwise, closures: vec![any(closure)] };
            assert_eq!(matching.decide("{}"), expected, "{matching:?}");
        }
        let closures = vec![rule("command", "git push*", deny())];
        let matching = ArgumentRules {
            otherwise: Some(Box::new(ToolApproval::Allow)),
            closures,
            ..ArgumentRules::default()
        };
        assert_eq!(matching.decide(&bash("git push")), deny());
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
