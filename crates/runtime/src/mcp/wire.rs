//! What goes over a connection, byte for byte.
//!
//! rmcp reads JSON into values and writes values as JSON, which loses numbers, escapes and duplicate keys. Its
//! requests carry an [`McpExchange`] with them: the transports take the arguments to send from it, and put the
//! answer into it as it came. rmcp still sees every message; it decides, the bytes pass by.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use longhaul_core::message::RawJson;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, GetExtensions, ProgressNotificationParam, ProgressToken,
    RequestId, RequestParamsMeta, ServerJsonRpcMessage, ServerResult,
};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::{Notify, SetOnce, mpsc};

use super::lenient_parse::outline;
use super::secrets::McpSecrets;
use crate::tools::ToolProgress;

/// The most that one message may have, in bytes; what a tool's output may have is checked later.
pub(super) const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// One request whose bytes matter.
#[derive(Debug, Default)]
pub(super) struct McpExchange {
    /// The arguments to send instead of those that rmcp knows.
    pub(super) arguments: Option<RawJson>,
    /// Who watches.
    pub(super) watcher: Option<McpProgressSink>,
    /// The result, as the server wrote it.
    pub(super) answer: SetOnce<String>,
    /// Why its answer cannot be read, if one came that cannot.
    pub(super) unreadable: OnceLock<String>,
}

/// Takes what a server says of a call while it runs.
#[derive(Debug)]
pub(super) struct McpProgressSink {
    output: mpsc::Sender<ToolProgress>,
    offset: Mutex<u64>,
}

impl McpProgressSink {
    pub(super) fn new(output: mpsc::Sender<ToolProgress>) -> Self {
        Self { output, offset: Mutex::new(0) }
    }

    fn send_progress(&self, text: String) {
        let mut offset = locked(&self.offset);
        let chars = text.chars().count() as u64;
        // A watcher who does not keep up misses pieces; the offsets show it.
        let _ = self.output.try_send(ToolProgress { offset: *offset, text });
        *offset += chars;
    }
}

/// The open exchanges of one connection.
#[derive(Debug, Default)]
pub(super) struct McpExchangeRegistry {
    open: Mutex<Vec<PendingMcpExchange>>,
    /// Told when the server may offer other tools than before.
    pub(super) list_changed: Notify,
    /// What is not repeated of what the server says.
    pub(super) secrets: Arc<McpSecrets>,
}

/// A message that cannot be read.
#[derive(Debug)]
pub(super) struct UnreadableMcpMessage {
    /// What is wrong with it.
    pub(super) why: String,
    /// What rmcp is to be given in its place, so that nobody waits on.
    pub(super) stand_in: Option<Box<ServerJsonRpcMessage>>,
    /// Whether it is an answer to one of the open requests, and nobody knows to which.
    pub(super) is_lost_answer: bool,
}

#[derive(Debug)]
struct PendingMcpExchange {
    id: RequestId,
    token: Option<ProgressToken>,
    exchange: Arc<McpExchange>,
}

impl McpExchangeRegistry {
    /// No exchange yet.
    pub(super) fn new(secrets: Arc<McpSecrets>) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// The message as it is to be sent, on one line. Answers to it are expected from here on.
    ///
    /// # Errors
    /// It cannot be written as JSON, which no message of ours can be.
    pub(super) fn outgoing(&self, message: &ClientJsonRpcMessage) -> serde_json::Result<String> {
        let Some(open) = open(message) else { return serde_json::to_string(message) };
        let exchange = Arc::clone(&open.exchange);
        let mut all = locked(&self.open);
        all.retain(|other| other.id != open.id);
        all.push(open);
        drop(all);
        match &exchange.arguments {
            Some(arguments) => with_arguments(message, arguments),
            None => serde_json::to_string(message),
        }
    }

    /// Takes a message as it came: an answer's bytes for who waits for them, the message for rmcp.
    ///
    /// # Errors
    /// [`UnreadableMcpMessage`]. rmcp reads less than can be passed on (half of a surrogate pair, deep nesting): what could
    /// be passed on has been.
    pub(super) fn read(&self, text: &str) -> Result<ServerJsonRpcMessage, UnreadableMcpMessage> {
        let taken = self.incoming(text);
        serde_json::from_str(text).map_err(|error| match taken {
            Some(id) => {
                let stand_in = Box::new(ServerJsonRpcMessage::response(ServerResult::empty(()), id));
                UnreadableMcpMessage {
                    why: error.to_string(),
                    stand_in: Some(stand_in),
                    is_lost_answer: false,
                }
            }
            None => self.unreadable(text, format!("it is no JSON that can be used ({error})")),
        })
    }

