//! The changes that turn the files of programs into files that no program leaves.

use super::bases::{Base, Content, File, LOGS, RUNS, TRACES};
use crate::checks;
use support::APP;
use support::torture::Random;
use trace_format::crc32;
use trace_format::sites;

/// Names and texts that an attacker may choose to harm a terminal, a table, a browser, a shell, or memory.
const HOSTILE: [&[u8]; 22] = [
    b"\x1b]0;owned\x07",
    b"\x1b[2J\x1b[1;31m",
    b"\x9b31m\x07",
    b"\xc2\x9b31m",
    "\u{202e}gnp.exe\u{2066}".as_bytes(),
    "\u{200b}\u{feff}\u{2028}".as_bytes(),
    b"\"><script>alert(1)</script>",
    b"</script><script>alert(2)</script>",
    b"]]><script>alert(3)</script><![CDATA[",
    b"' onload='alert(4)' x='\" onload=\"alert(5)",
    b"&lt;&#0;&bogus;",
    b"a,b\"c;d\te",
    b"=cmd|' /C calc'!A0",
    b"\0\0\0",
    b"\r\n0000000000000001-00000001 : forged",
    b"../../../../etc/passwd",
    b"/dev/zero",
    b"%s%n%x{}{:65535}{:?}{0:>1$}",
    b"\\x1b[2J\\x07\\",
    b"\xff\xfe\xed\xa0\x80",
    b"$(touch owned)`touch owned`;touch owned",
    b"lock got id=1 ns=18446744073709551615",
];

/// Numbers at which calculations overflow.
const NUMBERS: [u64; 16] = [
    0,
    1,
    7,
    8,
    255,
    65_535,
    65_536,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 7,
    u64::MAX - 1,
    u64::MAX,
];

/// The marks of lines.
const KINDS: &[u8] = b":|<>^#?";

/// Returns a hostile text; now and then a very long one.
pub fn hostile(random: &mut Random) -> Vec<u8> {
    match random.below(0, 40) {
        0 => vec![b'x'; random.magnitude(1 << 8, 1 << 17) as usize],
        1 => "\u{1f600}\u{301}".repeat(random.magnitude(8, 4000) as usize).into_bytes(),
        _ => random.pick(&HOSTILE).to_vec(),
    }
}

fn number(random: &mut Random) -> u64 {
    if random.percent(30) { random.number() >> random.below(0, 64) } else { random.pick(&NUMBERS) }
}

/// Makes an input of one base or two, with a few changes.
pub fn input(bases: &[Base], random: &mut Random) -> (Vec<File>, Vec<String>) {
    let mut files = random_base(bases, random).files.clone();
    let mut done = vec![format!("{} files", files.len())];
    if random.percent(20) {
        let other = random_base(bases, random);
        files.extend(other.files.iter().cloned());
        done.push(format!("and those of {}", other.name));
    }
    let logs = random.below(0, 3) as usize;
    files.extend((0..logs).map(|_| super::bases::log(random.below(0, 40) as usize)));
    for _ in 0..random.below(0, 7) {
        done.push(change(&mut files, bases, random));
    }
    // Each path has one content.
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| seen.insert(file.path.clone()));
    (files, done)
}

fn random_base<'a>(bases: &'a [Base], random: &mut Random) -> &'a Base {
    &bases[random.below(0, bases.len() as u64) as usize]
}

/// Makes one change; returns its description.
fn change(files: &mut Vec<File>, bases: &[Base], random: &mut Random) -> String {
    if files.is_empty() {
        return "nothing to change".to_owned();
    }
    let at = random.below(0, files.len() as u64) as usize;
    let kind = random.below(0, 20);
    if kind < 4 {
        return of_files(files, at, bases, random);
    }
    let path = files[at].path.clone();
    let Some(bytes) = files[at].bytes_mut() else { return format!("{path} has no bytes") };
    let what = match kind {
        4..7 => {
            let some: Vec<u8> = (0..27).map(|_| random.number() as u8).collect();
            checks::change(bytes, &some);
            "bytes"
        }
        7..9 => word(bytes, random),
        9..11 => field(bytes, random),
        11 if path.ends_with("/sites") => change_site_table(bytes, random),
        11..13 => text(bytes, random),
        13 => splice(bytes, random_base(bases, random), random),
        _ => lines(bytes, random),
    };
    if random.percent(70) {
        correct_checks(bytes);
    }
    format!("{path}: {what}")
}

