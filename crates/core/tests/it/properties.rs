//! Properties of histories and plans.
