use std::sync::Arc;

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::event::NoteReason;
use longhaul_core::message::{Message, ModelOrigin, Part};
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_store::{BlobStore, MemoryStore, NewSession};

use super::*;
use crate::agent::Agent;
use crate::agents::AgentRegistry;
use crate::session::Runtime;
use crate::testing::{self, TemporaryFolder};

/// Positions at which agents are chosen.
type Choices<'a> = &'a [(usize, &'a str)];

async fn agent(folder: &TemporaryFolder, counter: MessageTokenCounter) -> Agent {
    let model = Arc::new(ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("Yes."))));
    let mut agent = testing::agent(model, folder).await.unwrap();
    agent.counter = counter;
    agent
}

fn note(at: usize) -> EventBody {
    let message = Message::user("m", vec![Part::text(format!("Note {at} of those that are counted."))]);
    EventBody::NoteAdded { message, why: NoteReason::Imported }
}

fn chosen(agent: &str) -> EventBody {
    let choice = ModelChoice { agent: Some(agent.to_owned()), model: None };
    let to = ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: agent.to_owned() };
    EventBody::ModelSwitched { to, choice: Some(choice) }
}

/// A session of `length` events, in which agents were chosen at some positions.
async fn session(store: &SharedStore, length: usize, choices: Choices<'_>) -> SessionId {
    let id = SessionId::new(format!("{length} {choices:?}"));
    let mut events = vec![(
        1,
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None },
    )];
    for at in 2..=length {
        let choice = choices.iter().find(|(position, _)| *position == at);
        events.push((at as u64, choice.map_or_else(|| note(at), |(_, agent)| chosen(agent))));
    }
    store.create(NewSession { id: id.clone(), title: None, at: 1, events }).await.unwrap();
    id
}

#[tokio::test]
async fn a_log_is_folded_page_by_page_for_whoever_answers_in_the_end() {
    let folder = TemporaryFolder::new().unwrap();
    let (usual, other) = (MessageTokenCounter::default(), MessageTokenCounter::characters());
    let agents = AgentRegistry::new("usual", agent(&folder, usual.clone()).await)
        .with("other", "scripted", Ok(agent(&folder, other.clone()).await))
        .with("third", "scripted", Ok(agent(&folder, usual.clone()).await))
        .with("broken", "scripted", Err("it is not there".to_owned()));
    let store: SharedStore = Arc::new(MemoryStore::new());
    let runtime = Runtime::of(agents, Arc::clone(&store), BlobStore::in_memory(1 << 20));
    let cases: &[(usize, Choices<'_>, &MessageTokenCounter)] = &[
        (1, &[], &usual),
        (PAGE - 1, &[], &usual),
        (PAGE, &[], &usual),
        (PAGE + 1, &[], &usual),
        (2 * PAGE, &[(2, "other")], &other),
        (2 * PAGE + 9, &[(PAGE + 1, "other")], &other),
        (2 * PAGE + 9, &[(2 * PAGE + 9, "other")], &other),
        (2 * PAGE + 9, &[(3, "other"), (PAGE + 3, "usual")], &usual),
        (2 * PAGE + 9, &[(3, "other"), (PAGE + 3, "third"), (2 * PAGE + 3, "other")], &other),
        (2 * PAGE + 9, &[(2 * PAGE, "third")], &usual),
        (2 * PAGE + 9, &[(2 * PAGE, "broken")], &usual),
    ];
    for (length, choices, counter) in cases {
        let id = session(&store, *length, choices).await;
        let opened = runtime.inner.read(&id).await.unwrap();
        let log = store.read(&id, 0, usize::MAX).await.unwrap();
        assert!(whole_log(&store, &id).await.unwrap() == log, "{id}");
        let (events, last_at) = (log.len(), log.last().unwrap().at);
        let facts = LogFacts { events, last_at, choice: newest_choice(&log).cloned() };
        assert_eq!(opened.facts, facts, "{id}");
        let expected = History::fold_with((*counter).clone(), &log).unwrap();
        assert!(opened.history == expected, "{id}: {:?}", opened.history.counter());
        assert_eq!(opened.binding.agent.counter, **counter, "{id}");
        let is_broken = choices.iter().any(|(_, agent)| *agent == "broken");
        assert_eq!(opened.binding.missing.is_some(), is_broken, "{id}");
    }
}
