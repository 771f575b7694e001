//! What is not decided here.

/// The event is not decided here: it is no JSON object, or it holds what only the exact converter decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeedsExact;

pub type Fast<T> = Result<T, NeedsExact>;
