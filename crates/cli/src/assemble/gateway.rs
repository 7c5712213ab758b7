//! The gateway in front of the servers of `gateway.upstreams` and of the configured model.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul::agent::Agent;
use longhaul::calibration::CalibrationStore;
use longhaul::config::{
    AgentConfig, FirstByteTimeout, GatewayCredentials, GatewayDeferTools, GatewayDialect, GatewayMidstream,
    GatewayRecall, ModelConfig, StrategyKind, UpstreamConfig, UpstreamModel,
};
use longhaul::config_agent;
use longhaul::hooks::{HookEvent, HookSet, PreCompactRequest};
use longhaul_core::message::ModelOrigin;
use longhaul_core::meter::TokenCalibration;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::run::{PreCompactInput, PreCompactOutput};
use longhaul_gateway::{
    CredentialSource, Gateway, GatewayDependencies, MidstreamMode, PreCompactHook, RecallMode,
    SharedWindowStore, ToolDeferralMode, UpstreamModelEntry, UpstreamOptions,
};
use longhaul_providers::DeclaredLimits;
use longhaul_providers::http::{HttpTimeouts, NetworkVariables, Secret};
use longhaul_store::PrefixCache;
use longhaul_wire::edit::Dialect;

use super::{key_variable, writer};
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};

/// Builds the gateway. Returns `None` if there is no server for it. The gateway shares learned windows and
/// the PreCompact hook with sessions of `agent`. `names_model`: a person or file has named the configured
/// model, so requests without a model get it.
///
/// # Errors
/// Usage, for an unusable server.
pub(crate) async fn gateway(
    place: &CliEnvironment,
    config: &AgentConfig,
    names_model: bool,
    memo: Arc<dyn PrefixCache>,
    agent: &Agent,
) -> Outcome<Option<Gateway>> {
    let listed = config.gateway.upstreams.iter().filter_map(|listed| upstream(place, listed));
    let of_model =
        of_model(place, config).map(|upstream| UpstreamOptions { is_usual: names_model, ..upstream });
    let upstreams: Vec<UpstreamOptions> = listed.chain(of_model).collect();
    if upstreams.is_empty() {
        tracing::debug!("no model server is known, so there is no gateway");
        return Ok(None);
    }
    tracing::debug!(upstreams = upstreams.len(), names_model, "the gateway is set up");
    // Shadowed, so that what follows cannot use the strategy of sessions by mistake.
    let config = &shortening(config);
    let (writer, summariser) = writer::writer(place, config).await?;
    let settings = longhaul_gateway::GatewayOptions {
        policy: CompactionPolicy { writer, ..config_agent::compaction_policy(config) },
        // Without background work the only way to a summary is to wait for it.
        waits_for_summaries: !config.context.compression.options.background,
        credentials: match config.gateway.credentials {
            GatewayCredentials::Own => CredentialSource::Own,
            GatewayCredentials::Forward => CredentialSource::Forward,
        },
        midstream: match config.gateway.midstream {
            GatewayMidstream::Exact => MidstreamMode::Exact,
            GatewayMidstream::BestEffort => MidstreamMode::BestEffort,
            GatewayMidstream::Off => MidstreamMode::Off,
        },
        notices_in_text: config.gateway.notices_in_text,
        defer_tools: match config.gateway.defer_tools {
            GatewayDeferTools::Auto => ToolDeferralMode::Auto,
            GatewayDeferTools::Off => ToolDeferralMode::Off,
        },
        recall: match config.gateway.recall {
            GatewayRecall::Off => RecallMode::Off,
            GatewayRecall::Inject => RecallMode::Inject,
        },
        retry: agent.rules.retry,
        ..longhaul_gateway::GatewayOptions::new(upstreams)
    };
    let windows = Arc::new(CalibrationWindows(CalibrationStore::clone(&agent.calibrations)));
    let summariser = summariser.map(|another| another.0);
    let pre_compact = pre_compact_hook(&agent.hooks);
    let parts =
        GatewayDependencies { memo, windows, summariser, pre_compact, ..GatewayDependencies::default() };
    Gateway::new(settings, parts).map(Some).map_err(|error| CommandError::usage(error.to_string()))
}

/// Returns the configuration with the strategy `pruning-agent` if the file names that strategy's model and no
/// strategy.
fn shortening(config: &AgentConfig) -> AgentConfig {
    let mut config = config.clone();
    if config.context.pruning_agent_alone {
        config.context.compression.strategy = StrategyKind::PruningAgent;
    }
    config
}

fn pre_compact_hook(hooks: &HookSet) -> Option<Arc<dyn PreCompactHook>> {
    // Without a hook the gateway need not stop and ask before each compaction.
    let is_there = hooks.has(HookEvent::PreCompact);
    is_there.then(|| Arc::new(GatewayCompactHook(hooks.clone())) as Arc<dyn PreCompactHook>)
}

/// The hooks of sessions, asked about conversations of the gateway's clients.
struct GatewayCompactHook(HookSet);

#[async_trait]
impl PreCompactHook for GatewayCompactHook {
    async fn answer(&self, conversation: &str, ask: PreCompactInput) -> Option<PreCompactOutput> {
        let answer = self.0.pre_compact(PreCompactRequest::new(conversation.into(), ask)).await;
        answer.map(PreCompactOutput::from)
    }
}