    /// What is to be made of a message, or the beginning of one, that cannot be read.
    pub(super) fn unreadable(&self, text: &str, why: String) -> UnreadableMcpMessage {
        let outline = outline(text);
        let is_lost_answer = outline.answers.is_none() && outline.is_answer;
        let stand_in = outline.answers.map(|id| {
            self.fail_request(&id.to_string(), &why);
            Box::new(failed(id, &why))
        });
        UnreadableMcpMessage { why, stand_in, is_lost_answer }
    }

    /// All open requests have failed, as any of them may have been answered by what cannot be read.
    pub(super) fn fail_all(&self, why: &str) -> Vec<ServerJsonRpcMessage> {
        let all = std::mem::take(&mut *locked(&self.open));
        let fail = |open: PendingMcpExchange| {
            let _ = open.exchange.unreadable.set(why.to_owned());
            failed(open.id, why)
        };
        all.into_iter().map(fail).collect()
    }

    fn fail_request(&self, id: &str, why: &str) {
        if let Some(open) = self.take(id) {
            let _ = open.exchange.unreadable.set(why.to_owned());
        }
    }

    /// Gives the result of an open request to who waits for it, and says of which request.
    fn incoming(&self, text: &str) -> Option<RequestId> {
        let answer = serde_json::from_str::<McpResponseJson<'_>>(text).ok()?;
        let (id, result) = (answer.id?, answer.result?);
        let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        let open = self.take(&id)?;
        // A second answer to one request changes nothing.
        let _ = open.exchange.answer.set(result.get().to_owned());
        Some(open.id)
    }

    fn take(&self, id: &str) -> Option<PendingMcpExchange> {
        let mut all = locked(&self.open);
        let at = all.iter().position(|open| open.id.to_string() == id)?;
        Some(all.swap_remove(at))
    }

    /// Passes on what a server says of a call that runs.
    pub(super) fn progress(&self, said: &ProgressNotificationParam) {
        let all = locked(&self.open);
        let about = all.iter().find(|open| open.token.as_ref() == Some(&said.progress_token));
        if let Some(watcher) = about.and_then(|open| open.exchange.watcher.as_ref()) {
            watcher.send_progress(self.secrets.redact(progress_line(said)));
        }
    }

    /// Nobody waits for that answer any more.
    pub(super) fn forget(&self, exchange: &Arc<McpExchange>) {
        locked(&self.open).retain(|open| !Arc::ptr_eq(&open.exchange, exchange));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(message: &ClientJsonRpcMessage) -> Option<PendingMcpExchange> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let exchange = request.request.extensions().get::<Arc<McpExchange>>()?;
    let token = match &request.request {
        ClientRequest::CallToolRequest(call) => progress_token(message, &call.params),
        _ => None,
    };
    Some(PendingMcpExchange { id: request.id.clone(), token, exchange: Arc::clone(exchange) })
}

/// rmcp keeps it beside the parameters until the message is written.
fn progress_token(message: &ClientJsonRpcMessage, params: &impl RequestParamsMeta) -> Option<ProgressToken> {
    use rmcp::model::GetMeta as _;
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    request.request.get_meta().get_progress_token().or_else(|| params.progress_token())
}

fn progress_line(said: &ProgressNotificationParam) -> String {
    let done = match said.total {
        Some(total) => format!("[{} of {total}]", said.progress),
        None => format!("[{}]", said.progress),
    };
    match &said.message {
        Some(message) => format!("{done} {message}\n"),
        None => format!("{done}\n"),
    }
}

#[derive(Deserialize)]
struct McpResponseJson<'a> {
    id: Option<Value>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// The message with the arguments' own bytes. Line breaks become spaces: in valid JSON they stand only between
/// its parts, and a line is a message.
fn with_arguments(message: &ClientJsonRpcMessage, arguments: &RawJson) -> serde_json::Result<String> {
    let arguments = RawValue::from_string(arguments.as_str().replace(['\n', '\r'], " "))?;
    let fields = serde_json::to_value(message)?;
    let Value::Object(fields) = &fields else { return serde_json::to_string(message) };
    serde_json::to_string(&McpCallJson { fields, arguments: &arguments })
}

struct McpCallJson<'a> {
    fields: &'a Map<String, Value>,
    arguments: &'a RawValue,
}

impl Serialize for McpCallJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.fields {
            match value {
                Value::Object(fields) if key == "params" => {
                    map.serialize_entry(key, &McpParamsJson { fields, arguments: self.arguments })?;
                }
                _ => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

struct McpParamsJson<'a> {
    fields: &'a Map<String, Value>,
    arguments: &'a RawValue,
}

impl Serialize for McpParamsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.fields.iter().filter(|(key, _)| *key != "arguments") {
            map.serialize_entry(key, value)?;
        }
        map.serialize_entry("arguments", self.arguments)?;
        map.end()
    }
}

