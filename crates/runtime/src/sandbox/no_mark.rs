//! Where no process can be marked: nothing knows what left its group.

use rustix::process::Pid;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family;

impl Family {
    pub(super) fn of(_: Uuid) -> Self {
        Self
    }

    pub(super) fn mark(self) -> Option<Mark> {
        None
    }

    pub(super) fn end(self) -> Left {
        Left::None
    }

    pub(super) fn end_soon(self) -> Left {
        Left::None
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mark;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    None,
    #[expect(dead_code, reason = "nothing is looked for here")]
    Some,
}

pub(super) fn is_possible() -> bool {
    false
}

impl Mark {
    pub(super) fn end(self, _: Pid) -> Left {
        Left::None
    }

    pub(super) fn end_at_leisure(self) {}
}
