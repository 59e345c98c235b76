//! Programs in C and C++ from Debian's source packages, built by compilers with hooks.

use super::counts::{Counts, Symbols};
use super::sources::source_package;
use super::{Tools, clean, counts_of_callgrind, counts_of_report, same_counts, same_output};
use crate::failure::{Result, check};
use crate::shell::{Output, Shell};

/// The compilers of C, each with options that put hooks into functions.
const COMPILERS_OF_C: [&str; 4] =
    ["gcc -finstrument-functions", "clang -finstrument-functions", "gcc -pg", "clang -pg -mfentry"];
const COMPILERS_OF_CPP: [&str; 4] =
    ["g++ -finstrument-functions", "clang++ -finstrument-functions", "g++ -pg", "clang++ -pg -mfentry"];

/// A program that was built with hooks, and how it is run.
struct Traced<'a> {
    shell: &'a Shell,
    /// The name of the run in messages.
    what: String,
    /// The program and its arguments, separated by spaces.
    words: String,
    /// The path of the file that is the program's standard input.
    input: &'a str,
    /// Assignments of variables that are set if the program is traced.
    more: String,
}

impl<'a> Traced<'a> {
    fn new(shell: &'a Shell, what: impl Into<String>, words: impl Into<String>, input: &'a str) -> Self {
        Self { shell, what: what.into(), words: words.into(), input, more: String::new() }
    }

    fn program(&self) -> &str {
        self.words.split(' ').next().unwrap_or_default()
    }

    /// Runs the program by `command`, which gets it as arguments. Addresses are the same in each run, because some
    /// programs order tables by addresses.
    fn by(&self, command: &str) -> Result<Output> {
        let run = self.shell.command(&format!("setarch -R {command} {}", self.words));
        run.input_file(self.shell.path(self.input)).done()
    }

    /// Runs the program untraced and traced; both runs must print the same. Returns its output and the counts of its
    /// calls.
    fn counts(&self) -> Result<(Vec<u8>, Counts)> {
        let untraced = self.by("")?.stdout;
        let traced = self.by(&format!("env {} tracemerge run -q", self.more))?.stdout;
        same_output(&self.what, &untraced, &traced)?;
        let counts = counts_of_report(self.shell, self.program())?;
        clean(self.shell, self.program())?;
        Ok((untraced, counts))
    }

    /// Compares the counts of the program's calls with those of uftrace. Returns the output of the program, and the
    /// counts.
    fn compare_with_uftrace(&self) -> Result<(String, Counts)> {
        let (untraced, ours) = self.counts()?;
        self.shell.remove("recorded")?;
        let output = self.by("uftrace record --no-libcall -b 16m -d recorded")?;
        let lost = output.said().to_lowercase().contains("lost");
        check(!lost, || format!("uftrace has lost records of {}", self.what))?;
        check(output.stdout == untraced, || format!("{} prints something else with uftrace", self.what))?;
        let report = self.shell.command("uftrace report -d recorded --no-pager --demangle=full").done()?;
        let theirs = Counts::of_uftrace(&report.text());
        same_counts(self.shell, &self.what, self.program(), ours.clone(), &theirs)?;
        Ok((output.text().into_owned(), ours))
    }
}

/// Compiles a program by a compiler with these options and sources. Returns the path of the program.
fn compiled(shell: &Shell, name: &str, compiler: &str, options: &str) -> Result<String> {
    let program = format!("./{name}.{}", compiler.replace(' ', ""));
    shell.command(&format!("{compiler} -o {program} {options}")).done()?;
    Ok(program)
}

/// Compresses and decompresses with bzip2, built with each kind of hooks, and with dormant hooks, which uftrace does
/// not know.
pub fn bzip2(tools: &Tools) -> Result<()> {
    let shell = &source_package(tools, "bzip2", None)?;
    let options = "-O2 -w -D_FILE_OFFSET_BITS=64 blocksort.c huffman.c crctable.c randtable.c compress.c \
        decompress.c bzlib.c bzip2.c";
    for compiler in COMPILERS_OF_C {
        let program = compiled(shell, "bzip2", compiler, &format!("-g {options}"))?;
        for (option, input) in [("-c", "sample1.ref"), ("-d", "sample2.bz2")] {
            let what = format!("bzip2 {option}, {compiler}");
            Traced::new(shell, what, format!("{program} {option}"), input).compare_with_uftrace()?;
        }
    }
    // Older versions of valgrind do not read the newer debug information of clang.
    let dormant = "clang -gdwarf-4 -fxray-instrument -fxray-instruction-threshold=1 -fnoxray-link-deps";
    shell.command(&format!("{dormant} -o bzip2.xray {options}")).done()?;
    let traced = Traced::new(shell, "bzip2 -c, dormant", "./bzip2.xray -c", "sample1.ref");
    let (untraced, ours) = traced.counts()?;
    let printed = traced.by("valgrind -q --tool=callgrind --callgrind-out-file=callgrind.out")?.stdout;
    check(printed == untraced, || "bzip2 prints something else with callgrind".to_owned())?;
    // Callgrind counts calls in all libraries; the program's own functions are in its symbols.
    let symbols = shell.command("nm bzip2.xray").done()?;
    let symbols = symbols.text();
    let own = Symbols::parse(&symbols).functions();
    let theirs = counts_of_callgrind(shell, None)?.only(|name| own.contains(name));
    same_counts(shell, "bzip2 -c, dormant, beside callgrind", "bzip2.xray", ours, &theirs)
}

