//! Messages that C and C++ programs record with the functions of `tracer.h` are equal to the output of `printf`, with
//! each standard of the languages.

use support::programs::{installed_programs, lacks};

use crate::compiled::{Program, calls, installed, linking, make_installed, tracemerge};

/// Returns the texts of the messages of the only thread.
fn messages(traced: &support::Traced) -> Vec<String> {
    assert_eq!(traced.files.len(), 1, "{:?}", traced.files.keys());
    traced.files.values().flat_map(|file| file.texts()).map(str::to_owned).collect()
}

#[test]
fn messages_of_c_equal_the_output_of_printf() {
    let compilers = installed_programs(["cc", "clang"]);
    for (compiler, standard) in
        [("cc", "-std=c99"), ("cc", "-std=gnu17"), ("clang", "-std=c11"), ("clang", "-std=gnu17")]
    {
        if !compilers.contains(&compiler) {
            continue;
        }
        let program = Program::compile(
            compiler,
            "messages.c",
            &[&[standard, "-D_GNU_SOURCE"], &linking()[..]].concat(),
        );
        let traced = program.scenario(&[]).run().succeeded();
        traced.assert_whole();
        let printed: Vec<String> = traced.stdout().lines().map(str::to_owned).collect();
        assert!(printed.len() > 12, "{printed:?}");
        // Entering and leaving a scope do not make messages.
        assert_eq!(messages(&traced), printed, "{compiler} {standard}");
        let records = traced.files.values().map(|file| file.records()).sum::<u64>();
        assert_eq!(traced.stderr(), format!("enabled 1 records {records} lost 0 flush 0\n"));
        let calls = calls(&program.merged(&traced));
        assert_eq!((calls.entered.get("in_scope"), calls.not_innermost), (Some(&3), 0), "{calls:?}");
        assert!(calls.open.values().all(Vec::is_empty), "{calls:?}");
    }
}

#[test]
fn messages_scopes_and_exceptions_of_cpp_are_recorded() {
    if lacks(&["g++"]) {
        return;
    }
    let compilers = installed_programs(["g++", "clang++"]);
    for (compiler, standard) in [("g++", "-std=c++11"), ("g++", "-std=c++20"), ("clang++", "-std=c++17")] {
        if !compilers.contains(&compiler) {
            continue;
        }
        let program = Program::compile(compiler, "messages.cpp", &[&[standard], &linking()[..]].concat());
        let traced = program.run(&[]);
        let printed: Vec<String> = traced.stdout().lines().map(str::to_owned).collect();
        assert_eq!(messages(&traced), printed, "{compiler} {standard}");
        let merged = program.merged(&traced);
        assert_eq!(merged.iter().filter(|line| line.contains(" < unwinding ")).count(), 3, "{merged:?}");
    }
}

/// Returns the texts that the messages of `bytes.c` have in a trace: each byte that is not UTF-8 is an escape.
pub fn escaped_bytes(traced: &support::Traced) -> Vec<String> {
    let byte = |digits: &[u8]| {
        u8::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("a hexadecimal number")
    };
    let escaped = |line: &str| {
        let bytes: Vec<u8> = line.as_bytes().chunks(2).map(byte).collect();
        let chunks = bytes.utf8_chunks().map(|chunk| {
            let invalid = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
            chunk.valid().replace(r"\xff", r"\x5cxff") + &invalid.collect::<String>()
        });
        chunks.collect()
    };
    traced.stdout().lines().map(escaped).collect()
}

#[test]
fn bytes_that_are_not_utf_8_are_in_the_trace_as_they_are() {
    let program = Program::compile("cc", "bytes.c", &linking());
    for format in ["text", "raw"] {
        let scenario = program.scenario(&[]).env("TRACER_FORMAT", format).env("TRACER_RING_SIZE", "16K");
        let traced = scenario.run().succeeded();
        let merged = program.merged(&traced);
        let lines =
            merged.iter().map(|line| trace_format::line::Line::parse(line.as_bytes()).expect("a line"));
        let told: Vec<String> = lines
            .filter(|line| line.kind == trace_format::line::Kind::Message)
            .map(|line| String::from_utf8(line.payload.to_vec()).expect("escaped text"))
            .collect();
        let expected = escaped_bytes(&traced);
        assert_eq!(expected[0], r"\xffü\xe2\x82x\xf0\x9f\xa6\x5cxff🦀\x80\\xc3");
        assert_eq!((told, expected.len()), (expected, 50), "{format}");
    }
}

