//! What C and C++ programs trace by the functions of `tracer.h` is what `printf` gives, by each standard of the languages.

use crate::compiled::{Program, calls, installed, linking};

/// Returns the texts of the messages of the only thread.
fn messages(traced: &support::Traced) -> Vec<String> {
    assert_eq!(traced.files.len(), 1, "{:?}", traced.files.keys());
    traced.files.values().flat_map(|file| file.texts()).map(str::to_owned).collect()
}

#[test]
fn messages_of_c_are_what_printf_prints() {
    for (compiler, standard) in
        [("gcc", "-std=c99"), ("gcc", "-std=gnu17"), ("clang", "-std=c11"), ("clang", "-std=gnu17")]
    {
        let program = Program::compile(
            compiler,
            "messages.c",
            &[&[standard, "-D_GNU_SOURCE"], &linking()[..]].concat(),
        );
        let traced = program.scenario(&[]).run().succeeded();
        traced.assert_whole();
        let printed: Vec<String> = traced.stdout().lines().map(str::to_owned).collect();
        assert!(printed.len() > 12, "{printed:?}");
        // Entering and leaving a scope are no messages.
        assert_eq!(messages(&traced), printed, "{compiler} {standard}");
        let records = traced.files.values().map(|file| file.records()).sum::<u64>();
        assert_eq!(traced.stderr(), format!("enabled 1 records {records} lost 0 flush 0\n"));
        let calls = calls(&program.merged(&traced));
        assert_eq!((calls.entered.get("in_scope"), calls.not_innermost), (Some(&3), 0), "{calls:?}");
        assert!(calls.open.values().all(Vec::is_empty), "{calls:?}");
    }
}

#[test]
fn messages_and_scopes_of_cpp_are_recorded_and_exceptions_are_told() {
    for (compiler, standard) in [("g++", "-std=c++11"), ("g++", "-std=c++20"), ("clang++", "-std=c++17")] {
        let program = Program::compile(compiler, "messages.cpp", &[&[standard], &linking()[..]].concat());
        let traced = program.run(&[]);
        let printed: Vec<String> = traced.stdout().lines().map(str::to_owned).collect();
        assert_eq!(messages(&traced), printed, "{compiler} {standard}");
        let merged = program.merged(&traced);
        assert_eq!(merged.iter().filter(|line| line.contains(" < unwinding ")).count(), 3, "{merged:?}");
    }
}

#[test]
fn a_format_that_does_not_fit_its_arguments_is_refused_by_the_compiler() {
    let source = "#include <tracer.h>\nint main(void) { tracer_trace(\"%s\", 1); return 0; }\n";
    for compiler in ["gcc", "clang"] {
        let directory = tempfile::TempDir::new().expect("a directory");
        let file = directory.path().join("wrong.c");
        std::fs::write(&file, source).expect("it can be written");
        let mut command = std::process::Command::new(compiler);
        command.args(["-Wall", "-Werror", "-fsyntax-only", "-I"]).arg(installed().join("include")).arg(&file);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("-Wformat") || said.contains("-Werror=format"),
            "{said}"
        );
    }
}

#[test]
fn pkg_config_and_the_installed_files_are_enough() {
    let mut command = std::process::Command::new("pkg-config");
    command.args(["--cflags", "--libs", "tracer"]).env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"));
    let output = command.output().expect("pkg-config can be run");
    assert!(output.status.success(), "{output:?}");
    let options = String::from_utf8(output.stdout).expect("text");
    let run_path = format!("-Wl,-rpath,{}", installed().join("lib").display());
    let mut options: Vec<&str> = options.split_whitespace().collect();
    options.push(&run_path);
    let program = Program::compile("g++", "messages.cpp", &options);
    assert_eq!(messages(&program.run(&[])).len(), 2);
}
