//! `gateway_stream` of `longhaul_fuzz::TARGETS`.

#![no_main]

longhaul_fuzz::fuzz!("gateway_stream");
