//! An open directory, in which files are made, examined, named and deleted by their names alone.
//!
//! Any user who may write to a parent directory can replace a directory with a link at any time. Operations in an open
//! directory stay in that directory. No function here follows a link (except in the path with which a directory is
//! opened), waits for a FIFO, or opens a device.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::os::sys::FileId;

/// An entry of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The kind of the entry. A symbolic link is of the kind `Other`, whatever its target is.
    pub kind: Kind,
    /// The id of the user who owns the entry.
    pub owner: u32,
    /// The identity of the file, which is the same for all names of the file.
    pub id: FileId,
    /// The time at which the entry's contents were last written; `None` if the system does not say it.
    pub written: Option<SystemTime>,
}

/// The kinds of entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Any other kind, with the kind's name and article for messages: `a FIFO`.
    Other(&'static str),
}

/// An open directory, in which entries are made, examined, renamed and deleted by their names.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The path with which the directory was opened. Messages show it, and systems that open files only by their paths
    /// use it.
    path: PathBuf,
    #[cfg(unix)]
    handle: rustix::fd::OwnedFd,
}

impl Directory {
    /// Returns the path of the entry `name`, for messages.
    #[must_use]
    pub(crate) fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the kind, the owner, the identity and the time of the last write of the entry `name`; `None` if no entry
    /// has that name.
    ///
    /// # Errors
    /// The directory cannot be searched.
    pub(crate) fn look(&self, name: &OsStr) -> io::Result<Option<Entry>> {
        match imp::look(self, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// Deletes the directory `name` and the files in it. Does not delete a directory that contains other directories.
    ///
    /// # Errors
    /// The entry is not a directory, or not every entry in it can be deleted.
    pub(crate) fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        let inner = self.open_directory(name)?;
        for name in inner.names()? {
            inner.remove_file(&name)?;
        }
        drop(inner);
        self.remove_empty_directory(name)
    }

    /// Deletes the empty directory `name`.
    ///
    /// # Errors
    /// The entry is not a directory, or it is not empty.
    pub(crate) fn remove_empty_directory(&self, name: &OsStr) -> io::Result<()> {
        imp::remove_empty(self, name)
    }
}

#[cfg(unix)]
mod imp {
    use super::{Directory, Entry, File, FileId, Kind, OsStr, OsString, Path, SystemTime, io};
    use rustix::fd::OwnedFd;
    #[cfg(target_os = "linux")]
    use rustix::fs::CWD;
    use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::time::{Duration, UNIX_EPOCH};

    /// The flag for opening a directory in order to open files in it. It does not require the right to list the
    /// directory.
    #[cfg(target_os = "linux")]
    const SEARCH: OFlags = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    const SEARCH: OFlags = OFlags::RDONLY;
    const NEW: OFlags = OFlags::CREATE.union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    /// The flags for opening a file: a link is not followed, a FIFO is not waited for, and programs that this process
    /// starts do not inherit the file.
    const NO_FOLLOW_FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

    fn directory(handle: OwnedFd, path: &Path) -> Directory {
        Directory { path: path.to_owned(), handle }
    }

    impl Directory {
        /// Opens the directory at `path`, which the user has named. Links are followed.
        ///
        /// # Errors
        /// There is no such directory, or it may not be entered.
        pub(crate) fn open(path: &Path) -> io::Result<Directory> {
            let flags = SEARCH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(directory(fs::open(path, flags, Mode::empty())?, path))
        }

        /// Opens the directory `name` in this directory. A link is not followed.
        ///
        /// # Errors
        /// There is no such directory, or it may not be entered.
        pub(crate) fn open_directory(&self, name: &OsStr) -> io::Result<Directory> {
            let flags = SEARCH | OFlags::DIRECTORY | NO_FOLLOW_FLAGS.difference(OFlags::NONBLOCK);
            Ok(directory(fs::openat(&self.handle, name, flags, Mode::empty())?, &self.path_of(name)))
        }

        /// Makes the directory `name` in this directory. Only this user can enter it.
        ///
        /// # Errors
        /// The name is taken, or no directory can be made.
        pub(crate) fn make_directory(&self, name: &OsStr) -> io::Result<()> {
            Ok(fs::mkdirat(&self.handle, name, Mode::RWXU)?)
        }

        /// Makes the directory `name` in this directory, with all rights for all users except those that the umask
        /// takes away.
        ///
        /// # Errors
        /// The name is taken, or no directory can be made.
        #[cfg(feature = "parquet")]
        pub(crate) fn make_shared_directory(&self, name: &OsStr) -> io::Result<()> {
            Ok(fs::mkdirat(&self.handle, name, Mode::from_raw_mode(0o777))?)
        }

        /// Moves the entry `from` of this directory into the directory `to`, where it gets the name `name`. Replaces a
        /// file that has that name there.
        ///
        /// # Errors
        /// The entry cannot be renamed.
        #[cfg(feature = "parquet")]
        pub(crate) fn rename_into(&self, from: &OsStr, to: &Directory, name: &OsStr) -> io::Result<()> {
            Ok(fs::renameat(&self.handle, from, &to.handle, name)?)
        }

