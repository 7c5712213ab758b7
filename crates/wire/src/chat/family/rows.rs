//! The rows of the server families. Each row names sources; a source without a date was read on 2026-11-22.

use super::{
    CallIdFormat, DiscoveryEndpoint, DocumentSupport, OutputLimitField, PrefillSupport, ReasoningPlace,
    ReasoningReplay, ServerFamily, TokenCountEndpoint,
};
use crate::FeatureSupport;

impl ServerFamily {
    /// The request fields for every server: no known server refuses any of the fields.
    pub const COMPATIBLE: Self = Self {
        name: "compatible",
        hosts: &[],
        output_limit: OutputLimitField::MaxTokens,
        asks_for_usage: true,
        reasoning: ReasoningPlace::ReasoningContent,
        replay: ReasoningReplay::Never,
        unsigned_details: false,
        call_ids: CallIdFormat::UpTo(40),
        names_tools: true,
        images: FeatureSupport::Unknown,
        documents: DocumentSupport::Unknown,
        user_after_tool: true,
        prefill: PrefillSupport::Unknown,
        fields: &[],
        pages: &[
            DiscoveryEndpoint::Props,
            DiscoveryEndpoint::LmStudioV1,
            DiscoveryEndpoint::LmStudioV0,
            DiscoveryEndpoint::OllamaLoaded,
            DiscoveryEndpoint::Models,
        ],
        counter: None,
        system_in_user: false,
        content_is_text: false,
        streams: true,
        signs_calls: false,
    };

    /// OpenAI, and OpenAI's models at Azure. `max_tokens` is deprecated, and the reasoning models refuse it
    /// (<https://platform.openai.com/docs/api-reference/chat/create>). Ids of calls above 40 bytes are refused too
    /// (error `string_above_max_length`). Reasoning is not shown over Chat Completions.
    pub const OPENAI: Self = Self {
        name: "openai",
        hosts: &["api.openai.com", "openai.azure.com"],
        output_limit: OutputLimitField::MaxCompletionTokens,
        documents: DocumentSupport::File,
        prefill: PrefillSupport::No,
        pages: &[DiscoveryEndpoint::Models],
        ..Self::COMPATIBLE
    };

    /// DeepSeek. Reasoning of a turn with tool calls must come back in *every* later request, else 400. Reasoning
    /// of a turn without calls is ignored (<https://api-docs.deepseek.com/guides/thinking_mode>). A call of
    /// another model has no reasoning: an empty one is taken (anomalyco/opencode#25058). Content is text only
    /// (recorded: "unknown variant `image_url`, expected `text`"). Prefill exists at `/beta` only.
    pub const DEEPSEEK: Self = Self {
        name: "deepseek",
        hosts: &["api.deepseek.com"],
        replay: ReasoningReplay::ToolTurns,
        images: FeatureSupport::No,
        documents: DocumentSupport::No,
        prefill: PrefillSupport::No,
        pages: &[DiscoveryEndpoint::Models],
        ..Self::COMPATIBLE
    };

    /// Moonshot. Its thinking models refuse a call without `reasoning_content` in every later request: "reasoning_content
    /// is missing in assistant tool call message" (anomalyco/opencode#10996). An empty text is taken where the reasoning
    /// is not known (Lapis0x0/obsidian-yolo#243). Read on 2026-11-29.
    pub const MOONSHOT: Self = Self {
        name: "moonshot",
        hosts: &["api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"],
        replay: ReasoningReplay::ToolTurns,
        pages: &[DiscoveryEndpoint::Models],
        ..Self::COMPATIBLE
    };

    /// Groq. Refuses `reasoning_content` (tashfeenahmed/freellmapi#1070), takes `reasoning` from reasoning models
    /// (vercel/ai#8057). `max_tokens` is deprecated (<https://console.groq.com/docs/api-reference>); prefill:
    /// <https://console.groq.com/docs/prefilling>.
    pub const GROQ: Self = Self {
        name: "groq",
        hosts: &["api.groq.com"],
        output_limit: OutputLimitField::MaxCompletionTokens,
        reasoning: ReasoningPlace::Reasoning,
        replay: ReasoningReplay::Turn,
        prefill: PrefillSupport::Fields(&[]),
        pages: &[DiscoveryEndpoint::Models],
        ..Self::COMPATIBLE
    };

