//! `openai_chat` of `longhaul_fuzz::TARGETS`.

#![no_main]

longhaul_fuzz::fuzz!("openai_chat");
