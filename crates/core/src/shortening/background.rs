//! The background summary of a gateway's conversation, from its first draft to its use.

use super::MissingSummaryCause;

/// The time after which another summary of one beginning starts, in seconds: another conversation may begin in the
/// same way.
// Some clients end their history with a reminder that differs each time. Their conversations seem to begin alike, and
// get one summary in this time (decision 0048).
const START_AGAIN_AFTER_SECS: u64 = 600;

/// The purpose of a background summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryPurpose {
    /// The summary replaces an extract.
    ReplaceExtract,
    /// The summary is written before the view is full.
    AheadOfNeed,
}

/// The facts about a fitted request that decide about a background summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FittedViewFacts {
    /// `true` if the view was edited for this request.
    pub is_edited: bool,
    /// `true` if requests wait for their summaries.
    pub waits: bool,
    /// `true` if the summary of an extract is due.
    pub is_extract_due: bool,
    /// `true` if this request has collected a written summary for an extract.
    pub has_collected_summary: bool,
    /// `true` if a summary ahead of need may begin, by [`BackgroundConditions`](super::BackgroundConditions).
    pub may_start_ahead: bool,
}

/// The newest summary ahead of need of conversations with one beginning.
///
/// Some clients change the end of their history with each request, so that each request begins a conversation of its
/// own. All together get one summary for each edit of their common beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryStart {
    /// The number of edits of the view at the start.
    pub edits: usize,
    /// The time of the start, in seconds since 1970.
    pub at: u64,
}

impl SummaryStart {
    /// Returns whether this start makes another one useless for now.
    pub fn precludes(self, other: Self) -> bool {
        other.edits <= self.edits && self.is_recent(other.at)
    }

    /// Returns whether the start still counts at `now`, in seconds since 1970.
    pub fn is_recent(self, now: u64) -> bool {
        self.at <= now && now - self.at < START_AGAIN_AFTER_SECS
    }
}

/// An input of a background summary: a request of the conversation, or the outcome of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackgroundSummaryInput {
    /// A request of the conversation arrives.
    RequestCame {
        /// `true` if an extract of the view waits for its summary.
        has_extract: bool,
    },
    /// The request was made to fit.
    RequestFitted(FittedViewFacts),
    /// The stored edits of the conversation were adopted where they are better.
    StoredEditsAdopted {
        /// `true` if the summary of an extract is still due.
        is_extract_due: bool,
    },
    /// Tells whether there is something to summarise that is worth a call.
    Drafted(bool),
    /// The looked-up summaries of others are known.
    OthersLookedUp {
        /// `true` if another request or process has the summary, or has just failed at it.
        is_settled: bool,
    },
    /// The request is over, and no other conversation with the same beginning writes a summary.
    TurnCame {
        /// `true` if the upstream has answered the request.
        is_answered: bool,
    },
    /// The hook has answered, or there is none.
    HookAnswered {
        /// `true` if the hook cancels the compaction.
        is_cancelled: bool,
    },
    /// The writing has ended.
    Written(Result<(), MissingSummaryCause>),
    /// The outcome is stored.
    Stored,
    /// The task has ended without an outcome: it was cut off, or gave up.
    CutOff,
}

/// An effect of a background summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackgroundSummaryEffect {
    /// Add the cost of the finished summary to the request.
    ChargeRequest,
    /// Note a failure at the waiting extracts of the view.
    NoteFailure(MissingSummaryCause),
    /// Keep the written summary until the view is full.
    KeepForFullView,
    /// Use the written summary for the waiting extract.
    OfferForExtract,
    /// Adopt the stored edits. Ends with
    /// [`StoredEditsAdopted`](BackgroundSummaryInput::StoredEditsAdopted).
    AdoptStoredEdits,
    /// Put the summary of the extract off after another failed attempt.
    PutOff(MissingSummaryCause),
    /// Draft the summary. Ends with [`Drafted`](BackgroundSummaryInput::Drafted).
    MakeDraft(SummaryPurpose),
    /// Look whether others have the summary. Ends with [`OthersLookedUp`](BackgroundSummaryInput::OthersLookedUp).
    LookUpOthers(SummaryPurpose),
    /// Start a task that waits for the end of the request and for its turn. Ends with
    /// [`TurnCame`](BackgroundSummaryInput::TurnCame).
    StartTask(SummaryPurpose),
    /// Ask the hook about the summary. Ends with [`HookAnswered`](BackgroundSummaryInput::HookAnswered).
    AskHook,
    /// Keep the hook's cancellation for later requests.
    KeepCancellation,
    /// Write the summary. Ends with [`Written`](BackgroundSummaryInput::Written), and
    /// [`Stored`](BackgroundSummaryInput::Stored) follows the effects of that.
    Write,
    /// Add to the writer's record whether it wrote a summary.
    RecordWriter {
        /// `true` for a summary, `false` for an answer that was none.
        is_summary: bool,
    },
    /// Store the summary for later requests.
    Store(SummaryPurpose),
    /// Store the failure at the extracts of the log, as it was when the summary was found due.
    StoreFailure(MissingSummaryCause),
}

