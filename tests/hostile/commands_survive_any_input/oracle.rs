//! The conditions that must hold after a command, whatever its input is.

use super::trial::Ran;
use std::path::Path;

/// The bytes that a command may write beyond twenty times the text of the input's merge.
const SPARE: u64 = 1 << 20;

/// Returns everything that is wrong with the result of a command on an input whose merge has `text` bytes.
pub fn judge(line: &[String], ran: &Ran, text: Option<u64>) -> Vec<String> {
    let mut wrong = Vec::new();
    if ran.hung {
        wrong.push("it does not end".to_owned());
    }
    if let Some(signal) = ran.signal.filter(|_| !ran.hung) {
        wrong.push(format!("signal {signal} has ended it"));
    }
    if ran.status.is_some_and(|status| !(0..=2).contains(&status)) {
        wrong.push(format!("its status is {:?}", ran.status));
    }
    let err = String::from_utf8_lossy(&ran.err);
    // A message of the command may quote the trace.
    let mut lines = err.lines().filter(|line| !line.starts_with("tracemerge: "));
    let of_runtime = ["panicked at ", "has overflowed its stack", "memory allocation of "];
    if lines.any(|line| of_runtime.iter().any(|text| line.contains(text))) {
        wrong.push("it has panicked".to_owned());
    }
    if ran.err.iter().any(|byte| is_control(*byte)) {
        wrong.push("there are control characters on stderr".to_owned());
    }
    if ran.written.keys().any(|path| path.ends_with("owned")) {
        wrong.push("a command of the input was run".to_owned());
    }
    let most = text.map(|text| 20 * text + SPARE);
    if let Some(most) = most.filter(|most| ran.bytes() > *most) {
        wrong.push(format!("it has written {} bytes, of at most {most}", ran.bytes()));
    }
    if matches!(ran.status, Some(0 | 1)) {
        wrong.extend(contents(line, ran));
    }
    wrong
}

/// Returns whether this byte controls a terminal.
fn is_control(byte: u8) -> bool {
    byte < b' ' && byte != b'\n' && byte != b'\t' || byte == 0x7f
}

/// Returns the text without the sequences that only set the style of a terminal.
fn without_styles(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(2).position(|two| two == b"\x1b[") {
        let style = &rest[at + 2..];
        let end = style.iter().position(|byte| !byte.is_ascii_digit() && *byte != b';');
        let is_style = end.is_some_and(|end| style[end] == b'm');
        let next = at + 2 + end.filter(|_| is_style).map_or(0, |end| end + 1);
        plain.extend(&rest[..if is_style { at } else { next }]);
        rest = &rest[next..];
    }
    plain.extend(rest);
    plain
}

/// Checks the output, by the requested format.
fn contents(line: &[String], ran: &Ran) -> Vec<String> {
    let after = |name: &str| line.iter().position(|word| word == name).and_then(|at| line.get(at + 1));
    let is_json = line.iter().any(|word| word == "--json");
    let kind = if is_json { "json" } else { after("--format").map_or("", String::as_str) };
    let mut wrong = Vec::new();
    let has_styles = after("--color").is_some_and(|when| when == "always");
    let mut check = |what: &str, bytes: &[u8]| {
        let plain = if has_styles { without_styles(bytes) } else { bytes.to_vec() };
        if let Err(error) = content(kind, &plain) {
            wrong.push(format!("{what} is no {kind}: {error}"));
        }
    };
    if !ran.out.is_empty() {
        check("stdout", &ran.out);
    }
    let extension = match kind {
        "chrome" => "chrome.json",
        "speedscope" => "speedscope.json",
        "flamegraph" => "svg",
        other => other,
    };
    for path in ran.written.keys() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_output =
            path.ends_with("input/out") || !extension.is_empty() && name.ends_with(&format!(".{extension}"));
        if is_output && path.is_file() {
            let bytes = std::fs::read(path).unwrap_or_default();
            check(&name, &bytes);
        }
    }
    wrong
}

/// Checks that bytes are valid in a format. Accepts formats that are unknown here; text and tables must not control
/// a terminal.
fn content(kind: &str, bytes: &[u8]) -> Result<(), String> {
    let json = |bytes: &[u8]| {
        serde_json::from_slice::<serde_json::Value>(bytes).map(drop).map_err(|error| error.to_string())
    };
    match kind {
        "json" | "chrome" | "speedscope" => json(bytes),
        "jsonl" => bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()).try_for_each(json),
        "csv" => {
            let mut reader = csv::Reader::from_reader(bytes);
            reader.byte_records().try_for_each(|record| record.map(drop).map_err(|error| error.to_string()))
        }
        "flamegraph" => svg(bytes),
        "html" => page(bytes),
        "folded" => {
            let is_sound =
                |line: &str| line.rsplit_once(' ').is_some_and(|(_, time)| time.parse::<u64>().is_ok());
            let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
            text.lines().find(|line| !is_sound(line)).map_or(Ok(()), |line| Err(format!("{line:?}")))
        }
        "" | "table" => match bytes.iter().find(|byte| is_control(**byte)) {
            Some(byte) => Err(format!("it has the byte {byte:#04x}")),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Checks that the data of a page for a browser are numbers and base64, and that no text of a trace is beside them.
fn page(bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let is_data = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=,\"".contains(&byte);
    for line in text.lines() {
        let data = line.strip_prefix("<script>block(").map(|data| data.strip_suffix(")</script>"));
        match data {
            Some(data) if !data.is_some_and(|data| data.bytes().all(is_data)) => {
                return Err(format!("it has {line:?}"));
            }
            None if line.contains("alert(") => return Err(format!("it has {line:?}")),
            _ => {}
        }
    }
    Ok(())
}

/// The elements of a flame graph.
const ELEMENTS: [&str; 12] =
    ["svg", "defs", "linearGradient", "stop", "style", "script", "rect", "text", "title", "g", "a", "filter"];

/// Checks that an SVG is well-formed, and that no name has become an element, a script or an attribute with a
/// script.
fn svg(bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let options = roxmltree::ParsingOptions { allow_dtd: true, nodes_limit: 10_000_000 };
    let document =
        roxmltree::Document::parse_with_options(text, options).map_err(|error| error.to_string())?;
    let mut scripts = 0;
    for element in document.descendants().filter(roxmltree::Node::is_element) {
        let name = element.tag_name().name();
        if !ELEMENTS.contains(&name) {
            return Err(format!("it has an element {name:?}"));
        }
        scripts += usize::from(name == "script");
        for attribute in element.attributes() {
            let (key, value) =
                (attribute.name().to_ascii_lowercase(), attribute.value().to_ascii_lowercase());
            let starts = name == "svg" && key == "onload" && value == "init(evt)";
            if key.starts_with("on") && !starts || value.contains("javascript:") {
                return Err(format!("it has {key}={value:?}"));
            }
        }
    }
    let is_ours =
        |script: &roxmltree::Node<'_, '_>| script.text().is_none_or(|text| !text.contains("alert("));
    let mut ours = document.descendants().filter(|node| node.has_tag_name("script"));
    if scripts > 1 || !ours.all(|script| is_ours(&script)) {
        return Err(format!("it has {scripts} scripts, or one that is not ours"));
    }
    Ok(())
}

/// Returns the path of the directory that keeps the input of a failure.
pub fn kept_at(seed: u64, number: usize) -> std::path::PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{seed}-{number}"))
}
