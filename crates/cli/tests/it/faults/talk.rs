//! Those who talk to the server: they send messages while it is busy, cancel, resume, take messages back, and
//! write down what they were told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use longhaul_core::event::Event;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::api::{Answer, Api, Lost};
use super::check::{self, Findings, Held};
use super::ledger::{Account, Entries};
use super::model::{Asked, Call, Model, Say};
use super::rng::Rng;
use super::server::{PATIENCE, Place};
use super::watch::watch;

/// Messages that a talker lets wait.
const MOST_WAITING: usize = 4;

/// How far the trace of what the server did has come.
type Position = Arc<dyn Fn() -> u64 + Send + Sync>;

/// One session and the one who talks to it. Cheap to clone; clones are the same talker.
#[derive(Clone)]
pub(crate) struct Talker(Arc<Inner>);

struct Inner {
    name: String,
    session: OnceLock<String>,
    account: Account,
    seed: u64,
    acts: AtomicU64,
    messages: AtomicU64,
    position: Position,
}

/// So many talkers who know the place of the trace at which they were told something.
pub(crate) fn talkers(count: usize, seed: u64, place: &Place) -> Vec<Talker> {
    let position = place.position();
    (0..count).map(|index| Talker::new(&format!("s{index}"), seed, Arc::clone(&position))).collect()
}

/// Everybody watches and talks until the server is gone.
pub(crate) fn talk(api: &Api, talkers: &[Talker]) -> JoinSet<()> {
    talkers.iter().map(|talker| talker.clone().talk(api.clone())).collect()
}

impl Talker {
    pub(crate) fn new(name: &str, seed: u64, position: Position) -> Self {
        Self(Arc::new(Inner {
            name: name.to_owned(),
            session: OnceLock::new(),
            account: Account::new(),
            seed,
            acts: AtomicU64::new(0),
            messages: AtomicU64::new(1),
            position,
        }))
    }

    pub(crate) fn account(&self) -> &Account {
        &self.0.account
    }

    /// The session, if it has begun.
    pub(crate) fn session(&self) -> Option<&str> {
        self.0.session.get().map(String::as_str)
    }

    /// One who talks in a session that exists.
    pub(crate) fn of(session: &str, name: &str) -> Self {
        let talker = Self::new(name, 0, Arc::new(|| 0));
        talker.0.session.get_or_init(|| session.to_owned());
        talker
    }

    /// The same session as somebody else knows it who was told nothing yet, and sends other messages.
    pub(crate) fn successor(&self, name: &str) -> Self {
        let successor = Self::new(name, self.0.seed, Arc::clone(&self.0.position));
        successor.0.session.get_or_init(|| self.session().unwrap().to_owned());
        successor
    }

    async fn talk(self, api: Api) {
        let Ok(session) = self.begin(&api).await else { return };
        let talking = async {
            let mut kept = self.has_kept(&api, &session).await;
            while kept.is_ok() {
                kept = self.act(&api, &session).await;
            }
        };
        tokio::join!(self.watch(&api), talking);
    }

    /// Watches and talks, and does not mind when a node is gone for a while.
    pub(crate) async fn keep_talking(self, api: Api) {
        let pause = || tokio::time::sleep(Duration::from_millis(100));
        let session = loop {
            match self.begin(&api).await {
                Ok(session) => break session,
                Err(Lost) => pause().await,
            }
        };
        let talking = async {
            loop {
                if self.has_kept(&api, &session).await.is_err() || self.act(&api, &session).await.is_err() {
                    pause().await;
                }
            }
        };
        let watching = async {
            loop {
                self.watch(&api).await;
                pause().await;
            }
        };
        let _: ((), ()) = tokio::join!(watching, talking);
    }

    /// Enters into the account what the server tells, until it tells no more.
    pub(crate) async fn watch(&self, api: &Api) {
        let session = self.session().unwrap().to_owned();
        watch(api.clone(), session, self.0.account.clone(), self.0.position.as_ref()).await;
    }

    /// Waits until a watcher who just connected knows everything that was before.
    pub(crate) async fn catch_up(&self) {
        let account = self.account();
        account.until("the watcher caught up", |entries| entries.has_passed("queue:snapshot")).await;
    }

    /// The session's name; the first message begins it, however often it must be sent.
    pub(crate) async fn begin(&self, api: &Api) -> Result<String, Lost> {
        if let Some(session) = self.session() {
            return Ok(session.to_owned());
        }
        let text = self.text(0);
        self.0.account.sending(&text);
        let answer = api.send(None, &text, &text).await?;
        if answer.status == 503 {
            return Err(Lost);
        }
        let answer = answer.good();
        self.0.account.accepted(&text, &answer, (self.0.position)());
        let session = answer["sessionId"].as_str().unwrap().to_owned();
        Ok(self.0.session.get_or_init(|| session).clone())
    }

    fn text(&self, number: u64) -> String {
        format!("[{}.{number}]", self.0.name)
    }