/// Changes the set of files; returns a description.
fn of_files(files: &mut Vec<File>, at: usize, bases: &[Base], random: &mut Random) -> String {
    let path = files[at].path.clone();
    let other = random.below(0, files.len() as u64) as usize;
    match random.below(0, 8) {
        0 => {
            let copy = File { path: some_path(random), ..files[at].clone() };
            let what = format!("{path} copied to {}", copy.path);
            files.push(copy);
            what
        }
        1 => {
            files.remove(at);
            format!("{path} removed")
        }
        2 => {
            let content = files[other].content.clone();
            files[other].content = std::mem::replace(&mut files[at].content, content);
            format!("{path} exchanged with {}", files[other].path)
        }
        3 => {
            files[at].path = some_path(random);
            format!("{path} renamed to {}", files[at].path)
        }
        4 => {
            let stranger = random_base(bases, random);
            let taken = stranger.files.get(random.below(0, stranger.files.len().max(1) as u64) as usize);
            if let Some(taken) = taken {
                files[at].content = taken.content.clone();
            }
            format!("{path} is a file of {}", stranger.name)
        }
        5 => {
            let bytes = files[at].bytes().unwrap_or_default().to_vec();
            files[at].content = Content::Sparse(bytes, 1 << random.below(12, 24));
            format!("{path} sparse")
        }
        6 => {
            files[at].content = match random.below(0, 5) {
                0 => Content::Directory,
                1 => Content::Fifo,
                2 => Content::Link("/nowhere".to_owned()),
                3 => Content::Link("/dev/null".to_owned()),
                _ => Content::Link(format!("../{path}")),
            };
            format!("{path} is {:?}", files[at].content)
        }
        _ => {
            let end = random.below(0, 200) as usize;
            if let Some(bytes) = files[at].bytes_mut() {
                bytes.truncate(end);
            }
            format!("{path} cut to {end}")
        }
    }
}

/// Returns a path at which readers look.
fn some_path(random: &mut Random) -> String {
    let number = number(random);
    match random.below(0, 8) {
        0..4 => format!("{TRACES}/{APP}.trace.{}", number % 100_000),
        4 => format!("{TRACES}/{APP}.trace.{number}.{}", random.below(0, 100)),
        5 => {
            let name: Vec<u8> =
                hostile(random).into_iter().filter(|b| *b != 0 && *b != b'/').take(80).collect();
            format!("{TRACES}/{}.trace.{}", String::from_utf8_lossy(&name), number % 1000)
        }
        6 => {
            format!("{RUNS}/{}-{:08x}/ring-{}", number % 100_000, random.number() as u32, random.below(0, 9))
        }
        _ => format!("{LOGS}/log-{number}"),
    }
}

/// Changes a word of eight bytes: the header of a record or of a file, a length, a position.
fn word(bytes: &mut [u8], random: &mut Random) -> &'static str {
    let words = bytes.len() / 8;
    if words == 0 {
        return "no word";
    }
    // The first words describe the file.
    let among = if random.percent(40) { words.min(64) } else { words };
    let at = random.below(0, among as u64) as usize * 8;
    let word: &mut [u8] = &mut bytes[at..at + 8];
    match random.below(0, 5) {
        0 => word.copy_from_slice(&number(random).to_le_bytes()),
        1 => word[0] = random.below(0, 17) as u8,
        2 => word[2..4].copy_from_slice(&(number(random) as u16).to_le_bytes()),
        3 => word[4..8].copy_from_slice(&(number(random) as u32).to_le_bytes()),
        _ => word[random.below(0, 8) as usize] ^= 1 << random.below(0, 8),
    }
    "a word"
}

/// Changes the value of a `key=value`; in files that are not text, the length stays.
fn field(bytes: &mut Vec<u8>, random: &mut Random) -> &'static str {
    let equals: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'=').collect();
    if equals.is_empty() {
        return "no field";
    }
    let start = random.pick(&equals) + 1;
    let rest = &bytes[start..];
    let is_quoted = rest.first() == Some(&b'"');
    let start = start + usize::from(is_quoted);
    let ends: &[u8] = if is_quoted { b"\"\n" } else { b" \n" };
    let length =
        bytes[start..].iter().position(|b| ends.contains(b)).unwrap_or(bytes.len() - start).min(4096);
    let mut value = match random.below(0, 4) {
        _ if is_quoted => hostile(random),
        0 => hostile(random),
        1 => format!("{:016x}", number(random)).into_bytes(),
        2 => format!("{}-02-30T25:61:61.{}Z", random.below(0, 99_999), number(random)).into_bytes(),
        _ => number(random).to_string().into_bytes(),
    };
    if is_quoted && random.percent(70) {
        // A tracer would have written it so.
        let mut escaped = Vec::new();
        let place = trace_format::escape::EscapeContext::Quoted;
        trace_format::escape::escape_into(&mut escaped, &value, place);
        value = escaped;
    }
    if !is_text(bytes) {
        value.resize(length, b' ');
    }
    bytes.splice(start..start + length, value);
    "a field"
}