/// The window sizes learned by sessions.
struct CalibrationWindows(CalibrationStore);

impl SharedWindowStore for CalibrationWindows {
    fn window(&self, base_url: &str, model: &ModelOrigin) -> Option<u64> {
        // Another server may run the same model with another window, so windows are learned for each server.
        self.0.of_server(base_url).window(model)
    }

    fn learn(&self, base_url: &str, model: &ModelOrigin, window: Option<u64>) {
        self.0.of_server(base_url).learn_window(model, window);
    }

    fn learn_tokenizer(&self, model: &ModelOrigin, counter: &str, calibration: &TokenCalibration) {
        self.0.learn(model, counter, calibration);
    }
}

/// Returns the waits of an upstream. A given length of time limits silence within its answers too: nobody
/// watches the answer who could stop it.
fn timeouts(base_url: &str, first_byte: FirstByteTimeout) -> HttpTimeouts {
    let usual = config_agent::http_timeouts(base_url, first_byte);
    match first_byte {
        FirstByteTimeout::After(limit) => {
            HttpTimeouts { idle: limit, signs_of_life: Some(limit.max(usual.idle)), ..usual }
        }
        FirstByteTimeout::Auto | FirstByteTimeout::Unlimited => {
            // A server without a limit for its first byte may read a prompt for hours, and its pings say just that.
            HttpTimeouts { signs_of_life: usual.first_byte.map(|_| usual.idle), ..usual }
        }
    }
}

/// Returns the server of the configured model. It takes any model's name.
fn of_model(place: &CliEnvironment, config: &AgentConfig) -> Option<UpstreamOptions> {
    let model = &config.model;
    // The scripted model has no server, so the gateway has nothing to pass requests to.
    let kind = model.provider.kind()?;
    let mut upstream = UpstreamOptions::new(kind.as_str(), kind, &model.base_url);
    let endpoint = &mut upstream.endpoint;
    endpoint.api_key = key_variable(place, model).and_then(|name| place.variable(name)).map(Secret::new);
    endpoint.headers = config_agent::secret_headers(&model.headers);
    endpoint.cache = model.cache.ttl();
    endpoint.timeouts = timeouts(&model.base_url, model.timeout);
    endpoint.variables = NetworkVariables::from_environment(&place.environment);
    endpoint.declared = config_agent::declared_limits(config);
    // The limits of the configured model are already in `endpoint.declared`.
    let others = config.models.iter().filter(|(name, _)| **name != model.name);
    upstream.declared_of =
        others.map(|(name, limits)| (name.clone(), config_agent::limits_from(limits))).collect();
    upstream.usual_model = Some(model.name.clone());
    // Messages to people name the key that they have to change, which has another name in this section.
    upstream.window_key = "context_window";
    Some(upstream)
}

fn upstream(place: &CliEnvironment, listed: &UpstreamConfig) -> Option<UpstreamOptions> {
    let kind = listed.provider.kind()?;
    let mut upstream = UpstreamOptions::new(&listed.name, kind, &listed.base_url);
    let key = upstream_key(place, listed).and_then(|name| place.variable(&name).map(Secret::new));
    upstream.endpoint.api_key = key;
    upstream.endpoint.headers = config_agent::secret_headers(&listed.headers.0);
    upstream.endpoint.cache = listed.cache.ttl();
    upstream.endpoint.timeouts = timeouts(&listed.base_url, listed.timeout);
    upstream.endpoint.variables = NetworkVariables::from_environment(&place.environment);
    upstream.endpoint.declared = DeclaredLimits { window: listed.window, ..DeclaredLimits::default() };
    if let Some(dialects) = &listed.dialects {
        // A list in the file is final, so the gateway does not look for other dialects.
        upstream.dialects = dialects.iter().map(|dialect| of(*dialect)).collect();
        upstream.finds_dialects = false;
    }
    upstream.models = listed.models.iter().map(model_entry).collect();
    Some(upstream)
}

fn model_entry(model: &UpstreamModel) -> UpstreamModelEntry {
    UpstreamModelEntry {
        name: model.name.clone(),
        upstream_name: model.model.clone(),
        declared: config_agent::limits_from(&model.limits),
    }
}

fn of(dialect: GatewayDialect) -> Dialect {
    match dialect {
        GatewayDialect::Chat => Dialect::Chat,
        GatewayDialect::Responses => Dialect::Responses,
        GatewayDialect::Messages => Dialect::Messages,
    }
}

/// Returns the variable that holds an upstream's key, if the variable is set.
pub(crate) fn upstream_key(place: &CliEnvironment, listed: &UpstreamConfig) -> Option<String> {
    key_variable(place, &as_model(listed)).map(str::to_owned)
}

/// Returns an upstream in the form of the section `model:`.
pub(super) fn as_model(listed: &UpstreamConfig) -> ModelConfig {
    ModelConfig {
        provider: listed.provider,
        base_url: listed.base_url.clone(),
        api_key_env: listed.api_key_env.clone(),
        cache: listed.cache,
        timeout: listed.timeout,
        ..AgentConfig::default().model
    }
}
