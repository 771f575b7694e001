//! The first processors of a pipeline as one program over the top-level fields of an event: JSON in, JSON out.
//!
//! What it writes is what `calve.processors` writes, byte for byte; what it cannot know for certain it leaves to it.

mod edit;
mod event;

use crate::convert::Events;
use crate::export::Texts;
use crate::parse::{Fast, NeedsExact};
use crate::spec::Spec;
use edit::Edit;
use event::Event;
use std::collections::{HashMap, HashSet};

/// So many values of a condition are remembered.
const MOST_VALUES: usize = 20_000;

/// What became of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It has the bytes that it had.
    Same = 0,
    Changed = 1,
    Dropped = 2,
    /// The processors in Python do all of it.
    NeedsExact = 3,
}

pub struct Program {
    /// The names that steps and conditions speak of; other parts have their numbers.
    names: Vec<Vec<u8>>,
    conditions: Vec<Condition>,
    steps: Vec<(Option<usize>, Step)>,
}

enum Step {
    Drop,
    Edit(Edit),
}

/// A condition, which Python evaluates once for each choice of the fields that it reads.
struct Condition {
    fields: Vec<usize>,
    /// By the fields as one object.
    values: HashMap<Vec<u8>, bool>,
    asked: HashSet<Vec<u8>>,
}

/// Of each event its `End` and its text (none of one that is dropped or left), and the objects whose values are asked for,
/// with the numbers of the conditions. Of these the events are left for now.
#[derive(Default)]
pub struct Ran {
    pub ends: Vec<i32>,
    pub texts: Texts,
    pub conditions: Vec<i64>,
    pub asked: Vec<Vec<u8>>,
}

impl Program {
    pub fn new(spec: &mut Spec) -> Option<Program> {
        let names = (0..spec.number()?).map(|_| Some(spec.text()?.as_bytes().to_vec())).collect::<Option<Vec<_>>>()?;
        let conditions = (0..spec.number()?)
            .map(|_| {
                Some(Condition { fields: spec.numbers(names.len())?, values: HashMap::new(), asked: HashSet::new() })
            })
            .collect::<Option<Vec<_>>>()?;
        let steps = (0..spec.number()?)
            .map(|_| {
                let when = match spec.text()? {
                    "" => None,
                    number => Some(number.parse().ok().filter(|&number: &usize| number < conditions.len())?),
                };
                let step = match spec.text()? {
                    "drop" => Step::Drop,
                    kind => Step::Edit(Edit::new(kind, spec, names.len())?),
                };
                Some((when, step))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Program { names, conditions, steps })
    }

    /// Remembers the values of a condition for some choices of its fields.
    pub fn learn(&mut self, condition: usize, choices: &impl Events, values: &[u8]) {
        let Some(condition) = self.conditions.get_mut(condition) else { return };
        if condition.values.len() > MOST_VALUES {
            condition.values.clear();
        }
        for (row, value) in values.iter().enumerate().take(choices.count()) {
            condition.values.extend(choices.text(row).map(|choice| (choice.to_vec(), *value != 0)));
        }
    }

    pub fn run(&mut self, events: &impl Events) -> Ran {
        let mut ran = Ran {
            ends: Vec::with_capacity(events.count()),
            texts: Texts::with_capacity(events.count(), events.bytes() / 4 * 5),
            ..Ran::default()
        };
        let (mut event, mut choice) = (Event::new(&self.names), vec![]);
        for row in 0..events.count() {
            let text = events.text(row);
            let end = text.map_or(Err(NeedsExact), |text| {
                event.read(text)?;
                process(&self.steps, &mut self.conditions, &mut event, &mut choice)
            });
            let end = end.and_then(|end| match end {
                End::Same => ran.texts.push(text).map(|()| end).map_err(|_| NeedsExact),
                End::Changed => ran.texts.write(|out| event.write(out)).map(|()| end),
                _ => {
                    ran.texts.push_null();
                    Ok(end)
                }
            });
            if end.is_err() {
                ran.texts.push_null();
            }
            ran.ends.push(end.unwrap_or(End::NeedsExact) as i32);
        }
        for (number, condition) in self.conditions.iter_mut().enumerate() {
            for choice in condition.asked.drain() {
                ran.conditions.push(number as i64);
                ran.asked.push(choice);
            }
        }
        ran
    }
}

fn process(
    steps: &[(Option<usize>, Step)],
    conditions: &mut [Condition],
    event: &mut Event,
    choice: &mut Vec<u8>,
) -> Fast<End> {
    let mut end = End::Same;
    for (when, step) in steps {
        if let Some(number) = when {
            if !conditions[*number].value(event, choice)? {
                continue;
            }
        }
        match step {
            Step::Drop => return Ok(End::Dropped),
            Step::Edit(edit) => {
                if edit.apply(event)? {
                    end = End::Changed;
                }
            }
        }
    }
    Ok(end)
}

impl Condition {
    /// The value for an event; where it is not known it is asked for.
    fn value(&mut self, event: &Event, choice: &mut Vec<u8>) -> Fast<bool> {
        choice.clear();
        event.choose(&self.fields, choice);
        match self.values.get(choice) {
            Some(value) => Ok(*value),
            None => {
                if !self.asked.contains(choice) {
                    self.asked.insert(choice.clone());
                }
                Err(NeedsExact)
            }
        }
    }
}
