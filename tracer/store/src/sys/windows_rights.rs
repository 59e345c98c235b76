//! The rights to directories on Windows: making directories that only this user can enter, and checking whether a
//! directory is private.
//!
//! A directory is *private* if it is not a link, its owner is this user, and its list of rights allows access only to
//! this user, the system itself, or administrators, who may enter all directories anyway. Users that the list does not
//! name have no rights.
#![allow(unsafe_code, reason = "calls of the system; each argued where it stands")]

use std::ffi::c_void;
use std::io;
use std::os::windows::fs::MetadataExt;
use std::path::Path;
use std::ptr;

use windows_sys::Win32::Foundation::{CloseHandle, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW, GetNamedSecurityInfoW,
    SDDL_REVISION_1, SE_FILE_OBJECT,
};
use windows_sys::Win32::Security::{
    ACCESS_ALLOWED_ACE, ACL, DACL_SECURITY_INFORMATION, GetAce, GetTokenInformation,
    OWNER_SECURITY_INFORMATION, PSID, SECURITY_ATTRIBUTES, TOKEN_INFORMATION_CLASS, TOKEN_QUERY, TokenOwner,
    TokenUser,
};
use windows_sys::Win32::Storage::FileSystem::{CreateDirectoryW, FILE_ATTRIBUTE_REPARSE_POINT};
use windows_sys::Win32::System::SystemServices::{ACCESS_ALLOWED_ACE_TYPE, ACCESS_DENIED_ACE_TYPE};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// The security identifiers of the system itself, and of the group of administrators.
const TRUSTED: [&str; 2] = ["S-1-5-18", "S-1-5-32-544"];
/// Two security identifiers that stand for others: that of a file's creator, in rights that the file will inherit, and
/// that of a file's owner.
const OWNERS: [&str; 2] = ["S-1-3-0", "S-1-3-4"];

/// Makes a directory that only this user can enter; files and directories in it inherit these rights. Fails if the name
/// exists.
pub(super) fn create_private_directory(path: &Path) -> io::Result<()> {
    let user = this_user(TokenUser)?;
    let rights: String = [user.as_str()].into_iter().chain(TRUSTED).map(allows_all).collect();
    create_directory(path, &format!("O:{user}D:P{rights}"))
}

/// Makes a directory with the owner and the rights that `rights` states in SDDL, the system's language for security
/// descriptors.
fn create_directory(path: &Path, rights: &str) -> io::Result<()> {
    let descriptor = Memory::of(|descriptor| {
        let text = wide(rights.encode_utf16());
        // SAFETY: the text ends with a zero; the result may be written, and the pointer to its size may be null.
        unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                descriptor,
                ptr::null_mut(),
            )
        }
    })?;
    let attributes = SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: descriptor.0,
        bInheritHandle: 0,
    };
    let path = super::windows::verbatim(path)?;
    // SAFETY: the path ends with a zero, and the descriptor lives as long as the call.
    ok(unsafe { CreateDirectoryW(path.as_ptr(), &attributes) })
}

/// Returns the entry, in SDDL, that gives the user with the security identifier `sid` all rights to a directory and its
/// contents.
fn allows_all(sid: &str) -> String {
    format!("(A;OICI;FA;;;{sid})")
}

/// Returns whether `path` is a private directory: see the beginning of this file.
pub(super) fn is_private_directory(path: &Path) -> bool {
    let is_directory = std::fs::symlink_metadata(path)
        .is_ok_and(|f| f.is_dir() && f.file_attributes() & FILE_ATTRIBUTE_REPARSE_POINT == 0);
    is_directory && belongs_to_this_user(path).unwrap_or(false)
}