/// The answer to a request whose own cannot be read.
fn failed(id: RequestId, why: &str) -> ServerJsonRpcMessage {
    let words = format!("its answer cannot be read: {why}");
    ServerJsonRpcMessage::error(ErrorData::parse_error(words, None), Some(id))
}

/// A JSON-RPC error in words.
pub(super) fn words(error: &ErrorData) -> String {
    match &error.data {
        Some(Value::String(data)) => format!("{} ({}): {data}", error.message, error.code.0),
        _ => format!("{} ({})", error.message, error.code.0),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolRequest, CallToolRequestParams};

    use super::*;

    fn call(exchange: &Arc<McpExchange>, id: i64) -> ClientJsonRpcMessage {
        let mut request = CallToolRequest::new(CallToolRequestParams::new("t"));
        request.params.arguments = Some(Map::new());
        request.extensions.insert(Arc::clone(exchange));
        ClientJsonRpcMessage::request(ClientRequest::CallToolRequest(request), RequestId::Number(id))
    }

    #[test]
    fn arguments_keep_their_bytes_and_stay_on_one_line() {
        let written = "{\"b\": 1.10,\n \"a\":12345678901234567890123, \"e\":\"\\u00e9\", \"a\":1e2}";
        let exchange =
            Arc::new(McpExchange { arguments: Some(RawJson(written.to_owned())), ..McpExchange::default() });
        let sent = McpExchangeRegistry::default().outgoing(&call(&exchange, 1)).unwrap();
        assert!(sent.contains(&written.replace('\n', " ")) && !sent.contains('\n'), "{sent}");
        let value: Value = serde_json::from_str(&sent).unwrap();
        assert_eq!((&value["jsonrpc"], &value["method"]), (&"2.0".into(), &"tools/call".into()));
        assert_eq!(value["params"]["name"], "t");
    }

    #[test]
    fn an_answer_finds_its_request_and_keeps_its_bytes() {
        let wire = McpExchangeRegistry::default();
        let [one, two] = [Arc::new(McpExchange::default()), Arc::new(McpExchange::default())];
        wire.outgoing(&call(&one, 1)).unwrap();
        wire.outgoing(&call(&two, 2)).unwrap();
        wire.read(r#"{"jsonrpc":"2.0","id":"2","result":{ "n": 1.10 }}"#).unwrap();
        wire.read(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#).unwrap();
        assert!(wire.read("no JSON").unwrap_err().stand_in.is_none());
        assert_eq!(
            (one.answer.get(), two.answer.get().map(String::as_str)),
            (None, Some(r#"{ "n": 1.10 }"#))
        );
        wire.forget(&one);
        wire.read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).unwrap();
        assert_eq!(one.answer.get(), None);
    }

    #[test]
    fn what_rmcp_cannot_read_is_passed_on_all_the_same() {
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        for result in [r#"{"content":"\ud800"}"#, &deep, r#""no object""#] {
            let (wire, one) = (McpExchangeRegistry::default(), Arc::new(McpExchange::default()));
            wire.outgoing(&call(&one, 1)).unwrap();
            let told = wire.read(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#));
            let stand_in = match told {
                Ok(message) => message,
                Err(unreadable) => *unreadable.stand_in.unwrap(),
            };
            assert!(matches!(stand_in, ServerJsonRpcMessage::Response(_)), "{stand_in:?}");
            assert_eq!(one.answer.get().map(String::as_str), Some(result));
        }
    }

    #[test]
    fn an_answer_that_nobody_can_read_fails_its_request_or_all() {
        let wire = McpExchangeRegistry::default();
        let [one, two] = [Arc::new(McpExchange::default()), Arc::new(McpExchange::default())];
        wire.outgoing(&call(&one, 1)).unwrap();
        wire.outgoing(&call(&two, 2)).unwrap();
        let unreadable = wire.read("{\"jsonrpc\":\"2.0\",\"result\":NaN,\"id\":2}").unwrap_err();
        assert!(
            matches!(unreadable.stand_in.as_deref(), Some(ServerJsonRpcMessage::Error(_))),
            "{unreadable:?}"
        );
        assert!(
            !unreadable.is_lost_answer && two.unreadable.get().is_some() && one.unreadable.get().is_none()
        );
        let unreadable = wire.read("{\"jsonrpc\":\"2.0\",\"result\":{").unwrap_err();
        assert!(unreadable.is_lost_answer && unreadable.stand_in.is_none(), "{unreadable:?}");
        assert_eq!(wire.fail_all(&unreadable.why).len(), 1);
        assert!(one.unreadable.get().is_some());
    }
}
