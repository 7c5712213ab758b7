//! The environment of the command: the only reader of variables, the home folder and the current folder.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use longhaul::io_error::io_error_text;

use crate::args::GlobalArgs;
use crate::failure::{CommandError, Outcome};

/// The agent file's name.
pub(crate) const AGENT_FILE: &str = "longhaul.yml";

/// The environment of a command: everything decided by the surroundings.
#[derive(Clone, Debug, Default)]
pub(crate) struct CliEnvironment {
    /// The folder the agent works in.
    pub(crate) workspace: PathBuf,
    /// The folder of the sessions.
    pub(crate) data_dir: PathBuf,
    /// The folder of the sessions, if the command line names one.
    pub(crate) named_data_dir: Option<PathBuf>,
    /// The folder the agent works in as named on the command line.
    pub(crate) named_workspace: Option<PathBuf>,
    /// The agent file as named on the command line.
    pub(crate) named_config: Option<PathBuf>,
    /// The person's own configuration folder.
    pub(crate) config_dir: Option<PathBuf>,
    /// The other places where an agent file is looked for, in this order.
    pub(crate) usual_configs: Vec<PathBuf>,
    /// The person's home folder.
    pub(crate) home: Option<PathBuf>,
    /// The folder for scratch folders.
    pub(crate) scratch: PathBuf,
    /// The environment at the start.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The name of the called command, if the command also works with another data folder. Else empty.
    pub(crate) command_name: &'static str,
    /// The command-line settings over the agent file.
    pub(crate) overrides: CommandLineOverrides,
    /// The kinds of the standard streams.
    pub(crate) terminal: StandardStreams,
}

/// The command-line settings over the agent file.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandLineOverrides {
    /// The provider of the model.
    pub(crate) provider: Option<String>,
    /// The model.
    pub(crate) model: Option<String>,
    /// The base URL of the server.
    pub(crate) base_url: Option<String>,
}

/// The kinds of the three standard streams: a terminal, or something else.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StandardStreams {
    /// `true` if standard input is a terminal.
    pub(crate) input: bool,
    /// `true` if standard output is a terminal.
    pub(crate) output: bool,
    /// `true` if standard error is a terminal.
    pub(crate) messages: bool,
    /// `true` if colours are welcome, where a person reads.
    pub(crate) colour: bool,
    /// `true` if the cursor can be moved.
    pub(crate) cursor: bool,
}

impl CliEnvironment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// Usage, if a folder named on the command line does not exist or no home folder is found.
    pub(crate) fn look_around(globals: &GlobalArgs) -> Outcome<Self> {
        let here = env::current_dir().map_err(|error| {
            let why = io_error_text(&error);
            CommandError::usage(format!("the current folder cannot be used: {why}"))
        })?;
        let workspace = globals.workspace.as_ref().map_or_else(|| here.clone(), |folder| here.join(folder));
        if !workspace.is_dir() {
            return Err(CommandError::usage(format!(
                "--workspace {}: there is no such folder",
                workspace.display()
            )));
        }
        // Without a home folder the command still works if the command line names its folders.
        let base = etcetera::choose_base_strategy().ok();
        let config_dir = base.as_ref().map(|base| base.config_dir().join("longhaul"));
        let usual = config_dir.as_ref().map(|folder| folder.join(AGENT_FILE));
        Ok(Self {
            workspace,
            data_dir: data_dir(globals, &here, base.as_ref())?,
            named_data_dir: globals.data_dir.as_ref().map(|folder| here.join(folder)),
            named_workspace: globals.workspace.as_ref().map(|folder| here.join(folder)),
            named_config: globals.config.as_ref().map(|file| here.join(file)),
            config_dir,
            // The folder's file comes first: it belongs to the work at hand.
            usual_configs: [Some(here.join(AGENT_FILE)), usual].into_iter().flatten().collect(),
            home: base.map(|base| base.home_dir().to_owned()),
            scratch: env::temp_dir(),
            // Read once, so that a command cannot see two states of its environment.
            environment: env::vars_os().collect(),
            command_name: "",
            overrides: CommandLineOverrides {
                provider: globals.provider.clone(),
                model: globals.model.clone(),
                base_url: globals.base_url.clone(),
            },
            terminal: StandardStreams::look(),
        })
    }

    /// Returns an environment variable, if set, not empty and text.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.environment.iter().find(|(key, _)| key == OsStr::new(name));
        found.and_then(|(_, value)| value.to_str()).filter(|value| !value.is_empty())
    }

    /// Returns the person's own agent file, existing or not.
    pub(crate) fn own_config(&self) -> Option<PathBuf> {
        self.config_dir.as_ref().map(|folder| folder.join(AGENT_FILE))
    }

    /// Reports whether a file lies outside the person's own configuration: another person may have made it.
    pub(crate) fn is_here(&self, file: &Path) -> bool {
        self.config_dir.as_deref().is_none_or(|own| !file.starts_with(own))
    }

    /// Returns a path for people: `~` for the home folder.
    pub(crate) fn shown(&self, path: &Path) -> String {
        // A home folder of `/` would turn every path into one below `~`.
        let home = self.home.as_deref().filter(|home| home.parent().is_some());
        match home.and_then(|home| path.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.display()),
            None => path.display().to_string(),
        }
    }
}

fn data_dir(globals: &GlobalArgs, here: &Path, base: Option<&impl BaseStrategy>) -> Outcome<PathBuf> {
    match (&globals.data_dir, base) {
        (Some(folder), _) => Ok(here.join(folder)),
        (None, Some(base)) => Ok(base.data_dir().join("longhaul")),
        (None, None) => Err(CommandError::usage(
            "no home folder was found to keep sessions in; name one with --data-dir DIR",
        )),
    }
}

impl StandardStreams {
    fn look() -> Self {
        // A terminal that cannot move its cursor, as Emacs' shell, says `dumb`.
        let cursor = env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty());
        // An empty value does not count, as no-color.org has it.
        let unwelcome = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            input: std::io::stdin().is_terminal(),
            output: std::io::stdout().is_terminal(),
            messages: std::io::stderr().is_terminal(),
            colour: cursor && !unwelcome,
            cursor,
        }
    }

    /// Returns whether a person can be asked and can type while the agent works.
    pub(crate) fn is_interactive(self) -> bool {
        self.input && self.output && self.cursor
    }

    /// Returns whether standard output may be coloured.
    pub(crate) fn colour_output(self) -> bool {
        self.output && self.colour
    }

    /// Returns whether standard error may be coloured.
    pub(crate) fn colour_messages(self) -> bool {
        self.messages && self.colour
    }
}
