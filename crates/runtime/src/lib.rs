//! See the crate description in `Cargo.toml`.

pub mod config;
pub mod sandbox;
pub mod tools;
pub mod workspace;
