use crate::lab::synthetic;
use longhaul_core::event::{FORMAT, StepKind, ViewEdit, ViewOperation};
use longhaul_core::ids::{LogRange, Seq};

use super::*;
use crate::sample;

/// A log that events are added to.
struct Log(Vec<Event>);

impl Log {
    fn long() -> Self {
        Self(synthetic::support(1, 60).unwrap().events)
    }

    fn add(&mut self, body: EventBody) -> Seq {
        let seq = self.0.len() as Seq + 1;
        self.0.push(Event { seq, at: 0, format: FORMAT, body });
        seq
    }

    /// Leaves out what stands up to `to`.
    fn leave_out(&mut self, to: Seq) -> String {
        let id = format!("e{}", self.0.len() + 1);
        let ops = vec![ViewOperation::Drop { range: LogRange { from: 2, to } }];
        let edit = ViewEdit { id: id.as_str().into(), ops, ..sample::edit() };
        self.add(EventBody::ViewEdited(Box::new(edit)));
        id
    }

    fn call_with(&mut self, window_tokens: u64) {
        let start = StepStart {
            step_id: "s1".into(),
            run_id: "r".into(),
            purpose: StepKind::Main,
            model: longhaul_core::message::ModelOrigin {
                provider: String::new(),
                api: String::new(),
                model: String::new(),
            },
            system_hash: String::new(),
            tools_hash: String::new(),
            view_hash: String::new(),
            fixed_tokens: 500,
            estimated_input: 0,
            max_output_tokens: 1_000,
            window_tokens: Some(window_tokens),
        };
        self.add(EventBody::StepStarted(Box::new(start)));
    }
}

#[test]
fn an_undo_is_offered_where_it_would_be_accepted() {
    let mut log = Log::long();
    let first = log.leave_out(20);
    assert_eq!(
        undo_options_of_log(&log.0)[&first],
        UndoOption::Newest,
        "without a call nobody knows the room"
    );
    let second = log.leave_out(60);
    let offers = undo_options_of_log(&log.0);
    assert_eq!(offers[&first], UndoOption::After(second.clone()));
    assert_eq!(offers[&second], UndoOption::Newest);
    log.add(EventBody::ViewRestored { edit_id: second.as_str().into() });
    let offers = undo_options_of_log(&log.0);
    assert_eq!(offers[&second], UndoOption::Refused("undone since"));
    assert_eq!(offers[&first], UndoOption::Newest);
}

#[test]
fn what_would_not_fit_is_not_offered() {
    for (window, expected) in [(4_000, UndoOption::Refused("no room to undo")), (400_000, UndoOption::Newest)]
    {
        let mut log = Log::long();
        let edit = log.leave_out(60);
        log.call_with(window);
        assert_eq!(undo_options_of_log(&log.0)[&edit], expected, "a window of {window}");
    }
}
