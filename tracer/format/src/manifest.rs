//! The manifest: the file in a run's directory that says whose it is.
//!
//! ```text
//! tracer-manifest 1
//! run version=1 id=... exe="..." ...        the same as the `# run` line
//! traces dir="/srv/traces" name="app"       trace files are <dir>/<name>.trace.<tid>; raw ones: and `format=raw`
//! ```
//!
//! Written once when the run starts, before any ring. The run holds a POSIX record lock on one byte of it,
//! [`LIFE_BYTE`], as long as it lives; who gets that lock knows that the run is dead. Who wants to recover it takes
//! the lock on [`RECOVERY_BYTE`] first, so that only one tries.

use crate::escape::{Place, escape_into, unescape};
use crate::file::Encoding;
use crate::meta::{Meta, Run};

/// The manifest's name in the run's directory.
pub const FILE_NAME: &str = "manifest";
/// The site table's name in the run's directory.
pub const SITES_NAME: &str = "sites";
/// What the names of ring files begin with; the number follows.
pub const RING_PREFIX: &str = "ring-";

/// The byte of the manifest that a run has locked as long as it lives.
pub const LIFE_BYTE: u32 = 0;
/// The byte that a recoverer has locked as long as it is at work.
pub const RECOVERY_BYTE: u32 = 1;

const MAGIC: &[u8] = b"tracer-manifest 1\n";

/// What a run's directory belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The run.
    pub run: Run,
    /// The directory of the trace files.
    pub directory: Vec<u8>,
    /// The part of their names before `.trace.`.
    pub name: Vec<u8>,
    /// How they are written.
    pub encoding: Encoding,
}

impl Manifest {
    /// The whole file.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        Meta::Run(self.run.clone()).write(&mut out);
        out.extend_from_slice(b"\ntraces dir=\"");
        escape_into(&mut out, &self.directory, Place::Quoted);
        out.extend_from_slice(b"\" name=\"");
        escape_into(&mut out, &self.name, Place::Quoted);
        out.push(b'"');
        if self.encoding != Encoding::Text {
            out.extend_from_slice(b" format=");
            out.extend_from_slice(self.encoding.name().as_bytes());
        }
        out.push(b'\n');
        out
    }

    /// Reads a whole file; `None` where it is not one, of another version, or cut short.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Manifest> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let end = rest.iter().position(|&b| b == b'\n')?;
        let Some(Meta::Run(run)) = Meta::parse(&rest[..end]) else { return None };
        let traces = rest[end + 1..].strip_prefix(b"traces dir=\"")?.strip_suffix(b"\n")?;
        let mut parts = traces.split(|&b| b == b'"');
        let directory = unescape(parts.next()?);
        (parts.next()? == b" name=").then_some(())?;
        let name = unescape(parts.next()?);
        let encoding = match parts.next()? {
            b"" => Encoding::Text,
            b" format=raw" => Encoding::Raw,
            _ => return None,
        };
        parts.next().is_none().then_some(Manifest { run, directory, name, encoding })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::tests::any_run;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_manifest_parses_back_and_no_prefix_of_it_does(
            run in any_run(), directory: Vec<u8>, name: Vec<u8>, raw: bool
        ) {
            let encoding = if raw { Encoding::Raw } else { Encoding::Text };
            let manifest = Manifest { run, directory, name, encoding };
            let bytes = manifest.write();
            for cut in 0..bytes.len() {
                prop_assert_eq!(Manifest::parse(&bytes[..cut]), None);
            }
            prop_assert_eq!(Manifest::parse(&bytes), Some(manifest));
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>) {
            let _ = Manifest::parse(&[MAGIC, &bytes].concat());
        }
    }
}
