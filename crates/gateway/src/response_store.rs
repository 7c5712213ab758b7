//! Answers that a client continues by name (`previous_response_id`) although the model's server keeps none. An entry
//! leads to the whole conversation up to the answer. The newest entries are in memory. The memo keeps them beyond the
//! process, each with the name of the entry before it.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use longhaul_store::prefix_cache::{PrefixCache, PrefixCacheKey, PrefixCacheScope};
use tokio::task::JoinSet;

use longhaul_wire::raw_json::{elements, field, fields, quote, string};
use longhaul_wire::sse::{SseEvent, SseReader};

/// The memory of all entries together, in bytes.
// An evicted answer costs its client one request with the whole history (decision 0024).
const MAX_BYTES: usize = 64 << 20;

/// The maximum number of answers in memory, and in one conversation from the memo.
const MAX_ANSWERS: usize = 20_000;

/// The largest entry for the memo, in bytes. A larger one would displace decisions for other conversations.
const MAX_STORED_BYTES: usize = 8 << 20;

/// The memory of one entry beside texts and names, in bytes.
const EACH_BYTES: usize = 512;

/// The age up to which a client can continue an answer, in seconds: 30 days, as at OpenAI's own server.
const MAX_AGE_S: u64 = 30 * 24 * 3_600;

/// The maximum number of concurrent writes to the memo.
const MOST_WRITES: usize = 256;

/// The memo scope for entries of this kind only.
const SCOPE: &str = "responses-1";

/// The name of an answer, together with its caller.
type ResponseKey = ([u8; 32], String);

/// The store of the newest answers.
pub(crate) struct ResponseStore {
    known: Mutex<StoredTurnIndex>,
    /// The bytes of all entries in memory.
    bytes: Arc<AtomicUsize>,
    memo: Arc<dyn PrefixCache>,
    writing: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct StoredTurnIndex {
    turns: HashMap<ResponseKey, Arc<StoredTurn>>,
    oldest: VecDeque<ResponseKey>,
}

/// One request's addition to a conversation, and its answer.
pub(crate) struct StoredTurn {
    before: Option<Arc<Self>>,
    /// The name of the answer.
    id: String,
    /// The time of the answer in seconds since 1970.
    at: u64,
    /// The input as the client wrote it: a list of items, or a text.
    asked: Bytes,
    /// The items of the answer, with commas between them.
    answered: String,
    all_bytes: Arc<AtomicUsize>,
}

/// A text with its key in the memo: an answer, or another entry of the gateway.
pub(crate) struct ResponseEntry {
    key: PrefixCacheKey,
    text: String,
}

impl ResponseEntry {
    pub(crate) fn new(key: PrefixCacheKey, text: String) -> Self {
        Self { key, text }
    }
}

/// An answer read from the memo.
struct StoredResponse {
    id: String,
    before: Option<String>,
    at: u64,
    items: String,
}

impl Drop for StoredTurn {
    fn drop(&mut self) {
        // A turn that a later one refers to outlives its index entry, so the bytes are counted here.
        self.all_bytes.fetch_sub(self.bytes(), Ordering::Relaxed);
        // A loop instead of recursion: dropping a long chain of turns recursively would overflow the stack.
        let mut before = self.before.take();
        while let Some(mut turn) = before.and_then(Arc::into_inner) {
            before = turn.before.take();
        }
    }
}

impl StoredTurn {
    /// Returns the memory of the turn, in bytes.
    fn bytes(&self) -> usize {
        // The name is in the turn, in the index and in the list of the oldest.
        EACH_BYTES + 3 * self.id.len() + self.asked.len() + self.answered.capacity()
    }

    /// Returns the whole conversation up to here as JSON items with commas between them.
    pub(crate) fn items(&self) -> String {
        let mut turns = vec![self];
        while let Some(before) = turns.last().and_then(|turn| turn.before.as_deref()) {
            turns.push(before);
        }
        let all: Vec<String> = turns.iter().rev().flat_map(|turn| turn.own_items()).collect();
        all.join(",")
    }

    fn own_items(&self) -> impl Iterator<Item = String> {
        [items(&self.asked), self.answered.clone()].into_iter().filter(|items| !items.is_empty())
    }

