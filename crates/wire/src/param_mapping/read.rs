//! The parameters that a request has beside its conversation.

use std::collections::HashMap;

use serde_json::Value;

use super::{RequestParam, RequestParamValue, ResponseSchema};
use crate::edit::{Dialect, ParseError};
use crate::raw_json::fields;

/// Fields that other code maps: the conversation itself, the output limit, the stream, the choice of a tool.
const ELSEWHERE: [&str; 14] = [
    "model",
    "messages",
    "input",
    "instructions",
    "system",
    "tools",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "truncation",
    "previous_response_id",
    "conversation",
];

pub(super) fn read(dialect: Dialect, request: &str) -> Result<Vec<RequestParam>, ParseError> {
    let all = fields(request).ok_or_else(|| ParseError::new("the request is not a JSON object"))?;
    // JSON readers take the last of a repeated field, so the mapping does too.
    let newest: HashMap<&str, usize> = all.iter().enumerate().map(|(at, (name, _))| (&**name, at)).collect();
    let mut wanted = Vec::new();
    for (at, (name, raw)) in all.iter().enumerate() {
        let is_newest = newest.get(&**name) == Some(&at);
        if !is_newest || *raw == "null" || ELSEWHERE.contains(&&**name) {
            continue;
        }
        let value = serde_json::from_str(raw).map_err(|_| ParseError::field(&**name, "not JSON"))?;
        let said = RequestField { name, value: &value };
        match dialect {
            Dialect::Chat => chat(&said, &mut wanted)?,
            Dialect::Responses => responses(&said, &mut wanted)?,
            Dialect::Messages => messages(&said, &mut wanted)?,
        }
    }
    Ok(wanted)
}

/// A field and its value.
struct RequestField<'a> {
    name: &'a str,
    value: &'a Value,
}