/// Runs a script with Lua.
pub fn lua(tools: &Tools) -> Result<()> {
    let shell = &source_package(tools, "lua5.4", None)?.at("src");
    // Debian's build makes this file for its own paths.
    shell.write("lua5.4-deb-multiarch.h", "#define DEB_HOST_MULTIARCH \"none\"\n")?;
    shell.write("work.lua", include_str!("../../inputs/work.lua"))?;
    let files = shell.files(".")?;
    let names = files.iter().filter_map(|path| path.file_name()?.to_str());
    let sources: Vec<&str> = names.filter(|name| name.ends_with(".c") && *name != "luac.c").collect();
    // Values that depend on addresses and the time would differ if another library is loaded: the seed of the hashes,
    // and the place of a string in the cache.
    let fixed = "-Dluai_makeseed(state)=1 -DSTRCACHE_N=1 -DSTRCACHE_M=2";
    let options =
        format!("-g -O2 -w {fixed} -I. -DLUA_USE_POSIX -DLUA_USE_DLOPEN {} -lm -ldl", sources.join(" "));
    for compiler in COMPILERS_OF_C {
        let words = compiled(shell, "lua", compiler, &options)? + " work.lua";
        Traced::new(shell, format!("lua, {compiler}"), words, "/dev/null").compare_with_uftrace()?;
    }
    Ok(())
}

/// Runs the own tests of tinyxml2, a library in C++.
pub fn tinyxml2(tools: &Tools) -> Result<()> {
    let shell = &source_package(tools, "tinyxml2", None)?;
    // The tests print their durations.
    shell.write("clock.c", "#include <time.h>\nclock_t clock(void) { return 0; }\n")?;
    shell.command("gcc -c clock.c").done()?;
    for compiler in COMPILERS_OF_CPP {
        let program = compiled(shell, "xmltest", compiler, "-g -O1 -w tinyxml2.cpp xmltest.cpp clock.o")?;
        let traced = Traced::new(shell, format!("tinyxml2's tests, {compiler}"), program, "/dev/null");
        let (printed, _) = traced.compare_with_uftrace()?;
        let passed = printed.lines().any(|line| line.ends_with("Fail 0"));
        check(passed, || format!("tinyxml2's tests fail: {:?}", printed.lines().last()))?;
    }
    Ok(())
}

/// Runs statements of SQL with sqlite3.
pub fn sqlite(tools: &Tools) -> Result<()> {
    let shell = &source_package(tools, "sqlite3", None)?.at("made");
    shell.write("work.sql", include_str!("../../inputs/work.sql"))?;
    shell.command("../configure --disable-tcl --disable-shared").done()?;
    shell.command("make sqlite3.c shell.c").done()?;
    let options = "-g1 -O1 -w -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION sqlite3.c shell.c -lm";
    for compiler in COMPILERS_OF_C {
        let words = compiled(shell, "sqlite3", compiler, options)? + " -batch :memory:";
        Traced::new(shell, format!("sqlite3, {compiler}"), words, "work.sql").compare_with_uftrace()?;
    }
    Ok(())
}