    fn stored(&self, caller: &[u8; 32]) -> ResponseEntry {
        let before = self.before.as_ref().map_or_else(|| "null".to_owned(), |before| quote(&before.id));
        let items = self.own_items().collect::<Vec<_>>().join(",");
        let text = format!(r#"{{"at":{},"before":{before},"items":[{items}]}}"#, self.at);
        ResponseEntry { key: key(caller, &self.id), text }
    }
}

impl StoredResponse {
    /// Parses a stored answer; `None` if the text cannot be read.
    fn read(id: String, text: &str) -> Option<Self> {
        let said = fields(text)?;
        let at = field(&said, "at")?.parse().ok()?;
        let items = field(&said, "items").and_then(elements)?.join(",");
        Some(Self { id, before: field(&said, "before").and_then(string), at, items })
    }
}

fn key(caller: &[u8; 32], id: &str) -> PrefixCacheKey {
    // A client may continue an answer at another upstream, so the key names none.
    let scope = PrefixCacheScope { credential: caller, upstream: "", policy: SCOPE };
    PrefixCacheKey::new(&scope, blake3::hash(id.as_bytes()).as_bytes())
}

impl ResponseStore {
    pub(crate) fn new(memo: Arc<dyn PrefixCache>) -> Self {
        Self { known: Mutex::default(), bytes: Arc::default(), memo, writing: Mutex::default() }
    }

    /// Returns the conversation up to an answer; `None` if the answer is unknown, too old, or belongs to another
    /// caller.
    pub(crate) async fn find(&self, caller: [u8; 32], id: &str, now: u64) -> Option<Arc<StoredTurn>> {
        let turn = match self.in_memory(caller, id) {
            Some(turn) => turn,
            None => self.read(caller, id).await?,
        };
        (now.saturating_sub(turn.at) <= MAX_AGE_S).then_some(turn)
    }

    fn in_memory(&self, caller: [u8; 32], id: &str) -> Option<Arc<StoredTurn>> {
        self.known().turns.get(&(caller, id.to_owned())).cloned()
    }

    /// Reads a conversation from the memo, from its end back to the first turn in memory.
    async fn read(&self, caller: [u8; 32], id: &str) -> Option<Arc<StoredTurn>> {
        let (mut found, mut before) = (Vec::new(), None);
        // Some servers give all answers the same name. The set keeps such a chain from looping forever.
        let (mut names, mut bytes) = (BTreeSet::new(), 0);
        let mut next = Some(id.to_owned());
        while let Some(id) = next.take() {
            before = self.in_memory(caller, &id);
            if before.is_some() {
                break;
            }
            // Without limits, one request could read an endless chain of answers into memory.
            if !names.insert(id.clone()) || names.len() > MAX_ANSWERS || bytes > MAX_BYTES {
                return None;
            }
            let text = self.memo.find_text(&key(&caller, &id)).await;
            let text =
                text.inspect_err(|error| tracing::warn!(%error, "kept answers cannot be read")).ok()??;
            bytes += text.len();
            let stored = StoredResponse::read(id, &text)?;
            next.clone_from(&stored.before);
            found.push(stored);
        }
        // The oldest comes first, because each turn holds its predecessor.
        for StoredResponse { id, at, items, .. } in found.into_iter().rev() {
            // The stored text does not tell input from output, and the whole is only ever read as one list.
            let asked = Bytes::from(format!("[{items}]"));
            before = Some(self.remember(caller, before.take(), id, (asked, String::new()), at));
        }
        before
    }

    /// Keeps the name and the items of a response. An answer without a name is not kept. Neither is one that
    /// failed or broke off, because no client continues half an answer. The caller must [write](Self::write)
    /// the returned entry.
    pub(crate) fn keep(
        &self,
        caller: [u8; 32],
        before: Option<Arc<StoredTurn>>,
        asked: Bytes,
        response: &str,
        now: u64,
    ) -> Option<ResponseEntry> {
        let said = fields(response)?;
        if !is_ended(&said) {
            return None;
        }
        let id = field(&said, "id").and_then(string)?;
        // The input is a slice of the whole request and would keep all of it in memory.
        let asked = Bytes::copy_from_slice(&asked);
        let output = field(&said, "output").and_then(elements).unwrap_or_default();
        let turn = self.remember(caller, before, id, (asked, output.join(",")), now);
        Some(turn.stored(&caller))
    }

    fn remember(
        &self,
        caller: [u8; 32],
        before: Option<Arc<StoredTurn>>,
        id: String,
        (asked, answered): (Bytes, String),
        at: u64,
    ) -> Arc<StoredTurn> {
        let name = (caller, id.clone());
        let turn =
            Arc::new(StoredTurn { before, id, at, asked, answered, all_bytes: Arc::clone(&self.bytes) });
        self.bytes.fetch_add(turn.bytes(), Ordering::Relaxed);
        let mut known = self.known();
        // A server that repeats its names would otherwise fill the list of the oldest.
        if known.turns.insert(name.clone(), Arc::clone(&turn)).is_none() {
            known.oldest.push_back(name);
        }
        while known.turns.len() > MAX_ANSWERS || self.bytes.load(Ordering::Relaxed) > MAX_BYTES {
            let Some(oldest) = known.oldest.pop_front() else { break };
            known.turns.remove(&oldest);
        }
        turn
    }