    /// Mistral. Ids of calls are nine letters or digits (anomalyco/opencode#1680). Unknown fields are refused:
    /// `stream_options` (dnakov/anon-kode#53), `max_completion_tokens` (editor-code-assistant/eca#231),
    /// `reasoning_content` (charmbracelet/crush#1590). Streams report usage without a request for it. Reasoning
    /// is a block of the content and stays in the history (`@ai-sdk/mistral` 3.0.52). No user message may follow
    /// a tool's result (zed-industries/zed#37021). Documents and `prefix`:
    /// <https://docs.mistral.ai/api/endpoint/chat>.
    pub const MISTRAL: Self = Self {
        name: "mistral",
        hosts: &["mistral.ai"],
        asks_for_usage: false,
        reasoning: ReasoningPlace::Blocks,
        replay: ReasoningReplay::Always,
        call_ids: CallIdFormat::NineAlphanumerics,
        documents: DocumentSupport::DocumentUrl,
        user_after_tool: false,
        prefill: PrefillSupport::Prefix,
        pages: &[DiscoveryEndpoint::Models],
        ..Self::COMPATIBLE
    };

    /// xAI. Only xAI's Responses API takes reasoning back
    /// (<https://docs.x.ai/developers/model-capabilities/text/best-practices.md>). xAI reports reasoning beside the
    /// completion: the decoder compares the total.
    pub const XAI: Self = Self {
        name: "xai",
        hosts: &["api.x.ai"],
        output_limit: OutputLimitField::MaxCompletionTokens,
        pages: &[DiscoveryEndpoint::Models],
        ..Self::COMPATIBLE
    };

    /// OpenRouter. `reasoning_details` go back whole and in order
    /// (<https://openrouter.ai/docs/use-cases/reasoning-tokens>), unsigned details too: a model behind OpenRouter may
    /// want unsigned details (anomalyco/opencode#24569). `usage.include` and `stream_options` are without effect,
    /// usage always comes (<https://openrouter.ai/docs/use-cases/usage-accounting>).
    pub const OPENROUTER: Self = Self {
        name: "openrouter",
        hosts: &["openrouter.ai"],
        asks_for_usage: false,
        replay: ReasoningReplay::Never,
        unsigned_details: true,
        documents: DocumentSupport::File,
        pages: &[DiscoveryEndpoint::Models],
        ..Self::COMPATIBLE
    };

    /// vLLM. Reads `reasoning` since 0.16 and drops `reasoning_content` in silence (vllm-project/vllm#38488); vLLM's
    /// templates show the reasoning of the turn (vllm-project/vllm#28531). Continues an answer on request, and counts
    /// tokens (`vllm/entrypoints/openai/protocol.py`: `continue_final_message`, `TokenizeChatRequest`).
    pub const VLLM: Self = Self {
        name: "vllm",
        reasoning: ReasoningPlace::Reasoning,
        replay: ReasoningReplay::Turn,
        prefill: PrefillSupport::Fields(&[
            ("continue_final_message", "true"),
            ("add_generation_prompt", "false"),
        ]),
        pages: &[DiscoveryEndpoint::Models],
        counter: Some(TokenCountEndpoint::Tokenize),
        ..Self::COMPATIBLE
    };

    /// llama.cpp. Takes `reasoning_content`; the template decides about the part shown to the model. With
    /// `reasoning_format`, thinking comes apart from the text, whatever the server's start options were. The server
    /// continues an answer unless thinking is on (`tools/server/README.md`; seen at a real server).
    pub const LLAMA_CPP: Self = Self {
        name: "llama.cpp",
        replay: ReasoningReplay::Turn,
        prefill: PrefillSupport::Fields(&[("chat_template_kwargs", r#"{"enable_thinking":false}"#)]),
        fields: &[("reasoning_format", r#""deepseek""#)],
        pages: &[DiscoveryEndpoint::Props],
        counter: Some(TokenCountEndpoint::ApplyTemplate),
        ..Self::COMPATIBLE
    };

    /// LM Studio. `tool_choice` is a word only (lmstudio-ai/lmstudio-bug-tracker#670). Errors are a sentence (0.3) or
    /// an object (0.4); the error parser reads both.
    pub const LM_STUDIO: Self = Self {
        name: "LM Studio",
        names_tools: false,
        pages: &[DiscoveryEndpoint::LmStudioV1, DiscoveryEndpoint::LmStudioV0],
        ..Self::COMPATIBLE
    };

    /// Ollama's compatible API. Ollama continues an assistant message at the end of the request. A request cannot set
    /// the window here; Ollama's own API can.
    pub const OLLAMA: Self = Self {
        name: "ollama",
        prefill: PrefillSupport::Fields(&[]),
        pages: &[DiscoveryEndpoint::OllamaLoaded],
        ..Self::COMPATIBLE
    };

    /// All families with a name.
    pub const ALL: &'static [Self] = &[
        Self::OPENAI,
        Self::DEEPSEEK,
        Self::MOONSHOT,
        Self::GROQ,
        Self::MISTRAL,
        Self::XAI,
        Self::OPENROUTER,
        Self::VLLM,
        Self::LLAMA_CPP,
        Self::LM_STUDIO,
        Self::OLLAMA,
    ];
}
