//! The writer of parameters in the fields of an upstream's kind.

use crate::ProviderKind;
use crate::ToolChoice;
use serde_json::{Map, Value, json};

use super::{MappedParams, MappingTarget, RequestParam, RequestParamValue, ResponseSchema};
use crate::edit::ParseError;

/// Claude models that take no `output_config.effort` (Anthropic's page on effort, 2026-05).
const WITHOUT_EFFORT: [&str; 8] = [
    "claude-2",
    "claude-3",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2025",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2025",
    "claude-sonnet-4-5",
];

/// Beginnings of OpenAI's models that do not reason and refuse an effort.
const WITHOUT_REASONING: [&str; 3] = ["gpt-3", "gpt-4", "chatgpt-"];

/// The longest id of a user that OpenAI takes, in bytes.
const MAX_USER_BYTES: usize = 64;

pub(super) fn write(wanted: Vec<RequestParam>, to: &MappingTarget<'_>) -> Result<MappedParams, ParseError> {
    let says_effort = wanted.iter().any(|one| matches!(one.want, RequestParamValue::Effort(_)));
    let says_temperature = wanted.iter().any(|one| matches!(one.want, RequestParamValue::Temperature(_)));
    let mut writer = UpstreamParamWriter { to, carried: MappedParams::default(), says_temperature };
    for RequestParam { param, want } in wanted {
        // A request may set both an effort and a budget: the word is the more exact of the two.
        if matches!(want, RequestParamValue::Budget(tokens) if says_effort && tokens > 0) {
            continue;
        }
        let written = writer.one(&param, want)?;
        if !written {
            writer.carried.ignored.push(param);
        }
    }
    Ok(writer.carried)
}

struct UpstreamParamWriter<'a> {
    to: &'a MappingTarget<'a>,
    carried: MappedParams,
    says_temperature: bool,
}

