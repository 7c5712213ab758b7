//! The messages of a connection, byte for byte.
//!
//! `rmcp` reads JSON into values and writes values as JSON, which loses numbers, escapes and duplicate keys. Each
//! request therefore carries an [`McpExchange`] through `rmcp`. The transports send the arguments from the exchange and
//! put the answer's bytes into the exchange. `rmcp` still sees every message and decides about it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use longhaul_core::message::RawJson;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, GetExtensions, ProgressNotificationParam, ProgressToken,
    RequestId, RequestParamsMeta, ServerJsonRpcMessage, ServerResult,
};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::{Notify, SetOnce, mpsc};

use super::lenient_parse::outline;
use super::secrets::McpSecrets;
use crate::tools::ToolProgress;

/// The maximum size of one message, in bytes. The size of a tool's output is checked later.
pub(super) const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// One request whose bytes are kept.
#[derive(Debug, Default)]
pub(super) struct McpExchange {
    /// The arguments to send in place of those in `rmcp`'s message.
    pub(super) arguments: Option<RawJson>,
    /// The receiver of progress notifications.
    pub(super) watcher: Option<McpProgressSink>,
    /// The result, byte for byte as the server wrote it.
    pub(super) answer: SetOnce<String>,
    /// The reason that the answer cannot be read, if an unreadable one arrived.
    pub(super) unreadable: OnceLock<String>,
}

/// Passes on a server's progress notifications while a call runs.
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
        // A slow receiver misses pieces; the offsets show the gaps.
        let _ = self.output.try_send(ToolProgress { offset: *offset, text });
        *offset += chars;
    }
}

/// The open exchanges of one connection.
#[derive(Debug, Default)]
pub(super) struct McpExchangeRegistry {
    open: Mutex<Vec<PendingMcpExchange>>,
    /// Notified when the server may offer other tools than before.
    pub(super) list_changed: Notify,
    /// The secrets that are hidden in the server's texts.
    pub(super) secrets: Arc<McpSecrets>,
}

/// A message that cannot be read.
#[derive(Debug)]
pub(super) struct UnreadableMcpMessage {
    /// The reason.
    pub(super) why: String,
    /// The message to give to `rmcp` instead, so that no caller waits forever.
    pub(super) stand_in: Option<Box<ServerJsonRpcMessage>>,
    /// True if the message answers one of the open requests, but its id cannot be read.
    pub(super) is_lost_answer: bool,
}

#[derive(Debug)]
struct PendingMcpExchange {
    id: RequestId,
    token: Option<ProgressToken>,
    exchange: Arc<McpExchange>,
}

impl McpExchangeRegistry {
    /// Makes a registry without exchanges.
    pub(super) fn new(secrets: Arc<McpSecrets>) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// Returns the message to send, on one line. From here on the registry expects an answer.
    ///
    /// # Errors
    /// The message cannot be written as JSON, which our own messages always can.
    pub(super) fn outgoing(&self, message: &ClientJsonRpcMessage) -> serde_json::Result<String> {
        let Some(open) = open(message) else { return serde_json::to_string(message) };
        let exchange = Arc::clone(&open.exchange);
        let mut all = locked(&self.open);
        // A request that is sent again in a new session keeps its id and is registered once.
        all.retain(|other| other.id != open.id);
        all.push(open);
        // Writing a large message as JSON takes time, and answers to other calls need the lock meanwhile.
        drop(all);
        match &exchange.arguments {
            Some(arguments) => with_arguments(message, arguments),
            None => serde_json::to_string(message),
        }
    }

    /// Reads a received message. The answer's bytes are given to the waiting exchange, the message to `rmcp`.
    ///
    /// # Errors
    /// [`UnreadableMcpMessage`]. `rmcp` cannot read every answer (half of a surrogate pair, deep nesting). The bytes of
    /// such an answer have still been passed on if the outer object was readable.
    pub(super) fn read(&self, text: &str) -> Result<ServerJsonRpcMessage, UnreadableMcpMessage> {
        // The bytes are taken before `rmcp` reads the text, which may fail for answers that are of use to the model.
        let taken = self.incoming(text);
        let without_result = without_null_result(text);
        let text = without_result.as_deref().unwrap_or(text);
        serde_json::from_str(text).map_err(|error| match taken {
            Some(id) => {
                let stand_in = Box::new(ServerJsonRpcMessage::response(ServerResult::empty(()), id));
                UnreadableMcpMessage {
                    why: error.to_string(),
                    stand_in: Some(stand_in),
                    is_lost_answer: false,
                }
            }
            None => self.unreadable(text, format!("it is not JSON that can be used ({error})")),
        })
    }