#[test]
fn the_compiler_rejects_a_format_that_does_not_fit_its_arguments() {
    let source = "#include <tracer.h>\nint main(void) { tracer_trace(\"%s\", 1); return 0; }\n";
    for compiler in installed_programs(["cc", "clang"]) {
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
    if lacks(&["make", "pkg-config", "g++"]) {
        return;
    }
    let installed = make_installed();
    let place = installed.path();
    let mut command = std::process::Command::new("pkg-config");
    command.args(["--cflags", "--libs", "tracer"]).env("PKG_CONFIG_PATH", place.join("lib/pkgconfig"));
    let output = command.output().expect("pkg-config runs");
    assert!(output.status.success(), "{output:?}");
    let options = String::from_utf8(output.stdout).expect("text");
    let run_path = format!("-Wl,-rpath,{}", place.join("lib").display());
    let mut options: Vec<&str> = options.split_whitespace().collect();
    options.push(&run_path);
    let program = Program::compile("g++", "messages.cpp", &options);
    assert_eq!(messages(&program.run(&[])).len(), 2);
}

/// Returns a program that prints, and traces, a table of formats and values: each twice, the second time when the
/// library has all places in the table for readers.
fn table_of_formats() -> String {
    let integers = ["0", "1", "-1", "42", "INT_MIN", "INT_MAX"];
    let mut rows: Vec<String> = Vec::new();
    let mut add = |format: String, values: &[&str]| {
        rows.extend(values.iter().map(|value| format!("    BOTH(\"[%%|{format}|]\", {value});")));
    };
    for flags in ["", "-", "+", "0", "#", " ", "-+", "+0", "-0", "#0", "-#"] {
        for width in ["", "1", "9"] {
            for precision in ["", ".0", ".3"] {
                for conversion in ["d", "u", "x", "X", "o"] {
                    add(format!("%{flags}{width}{precision}{conversion}"), &integers[..4]);
                }
                for conversion in ["f", "F", "e", "g"] {
                    let values = ["0.0", "-0.0", "1.5", "-2.5", "1e300", "0.0005", "INFINITY", "-NAN"];
                    add(format!("%{flags}{width}{precision}{conversion}"), &values);
                }
                if flags.is_empty() || flags == "-" {
                    let texts = [
                        "\"\"",
                        "\"text\"",
                        "\"\\xc3\\xa4\" \"b {} \\xe2\\x82\\xac\"",
                        "long_text",
                        "unended",
                    ];
                    let texts = if precision.is_empty() { &texts[..4] } else { &texts[..] };
                    add(format!("%{flags}{width}{precision}s"), texts);
                }
            }
            if flags.is_empty() || flags == "-" {
                add(format!("%{flags}{width}c"), &["'x'", "'{'"]);
                add(format!("%{flags}{width}p"), &["(void *)0", "(void *)0xbeef"]);
            }
        }
    }
    for (length, values) in [
        ("hh", ["-1", "300", "127"]),
        ("h", ["-1", "70000", "SHRT_MIN"]),
        ("l", ["LONG_MIN", "LONG_MAX", "-1L"]),
        ("ll", ["LLONG_MIN", "LLONG_MAX", "-1LL"]),
        ("j", ["INTMAX_MIN", "INTMAX_MAX", "(intmax_t)-1"]),
        ("z", ["(size_t)0", "(size_t)-1", "(size_t)77"]),
        ("t", ["(ptrdiff_t)0", "(ptrdiff_t)-1", "PTRDIFF_MAX"]),
    ] {
        for conversion in ["d", "i", "u", "x", "o", "#x"] {
            let (flag, conversion) = conversion.split_at(conversion.len() - 1);
            add(format!("%{flag}{length}{conversion}"), &values);
        }
    }
    rows.push("    BOTH(\"%d %s {} %%%c %.1f %lx %d%%\", 1, \"two\", '3', 4.0, 5L, -6);".into());
    let sixteen = vec!["%d"; 16].join(",");
    let numbers: Vec<String> = (1..=17).map(|number: i32| number.to_string()).collect();
    rows.push(format!("    BOTH(\"{sixteen}\", {});", numbers[..16].join(", ")));
    rows.push(format!("    BOTH(\"{sixteen},%d\", {});", numbers.join(", ")));
    format!(
        "#include <limits.h>\n#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n\
         #include <tracer.h>\n\
         #define BOTH(...) do {{ tracer_trace(__VA_ARGS__); printf(__VA_ARGS__); putchar('\\n'); }} while (0)\n\
         static char long_text[700];\nstatic const char unended[3] = {{'a', 'b', 'c'}};\n\
         static void all(void) {{\n{}\n}}\n\
         int main(void) {{\n    memset(long_text, 'x', sizeof long_text - 1);\n    all();\n    \
         if (tracer_flush()) return 1;\n    all();\n    return 0;\n}}\n",
        rows.join("\n")
    )
}

#[test]
fn immediate_and_deferred_formats_agree_with_the_c_library() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let source = directory.path().join("formats.c");
    std::fs::write(&source, table_of_formats()).expect("it can be written");
    // Some combinations are meaningless, and are formatted all the same.
    let options = [&["-D_GNU_SOURCE", "-O0", "-Wno-format", "-Wno-unused"], &linking()[..]].concat();
    let program = Program::compile("cc", source.to_str().expect("a path"), &options);
    let traced = program.scenario(&[]).env("TRACER_FORMAT", "raw").run().succeeded();
    let printed: Vec<String> = traced.stdout().lines().map(str::to_owned).collect();
    let merged = program.merged(&traced);
    let told: Vec<String> = merged
        .iter()
        .map(|line| trace_format::line::Line::parse(line.as_bytes()).expect("a line"))
        .filter(|line| line.kind == trace_format::line::Kind::Message)
        .map(|line| String::from_utf8(trace_format::escape::unescape(line.payload)).expect("text"))
        .collect();
    assert!(printed.len() > 8000, "{}", printed.len());
    for (printed, told) in printed.iter().zip(&told) {
        assert_eq!(told, printed);
    }
    assert_eq!(told.len(), printed.len());
    // Messages of the second half, which were formatted later, have their values.
    let json = program.beside("json");
    let mut command = tracemerge(traced.runtime.path());
    command.args(["--quiet", "--format", "jsonl", "-o"]).arg(&json).arg(program.in_traces(&traced));
    assert!(command.status().expect("it runs").success());
    let json = std::fs::read_to_string(json).expect("text");
    let deferred = json
        .lines()
        .filter(|line| line.contains("\"kind\":\"message\"") && line.contains("\"fields\":"))
        .count();
    assert!(deferred > 1000, "{deferred} of {}", printed.len());
    assert!(
        json.lines().any(|line| line.contains("formats.c\"") && line.contains("\"function\":\"all\"")),
        "places"
    );
}
