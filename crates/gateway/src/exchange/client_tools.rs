//! The client's tools for an upstream of another dialect: schemas in a form that every provider takes, and calls with
//! the client's own names.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;
use longhaul_core::message::{ModelAnswer, Part, RawJson, ToolSpec};
use longhaul_core::tool_schema::{PropertyNames, ToolSchemaError, normalize};
use longhaul_providers::{ModelEvent, ModelStream};

/// The tools of one request.
#[derive(Debug, Default)]
pub(super) struct ClientTools {
    /// The tools for the model.
    pub(super) specs: Vec<ToolSpec>,
    /// The changed property names, by tool.
    pub(super) names: ToolPropertyNames,
    /// The tools unknown to all providers, with the reason.
    pub(super) left_out: Vec<(String, ToolSchemaError)>,
}

/// Property names changed for the model, by tool.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolPropertyNames(Arc<BTreeMap<String, PropertyNames>>);

impl ClientTools {
    /// Brings the schemas into a form that every provider takes. A single bad schema would make the provider refuse the
    /// whole request.
    pub(super) fn normalized(tools: Vec<ToolSpec>) -> Self {
        let (mut specs, mut names, mut left_out) = (Vec::new(), BTreeMap::new(), Vec::new());
        for mut tool in tools {
            match normalize(Some(tool.parameters.as_str())) {
                Ok(normalized) => {
                    tool.parameters = RawJson(normalized.schema.as_str().to_owned());
                    if !normalized.names.is_empty() {
                        names.insert(tool.name.clone(), normalized.names);
                    }
                    specs.push(tool);
                }
                Err(error) => left_out.push((tool.name, error)),
            }
        }
        Self { specs, names: ToolPropertyNames(Arc::new(names)), left_out }
    }
}

impl ToolPropertyNames {
    /// Restores the client's own names in the calls of an answer.
    pub(super) fn restore(&self, answer: &mut ModelAnswer) {
        answer.parts.iter_mut().for_each(|part| self.restore_part(part));
    }

    /// Returns the events with the client's own names restored. The arguments of a call with changed names are sent as
    /// one piece.
    pub(super) fn restored(&self, stream: ModelStream) -> ModelStream {
        // Most tool lists need no change, so most streams pass unchanged.
        if self.0.is_empty() {
            return stream;
        }
        let (names, mut held) = (self.clone(), BTreeMap::new());
        Box::pin(stream.map(move |event| event.map(|event| names.event(event, &mut held))))
    }

    /// Restores names in one event. `held` says of each call whether its arguments are held back.
    fn event(&self, event: ModelEvent, held: &mut BTreeMap<usize, bool>) -> ModelEvent {
        match event {
            ModelEvent::ToolInput { index, name, delta } => {
                if let Some(name) = &name {
                    // Only the first piece has the tool's name.
                    held.insert(index, self.0.contains_key(name));
                }
                let is_held = held.get(&index).copied().unwrap_or_default();
                // A property name may be split between two pieces, so the arguments wait until they are
                // complete.
                ModelEvent::ToolInput { index, name, delta: if is_held { String::new() } else { delta } }
            }
            ModelEvent::PartDone(mut part) => {
                self.restore_part(&mut part);
                ModelEvent::PartDone(part)
            }
            ModelEvent::Finished(mut answer) => {
                self.restore(&mut answer);
                ModelEvent::Finished(answer)
            }
            other => other,
        }
    }

    fn restore_part(&self, part: &mut Part) {
        if let Part::ToolCall(call) = part
            && let Some(names) = self.0.get(&call.name)
        {
            call.arguments = names.restore(&call.arguments);
        }
    }
}
