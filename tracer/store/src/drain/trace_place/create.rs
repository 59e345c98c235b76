//! The creation of trace files. A file is made without a name, gets its first lines, and then the first name that is
//! free.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use trace_format::name::{hidden_file_suffix, trace_file_suffix};

use crate::descriptor::{self};
use crate::drain::trace_file::{FirstBytes, TraceFile};
use crate::drain::trace_place::TracePlace;
use crate::drain::trace_place::find::is_of_run;
use crate::sys::{self};

impl TracePlace {
    /// Makes a new file for thread `tid` of run `run`, and writes the bytes of `first` to it. Calls `publish` before
    /// the file gets its name. If the directory cannot be written, tries the next directory, and tells the user so
    /// once.
    ///
    /// # Errors
    /// No file can be made, either now or at any time. An unfinished file is removed.
    pub(in crate::drain) fn create(
        &mut self,
        tid: u64,
        run: u32,
        first: &FirstBytes<'_>,
        publish: &mut dyn FnMut(&TraceFile),
    ) -> io::Result<TraceFile> {
        loop {
            let error = match self.create_here(tid, run, first, publish) {
                Ok(file) => return Ok(file),
                Err(error) => error,
            };
            let message = format!("cannot create trace files in {:?}: {error}", self.directory());
            if !self.leave_if_refused(&error) {
                return Err(io::Error::new(error.kind(), message));
            }
        }
    }