fn is_text(bytes: &[u8]) -> bool {
    !bytes.iter().take(4096).any(|byte| *byte == 0)
}

/// Puts a hostile text somewhere; in files that are not text, the length stays.
fn text(bytes: &mut Vec<u8>, random: &mut Random) -> &'static str {
    let letters: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at].is_ascii_lowercase()).take(20_000).collect();
    if letters.is_empty() {
        return "no text";
    }
    let at = random.pick(&letters);
    let mut put = hostile(random);
    if is_text(bytes) {
        bytes.splice(at..at, put);
    } else {
        let room = bytes[at..].iter().position(|b| !b.is_ascii_graphic()).unwrap_or(bytes.len() - at);
        put.truncate(room);
        bytes[at..at + put.len()].copy_from_slice(&put);
    }
    "a text"
}

/// Writes the site table anew, with other texts, numbers and shapes.
fn change_site_table(bytes: &mut Vec<u8>, random: &mut Random) -> &'static str {
    let Ok(mut found) = sites::parse(bytes) else { return "no sites" };
    if found.is_empty() {
        return "no site";
    }
    for _ in 0..random.below(1, 4) {
        let at = random.below(0, found.len() as u64) as usize;
        let text = String::from_utf8_lossy(&hostile(random)).into_owned();
        let site = &mut found[at];
        match random.below(0, 10) {
            0 => site.module = text,
            1 => site.file = text,
            2 => site.format = text,
            3 => site.target = text,
            4 => site.function = text,
            5 => site.template = text,
            6 => site.names = vec![text; random.below(0, 9) as usize],
            7 => {
                site.descriptor =
                    (0..random.below(0, 12)).map(|_| random.pick(b"aslxnhtmyofdbceupPORSAT\x01")).collect()
            }
            8 => site.line = number(random) as u32,
            _ => site.id = number(random) as u32,
        }
    }
    let mut entries = Vec::new();
    found.iter().for_each(|site| site.write(&mut entries));
    *bytes = [&sites::header((sites::HEADER_BYTES + entries.len()) as u64)[..], &entries].concat();
    "sites"
}

/// Puts a part of another file into this one.
fn splice(bytes: &mut Vec<u8>, other: &Base, random: &mut Random) -> &'static str {
    let files = &other.files;
    let Some(other) = files.get(random.below(0, files.len().max(1) as u64) as usize).and_then(File::bytes)
    else {
        return "no other file";
    };
    let place = |random: &mut Random, length: usize| {
        let at = random.below(0, length as u64 + 1) as usize;
        if random.percent(70) { at & !7 } else { at }
    };
    let from = place(random, other.len());
    let length = (random.magnitude(8, 4096) as usize).min(other.len() - from);
    let at = place(random, bytes.len());
    let replaced = if random.percent(50) { length.min(bytes.len() - at) } else { 0 };
    bytes.splice(at..at + replaced, other[from..from + length].iter().copied());
    "a part of another file"
}

/// Changes, moves, doubles and adds lines.
fn lines(bytes: &mut Vec<u8>, random: &mut Random) -> &'static str {
    let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    if lines.is_empty() {
        return "no line";
    }
    let [one, other] = [(); 2].map(|()| random.below(0, lines.len() as u64) as usize);
    let what = match random.below(0, 8) {
        0 => {
            lines.swap(one, other);
            "lines exchanged"
        }
        1 => {
            let copy = lines[one].clone();
            (0..random.below(1, 50)).for_each(|_| lines.insert(other, copy.clone()));
            "a line doubled"
        }
        2 => {
            lines.remove(one);
            "a line removed"
        }
        3 => {
            put(&mut lines[one], 0, format!("{:016x}", number(random)).as_bytes());
            "other ticks"
        }
        4 => {
            put(&mut lines[one], 17, format!("{:08}", number(random)).as_bytes());
            "another thread"
        }
        5 => {
            let at = lines[one].iter().position(|b| *b == b' ').map_or(0, |at| at + 1);
            put(&mut lines[one], at, &[random.pick(KINDS)]);
            "another kind"
        }
        _ => {
            let added = added(&lines[one], random);
            lines.splice(one..one, added);
            "lines added"
        }
    };
    *bytes = lines.concat();
    what
}

