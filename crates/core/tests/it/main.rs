//! The core as a whole: properties of the pure functions against real and random data, and simulated sessions.

#[cfg(test)]
mod adaptive;
#[cfg(test)]
mod coalesce;
#[cfg(test)]
mod endless;
#[cfg(test)]
mod estimate;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod exchanges;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod handles;
#[cfg(test)]
mod middle;
#[cfg(test)]
mod overflows;
#[cfg(test)]
mod pausing;
#[cfg(test)]
mod pool;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod pruning;
#[cfg(test)]
mod recall;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod reports;
mod rng;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod system_messages;
#[cfg(test)]
mod text;
#[cfg(test)]
mod truncate;
#[cfg(test)]
mod unread;
#[cfg(test)]
mod validity;
#[cfg(test)]
mod windows;

/// Cases of a property: `PROPTEST_CASES`, or the usual number.
fn cases(usual: u32) -> u32 {
    std::env::var_os("PROPTEST_CASES").and_then(|text| text.to_str()?.parse().ok()).unwrap_or(usual)
}
