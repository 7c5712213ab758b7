//! The arguments of a call, read field by field, so that an error can name the field and the expected value.

use serde_json::{Map, Value};

use super::ToolError;

/// The arguments of one call. Fields are taken out one by one, and those that are left at the end are unknown.
///
/// Names are matched without regard to case and underscores, and numbers and flags may be strings. Small models write
/// such arguments, and the meaning is clear.
#[derive(Debug)]
pub(crate) struct ToolArguments {
    tool: &'static str,
    fields: Map<String, Value>,
    known: Vec<&'static str>,
}

impl ToolArguments {
    /// Starts reading the arguments of a call of `tool`.
    ///
    /// # Errors
    /// [`ToolError::Arguments`] unless `value` is an object (or null, which counts as an empty one).
    pub(crate) fn new(tool: &'static str, value: Value) -> Result<Self, ToolError> {
        let fields = match value {
            Value::Object(fields) => fields,
            // Some models send `null` for a call without arguments.
            Value::Null => Map::new(),
            other => {
                let found = kind(&other);
                return Err(ToolError::Arguments(format!(
                    "`{tool}` takes one JSON object as arguments, but got {found}"
                )));
            }
        };
        Ok(Self { tool, fields, known: Vec::new() })
    }

    /// Takes a required text.
    ///
    /// # Errors
    /// [`ToolError::Arguments`] if the text is missing or of another type.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<String, ToolError> {
        match self.optional_text(name)? {
            Some(text) => Ok(text),
            None => Err(self.missing(name)),
        }
    }

    /// Takes a text that may be absent or null.
    ///
    /// # Errors
    /// [`ToolError::Arguments`] if the value is no text.
    pub(crate) fn optional_text(&mut self, name: &'static str) -> Result<Option<String>, ToolError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", &other)),
        }
    }

    /// Takes a whole number within `range` that may be absent or null.
    ///
    /// # Errors
    /// [`ToolError::Arguments`] if the value is something else or out of range.
    pub(crate) fn optional_number(
        &mut self,
        name: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, ToolError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match whole(&value).filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let expected = match *range.end() {
                    u64::MAX => format!("a whole number, at least {}", range.start()),
                    end => format!("a whole number from {} to {end}", range.start()),
                };
                Err(self.wrong(name, &expected, &value))
            }
        }
    }

    /// Takes a flag; absent or null means false.
    ///
    /// # Errors
    /// [`ToolError::Arguments`] if the value is something else.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, ToolError> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            // Some models quote flags and numbers. The meaning is clear, so the call is not refused.
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(other) => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// Ends reading.
    ///
    /// # Errors
    /// [`ToolError::Arguments`] if there are fields that the tool does not know.
    pub(crate) fn finish(self) -> Result<(), ToolError> {
        if self.fields.is_empty() {
            return Ok(());
        }
        let unknown = self.leftovers();
        let known = quoted(self.known.iter().copied());
        Err(ToolError::Arguments(format!("`{}` has no argument {unknown}; it takes {known}", self.tool)))
    }

    fn take(&mut self, name: &'static str) -> Option<Value> {
        // The error about an unknown field lists the known names, so every name that is asked for is recorded.
        self.known.push(name);
        let key = if self.fields.contains_key(name) {
            name.to_owned()
        } else {
            // Models write `timeout_ms` for `timeoutMs`. An exact name was looked for first.
            self.fields.keys().find(|key| plain(key) == plain(name))?.clone()
        };
        // `shift_remove` keeps the order of the other fields, which an error lists.
        self.fields.shift_remove(&key).filter(|value| !value.is_null())
    }

    fn missing(&self, name: &str) -> ToolError {
        let others =
            if self.fields.is_empty() { String::new() } else { format!(" (given: {})", self.leftovers()) };
        ToolError::Arguments(format!("`{}` needs the argument `{name}`, a string{others}", self.tool))
    }

    fn wrong(&self, name: &str, expected: &str, found: &Value) -> ToolError {
        let found = kind(found);
        ToolError::Arguments(format!("`{}`: `{name}` must be {expected}, but is {found}", self.tool))
    }

    fn leftovers(&self) -> String {
        // The names come from the model, and an error must not repeat a text of any length.
        quoted(self.fields.keys().map(String::as_str).take(10))
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| *c != '_' && *c != '-').flat_map(char::to_lowercase).collect()
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> =
        names.map(|name| format!("`{}`", name.chars().take(60).collect::<String>())).collect();
    names.join(", ")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked: whole, positive, exact in f64"
)]
fn whole(value: &Value) -> Option<u64> {
    // Above 2^53 an `f64` cannot hold every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            number.as_f64().filter(|n| n.fract() == 0.0 && (0.0..EXACT).contains(n)).map(|n| n as u64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the string {:?}", text.chars().take(40).collect::<String>()),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