        /// Makes a new file in this directory. If `is_private`, other users may not read it, whatever the umask is.
        ///
        /// # Errors
        /// The name is taken, or no file can be made.
        pub(crate) fn create(&self, name: &OsStr, is_private: bool) -> io::Result<File> {
            let mode = if is_private { 0o600 } else { 0o666 };
            Ok(fs::openat(&self.handle, name, NEW | OFlags::RDWR, Mode::from_raw_mode(mode))?.into())
        }

        /// Opens the file `name` in this directory for writing at its end.
        ///
        /// # Errors
        /// There is no such regular file, or it may not be written.
        pub(crate) fn append(&self, name: &OsStr) -> io::Result<File> {
            let flags = OFlags::WRONLY | OFlags::APPEND | NO_FOLLOW_FLAGS;
            regular(fs::openat(&self.handle, name, flags, Mode::empty())?)
        }

        /// Opens the file `name` in this directory for reading.
        ///
        /// # Errors
        /// There is no such regular file, or it may not be read.
        pub(crate) fn read(&self, name: &OsStr) -> io::Result<File> {
            let flags = OFlags::RDONLY | NO_FOLLOW_FLAGS;
            regular(fs::openat(&self.handle, name, flags, Mode::empty())?)
        }

        /// Makes a new file in this directory that has no name and only its owner can open; `None` if the system cannot
        /// do this.
        #[cfg(target_os = "linux")]
        #[must_use]
        pub(crate) fn create_unnamed(&self) -> Option<File> {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            let file = File::from(fs::openat(&self.handle, ".", flags, Mode::RUSR | Mode::WUSR).ok()?);
            // The file will get its name through this path.
            std::fs::metadata(path_in_proc(&file)).is_ok().then_some(file)
        }

        /// Gives a name in this directory to a file made by [`Directory::create_unnamed`].
        ///
        /// # Errors
        /// Something has that name already, or the name cannot be given.
        #[cfg(target_os = "linux")]
        pub(crate) fn link_unnamed(&self, file: &File, name: &OsStr) -> io::Result<()> {
            let from = path_in_proc(file);
            Ok(fs::linkat(CWD, from, &self.handle, name, AtFlags::SYMLINK_FOLLOW)?)
        }

        /// Returns `None`: this system has no files without names.
        #[cfg(not(target_os = "linux"))]
        #[must_use]
        pub(crate) fn create_unnamed(&self) -> Option<File> {
            None
        }

        /// Fails: this system has no files without names.
        ///
        /// # Errors
        /// Always.
        #[cfg(not(target_os = "linux"))]
        pub(crate) fn link_unnamed(&self, _file: &File, _name: &OsStr) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// Renames the entry `from` of this directory to `to`. Replaces a file that is already named `to`.
        ///
        /// # Errors
        /// The entry cannot be renamed.
        pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            Ok(fs::renameat(&self.handle, from, &self.handle, to)?)
        }

        /// Deletes the entry `name` of this directory, which must not be a directory.
        ///
        /// # Errors
        /// The entry cannot be deleted.
        pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
            Ok(fs::unlinkat(&self.handle, name, AtFlags::empty())?)
        }

        /// Returns the names of all entries of this directory.
        ///
        /// # Errors
        /// The directory may not be listed.
        pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let mut names = Vec::new();
            for entry in Dir::new(fs::openat(&self.handle, ".", flags, Mode::empty())?)? {
                let name = entry?.file_name().to_bytes().to_vec();
                if name != b"." && name != b".." {
                    names.push(OsString::from_vec(name));
                }
            }
            Ok(names)
        }
    }

    /// Returns the path under `/proc` that stands for the open file, even if the file has no name.
    #[cfg(target_os = "linux")]
    fn path_in_proc(file: &File) -> String {
        format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file))
    }

    fn regular(opened: OwnedFd) -> io::Result<File> {
        let file = File::from(opened);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(file)
    }

    #[allow(clippy::unnecessary_cast, reason = "these types differ by system")]
    pub(super) fn look(place: &Directory, name: &OsStr) -> io::Result<Entry> {
        let found = fs::statat(&place.handle, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Other("a symbolic link"),
            FileType::Fifo => Kind::Other("a FIFO"),
            FileType::Socket => Kind::Other("a socket"),
            FileType::CharacterDevice | FileType::BlockDevice => Kind::Other("a device"),
            FileType::Unknown => Kind::Other("a file of an unknown kind"),
        };
        let written: Option<SystemTime> = UNIX_EPOCH.checked_add(Duration::from_secs(found.st_mtime as u64));
        let id = FileId::Inode(found.st_dev as u64, found.st_ino as u64);
        Ok(Entry { kind, owner: found.st_uid, id, written })
    }

    pub(super) fn remove_empty(place: &Directory, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&place.handle, name, AtFlags::REMOVEDIR)?)
    }
}

