//! One watcher of one session: what was stored after its last position, what is in flight, then everything
//! as it happens.
//!
//! A watcher pulls; nothing is kept for it but its place among what was told lately, which is bounded and kept
//! once for all. One that comes back finds there what it missed; one that was away for longer reads the log, a
//! few events at a time, so it slows no run and costs little memory. What cannot be had again is said with
//! `stream:gap`.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::Event as Frame;
use futures_util::Stream;
use longhaul::announce::{Announcement, Replay};
use longhaul::feed::{Announcements, Attendance, Missed, RecvError};
use longhaul::session::Session;
use longhaul_core::ids::Seq;
use serde_json::{Value, json};

use crate::app::App;
use crate::problem::Problem;
use crate::routes::queue_entries;

/// Events read from the log at a time: those that are only folded, and those that are told.
const PASSED_PAGE: usize = 500;
const TOLD_PAGE: usize = 8;

/// A watcher.
pub(crate) struct Watcher {
    app: App,
    session: Session,
    announcements: Announcements,
    /// Everything up to this position has been given.
    after: Seq,
    /// Announcements given of the one event behind it.
    begun: (Seq, usize),
    behind: Option<Behind>,
    ready: VecDeque<Frame>,
}

/// What is to be given before the watcher may listen.
struct Behind {
    replay: Option<Replay>,
    until: Seq,
    in_flight: Option<Announcement>,
}

impl Watcher {
    /// A watcher that has everything up to `after`; `None`: from now on.
    pub(crate) fn new(app: App, session: Session, after: Option<Seq>) -> Self {
        let Attendance { announcements, told, in_flight } = session.attend();
        let mut watcher = Self {
            app,
            session,
            announcements,
            after: after.unwrap_or(told),
            begun: (0, 0),
            behind: None,
            ready: VecDeque::new(),
        };
        watcher.fall_behind(told, in_flight);
        watcher
    }

    /// Its frames. They end when the session or the server does.
    pub(crate) fn frames(self) -> impl Stream<Item = Result<Frame, Infallible>> {
        futures_util::stream::unfold(self, async |mut watcher| {
            let frame = watcher.next().await?;
            Some((Ok(frame), watcher))
        })
    }

    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            match self.behind.take() {
                Some(behind) => self.catch_up(behind).await,
                None => self.listen().await?,
            }
        }
    }

    fn fall_behind(&mut self, told: Seq, in_flight: Option<Announcement>) {
        if self.after > told {
            // The position is of another log, or of a later state than the one that was restored.
            self.gap(told, self.after);
            self.after = told;
        }
        self.behind = Some(Behind { replay: None, until: told, in_flight });
    }

    fn gap(&mut self, from: Seq, to: Seq) {
        self.tell(&Announcement::passing("stream:gap", self.session.id(), json!({ "from": from, "to": to })));
    }

    /// The next events, from memory or from the log; after the last ones, what is in flight and what waits.
    async fn catch_up(&mut self, mut behind: Behind) {
        if self.after >= behind.until {
            return self.arrive(behind).await;
        }
        if let Some(recent) = self.session.recent(self.after, behind.until, TOLD_PAGE) {
            self.tell_recent(&recent);
            self.behind = Some(behind);
            return;
        }
        let app = self.app.clone();
        let replay = behind.replay.get_or_insert_with(|| app.runtime().replay(self.session.id()));
        match self.page(replay, behind.until).await {
            Ok(()) => {}
            Err(problem) => {
                tracing::warn!(session = %self.session.id(), ?problem, "a watcher could not be told what it missed");
                self.gap(self.after + 1, behind.until);
                self.after = behind.until;
            }
        }
        self.behind = Some(behind);
    }

    fn tell_recent(&mut self, recent: &Missed) {
        for event in recent.announcements.chunk_by(|one, next| one.seq == next.seq) {
            let given = if event[0].seq == Some(self.begun.0) { self.begun.1 } else { 0 };
            event.iter().skip(given).for_each(|announcement| self.tell(announcement));
        }
        self.after = recent.until;
    }

    async fn page(&mut self, replay: &mut Replay, until: Seq) -> Result<(), Problem> {
        let at = replay.seq();
        let (to, most) = if at < self.after { (self.after, PASSED_PAGE) } else { (until, TOLD_PAGE) };
        let limit = most.min(usize::try_from(to - at).unwrap_or(most));
        let events = self.app.runtime().store().read(self.session.id(), at, limit).await?;
        if events.is_empty() {
            return Err(Problem::internal());
        }
        for event in &events {
            let folded = if event.seq <= self.after {
                replay.pass(event).map(|()| Vec::new())
            } else {
                replay.take(event)
            };
            let announcements = folded.map_err(|_| Problem::internal())?;
            let given = if self.begun.0 == event.seq { self.begun.1 } else { 0 };
            announcements.iter().skip(given).for_each(|announcement| self.tell(announcement));
            self.after = self.after.max(event.seq);
        }
        Ok(())
    }

    async fn arrive(&mut self, behind: Behind) {
        if let Some(snapshot) = &behind.in_flight {
            self.tell(snapshot);
        }
        let entries = match self.session.queue().await {
            Ok(queue) => queue_entries(&queue),
            Err(_) => Value::Array(Vec::new()),
        };
        let queue = Announcement::passing("queue:snapshot", self.session.id(), json!({ "entries": entries }));
        // The position lets a watcher that leaves now come back to where it was.
        self.ready.push_back(frame(&queue).id(self.after.to_string()));
    }

    /// Waits for the next announcement. `None` when there will be none.
    async fn listen(&mut self) -> Option<()> {
        let told = tokio::select! {
            biased;
            told = self.announcements.recv() => told,
            () = self.session.stopped() => return None,
            () = self.app.closing().cancelled() => return None,
        };
        match told {
            Ok(announcement) => {
                self.note(&announcement);
                self.tell(&announcement);
            }
            Err(RecvError::Lagged(_)) => {
                let Attendance { announcements, told, in_flight } = self.session.attend();
                self.announcements = announcements;
                self.fall_behind(told, in_flight);
            }
            Err(RecvError::Closed) => return None,
        }
        Some(())
    }

    /// Where the watcher is once it has that announcement.
    fn note(&mut self, announcement: &Announcement) {
        let Some(seq) = announcement.seq else { return };
        let given = if self.begun.0 == seq { self.begun.1 } else { 0 };
        self.begun = (seq, given + 1);
        if announcement.ends_event {
            self.after = seq;
        }
    }

    fn tell(&mut self, announcement: &Announcement) {
        let frame = frame(announcement);
        self.ready.push_back(match announcement.seq.filter(|_| announcement.ends_event) {
            Some(seq) => frame.id(seq.to_string()),
            None => frame,
        });
    }
}

fn frame(announcement: &Announcement) -> Frame {
    // What is made of strings and numbers can be written.
    let data = serde_json::to_string(announcement).unwrap_or_default();
    Frame::default().event(announcement.name).data(data)
}
