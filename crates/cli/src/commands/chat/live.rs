//! A chat with a person: keys, announcements and time, one after the other.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul::announce::Announcement;
use longhaul::clock::now_ms;
use longhaul::feed::{Announcements, RecvError, Told};
use longhaul_core::run::Status;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::failure::{CANCELLED, DONE, Failure, Outcome};
use crate::offer;
use crate::signals::Interrupts;
use crate::term::happening::{self, Happening};
use crate::term::human::count;
use crate::term::meter::Meter;
use crate::term::out;
use crate::term::transcript::{Setting, Transcript};
use crate::term::wrap::fitting;

use super::approvals::{Answer, Approvals, question};
use super::console::{Console, Typed};
use super::pace::{Heard, SETTLE, TICK, gathered};
use super::paste::{Entered, Pasted};
use super::slash::{Reply, Slash};
use super::status::Activity;
use super::{Next, Talk, words};

/// How long a second Ctrl-C counts as the second.
const TWICE: Duration = Duration::from_secs(2);

struct Live<'a, 'b> {
    talk: &'a mut Talk<'b>,
    console: &'a mut Console,
    transcript: Transcript,
    activity: Activity,
    approvals: Approvals,
    pasted: Pasted,
    meter: Meter,
    work: JoinSet<Outcome<String>>,
    interrupted: Option<Instant>,
    columns: usize,
}

/// Talks until the person leaves or goes elsewhere.
pub(super) async fn talk(talk: &mut Talk<'_>, console: &mut Console, opening: &str) -> Outcome<Next> {
    let watch = talk.session.watch();
    let mut live = Live {
        transcript: Transcript::new(talk.style, Setting::Chat, out::width()).below_something(),
        talk,
        console,
        activity: Activity::default(),
        approvals: Approvals::default(),
        pasted: Pasted::default(),
        meter: Meter::default(),
        work: JoinSet::new(),
        interrupted: None,
        columns: out::columns(),
    };
    live.console.print(&fitting(opening, out::width())).await;
    live.read_meter().await?;
    live.go_on(watch).await
}

