//! The manifest: the file in a run's directory that names the run.
//!
//! ```text
//! tracer-manifest 3
//! run version=2 id=... exe="..." ...        the same as the `# run` line
//! traces dir="/srv/traces" name="app" device=66306 inode=131     for <dir>/<name>.trace.<tid>
//! traces dir="/tmp" name="app" device=36 inode=1                 the directory that is tried next; and so on
//! end
//! ```
//!
//! A `traces` line of raw files ends with `format=raw`. Device and inode are those of the directory as the run sees it:
//! in another mount namespace, the directory with this path may be another one. They are absent if the run could not
//! find them out.
//!
//! The run renames the file to its name when it is whole, before it makes any ring. The lock of the run's
//! [`life`](mod@crate::life) file shows whether the run is alive. Version 2 had no identities of directories. In version
//! 1 there was one directory, and the locks were on the manifest itself.
//!
//! In every version, the second line is the run's, so that a reader that does not know the rest can name the
//! run.

use crate::escape::{EscapeContext, escape_into, unescape};
use crate::file::Encoding;
use crate::meta::{Meta, Run};

/// The manifest's name in the run's directory.
pub const FILE_NAME: &str = "manifest";
/// The site table's name in the run's directory.
pub const SITES_NAME: &str = "sites";
/// The module table's name in the run's directory.
pub const MODULES_NAME: &str = "modules";
/// The beginning of the names of ring files; the number of the ring follows.
pub const RING_PREFIX: &str = "ring-";
/// The end of the name of a run's directory until the directory is whole.
pub const UNFINISHED_SUFFIX: &str = ".new";

/// The version of the manifests that the tracer writes.
pub const VERSION: u32 = 3;

const MAGIC: &[u8] = b"tracer-manifest ";

/// The content of a manifest: the run that its directory belongs to, and the directories of its trace files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The run that the directory belongs to.
    pub run: Run,
    /// The directories of the trace files, in the order in which the run tries them for new files. There is at least
    /// one.
    pub directories: Vec<Directory>,
    /// The part of the trace files' names before `.trace.`.
    pub name: Vec<u8>,
    /// The form in which the trace files are written.
    pub encoding: Encoding,
}

/// A directory of trace files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The path at which the run sees the directory.
    pub path: Vec<u8>,
    /// The device of the directory and its inode number there; `None` if they are not known.
    pub identity: Option<(u64, u64)>,
}

/// The reason why a file cannot be read as a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestError {
    /// The manifest has an unknown version.
    Version {
        /// The version of the manifest.
        version: u32,
        /// The run, if the second line names it.
        run: Option<Box<Run>>,
    },
    /// The file is not a manifest, or was truncated.
    Damaged,
}

impl Manifest {
    /// Returns the content of the manifest file.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(format!("{VERSION}\n").as_bytes());
        Meta::Run(self.run.clone()).write(&mut out);
        out.push(b'\n');
        for directory in &self.directories {
            out.extend_from_slice(b"traces dir=\"");
            escape_into(&mut out, &directory.path, EscapeContext::Quoted);
            out.extend_from_slice(b"\" name=\"");
            escape_into(&mut out, &self.name, EscapeContext::Quoted);
            out.push(b'"');
            if let Some((device, inode)) = directory.identity {
                out.extend_from_slice(format!(" device={device} inode={inode}").as_bytes());
            }
            if self.encoding != Encoding::Text {
                out.extend_from_slice(b" format=");
                out.extend_from_slice(self.encoding.name().as_bytes());
            }
            out.push(b'\n');
        }
        out.extend_from_slice(END);
        out
    }

    /// Reads a whole manifest file of this version or an earlier one.
    ///
    /// # Errors
    /// The file has an unknown version, is not a manifest, or is truncated.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, ManifestError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(ManifestError::Damaged)?;
        let (version, rest) = split_line(rest).ok_or(ManifestError::Damaged)?;
        let version = std::str::from_utf8(version).ok().and_then(|text| text.parse().ok());
        let version: u32 = version.ok_or(ManifestError::Damaged)?;
        let line = split_line(rest);
        let run = line.and_then(|(line, _)| match Meta::parse(line) {
            Some(Meta::Run(run)) => Some(run),
            _ => None,
        });
        if !(1..=VERSION).contains(&version) {
            return Err(ManifestError::Version { version, run: run.map(Box::new) });
        }
        let rest = line.map_or(&[][..], |(_, rest)| rest);
        let known = run.and_then(|run| Manifest::of_lines(run, version, rest));
        known.ok_or(ManifestError::Damaged)
    }

    fn of_lines(run: Run, version: u32, rest: &[u8]) -> Option<Manifest> {
        let mut rest = if version == 1 { rest } else { rest.strip_suffix(END)? };
        let (mut directories, mut first) = (Vec::new(), None);
        while !rest.is_empty() {
            let (line, behind) = split_line(rest)?;
            let (directory, name, encoding) = traces(line)?;
            if *first.get_or_insert_with(|| (name.clone(), encoding)) != (name, encoding) {
                return None;
            }
            directories.push(directory);
            rest = behind;
        }
        let (name, encoding) = first.filter(|_| version > 1 || directories.len() == 1)?;
        Some(Manifest { run, directories, name, encoding })
    }
}

