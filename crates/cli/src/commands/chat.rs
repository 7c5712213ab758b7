//! placeholder
use crate::args::ChatArgs;
use crate::failure::Outcome;
use crate::place::Place;
pub(crate) async fn run(_args: ChatArgs, _place: &Place) -> Outcome { Ok(crate::failure::DONE) }
