//! `longhaul wrap`: a client of another maker, pointed at the gateway.

mod clients;
mod files;
mod merge;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use longhaul::config::GatewayAuth;
use longhaul::io_error::{io_error_text, program_error_text};
use reqwest::{Client, StatusCode};
use serde_json::Value;

use clients::{WrapClient, WrapClientSetup};
use files::ClientFileChanges;

use crate::agent_file::{self, ResolvedConfig};
use crate::args::WrapArgs;
use crate::commands::serve;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, DONE, Outcome};
use crate::server_address::RunningServer;
use crate::term::out;

/// The maximum time the gateway may take to list its models.
const PATIENCE: Duration = Duration::from_secs(2);

/// The prefix of agents among the models. Agents need the token everywhere.
const AGENT: &str = "agent/";

/// The facts about the gateway for a client.
#[derive(Clone, Debug)]
pub(super) struct GatewayAccess {
    /// Scheme, host and port.
    root: String,
    /// The model to ask for.
    model: String,
    /// The file with the token, where one is needed.
    token_file: Option<PathBuf>,
    /// The person's home folder.
    home: PathBuf,
    /// The folder for files of clients with an option for a named file.
    folder: PathBuf,
}

impl GatewayAccess {
    fn v1(&self) -> String {
        format!("{}/v1", self.root)
    }

    /// Returns the key, as a shell reads it.
    fn key_in_shell(&self) -> String {
        match &self.token_file {
            Some(path) => format!("\"$(cat {})\"", quoted(&path.display().to_string())),
            None => "none".to_owned(),
        }
    }

    /// Returns a text for the screen, where no key belongs.
    fn without_key(&self, text: &str) -> String {
        // Without a token file the key is the word `none`, which is no secret.
        let key = self.token_file.is_some().then(|| self.key().ok()).flatten().filter(|key| !key.is_empty());
        key.map_or_else(|| text.to_owned(), |key| text.replace(&key, "THE-TOKEN"))
    }

    /// Returns the key itself.
    ///
    /// # Errors
    /// The token cannot be read.
    fn key(&self) -> Outcome<String> {
        let Some(path) = &self.token_file else { return Ok("none".to_owned()) };
        let read = fs::read_to_string(path);
        read.map(|token| token.trim().to_owned()).map_err(|error| {
            CommandError::new(format!(
                "the token in {} cannot be read: {}; `longhaul serve` makes it",
                path.display(),
                io_error_text(&error)
            ))
        })
    }
}

pub(crate) async fn run(args: &WrapArgs, place: &CliEnvironment) -> Outcome {
    let client = clients::named(&args.client)?;
    // An undo asks nothing, so its confirmation changes nothing.
    if args.yes && !args.write && !args.undo {
        return Err(CommandError::usage("--yes confirms --write: add --write, or leave --yes out"));
    }
    let files = ClientFileChanges::of(place, client.name);
    if args.undo {
        // The undo needs neither a gateway nor a model, so it comes before both are looked for.
        return undo(place, &files);
    }
    let loaded = agent_file::load(place)?;
    let running = RunningServer::find(&place.data_dir);
    let access = access(args, place, &loaded, running.as_ref()).await?;
    tracing::debug!(
        client = client.name,
        gateway = %crate::trust::server_of(&access.root),
        is_running = running.is_some(),
        has_token = access.token_file.is_some(),
        "the client is set up for the gateway"
    );
    let setup = (client.setup)(&access)?;
    if args.run {
        return Err(start(&client, &setup, &access, place, &args.args));
    }
    if args.write {
        return write(place, &setup, &access, &files, args.yes);
    }
    out::print_line(&shown(&client, &setup, &access, place))?;
    out::message(&next_step(&client, &setup, place));
    if running.is_none() && args.at.is_none() {
        out::message(&format!("nothing serves at {} yet: `longhaul serve`\n", access.root));
    }
    Ok(DONE)
}