    /// Decides what to do about a message, or the beginning of one, that cannot be read.
    pub(super) fn unreadable(&self, text: &str, why: String) -> UnreadableMcpMessage {
        let outline = outline(text);
        let is_lost_answer = outline.answers.is_none() && outline.is_answer;
        let stand_in = outline.answers.map(|id| {
            self.fail_request(&id.to_string(), &why);
            Box::new(error_answer(id, &why))
        });
        UnreadableMcpMessage { why, stand_in, is_lost_answer }
    }

    /// Fails all open requests, because the unreadable message may have answered any of them.
    pub(super) fn fail_all(&self, why: &str) -> Vec<ServerJsonRpcMessage> {
        let all = std::mem::take(&mut *locked(&self.open));
        let mut stand_ins = Vec::with_capacity(all.len());
        for open in all {
            let _ = open.exchange.unreadable.set(why.to_owned());
            stand_ins.push(error_answer(open.id, why));
        }
        stand_ins
    }

    fn fail_request(&self, id: &str, why: &str) {
        if let Some(open) = self.take(id) {
            let _ = open.exchange.unreadable.set(why.to_owned());
        }
    }

    /// Gives a result to the open request that waits for it and returns the request's id.
    fn incoming(&self, text: &str) -> Option<RequestId> {
        let answer = serde_json::from_str::<McpResponseJson<'_>>(text).ok()?;
        if answer.is_error() {
            return None;
        }
        let (id, result) = (answer.id?, answer.result?);
        // Some servers turn a numeric id into a string.
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

    /// Passes on a progress notification of a running call.
    pub(super) fn progress(&self, said: &ProgressNotificationParam) {
        let all = locked(&self.open);
        let about = all.iter().find(|open| open.token.as_ref() == Some(&said.progress_token));
        if let Some(watcher) = about.and_then(|open| open.exchange.watcher.as_ref()) {
            watcher.send_progress(self.secrets.redact(progress_line(said)));
        }
    }

    /// Removes an exchange whose answer no caller waits for any more.
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

/// Returns the progress token, which `rmcp` keeps beside the parameters until the message is written.
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
    /// The result; `null` is a result too, and a missing one is none.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl McpResponseJson<'_> {
    /// Returns whether the message is an error. Some servers write `"result": null` beside it.
    fn is_error(&self) -> bool {
        self.error.is_some() && self.result.is_none_or(|result| result.get() == "null")
    }
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Returns an error message without the `"result": null` beside the error, which `rmcp` would take for an answer.
fn without_null_result(text: &str) -> Option<String> {
    let message = serde_json::from_str::<McpResponseJson<'_>>(text).ok()?;
    if !(message.is_error() && message.result.is_some()) {
        return None;
    }
    let mut fields: Map<String, Value> = serde_json::from_str(text).ok()?;
    fields.remove("result");
    serde_json::to_string(&fields).ok()
}

/// Writes the message with the arguments' own bytes. Line breaks become spaces, because each message is one line. In
/// valid JSON, line breaks occur only between tokens.
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

/// Makes the error answer for a request whose own answer cannot be read.
fn error_answer(id: RequestId, why: &str) -> ServerJsonRpcMessage {
    let words = format!("its answer cannot be read: {why}");
    ServerJsonRpcMessage::error(ErrorData::parse_error(words, None), Some(id))
}

/// Describes a JSON-RPC error in words.
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
    fn a_null_result_is_an_answer_and_no_error_is_lost_beside_it() {
        let (wire, one) = (McpExchangeRegistry::default(), Arc::new(McpExchange::default()));
        wire.outgoing(&call(&one, 1)).unwrap();
        let _ = wire.read(r#"{"jsonrpc":"2.0","id":1,"result":null}"#);
        assert_eq!(one.answer.get().map(String::as_str), Some("null"));
        let (wire, one) = (McpExchangeRegistry::default(), Arc::new(McpExchange::default()));
        wire.outgoing(&call(&one, 1)).unwrap();
        let error = r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-3,"message":"no"}}"#;
        let read = wire.read(error).unwrap();
        assert!(matches!(read, ServerJsonRpcMessage::Error(_)), "{read:?}");
        assert_eq!(one.answer.get(), None);
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