/// The state of a conversation's background summary. One is written at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundSummaryState {
    stage: BackgroundStage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BackgroundStage {
    #[default]
    Idle,
    /// Stored edits are adopted before a summary is begun.
    Adopting {
        has_collected_summary: bool,
    },
    Drafting(SummaryPurpose),
    /// A summary ahead of need is looked for elsewhere before its task starts.
    LookingUp,
    /// A task waits for the end of its request and for its turn.
    Queued(SummaryPurpose),
    /// A summary for an extract is looked for elsewhere before it is written.
    LookingAgain,
    AskingHook,
    Writing(SummaryPurpose),
    /// The outcome is stored. A request that collected it before would not find the summary.
    Storing(SummaryPurpose, Result<(), MissingSummaryCause>),
    /// No request has collected the outcome yet.
    Finished(SummaryPurpose, Result<(), MissingSummaryCause>),
}

impl BackgroundSummaryState {
    /// Returns whether a request or a task works on a summary now.
    pub fn is_working(self) -> bool {
        !matches!(self.stage, BackgroundStage::Idle | BackgroundStage::Finished(..))
    }

    /// Takes an input and returns the effects to perform, in order.
    ///
    /// An input that does not belong to the present stage changes nothing and returns no effect.
    pub fn handle(&mut self, input: BackgroundSummaryInput) -> Vec<BackgroundSummaryEffect> {
        match (self.stage, input) {
            (
                BackgroundStage::Finished(purpose, outcome),
                BackgroundSummaryInput::RequestCame { has_extract },
            ) => self.hand_over(purpose, outcome, has_extract),
            (BackgroundStage::Idle, BackgroundSummaryInput::RequestFitted(facts)) => self.look_for_work(facts),
            (
                BackgroundStage::Adopting { has_collected_summary },
                BackgroundSummaryInput::StoredEditsAdopted { is_extract_due },
            ) => match (is_extract_due, has_collected_summary) {
                (false, _) => self.give_up(),
                // The summary was written but did not improve the view. The same one again would be a waste.
                (true, true) => self.put_off(MissingSummaryCause::Rejected),
                (true, false) => self.make_draft(SummaryPurpose::ReplaceExtract),
            },
            (BackgroundStage::Drafting(SummaryPurpose::ReplaceExtract), BackgroundSummaryInput::Drafted(true)) => {
                self.start_task(SummaryPurpose::ReplaceExtract)
            }
            // The next attempt must wait, or each request would look for something to summarise again.
            (BackgroundStage::Drafting(SummaryPurpose::ReplaceExtract), BackgroundSummaryInput::Drafted(false)) => {
                self.put_off(MissingSummaryCause::Away)
            }
            (BackgroundStage::Drafting(SummaryPurpose::AheadOfNeed), BackgroundSummaryInput::Drafted(true)) => {
                self.stage = BackgroundStage::LookingUp;
                vec![BackgroundSummaryEffect::LookUpOthers(SummaryPurpose::AheadOfNeed)]
            }
            (BackgroundStage::LookingUp, BackgroundSummaryInput::OthersLookedUp { is_settled: false }) => {
                self.start_task(SummaryPurpose::AheadOfNeed)
            }
            (BackgroundStage::Queued(purpose), BackgroundSummaryInput::TurnCame { is_answered: true }) => {
                self.check_once_more(purpose)
            }
            (BackgroundStage::LookingAgain, BackgroundSummaryInput::OthersLookedUp { is_settled: false }) => {
                self.write(SummaryPurpose::ReplaceExtract)
            }
            (BackgroundStage::AskingHook, BackgroundSummaryInput::HookAnswered { is_cancelled: false }) => {
                self.write(SummaryPurpose::AheadOfNeed)
            }
            (BackgroundStage::AskingHook, BackgroundSummaryInput::HookAnswered { is_cancelled: true }) => {
                self.stage = BackgroundStage::Idle;
                vec![BackgroundSummaryEffect::KeepCancellation]
            }
            (BackgroundStage::Writing(purpose), BackgroundSummaryInput::Written(outcome)) => {
                self.store(purpose, outcome)
            }
            (BackgroundStage::Storing(purpose, outcome), BackgroundSummaryInput::Stored) => {
                self.stage = BackgroundStage::Finished(purpose, outcome);
                Vec::new()
            }
            // An outcome that no request has collected yet must not be lost.
            (BackgroundStage::Finished(..), _) => Vec::new(),
            (
                _,
                BackgroundSummaryInput::Drafted(false)
                | BackgroundSummaryInput::OthersLookedUp { is_settled: true }
                // An upstream that has not answered the client would probably refuse a summary, too.
                | BackgroundSummaryInput::TurnCame { is_answered: false }
                | BackgroundSummaryInput::CutOff,
            ) => self.give_up(),
            _ => Vec::new(),
        }
    }