    /// If `error` says that the directory refuses files permanently, makes the next directory the one that is used, and
    /// notifies the user. Returns whether it did so. A lack of space or of descriptors may be temporary, and does not
    /// count.
    pub(in crate::drain) fn leave_if_refused(&mut self, error: &io::Error) -> bool {
        let refused = matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
        );
        if !refused || self.directories.len() < 2 {
            return false;
        }
        self.leave(error);
        true
    }

    pub(in crate::drain) fn leave(&mut self, error: &io::Error) {
        let left = self.directories.remove(0);
        self.left.push(left.clone());
        self.left_by_run += 1;
        self.publish_file_count();
        if sys::directory_for_traces().is_some_and(|own| own == self.directory()) {
            // If this fails, the directory refuses the first file.
            let _ = sys::make_directories(self.directory());
        }
        (self.say)(format_args!(
            "cannot create trace files in {left:?}: {error}; they go to {:?}",
            self.directory()
        ));
    }

    pub(in crate::drain) fn path(&self, tid: u64, number: u32) -> PathBuf {
        self.directory().join(self.file_name(tid, number))
    }

    pub(in crate::drain) fn file_name(&self, tid: u64, number: u32) -> OsString {
        let mut name = self.name.clone();
        name.push(trace_file_suffix(tid, number));
        name
    }

    /// Returns whether one of this thread's files belongs to this run. Examines the files with consecutive numbers,
    /// from 0 up to the first number without a file.
    pub(in crate::drain) fn has_file_of(&self, tid: u64, run: u32) -> bool {
        let mut numbers = self.directories.iter().flat_map(|place| {
            (0..=u32::MAX)
                .map(move |number| place.join(self.file_name(tid, number)))
                .take_while(|path| path.exists())
        });
        numbers.any(|path| is_of_run(&path, run))
    }

    /// Makes a file that contains `bytes`, under the first free name of thread `tid`.
    ///
    /// # Errors
    /// The file cannot be made in any directory.
    pub(in crate::drain) fn create_whole(&mut self, tid: u64, run: u32, bytes: &[u8]) -> io::Result<()> {
        let path = loop {
            let path = self.unfinished_path(tid, run);
            let _ = std::fs::remove_file(&path);
            let written = sys::create_private_file(&path).and_then(|mut file| file.write_all(bytes));
            match written {
                Ok(()) => break path,
                Err(error) => {
                    let _ = std::fs::remove_file(&path);
                    if !self.leave_if_refused(&error) {
                        return Err(io::Error::new(error.kind(), format!("cannot write {path:?}: {error}")));
                    }
                }
            }
        };
        self.announce();
        let mut number = 0;
        let linked = loop {
            let own = self.path(tid, number);
            match sys::give_name(&path, &own) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
                // The file system has no links.
                Err(_) if !own.exists() => break std::fs::rename(&path, &own),
                linked => break linked,
            }
        };
        let _ = std::fs::remove_file(&path);
        linked?;
        self.note_growth(0, bytes.len() as u64);
        self.count_file();
        Ok(())
    }

    /// Makes the thread's file in the first directory. At first the file has no name, or a name that only this run
    /// uses. Then `publish` stores the file's identity in the ring, and only after that the file gets its own name, the
    /// first that is free. If the process is killed at any step, recovery finds the whole file, or none.
    pub(in crate::drain) fn create_here(
        &mut self,
        tid: u64,
        run: u32,
        first: &FirstBytes<'_>,
        publish: &mut dyn FnMut(&TraceFile),
    ) -> io::Result<TraceFile> {
        // A file without a name is linked through the number of its descriptor, so no other thread may close it.
        let unnamed = if descriptor::has_own_descriptors() {
            sys::create_unnamed_file(self.directory())?
        } else {
            None
        };
        if let Some(file) = unnamed {
            self.announce();
            let mut made = self.opened(file, self.path(tid, 0), 0, 0)?;
            made.append(first.bytes, first.room)?;
            if self.give_first_free_name(&mut made, tid, publish, sys::link_unnamed_file).is_ok() {
                return Ok(made);
            }
            // The file system has no links, or there is no `/proc`.
        }
        let mut made = self.create_named(tid, run, publish)?;
        match made.append(first.bytes, first.room) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.discard();
                Err(error)
            }
        }
    }

    /// Makes an empty trace file if the system cannot make files without a name: the file first has a hidden name.
    pub(in crate::drain) fn create_named(
        &mut self,
        tid: u64,
        run: u32,
        publish: &mut dyn FnMut(&TraceFile),
    ) -> io::Result<TraceFile> {
        let unfinished = self.unfinished_path(tid, run);
        let file = match sys::create_private_file(&unfinished) {
            // Another process has made this file; it is not removed.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return self.create_without_links(tid, publish);
            }
            created => created?,
        };
        self.announce();
        let mut made = self.opened(file, PathBuf::new(), 0, 0)?;
        let link = |_: &File, own: &Path| sys::give_name(&unfinished, own);
        let result = self.give_first_free_name(&mut made, tid, publish, link);
        let _ = std::fs::remove_file(&unfinished);
        match result {
            Ok(()) => Ok(made),
            Err(_) => self.create_without_links(tid, publish),
        }
    }

    /// Calls `publish` to store the file's identity, and then calls `link` to give the file the first name that is
    /// free.
    pub(in crate::drain) fn give_first_free_name(
        &self,
        made: &mut TraceFile,
        tid: u64,
        publish: &mut dyn FnMut(&TraceFile),
        link: impl Fn(&File, &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            made.path = self.path(tid, made.number);
            publish(made);
            match link(&made.file, &made.path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && made.number < u32::MAX => {
                    made.number += 1
                }
                other => return other,
            }
        }
    }

    /// Announces the directory in which files are made now. Called before the first file has its name in that
    /// directory.
    pub(in crate::drain) fn announce(&mut self) {
        if let (Some(announcement), Some(directory)) = (&mut self.announcement, self.directories.first()) {
            announcement.announce(directory);
        }
    }

    /// Makes the file on a file system without hard links. If the process is killed between making the file and calling
    /// `publish`, an empty file remains.
    pub(in crate::drain) fn create_without_links(
        &self,
        tid: u64,
        publish: &mut dyn FnMut(&TraceFile),
    ) -> io::Result<TraceFile> {
        let mut number = 0;
        loop {
            let path = self.path(tid, number);
            match sys::create_private_file(&path) {
                Ok(file) => {
                    let made = self.opened(file, path, number, 0)?;
                    publish(&made);
                    return Ok(made);
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
                Err(e) => return Err(e),
            }
        }
    }

    /// Returns the path that a file of thread `tid` of run `run` has until it gets its own name.
    pub(in crate::drain) fn unfinished_path(&self, tid: u64, run: u32) -> PathBuf {
        self.directory().join(self.unfinished_name(tid, run))
    }

    pub(in crate::drain) fn unfinished_name(&self, tid: u64, run: u32) -> OsString {
        self.hidden_name(tid, run, "new")
    }

    /// Returns the path that an old file of thread `tid` of run `run` has while a new file takes its name.
    pub(in crate::drain) fn aside_path(&self, tid: u64, run: u32) -> PathBuf {
        self.directory().join(self.hidden_name(tid, run, "old"))
    }

    fn hidden_name(&self, tid: u64, run: u32, ending: &str) -> OsString {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(hidden_file_suffix(tid, run, ending));
        name
    }
}