/// Overwrites the bytes from a place on, as far as there is room.
fn put(line: &mut [u8], at: usize, text: &[u8]) {
    let room = line.len().saturating_sub(1);
    for (place, byte) in line[..room].iter_mut().skip(at).zip(text) {
        *place = *byte;
    }
}

/// The greatest depth of the calls that are made.
const DEPTH: u64 = 300;

/// Returns lines with the key of `before` that no sound program writes.
fn added(before: &[u8], random: &mut Random) -> Vec<Vec<u8>> {
    let key = String::from_utf8_lossy(before.split(|b| *b == b' ').next().unwrap_or_default()).into_owned();
    let text = hostile(random);
    let mut escaped = Vec::new();
    trace_format::escape::escape_into(&mut escaped, &text, trace_format::escape::EscapeContext::Quoted);
    let text =
        if random.percent(50) { String::from_utf8_lossy(&escaped) } else { String::from_utf8_lossy(&text) };
    let [a, b, c] = [(); 3].map(|()| number(random));
    let small = random.below(0, 9);
    let payloads: Vec<String> = match random.below(0, 18) {
        0 => (0..random.magnitude(2, DEPTH)).map(|n| format!("> 0x{:x}", n % (1 + small))).collect(),
        1 => (0..random.magnitude(2, DEPTH)).map(|n| format!("< hook 0x{n:x}")).collect(),
        2 => vec![format!("> {text} at {text}:{a}"), format!("< {text} at {text}:{a}")],
        3 => vec![format!("> span={a} {text} at {text}:{b}"), format!("< span={a} ended {text}")],
        4 => vec![format!("^ 0x{a:x} ({text} at {text}:{b}) 0x{c:x} ...")],
        5 => vec![format!(
            "# module start={a:016x} end={b:016x} bias={c:016x} build_id=00 path=\"{text}\" after=0 seen={a}"
        )],
        6 => vec![
            format!("# unloaded start={a:016x} end={b:016x} after={c} seen={a}"),
            format!("# missed modules={a} after={b} seen={c}"),
        ],
        7 => vec![format!("# thread name=\"{text}\" ring={a}")],
        8 => vec![format!(
            "# lost records={a} reason={}",
            random.pick(&["full", "panic", "torn", "rotated", "no"])
        )],
        9 => vec![format!("# clock ticks={a} wall={:04}-01-01T00:00:00.000000000Z", small * 1200)],
        10 => vec![format!("# end records={a} lost={b} reason=exit files={c} signal={text} status={a}")],
        11 => vec![
            format!("# stall ns={a}"),
            format!("# backward ticks={b}"),
            format!("# off ticks={a}"),
            format!("# on ticks={b}"),
        ],
        12 => vec![format!("# credentials uid={a}"), format!("# start thread={a} ticks={b} ns={c}")],
        13 => vec![
            format!(
                ": lock wait id={small} for=lock made=\"{text}:{a}\" at=\"{text}:{b}\" holder={c} since=\"a:1\""
            ),
            format!(": lock got id={small} ns={a}"),
        ],
        14 => vec![
            format!(": condvar wait id={small} lock={a} made=\"{text}:1\" at=\"a:2\""),
            format!(
                ": condvar notify id={small} to=all first={} wakes={} made=\"a:1\" at=\"{text}:3\"",
                a as u32,
                b % 100
            ),
            format!(": condvar woken id={small} by={} ns={c}", a as u32),
        ],
        15 => vec![
            format!(": futex wait address=0x{a:x}"),
            format!(": futex woken address=0x{a:x} ns={b} result={c}"),
        ],
        16 => vec![format!("# damaged file=\"{text}\" offset={a} bytes={b} text=\"{text}\"")],
        _ => vec![format!(": {text}"), format!("| {text}")],
    };
    payloads.into_iter().map(|payload| format!("{key} {payload}\n").into_bytes()).collect()
}

/// Corrects the checksums of all `# run` lines, so that readers reach the text after them.
fn correct_checks(bytes: &mut [u8]) {
    let (start, check) = (b"run version=", b" check=");
    let mut at = 0;
    while let Some(found) = find(&bytes[at..], start) {
        at += found;
        let line = bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |end| at + end);
        let line = line.min(at + 8192);
        if let Some(place) = find(&bytes[at..line], check) {
            let sum = format!("{:08x}", crc32::of(&bytes[at..at + place]));
            let digits = at + place + check.len();
            if let Some(room) = bytes.get_mut(digits..digits + sum.len()) {
                room.copy_from_slice(sum.as_bytes());
            }
        }
        at += start.len();
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
