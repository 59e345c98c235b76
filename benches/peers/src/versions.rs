//! The versions of the measured packages, from the lock file of this program.

/// Returns the version of `package`; an empty string if the lock file does not have it.
pub fn of(package: &str) -> &'static str {
    include_str!("../Cargo.lock")
        .split("[[package]]")
        .find(|entry| value(entry, "name") == Some(package))
        .and_then(|entry| value(entry, "version"))
        .unwrap_or_default()
}

/// Returns the string that `key` has in `entry`, an entry of the lock file.
fn value<'a>(entry: &'a str, key: &str) -> Option<&'a str> {
    entry.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_are_read_from_the_lock_file() {
        assert_eq!(super::of("peers"), env!("CARGO_PKG_VERSION"));
        assert_eq!(super::of("no such package"), "");
    }
}