    /// Stores an answer in the memo beyond the end of the process.
    pub(crate) async fn write(&self, entry: ResponseEntry) {
        write(self.memo.as_ref(), entry).await;
    }

    /// Stores an answer in a background task. Too many concurrent writes leave the answer in memory only.
    pub(crate) fn write_beside(&self, entry: ResponseEntry) {
        let memo = Arc::clone(&self.memo);
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // Finished writes count towards the limit until they are joined.
        while writing.try_join_next().is_some() {}
        if writing.len() < MOST_WRITES {
            writing.spawn(async move { write(memo.as_ref(), entry).await });
        } else {
            tracing::warn!("an answer is kept in memory only: too many are being stored");
        }
    }

    fn known(&self) -> MutexGuard<'_, StoredTurnIndex> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(memo: &dyn PrefixCache, ResponseEntry { key, text }: ResponseEntry) {
    // The answer stays in memory, so only a restart loses it.
    if text.len() > MAX_STORED_BYTES {
        return;
    }
    if let Err(error) = memo.put_text(key, &text).await {
        tracing::warn!(%error, "an answer is kept in memory only");
    }
}

/// Returns whether a response is complete, by itself or at its length limit. Some servers send no status.
fn is_ended(said: &[(Cow<'_, str>, &str)]) -> bool {
    let status = field(said, "status").filter(|status| *status != "null").and_then(string);
    let has_failed = field(said, "error").is_some_and(|error| error != "null");
    !has_failed && status.is_none_or(|status| matches!(status.as_str(), "completed" | "incomplete"))
}

/// Returns the items of an input, with commas between them.
pub(crate) fn items(input: &[u8]) -> String {
    let input = std::str::from_utf8(input).unwrap_or_default();
    match string(input) {
        Some(text) => {
            let text = quote(&text);
            format!(r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":{text}}}]}}"#)
        }
        None => elements(input).unwrap_or_default().join(","),
    }
}

/// Returns the whole response from the last events of a stream.
pub(crate) fn closing(events: &Bytes) -> Option<String> {
    let mut cut = SseReader::default();
    cut.feed(events.clone());
    let all: Vec<Bytes> = std::iter::from_fn(|| cut.next_event()).collect();
    all.iter().rev().find_map(|raw| {
        let event = SseEvent::parse(raw);
        let said = fields(&event.data)?;
        let kind = field(&said, "type").and_then(string)?;
        // A failed response has an event of its own, and no client continues one.
        let ends = matches!(kind.as_str(), "response.completed" | "response.incomplete");
        field(&said, "response").filter(|_| ends).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use longhaul_store::prefix_cache::MemoryPrefixCache;

    use super::*;

    fn response(id: &str, text: &str) -> String {
        format!(r#"{{"id":"{id}","output":[{{"t":"{text}"}},{{"u":1}}]}}"#)
    }

    fn answers() -> ResponseStore {
        ResponseStore::new(Arc::new(MemoryPrefixCache::default()))
    }

    const LIST: Bytes = Bytes::from_static(br#"[{"q":1}]"#);

    #[tokio::test]
    async fn a_conversation_is_put_together_from_its_turns() {
        let answers = answers();
        answers.keep([1; 32], None, LIST, &response("a", "x"), 5);
        let first = answers.find([1; 32], "a", 5).await.unwrap();
        assert_eq!(first.items(), r#"{"q":1},{"t":"x"},{"u":1}"#);
        let asked = Bytes::from_static(br#"[{"q":2}]"#);
        answers.keep([1; 32], Some(first.clone()), asked, &response("b", "y"), 5);
        let second = answers.find([1; 32], "b", 5).await.unwrap();
        assert_eq!(second.items(), format!(r#"{},{{"q":2}},{{"t":"y"}},{{"u":1}}"#, first.items()));
        assert!(answers.find([2; 32], "a", 5).await.is_none(), "nobody goes on from another's answer");
        assert!(answers.find([1; 32], "c", 5).await.is_none());
    }

    #[tokio::test]
    async fn what_was_stored_is_found_by_the_next_process_as_long_as_it_is_not_too_old() {
        let memo: Arc<dyn PrefixCache> = Arc::new(MemoryPrefixCache::default());
        let first = ResponseStore::new(Arc::clone(&memo));
        let mut before = None;
        for (id, text) in [("a", "x"), ("b", "\\u0000 \u{1f980}"), ("c", "z")] {
            let asked = Bytes::from_static(br#""hi""#);
            let entry = first.keep([1; 32], before.take(), asked, &response(id, text), 100).unwrap();
            before = first.find([1; 32], id, 100).await;
            if id != "c" {
                first.write(entry).await;
            }
        }
        let second = ResponseStore::new(Arc::clone(&memo));
        let found = second.find([1; 32], "b", 100 + MAX_AGE_S).await.unwrap();
        assert_eq!(found.items(), first.find([1; 32], "b", 100).await.unwrap().items());
        assert!(second.find([1; 32], "b", 101 + MAX_AGE_S).await.is_none(), "too old");
        assert!(ResponseStore::new(Arc::clone(&memo)).find([1; 32], "b", 101 + MAX_AGE_S).await.is_none());
        assert!(second.find([1; 32], "c", 100).await.is_none(), "it was not stored");
        assert!(ResponseStore::new(memo).find([2; 32], "b", 100).await.is_none(), "nor is it another's");
    }

    #[tokio::test]
    async fn a_server_that_gives_every_answer_one_name_leads_in_no_circle() {
        let memo: Arc<dyn PrefixCache> = Arc::new(MemoryPrefixCache::default());
        let first = ResponseStore::new(Arc::clone(&memo));
        for _ in 0..2 {
            let before = first.find([1; 32], "a", 0).await;
            first.write(first.keep([1; 32], before, LIST, &response("a", "x"), 0).unwrap()).await;
        }
        assert!(ResponseStore::new(memo).find([1; 32], "a", 0).await.is_none());
    }

    #[tokio::test]
    async fn an_answer_holds_no_more_of_its_request_than_the_input() {
        let answers = answers();
        let request = Bytes::from(format!(r#"{{"input":[{{"q":1}}],"metadata":"{}"}}"#, "x".repeat(1 << 20)));
        answers.keep([1; 32], None, request.slice(9..18), &response("a", "x"), 5);
        assert!(request.is_unique(), "the rest of the request is free to go");
        assert_eq!(answers.find([1; 32], "a", 5).await.unwrap().items(), r#"{"q":1},{"t":"x"},{"u":1}"#);
    }

    #[tokio::test]
    async fn long_names_and_tiny_answers_count() {
        let answers = answers();
        let name = |at: usize| format!("{at}{}", "n".repeat(MAX_BYTES / 16));
        for at in 0..8 {
            answers.keep([1; 32], None, LIST, &response(&name(at), "x"), 5);
        }
        assert!(answers.in_memory([1; 32], &name(0)).is_none(), "its name took the room");
        assert!(answers.in_memory([1; 32], &name(7)).is_some());
        drop(answers.known().turns.drain());
        assert_eq!(answers.bytes.load(Ordering::Relaxed), 0);
        answers.keep([1; 32], None, LIST, &response("a", "x"), 5);
        assert!(answers.bytes.load(Ordering::Relaxed) >= EACH_BYTES);
    }

    #[tokio::test]
    async fn what_has_failed_is_not_kept() {
        let answers = answers();
        let said = [
            (r#""status":"failed","error":{"code":"server_error"}"#, false),
            (r#""status":"failed""#, false),
            (r#""status":"incomplete","error":{"code":"server_error"}"#, false),
            (r#""status":"cancelled""#, false),
            (r#""status":"in_progress""#, false),
            (r#""status":"incomplete","error":null"#, true),
            (r#""status":"completed""#, true),
            (r#""status":null"#, true),
        ];
        for (at, (said, is_kept)) in said.into_iter().enumerate() {
            let response = format!(r#"{{"id":"{at}",{said},"output":[]}}"#);
            assert_eq!(answers.keep([1; 32], None, LIST, &response, 5).is_some(), is_kept, "{said}");
            assert_eq!(answers.find([1; 32], &at.to_string(), 5).await.is_some(), is_kept, "{said}");
        }
    }

    #[tokio::test]
    async fn what_is_too_much_gives_way_and_long_conversations_end_quietly() {
        let answers = answers();
        let mut before = None;
        for at in 0..30_000 {
            let asked = Bytes::from_static(b"[{}]");
            answers.keep([1; 32], before.take(), asked, &response(&at.to_string(), "x"), 0);
            before = answers.in_memory([1; 32], &at.to_string());
        }
        assert!(answers.in_memory([1; 32], "0").is_none() && answers.in_memory([1; 32], "29999").is_some());
        let big = "y".repeat(MAX_BYTES / 4);
        for at in 0..12 {
            answers.keep([2; 32], None, Bytes::new(), &response(&at.to_string(), &big), 0);
        }
        assert!(answers.bytes.load(Ordering::Relaxed) <= MAX_BYTES + 4_000_000);
        assert!(answers.in_memory([2; 32], "11").is_some() && answers.in_memory([2; 32], "0").is_none());
        drop(before);
        drop(answers);
    }
}
