//! The gateway before a scripted upstream.

mod passing;
mod shortening;
mod streaming;
mod trouble;
mod upstream;