    pub(crate) fn next_text(&self) -> String {
        self.text(self.0.messages.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the acknowledgement of the session came after that place of the trace.
    fn has_begun_after(&self, until: u64) -> bool {
        self.account().look().sent.get(&self.text(0)).is_some_and(|first| first.position > until)
    }

    /// Checks that the log reaches as far as was told.
    async fn has_kept(&self, api: &Api, session: &str) -> Result<(), Lost> {
        let newest = self.0.account.look().told.keys().next_back().copied().unwrap_or(0);
        let shown = api.session(session).await?;
        if shown.status == 503 {
            return Ok(());
        }
        let last = shown.good()["lastSeq"].as_u64().unwrap();
        if last < newest {
            let lost = format!("{newest} was told, and the log ends at {last}");
            self.0.account.look().complaints.push(lost);
        }
        Ok(())
    }

    /// One thing that a client may do, after a pause.
    async fn act(&self, api: &Api, session: &str) -> Result<(), Lost> {
        let act = self.0.acts.fetch_add(1, Ordering::Relaxed);
        let mut rng = Rng::of(self.0.seed, (&self.0.name, act));
        tokio::time::sleep(Duration::from_millis(rng.below(250))).await;
        // A client repeats what it has no answer to, under the same key, before it says anything new.
        if let Some(text) = self.unanswered() {
            return self.send(api, &text).await.map(drop);
        }
        match rng.below(20) {
            0 => api.resume(session).await.map(drop),
            1 => api.post(&format!("/api/sessions/{session}/cancel"), json!({})).await.map(drop),
            2 => self.take_back(api, session).await,
            _ if self.waiting() >= MOST_WAITING => Ok(()),
            _ => self.send(api, &self.next_text()).await.map(drop),
        }
    }

    /// A message of which it is not known whether it was accepted.
    fn unanswered(&self) -> Option<String> {
        let entries = self.0.account.look();
        entries.sent.iter().find(|(_, sent)| sent.id.is_none()).map(|(text, _)| text.clone())
    }

    /// Accepted messages that have not been announced as taken.
    fn waiting(&self) -> usize {
        let entries = self.0.account.look();
        let accepted = entries.sent.values().filter(|sent| sent.id.is_some()).count();
        let taken = entries.told.values().flat_map(|told| &told.texts);
        let taken = taken.filter(|text| text.starts_with("{\"name\":\"message:dequeued\""));
        let taken: usize = taken.map(|text| dequeued(text)).sum();
        accepted.saturating_sub(taken + entries.removed.len())
    }

    /// Sends a message, under a key that is its own. The status: 503 if there is no room for it.
    pub(crate) async fn send(&self, api: &Api, text: &str) -> Result<u16, Lost> {
        self.0.account.sending(text);
        let Answer { status, body, .. } = api.send(self.session(), text, text).await?;
        assert!(status == 200 || status == 503, "{status} {body}");
        if status == 200 {
            self.0.account.accepted(text, &body, (self.0.position)());
        }
        Ok(status)
    }

    /// Removes a message that waits, if there is one.
    async fn take_back(&self, api: &Api, session: &str) -> Result<(), Lost> {
        let queue = api.get(&format!("/api/message/queue?sessionId={session}")).await?;
        let Some(id) = queue.body["entries"][0]["id"].as_str() else { return Ok(()) };
        let text = {
            let mut entries = self.0.account.look();
            let found = entries.sent.iter_mut().find(|(_, sent)| sent.id.as_deref() == Some(id));
            found.map(|(text, sent)| {
                // Until the answer is there it may be gone, or not.
                sent.doubtful = true;
                text.clone()
            })
        };
        let Some(text) = text else { return Ok(()) };
        let answer = api.delete(&format!("/api/message/queue/{id}?sessionId={session}")).await?;
        if answer.status == 200 {
            self.0.account.look().removed.insert(text, (self.0.position)());
        }
        Ok(())
    }

    /// Goes on to a good end: everything that waits is answered, and one more message too.
    pub(crate) async fn finish(&self, api: &Api) {
        let session = self.begin(api).await.unwrap();
        self.0.account.connect();
        let watching = {
            let (talker, api) = (self.clone(), api.clone());
            tokio::spawn(async move { talker.watch(&api).await })
        };
        while let Some(text) = self.unanswered() {
            self.send(api, &text).await.unwrap();
        }
        api.resume(&session).await.unwrap().good();
        rest(api, &session).await;
        self.catch_up().await;
        let completed = self.0.account.look().count("run:complete");
        self.send(api, &self.next_text()).await.unwrap();
        let account = self.account();
        account.until("the last run is complete", |entries| entries.count("run:complete") > completed).await;
        let shown = rest(api, &session).await;
        assert_eq!(shown["lastFinishReason"], "stop", "{shown}");
        let last = shown["lastSeq"].as_u64().unwrap();
        account.until("everything is told", |entries| entries.after >= last).await;
        watching.abort();
    }
}

fn dequeued(text: &str) -> usize {
    let told: Value = serde_json::from_str(text).unwrap();
    told["count"].as_u64().unwrap() as usize
}

/// Waits until the session rests and nothing waits; how it is then.
pub(crate) async fn rest(api: &Api, session: &str) -> Value {
    let rested = tokio::time::timeout(PATIENCE, async {
        loop {
            let shown = api.session(session).await.unwrap().good();
            if shown["status"] == "idle" && shown["queued"] == 0 {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    match rested.await {
        Ok(shown) => shown,
        Err(_) => panic!("does not come to rest: {:?}", api.session(session).await),
    }
}

/// What a watcher who knows nothing is told, up to a position.
async fn told_again(api: &Api, session: &str, last: u64) -> Account {
    let account = Account::new();
    let watching = tokio::spawn({
        let (api, session, account) = (api.clone(), session.to_owned(), account.clone());
        async move { watch(api, session, account, &|| 0).await }
    });
    account.until("everything is told again", |entries: &Entries| entries.after >= last).await;
    watching.abort();
    account
}

/// Checks what the server has of all these sessions against what was told and accepted up to a place of the
/// trace, and gives their logs.
pub(crate) async fn compare(
    api: &Api,
    talkers: &[Talker],
    until: u64,
    findings: &mut Findings,
) -> Vec<(String, Vec<Event>)> {
    let mut logs = Vec::new();
    for talker in talkers {
        let Some(session) = talker.session() else { continue };
        // The session was acknowledged after the last write that counts, so it may be missing.
        if talker.has_begun_after(until) {
            continue;
        }
        let events = match api.log(session).await {
            Ok(events) => events,
            Err(why) => {
                findings.add(session, why);
                continue;
            }
        };
        let again = told_again(api, session, events.len() as u64).await;
        let queue = api.queue(session).await;
        let held = Held { events: &events, queue: &queue, told: &again.look(), until };
        check::log(session, &events, findings);
        check::account(session, talker.account(), &held, findings);
        logs.push((session.to_owned(), events));
    }
    logs
}

/// Checks that watchers who came back again and again were told everything.
pub(crate) async fn compare_watchers(api: &Api, talkers: &[Talker], findings: &mut Findings) {
    for talker in talkers {
        let Some(session) = talker.session() else { continue };
        let last = api.session(session).await.unwrap().good()["lastSeq"].as_u64().unwrap();
        let again = told_again(api, session, last).await;
        check::complete(session, talker.account(), &again.look(), findings);
    }
}

/// Lets every session come to a good end, and checks everything there is to check.
pub(crate) async fn conclude(api: &Api, talkers: &[Talker], place: &Place, model: &Model) -> Vec<Event> {
    let finished: JoinSet<()> = talkers
        .iter()
        .map(|talker| {
            let (api, talker) = (api.clone(), talker.clone());
            async move { talker.finish(&api).await }
        })
        .collect();
    finished.join_all().await;
    let mut findings = Findings::default();
    let logs = compare(api, talkers, u64::MAX, &mut findings).await;
    compare_watchers(api, talkers, &mut findings).await;
    check::effects(&place.work(), &model.made(), &logs, &mut findings);
    findings.extend("model", model.complaints());
    findings.are_none("in the end");
    logs.into_iter().flat_map(|(_, events)| events).collect()
}

/// A model that says little.
pub(crate) fn brief(_: &Asked) -> Say {
    Say { text: "Well said. ".to_owned(), ..Say::default() }
}

/// A model that talks slowly, uses tools, and is verbose enough to need compactions.
pub(crate) fn busy(seed: u64, asked: &Asked) -> Say {
    let mut rng = Rng::of(seed, (&asked.topic, asked.messages, asked.number));
    let pace = Duration::from_millis(rng.below(12));
    let words = 8 + rng.below(40) as usize;
    let text = if asked.summary {
        format!("Goal: stay whole. {}", "done ".repeat(words))
    } else {
        format!("Answer {}: {}", asked.number, "word ".repeat(words))
    };
    let share = match (asked.summary, asked.after_tools) {
        (true, _) => 0,
        (_, true) => 35,
        _ => 70,
    };
    let count = if rng.chance(share) { 1 + rng.below(3) } else { 0 };
    let calls = (0..count).map(|_| tool(&mut rng)).collect();
    Say { text, calls, pace, ..Say::default() }
}

fn tool(rng: &mut Rng) -> Call {
    let pause = rng.below(120);
    match rng.below(6) {
        0 => Call::Write,
        1 => Call::Read(check::EFFECTS),
        2 => Call::Bash(format!("seq 1 2000; sleep 0.{pause:03}; echo @ >> effects.log")),
        3 => Call::Bash(format!("sleep 0.{pause:03}; echo @ >> effects.log; sleep 0.{pause:03}")),
        _ => Call::Bash("echo @ >> effects.log; echo @".to_owned()),
    }
}
