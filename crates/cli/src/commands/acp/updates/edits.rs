//! Compactions and prunes, as far as an editor can show them: as rows of their own, as notices, or as a thought.

use agent_client_protocol::v1::schema::{
    CompactionStatus, CompactionUpdate, ContentChunk, MessageId, Notice, NoticeSeverity, SessionUpdate,
};
use longhaul::api_events::ApiEvent;
use serde_json::Value;

use crate::term::human::short;

use super::super::prompt::text_block;
use super::{EditorCapabilities, UpdateDelivery, UpdateDetails};

/// Compactions so far, and the compaction in progress.
#[derive(Debug, Default)]
pub(super) struct CompactionUpdates {
    begun: u64,
    /// The id of the open row. A compaction gets its own id only once it is made, and its row is shown
    /// before.
    open: Option<String>,
}

impl CompactionUpdates {
    pub(super) fn take(
        &mut self,
        told: &ApiEvent,
        beside: &UpdateDetails,
        shows: EditorCapabilities,
        telling: UpdateDelivery,
    ) -> Vec<SessionUpdate> {
        match told.name {
            "context:compacting" => self.compacting(shows),
            "context:compressed" => self.compressed(told, beside, shows, telling),
            "context:compact-failed" => self.failed(told, shows, telling),
            // Whatever was being made when the run ended is not made.
            "run:complete" => {
                let left = self.open.take().map(|id| CompactionUpdate::new(id, CompactionStatus::Cancelled));
                left.map(SessionUpdate::CompactionUpdate).into_iter().collect()
            }
            "context:pruned" => {
                let title = format!("Old tool results cleared: {}", change(told));
                notice(shows, telling, NoticeSeverity::Info, title, None)
            }
            "context:restored" => {
                let tokens = short(number(told, "tokens"));
                let title = format!("{} undone: {tokens} tokens", told.text("compactionId"));
                notice(shows, telling, NoticeSeverity::Info, title, None)
            }
            _ => Vec::new(),
        }
    }

    fn compacting(&mut self, shows: EditorCapabilities) -> Vec<SessionUpdate> {
        if !shows.compactions {
            return Vec::new();
        }
        // A compaction may be announced several times while it is made. All belong to one row.
        let id = self.open.get_or_insert_with(|| {
            self.begun += 1;
            format!("compaction-{}", self.begun)
        });
        let update = CompactionUpdate::new(id.clone(), CompactionStatus::InProgress);
        vec![SessionUpdate::CompactionUpdate(update)]
    }

    fn compressed(
        &mut self,
        told: &ApiEvent,
        beside: &UpdateDetails,
        shows: EditorCapabilities,
        telling: UpdateDelivery,
    ) -> Vec<SessionUpdate> {
        let title = format!("Context compressed: {}", change(told));
        let why = told.text("costNote");
        let name = told.text("compactionId");
        if shows.compactions {
            // A replay has no open row, because the start of a compaction is not in the log.
            let id = self.open.take().unwrap_or_else(|| format!("compaction-of-{name}"));
            let mut summary = vec![text_block(&format!("{title}\n\n{why}\n\n/undo {name} brings it back."))];
            summary.extend(beside.summary.as_deref().map(text_block));
            let update = CompactionUpdate::new(id, CompactionStatus::Completed).summary(summary);
            return vec![SessionUpdate::CompactionUpdate(update)];
        }
        if shows.notices {
            return notice(shows, telling, NoticeSeverity::Info, title, Some(why.to_owned()));
        }
        let block = text_block(&format!("{title}. {why}\n"));
        // Every editor takes thoughts, so one that knows neither rows nor notices still sees the compaction.
        let chunk = ContentChunk::new(block).message_id(MessageId::new(format!("compaction-of-{name}")));
        vec![SessionUpdate::AgentThoughtChunk(chunk)]
    }

    fn failed(
        &mut self,
        told: &ApiEvent,
        shows: EditorCapabilities,
        telling: UpdateDelivery,
    ) -> Vec<SessionUpdate> {
        let why = told.text("reason").to_owned();
        // Without an open row the editor knows no compactions, or the attempt was never announced.
        match self.open.take() {
            Some(id) => {
                let update = CompactionUpdate::new(id, CompactionStatus::Failed).error(why);
                vec![SessionUpdate::CompactionUpdate(update)]
            }
            None => {
                let title = "No summary could be written".to_owned();
                notice(shows, telling, NoticeSeverity::Warning, title, Some(why))
            }
        }
    }
}

/// Notices are for current events.
fn notice(
    shows: EditorCapabilities,
    telling: UpdateDelivery,
    severity: NoticeSeverity,
    title: String,
    about: Option<String>,
) -> Vec<SessionUpdate> {
    let wanted = shows.notices && telling == UpdateDelivery::Live;
    let notice = Notice::new(severity, title).description(about);
    wanted.then_some(SessionUpdate::Notice(notice)).into_iter().collect()
}

fn change(told: &ApiEvent) -> String {
    let (before, after) = (number(told, "originalTokens"), number(told, "compressedTokens"));
    format!("{} → {} tokens", short(before), short(after))
}

fn number(told: &ApiEvent, key: &str) -> u64 {
    told.payload.get(key).and_then(Value::as_u64).unwrap_or_default()
}