/// Runs rsync, which has checksum functions in several versions: for each, a resolver chooses one version (`ifunc`)
/// while the loader relocates the program. With `-pg` the resolvers have hooks, too. The program also forks two
/// processes.
pub fn ifuncs(tools: &Tools) -> Result<()> {
    // Later versions need zlib and popt from the system.
    let release =
        tools.shell.command("sh -c").arg(". /etc/os-release && echo \"$VERSION_CODENAME\"").done()?;
    let shell = &source_package(tools, "rsync", Some(release.text().trim()))?;
    // So that make does not want to run autoconf.
    shell.command("touch aclocal.m4 configure.sh config.h.in").done()?;
    let without = "xxhash lz4 zstd openssl acl-support xattr-support md2man iconv ipv6 locale roll-asm";
    let configure = shell.command("./configure --with-included-zlib --with-included-popt");
    let configure = configure.args(without.split(' ').map(|name| format!("--disable-{name}")));
    configure.args(["CFLAGS=-g -O1 -w", "CXXFLAGS=-g -O1 -w"]).done()?;
    for number in 1..=3 {
        let new = noise(number, 300_000);
        let changed = format!("changed {number}\n");
        shell.write(format!("old/{number}"), [&new[..1000], changed.as_bytes(), &new[1499..]].concat())?;
        shell.write(format!("new/{number}"), new)?;
    }
    let makefile = shell.read_text("Makefile")?;
    let flags = makefile.lines().find_map(|line| line.strip_prefix("CFLAGS=")).unwrap_or_default();
    let objects = ["checksum.o", "match.o", "simd-checksum-x86_64.o"];
    for (hooks, linked) in [("-finstrument-functions", ""), ("-pg", "-pg")] {
        shell.command("rm -f rsync").args(objects).done()?;
        let make = shell.command("make -s").args(objects).arg(format!("CFLAGS={flags} {hooks}"));
        make.arg(format!("CXXFLAGS={flags} {hooks} -fno-exceptions -fno-rtti")).done()?;
        // All resolvers run before the program starts.
        shell.command("make -s rsync").arg(format!("LDFLAGS={linked} -Wl,-z,now")).done()?;
        let program = &format!("./rsync.{hooks}");
        shell.command("mv rsync").arg(program).done()?;
        let symbols = shell.command("nm").arg(program).done()?;
        let resolvers = symbols.text().lines().filter(|line| line.contains(" i ")).count();
        check(resolvers >= 2, || "rsync has no resolvers".to_owned())?;
        // The changes go into a file, so each run does the same. Untraced, `-pg` writes a file.
        let changes =
            "-rc --no-whole-file --exclude=gmon.out --checksum-seed=1 --only-write-batch=batch new/ old/";
        let words = format!("{program} --itemize-changes {changes}");
        let traced = Traced::new(shell, format!("rsync, gcc {hooks}"), words, "/dev/null");
        let (_, ours) = traced.compare_with_uftrace()?;
        let several = ours
            .names()
            .iter()
            .any(|name| name.find("get_checksum1").is_some_and(|at| name[at..].contains("ssse3")));
        check(several, || "no function has several versions".to_owned())?;
        // This batch is of the run with uftrace; that of the traced run must do the same.
        shell.command(&format!("tracemerge run -q {program} {changes}")).done()?;
        clean(shell, program)?;
        shell.remove("copy")?;
        shell.copy("old", "copy")?;
        shell.command(program).args(["-r", "--read-batch=batch", "copy/"]).done()?;
        shell.command("diff -r -x gmon.out new copy").done()?;
    }
    Ok(())
}

/// Returns `length` bytes that no program can compress. They are the same for the same `seed`.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Runs gawk, which loads six of its extensions as plugins, all with hooks.
pub fn plugins(tools: &Tools) -> Result<()> {
    let mut shell = source_package(tools, "gawk", None)?;
    let made = ["configure", "aclocal.m4", "Makefile.in", "configh.in", "awkgram.c", "command.c"];
    let made = shell.files(".")?.into_iter().filter(|path| made.iter().any(|name| path.ends_with(name)));
    shell.command("touch").args(made).done()?;
    shell.write("work.awk", include_str!("../../inputs/work.awk"))?;
    let configure = shell.command("./configure --disable-nls --disable-mpfr --without-readline");
    configure.arg("CFLAGS=-g -O1 -w -finstrument-functions").done()?;
    for target in ["-C support", "gawk", "-C extension"] {
        shell.command("make -s").args(target.split(' ')).done()?;
    }
    let libraries = shell.path("extension/.libs");
    shell.set("AWKLIBPATH", libraries);
    // Its calls depend on the number of variables, of which uftrace adds some.
    let count = |words: &str| -> Result<u64> {
        let run = shell.command(words).args(["./gawk", "BEGIN { print length(ENVIRON) }"]).done()?;
        Ok(run.text().trim().parse().unwrap_or_default())
    };
    let ours = count("tracemerge run -q")?;
    let theirs = count("uftrace record --no-libcall -b 16m -d counted")?;
    clean(&shell, "./gawk")?;
    let mut traced = Traced::new(&shell, "gawk with six plugins", "./gawk -f work.awk", "/dev/null");
    traced.more = (ours..theirs).map(|number| format!("MORE_{number}=1 ")).collect();
    let (_, counts) = traced.compare_with_uftrace()?;
    for name in "do_chr do_ord do_fnmatch do_stat do_readfile do_writea do_reada do_intdiv".split(' ') {
        check(counts.names().contains(&name), || format!("no calls of {name} in a plugin"))?;
    }
    Ok(())
}
