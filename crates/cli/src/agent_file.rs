//! The agent file: found, read, and overridden by the command line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use longhaul::config::{
    AgentConfig, AgentSource, ConfigError, ProviderKind, SystemPrompt, TriggerConfig, UserConfigFile,
};
use longhaul::config_agent::read_file_text;
use longhaul::io_error::io_error_text;

use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};
use crate::term::human::grouped;
use crate::trust;

/// The configuration and its source.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedConfig {
    /// The configuration, the command line's words in it.
    pub(crate) config: AgentConfig,
    /// The file, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// `true` if a person or file named the model server.
    pub(crate) names_a_server: bool,
    /// `true` if a person or file named the model.
    pub(crate) names_a_model: bool,
    /// The keys at which the person's own file holds against one found in a folder.
    pub(crate) held: Vec<String>,
}

/// Finds and reads the agent file; without one, the defaults.
///
/// # Errors
/// Usage: a named file does not exist, or the library finds errors in the file.
pub(crate) fn load(place: &CliEnvironment) -> Outcome<ResolvedConfig> {
    let file = find(place)?;
    // The person's own file is read first, because the checks of a found file compare it with that file.
    let own = file.as_deref().map(|file| own_beside(place, file)).transpose()?.flatten();
    let mut config = match &file {
        Some(path) => {
            let config = read(place, path, own.as_ref(), AgentConfig::parse)?;
            with_agents(place, path, own.as_ref(), config)?
        }
        None => AgentConfig::default(),
    };
    let mut held = Vec::new();
    // A file found in a folder may come from anybody, so it can narrow the person's own limits and never widen them.
    if let Some(own) = &own {
        let narrowed = config.restricted_by(own);
        config = narrowed.config;
        held = narrowed.held.into_iter().collect();
        tracing::info!(keys = %held.join(", "), "the user's own agent file holds over the folder's");
    }
    // The command line comes last: it has the words of the person at the keyboard, which no file restricts.
    let overrides = &place.overrides;
    // The user's own file may have given the model of a folder's file that names none.
    let differs = config.model != AgentConfig::default().model;
    let written = file.as_deref().map(written_keys).unwrap_or_default();
    // A file may name what is also the default.
    let is_server_written = written.contains("model.base_url") || written.contains("model.provider");
    let names_a_server =
        differs || is_server_written || overrides.base_url.is_some() || overrides.provider.is_some();
    let names_a_model = differs || written.contains("model.name") || overrides.model.is_some();
    if let Some(name) = &overrides.provider {
        let provider = ProviderKind::from_name(name).ok_or_else(|| unknown_provider(name))?;
        // The same provider again says nothing new, and a configured address must stay.
        if provider != config.model.provider {
            // An address belongs to the provider it was written for.
            provider.base_url().clone_into(&mut config.model.base_url);
        }
        config.model.provider = provider;
    }
    if let Some(model) = &overrides.model {
        config.model.name.clone_from(model);
    }
    if let Some(url) = &overrides.base_url {
        config.model.base_url.clone_from(url);
    }
    match &file {
        Some(file) => {
            tracing::debug!(file = %file.display(), names_a_server, names_a_model, "the agent file is read")
        }
        None => tracing::debug!(names_a_server, names_a_model, "there is no agent file: the defaults hold"),
    }
    Ok(ResolvedConfig { config, file, names_a_server, names_a_model, held })
}

/// Returns the keys that a file writes, as dotted paths; none if the file cannot be read.
fn written_keys(file: &Path) -> BTreeSet<String> {
    read_file_text(file).map(|text| AgentConfig::written(&text)).unwrap_or_default()
}

fn find(place: &CliEnvironment) -> Outcome<Option<PathBuf>> {
    match &place.named_config {
        Some(named) if named.is_file() => Ok(Some(named.clone())),
        Some(named) => {
            let why = if named.is_dir() { "it is a folder" } else { "there is no such file" };
            Err(CommandError::usage(format!("--config {}: {why}", named.display())))
        }
        None => {
            let found = place.usual_configs.iter().find(|path| path.is_file() || path.is_dir());
            match found {
                // Skipped, the folder would leave a person with the defaults and no reason.
                Some(folder) if folder.is_dir() => Err(CommandError::usage(format!(
                    "{} is a folder, and an agent file is expected there: rename the folder, or name a file with \
                     --config",
                    folder.display()
                ))),
                found => Ok(found.cloned()),
            }
        }
    }
}

