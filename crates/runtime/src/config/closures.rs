//! The closures of the user's own agent file. They hold over a file that was found in a folder.
//!
//! Every section with a closure is taken apart by name, so that a new key does not compile until its author has
//! decided whether a folder's file may loosen it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    AgentConfig, AgentSource, ApprovalsConfig, BlobsConfig, ConfigError, GatewayAuth, GatewayConfig,
    GatewayCredentials, HooksConfig, ModelConfig, Recovery, RunConfig, SandboxConfig, ServerConfig,
    TelemetryConfig, ToolsConfig,
};
use crate::sandbox::{ChildLimits, NetworkAccess};

/// The user's own agent file.
#[derive(Clone, Debug, PartialEq)]
pub struct UserConfigFile {
    /// The settings of the file, with the defaults for all others.
    pub config: AgentConfig,
    /// The keys that the file sets, for example `run.maxSteps`.
    pub written: BTreeSet<String>,
}

/// The configuration of a folder's file under the closures of the user's own.
#[derive(Clone, Debug, PartialEq)]
pub struct RestrictedConfig {
    /// The configuration that holds.
    pub config: AgentConfig,
    /// The keys at which the user's file holds against the folder's.
    pub held: BTreeSet<String>,
}

impl UserConfigFile {
    /// Reads the user's own agent file. `file` is its name in messages.
    ///
    /// # Errors
    /// As [`AgentConfig::parse`].
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        Ok(Self { config: AgentConfig::parse(text, file)?, written: AgentConfig::written(text) })
    }

    /// Returns whether the file names a model or a server.
    pub fn names_a_model(&self) -> bool {
        self.config.model != AgentConfig::default().model
    }
}

impl AgentConfig {
    /// Returns this configuration, which was found in a folder, under the closures of the user's own file. Where both
    /// say something, the stricter of the two holds. A folder's file that names no server has the user's.
    ///
    /// ```
    /// use longhaul::config::{AgentConfig, UserConfigFile};
    /// use longhaul::sandbox::NetworkAccess;
    ///
    /// let user = UserConfigFile::parse("sandbox: { network: deny }", "~/longhaul.yml").unwrap();
    /// let found = AgentConfig::parse("sandbox: { network: allow }", "longhaul.yml").unwrap();
    /// let narrowed = found.restricted_by(&user);
    /// assert_eq!(narrowed.config.sandbox.network, NetworkAccess::Denied);
    /// assert!(narrowed.held.contains("sandbox.network"));
    /// ```
    #[must_use]
    pub fn restricted_by(self, user: &UserConfigFile) -> RestrictedConfig {
        let mut closures = ConfigRestrictor { user, held: BTreeSet::new() };
        let config = closures.config(self);
        RestrictedConfig { config, held: closures.held }
    }
}

struct ConfigRestrictor<'a> {
    user: &'a UserConfigFile,
    held: BTreeSet<String>,
}

