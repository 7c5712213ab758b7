//! What is wanted, as a kind of upstream says it.

use longhaul_providers::ToolChoice;
use longhaul_providers::connect::Kind;
use serde_json::{Map, Value, json};

use super::{Carried, Schema, To, Want, Wanted};
use crate::wire::Bad;

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

/// OpenAI's models that do not reason refuse to be told how hard.
const WITHOUT_REASONING: [&str; 3] = ["gpt-3", "gpt-4", "chatgpt-"];

/// The longest name of a user that OpenAI takes, in bytes.
const MAX_USER_BYTES: usize = 64;

pub(super) fn write(wanted: Vec<Wanted>, to: &To<'_>) -> Result<Carried, Bad> {
    let says_effort = wanted.iter().any(|one| matches!(one.want, Want::Effort(_)));
    let says_temperature = wanted.iter().any(|one| matches!(one.want, Want::Temperature(_)));
    let mut writer = Writer { to, carried: Carried::default(), says_temperature };
    for Wanted { param, want } in wanted {
        // Where both are said, the word says it better.
        if matches!(want, Want::Budget(tokens) if says_effort && tokens > 0) {
            continue;
        }
        let written = writer.one(&param, want)?;
        if !written {
            writer.carried.ignored.push(param);
        }
    }
    Ok(writer.carried)
}

struct Writer<'a> {
    to: &'a To<'a>,
    carried: Carried,
    says_temperature: bool,
}

