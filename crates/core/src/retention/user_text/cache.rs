//! The user's text of the parts of a log that a plan compares, read once.

use std::sync::Arc;

use super::UserText;
use crate::derived_cache::DerivedCache;
use crate::history::History;
use crate::ids::LogHandle;
use crate::retention::replaced::StatementCache;

/// The most texts kept: one for each part of the log that a plan compares.
const MAX_TEXTS: usize = 2;

/// Cache of the user's text in the last requested parts of one session. A plan reads the same part many times.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UserTextCache(DerivedCache<CachedUserTexts>);

/// The content of a [`UserTextCache`].
#[derive(Clone, Debug, Default)]
struct CachedUserTexts {
    texts: Vec<(Vec<LogHandle>, Arc<UserText>)>,
    /// The statements of all parts. Parts that a plan compares have most of them in common.
    statements: StatementCache,
}

impl UserTextCache {
    /// Returns the user's text in the messages that `handles` lead to.
    pub(crate) fn text(&self, history: &History, handles: &[LogHandle]) -> Arc<UserText> {
        let mut cached = self.0.lock();
        if let Some((_, text)) = cached.texts.iter().find(|(known, _)| known == handles) {
            return Arc::clone(text);
        }
        let text = Arc::new(UserText::of(history, handles, &mut cached.statements));
        // A handle beyond the end of the log covers messages that are still to come, and a stopped text is incomplete.
        if !history.stop_flag().is_raised()
            && handles.iter().all(|LogHandle(range)| range.to <= history.last_seq())
        {
            let excess = (cached.texts.len() + 1).saturating_sub(MAX_TEXTS);
            cached.texts.drain(..excess);
            cached.texts.push((handles.to_vec(), Arc::clone(&text)));
        }
        text
    }
}
