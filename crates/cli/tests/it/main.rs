//! The real binary against a model server of the test's own.

mod bench;
mod chat;
mod config;
mod fake;
mod run;
mod sessions;