    /// Gives the outcome to the request that came.
    fn hand_over(
        &mut self,
        purpose: SummaryPurpose,
        outcome: Result<(), MissingSummaryCause>,
        has_extract: bool,
    ) -> Vec<BackgroundSummaryEffect> {
        self.stage = BackgroundStage::Idle;
        // No request waited for the summary, so its cost goes to the next one.
        let mut effects = vec![BackgroundSummaryEffect::ChargeRequest];
        effects.push(match outcome {
            // The failure is noted at the extracts, so that they are not due again at once.
            Err(cause) => BackgroundSummaryEffect::NoteFailure(cause),
            Ok(()) if purpose == SummaryPurpose::AheadOfNeed && !has_extract => {
                BackgroundSummaryEffect::KeepForFullView
            }
            // An extract was made while the summary was written, and the summary serves there, too.
            Ok(()) => BackgroundSummaryEffect::OfferForExtract,
        });
        effects
    }

    /// Decides whether a fitted request starts a summary.
    fn look_for_work(&mut self, facts: FittedViewFacts) -> Vec<BackgroundSummaryEffect> {
        let collects = facts.has_collected_summary && !facts.is_edited;
        // Where requests wait, the one with the edit has waited for its summary already.
        let replaces = facts.is_extract_due && (!facts.is_edited || !facts.waits);
        if collects || replaces {
            self.stage = BackgroundStage::Adopting { has_collected_summary: collects };
            // Another request, or another process, may have stored the summary meanwhile.
            return vec![BackgroundSummaryEffect::AdoptStoredEdits];
        }
        if facts.may_start_ahead && !facts.waits {
            return self.make_draft(SummaryPurpose::AheadOfNeed);
        }
        Vec::new()
    }

    fn make_draft(&mut self, purpose: SummaryPurpose) -> Vec<BackgroundSummaryEffect> {
        self.stage = BackgroundStage::Drafting(purpose);
        vec![BackgroundSummaryEffect::MakeDraft(purpose)]
    }

    fn start_task(&mut self, purpose: SummaryPurpose) -> Vec<BackgroundSummaryEffect> {
        self.stage = BackgroundStage::Queued(purpose);
        vec![BackgroundSummaryEffect::StartTask(purpose)]
    }

    fn check_once_more(&mut self, purpose: SummaryPurpose) -> Vec<BackgroundSummaryEffect> {
        match purpose {
            SummaryPurpose::ReplaceExtract => {
                self.stage = BackgroundStage::LookingAgain;
                vec![BackgroundSummaryEffect::LookUpOthers(purpose)]
            }
            // The hook was asked about the extract's edit before. A summary ahead of need is asked about when written.
            SummaryPurpose::AheadOfNeed => {
                self.stage = BackgroundStage::AskingHook;
                vec![BackgroundSummaryEffect::AskHook]
            }
        }
    }

    fn write(&mut self, purpose: SummaryPurpose) -> Vec<BackgroundSummaryEffect> {
        self.stage = BackgroundStage::Writing(purpose);
        vec![BackgroundSummaryEffect::Write]
    }

    fn store(
        &mut self,
        purpose: SummaryPurpose,
        outcome: Result<(), MissingSummaryCause>,
    ) -> Vec<BackgroundSummaryEffect> {
        self.stage = BackgroundStage::Storing(purpose, outcome);
        match outcome {
            Ok(()) => vec![
                BackgroundSummaryEffect::RecordWriter { is_summary: true },
                BackgroundSummaryEffect::Store(purpose),
            ],
            Err(cause) => {
                let record = BackgroundSummaryEffect::RecordWriter { is_summary: false };
                let record = cause.counts_against_writer().then_some(record);
                record.into_iter().chain([BackgroundSummaryEffect::StoreFailure(cause)]).collect()
            }
        }
    }

    fn put_off(&mut self, cause: MissingSummaryCause) -> Vec<BackgroundSummaryEffect> {
        self.stage = BackgroundStage::Idle;
        vec![BackgroundSummaryEffect::PutOff(cause)]
    }

    fn give_up(&mut self) -> Vec<BackgroundSummaryEffect> {
        self.stage = BackgroundStage::Idle;
        Vec::new()
    }
}
