//! `openai_responses` of `longhaul_fuzz::TARGETS`.

#![no_main]

longhaul_fuzz::fuzz!("openai_responses");
