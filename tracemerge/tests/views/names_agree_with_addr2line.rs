//! The names of addresses are those that `addr2line` of the GNU binutils prints, for programs that were compiled and
//! stripped in many ways.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs, clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::binaries::{BIAS, Binary, addresses, build_id, differences, module};
use crate::support::{binaries, programs};
use trace_format::meta::Module;
use tracemerge::symbols::{Answer, Files, Lookup, Settings, Source, Symbols, Unnamed};

/// The GNU binutils, and a compiler of C++ in addition.
const TOOLS: [&str; 2] = ["addr2line", "c++filt"];
const CPP: [&str; 4] = ["addr2line", "c++filt", "objcopy", "g++"];

/// Checks the names of the addresses of `traced`, with these settings, against the answers of `addr2line` for
/// `oracle`.
fn agrees_by(settings: Settings, traced: &Path, oracle: &Path) {
    agrees_of(settings, &module(traced, &build_id(oracle)), oracle);
}

fn agrees_of(settings: Settings, module: &Arc<Module>, oracle: &Path) {
    let files = Files::default();
    let mut symbols = Symbols::new(&files, settings);
    let differences = differences(module, &mut symbols, oracle);
    let some = &differences[..differences.len().min(4)];
    assert!(some.is_empty(), "{}: {} differ\n{}", oracle.display(), differences.len(), some.join("\n"));
    assert_eq!(symbols.take_warnings(), [""; 0]);
}

fn agrees(binary: &Binary) {
    agrees_by(Settings::default(), &binary.path, &binary.path);
}

/// Looks up all functions of a program; returns the different sources of the answers, and the warnings.
fn asked(settings: Settings, traced: &Path, build_id: &[u8], oracle: &Path) -> (Vec<Source>, Vec<String>) {
    let files = Files::default();
    let mut symbols = Symbols::new(&files, settings);
    let module = module(traced, build_id);
    let mut sources = Vec::new();
    for address in addresses(oracle) {
        let answer = symbols.name(Ok(&module), BIAS + address, Lookup::Code);
        if !sources.contains(&answer.source) {
            sources.push(answer.source);
        }
    }
    (sources, symbols.take_warnings())
}

fn in_debug_dir(directory: &Path) -> Settings {
    Settings { debug_dirs: vec![directory.to_owned()], ..Settings::default() }
}

#[test]
fn names_agree_for_rust_builds_with_all_settings() {
    if programs::lacks(&TOOLS) {
        return;
    }
    // The builds are a debug build, and optimized ones: with all debug information, with lines only, with lines and
    // no functions, with link-time optimization, and with either mangling.
    let builds = [
        ("debug", &["-g"][..]),
        ("optimized", &["-O", "-g"]),
        ("line-tables", &["-O", "-Cdebuginfo=line-tables-only"]),
        ("directives", &["-O", "-Cdebuginfo=line-directives-only"]),
        ("lto", &["-O", "-g", "-Clto=fat"]),
        ("v0", &["-O", "-g", "-Csymbol-mangling-version=v0"]),
        ("v0-stripped", &["-O", "-Cstrip=debuginfo", "-Csymbol-mangling-version=v0"]),
        ("stripped", &["-O", "-Cstrip=debuginfo"]),
    ];
    std::thread::scope(|scope| {
        for (name, flags) in builds {
            scope.spawn(move || agrees(&binaries::rust(name, flags)));
        }
    });
}

