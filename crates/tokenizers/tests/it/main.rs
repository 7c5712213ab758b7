//! Exact counts against the reference implementations, worst cases, the cache, and how near the estimate comes.

#[cfg(test)]
mod accuracy;
#[cfg(test)]
mod agreement;
#[cfg(test)]
mod cached;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod families;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod json;
#[cfg(test)]
mod models;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod unknown;
