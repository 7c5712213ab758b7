//! Systems without process tags: processes outside of their group cannot be found.

use rustix::process::Pid;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessTagFamily;

impl ProcessTagFamily {
    pub(super) fn of(_: Uuid) -> Self {
        Self
    }

    pub(super) fn mark(self) -> Option<ProcessTag> {
        None
    }

    pub(super) fn end(self) -> RemainingProcesses {
        RemainingProcesses::None
    }

    pub(super) fn end_soon(self) -> RemainingProcesses {
        RemainingProcesses::None
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessTag;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemainingProcesses {
    None,
    #[expect(dead_code, reason = "nothing is looked for here")]
    Some,
}

pub(super) fn is_possible() -> bool {
    false
}

impl ProcessTag {
    pub(super) fn end(self, _: Pid) -> RemainingProcesses {
        RemainingProcesses::None
    }

    pub(super) fn end_at_leisure(self) {}
}