fn belongs_to_this_user(path: &Path) -> io::Result<bool> {
    let path = super::windows::verbatim(path)?;
    let (mut owner, mut allowed): (PSID, *mut ACL) = (ptr::null_mut(), ptr::null_mut());
    // `owner` and `allowed` point into the descriptor.
    let _descriptor = Memory::of(|descriptor| {
        // SAFETY: the path ends with a zero; the wanted results may be written, the other pointers are null.
        let error = unsafe {
            GetNamedSecurityInfoW(
                path.as_ptr(),
                SE_FILE_OBJECT,
                OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                &mut owner,
                ptr::null_mut(),
                &mut allowed,
                ptr::null_mut(),
                descriptor,
            )
        };
        i32::from(error == 0)
    })?;
    // By a setting of the system, the group may own the files that an administrator makes.
    let own = [this_user(TokenUser)?, this_user(TokenOwner)?];
    if allowed.is_null() || !own.contains(&text_of(owner)?) {
        // Without a list, everybody has all rights.
        return Ok(false);
    }
    let is_trusted =
        |sid: &str| own.iter().any(|own| own == sid) || TRUSTED.contains(&sid) || OWNERS.contains(&sid);
    // SAFETY: this is a list of the system, which lives as long as the descriptor.
    let entries = u32::from(unsafe { (*allowed).AceCount });
    for index in 0..entries {
        let mut entry = ptr::null_mut();
        // SAFETY: as above; the result may be written.
        ok(unsafe { GetAce(allowed, index, &mut entry) })?;
        if !allows_only(entry.cast(), is_trusted)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether an entry of a list of rights either denies rights, or gives rights to a security identifier for
/// which `trusted` returns true.
fn allows_only(entry: *mut ACCESS_ALLOWED_ACE, trusted: impl Fn(&str) -> bool) -> io::Result<bool> {
    // SAFETY: this is an entry of the system; each has this head.
    match u32::from(unsafe { (*entry).Header.AceType }) {
        // SAFETY: entries of this kind have a security identifier here.
        ACCESS_ALLOWED_ACE_TYPE => Ok(trusted(&text_of(unsafe { &raw mut (*entry).SidStart }.cast())?)),
        ACCESS_DENIED_ACE_TYPE => Ok(true),
        // Entries with conditions, or for objects of other kinds.
        _ => Ok(false),
    }
}

/// Returns a security identifier of this process, in text form. Depending on `kind`, it is that of the user, or that of
/// the owner of the files that the user makes.
fn this_user(kind: TOKEN_INFORMATION_CLASS) -> io::Result<String> {
    let mut token = ptr::null_mut();
    // SAFETY: this is the process's own handle; the result may be written.
    ok(unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &mut token) })?;
    // The result is a pointer to the identifier, further fields, and the identifier, which has at most 68 bytes.
    let mut found = [0_usize; 32];
    let mut needed = 0;
    // SAFETY: the token is open, and this many bytes may be written.
    let status_code = unsafe {
        GetTokenInformation(token, kind, found.as_mut_ptr().cast(), size_of_val(&found) as u32, &mut needed)
    };
    let status_code = ok(status_code);
    // SAFETY: the token was opened above, and is not used any more.
    unsafe { CloseHandle(token) };
    status_code?;
    text_of(ptr::with_exposed_provenance_mut(found[0]))
}

/// Returns the text form of a security identifier, such as `S-1-5-18`.
fn text_of(sid: PSID) -> io::Result<String> {
    let mut text: *mut u16 = ptr::null_mut();
    // SAFETY: this is an identifier of the system; the result may be written.
    ok(unsafe { ConvertSidToStringSidW(sid, &mut text) })?;
    let owned = Memory(text.cast());
    // SAFETY: this is a text of the system, which ends with a zero.
    let letters =
        (0..).map(|at| unsafe { owned.0.cast::<u16>().add(at).read() }).take_while(|unit| *unit != 0);
    Ok(char::decode_utf16(letters).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

/// A block of memory that the system has allocated; it is freed when the value is dropped.
struct Memory(*mut c_void);

impl Memory {
    /// Returns the memory whose address `call` stores; `call` returns 0 if it fails.
    fn of(call: impl FnOnce(*mut *mut c_void) -> i32) -> io::Result<Memory> {
        let mut memory = ptr::null_mut();
        ok(call(&mut memory)).map(|()| Memory(memory))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the function that allocated the memory requires this call, and the memory is not used any more.
        unsafe { LocalFree(self.0) };
    }
}

fn ok(result: i32) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn wide(units: impl Iterator<Item = u16>) -> Vec<u16> {
    units.chain([0]).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

    use super::*;

    #[test]
    fn a_private_directory_is_private_and_usable_by_its_owner() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("größe 你好");
        create_private_directory(&path).unwrap();
        assert!(belongs_to_this_user(&path).unwrap());
        assert!(is_private_directory(&path));
        std::fs::write(path.join("file"), "text").unwrap();
        assert_eq!(std::fs::read(path.join("file")).unwrap(), b"text");
        let again = create_private_directory(&path).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn an_open_directory_a_file_and_a_missing_path_are_not_private() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("open");
        // This gives all rights to everybody.
        create_directory(&path, &format!("D:P{}", allows_all("S-1-1-0"))).unwrap();
        assert!(!is_private_directory(&path));
        std::fs::write(path.join("file"), "text").unwrap();
        assert!(!is_private_directory(&path.join("file")));
        assert!(!is_private_directory(&path.join("nothing")));
    }
}
