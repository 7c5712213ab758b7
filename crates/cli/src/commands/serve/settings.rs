//! The settings that the page changes. Their file in the data folder takes precedence over the agent file.

use std::path::Path;

use longhaul::config::AgentConfig;
use longhaul::config_agent::read_file_text;
use longhaul::io_error::io_error_text;
use longhaul::session::Runtime;
use longhaul::settings::SettingsFile;

use crate::environment::CliEnvironment;
use crate::term::out;

/// The name of the settings' file in the data folder.
const FILE: &str = "settings.json";

/// Applies the settings, and logs them in a line if there are any. A damaged file is reported and left alone.
pub(super) async fn apply(place: &CliEnvironment, agent_file: Option<&Path>, runtime: &Runtime) {
    // The file's own keys are needed to tell which settings the page overrides.
    let text = agent_file.and_then(|file| read_file_text(file).ok()).unwrap_or_default();
    let path = place.data_dir.join(FILE);
    let shown = place.shown(&path);
    match runtime.use_settings(SettingsFile::new(path, AgentConfig::written(&text))).await {
        Ok(choices) if choices.is_empty() => {}
        Ok(choices) => {
            out::print_message(&format!(
                "settings  {shown} stands above the agent file: {}\n",
                choices.names().join(", ")
            ));
        }
        Err(error) => out::print_message(&format!(
            "settings  {shown} is damaged, and not used: {}\n",
            io_error_text(&error)
        )),
    }
}