/// The tool does not read all of split debug information (binutils 2.40), so it reads the same program with the debug
/// information in one piece.
#[test]
fn names_agree_for_a_build_with_split_debug_information() {
    if programs::lacks(&TOOLS) {
        return;
    }
    let whole = binaries::rust("whole", &["-g"]);
    let agrees_split = |split: &Binary, settings| {
        assert_eq!(addresses(&split.path), addresses(&whole.path), "it is the same code");
        agrees_of(settings, &module(&split.path, &build_id(&split.path)), &whole.path);
    };
    let packed = binaries::rust("packed", &["-g", "-Csplit-debuginfo=packed"]);
    agrees_split(&packed, Settings::default());
    // The split files may have been moved together with the program.
    let moved = packed.path.parent().unwrap().join("moved");
    fs::create_dir(&moved).unwrap();
    fs::rename(packed.path.with_extension("dwp"), moved.join("packed.dwp")).unwrap();
    agrees_split(&packed, in_debug_dir(&moved));
    agrees_split(&binaries::rust("unpacked", &["-g", "-Csplit-debuginfo=unpacked"]), Settings::default());
}

#[test]
fn names_agree_for_programs_in_cpp() {
    if programs::lacks(&CPP) {
        return;
    }
    agrees(&binaries::cpp(&["-g", "-O0"]));
    agrees(&binaries::cpp(&["-g", "-O2"]));
    agrees(&binaries::cpp(&["-gdwarf-4", "-O2"]));
    agrees(&binaries::cpp(&["-O2"]));
}

#[test]
fn names_agree_for_a_library_in_c() {
    if programs::lacks(&TOOLS) {
        return;
    }
    agrees(&binaries::library(&["-g", "-O2"]));
    agrees(&binaries::library(&["-O2"]));
    agrees(&binaries::library(&["-g", "-O2", "-Wl,--build-id=none"]));
}

#[test]
fn names_agree_for_compressed_sections() {
    if programs::lacks(&CPP) {
        return;
    }
    let binary = Binary::small();
    for kind in ["zlib", "zlib-gnu", "zstd"] {
        let compressed = binary.objcopy(&[&format!("--compress-debug-sections={kind}")], kind);
        agrees_by(Settings::default(), &compressed, &binary.path);
    }
}

#[test]
fn names_agree_for_separate_debug_files_in_all_usual_places() {
    if programs::lacks(&CPP) {
        return;
    }
    let binary = Binary::small();
    let folder = binary.path.parent().unwrap();
    let debug = binary.objcopy(&["--only-keep-debug"], "names.debug");
    let link = format!("--add-gnu-debuglink={}", debug.display());
    let stripped = binary.objcopy(&["--strip-all", &link], "stripped");
    agrees_by(Settings::default(), &stripped, &binary.path);
    fs::create_dir(folder.join(".debug")).unwrap();
    fs::rename(&debug, folder.join(".debug/names.debug")).unwrap();
    agrees_by(Settings::default(), &stripped, &binary.path);

    let elsewhere = tempfile::tempdir().unwrap();
    let id: String = build_id(&binary.path).iter().map(|byte| format!("{byte:02x}")).collect();
    let places = [
        elsewhere.path().join("names.debug"),
        elsewhere.path().join(folder.strip_prefix("/").unwrap()).join("names.debug"),
        elsewhere.path().join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..])),
    ];
    let mut before = folder.join(".debug/names.debug");
    for place in places {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::rename(&before, &place).unwrap();
        agrees_by(in_debug_dir(elsewhere.path()), &stripped, &binary.path);
        before = place;
    }
    // The debug file alone is enough, too.
    fs::remove_file(&stripped).unwrap();
    agrees_by(in_debug_dir(elsewhere.path()), &stripped, &binary.path);
}

#[test]
fn names_agree_for_a_debug_file_without_build_id_but_right_checksum() {
    if programs::lacks(&CPP) {
        return;
    }
    let binary = binaries::cpp(&["-g", "-O2", "-Wl,--build-id=none"]);
    let debug = binary.objcopy(&["--only-keep-debug"], "names.debug");
    let link = format!("--add-gnu-debuglink={}", debug.display());
    let stripped = binary.objcopy(&["--strip-debug", &link], "stripped");
    agrees_by(Settings::default(), &stripped, &binary.path);
    let mut changed = fs::read(&debug).unwrap();
    changed.push(0);
    fs::write(&debug, changed).unwrap();
    let (sources, _) = asked(Settings::default(), &stripped, &[], &binary.path);
    assert_eq!(sources, [Source::SymbolTable], "the debug file is another one");
}