/// Returns the person's own file, whose closures override a file found in a folder. A file named on the
/// command line is used alone.
fn own_beside(place: &CliEnvironment, file: &Path) -> Outcome<Option<UserConfigFile>> {
    // Naming a file on the command line is a decision of the person, so nothing holds against that file.
    if place.named_config.is_none() && place.is_here(file) { own_file(place) } else { Ok(None) }
}

fn own_file(place: &CliEnvironment) -> Outcome<Option<UserConfigFile>> {
    let Some(own) = place.own_config().filter(|own| own.is_file()) else { return Ok(None) };
    let shown = own.display().to_string();
    let text = read_file_text(&own)
        .map_err(|error| CommandError::usage(format!("{shown} cannot be read: {}", io_error_text(&error))))?;
    let own = UserConfigFile::parse(&text, &shown).map_err(|error| CommandError::usage(error.to_string()))?;
    check_rule_tools(&text, &shown)?;
    Ok(Some(own))
}

/// Refuses approval rules that name a tool or an argument which the command's agents do not have.
fn check_rule_tools(text: &str, shown: &str) -> Outcome<()> {
    AgentConfig::check_rule_tools(text, shown).map_err(|error| CommandError::usage(error.to_string()))
}

/// Returns the agent files in use: the found or named one, and the files named there for agents.
pub(crate) fn in_use(place: &CliEnvironment) -> Vec<PathBuf> {
    let Ok(Some(main)) = find(place) else { return Vec::new() };
    // Faults are reported where the file is loaded. Here only the paths matter.
    let text = read_file_text(&main).unwrap_or_default();
    let config = AgentConfig::parse(&text, &main.display().to_string()).unwrap_or_default();
    let folder = main.parent().unwrap_or(Path::new("."));
    let named = config.agents.values().filter_map(|agent| match agent {
        AgentSource::File(file) => Some(folder.join(file)),
        AgentSource::Here(_) => None,
    });
    let mut files: Vec<PathBuf> = named.collect();
    // The main file comes first: later files are named by it.
    files.insert(0, main);
    files
}

/// Returns the file that describes an agent: the main file, or the file named there for the agent.
pub(crate) fn file_of_agent(main: &Path, name: &str) -> PathBuf {
    let text = read_file_text(main).unwrap_or_default();
    let config = AgentConfig::parse(&text, &main.display().to_string()).unwrap_or_default();
    match config.agents.get(name) {
        Some(AgentSource::File(file)) => main.parent().unwrap_or(Path::new(".")).join(file),
        _ => main.to_owned(),
    }
}

/// Returns the configuration with all agents read, wherever an agent is described.
fn with_agents(
    place: &CliEnvironment,
    path: &Path,
    own: Option<&UserConfigFile>,
    mut config: AgentConfig,
) -> Outcome<AgentConfig> {
    let folder = path.parent().unwrap_or(Path::new("."));
    for (name, agent) in &mut config.agents {
        match agent {
            AgentSource::File(file) => {
                let its_own = folder.join(&*file);
                // Tried here first, because only the main file has the line that names this one.
                if let Err(error) = read_file_text(&its_own) {
                    // The main file was readable a moment ago. If it is gone now, only the line number is missing.
                    let text = read_file_text(path).unwrap_or_default();
                    let line =
                        line_behind(&text, "agents", file).map(|line| format!(":{line}")).unwrap_or_default();
                    return Err(CommandError::usage(format!(
                        "{}{line}: {file}, the file of `agents.{name}`, cannot be read: {}",
                        path.display(),
                        io_error_text(&error)
                    )));
                }
                // An agent's file goes through the same trust check as the main file, because it can name
                // commands and servers too.
                let read = read(place, &its_own, own, AgentConfig::parse_agent)?;
                *agent = AgentSource::Here(Box::new(read));
            }
            AgentSource::Here(inner) => {
                let text = read_file_text(path).unwrap_or_default();
                inner.system_prompt = prompt(inner, path, &text)?;
            }
        }
    }
    Ok(config)
}

