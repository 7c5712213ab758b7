//! Hash tables for many short texts.
//!
//! The tables' hasher has no random seed, and no result depends on the order of a table: equal inputs give equal
//! outputs. A tree of texts compares about fifteen texts for each look-up, and long sessions look up millions of
//! words.

#![expect(clippy::disallowed_types, reason = "the hasher has no random seed, and nobody sees the order")]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};

/// Values by text.
pub(crate) type TextTable<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// Distinct texts.
pub(crate) type TextSet = HashSet<Box<str>, BuildHasherDefault<DefaultHasher>>;