impl RequestField<'_> {
    fn number(&self) -> Result<f64, ParseError> {
        self.value.as_f64().ok_or_else(|| self.bad("must be a number"))
    }

    fn whole(&self) -> Result<Value, ParseError> {
        let is_whole = self.value.is_u64() || self.value.is_i64();
        is_whole.then(|| self.value.clone()).ok_or_else(|| self.bad("must be a whole number"))
    }

    fn text(&self) -> Result<String, ParseError> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.bad("must be a string"))
    }

    fn flag(&self) -> Result<bool, ParseError> {
        self.value.as_bool().ok_or_else(|| self.bad("must be true or false"))
    }

    fn texts(&self) -> Result<Vec<String>, ParseError> {
        if let Some(text) = self.value.as_str() {
            // OpenAI takes a single stop sequence as a bare string.
            return Ok(vec![text.to_owned()]);
        }
        let list = self.value.as_array().and_then(|list| {
            list.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        list.ok_or_else(|| self.bad("must be a string or a list of strings"))
    }

    /// Reports whether the value is equivalent to an absent field.
    fn is_empty(&self) -> bool {
        match self.value {
            Value::Null | Value::Bool(false) => true,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Bool(true) => false,
        }
    }

    fn bad(&self, what: &str) -> ParseError {
        ParseError::field(self.name, format!("`{}` {what}", self.name))
    }

    fn want(&self, want: RequestParamValue) -> RequestParam {
        RequestParam { param: self.name.to_owned(), want }
    }

    /// Returns a parameter for a part of the field's value.
    fn inner(&self, name: &str, want: RequestParamValue) -> RequestParam {
        RequestParam { param: format!("{}.{name}", self.name), want }
    }

    /// Adds the parts of an object that are not among `known`.
    fn others(&self, known: &[&str], wanted: &mut Vec<RequestParam>) {
        let fields = self.value.as_object().into_iter().flatten();
        let others = fields.filter(|(name, value)| !known.contains(&name.as_str()) && !value.is_null());
        wanted.extend(others.map(|(name, _)| self.inner(name, RequestParamValue::Ignored)));
    }
}

/// Reads the parameters that all dialects name the same.
fn common(said: &RequestField<'_>) -> Result<Option<RequestParamValue>, ParseError> {
    Ok(Some(match said.name {
        "temperature" => RequestParamValue::Temperature(said.number()?),
        "top_p" => RequestParamValue::TopP(said.number()?),
        "top_k" => RequestParamValue::TopK(said.whole()?),
        "seed" => RequestParamValue::Seed(said.whole()?),
        _ => return Ok(None),
    }))
}

fn openai(said: &RequestField<'_>) -> Result<Option<RequestParamValue>, ParseError> {
    Ok(Some(match said.name {
        "parallel_tool_calls" => RequestParamValue::OneCall(!said.flag()?),
        // OpenAI has renamed `user` to `safety_identifier` and still takes both.
        "user" | "safety_identifier" => RequestParamValue::User(said.text()?),
        // Both values ask for the usual service, so nothing is lost without them.
        "service_tier" if matches!(said.value.as_str(), Some("auto" | "default")) => return Ok(None),
        "top_logprobs" => refused_unless_empty(said, "the upstream gives no log probabilities"),
        // Without storage nothing is asked of the upstream.
        "store" if said.is_empty() => return Ok(None),
        _ => RequestParamValue::Ignored,
    }))
}

fn refused_unless_empty(said: &RequestField<'_>, why: &'static str) -> RequestParamValue {
    if said.is_empty() { RequestParamValue::Ignored } else { RequestParamValue::Refused(why) }
}

fn chat(said: &RequestField<'_>, wanted: &mut Vec<RequestParam>) -> Result<(), ParseError> {
    let want = match said.name {
        // The choice of a tool is part of the request itself and is mapped there.
        "tool_choice" => return Ok(()),
        "stop" => RequestParamValue::Stop(said.texts()?),
        "frequency_penalty" | "presence_penalty" if said.is_empty() => return Ok(()),
        "frequency_penalty" => RequestParamValue::FrequencyPenalty(said.value.clone()),
        "presence_penalty" => RequestParamValue::PresencePenalty(said.value.clone()),
        "response_format" => match format(said, "json_schema")? {
            Some(want) => want,
            None => return Ok(()),
        },
        "reasoning_effort" => RequestParamValue::Effort(said.text()?),
        // OpenRouter's form, with an effort, a budget, or both.
        "reasoning" => {
            reasoning(said, wanted);
            return Ok(());
        }
        "verbosity" => RequestParamValue::Verbosity(said.text()?),
        // One answer is what every upstream gives, so there is nothing to map.
        "n" if said.value.as_u64() == Some(1) => return Ok(()),
        // A refusal is better than one answer where several were asked for.
        "n" => RequestParamValue::Refused("the upstream gives one answer to a request"),
        "logprobs" if said.is_empty() => return Ok(()),
        "logprobs" => RequestParamValue::Refused("the upstream gives no log probabilities"),
        "top_logprobs" | "logit_bias" if said.is_empty() => return Ok(()),
        "logit_bias" => RequestParamValue::Refused("the upstream knows no token by its number"),
        "modalities" if said.texts().is_ok_and(|all| all == ["text"]) => return Ok(()),
        "modalities" | "audio" => RequestParamValue::Refused("the upstream answers in text only"),
        "web_search_options" => RequestParamValue::Refused("the upstream does not search"),
        "functions" | "function_call" => refused_unless_empty(said, "say it with `tools` and `tool_choice`"),
        // llama.cpp: `grammar` and `json_schema`. vLLM: `structured_outputs` and `guided_*`.
        "grammar" | "json_schema" | "structured_outputs" | "guided_json" | "guided_regex"
        | "guided_choice" | "guided_grammar" => {
            refused_unless_empty(said, "the upstream has no such form for an answer")
        }
        _ => match common(said)? {
            Some(want) => want,
            None => match openai(said)? {
                Some(want) => want,
                None => return Ok(()),
            },
        },
    };
    wanted.push(said.want(want));
    Ok(())
}

fn responses(said: &RequestField<'_>, wanted: &mut Vec<RequestParam>) -> Result<(), ParseError> {
    let want = match said.name {
        "tool_choice" => return Ok(()),
        "reasoning" => {
            reasoning(said, wanted);
            return Ok(());
        }
        "text" => {
            let format =
                RequestField { name: "text.format", value: said.value.get("format").unwrap_or(&Value::Null) };
            if !format.value.is_null()
                && let Some(want) = self::format(&format, "")?
            {
                wanted.push(format.want(want));
            }
            if let Some(word) = said.value.get("verbosity").and_then(Value::as_str) {
                wanted.push(said.inner("verbosity", RequestParamValue::Verbosity(word.to_owned())));
            }
            said.others(&["format", "verbosity"], wanted);
            return Ok(());
        }
        "include" => {
            for one in said.texts()? {
                let want = match one.as_str() {
                    // Other values only ask for more detail, and an answer is right without it.
                    "message.output_text.logprobs" => {
                        RequestParamValue::Refused("the upstream gives no log probabilities")
                    }
                    _ => RequestParamValue::Ignored,
                };
                wanted.push(said.inner(&one, want));
            }
            return Ok(());
        }
        "background" | "context_management" if said.is_empty() => return Ok(()),
        "background" => RequestParamValue::Refused("the upstream keeps no answers to be fetched later"),
        "prompt" => RequestParamValue::Refused("the upstream knows no stored prompts"),
        "top_logprobs" if said.is_empty() => return Ok(()),
        _ => match common(said)? {
            Some(want) => want,
            None => match openai(said)? {
                Some(want) => want,
                None => return Ok(()),
            },
        },
    };
    wanted.push(said.want(want));
    Ok(())
}

fn messages(said: &RequestField<'_>, wanted: &mut Vec<RequestParam>) -> Result<(), ParseError> {
    let want = match said.name {
        "tool_choice" => {
            if said.value.get("disable_parallel_tool_use").and_then(Value::as_bool) == Some(true) {
                wanted.push(said.inner("disable_parallel_tool_use", RequestParamValue::OneCall(true)));
            }
            return Ok(());
        }
        "stop_sequences" => RequestParamValue::Stop(said.texts()?),
        "metadata" => {
            if let Some(user) = said.value.get("user_id").and_then(Value::as_str) {
                wanted.push(said.inner("user_id", RequestParamValue::User(user.to_owned())));
            }
            said.others(&["user_id"], wanted);
            return Ok(());
        }
        "thinking" => {
            thinking(said, wanted);
            return Ok(());
        }
        // The beta's name of `output_config.format`.
        "output_format" => match format(said, "")? {
            Some(want) => want,
            None => return Ok(()),
        },
        "output_config" => {
            if let Some(word) = said.value.get("effort").and_then(Value::as_str) {
                wanted.push(said.inner("effort", RequestParamValue::Effort(word.to_owned())));
            }
            let value = said.value.get("format").unwrap_or(&Value::Null);
            let format = RequestField { name: "output_config.format", value };
            if !value.is_null()
                && let Some(want) = self::format(&format, "")?
            {
                wanted.push(format.want(want));
            }
            said.others(&["effort", "format"], wanted);
            return Ok(());
        }
        "service_tier" if said.value.as_str() == Some("auto") => return Ok(()),
        "mcp_servers" if said.is_empty() => return Ok(()),
        "mcp_servers" => RequestParamValue::Refused("the upstream connects to no MCP servers"),
        "container" => RequestParamValue::Refused("the upstream has no containers"),
        _ => common(said)?.unwrap_or(RequestParamValue::Ignored),
    };
    wanted.push(said.want(want));
    Ok(())
}

fn reasoning(said: &RequestField<'_>, wanted: &mut Vec<RequestParam>) {
    if let Some(word) = said.value.get("effort").and_then(Value::as_str) {
        wanted.push(said.inner("effort", RequestParamValue::Effort(word.to_owned())));
    }
    if let Some(tokens) = said.value.get("max_tokens").and_then(Value::as_u64) {
        wanted.push(said.inner("max_tokens", RequestParamValue::Budget(tokens)));
    }
    said.others(&["effort", "max_tokens"], wanted);
}

fn thinking(said: &RequestField<'_>, wanted: &mut Vec<RequestParam>) {
    let budget = said.value.get("budget_tokens").and_then(Value::as_u64);
    match said.value.get("type").and_then(Value::as_str) {
        // Anthropic requires a budget. A client without one gets a middle one instead of an error.
        Some("enabled") => wanted.push(said.want(RequestParamValue::Budget(budget.unwrap_or(8_192)))),
        Some("disabled") => wanted.push(said.want(RequestParamValue::Budget(0))),
        _ => wanted.push(said.want(RequestParamValue::Ignored)),
    }
}

/// Reads the form of an answer; `None` for text. `inner` names the field of its schema; empty means beside the
/// type.
fn format(said: &RequestField<'_>, inner: &str) -> Result<Option<RequestParamValue>, ParseError> {
    match said.value.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(RequestParamValue::JsonObject)),
        Some("json_schema") => {
            let form = if inner.is_empty() { Some(said.value) } else { said.value.get(inner) };
            let schema = form.and_then(|form| form.get("schema")).filter(|schema| schema.is_object());
            let schema = schema.ok_or_else(|| said.bad("has no `schema`"))?;
            let name = form.and_then(|form| form.get("name")).and_then(Value::as_str);
            let strict = form.and_then(|form| form.get("strict")).filter(|strict| !strict.is_null());
            Ok(Some(RequestParamValue::JsonSchema(ResponseSchema {
                name: name.map(str::to_owned),
                schema: schema.clone(),
                strict: strict.cloned(),
            })))
        }
        // An unknown form must not be dropped: the client would parse an answer that is free text.
        _ => Ok(Some(RequestParamValue::Refused("the upstream has no such form for an answer"))),
    }
}
