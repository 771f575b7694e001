//! The fields of many events, joined into one tree of kinds.

use crate::check;
use crate::convert::Events;
use crate::export::{self, Array};
use crate::infer::{Kind, Node, Seen};
use crate::object_columns::{Names, ObjectColumns};
use crate::parse::{Fast, NeedsExact, Parser};

/// Finds the fields of events, or those of them that a table has no columns for.
pub struct Observer {
    root: Node,
    names: Names,
}

/// What fields events have, as `Node.to_json` writes it; the positions of events that are not among them, as only the
/// exact reader knows; and whether it is not all there is to know.
pub struct Observed {
    pub fields: Array,
    pub left: Array,
    pub lost: bool,
}

impl Observer {
    /// A table without columns stands for none: then all fields are of interest.
    pub fn new(level: ObjectColumns) -> Observer {
        let root = if level.columns.is_empty() { Node::default() } else { level.known() };
        Observer { root, names: level.names }
    }

    pub fn observe(&mut self, events: &impl Events) -> Observed {
        let (lost, left) = self.look(events, false).or_else(|_| self.look(events, true)).unwrap_or((true, vec![]));
        let mut fields = Vec::new();
        if !self.root.write(&mut fields) {
            fields.extend(b"\"known\"");
        }
        Observed { fields: export::texts(&[fields]), left: export::longs(left), lost }
    }

    /// Looks at all events, or first whether each is plain: else one that is not spoils what was seen.
    fn look(&mut self, events: &impl Events, is_careful: bool) -> Fast<(bool, Vec<i64>)> {
        self.root.forget();
        if self.root.kind == Kind::Null {
            self.root.kind = Kind::Struct;
        }
        let (mut seen, mut left) = (Seen::default(), Vec::new());
        for row in 0..events.count() {
            match events.text(row) {
                Some(event) if !is_careful => self.take(event, &mut seen)?,
                Some(event) if check::is_plain(event) => seen.lost |= self.take(event, &mut seen).is_err(),
                _ if is_careful => left.push(row as i64),
                _ => return Err(NeedsExact),
            }
        }
        Ok((seen.lost, left))
    }

    fn take(&mut self, event: &[u8], seen: &mut Seen) -> Fast<()> {
        let (root, names) = (&mut self.root, &self.names);
        root.begin();
        Parser::new(event).whole(|parser| {
            parser.object(|parser, key| {
                if key.with(|name| names.leave_out(name))? {
                    return parser.skip();
                }
                root.field(parser, key, seen)
            })
        })
    }
}
