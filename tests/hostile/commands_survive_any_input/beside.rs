//! The comparison of a command with an older version on the same input: their exit statuses, their output and the files
//! that they write.

use super::trial::Ran;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The result of a command, with the bytes that it has written.
pub struct Seen {
    ran: Ran,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Seen {
    /// Reads the output of a command, before the next one runs.
    pub fn of(ran: Ran) -> Seen {
        let files = ran.written.keys().map(|path| (path.clone(), std::fs::read(path).unwrap_or_default()));
        Seen { files: files.collect(), ran }
    }

    /// Returns the result without the bytes of the files.
    pub fn ran(&self) -> &Ran {
        &self.ran
    }

    /// Returns the bytes on stdout, on stderr and in each file, with their names.
    fn texts(&self) -> BTreeMap<String, &[u8]> {
        let files = self.files.iter().map(|(path, bytes)| (path.display().to_string(), &bytes[..]));
        let streams = [("stdout", &self.ran.out), ("stderr", &self.ran.err)];
        files.chain(streams.map(|(name, bytes)| (name.to_owned(), &bytes[..]))).collect()
    }
}

/// Returns the differences between two commands.
pub fn differences(before: &Seen, now: &Seen) -> Vec<String> {
    let mut found = Vec::new();
    let ends = |seen: &Seen| (seen.ran.status, seen.ran.signal, seen.ran.hung);
    if ends(before) != ends(now) {
        found.push(format!("(status, signal, hung) is {:?}, and was {:?}", ends(now), ends(before)));
    }
    let (was, is) = (before.texts(), now.texts());
    let names: std::collections::BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    for name in names {
        match (was.get(name), is.get(name)) {
            (Some(was), Some(is)) if was == is => {}
            (Some(was), Some(is)) => found.push(format!("{name}: {}", first_difference(was, is))),
            (was, _) => found.push(format!("{name} {}", if was.is_some() { "is missing" } else { "is new" })),
        }
    }
    found
}

/// Returns the first lines that differ.
fn first_difference(was: &[u8], is: &[u8]) -> String {
    let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (was, is) = (lines(was), lines(is));
    let at = was.iter().zip(&is).take_while(|(was, is)| was == is).count();
    let shown = |lines: &[Vec<u8>]| {
        let line =
            lines.get(at).map(|line| String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned());
        line.map_or("nothing".to_owned(), |line| format!("{line:?}"))
    };
    format!("line {} is {}, and was {}", at + 1, shown(&is), shown(&was))
}
