//! The lab as a whole: recordings small enough to be reckoned by hand, and long ones made by a program.

#[cfg(test)]
mod billing;
#[cfg(test)]
mod many;
#[cfg(test)]
mod needs;
#[cfg(test)]
mod ours;
#[cfg(test)]
mod pieces;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod score;
#[cfg(test)]
mod script;
#[cfg(test)]
mod synthetic;
