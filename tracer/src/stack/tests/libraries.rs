//! Libraries that come and go while their functions are walked through.

use std::cell::RefCell;
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::NonNull;
use std::{fs, mem};

use super::super::{End, Registers, Walk, walk};
use super::MANY;

/// Compiles a library of C into a directory.
pub(in crate::stack) fn compile(directory: &Path, name: &str, source: &str) -> PathBuf {
    let (file, library) = (directory.join(format!("{name}.c")), directory.join(format!("lib{name}.so")));
    fs::write(&file, source).unwrap();
    let flags = ["-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-o"];
    let output = Command::new("cc").args(flags).arg(&library).arg(&file).output();
    let output = output.unwrap_or_else(|error| panic!("cc: {error}; `.ci/run` installs what tests need"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// A loaded library; it is unloaded when this is dropped.
pub(in crate::stack) struct Library(NonNull<c_void>);

impl Library {
    pub(in crate::stack) fn load(path: &Path) -> Library {
        let path = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the constructors of these libraries do nothing.
        Library(NonNull::new(unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) }).unwrap())
    }

    pub(in crate::stack) fn function(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).unwrap();
        // SAFETY: a search in a library that is loaded.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) }).unwrap().as_ptr()
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: loaded once; a test that drops it does not use its functions any more.
        assert_eq!(unsafe { libc::dlclose(self.0.as_ptr()) }, 0);
    }
}

thread_local!(static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) });

/// The frames of a walk, its end, and the frames of a backtrace.
type Seen = (Vec<u64>, End, Vec<u64>);

extern "C-unwind" fn look() {
    let mut frames = vec![0; MANY];
    let Walk { len, end } = walk(Registers::here(), &mut frames, 1);
    frames.truncate(len);
    let mut expected = Vec::new();
    backtrace::trace(|frame| {
        expected.extend(Some(frame.ip().addr() as u64).filter(|ip| *ip != 0));
        true
    });
    let own = expected.iter().position(|ip| frames.first() == Some(ip)).unwrap_or(0);
    SEEN.set(Some((frames, end, expected.split_off(own))));
}

/// Loads a library, walks through its function, and unloads it.
fn walk_through(path: &Path) -> Seen {
    let library = Library::load(path);
    // SAFETY: the function has this type.
    let through = unsafe {
        mem::transmute::<*mut c_void, extern "C-unwind" fn(extern "C-unwind" fn())>(
            library.function("through"),
        )
    };
    through(look);
    SEEN.take().unwrap()
}

#[test]
fn a_library_at_the_addresses_of_another_is_walked_by_its_own_rules() {
    let directory = tempfile::tempdir().unwrap();
    // Machine code of the same length, with another number in it.
    let source = |room: usize| {
        format!(
            "void through(void (*f)(void)) {{ volatile char room[{room}]; room[0] = 1; f(); room[1] = 2; }}"
        )
    };
    let small = compile(directory.path(), "small", &source(1000));
    let large = compile(directory.path(), "large", &source(3000));
    // Other threads map memory as well, so this tries more than once.
    for _ in 0..50 {
        let walks = [&small, &large, &small].map(|path| walk_through(path));
        for (frames, end, expected) in &walks {
            assert_eq!((frames, *end), (expected, End::Complete));
        }
        let places = walks.each_ref().map(|(frames, ..)| frames[0]);
        if places.iter().all(|place| *place == places[0]) {
            return;
        }
    }
    panic!("no library was ever loaded at the addresses of another");
}
