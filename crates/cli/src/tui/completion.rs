//! The completion of slash commands while they are typed.

/// The usage and the description of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlashCommandHelp {
    /// `/recall WORDS`
    pub(crate) usage: String,
    /// The description, for example `find anything that was said …`.
    pub(crate) does: String,
}

impl SlashCommandHelp {
    /// Returns the name, for example `/recall`.
    pub(crate) fn name(&self) -> &str {
        self.usage.split(' ').next().unwrap_or_default()
    }

    /// Returns whether the command needs an argument.
    pub(crate) fn needs_words(&self) -> bool {
        self.usage.split(' ').nth(1).is_some_and(|word| !word.starts_with('['))
    }
}

/// The commands that begin with the typed text, and the selected one.
#[derive(Debug, Default)]
pub(crate) struct CommandCompletion {
    commands: Vec<SlashCommandHelp>,
    chosen: usize,
    /// The text whose completion the person declined.
    declined: Option<String>,
}

impl CommandCompletion {
    pub(crate) fn new(commands: Vec<SlashCommandHelp>) -> Self {
        Self { commands, ..Self::default() }
    }

    /// Returns the commands that `typed` may become. None once the text is a command and continues.
    pub(crate) fn offers(&self, typed: &str) -> Vec<&SlashCommandHelp> {
        if !typed.starts_with('/') || self.declined.as_deref() == Some(typed) {
            return Vec::new();
        }
        self.commands.iter().filter(|command| command.name().starts_with(typed)).collect()
    }

    /// Returns the index of the selected command.
    pub(crate) fn chosen(&self, typed: &str) -> usize {
        // The list may have become shorter while the person typed.
        self.chosen.min(self.offers(typed).len().saturating_sub(1))
    }

    /// Returns the selected command.
    pub(crate) fn meant(&self, typed: &str) -> Option<SlashCommandHelp> {
        self.offers(typed).get(self.chosen(typed)).map(|command| (*command).clone())
    }

    /// Selects the next command, or the one before. Wraps around at the ends.
    pub(crate) fn step(&mut self, typed: &str, forward: bool) {
        let count = self.offers(typed).len().max(1);
        // One step back is `count - 1` steps forward, so that the index never goes below zero.
        let step = if forward { 1 } else { count - 1 };
        self.chosen = (self.chosen(typed) + step) % count;
    }

    /// Offers nothing until something else is typed.
    pub(crate) fn decline(&mut self, typed: &str) {
        self.declined = Some(typed.to_owned());
    }

    /// Restarts the completion for another text.
    pub(crate) fn restart(&mut self) {
        (self.chosen, self.declined) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands() -> Vec<SlashCommandHelp> {
        ["/context", "/compact [WORDS]", "/recall WORDS"]
            .map(|usage| SlashCommandHelp { usage: usage.into(), does: String::new() })
            .to_vec()
    }

    #[test]
    fn a_slash_offers_what_it_may_become() {
        let mut completion = CommandCompletion::new(commands());
        assert_eq!(names(&completion, "/co"), ["/context", "/compact"]);
        assert!(names(&completion, "/co ").is_empty() && names(&completion, "co").is_empty());
        completion.step("/co", true);
        assert_eq!(completion.meant("/co").unwrap().name(), "/compact");
        completion.step("/co", true);
        assert_eq!(completion.meant("/co").unwrap().name(), "/context");
        completion.decline("/co");
        assert!(names(&completion, "/co").is_empty());
        completion.restart();
        assert_eq!(names(&completion, "/co").len(), 2);
        assert_eq!(
            commands().iter().map(SlashCommandHelp::needs_words).collect::<Vec<_>>(),
            [false, false, true]
        );
    }

    fn names(completion: &CommandCompletion, typed: &str) -> Vec<String> {
        completion.offers(typed).iter().map(|it| it.name().to_owned()).collect()
    }
}
