//! Command lines for a person. Each repeats the options of this call and works as pasted.

use std::path::PathBuf;

use crate::environment::CliEnvironment;

impl CliEnvironment {
    /// Returns `longhaul WORDS` under the named data folder and agent file.
    pub(crate) fn command(&self, words: &str) -> String {
        line(&self.kept(), words)
    }

    /// Returns the command line for a command that talks to the model, with the named
    /// folder and model.
    pub(crate) fn command_with_model(&self, words: &str) -> String {
        let overrides = &self.overrides;
        let mut named = self.kept();
        named.extend(path("--workspace", &self.named_workspace));
        named.extend(overrides.provider.clone().map(|provider| ("--provider", provider)));
        named.extend(overrides.base_url.clone().map(|url| ("--base-url", url)));
        named.extend(overrides.model.clone().map(|model| ("--model", model)));
        line(&named, words)
    }

    fn kept(&self) -> Vec<(&'static str, String)> {
        let named = [path("--config", &self.named_config), path("--data-dir", &self.named_data_dir)];
        named.into_iter().flatten().collect()
    }
}

fn line(named: &[(&str, String)], words: &str) -> String {
    let named: String = named.iter().map(|(option, value)| format!("{option} {} ", quoted(value))).collect();
    format!("longhaul {named}{words}")
}

fn path(option: &'static str, named: &Option<PathBuf>) -> Option<(&'static str, String)> {
    named.as_ref().map(|path| (option, path.display().to_string()))
}

/// Returns a word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    if !word.is_empty() && word.chars().all(|c: char| c.is_ascii_alphanumeric() || "-_./,%=+:@".contains(c)) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::CommandLineOverrides;

    #[test]
    fn what_was_named_is_named_again() {
        assert_eq!(CliEnvironment::default().command_with_model("chat -c"), "longhaul chat -c");
        let place = CliEnvironment {
            named_config: Some("/tmp/own.yml".into()),
            named_data_dir: Some("/tmp/it's here".into()),
            named_workspace: Some("/work".into()),
            overrides: CommandLineOverrides {
                model: Some("qwen3:8b".into()),
                ..CommandLineOverrides::default()
            },
            ..CliEnvironment::default()
        };
        let kept = r"longhaul --config /tmp/own.yml --data-dir '/tmp/it'\''s here' ";
        assert_eq!(place.command("undo s1 e1"), format!("{kept}undo s1 e1"));
        assert_eq!(
            place.command_with_model("chat"),
            format!("{kept}--workspace /work --model qwen3:8b chat")
        );
    }
}
