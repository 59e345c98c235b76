//! This tracer's three ways to record a function, with the same settings as for messages.

use super::{FunctionRecorder, Recorded};
use crate::Outcome;
use crate::loggers::Recorder;
use crate::loggers::tracer::Macro as Messages;
use std::path::Path;
use tracer::{scope, traced};

/// The beginning of the text that a merged file has for a function whose address is recorded.
pub const ADDRESS: &str = "0x";
/// The beginning of the text that a merged file has for a function whose name is recorded.
pub const NAME: &str = "peers::functions::tracer::";

/// The recorder of a function with `tracer::scope()`.
pub struct Guard(Messages);

#[inline(never)]
fn with_guard(n: u64) -> u64 {
    let _scope = tracer::scope();
    n + 1
}

/// The recorder of a function with `scope!()`.
pub struct Macro(Messages);

#[inline(never)]
fn with_macro(n: u64) -> u64 {
    let _scope = scope!();
    n + 1
}

/// The recorder of a function with `#[traced]`.
pub struct Attribute(Messages);

#[traced]
#[inline(never)]
fn with_attribute(n: u64) -> u64 {
    n + 1
}

macro_rules! records {
    ($recorder:ident, $function:ident) => {
        impl Recorder for $recorder {
            fn start(directory: &Path) -> Outcome<$recorder> {
                Messages::start(directory).map($recorder)
            }

            fn finish(self) -> Outcome<()> {
                self.0.finish()
            }
        }

        impl FunctionRecorder for $recorder {
            #[inline(always)]
            fn call(&self, n: u64) -> u64 {
                $function(n)
            }
        }
    };
}

records!(Guard, with_guard);
records!(Macro, with_macro);
records!(Attribute, with_attribute);

/// Counts the records of entering and leaving functions in a merged file. A record whose text does not begin with
/// `what` is wrong.
pub fn recorded(merged: &str, what: &str) -> Recorded {
    let mut recorded = Recorded::default();
    for line in merged.lines() {
        let mut words = line.splitn(3, ' ').skip(1);
        let count = match words.next() {
            Some(">") => &mut recorded.entered,
            Some("<") => &mut recorded.left,
            _ => continue,
        };
        *count += 1;
        recorded.wrong += u64::from(!words.next().is_some_and(|text| text.starts_with(what)));
    }
    recorded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enter_and_leave_records_are_counted_separately() {
        let merged = "1-2 # run\n1-2 > 0x17\n2-2 : > 0x17\n2-2 < 0x17\n3-2 > main\n";
        assert_eq!(recorded(merged, ADDRESS), Recorded { entered: 2, left: 1, wrong: 1 });
    }
}