#[test]
fn names_agree_for_a_program_with_symbols_only() {
    if programs::lacks(&CPP) {
        return;
    }
    let binary = Binary::small();
    let stripped = binary.objcopy(&["--strip-debug"], "stripped");
    agrees_by(Settings::default(), &stripped, &stripped);
    let (sources, warnings) = asked(Settings::default(), &stripped, &build_id(&stripped), &binary.path);
    assert_eq!((sources, warnings), (vec![Source::SymbolTable], vec![]));
}

#[test]
fn names_agree_for_a_program_next_to_the_trace_or_in_a_given_place() {
    if programs::lacks(&CPP) {
        return;
    }
    let binary = Binary::small();
    let (folder, name) = (binary.path.parent().unwrap().to_owned(), binary.path.file_name().unwrap());
    let traced = Path::new("/no/such/directory").join(name);
    agrees_by(in_debug_dir(&folder), &traced, &binary.path);
    agrees_by(Settings { trace_dirs: vec![folder.clone()], ..Settings::default() }, &traced, &binary.path);

    let (sources, warnings) = asked(Settings::default(), &traced, &build_id(&binary.path), &binary.path);
    assert_eq!(sources, [Source::Nothing(Unnamed::NoFile)]);
    let [warning] = &warnings[..] else { panic!("one warning: {warnings:?}") };
    assert!(warning.contains("cannot open '/no/such/directory/names'"), "{warning}");
    assert!(warning.contains("--debug-dir"), "{warning}");

    let off = Settings { names: false, ..in_debug_dir(&folder) };
    let (sources, warnings) = asked(off, &traced, &build_id(&binary.path), &binary.path);
    assert_eq!((sources, warnings), (vec![Source::Nothing(Unnamed::SwitchedOff)], vec![]));
}

#[test]
fn names_never_come_from_another_build() {
    let [binary, other, without] =
        [&["-g", "-O2"][..], &["-g", "-O1"], &["-g", "-O2", "-Wl,--build-id=none"]].map(binaries::library);
    let id = build_id(&other.path);
    let (sources, warnings) = asked(Settings::default(), &binary.path, &id, &binary.path);
    assert_eq!(sources, [Source::Nothing(Unnamed::OtherBuildId)]);
    let [warning] = &warnings[..] else { panic!("one warning: {warnings:?}") };
    let digits = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for part in [&digits(&id), &digits(&build_id(&binary.path)), binary.path.to_str().unwrap(), "--debug-dir"]
    {
        assert!(warning.contains(part), "{part} in {warning}");
    }
    // A file that has a build-id is not trusted for a module that has none, nor the reverse.
    let (sources, _) = asked(Settings::default(), &binary.path, &[], &binary.path);
    assert_eq!(sources, [Source::Nothing(Unnamed::OtherBuildId)]);
    let (sources, _) = asked(Settings::default(), &without.path, &id, &without.path);
    assert_eq!(sources, [Source::Nothing(Unnamed::OtherBuildId)]);
    // The right file is found after the wrong one.
    let mut settings = in_debug_dir(other.path.parent().unwrap());
    settings.trace_dirs.push(PathBuf::from("/no/such/directory"));
    let (sources, warnings) = asked(settings, &binary.path, &id, &other.path);
    assert_eq!((sources, warnings), (vec![Source::DebugInfo], vec![]));
}

fn answered(path: &Path, id: &[u8], address: u64, lookup: Lookup) -> Arc<Answer> {
    let files = Files::default();
    Symbols::new(&files, Settings::default()).name(Ok(&module(path, id)), BIAS.wrapping_add(address), lookup)
}

/// Returns the first address of the function with this symbol, and its length.
fn function(path: &Path, name: &str) -> (u64, u64) {
    let functions = binaries::functions(path);
    let found = functions.iter().find(|(.., of)| of == name).unwrap();
    (found.0, found.1)
}