#[cfg(not(unix))]
mod imp {
    use super::{Directory, Entry, File, Kind, OsStr, OsString, Path, io};
    use crate::os::sys::{file_id, owner};
    use std::fs;
    use std::os::windows::fs::{MetadataExt, OpenOptionsExt};

    /// The flag that opens a link itself, not its target.
    const OPEN_REPARSE_POINT: u32 = 0x0020_0000;
    /// The attribute of links, junctions and similar files.
    const REPARSE_POINT: u32 = 0x400;

    impl Directory {
        /// Returns the directory at `path`, which the user has named. Links are followed.
        ///
        /// # Errors
        /// There is no such directory.
        pub(crate) fn open(path: &Path) -> io::Result<Directory> {
            if !fs::metadata(path)?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            Ok(Directory { path: path.to_owned() })
        }

        /// Returns the directory `name` in this directory. A link is not followed.
        ///
        /// # Errors
        /// There is no such directory.
        pub(crate) fn open_directory(&self, name: &OsStr) -> io::Result<Directory> {
            match self.look(name)? {
                Some(Entry { kind: Kind::Directory, .. }) => Ok(Directory { path: self.path_of(name) }),
                Some(_) => Err(io::ErrorKind::NotADirectory.into()),
                None => Err(io::ErrorKind::NotFound.into()),
            }
        }

        /// Makes the directory `name` in this directory, with the rights of the directory around it.
        ///
        /// # Errors
        /// The name is taken, or no directory can be made.
        pub(crate) fn make_directory(&self, name: &OsStr) -> io::Result<()> {
            fs::create_dir(self.path_of(name))
        }

        /// Makes the directory `name` in this directory, with the rights of the directory around it.
        ///
        /// # Errors
        /// The name is taken, or no directory can be made.
        #[cfg(feature = "parquet")]
        pub(crate) fn make_shared_directory(&self, name: &OsStr) -> io::Result<()> {
            self.make_directory(name)
        }

        /// Moves the entry `from` of this directory into the directory `to`, where it gets the name `name`. Replaces a
        /// file that has that name there.
        ///
        /// # Errors
        /// The entry cannot be renamed.
        #[cfg(feature = "parquet")]
        pub(crate) fn rename_into(&self, from: &OsStr, to: &Directory, name: &OsStr) -> io::Result<()> {
            fs::rename(self.path_of(from), to.path_of(name))
        }

        /// Makes a new file in this directory, with the rights of the directory.
        ///
        /// # Errors
        /// The name is taken, or no file can be made.
        pub(crate) fn create(&self, name: &OsStr, _is_private: bool) -> io::Result<File> {
            fs::OpenOptions::new().read(true).write(true).create_new(true).open(self.path_of(name))
        }

        /// Opens the file `name` in this directory for writing at its end.
        ///
        /// # Errors
        /// There is no such regular file, or it may not be written.
        pub(crate) fn append(&self, name: &OsStr) -> io::Result<File> {
            regular(fs::OpenOptions::new().append(true), &self.path_of(name))
        }

        /// Opens the file `name` in this directory for reading.
        ///
        /// # Errors
        /// There is no such regular file, or it may not be read.
        pub(crate) fn read(&self, name: &OsStr) -> io::Result<File> {
            regular(fs::OpenOptions::new().read(true), &self.path_of(name))
        }

        /// Returns `None`: this system has no files without names.
        #[must_use]
        pub(crate) fn create_unnamed(&self) -> Option<File> {
            None
        }

        /// Fails: this system has no files without names.
        ///
        /// # Errors
        /// Always.
        pub(crate) fn link_unnamed(&self, _file: &File, _name: &OsStr) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// Renames the entry `from` of this directory to `to`. Replaces a file that is already named `to`.
        ///
        /// # Errors
        /// The entry cannot be renamed.
        pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            fs::rename(self.path_of(from), self.path_of(to))
        }

        /// Deletes the entry `name` of this directory, which must not be a directory.
        ///
        /// # Errors
        /// The entry cannot be deleted.
        pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
            fs::remove_file(self.path_of(name))
        }

        /// Returns the names of all entries of this directory.
        ///
        /// # Errors
        /// The directory may not be listed.
        pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
            fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name())).collect()
        }
    }

    fn regular(options: &mut fs::OpenOptions, path: &Path) -> io::Result<File> {
        let file = options.custom_flags(OPEN_REPARSE_POINT).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.file_attributes() & REPARSE_POINT != 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(file)
    }

    pub(super) fn look(place: &Directory, name: &OsStr) -> io::Result<Entry> {
        let path = place.path_of(name);
        let found = fs::symlink_metadata(&path)?;
        let kind = if found.file_attributes() & REPARSE_POINT != 0 {
            Kind::Other("a link")
        } else if found.is_dir() {
            Kind::Directory
        } else if found.is_file() {
            Kind::File
        } else {
            Kind::Other("a file of an unknown kind")
        };
        Ok(Entry { kind, owner: owner(&found), id: file_id(&path, &found), written: found.modified().ok() })
    }

    pub(super) fn remove_empty(place: &Directory, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(place.path_of(name))
    }
}
