//! The file of a module is found by its build-id, in the places where debuggers and distributions have such files, and
//! under any name in a directory that the user has named. The compressed symbol table of a stripped file is read.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Place, header, run};

/// The build-id of the traced file, its first byte apart, and that of another build.
const ID: [&str; 2] = ["5a", "0123456789abcdef0123456789abcdef012345"];
const OTHER: &str = "0x5affffffffffffffffffffffffffffffffffffff";

/// The address of the first function of the traced file.
const CODE: u64 = 0x10000;

/// Compiles a library whose first function is `hidden`, and the next one `shown`, to `path`.
fn compile(place: &Place, path: &str, options: &[&str]) {
    let source = "__attribute__((noinline)) static int hidden(int x) { return x * 3; }\n\
                  int shown(int x) { return hidden(x) + 1; }\n";
    place.write("tmp/source.c", source);
    let path = place.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut command = Command::new("cc");
    command.args(["-O1", "-shared", "-fPIC", "-nostdlib", "-fno-toplevel-reorder"]).args(options);
    command.arg(format!("-Wl,-Ttext={CODE:#x}")).arg(place.path("tmp/source.c")).arg("-o").arg(path);
    assert!(command.status().unwrap().success());
}

fn build_id() -> String {
    format!("-Wl,--build-id=0x{}{}", ID[0], ID[1])
}

/// Writes a trace of one call of the first function; its module was at `path`.
fn trace(place: &Place, path: &Path) {
    let record = |ticks: u64, kind: char, text: &str| format!("{ticks:016x}-{:08} {kind} {text}\n", 9);
    let module = format!(
        "module start={CODE:016x} end={:016x} bias=0000000000000000 build_id={}{} path=\"{}\" after=0 seen=1000",
        CODE + 0x1000,
        ID[0],
        ID[1],
        path.display()
    );
    let called = format!("{CODE:#x}");
    let lines = [record(1000, '#', &module), record(1010, '>', &called), record(1020, '<', &called)].concat();
    place.write("app.trace.9", [header(&run(5, 1), 9), lines.into_bytes()].concat());
}

/// Returns the command `report` for the trace, without the user's own caches.
fn report(place: &Place) -> Command {
    let mut command = place.command();
    command.arg("report").arg("app").env("HOME", place.path("tmp")).env_remove("XDG_CACHE_HOME");
    command.env_remove("DEBUGINFOD_CACHE_PATH");
    command
}

