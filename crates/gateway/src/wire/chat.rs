//! OpenAI's Chat Completions.
