//! The gateway before a scripted upstream.

mod crossing;
mod passing;
mod shortening;
mod streaming;
mod trouble;
mod upstream;