/// Returns the output and the messages of a command.
fn said(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

fn assert_named(command: &mut Command, how: &str) {
    let (out, err) = said(command);
    assert!(out.contains(" hidden  (") && !err.contains("debug-dir"), "{how}: {out}{err}");
}

#[test]
fn a_file_is_found_by_its_build_id_in_each_known_place() {
    let [first, rest] = ID;
    let places = [
        "under another name".to_owned(),
        "some/where/below".to_owned(),
        "gone/app".to_owned(),
        format!(".build-id/{first}/{rest}"),
        format!(".build-id/{first}/{rest}.debug"),
        format!("{first}/{rest}"),
        format!("{first}/{rest}.debug"),
        format!("{first}{rest}/executable"),
        format!("{first}{rest}/debuginfo"),
    ];
    for at in places {
        let place = Place::new();
        trace(&place, Path::new("/gone/app"));
        compile(&place, &format!("named/{at}"), &["-g", &build_id()]);
        // Neither the same name nor the same place makes a file the right one, and a FIFO is not opened.
        compile(&place, "named/app", &["-g", &format!("-Wl,--build-id={OTHER}")]);
        let fifo = Command::new("mkfifo").arg(place.path("named/fifo")).status();
        assert!(fifo.unwrap().success());
        assert_named(report(&place).arg("--debug-dir").arg(place.path("named")), &at);
        let (out, err) = said(report(&place).arg("--debug-dir").arg(place.path("tmp")));
        assert!(out.contains(" app+0x10000\n") && err.contains("--debug-dir"), "{out}{err}");
    }
}

#[test]
fn a_file_is_found_in_the_cache_of_debuginfod() {
    let place = Place::new();
    trace(&place, Path::new("/gone/app"));
    let name = format!("{}{}/executable", ID[0], ID[1]);
    compile(&place, &format!("caches/debuginfod_client/{name}"), &["-g", &build_id()]);
    let caches = place.path("caches");
    assert_named(report(&place).env("XDG_CACHE_HOME", &caches), "XDG_CACHE_HOME");
    let client = caches.join("debuginfod_client");
    assert_named(report(&place).env("DEBUGINFOD_CACHE_PATH", &client), "DEBUGINFOD_CACHE_PATH");
    fs::rename(&caches, place.path(".cache")).unwrap();
    assert_named(report(&place).env("HOME", place.path("")), "HOME");
    // The debug information, and not the stripped program beside it.
    let folder = place.path(".cache/debuginfod_client").join(format!("{}{}", ID[0], ID[1]));
    fs::rename(folder.join("executable"), folder.join("debuginfo")).unwrap();
    compile(&place, "stripped", &["-s", &build_id()]);
    fs::rename(place.path("stripped"), folder.join("executable")).unwrap();
    assert_named(report(&place).env("HOME", place.path("")), "both");
}

/// Returns data in the format of xz, whose one block has these chunks.
fn xz(chunks: &[u8]) -> Vec<u8> {
    // The header, and that of a block of one filter, LZMA2 with a dictionary of 8 MiB.
    let mut packed = b"\xfd7zXZ\0\0\0\xff\x12\xd9\x41".to_vec();
    packed.extend(b"\x02\0\x21\x01\x16\0\0\0\x74\x2f\xe5\xa3");
    packed.extend(chunks);
    packed.push(0);
    packed.resize(packed.len().next_multiple_of(4), 0);
    // An index would follow.
    packed.extend([0; 16]);
    packed
}

/// Compiles the library without its symbols, and with `section` in place of them.
fn compile_with_section(place: &Place, section: Vec<u8>) {
    place.write("tmp/section", section);
    let assembly = format!(
        ".section .gnu_debugdata,\"\",@progbits\n.incbin \"{}\"\n\
         .section .note.GNU-stack,\"\",@progbits\n",
        place.path("tmp/section").display()
    );
    place.write("tmp/section.s", assembly);
    let section = place.path("tmp/section.s").display().to_string();
    compile(place, "app", &["-s", &build_id(), &section]);
}

#[test]
fn the_compressed_symbol_table_of_a_stripped_file_is_read() {
    let place = Place::new();
    trace(&place, &place.path("app"));
    compile(&place, "whole", &["-g0", &build_id()]);
    let whole = fs::read(place.path("whole")).unwrap();
    // Chunks without compression; the first one begins a dictionary.
    let chunk = |(number, part): (usize, &[u8])| {
        let length = u16::try_from(part.len() - 1).unwrap().to_be_bytes();
        [&[if number == 0 { 1 } else { 2 }][..], &length, part].concat()
    };
    compile_with_section(&place, xz(&whole.chunks(1 << 16).enumerate().flat_map(chunk).collect::<Vec<u8>>()));
    let (out, err) = said(&mut report(&place));
    assert!(out.contains(" hidden (symbol)") && !err.contains("debug-dir"), "{out}{err}");
}

#[test]
fn a_symbol_table_that_would_fill_the_memory_is_not_unpacked() {
    let place = Place::new();
    trace(&place, &place.path("app"));
    let chunk: Vec<u8> =
        (0..ZEROS.len()).step_by(2).map(|at| u8::from_str_radix(&ZEROS[at..at + 2], 16).unwrap()).collect();
    compile_with_section(&place, xz(&chunk.repeat(2000)));
    let (out, err) = (place.path("tmp/out"), place.path("tmp/err"));
    let mut command = report(&place);
    command.stdin(Stdio::null());
    command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
    let (status, peak) = crate::support::peak::waited(&mut command.spawn().unwrap());
    let err = fs::read_to_string(err).unwrap();
    assert!(status.code().is_some_and(|status| status <= 1), "{status}: {err}");
    assert!(peak <= 300 << 20, "{} MiB; {err}", peak >> 20);
    assert!(err.contains("beyond 128 MiB"), "{err}");
}

/// A chunk of xz that unpacks to two million zeros, and begins anew.
const ZEROS: &str = "\
    ffff11016c5d00006ffdffffa3b7ff473e481572396151b89228e6a38607f9eee41e82d32fc53a3c014bb17ec98a8a4d\
    2fa30dd97fa6e38c231153e05918c5758ae277f8b6947f0c6ac0de744964e2e95c53b204d8f7440cab5f0d6d46e9e5c3\
    7688b79657acb64de1691d6ffb4b88106c42cb883f5c008fd04eaf262894711f3d8f24e1709ea7235fec28cb85d19598\
    8a7e2a91f22775f719c006984d98fdd8afd5900fc42553f8f591363105a5b0ee6fc1704d470cd19111aaad601dbaceb1\
    27185c5986e9665258bee976ac59e4e55b0508f9c7daadfcfb522b74cd1e5b2042f9dd533df82964093b80cb2a6cdfb5\
    3bf0c4bd2e5faa0f3e4b664290130eff1093f8717859f80bcdff9528460fa9fc7cdefb9a302e56c08f85f38381c065c4\
    2553f8f591363105a5b0ee6fc1704d470cd19111aaad601dbaceb127185c5986e9665258bee976ac59e4e55b0508f9c7\
    daadfcfb522b74cd1e5b2042f9dd533df82964093b80cb2a6cdfb53bf0c4bc4827e658";
