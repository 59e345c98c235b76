//! The announcement of trace files: if they are in other directories than their executable, a list beside the
//! executable names these directories.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use trace_format::meta::Run;
use trace_format::places::{MAX_LIST_BYTES, Place, SUFFIX, newer_half};

use crate::sys;

/// Announces the directories of a run's trace files, by lines in a list.
#[derive(Debug)]
pub struct Announcement {
    /// The file name of the list.
    name: OsString,
    /// The executable's own directory, which is not announced, because every search for its traces includes
    /// it.
    beside: PathBuf,
    /// The directory that contains the directories of runs, which hold their rings.
    runtime: PathBuf,
    place: Place,
    /// The directories that were announced.
    done: Vec<PathBuf>,
}

impl Announcement {
    /// Makes the announcement for a run. The list is beside the run's executable or, if it cannot be written there, in
    /// the directory `runtime`. `name` is the beginning of the names of the run's trace files.
    pub fn new(run: &Run, name: &OsStr, runtime: PathBuf) -> Option<Announcement> {
        let beside = sys::path_from_bytes(&run.exe).parent()?.to_path_buf();
        let mut name = name.to_os_string();
        name.push(SUFFIX);
        let place =
            Place { id: run.id, pid: run.pid, wall: run.wall, exe: run.exe.clone(), directory: Vec::new() };
        Some(Announcement { name, beside, runtime, place, done: Vec::new() })
    }

    /// Adds a line to the list that says that there will be trace files in `directory`. If the list cannot be written,
    /// only readers that know the directory find the files.
    pub fn announce(&mut self, directory: &Path) {
        if directory == self.beside || self.done.iter().any(|done| done == directory) {
            return;
        }
        self.done.push(directory.to_path_buf());
        self.place.directory = directory.as_os_str().as_encoded_bytes().to_vec();
        let line = self.place.write();
        if append(&self.beside.join(&self.name), &line).is_none() {
            // Another user can make this directory first, as a link to one of this user's directories.
            let is_own = sys::is_private_directory(&self.runtime);
            let _ = is_own.then(|| append(&self.runtime.join(&self.name), &line));
        }
    }
}

/// Appends a line to a list that belongs to this user; makes the list if it does not exist.
fn append(list: &Path, line: &[u8]) -> Option<()> {
    let mut file = sys::open_to_append(list).ok()?;
    if file.metadata().ok()?.len() > MAX_LIST_BYTES as u64 {
        let _ = shorten(list);
    }
    // A write beyond the limit would end a process that does not block the signal.
    let length = file.metadata().ok()?.len() + line.len() as u64;
    if length > sys::file_size_limit() {
        return None;
    }
    file.write_all(line).ok()
}

/// Drops the older half of a list that has become too long. Lines that another run appends meanwhile may be lost,
/// too.
fn shorten(list: &Path) -> io::Result<()> {
    let mut file = sys::open_own_file(list)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let newer = newer_half(&bytes);
    if newer.len() as u64 > sys::file_size_limit() {
        return Ok(());
    }
    file.rewind()?;
    file.write_all(newer)?;
    file.set_len(newer.len() as u64)
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use trace_format::line::Ticks;
    use trace_format::meta::ClockKind;
    use trace_format::wall::Wall;

    use super::*;

    /// Announces a directory for an executable whose own directory does not exist; returns the names in `victim`
    /// afterwards.
    fn announced(runtime: &Path, victim: &Path) -> Vec<OsString> {
        let run = Run {
            version: 2,
            id: 1,
            root: 1,
            pid: 1,
            exe: b"/nowhere/app".to_vec(),
            boot: Vec::new(),
            ticks: Ticks(0),
            wall: Wall(7),
            clock: ClockKind::System,
        };
        let mut announcement = Announcement::new(&run, OsStr::new("app"), runtime.to_path_buf()).unwrap();
        announcement.announce(Path::new("/elsewhere"));
        std::fs::read_dir(victim).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn nothing_is_written_if_the_runtime_directory_is_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, link) = (directory.path().join("victim"), directory.path().join("link"));
        std::fs::create_dir(&victim).unwrap();
        std::fs::set_permissions(&victim, PermissionsExt::from_mode(0o700)).unwrap();
        symlink(&victim, &link).unwrap();
        assert_eq!(announced(&link, &victim), [] as [OsString; 0]);
        assert_eq!(announced(&victim, &victim), ["app.trace.places"]);
        std::fs::set_permissions(&victim, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::remove_file(victim.join("app.trace.places")).unwrap();
        assert_eq!(announced(&victim, &victim), [] as [OsString; 0]);
    }

    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "an emulator does not start what the shell starts")]
    fn a_list_longer_than_the_limit_of_file_sizes_stays_and_ends_no_process() {
        const NAME: &str = "drain::announcement::tests::a_list_longer_than_the_limit_of_file_sizes_stays_and_ends_no_process";
        const DIRECTORY: &str = "DIRECTORY_OF_THIS_TEST";
        // The test starts itself again with the limit.
        if let Some(directory) = std::env::var_os(DIRECTORY) {
            announced(Path::new(&directory), Path::new(&directory));
            return;
        }
        // Shells count the limit in 512 or 1024 bytes. The second list is so long that it is to be shortened.
        for lines in [100, 2 * MAX_LIST_BYTES / 32] {
            let directory = tempfile::tempdir().unwrap();
            std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o700)).unwrap();
            let list = directory.path().join("app.trace.places");
            let before = "a line of thirty-two characters\n".repeat(lines);
            std::fs::write(&list, &before).unwrap();
            std::fs::set_permissions(&list, PermissionsExt::from_mode(0o600)).unwrap();
            let mut again = std::process::Command::new("sh");
            again.args(["-c", "ulimit -f 1; exec \"$0\" --exact \"$1\" --nocapture"]);
            again.arg(std::env::current_exe().unwrap()).arg(NAME).env(DIRECTORY, directory.path());
            let ran = again.stdout(std::process::Stdio::null()).status().unwrap();
            assert!(ran.success(), "{lines}: {ran}");
            assert!(std::fs::read_to_string(&list).unwrap() == before, "{lines}: the list has changed");
        }
    }
}