/// The note on a file with mistakes whose first bytes make it UTF-16.
const UTF16_NOTE: &str =
    "\nthe first two bytes of the file say that it is UTF-16; if it is not, save it again as UTF-8";

/// Returns whether a file begins with the byte order mark of UTF-16. Random bytes give a text of foreign letters then.
fn is_utf16(path: &Path) -> bool {
    // The file was read a moment ago. If it is gone now, only the note is missing.
    std::fs::read(path)
        .is_ok_and(|bytes| bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]))
}

type Parse = fn(&str, &str) -> Result<AgentConfig, ConfigError>;

fn read(
    place: &CliEnvironment,
    path: &Path,
    own: Option<&UserConfigFile>,
    parse: Parse,
) -> Outcome<AgentConfig> {
    let shown = path.display().to_string();
    let text = read_file_text(path)
        .map_err(|error| CommandError::usage(format!("{shown} cannot be read: {}", io_error_text(&error))))?;
    let mut config = parse(&text, &shown).map_err(|error| {
        let encoding = if is_utf16(path) { UTF16_NOTE } else { "" };
        CommandError::usage(format!("{error}{encoding}"))
    })?;
    check_rule_tools(&text, &shown)?;
    // A named file counts as approved, and its approval is remembered for the day it is merely found.
    if place.named_config.is_some() {
        // Where it is merely found it may be asked about because of the person's own file.
        let beside = own_file(place).unwrap_or_default();
        trust::remember(place, path, &text, &config, beside.as_ref())?;
    } else if place.is_here(path) {
        trust::check(place, path, &text, &config, own)?;
    }
    config.system_prompt = prompt(&config, path, &text)?;
    Ok(config)
}

/// Returns the prompt of a configuration in `path`, with `text`.
fn prompt(config: &AgentConfig, path: &Path, text: &str) -> Outcome<SystemPrompt> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Resolved against the file's own folder, so that a configuration can be moved as a whole.
    let prompt = config.system_prompt.resolve(|file| {
        read_file_text(&folder.join(file)).map_err(|error| {
            let line =
                line_behind(text, "systemPrompt", file).map(|line| format!(":{line}")).unwrap_or_default();
            CommandError::usage(format!(
                "{}{line}: {file}, the file of `systemPrompt`, cannot be read: {}",
                path.display(),
                io_error_text(&error)
            ))
        })
    })?;
    Ok(SystemPrompt::Text(prompt))
}

/// Returns a description of a trigger below the size of every request, if there is one. `fixed_tokens` of
/// system prompt and tools are in every request.
pub(crate) fn misplaced_trigger(loaded: &ResolvedConfig, fixed_tokens: u64) -> Option<String> {
    let Some(TriggerConfig::Tokens(tokens)) = loaded.config.context.compression.trigger else { return None };
    // A trigger above the fixed part can be met by compacting, so it needs no warning.
    if tokens > fixed_tokens {
        return None;
    }
    let file = loaded.file.as_deref()?;
    let text = read_file_text(file).unwrap_or_default();
    let line = text.lines().zip(1..).find(|(line, _)| line.contains("triggerTokens"));
    let line = line.map(|(_, number)| format!(":{number}")).unwrap_or_default();
    Some(format!(
        "{}{line}: triggerTokens is {}, but system prompt and tools alone have {} tokens: no compaction can get under it",
        file.display(),
        grouped(tokens),
        grouped(fixed_tokens)
    ))
}

/// Returns the line, from 1, of an agent file that names another file behind that key.
fn line_behind(text: &str, key: &str, file: &str) -> Option<usize> {
    let mut lines = text.lines().zip(1..).skip_while(|(line, _)| !line.contains(key));
    lines.find(|(line, _)| line.contains(file)).map(|(_, number)| number)
}

fn unknown_provider(name: &str) -> CommandError {
    CommandError::usage(format!("--provider {name}: the providers are {}", ProviderKind::NAMES.join(", ")))
}