impl UpstreamParamWriter<'_> {
    /// Writes one parameter. Reports whether the upstream has a field for it.
    fn one(&mut self, param: &str, want: RequestParamValue) -> Result<bool, ParseError> {
        let kind = self.to.kind;
        let is_local = kind == ProviderKind::OpenAiCompatible && self.to.is_local;
        Ok(match want {
            RequestParamValue::Temperature(number) => self.temperature(param, number),
            // Claude's newer models refuse a request that sets both.
            RequestParamValue::TopP(_) if kind == ProviderKind::Anthropic && self.says_temperature => false,
            RequestParamValue::TopP(number) => self.sampling(["top_p", "topP"], number.into()),
            // OpenAI's APIs have no `top_k`, but servers that people run themselves have one.
            RequestParamValue::TopK(_)
                if kind == ProviderKind::OpenAi || kind == ProviderKind::OpenAiCompatible && !is_local =>
            {
                false
            }
            RequestParamValue::TopK(number) => self.sampling(["top_k", "topK"], number),
            RequestParamValue::Stop(stops) => match kind {
                // The Responses API has no stop sequences. Without them the answer would go on, so this is
                // refused.
                ProviderKind::OpenAi if !stops.is_empty() => {
                    return Err(unsupported_param(param, "the upstream stops at no text"));
                }
                // An empty list asks for nothing.
                ProviderKind::OpenAi => true,
                ProviderKind::Anthropic => self.put(&["stop_sequences"], stops.into()),
                ProviderKind::Gemini => self.put(&["generationConfig", "stopSequences"], stops.into()),
                ProviderKind::Ollama => self.put(&["options", "stop"], stops.into()),
                ProviderKind::OpenAiCompatible => self.put(&["stop"], stops.into()),
            },
            // Neither Anthropic's API nor OpenAI's Responses API has one of the three.
            RequestParamValue::Seed(_)
            | RequestParamValue::FrequencyPenalty(_)
            | RequestParamValue::PresencePenalty(_)
                if matches!(kind, ProviderKind::Anthropic | ProviderKind::OpenAi) =>
            {
                false
            }
            RequestParamValue::Seed(number) => self.sampling(["seed", "seed"], number),
            RequestParamValue::FrequencyPenalty(number) => {
                self.sampling(["frequency_penalty", "frequencyPenalty"], number)
            }
            RequestParamValue::PresencePenalty(number) => {
                self.sampling(["presence_penalty", "presencePenalty"], number)
            }
            RequestParamValue::JsonObject => return self.json_object(param),
            RequestParamValue::JsonSchema(schema) => self.json_schema(schema),
            RequestParamValue::OneCall(one) => self.one_call(one),
            RequestParamValue::User(user) => self.user(user),
            RequestParamValue::Effort(word) => self.effort(param, &word),
            RequestParamValue::Budget(tokens) => self.budget(param, tokens),
            RequestParamValue::Verbosity(word) if kind == ProviderKind::OpenAi => {
                self.put(&["text", "verbosity"], word.into())
            }
            RequestParamValue::Verbosity(_) | RequestParamValue::Ignored => false,
            RequestParamValue::Refused(why) => return Err(unsupported_param(param, why)),
        })
    }

    fn put(&mut self, path: &[&str], value: Value) -> bool {
        put(&mut self.carried.fields, path, value);
        true
    }

    /// Writes a field of its own, in `options` (Ollama) or in `generationConfig` (Gemini, by its second name).
    fn sampling(&mut self, names: [&str; 2], value: Value) -> bool {
        match self.to.kind {
            ProviderKind::Gemini => self.put(&["generationConfig", names[1]], value),
            ProviderKind::Ollama => self.put(&["options", names[0]], value),
            _ => self.put(&[names[0]], value),
        }
    }

    /// Writes the temperature; Anthropic's scale ends at 1.
    fn temperature(&mut self, param: &str, number: f64) -> bool {
        let most = if self.to.kind == ProviderKind::Anthropic { 1.0 } else { f64::MAX };
        if number > most {
            self.carried.changed.push(format!("{param}={most}"));
        }
        self.sampling(["temperature", "temperature"], number.min(most).into())
    }

    fn json_object(&mut self, param: &str) -> Result<bool, ParseError> {
        Ok(match self.to.kind {
            ProviderKind::Anthropic => {
                let why = "the upstream gives JSON only by a schema: ask with `json_schema`";
                return Err(unsupported_param(param, why));
            }
            ProviderKind::OpenAi => self.put(&["text", "format"], json!({ "type": "json_object" })),
            ProviderKind::OpenAiCompatible => {
                self.put(&["response_format"], json!({ "type": "json_object" }))
            }
            ProviderKind::Gemini => {
                self.put(&["generationConfig", "responseMimeType"], "application/json".into())
            }
            ProviderKind::Ollama => self.put(&["format"], "json".into()),
        })
    }

    fn json_schema(&mut self, schema: ResponseSchema) -> bool {
        let ResponseSchema { name, schema, strict } = schema;
        let mut form = Map::new();
        // OpenAI requires a name, and Anthropic's form has none.
        form.insert("name".to_owned(), name.unwrap_or_else(|| "answer".to_owned()).into());
        form.insert("schema".to_owned(), schema.clone());
        form.extend(strict.map(|strict| ("strict".to_owned(), strict)));
        match self.to.kind {
            ProviderKind::OpenAiCompatible => {
                self.put(&["response_format"], json!({ "type": "json_schema", "json_schema": form }))
            }
            ProviderKind::OpenAi => {
                form.insert("type".to_owned(), "json_schema".into());
                self.put(&["text", "format"], form.into())
            }
            ProviderKind::Anthropic => {
                let form = json!({ "type": "json_schema", "schema": schema });
                self.put(&["output_config", "format"], form)
            }
            ProviderKind::Gemini => {
                self.put(&["generationConfig", "responseMimeType"], "application/json".into());
                self.put(&["generationConfig", "responseJsonSchema"], schema)
            }
            ProviderKind::Ollama => self.put(&["format"], schema),
        }
    }

    /// Writes the wish for one call. Several calls are the default, so only one call has to be requested.
    fn one_call(&mut self, one: bool) -> bool {
        // OpenAI refuses the field in a request without tools.
        if !self.to.has_tools {
            return true;
        }
        match self.to.kind {
            ProviderKind::OpenAi | ProviderKind::OpenAiCompatible => {
                self.put(&["parallel_tool_calls"], (!one).into())
            }
            _ if !one => true,
            ProviderKind::Anthropic => {
                let mut choice = match self.to.tool_choice {
                    ToolChoice::Auto => json!({ "type": "auto" }),
                    ToolChoice::Required => json!({ "type": "any" }),
                    ToolChoice::Named(name) => json!({ "type": "tool", "name": name }),
                    // Without calls there are no parallel ones.
                    ToolChoice::None => return true,
                };
                choice["disable_parallel_tool_use"] = true.into();
                self.put(&["tool_choice"], choice)
            }
            ProviderKind::Gemini | ProviderKind::Ollama => false,
        }
    }

    fn user(&mut self, user: String) -> bool {
        match self.to.kind {
            // A longer id would be refused with the whole request.
            ProviderKind::OpenAi if user.len() <= MAX_USER_BYTES => {
                self.put(&["safety_identifier"], user.into())
            }
            ProviderKind::Anthropic => self.put(&["metadata", "user_id"], user.into()),
            _ => false,
        }
    }

    /// Writes the reasoning effort in a word that the upstream knows.
    fn effort(&mut self, param: &str, word: &str) -> bool {
        let model = self.to.model.rsplit('/').next().unwrap_or_default();
        let is_openai =
            // `gpt-5-chat-latest` does not reason either.
            !WITHOUT_REASONING.iter().any(|name| model.starts_with(name)) && !model.contains("-chat");
        match self.to.kind {
            ProviderKind::OpenAi if is_openai => {
                let word = self.known(param, word, &["none", "minimal", "low", "medium", "high", "xhigh"]);
                self.put(&["reasoning", "effort"], word.into())
            }
            // Hosted servers differ in this field, and some refuse a request with it.
            ProviderKind::OpenAiCompatible if self.to.is_local && word != "none" => {
                let word = self.known(param, word, &["low", "medium", "high"]);
                self.put(&["reasoning_effort"], word.into())
            }
            ProviderKind::Anthropic
                if !WITHOUT_EFFORT.iter().any(|old| model.starts_with(old)) && word != "none" =>
            {
                let word = self.known(param, word, &["low", "medium", "high", "max"]);
                self.put(&["output_config", "effort"], word.into())
            }
            // Generation 2.5 takes a budget in tokens and refuses a level.
            ProviderKind::Gemini if model.starts_with("gemini-3") && word != "none" => {
                let word = self.known(param, word, &["low", "medium", "high"]);
                self.put(&["generationConfig", "thinkingConfig", "thinkingLevel"], word.into())
            }
            ProviderKind::Ollama if word == "none" => self.put(&["think"], false.into()),
            // Ollama takes a word as `think` only for gpt-oss. Other models take `true` or `false`.
            ProviderKind::Ollama if model.starts_with("gpt-oss") => {
                let word = self.known(param, word, &["low", "medium", "high"]);
                self.put(&["think"], word.into())
            }
            _ => false,
        }
    }

    /// Returns the nearest known word, and records the change if it differs.
    fn known<'w>(&mut self, param: &str, word: &'w str, words: &[&'w str]) -> &'w str {
        // A word that is not on the scale is the upstream's to judge.
        let (Some(wanted), false) = (effort_rank(word), words.contains(&word)) else { return word };
        let nearest =
            words.iter().min_by_key(|known| effort_rank(known).unwrap_or_default().abs_diff(wanted));
        let nearest = nearest.copied().unwrap_or(word);
        self.carried.changed.push(format!("{param}={nearest}"));
        nearest
    }

    /// Writes the reasoning budget in tokens. For an upstream that knows only words, the word with about as many
    /// tokens is written.
    fn budget(&mut self, param: &str, tokens: u64) -> bool {
        if self.to.kind == ProviderKind::Gemini && self.to.model.contains("gemini-2.5") {
            return self.put(&["generationConfig", "thinkingConfig", "thinkingBudget"], tokens.into());
        }
        let word = match tokens {
            0 => "none",
            1..=2_048 => "low",
            2_049..=8_192 => "medium",
            _ => "high",
        };
        if tokens == 0 && self.to.kind != ProviderKind::Ollama {
            return false;
        }
        let is_said = self.effort(param, word);
        if is_said && tokens > 0 {
            self.carried.changed.push(format!("{param}={word}"));
        }
        is_said
    }
}

/// Returns the place of a word on the scale of reasoning efforts, from the lowest.
fn effort_rank(word: &str) -> Option<usize> {
    const SCALE: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    SCALE.iter().position(|known| *known == word)
}

fn put(fields: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [name] => {
            fields.insert((*name).to_owned(), value);
        }
        [name, rest @ ..] => {
            let inner = fields.entry(*name).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

fn unsupported_param(param: &str, why: &str) -> ParseError {
    ParseError::field(param, format!("`{param}` cannot be passed on: {why}"))
}
