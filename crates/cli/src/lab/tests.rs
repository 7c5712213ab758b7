//! The lab as a whole: recordings small enough to be reckoned by hand, and long ones made by a program.

mod billing;
mod many;
mod needs;
mod ours;
mod pieces;
mod reading;
mod score;
mod script;
mod synthetic;
