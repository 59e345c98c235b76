//! The file systems on which directories are.

use std::path::Path;

/// Returns the kind of the file system of `directory`, by its name on Linux; on other systems, the path of the
/// directory.
pub fn file_system(directory: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    kind(&mounts, &directory.canonicalize().unwrap_or_default())
        .map_or_else(|| directory.display().to_string(), str::to_owned)
}

/// Returns the kind of the innermost of `mounts` that contains `directory`. Of several mounts at the same directory,
/// the last one counts.
fn kind<'a>(mounts: &'a str, directory: &Path) -> Option<&'a str> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            Some((Path::new(fields.next()?), fields.next()?))
        })
        .filter(|(point, _)| directory.starts_with(point))
        .max_by_key(|(point, _)| point.components().count())
        .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_is_chosen() {
        let mounts = "a / rootfs rw 0 0\nb / ext4 rw 0 0\nc /dev tmpfs rw 0 0\nd /dev/shm shmfs rw 0 0\n";
        assert_eq!(kind(mounts, Path::new("/dev/shm/x")), Some("shmfs"));
        assert_eq!(kind(mounts, Path::new("/dev/shmem")), Some("tmpfs"));
        assert_eq!(kind(mounts, Path::new("/home")), Some("ext4"));
        assert_eq!(kind("", Path::new("/home")), None);
    }
}