async fn access(
    args: &WrapArgs,
    place: &CliEnvironment,
    loaded: &ResolvedConfig,
    running: Option<&RunningServer>,
) -> Outcome<GatewayAccess> {
    let config = &loaded.config;
    let root = match (&args.at, running) {
        // `serve` prints the address with `/v1`. The setup of each client adds the path that it needs.
        (Some(url), _) => url.trim_end_matches('/').trim_end_matches("/v1").to_owned(),
        (None, Some(running)) => running.page.clone(),
        (None, None) => format!("http://{}", config.server.addr),
    };
    let is_web = reqwest::Url::parse(&root)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if !is_web {
        return Err(CommandError::usage(format!(
            "--at {root}: the address must begin with http:// or https://"
        )));
    }
    let of_running = running.map(|running| running.token_file.clone());
    let token_file = || {
        of_running
            .or_else(|| serve::token_file(loaded))
            .unwrap_or_else(|| place.data_dir.join(serve::TOKEN_FILE))
    };
    let home = place.home.clone().ok_or_else(|| CommandError::usage("no home folder was found"))?;
    let folder = place.data_dir.join(files::FOLDER);
    let named = named_model(loaded);
    let mut access = GatewayAccess { root, model: String::new(), token_file: None, home, folder };
    // Asked without the token first: only a gateway that wants the token gets it.
    let mut listed = ask(&access).await;
    let is_agent = named.as_deref().is_some_and(|model| model.starts_with(AGENT));
    if config.gateway.auth == GatewayAuth::Token
        || is_agent
        || matches!(listed, GatewayModelsReply::WantsToken)
    {
        access.token_file = Some(token_file());
        if !matches!(listed, GatewayModelsReply::Nobody) && access.key().is_ok() {
            listed = ask(&access).await;
        }
    }
    if let (GatewayModelsReply::WantsToken, Some(path)) = (&listed, &access.token_file) {
        out::message(&format!("{} does not take the token in {}\n", access.root, place.shown(path)));
    }
    access.model = match (named, listed) {
        (Some(model), _) => model,
        (None, GatewayModelsReply::First(model)) => model,
        (None, other) => {
            let why = match &other {
                GatewayModelsReply::Nobody => "cannot be reached",
                GatewayModelsReply::WantsToken => "wants another token before it says which models there are",
                GatewayModelsReply::First(_) | GatewayModelsReply::Nothing => {
                    "does not say which models there are"
                }
            };
            let start =
                if matches!(other, GatewayModelsReply::Nobody) { "start `longhaul serve`, or " } else { "" };
            return Err(CommandError::usage(format!(
                "{} {why}: {start}name the model, --model NAME",
                access.root
            )));
        }
    };
    Ok(access)
}

fn named_model(loaded: &ResolvedConfig) -> Option<String> {
    let config = &loaded.config;
    if loaded.names_a_model {
        return Some(config.model.name.clone());
    }
    let first = config.gateway.upstreams.iter().flat_map(|upstream| &upstream.models).next();
    first.map(|model| model.name.clone())
}

/// The gateway's reply to the request for its models.
enum GatewayModelsReply {
    First(String),
    Nothing,
    WantsToken,
    Nobody,
}

/// Asks the gateway for its models, with the token if there is one.
async fn ask(access: &GatewayAccess) -> GatewayModelsReply {
    // No proxy: the gateway is usually on this machine, and the token is for the gateway only.
    let Ok(client) = Client::builder().timeout(PATIENCE).no_proxy().build() else {
        return GatewayModelsReply::Nobody;
    };
    let mut request = client.get(format!("{}/models", access.v1()));
    if let Some(key) = access.token_file.as_ref().and_then(|_| access.key().ok()) {
        request = request.bearer_auth(key);
    }
    let Ok(answer) = request.send().await else { return GatewayModelsReply::Nobody };
    if answer.status() == StatusCode::UNAUTHORIZED {
        return GatewayModelsReply::WantsToken;
    }
    // An answer that is no list counts as a gateway without models.
    let listed: Value = answer.json().await.unwrap_or_default();
    listed["data"][0]["id"]
        .as_str()
        .map_or(GatewayModelsReply::Nothing, |first| GatewayModelsReply::First(first.to_owned()))
}

/// Describes the command and the settings, for use by hand.
fn shown(
    client: &WrapClient,
    setup: &WrapClientSetup,
    access: &GatewayAccess,
    place: &CliEnvironment,
) -> String {
    let mut text = format!("# {}\n", client.about);
    for (name, value) in &setup.environment {
        text.push_str(&format!("export {name}={}\n", value.in_shell(access)));
    }
    for line in &setup.lines {
        text.push_str(&format!("{line}\n"));
    }
    if let Some(program) = client.program {
        let words: Vec<String> = setup.arguments.iter().map(|word| quoted(word)).collect();
        text.push_str(&format!("{}\n", [vec![program.to_owned()], words].concat().join(" ")));
    }
    for (at, file) in setup.files.iter().enumerate() {
        let path = place.shown(&file.path);
        let note = match (setup.has_two_ways(), at) {
            (false, _) => format!("in {path}"),
            (true, 0) => format!("or, in place of the lines above, in {path}"),
            (true, _) => format!("and in {path}"),
        };
        text.push_str(&format!("\n# {note}\n{}\n", file.change.shown().trim_end()));
    }
    access.without_key(text.trim_end())
}

