//! The settings that each client needs. They were tried with the named versions.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::merge::SettingsFileChange;
use super::{GatewayAccess, quoted};
use crate::failure::{CommandError, Outcome};
use longhaul::config::nearest;

/// The window size for clients that must have one. It is large because the gateway does the compaction.
const WINDOW: u64 = 1_000_000;

/// The maximum answer for clients that must have one.
const OUTPUT: u64 = 32_000;

/// The variable that holds the token, for a client that takes the name of a variable.
const TOKEN: &str = "LONGHAUL_TOKEN";

/// A client.
pub(super) struct WrapClient {
    pub(super) name: &'static str,
    /// A description of the client, in a line.
    pub(super) about: &'static str,
    /// The program that is started; `None` for libraries.
    pub(super) program: Option<&'static str>,
    pub(super) setup: fn(&GatewayAccess) -> Outcome<WrapClientSetup>,
}

/// The settings that point a client at the gateway.
#[derive(Debug, Default)]
pub(super) struct WrapClientSetup {
    pub(super) environment: Vec<(&'static str, EnvironmentValue)>,
    pub(super) arguments: Vec<String>,
    /// Arguments that replace the files where the files are not written.
    pub(super) arguments_by_run: Vec<String>,
    /// Environment variables that replace the files where the files are not written.
    pub(super) only_by_run: Vec<(&'static str, EnvironmentValue)>,
    /// More lines to type.
    pub(super) lines: Vec<String>,
    pub(super) files: Vec<ClientSettingsFile>,
    /// The reason why `--run` cannot set the client up.
    pub(super) not_by_run: Option<&'static str>,
}

impl WrapClientSetup {
    /// Returns whether the environment with the arguments sets the client up alone, and the files do so too.
    pub(super) fn has_two_ways(&self) -> bool {
        let needs_files = !self.arguments_by_run.is_empty() || !self.only_by_run.is_empty();
        !self.environment.is_empty() && !self.files.is_empty() && !needs_files
    }
}

/// A value of the environment.
#[derive(Clone, Debug)]
pub(super) enum EnvironmentValue {
    Plain(String),
    /// The gateway's key.
    Key,
}

impl EnvironmentValue {
    pub(super) fn in_shell(&self, access: &GatewayAccess) -> String {
        match self {
            Self::Plain(text) => quoted(text),
            Self::Key => access.key_in_shell(),
        }
    }

    /// Returns the value itself.
    ///
    /// # Errors
    /// The token cannot be read.
    pub(super) fn itself(&self, access: &GatewayAccess) -> Outcome<String> {
        match self {
            Self::Plain(text) => Ok(text.clone()),
            Self::Key => access.key(),
        }
    }
}

/// A file of a client's settings.
#[derive(Debug)]
pub(super) struct ClientSettingsFile {
    pub(super) path: PathBuf,
    pub(super) change: SettingsFileChange,
}

/// All clients.
const CLIENTS: [WrapClient; 11] = [
    WrapClient { name: "claude", about: "Claude Code (2.1)", program: Some("claude"), setup: claude },
    WrapClient { name: "codex", about: "Codex (0.169)", program: Some("codex"), setup: codex },
    WrapClient { name: "opencode", about: "opencode (1.18)", program: Some("opencode"), setup: opencode },
    WrapClient { name: "qwen", about: "Qwen Code (0.15)", program: Some("qwen"), setup: qwen },
    WrapClient { name: "aider", about: "aider (0.86)", program: Some("aider"), setup: aider },
    WrapClient { name: "pi", about: "pi (0.73)", program: Some("pi"), setup: pi },
    WrapClient {
        name: "continue",
        about: "Continue's command line (1.5)",
        program: Some("cn"),
        setup: continue_cli,
    },
    WrapClient { name: "cline", about: "Cline's command line (3.0)", program: Some("cline"), setup: cline },
    WrapClient { name: "mini", about: "mini-swe-agent (2.4)", program: Some("mini"), setup: mini },
    WrapClient { name: "openai", about: "programs with OpenAI's libraries", program: None, setup: openai },
    WrapClient {
        name: "anthropic",
        about: "programs with Anthropic's libraries",
        program: None,
        setup: anthropic,
    },
];

/// Returns the client by its name.
///
/// # Errors
/// Usage, for an unknown client or one that cannot use the gateway.
pub(super) fn named(name: &str) -> Outcome<WrapClient> {
    // People try this name, so its reason is said instead of "unknown".
    if name == "gemini" {
        return Err(CommandError::usage(
            "Gemini's command line speaks Gemini's own dialect only, which the gateway does not",
        ));
    }
    let names = CLIENTS.iter().map(|client| client.name);
    let near = nearest(name, names.clone()).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    let list = names.collect::<Vec<_>>().join(", ");
    let found = CLIENTS.into_iter().find(|client| client.name == name);
    found.ok_or_else(|| CommandError::usage(format!("no client is known as `{name}`{near} (known: {list})")))
}

fn plain(text: impl Into<String>) -> EnvironmentValue {
    EnvironmentValue::Plain(text.into())
}

fn claude(access: &GatewayAccess) -> Outcome<WrapClientSetup> {
    let environment = vec![
        ("ANTHROPIC_BASE_URL", plain(&access.root)),
        ("ANTHROPIC_AUTH_TOKEN", EnvironmentValue::Key),
        ("ANTHROPIC_MODEL", plain(&access.model)),
        // Side requests would otherwise name a model that the gateway may not have.
        ("ANTHROPIC_SMALL_FAST_MODEL", plain(&access.model)),
        // Telemetry and updates would go to Anthropic past the gateway.
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", plain("1")),
    ];
    let variables: Outcome<serde_json::Map<String, Value>> = environment
        .iter()
        .map(|(name, value)| Ok(((*name).to_owned(), value.itself(access)?.into())))
        .collect();
    let change = SettingsFileChange::Json(json!({ "env": variables? }));
    let files = vec![ClientSettingsFile { path: access.home.join(".claude/settings.json"), change }];
    Ok(WrapClientSetup { environment, files, ..WrapClientSetup::default() })
}

fn codex(access: &GatewayAccess) -> Outcome<WrapClientSetup> {
    let mut keys = vec![
        (vec!["model".to_owned()], access.model.clone()),
        (vec!["model_provider".to_owned()], "longhaul".to_owned()),
        (provider_key("name"), "Longhaul".to_owned()),
        (provider_key("base_url"), access.v1()),
        (provider_key("wire_api"), "responses".to_owned()),
    ];
    let mut environment = Vec::new();
    if access.token_file.is_some() {
        keys.push((provider_key("env_key"), TOKEN.to_owned()));
        environment.push((TOKEN, EnvironmentValue::Key));
    }
    let arguments_by_run = keys
        .iter()
        // Codex reads the value as TOML, in which a JSON string is a string too.
        .flat_map(|(path, value)| ["-c".to_owned(), format!("{}={}", path.join("."), json!(value))])
        .collect();
    let files = vec![ClientSettingsFile {
        path: access.home.join(".codex/config.toml"),
        change: SettingsFileChange::Toml(keys),
    }];
    Ok(WrapClientSetup { environment, arguments_by_run, files, ..WrapClientSetup::default() })
}

fn provider_key(name: &str) -> Vec<String> {
    ["model_providers", "longhaul", name].map(str::to_owned).to_vec()
}

fn opencode(access: &GatewayAccess) -> Outcome<WrapClientSetup> {
    // opencode can read the token's file itself, so the settings need not hold the token.
    let key = match &access.token_file {
        Some(path) => format!("{{file:{}}}", path.display()),
        None => "none".to_owned(),
    };
    let model = json!({ "name": access.model, "limit": { "context": WINDOW, "output": OUTPUT } });
    let settings = json!({
        "model": format!("longhaul/{}", access.model),
        "provider": { "longhaul": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Longhaul",
            "options": { "baseURL": access.v1(), "apiKey": key },
            "models": { access.model.as_str(): model },
        } },
    });
    let only_by_run = vec![("OPENCODE_CONFIG_CONTENT", plain(settings.to_string()))];
    let path = access.home.join(".config/opencode/opencode.json");
    let files = vec![ClientSettingsFile { path, change: SettingsFileChange::Json(settings) }];
    Ok(WrapClientSetup { only_by_run, files, ..WrapClientSetup::default() })
}

fn qwen(access: &GatewayAccess) -> Outcome<WrapClientSetup> {
    let environment = vec![
        ("OPENAI_BASE_URL", plain(access.v1())),
        ("OPENAI_API_KEY", EnvironmentValue::Key),
        ("OPENAI_MODEL", plain(&access.model)),
    ];
    let lines: Outcome<Vec<(String, String)>> =
        environment.iter().map(|(name, value)| Ok(((*name).to_owned(), value.itself(access)?))).collect();
    // Without a chosen type, Qwen Code asks for a login at its first start.
    let chosen = json!({ "security": { "auth": { "selectedType": "openai" } } });
    let files = vec![
        ClientSettingsFile {
            path: access.home.join(".qwen/.env"),
            change: SettingsFileChange::Lines("=", lines?),
        },
        ClientSettingsFile {
            path: access.home.join(".qwen/settings.json"),
            change: SettingsFileChange::Json(chosen),
        },
    ];
    // The argument overrides a type that was chosen for an earlier login.
    let arguments = ["--auth-type", "openai"].map(str::to_owned).to_vec();
    Ok(WrapClientSetup { environment, arguments, files, ..WrapClientSetup::default() })
}

fn aider(access: &GatewayAccess) -> Outcome<WrapClientSetup> {
    // LiteLLM, under aider, chooses the dialect by the prefix.
    let model = format!("openai/{}", access.model);
    let lines =
        [("openai-api-base", access.v1()), ("openai-api-key", access.key()?), ("model", model.clone())];
    // A JSON string is also a YAML string, whatever characters it holds.
    let lines = lines.map(|(name, value)| (name.to_owned(), json!(value).to_string())).to_vec();
    let environment =
        vec![("OPENAI_API_BASE", plain(access.v1())), ("OPENAI_API_KEY", EnvironmentValue::Key)];
    let files = vec![ClientSettingsFile {
        path: access.home.join(".aider.conf.yml"),
        change: SettingsFileChange::Lines(": ", lines),
    }];
    Ok(WrapClientSetup {
        environment,
        arguments: vec!["--model".to_owned(), model],
        files,
        ..WrapClientSetup::default()
    })
}

fn pi(access: &GatewayAccess) -> Outcome<WrapClientSetup> {
    let provider = json!({
        "baseUrl": access.v1(), "api": "openai-completions", "apiKey": access.key()?,
        "models": [{ "id": access.model, "contextWindow": WINDOW, "maxTokens": OUTPUT }],
    });
    let change = SettingsFileChange::Json(json!({ "providers": { "longhaul": provider } }));
    let arguments = ["--provider", "longhaul", "--model", &access.model].map(str::to_owned).to_vec();
    let files = vec![ClientSettingsFile { path: access.home.join(".pi/agent/models.json"), change }];
    let not_by_run =
        Some("pi takes its servers from its file only: `longhaul wrap pi --write`, then start it as printed");
    Ok(WrapClientSetup { arguments, files, not_by_run, ..WrapClientSetup::default() })
}

fn continue_cli(access: &GatewayAccess) -> Outcome<WrapClientSetup> {
    let text = format!(
        "name: Longhaul\nversion: 0.0.1\nschema: v1\nmodels:\n  - name: {model}\n    provider: openai\n    model: {model}\n    apiBase: {base}\n    apiKey: {key}\n    roles: [chat, edit, apply]\n",
        model = json!(access.model),
        base = json!(access.v1()),
        key = json!(access.key()?),
    );
    let path = access.folder.join("continue.yaml");
    let arguments = vec!["--config".to_owned(), path.display().to_string()];
    Ok(WrapClientSetup {
        arguments,
        files: vec![ClientSettingsFile { path, change: SettingsFileChange::Whole(text) }],
        ..WrapClientSetup::default()
    })
}

fn cline(access: &GatewayAccess) -> Outcome<WrapClientSetup> {
    let line = format!(
        "cline auth --provider openai --apikey {} --modelid {} --baseurl {}",
        access.key_in_shell(),
        quoted(&access.model),
        quoted(&access.v1()),
    );
    let not_by_run =
        Some("cline keeps its settings itself: type the line that `longhaul wrap cline` prints, once");
    Ok(WrapClientSetup { lines: vec![line], not_by_run, ..WrapClientSetup::default() })
}

fn mini(access: &GatewayAccess) -> Outcome<WrapClientSetup> {
    let environment = vec![
        ("OPENAI_API_BASE", plain(access.v1())),
        ("OPENAI_API_KEY", EnvironmentValue::Key),
        // mini-swe-agent stops at a model whose price it does not know.
        ("MSWEA_COST_TRACKING", plain("ignore_errors")),
    ];
    let arguments = vec!["-m".to_owned(), format!("openai/{}", access.model)];
    Ok(WrapClientSetup { environment, arguments, ..WrapClientSetup::default() })
}

fn openai(access: &GatewayAccess) -> Outcome<WrapClientSetup> {
    let environment =
        vec![("OPENAI_BASE_URL", plain(access.v1())), ("OPENAI_API_KEY", EnvironmentValue::Key)];
    Ok(WrapClientSetup { environment, ..WrapClientSetup::default() })
}

fn anthropic(access: &GatewayAccess) -> Outcome<WrapClientSetup> {
    let environment =
        vec![("ANTHROPIC_BASE_URL", plain(&access.root)), ("ANTHROPIC_API_KEY", EnvironmentValue::Key)];
    Ok(WrapClientSetup { environment, ..WrapClientSetup::default() })
}
