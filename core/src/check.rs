//! Whether events are JSON objects that every reader takes for the same.

use crate::parse::{Fast, Parser};

/// Whether an event is a JSON object in which no object repeats a key, and no text is half a surrogate pair.
pub fn is_plain(event: &[u8]) -> bool {
    let mut parser = Parser::new(event);
    parser.whole(unique).is_ok()
}

fn unique(parser: &mut Parser) -> Fast<()> {
    parser.skip_unique()
}