/// Returns what a person does with the printed settings.
fn next_step(client: &WrapClient, setup: &WrapClientSetup, place: &CliEnvironment) -> String {
    let files: Vec<String> = setup.files.iter().map(|file| place.shown(&file.path)).collect();
    let files_text = files.join(" and ");
    // A line with variables or arguments is needed beside the settings of some clients.
    let has_lines = !setup.environment.is_empty() || !setup.arguments.is_empty();
    match (files.is_empty(), client.program) {
        (false, program) if setup.has_two_ways() => format!(
            "Type the lines in a shell. Or put the settings into {files_text}, or run again with --write, and start \
             {}.\n",
            program.unwrap_or("the program")
        ),
        (false, Some(program)) if has_lines => format!(
            "Put the settings into {files_text}, or run again with --write. Then type the lines in a shell: that \
             starts {program}.\n"
        ),
        (false, program) => format!(
            "Put the settings into {files_text}, or run again with --write. Then start {}.\n",
            program.unwrap_or("the program")
        ),
        (true, Some(program)) if setup.not_by_run.is_some() => {
            format!("Type this once in a shell. Then start {program}.\n")
        }
        (true, Some(program)) => {
            format!("Type this in a shell, or run again with --run: that starts {program}.\n")
        }
        (true, None) => {
            "Type this in the shell that starts your program, or run again with `--run -- PROGRAM`.\n"
                .to_owned()
        }
    }
}

fn write(
    place: &CliEnvironment,
    setup: &WrapClientSetup,
    access: &GatewayAccess,
    files: &ClientFileChanges,
    yes: bool,
) -> Outcome {
    if setup.files.is_empty() {
        return Err(CommandError::usage(
            "this client has no settings file: set its environment variables, or start it with --run",
        ));
    }
    // All files are planned before the first is written: an unreadable one leaves the others unchanged.
    let mut planned = Vec::new();
    for file in &setup.files {
        let planned_one = files.plan(file)?;
        if planned_one.is_none() {
            out::message(&format!("{} says that already\n", place.shown(&file.path)));
        }
        planned.extend(planned_one);
    }
    if planned.is_empty() {
        return Ok(DONE);
    }
    let asks = place.terminal.input && place.terminal.messages;
    if !yes && !asks {
        return Err(CommandError::usage(
            "nothing was changed: this writes files of another program, and there is no terminal to ask at; confirm \
             it with --yes",
        ));
    }
    if !yes {
        for one in &planned {
            out::message(&format!(
                "# {}\n{}\n",
                place.shown(&one.path),
                access.without_key(one.shown.trim_end())
            ));
        }
        out::message("write this there, beside what there is? A copy of each file is kept. y/N ");
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            out::message("nothing was written\n");
            return Ok(DONE);
        }
    }
    for one in planned {
        let copy = files.write(&one)?;
        let copy = copy.map(|copy| format!("; as it was: {}", place.shown(&copy))).unwrap_or_default();
        out::print_line(&format!("wrote {}{copy}", place.shown(&one.path)))?;
    }
    Ok(DONE)
}

fn undo(place: &CliEnvironment, files: &ClientFileChanges) -> Outcome {
    let undone = files.undo()?;
    if undone.is_empty() {
        let of = place.shown(&place.data_dir);
        out::message(&format!(
            "nothing was written for this client from the data folder {of} (another one: --data-dir)\n"
        ));
    }
    for path in undone {
        out::print_line(&format!("{} is without it again", place.shown(&path)))?;
    }
    Ok(DONE)
}

/// Replaces this process with the client. Returns only an error.
fn start(
    client: &WrapClient,
    setup: &WrapClientSetup,
    access: &GatewayAccess,
    place: &CliEnvironment,
    args: &[String],
) -> CommandError {
    let (program, rest) = match (client.program, args) {
        (Some(program), args) => (program, args),
        (None, [program, rest @ ..]) => (program.as_str(), rest),
        (None, []) => return CommandError::usage("name the program behind `--`"),
    };
    if let Some(why) = setup.not_by_run {
        return CommandError::usage(why);
    }
    // Only our own files are written: `--run` leaves the client's settings alone.
    for file in setup.files.iter().filter(|file| file.path.starts_with(&access.folder)) {
        if let Err(failure) = files::write_own(place, file) {
            return failure;
        }
    }
    let mut command = Command::new(program);
    for (name, value) in setup.environment.iter().chain(&setup.only_by_run) {
        match value.itself(access) {
            Ok(value) => command.env(name, value),
            Err(failure) => return failure,
        };
    }
    // `exec` replaces this process, so the client gets the terminal and its signals directly.
    let error = command.args(&setup.arguments).args(&setup.arguments_by_run).args(rest).exec();
    CommandError::new(format!("{program} cannot be started: {}", program_error_text(&error)))
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    if !word.is_empty() && word.chars().all(|c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c)) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