#[test]
fn an_unverified_answer_says_so() {
    let library = binaries::library(&["-g", "-Wl,--build-id=none"]);
    let (start, _) = function(&library.path, "hidden");
    let answer = answered(&library.path, &[], start, Lookup::Code);
    assert_eq!((answer.source, answer.is_verified), (Source::DebugInfo, false));
    let library = binaries::library(&["-g"]);
    let (start, length) = function(&library.path, "hidden");
    let id = build_id(&library.path);
    assert!(answered(&library.path, &id, start, Lookup::Code).is_verified);
    // As a return address, the first address of a function is the end of the code before it.
    let behind = answered(&library.path, &id, start + length, Lookup::ReturnAddress);
    assert_eq!(behind.outermost().unwrap().to_string(), "hidden");
    let outside = answered(&library.path, &id, 1, Lookup::Code);
    assert_eq!((outside.source, outside.is_verified), (Source::Nothing(Unnamed::NoFunction), false));
}

#[test]
fn all_names_of_shared_code_are_listed_once() {
    for flags in [&["-g"][..], &[]] {
        let library = binaries::library(flags);
        let (start, _) = function(&library.path, "shown");
        let answer = answered(&library.path, &build_id(&library.path), start, Lookup::Code);
        let mut names: Vec<&str> = answer.outermost().unwrap().names.iter().map(|name| &**name).collect();
        names.sort_unstable();
        assert_eq!(names, ["also_shown", "shown"], "{flags:?}");
    }
}

/// Looks up some functions in a damaged copy of a program: there is an answer, and it takes little time.
fn is_survived(bytes: &[u8], directory: &Path, id: &[u8], some: &[u64]) {
    let path = directory.join("damaged");
    fs::write(&path, bytes).unwrap();
    let files = Files::default();
    let mut symbols = Symbols::new(&files, Settings::default());
    let module = module(&path, id);
    let begin = std::time::Instant::now();
    for address in some {
        let _ = symbols.name(Ok(&module), BIAS + address, Lookup::Code);
    }
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
}

#[test]
fn a_truncated_binary_causes_no_crash() {
    let binary = binaries::library(&["-g", "-O2"]);
    let some: Vec<u64> = addresses(&binary.path).into_iter().step_by(97).collect();
    let (bytes, id) = (fs::read(&binary.path).unwrap(), build_id(&binary.path));
    let directory = tempfile::tempdir().unwrap();
    let headers = usize::try_from(u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap())).unwrap();
    let lengths = (0..300).chain((300..bytes.len()).step_by(bytes.len() / 250));
    for length in lengths {
        is_survived(&bytes[..length], directory.path(), &id, &some[..some.len().min(8)]);
        let mut zeroed = bytes.clone();
        zeroed[length..headers.max(length)].fill(0);
        is_survived(&zeroed, directory.path(), &id, &some);
    }
}

#[test]
fn garbage_in_a_binary_causes_no_crash() {
    let binary = binaries::library(&["-g", "-O2"]);
    let some: Vec<u64> = addresses(&binary.path).into_iter().step_by(97).collect();
    let (bytes, id) = (fs::read(&binary.path).unwrap(), build_id(&binary.path));
    let compressed = fs::read(binaries::library(&["-g", "-O2", "-gz=zlib"]).path).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        // Marsaglia's xorshift makes the same numbers each time.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for round in 0..400 {
        let mut damaged = if round % 4 == 0 { compressed.clone() } else { bytes.clone() };
        for _ in 0..1 + random(200) {
            let at = random(damaged.len());
            let value = [0, 0xff, 0x7f, 0x80, u8::try_from(random(256)).unwrap()][random(5)];
            let end = damaged.len().min(at + 1 + random(8));
            // The beginning identifies the kind of the file.
            if at > 64 {
                damaged[at..end].fill(value);
            }
        }
        is_survived(&damaged, directory.path(), &id, &some);
    }
}
