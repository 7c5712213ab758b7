//! Changes of some keys in a settings file. All other keys stay.

use longhaul::io_error::json_error_text;
use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, Table};

/// The settings that are written to a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SettingsFileChange {
    /// Sets keys of a JSON object. Nested objects are merged.
    Json(Value),
    /// Sets keys of a TOML file, by their paths.
    Toml(Vec<(Vec<String>, String)>),
    /// Sets lines that consist of a name, the separator and a value, as in `.env` files and at the top level of YAML.
    Lines(&'static str, Vec<(String, String)>),
    /// Writes the whole file, which belongs to Longhaul.
    Whole(String),
}

impl SettingsFileChange {
    /// Returns the settings alone, as a person would write them.
    pub(super) fn shown(&self) -> String {
        self.applied("").unwrap_or_default()
    }

    /// Returns the file with these settings.
    ///
    /// # Errors
    /// The reason why the file cannot be read in its format.
    pub(super) fn applied(&self, file: &str) -> Result<String, String> {
        match self {
            Self::Json(keys) => json(file, keys),
            Self::Toml(keys) => toml(file, keys),
            Self::Lines(between, lines) => Ok(self::lines(file, between, lines)),
            Self::Whole(text) => Ok(text.clone()),
        }
    }
}

fn json(file: &str, keys: &Value) -> Result<String, String> {
    let mut all: Value = match file.trim() {
        "" => Value::Object(Map::new()),
        text => serde_json::from_str(text)
            .map_err(|error| format!("it is not plain JSON ({})", json_error_text(&error.to_string())))?,
    };
    if !all.is_object() {
        return Err("it is not a JSON object".to_owned());
    }
    let before = all.clone();
    merge(&mut all, keys);
    // A file that already has the settings keeps its formatting.
    if before == all && !file.trim().is_empty() {
        return Ok(file.to_owned());
    }
    let text = serde_json::to_string_pretty(&all).map_err(|error| error.to_string())?;
    Ok(format!("{text}\n"))
}

fn merge(all: &mut Value, keys: &Value) {
    match (all, keys) {
        (Value::Object(all), Value::Object(keys)) => {
            for (name, value) in keys {
                merge(all.entry(name.as_str()).or_insert(Value::Null), value);
            }
        }
        // A value of another type gives way, too.
        (all, value) => *all = value.clone(),
    }
}

/// Returns a JSON file in which each written key has its value from `before` again. A key whose value was
/// changed since stays.
///
/// # Errors
/// The file is no JSON object any more.
pub(super) fn without(file: &str, before: Option<&str>, keys: &Value) -> Result<String, String> {
    let mut all: Value = serde_json::from_str(file).map_err(|error| error.to_string())?;
    let before = before.and_then(|text| serde_json::from_str(text).ok());
    take_back(&mut all, before.as_ref(), keys);
    let text = serde_json::to_string_pretty(&all).map_err(|error| error.to_string())?;
    Ok(format!("{text}\n"))
}

fn take_back(all: &mut Value, before: Option<&Value>, keys: &Value) {
    let (Some(all), Some(keys)) = (all.as_object_mut(), keys.as_object()) else { return };
    for (name, key) in keys {
        let was = before.and_then(|before| before.get(name));
        let Some(now) = all.get_mut(name) else { continue };
        if now.is_object() && key.is_object() {
            take_back(now, was, key);
            // An object that was made for the settings goes with the last of them.
            if was.is_none() && now.as_object().is_some_and(Map::is_empty) {
                // `shift_remove` keeps the order of the other keys, which a person has chosen.
                all.shift_remove(name);
            }
        } else if now == key {
            match was {
                Some(was) => *now = was.clone(),
                None => {
                    all.shift_remove(name);
                }
            }
        }
    }
}

fn toml(file: &str, keys: &[(Vec<String>, String)]) -> Result<String, String> {
    let mut document: DocumentMut = file.parse().map_err(|error| format!("it is not TOML ({error})"))?;
    for (path, value) in keys {
        let Some((name, groups)) = path.split_last() else { continue };
        let mut table: &mut Table = document.as_table_mut();
        for group in groups {
            let inner = table.entry(group).or_insert_with(|| {
                let mut table = Table::new();
                // A group without keys of its own then gets no header in the file.
                table.set_implicit(true);
                Item::Table(table)
            });
            table = inner.as_table_mut().ok_or_else(|| format!("its `{group}` is not a table"))?;
        }
        match table.get_mut(name).and_then(Item::as_value_mut) {
            // An equal value keeps its spelling, such as single quotes.
            Some(known) if known.as_str() == Some(value) => {}
            Some(known) => {
                // The decor holds the comment behind the value.
                let decor = known.decor().clone();
                *known = value.as_str().into();
                *known.decor_mut() = decor;
            }
            None => {
                table.insert(name, toml_edit::value(value.as_str()));
            }
        }
    }
    Ok(document.to_string())
}

fn lines(file: &str, between: &str, wanted: &[(String, String)]) -> String {
    let mut lines: Vec<String> = file.lines().map(str::to_owned).collect();
    for (name, value) in wanted {
        // The separator belongs to the start. Otherwise `model` would also match `model-settings`.
        let start = format!("{name}{}", between.trim_end());
        let line = format!("{name}{between}{value}");
        match lines.iter_mut().find(|known| known.starts_with(&start)) {
            Some(known) => *known = line,
            None => lines.push(line),
        }
    }
    lines.join("\n") + "\n"
}