/// The last line of a manifest: a file without this line is truncated. Manifests of version 1 had no such line.
const END: &[u8] = b"end\n";

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&b| b == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// Reads the directory of the trace files, their name and their encoding from a `traces` line.
fn traces(line: &[u8]) -> Option<(Directory, Vec<u8>, Encoding)> {
    let mut parts = line.strip_prefix(b"traces dir=\"")?.split(|&b| b == b'"');
    let path = unescape(parts.next()?);
    (parts.next()? == b" name=").then_some(())?;
    let name = unescape(parts.next()?);
    let rest = parts.next()?;
    let (rest, encoding) = match rest.strip_suffix(b" format=raw") {
        Some(rest) => (rest, Encoding::Raw),
        None => (rest, Encoding::Text),
    };
    let identity = if rest.is_empty() { None } else { Some(identity(rest)?) };
    parts.next().is_none().then_some((Directory { path, identity }, name, encoding))
}

/// Reads the identity of a directory, ` device=<device> inode=<number>`.
fn identity(words: &[u8]) -> Option<(u64, u64)> {
    let numbers = std::str::from_utf8(words).ok()?.strip_prefix(" device=")?;
    let (device, inode) = numbers.split_once(" inode=")?;
    Some((device.parse().ok()?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::tests::any_run;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_manifest_parses_back_and_no_prefix_of_it_does(
            run in any_run(),
            directories in prop::collection::vec(any::<(Vec<u8>, Option<(u64, u64)>)>(), 1..4),
            name: Vec<u8>,
            raw: bool,
        ) {
            let encoding = if raw { Encoding::Raw } else { Encoding::Text };
            let directory = |(path, identity)| Directory { path, identity };
            let directories = directories.into_iter().map(directory).collect();
            let manifest = Manifest { run, directories, name, encoding };
            let bytes = manifest.write();
            for cut in (0..bytes.len()).step_by(if cfg!(miri) { 97 } else { 1 }) {
                prop_assert!(Manifest::parse(&bytes[..cut]).is_err());
            }
            prop_assert_eq!(Manifest::parse(&bytes), Ok(manifest));
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>, version in 0u32..5) {
            let _ = Manifest::parse(&[MAGIC, version.to_string().as_bytes(), b"\n", &bytes].concat());
        }

        #[test]
        fn the_run_of_a_later_manifest_version_is_read(run in any_run(), rest: Vec<u8>) {
            let mut bytes = b"tracer-manifest 4\n".to_vec();
            Meta::Run(run.clone()).write(&mut bytes);
            bytes.push(b'\n');
            bytes.extend_from_slice(&rest);
            let expected = ManifestError::Version { version: 4, run: Some(Box::new(run)) };
            prop_assert_eq!(Manifest::parse(&bytes), Err(expected));
        }
    }

    #[test]
    fn versions_1_and_2_are_still_read() {
        let run = br#"run version=1 id=0000002a root=0000002a pid=7 exe="/a" boot="b" ticks=1 wall=2026-01-01T00:00:00.000000000Z clock=fast"#;
        let directory = Directory { path: b"/t".to_vec(), identity: None };
        for (first, last) in [(b"tracer-manifest 1\n", &b""[..]), (b"tracer-manifest 2\n", END)] {
            let line = b"\ntraces dir=\"/t\" name=\"a\" format=raw\n";
            let bytes = [first, &run[..], line, last].concat();
            let manifest = Manifest::parse(&bytes).unwrap();
            assert_eq!((manifest.run.id, manifest.encoding), (42, Encoding::Raw));
            assert_eq!(
                (&manifest.directories[..], &manifest.name[..]),
                (&[directory.clone()][..], &b"a"[..])
            );
            assert_eq!(Manifest::parse(&bytes[..bytes.len() - 1]), Err(ManifestError::Damaged));
        }
    }
}
