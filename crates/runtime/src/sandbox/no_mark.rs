//! Where no process can be marked: nothing knows what left its group.

use rustix::process::Pid;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family;

impl Family {
    pub(super) fn of(_: Uuid) -> Self {
        Self
    }

    pub(super) fn mark(self) -> Mark {
        Mark
    }

    pub(super) fn end(self) {}
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mark;

impl Mark {
    pub(super) fn end(self, _: Pid) {}
}
