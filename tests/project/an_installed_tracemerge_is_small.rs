//! `cargo install --path tracemerge`, as in the README, installs a command that works and is not large, and the library
//! for programs that have not linked the tracer.
#![cfg(target_os = "linux")]

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use support::{APP, Scenario};

/// The maximum size of the command in bytes.
const LIMIT: u64 = 14_000_000;

/// Returns the directory into which the package is installed. Installs it once, because that takes minutes. The
/// path has a space.
fn installed() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = built().with_file_name("a place");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        // Without the versions of the lock file, the result would change from day to day.
        cargo.args(["install", "--quiet", "--locked", "--force", "--path"]);
        cargo.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tracemerge"));
        cargo.arg("--root").arg(&place).arg("--target-dir").arg(built());
        succeeded(cargo.env_remove("RUSTFLAGS"));
        place
    })
}

/// Returns the target directory. It is beside the other builds, so that only the first test run compiles it all.
fn built() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("installed/target")
}

/// Runs a command, which must succeed.
fn succeeded(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Returns the standard output of a command, which must succeed.
fn printed(command: &mut Command) -> String {
    String::from_utf8(succeeded(command).stdout).expect("UTF-8")
}

#[test]
fn the_installed_command_has_at_most_14_mb() {
    let program = installed().join("bin/tracemerge");
    let bytes = fs::metadata(&program).expect("the command").len();
    assert!(bytes <= LIMIT, "{bytes} bytes");
    let expected = format!("tracemerge {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(printed(Command::new(&program).arg("--version")), expected);
}

#[test]
fn the_installed_command_writes_every_format_of_its_help() {
    let program = installed().join("bin/tracemerge");
    let help = printed(Command::new(&program).arg("--help"));
    let (_, about_formats) = help.split_once("--format <FORMAT>").expect("the option");
    let (_, values) = about_formats.split_once("Possible values:\n").expect("its values");
    let lines = values.lines().map_while(|line| line.trim_start().strip_prefix("- "));
    let formats: Vec<&str> = lines.filter_map(|line| Some(line.split_once(':')?.0)).collect();
    assert!(["flamegraph", "html", "parquet"].iter().all(|name| formats.contains(name)), "{formats:?}");

    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["functions", "5"]).run().succeeded();
    for format in formats {
        let out = traced.directory.path().join(format!("written.{format}"));
        let mut merge = Command::new(&program);
        merge.args(["--format", format, "-o"]).arg(&out).arg(traced.directory.path().join(APP));
        succeeded(merge.env("TRACER_RUNTIME_DIR", traced.runtime.path()));
        let files: Vec<PathBuf> = match fs::read_dir(&out) {
            Ok(entries) => entries.map(|entry| entry.expect("an entry").path()).collect(),
            Err(_) => vec![out],
        };
        let bytes: u64 = files.iter().map(|file| fs::metadata(file).expect("a file").len()).sum();
        assert!(bytes > 100, "{format}: {bytes} bytes in {files:?}");
    }
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod carried_library {
    use object::{Object, ObjectSymbol};
    use support::memory;
    use tempfile::TempDir;

    use super::*;

    /// A directory with an unmodified program, and one for its rings.
    struct Place {
        directory: TempDir,
        runtime: TempDir,
    }

    impl Place {
        /// Makes files of these paths with these texts.
        fn with(files: &[(&str, &str)]) -> Place {
            let directory = TempDir::new().expect("a directory");
            for (path, text) in files {
                let path = directory.path().join(path);
                fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
                fs::write(path, text).expect("a file");
            }
            Place { directory, runtime: TempDir::new_in(memory()).expect("a directory") }
        }

        /// Returns a command that runs here and finds the installed programs by their names.
        fn command(&self, program: &str) -> Command {
            let mut command = Command::new(program);
            for (name, _) in std::env::vars_os() {
                let name = name.to_string_lossy();
                if ["TRACER_", "CARGO_", "RUST", "LD_"].iter().any(|start| name.starts_with(start))
                    && !["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"].contains(&&*name)
                {
                    command.env_remove(&*name);
                }
            }
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path = std::iter::once(installed().join("bin")).chain(std::env::split_paths(&path));
            command.env("PATH", std::env::join_paths(path).expect("paths"));
            command.env("TRACER_RUNTIME_DIR", self.runtime.path()).env("CARGO_NET_OFFLINE", "true");
            command.current_dir(self.directory.path());
            command
        }
    }

    #[test]
    fn an_unmodified_program_in_c_is_traced() {
        let place = Place::with(&[(
            "app.c",
            "#include <stdio.h>\nint inner(int x) { return x + 1; }\nint main(void) {\n    int sum = 0;\n    \
             for (int at = 0; at < 7; at++) sum += inner(at);\n    printf(\"%d\\n\", sum);\n    return 0;\n}\n",
        )]);
        succeeded(place.command("cc").args(["-g", "-finstrument-functions", "app.c", "-o", "app"]));
        let ran = succeeded(place.command("tracemerge").args(["run", "--show", "tree", "./app"]));
        let shown = String::from_utf8(ran.stdout).expect("UTF-8");
        let calls = |name: &str| shown.lines().filter(|line| line.contains(&format!("  {name}  ("))).count();
        assert!(shown.starts_with("28\n"), "{shown}");
        assert_eq!(
            (calls("main"), calls("inner")),
            (1, 7),
            "{shown}{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }

    #[test]
    fn an_unmodified_program_in_rust_is_traced() {
        let place = Place::with(&[
            ("Cargo.toml", "[package]\nname = \"app\"\nedition = \"2021\"\n[workspace]\n"),
            (
                "src/main.rs",
                "#[inline(never)]\nfn outer(left: u32) -> u32 { if left == 0 { 0 } else { inner(left) + 1 } }\n\
                 #[inline(never)]\nfn inner(left: u32) -> u32 { outer(left - 1) + 1 }\n\
                 fn main() { println!(\"{}\", outer(7)); }\n",
            ),
        ]);
        let ran = succeeded(place.command("cargo").args(["tracer", "run", "--show", "tree"]));
        // The view is not in the output of the program, which may be the input of another one.
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "14\n");
        let shown = String::from_utf8(ran.stderr).expect("UTF-8");
        let calls = |name: &str| shown.lines().filter(|line| line.contains(&format!("  {name}  ("))).count();
        assert_eq!((calls("app::outer"), calls("app::inner")), (8, 7), "{shown}");
        let built = succeeded(place.command("cargo").args(["tracer", "build", "--include", "inner"]));
        let said = String::from_utf8_lossy(&built.stderr).into_owned();
        let program = said.rsplit_once("cargo tracer: built '").expect("where it was built").1;
        let program = Path::new(program.trim_end().trim_end_matches('\''));
        assert!(program.ends_with("debug/app") && program.is_file(), "{said}");
        assert!(built.stdout.is_empty(), "{}", String::from_utf8_lossy(&built.stdout));
    }

    /// Checks that both export the same names. `build.rs` of the command lists them as patterns; Cargo lists each
    /// one for the package of the library.
    #[test]
    fn the_installed_library_exports_the_same_names_as_its_package() {
        let exported = |library: &Path| -> BTreeSet<String> {
            let bytes = fs::read(library).expect("a library");
            let file = object::File::parse(&*bytes).expect("an object");
            let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
            defined.map(|symbol| symbol.name().expect("a name").to_owned()).collect()
        };
        let carried = exported(&installed().join("bin/libtracer"));
        assert!(carried.contains("mcount") && carried.contains("tracer_flush"), "{carried:?}");
        assert_eq!(carried, exported(&built().join("release/deps/libtracer_capi.so")));
    }

    #[test]
    fn the_installed_library_explains_itself_when_executed() {
        let ran = Command::new(installed().join("bin/libtracer")).output().expect("it runs");
        let said = String::from_utf8(ran.stderr).expect("UTF-8");
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.starts_with("libtracer is a library") && said.ends_with("programs\n"), "{said}");
    }
}
