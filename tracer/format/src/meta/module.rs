//! The module table, which names the file of the code at an address: `# module`, `# unloaded` and `# missed`
//! lines.
//!
//! The tracer reads the list of mapped files now and then. So it knows two readings for each change: the last one
//! before the change, and the first one after it. Between these, the module at an address is uncertain.

use std::fmt::Write as _;

use crate::line::Ticks;
use crate::meta::payload::{PayloadReader, PayloadWriter};

/// Two successive readings of the list of modules, between which a change has happened: a module was loaded or
/// unloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Between {
    /// The ticks of the last reading before the change; 0 if there was no earlier reading.
    pub after: Ticks,
    /// The ticks of the first reading that shows the change.
    pub seen: Ticks,
}

impl Between {
    pub(super) fn write(self, fields: &mut PayloadWriter<'_>) {
        fields.number("after", self.after.0).number("seen", self.seen.0);
    }

    pub(super) fn of(fields: &PayloadReader<'_>) -> Option<Between> {
        Some(Between { after: Ticks(fields.number("after")?), seen: Ticks(fields.number("seen")?) })
    }
}

/// The addresses from `start` up to, but not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    /// The first address of the range.
    pub start: u64,
    /// The address after the last one of the range.
    pub end: u64,
}

/// The content of a `# module` line: a file that is mapped as code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// The addresses at which the file is mapped: from its first segment with code to the end of its last one.
    pub range: AddressRange,
    /// The load bias, `dlpi_addr` of `dl_iterate_phdr`: an address minus the bias, modulo 2⁶⁴, is the address in
    /// the file's own symbols.
    pub bias: u64,
    /// The file's GNU build-id; empty if the file has none.
    pub build_id: Vec<u8>,
    /// The file's path, as bytes; empty if the module has no file.
    pub path: Vec<u8>,
    /// The two readings between which the file was mapped.
    pub loaded: Between,
}

impl AddressRange {
    /// Returns whether `address` is in the range.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    pub(super) fn write(&self, fields: &mut PayloadWriter<'_>) {
        fields.address("start", self.start).address("end", self.end);
    }

    pub(super) fn of(fields: &PayloadReader<'_>) -> Option<AddressRange> {
        Some(AddressRange { start: fields.address("start")?, end: fields.address("end")? })
    }
}

impl Module {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut fields = PayloadWriter::new(out, "module");
        self.range.write(&mut fields);
        let build_id = self.build_id.iter().fold(String::new(), |mut digits, byte| {
            // Writing to a `String` does not fail.
            let _ = write!(digits, "{byte:02x}");
            digits
        });
        fields.address("bias", self.bias).bare("build_id", &build_id).quoted("path", &self.path);
        self.loaded.write(&mut fields);
    }

    pub(super) fn of(fields: &PayloadReader<'_>) -> Option<Module> {
        Some(Module {
            range: AddressRange::of(fields)?,
            bias: fields.address("bias")?,
            build_id: fields.bytes("build_id")?,
            path: fields.string("path")?,
            loaded: Between::of(fields)?,
        })
    }
}