impl Writer<'_> {
    /// Returns whether it could be said.
    fn one(&mut self, param: &str, want: Want) -> Result<bool, Bad> {
        let kind = self.to.kind;
        let is_local = kind == Kind::OpenAiCompatible && self.to.is_local;
        Ok(match want {
            Want::Temperature(number) => self.temperature(param, number),
            // Of Claude's newer models both are refused.
            Want::TopP(_) if kind == Kind::Anthropic && self.says_temperature => false,
            Want::TopP(number) => self.sampling(["top_p", "topP"], number.into()),
            Want::TopK(_) if kind == Kind::OpenAi || kind == Kind::OpenAiCompatible && !is_local => false,
            Want::TopK(number) => self.sampling(["top_k", "topK"], number),
            Want::Stop(stops) => match kind {
                // Responses has none: what comes after would come too.
                Kind::OpenAi if !stops.is_empty() => {
                    return Err(refused(param, "the upstream stops at no text"));
                }
                Kind::OpenAi => true,
                Kind::Anthropic => self.put(&["stop_sequences"], stops.into()),
                Kind::Gemini => self.put(&["generationConfig", "stopSequences"], stops.into()),
                Kind::Ollama => self.put(&["options", "stop"], stops.into()),
                Kind::OpenAiCompatible => self.put(&["stop"], stops.into()),
            },
            Want::Seed(_) | Want::FrequencyPenalty(_) | Want::PresencePenalty(_)
                if matches!(kind, Kind::Anthropic | Kind::OpenAi) =>
            {
                false
            }
            Want::Seed(number) => self.sampling(["seed", "seed"], number),
            Want::FrequencyPenalty(number) => {
                self.sampling(["frequency_penalty", "frequencyPenalty"], number)
            }
            Want::PresencePenalty(number) => self.sampling(["presence_penalty", "presencePenalty"], number),
            Want::JsonObject => return self.json_object(param),
            Want::JsonSchema(schema) => self.json_schema(schema),
            Want::OneCall(one) => self.one_call(one),
            Want::User(user) => self.user(user),
            Want::Effort(word) => self.effort(param, &word),
            Want::Budget(tokens) => self.budget(param, tokens),
            Want::Verbosity(word) if kind == Kind::OpenAi => self.put(&["text", "verbosity"], word.into()),
            Want::Verbosity(_) | Want::Ignored => false,
            Want::Refused(why) => return Err(refused(param, why)),
        })
    }

    fn put(&mut self, path: &[&str], value: Value) -> bool {
        put(&mut self.carried.fields, path, value);
        true
    }

    /// A field that stands by itself, in `options` (Ollama) or in `generationConfig` (Gemini, its second name).
    fn sampling(&mut self, names: [&str; 2], value: Value) -> bool {
        match self.to.kind {
            Kind::Gemini => self.put(&["generationConfig", names[1]], value),
            Kind::Ollama => self.put(&["options", names[0]], value),
            _ => self.put(&[names[0]], value),
        }
    }

    /// Anthropic's ends at 1.
    fn temperature(&mut self, param: &str, number: f64) -> bool {
        let most = if self.to.kind == Kind::Anthropic { 1.0 } else { f64::MAX };
        if number > most {
            self.carried.changed.push(format!("{param}={most}"));
        }
        self.sampling(["temperature", "temperature"], number.min(most).into())
    }

    fn json_object(&mut self, param: &str) -> Result<bool, Bad> {
        Ok(match self.to.kind {
            Kind::Anthropic => {
                let why = "the upstream gives JSON only by a schema: ask with `json_schema`";
                return Err(refused(param, why));
            }
            Kind::OpenAi => self.put(&["text", "format"], json!({ "type": "json_object" })),
            Kind::OpenAiCompatible => self.put(&["response_format"], json!({ "type": "json_object" })),
            Kind::Gemini => self.put(&["generationConfig", "responseMimeType"], "application/json".into()),
            Kind::Ollama => self.put(&["format"], "json".into()),
        })
    }

    fn json_schema(&mut self, schema: Schema) -> bool {
        let Schema { name, schema, strict } = schema;
        let mut form = Map::new();
        form.insert("name".to_owned(), name.unwrap_or_else(|| "answer".to_owned()).into());
        form.insert("schema".to_owned(), schema.clone());
        form.extend(strict.map(|strict| ("strict".to_owned(), strict)));
        match self.to.kind {
            Kind::OpenAiCompatible => {
                self.put(&["response_format"], json!({ "type": "json_schema", "json_schema": form }))
            }
            Kind::OpenAi => {
                form.insert("type".to_owned(), "json_schema".into());
                self.put(&["text", "format"], form.into())
            }
            Kind::Anthropic => {
                let form = json!({ "type": "json_schema", "schema": schema });
                self.put(&["output_config", "format"], form)
            }
            Kind::Gemini => {
                self.put(&["generationConfig", "responseMimeType"], "application/json".into());
                self.put(&["generationConfig", "responseJsonSchema"], schema)
            }
            Kind::Ollama => self.put(&["format"], schema),
        }
    }

    /// Several calls are usual: only the wish for one has to be said.
    fn one_call(&mut self, one: bool) -> bool {
        if !self.to.has_tools {
            return true;
        }
        match self.to.kind {
            Kind::OpenAi | Kind::OpenAiCompatible => self.put(&["parallel_tool_calls"], (!one).into()),
            _ if !one => true,
            Kind::Anthropic => {
                let mut choice = match self.to.tool_choice {
                    ToolChoice::Auto => json!({ "type": "auto" }),
                    ToolChoice::Required => json!({ "type": "any" }),
                    ToolChoice::Named(name) => json!({ "type": "tool", "name": name }),
                    ToolChoice::None => return true,
                };
                choice["disable_parallel_tool_use"] = true.into();
                self.put(&["tool_choice"], choice)
            }
            Kind::Gemini | Kind::Ollama => false,
        }
    }

    fn user(&mut self, user: String) -> bool {
        match self.to.kind {
            Kind::OpenAi if user.len() <= MAX_USER_BYTES => self.put(&["safety_identifier"], user.into()),
            Kind::Anthropic => self.put(&["metadata", "user_id"], user.into()),
            _ => false,
        }
    }

    /// How hard to think, in the words that the upstream knows.
    fn effort(&mut self, param: &str, word: &str) -> bool {
        let model = self.to.model.rsplit('/').next().unwrap_or_default();
        let is_openai =
            !WITHOUT_REASONING.iter().any(|name| model.starts_with(name)) && !model.contains("-chat");
        match self.to.kind {
            Kind::OpenAi if is_openai => {
                let word = self.known(param, word, &["none", "minimal", "low", "medium", "high", "xhigh"]);
                self.put(&["reasoning", "effort"], word.into())
            }
            Kind::OpenAiCompatible if self.to.is_local && word != "none" => {
                let word = self.known(param, word, &["low", "medium", "high"]);
                self.put(&["reasoning_effort"], word.into())
            }
            Kind::Anthropic if !WITHOUT_EFFORT.iter().any(|old| model.starts_with(old)) && word != "none" => {
                let word = self.known(param, word, &["low", "medium", "high", "max"]);
                self.put(&["output_config", "effort"], word.into())
            }
            Kind::Gemini if model.starts_with("gemini-3") && word != "none" => {
                let word = self.known(param, word, &["low", "medium", "high"]);
                self.put(&["generationConfig", "thinkingConfig", "thinkingLevel"], word.into())
            }
            Kind::Ollama if word == "none" => self.put(&["think"], false.into()),
            Kind::Ollama if model.starts_with("gpt-oss") => {
                let word = self.known(param, word, &["low", "medium", "high"]);
                self.put(&["think"], word.into())
            }
            _ => false,
        }
    }

    /// The nearest word of those that are known, which is said if it is another.
    fn known<'w>(&mut self, param: &str, word: &'w str, words: &[&'w str]) -> &'w str {
        const SCALE: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
        let place = |word: &str| SCALE.iter().position(|known| *known == word);
        let (Some(wanted), false) = (place(word), words.contains(&word)) else { return word };
        let nearest = words.iter().min_by_key(|known| place(known).unwrap_or_default().abs_diff(wanted));
        let nearest = nearest.copied().unwrap_or(word);
        self.carried.changed.push(format!("{param}={nearest}"));
        nearest
    }

    /// Tokens to think with. Where only words are known, the word that means about as many.
    fn budget(&mut self, param: &str, tokens: u64) -> bool {
        if self.to.kind == Kind::Gemini && self.to.model.contains("gemini-2.5") {
            return self.put(&["generationConfig", "thinkingConfig", "thinkingBudget"], tokens.into());
        }
        let word = match tokens {
            0 => "none",
            1..=2_048 => "low",
            2_049..=8_192 => "medium",
            _ => "high",
        };
        if tokens == 0 && self.to.kind != Kind::Ollama {
            return false;
        }
        let is_said = self.effort(param, word);
        if is_said && tokens > 0 {
            self.carried.changed.push(format!("{param}={word}"));
        }
        is_said
    }
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

fn refused(param: &str, why: &str) -> Bad {
    Bad::field(param, format!("`{param}` cannot be passed on: {why}"))
}
