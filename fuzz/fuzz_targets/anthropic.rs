//! `anthropic` of `longhaul_fuzz::TARGETS`.

#![no_main]

longhaul_fuzz::fuzz!("anthropic");