impl ConfigRestrictor<'_> {
    fn config(&mut self, folder: AgentConfig) -> AgentConfig {
        let user = &self.user.config;
        let AgentConfig {
            // The system prompt and the settings of the context loosen no closure.
            name,
            system_prompt,
            context,
            retry,
            models,
            model,
            run,
            hooks,
            tools,
            sandbox,
            blobs,
            approvals,
            mcp_servers,
            gateway,
            server,
            telemetry,
            agents,
        } = folder;
        AgentConfig {
            name,
            system_prompt,
            context,
            retry,
            models,
            model: self.model(model),
            run: self.run(run),
            hooks: self.hooks(hooks),
            tools: self.tools(tools),
            sandbox: self.sandbox(sandbox),
            blobs: self.blobs(blobs),
            approvals: self.approvals(approvals),
            // The user's server wins over one of the same name: the user's rules name its tools.
            mcp_servers: mcp_servers
                .into_iter()
                .map(|(name, server)| match user.mcp_servers.get(&name) {
                    Some(own) if *own != server => {
                        self.held.insert(format!("mcpServers.{name}"));
                        (name, own.clone())
                    }
                    _ => (name, server),
                })
                .collect(),
            gateway: self.gateway(gateway),
            server: self.server(server),
            telemetry: self.telemetry(telemetry),
            agents: agents
                .into_iter()
                .map(|(name, agent)| match agent {
                    AgentSource::Here(agent) => (name, AgentSource::Here(Box::new(self.config(*agent)))),
                    AgentSource::File(_) => (name, agent),
                })
                .collect(),
        }
    }

    /// Returns the user's server, with its key and headers, where the folder's file names none.
    fn model(&self, folder: ModelConfig) -> ModelConfig {
        let (user, usual) = (&self.user.config.model, AgentConfig::default().model);
        if folder == usual {
            return user.clone();
        }
        // The user's key and headers belong to the user's server. They never go to one that a found file names.
        let names_server = folder.provider != usual.provider
            || folder.base_url != usual.base_url
            || folder.api_key_env != usual.api_key_env
            || folder.headers != usual.headers;
        if names_server {
            return folder;
        }
        ModelConfig {
            provider: user.provider,
            base_url: user.base_url.clone(),
            api_key_env: user.api_key_env.clone(),
            headers: user.headers.clone(),
            ..folder
        }
    }

    fn run(&mut self, folder: RunConfig) -> RunConfig {
        let user = &self.user.config.run;
        let RunConfig { max_steps, timeout, parallel_tools, recovery, queue_limit } = folder;
        RunConfig {
            max_steps: self.at_most("run.maxSteps", user.max_steps, max_steps),
            timeout: self.at_most_or_none("run.timeout", user.timeout, timeout),
            parallel_tools,
            recovery: self.closed("run.recovery", user.recovery, recovery, Recovery::Rest),
            queue_limit: self.at_most("run.queueLimit", user.queue_limit, queue_limit),
        }
    }

    fn hooks(&mut self, folder: HooksConfig) -> HooksConfig {
        let user = &self.user.config.hooks;
        let HooksConfig { pre_compact, pre_tool_use, post_tool_use, user_prompt_submit } = folder;
        HooksConfig {
            pre_compact: self.own("hooks.preCompact", &user.pre_compact, pre_compact),
            pre_tool_use: self.own("hooks.preToolUse", &user.pre_tool_use, pre_tool_use),
            post_tool_use: self.own("hooks.postToolUse", &user.post_tool_use, post_tool_use),
            user_prompt_submit: self.own(
                "hooks.userPromptSubmit",
                &user.user_prompt_submit,
                user_prompt_submit,
            ),
        }
    }

    fn tools(&mut self, folder: ToolsConfig) -> ToolsConfig {
        let user = &self.user.config.tools;
        let ToolsConfig {
            enabled,
            mut disabled,
            defer_above,
            max_output_chars,
            mut output_limits,
            bash_timeout,
            read_max_lines,
            read_max_line_length,
            grep_max_matches,
        } = folder;
        let enabled = match (&user.enabled, enabled) {
            (None, enabled) => enabled,
            // Without a list a file has all tools, which would loosen the user's list.
            (Some(own), None) => {
                self.held.insert("tools.enabled".to_owned());
                Some(own.clone())
            }
            (Some(own), Some(mut enabled)) => {
                self.note("tools.enabled", enabled.iter().any(|tool| !own.contains(tool)));
                enabled.retain(|tool| own.contains(tool));
                Some(enabled)
            }
        };
        for tool in &user.disabled {
            if !disabled.contains(tool) {
                self.held.insert("tools.disabled".to_owned());
                disabled.push(tool.clone());
            }
        }
        let named: BTreeMap<_, _> =
            user.output_limits.iter().map(|(tool, limit)| (tool.clone(), *limit)).collect();
        for (tool, limit) in named {
            // A tool of an MCP server may be written with the prefix `mcp__` or without.
            let keys = ["", "mcp__"].map(|prefix| format!("tools.{prefix}{tool}.maxOutputChars"));
            let [key, prefixed] = keys;
            let key = if self.user.written.contains(&prefixed) { prefixed } else { key };
            let folders = output_limits.get(&tool).copied().unwrap_or(u64::MAX);
            output_limits.insert(tool, self.at_most(&key, limit, folders));
        }
        ToolsConfig {
            enabled,
            disabled,
            defer_above,
            max_output_chars: self.at_most("tools.maxOutputChars", user.max_output_chars, max_output_chars),
            output_limits,
            bash_timeout: self.at_most("tools.bash.timeoutMs", user.bash_timeout, bash_timeout),
            read_max_lines: self.at_most("tools.read.maxLines", user.read_max_lines, read_max_lines),
            read_max_line_length: self.at_most(
                "tools.read.maxLineLength",
                user.read_max_line_length,
                read_max_line_length,
            ),
            grep_max_matches: self.at_most("tools.grep.maxMatches", user.grep_max_matches, grep_max_matches),
        }
    }

    fn sandbox(&mut self, folder: SandboxConfig) -> SandboxConfig {
        let user = &self.user.config.sandbox;
        let SandboxConfig { network, limits } = folder;
        let ChildLimits { cpu_seconds, memory_bytes, file_bytes, processes, open_files } = limits;
        let own = &user.limits;
        let limits = ChildLimits {
            cpu_seconds: self.at_most_or_none("sandbox.limits.cpuSeconds", own.cpu_seconds, cpu_seconds),
            memory_bytes: self.at_most_or_none("sandbox.limits.memoryBytes", own.memory_bytes, memory_bytes),
            file_bytes: self.at_most_or_none("sandbox.limits.fileBytes", own.file_bytes, file_bytes),
            processes: self.at_most_or_none("sandbox.limits.processes", own.processes, processes),
            open_files: self.at_most_or_none("sandbox.limits.openFiles", own.open_files, open_files),
        };
        SandboxConfig {
            network: self.closed("sandbox.network", user.network, network, NetworkAccess::Denied),
            limits,
        }
    }

    fn blobs(&mut self, folder: BlobsConfig) -> BlobsConfig {
        let user = &self.user.config.blobs;
        let BlobsConfig { max_bytes, session_quota_bytes } = folder;
        BlobsConfig {
            max_bytes: self.at_most("blobs.maxBytes", user.max_bytes, max_bytes),
            session_quota_bytes: self.at_most(
                "blobs.sessionQuotaBytes",
                user.session_quota_bytes,
                session_quota_bytes,
            ),
        }
    }

    fn approvals(&mut self, folder: ApprovalsConfig) -> ApprovalsConfig {
        let user = &self.user.config.approvals;
        let ApprovalsConfig { rules, closures: _, timeout } = folder;
        self.note("approvals.rules", !user.rules.is_empty());
        ApprovalsConfig {
            rules,
            closures: user.rules.clone(),
            timeout: self.at_most_or_none("approvals.timeout", user.timeout, timeout),
        }
    }

    fn gateway(&mut self, folder: GatewayConfig) -> GatewayConfig {
        let user = &self.user.config.gateway;
        // The user is asked about upstreams with an address or a key of their own.
        let GatewayConfig { upstreams, midstream, notices_in_text, recall, defer_tools, auth, credentials } =
            folder;
        GatewayConfig {
            upstreams,
            midstream,
            notices_in_text,
            recall,
            defer_tools,
            auth: self.closed("gateway.auth", user.auth, auth, GatewayAuth::Token),
            credentials: self.closed(
                "gateway.credentials",
                user.credentials,
                credentials,
                GatewayCredentials::Own,
            ),
        }
    }

    fn server(&mut self, folder: ServerConfig) -> ServerConfig {
        let user = &self.user.config.server;
        // The user is asked about the server's address, its clients and the source of its token.
        let ServerConfig {
            addr,
            token_file,
            allowed_hosts,
            allowed_origins,
            max_body_bytes,
            rate_limit,
            keep_sessions,
        } = folder;
        ServerConfig {
            addr,
            token_file,
            allowed_hosts,
            allowed_origins,
            max_body_bytes: self.at_most("server.maxBodyBytes", user.max_body_bytes, max_body_bytes),
            rate_limit: self.own("server.rateLimit", &user.rate_limit, rate_limit),
            keep_sessions: self.own("server.keepSessions", &user.keep_sessions, keep_sessions),
        }
    }

    fn telemetry(&mut self, folder: TelemetryConfig) -> TelemetryConfig {
        let user = &self.user.config.telemetry;
        let TelemetryConfig { otlp, content } = folder;
        TelemetryConfig { otlp, content: self.closed("telemetry.content", user.content, content, false) }
    }

    /// Returns the smaller of two limits, where the user's file states one.
    fn at_most<T: Ord>(&mut self, key: &str, user: T, folder: T) -> T {
        // Only what the user has written is a closure: a found file may be looser than a default.
        if user < folder && self.user.written.contains(key) {
            self.held.insert(key.to_owned());
            return user;
        }
        folder
    }

    /// Returns the smaller of two limits, where the user's file states one; `None` is no limit.
    fn at_most_or_none<T: Ord>(&mut self, key: &str, user: Option<T>, folder: Option<T>) -> Option<T> {
        match (user, folder) {
            (Some(user), Some(folder)) => Some(self.at_most(key, user, folder)),
            (Some(user), None) if self.user.written.contains(key) => {
                self.held.insert(key.to_owned());
                Some(user)
            }
            (_, folder) => folder,
        }
    }

    /// Returns the strict value, where the user's file states it.
    fn closed<T: PartialEq>(&mut self, key: &str, user: T, folder: T, strict: T) -> T {
        if user == strict && folder != strict && self.user.written.contains(key) {
            self.held.insert(key.to_owned());
            return user;
        }
        folder
    }

    /// Returns the user's value, where there is one.
    fn own<T: Clone + PartialEq>(&mut self, key: &str, user: &Option<T>, folder: Option<T>) -> Option<T> {
        match user {
            Some(own) => {
                self.note(key, folder.as_ref() != Some(own));
                Some(own.clone())
            }
            None => folder,
        }
    }

    fn note(&mut self, key: &str, holds: bool) {
        if holds {
            self.held.insert(key.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Decision;

    const USER: &str = "
model: { provider: openai, name: own, api_key_env: OWN_KEY, headers: { x-own: a } }
run: { maxSteps: 10, timeout: 5m, recovery: rest, queueLimit: 7 }
tools:
  enabled: [read, bash, grep]
  disabled: [bash]
  maxOutputChars: 1000
  bash: { timeoutMs: 1000, maxOutputChars: 900 }
  mcp__files__read: { maxOutputChars: 800 }
  read: { maxLines: 10, maxLineLength: 11 }
  grep: { maxMatches: 12 }
sandbox:
  network: deny
  limits: { cpuSeconds: 1, memoryBytes: 67108864, fileBytes: 2, processes: 3, openFiles: 64 }
blobs: { maxBytes: 100, sessionQuotaBytes: 200 }
approvals: { timeout: 1m, rules: [{ tool: bash, decision: deny }] }
hooks:
  preCompact: { command: own }
  preToolUse: { command: own }
  postToolUse: { command: own }
  userPromptSubmit: { command: own }
mcpServers: { files: { command: own } }
gateway: { auth: token, credentials: own }
server: { maxBodyBytes: 1000, rateLimit: 1/s, keepSessions: 30d }
telemetry: { content: false }
";

    const LOOSE: &str = "
run: { maxSteps: 1000, timeout: none, recovery: continue, queueLimit: 700 }
tools:
  enabled: [read, bash, write]
  maxOutputChars: 100000
  bash: { timeoutMs: 100000, maxOutputChars: 90000 }
  mcp__files__read: { maxOutputChars: 80000 }
  read: { maxLines: 1000, maxLineLength: 1100 }
  grep: { maxMatches: 1200 }
sandbox:
  network: allow
  limits: { cpuSeconds: none, memoryBytes: none, fileBytes: 2000, processes: none, openFiles: none }
blobs: { maxBytes: 10000, sessionQuotaBytes: 20000 }
approvals: { timeout: none, rules: [{ tool: bash, decision: allow }] }
hooks:
  preCompact: { command: other }
  preToolUse: { command: other }
  postToolUse: none
  userPromptSubmit: { command: other }
mcpServers: { files: { command: other } }
gateway: { auth: open-on-loopback, credentials: forward }
server: { maxBodyBytes: 10000, rateLimit: none, keepSessions: none }
telemetry: { content: true }
";

    fn user(text: &str) -> UserConfigFile {
        UserConfigFile::parse(text, "own").unwrap()
    }

    fn found(text: &str) -> AgentConfig {
        AgentConfig::parse(text, "found").unwrap()
    }

    /// The sections with closures as they stand in the user's file, but for what a found file decides itself.
    fn assert_closed(narrowed: &AgentConfig) {
        let own = user(USER).config;
        assert_eq!(narrowed.run, own.run);
        assert_eq!(narrowed.sandbox, own.sandbox);
        assert_eq!(narrowed.blobs, own.blobs);
        assert_eq!(narrowed.hooks, own.hooks);
        assert_eq!(narrowed.approvals.closures, own.approvals.rules);
        assert_eq!(narrowed.approvals.timeout, own.approvals.timeout);
        assert_eq!(
            (narrowed.gateway.auth, narrowed.gateway.credentials),
            (own.gateway.auth, own.gateway.credentials)
        );
        assert_eq!(narrowed.telemetry, own.telemetry);
        let tools = ToolsConfig { enabled: own.tools.enabled.clone(), ..narrowed.tools.clone() };
        assert_eq!(tools, own.tools);
    }

    #[test]
    fn nothing_that_the_users_file_closes_is_opened_by_a_found_file() {
        for text in [LOOSE.to_owned(), "{}".to_owned()] {
            let mut config = found(&text).restricted_by(&user(USER)).config;
            assert_eq!(config.server.rate_limit, user(USER).config.server.rate_limit, "{text}");
            assert_eq!(config.server.keep_sessions, user(USER).config.server.keep_sessions, "{text}");
            if text == "{}" {
                // What it does not say keeps its default, where that is stricter than the user's file.
                config.tools.enabled = None;
            } else {
                assert_eq!(config.tools.enabled, Some(vec!["read".to_owned(), "bash".to_owned()]));
                assert_eq!(config.mcp_servers, user(USER).config.mcp_servers);
            }
            assert_closed(&config);
        }
    }

    #[test]
    fn a_closure_holds_in_either_spelling() {
        let user = user("run: { max_steps: 7 }");
        for folder in ["run: { maxSteps: 90 }", "run: { max_steps: 90 }"] {
            let restricted = found(folder).restricted_by(&user);
            assert_eq!(restricted.config.run.max_steps, 7, "{folder}");
            assert!(restricted.held.contains("run.maxSteps"), "{folder}");
        }
    }

    #[test]
    fn the_keys_at_which_the_users_file_holds_are_named() {
        let held = found(LOOSE).restricted_by(&user(USER)).held;
        let expected = AgentConfig::written(USER).into_iter().filter(|key| {
            let is_leaf =
                !AgentConfig::written(USER).iter().any(|other| other.starts_with(&format!("{key}.")));
            is_leaf && !key.starts_with("model.")
        });
        let missing: Vec<String> = expected
            .map(|key| if key.starts_with("mcpServers.") { "mcpServers.files".to_owned() } else { key })
            .map(|key| match key.split('.').collect::<Vec<_>>().as_slice() {
                ["hooks", hook, ..] => format!("hooks.{hook}"),
                _ => key,
            })
            .filter(|key| !held.contains(key))
            .collect();
        assert!(missing.is_empty(), "{missing:?} of {held:?}");
    }

    #[test]
    fn agents_of_a_found_file_are_under_the_closures_too() {
        let text = "agents: { other: { sandbox: { network: allow }, run: { maxSteps: 1000 } } }";
        let config = found(text).restricted_by(&user(USER)).config;
        let AgentSource::Here(other) = &config.agents["other"] else { panic!("{:?}", config.agents) };
        assert_closed(other);
    }

    #[test]
    fn a_found_file_may_be_stricter() {
        let text = "{ run: { maxSteps: 3 }, sandbox: { network: deny }, tools: { disabled: [write] }, approvals: { rules: [{ tool: '*', decision: deny }] } }";
        let narrowed = found(text).restricted_by(&user("run: { maxSteps: 10 }"));
        assert_eq!(narrowed.config.run.max_steps, 3);
        assert_eq!(narrowed.config.sandbox.network, NetworkAccess::Denied);
        assert_eq!(narrowed.config.tools.disabled, ["write"]);
        assert_eq!(narrowed.config.approvals.rules[0].decision, Decision::Deny);
        assert!(narrowed.held.is_empty(), "{:?}", narrowed.held);
    }

    #[test]
    fn what_the_users_file_does_not_say_closes_nothing() {
        let narrowed = found(LOOSE).restricted_by(&user("name: mine"));
        assert_eq!(narrowed.config, found(LOOSE));
        assert!(narrowed.held.is_empty(), "{:?}", narrowed.held);
    }

    #[test]
    fn a_found_file_without_a_server_has_the_users() {
        let own = user(USER).config.model;
        assert_eq!(found("{}").restricted_by(&user(USER)).config.model, own);
        let named = found("model: { name: other }").restricted_by(&user(USER)).config.model;
        assert_eq!(named, ModelConfig { name: "other".to_owned(), ..own });
        let elsewhere =
            found("model: { base_url: 'http://localhost:9/v1' }").restricted_by(&user(USER)).config.model;
        assert_eq!((elsewhere.api_key_env, elsewhere.headers.len()), (None, 0));
    }
}