impl Live<'_, '_> {
    async fn go_on(&mut self, mut watch: Announcements) -> Outcome<Next> {
        let mut interrupts = Interrupts::listen()?;
        let mut resized = signal(SignalKind::window_change())?;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.show().await;
            let next = tokio::select! {
                typed = self.console.next() => self.typed(typed).await?,
                told = watch.recv() => {
                    self.told(told, &mut watch).await?;
                    None
                }
                Some(done) = self.work.join_next() => self.worked(done.unwrap_or_else(|_| Ok(String::new()))),
                _ = tick.tick() => {
                    self.transcript.beat();
                    None
                }
                _ = resized.recv() => {
                    self.resize().await;
                    None
                }
                () = interrupts.next() => Some(Next::Leave(ExitCode::from(CANCELLED))),
            };
            if let Some(next) = next {
                self.show().await;
                return Ok(next);
            }
        }
    }

    /// The editor must know first, or it erases rows that are not its own.
    async fn resize(&mut self) {
        tokio::time::sleep(SETTLE).await;
        self.columns = out::columns();
        self.transcript.resize(out::width());
    }

    /// Prints what is new and draws the status line.
    async fn show(&mut self) {
        let text = self.transcript.output();
        if !text.is_empty() {
            self.console.print(&text).await;
        }
        if !self.is_busy() && self.work.is_empty() {
            self.activity.rest();
        }
        let asked = self.approvals.first();
        let line = self.activity.line(&self.meter, asked.is_some(), self.columns, self.talk.style, now_ms());
        let mark = match (asked, self.pasted.len()) {
            (Some(call), _) => self.talk.style.amber(&format!("{}? y/n/a › ", call.tool)),
            (None, 0) => self.talk.style.accent("› "),
            (None, lines) => {
                let lines = count(lines as u64, "line");
                let what = if self.pasted.goes_on() { "so far" } else { "pasted, ⏎ sends" };
                self.talk.style.amber(&format!("{lines} {what} › "))
            }
        };
        self.console.prompt(format!("{line}{mark}"));
    }

    fn is_busy(&self) -> bool {
        !matches!(*self.talk.session.status().borrow(), Status::Idle | Status::Parked)
    }

    async fn typed(&mut self, typed: Typed) -> Outcome<Option<Next>> {
        match typed {
            Typed::End => Ok(Some(Next::Leave(DONE))),
            Typed::Interrupt => Ok(self.interrupt()),
            Typed::Line(line) => match self.pasted.take(line, self.console).await {
                Entered::Text(text) => self.entered(&text).await,
                Entered::Held => Ok(None),
                Entered::Other(Typed::Interrupt) => Ok(self.interrupt()),
                Entered::Other(_) => Ok(Some(Next::Leave(DONE))),
            },
        }
    }

    /// Once cancels, twice leaves; a paste that waits is dropped first.
    fn interrupt(&mut self) -> Option<Next> {
        if !self.pasted.is_empty() {
            self.pasted.clear();
            return None;
        }
        let now = Instant::now();
        let again = self.interrupted.replace(now).is_some_and(|before| now - before < TWICE);
        let busy = self.is_busy();
        if again {
            return Some(Next::Leave(if busy { ExitCode::from(CANCELLED) } else { DONE }));
        }
        if busy {
            self.work.spawn(self.talk.cancel());
        } else {
            self.transcript.row(&self.talk.style.dim(words::INTERRUPT_AGAIN));
        }
        None
    }

    async fn entered(&mut self, text: &str) -> Outcome<Option<Next>> {
        if let Some(slash) = Slash::of(text) {
            self.console.remember(text);
            self.transcript.aside(&self.talk.style.dim(&format!("\n› {text}")));
            return Ok(self.command(slash).await);
        }
        if self.approvals.first().is_some() {
            return self.answered(text).await.map(|()| None);
        }
        if text.trim().is_empty() {
            return Ok(None);
        }
        self.console.remember(text);
        match self.talk.send(text).await {
            Ok(sent) if sent.queued => {
                let place = format!("queued {} · /queue shows and changes it", sent.position);
                self.transcript.aside(&format!("  {}", self.talk.style.dim(&place)));
            }
            Ok(_) => {}
            Err(failure) => self.transcript.failure(&words::not_sent(failure.message())),
        }
        self.count_queue().await?;
        Ok(None)
    }

    async fn answered(&mut self, text: &str) -> Outcome<()> {
        let answer = Answer::of(text);
        if answer == Answer::Unclear {
            self.transcript.row(&format!("  {}", self.talk.style.dim(words::ANSWER)));
            return Ok(());
        }
        self.approvals.answer(answer, &self.talk.session).await?;
        self.ask_next();
        Ok(())
    }

    fn ask_next(&mut self) {
        if let Some(call) = self.approvals.first() {
            let asked = question(call, out::width(), self.talk.style);
            self.transcript.row(&asked);
        }
    }

    async fn command(&mut self, slash: Slash) -> Option<Next> {
        match self.talk.perform(slash).await {
            Ok(Reply::Text(text)) => self.reply(&text),
            Ok(Reply::Work(work)) => {
                self.work.spawn(work);
            }
            Ok(Reply::Next(next)) => return Some(next),
            Err(failure) => self.transcript.failure(failure.message()),
        }
        let _ = self.count_queue().await;
        let _ = self.read_meter().await;
        None
    }

    fn reply(&mut self, text: &str) {
        if !text.is_empty() {
            self.transcript.aside(&fitting(text, out::width()));
        }
    }

    fn worked(&mut self, done: Outcome<String>) -> Option<Next> {
        match done {
            Ok(text) => self.reply(&text),
            Err(failure) => self.transcript.failure(failure.message()),
        }
        None
    }

    async fn told(&mut self, told: Result<Arc<Told>, RecvError>, watch: &mut Announcements) -> Outcome<()> {
        for heard in gathered(told, watch)? {
            match heard {
                Heard::Told(announcement) => self.take(&announcement).await?,
                Heard::Missed(missed) => self.transcript.warning(&words::missed(missed)),
            }
        }
        Ok(())
    }

    async fn take(&mut self, announcement: &Announcement) -> Outcome<()> {
        let Some(mut happening) = happening::of_announcement(announcement) else { return Ok(()) };
        offer::complete(&self.talk.session, &mut happening).await;
        match &happening {
            Happening::Usage | Happening::Omitted { .. } | Happening::Restored { .. } => {
                self.read_meter().await?
            }
            Happening::Dequeued { .. } => self.count_queue().await?,
            Happening::Decided { approval_id } => self.approvals.close(approval_id),
            Happening::RunEnded(_) => self.approvals.clear(),
            Happening::Broken { message } => {
                return Err(Failure::new(words::broken(message)));
            }
            Happening::Asked { approval_id, call } => {
                let first = self.approvals.first().is_none();
                let open = self.approvals.ask(approval_id, call.clone(), &self.talk.session).await?;
                if open && first {
                    self.ask_next();
                }
            }
            _ => {}
        }
        let now = now_ms();
        self.activity.take(&happening, now);
        self.transcript.take(&happening, now);
        Ok(())
    }

    async fn read_meter(&mut self) -> Outcome<()> {
        self.meter = Meter::of(&self.talk.session.context().await?);
        Ok(())
    }

    async fn count_queue(&mut self) -> Outcome<()> {
        let waiting = self.talk.session.queue().await?.len();
        self.activity.queued = if self.is_busy() { waiting } else { 0 };
        Ok(())
    }
}
