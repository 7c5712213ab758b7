//! Compactions and prunes, as far as an editor can show them: as rows of their own, as notices, or as a thought.

use agent_client_protocol::v1::schema::{
    CompactionStatus, CompactionUpdate, ContentChunk, MessageId, Notice, NoticeSeverity, SessionUpdate,
};
use longhaul::SessionEvent;

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
        event: &SessionEvent,
        beside: &UpdateDetails,
        shows: EditorCapabilities,
        telling: UpdateDelivery,
    ) -> Vec<SessionUpdate> {
        match event {
            SessionEvent::Compacting { .. } => self.compacting(shows),
            SessionEvent::Compacted { edit_id, original_tokens, compressed_tokens, note, .. } => {
                let title = format!("Context compacted: {}", change(*original_tokens, *compressed_tokens));
                self.compressed(edit_id.as_str(), title, note, beside, (shows, telling))
            }
            SessionEvent::CompactionFailed { error, .. } => self.failed(&error.message, shows, telling),
            // Whatever was being made when the run ended is not made.
            SessionEvent::RunFinished { .. } => {
                let left = self.open.take().map(|id| CompactionUpdate::new(id, CompactionStatus::Cancelled));
                left.map(SessionUpdate::CompactionUpdate).into_iter().collect()
            }
            SessionEvent::Pruned { original_tokens, compressed_tokens, .. } => {
                let title =
                    format!("Old tool results pruned: {}", change(*original_tokens, *compressed_tokens));
                notice(shows, telling, NoticeSeverity::Info, title, None)
            }
            SessionEvent::Restored { edit_id, total_tokens } => {
                let title = format!("{edit_id} undone: {} tokens", short(*total_tokens));
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
        name: &str,
        title: String,
        why: &str,
        beside: &UpdateDetails,
        (shows, telling): (EditorCapabilities, UpdateDelivery),
    ) -> Vec<SessionUpdate> {
        if shows.compactions {
            // A replay has no open row, because the start of a compaction is not in the log.
            let id = self.open.take().unwrap_or_else(|| format!("compaction-of-{name}"));
            let mut summary = vec![text_block(&format!(
                "{title}\n\n{why}\n\n/undo {name} brings it back, if the window has room."
            ))];
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
        why: &str,
        shows: EditorCapabilities,
        telling: UpdateDelivery,
    ) -> Vec<SessionUpdate> {
        let why = why.to_owned();
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

fn change(before_tokens: u64, after_tokens: u64) -> String {
    format!("{} → {} tokens", short(before_tokens), short(after_tokens))
}
