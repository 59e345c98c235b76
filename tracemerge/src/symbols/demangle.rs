//! The names of symbols as people write them: demangled names of Rust, in the legacy scheme and in the newer scheme v0,
//! and of C++.

use std::borrow::Cow;

use crate::ui::messages::shown_name;

/// The greatest length in bytes of a name that is shown; names of templates may have megabytes.
const MAX_SHOWN_NAME: usize = 4096;

/// Returns a symbol's name as people write it. A name that follows no known scheme is returned unchanged. Control
/// characters are escaped in all names, so no name can control a terminal.
pub(super) fn demangled(symbol: &[u8]) -> String {
    let text = String::from_utf8_lossy(symbol);
    let name = rust(&text).or_else(|| cpp(&text)).map_or(text, Cow::Owned);
    shortened(shown_name(name.as_bytes()))
}

/// Demangles a name of Rust, without the hash that distinguishes the instances of a generic function.
fn rust(symbol: &str) -> Option<String> {
    let name = format!("{:#}", rustc_demangle::try_demangle(symbol).ok()?);
    // The compiler numbers functions of one name when it puts units together.
    let number = name.rfind('.').filter(|at| name[at + 1..].bytes().all(|byte| byte.is_ascii_digit()));
    Some(name[..number.unwrap_or(name.len())].to_owned())
}

#[cfg(not(feature = "names"))]
fn cpp(_: &str) -> Option<String> {
    None
}

#[cfg(feature = "names")]
fn cpp(symbol: &str) -> Option<String> {
    // The demangler takes bare types, too: `i` would be `int`.
    if !symbol.starts_with("_Z") && !symbol.starts_with("__Z") {
        return None;
    }
    cpp_demangle::Symbol::new(symbol).ok()?.demangle().ok()
}

/// Returns the last part of a function's name: `insert` of `<a::Map<K> as b::Insert>::insert`, `sort` of
/// `void std::sort<int*>(int*, int*)`.
pub(super) fn last_part(name: &str) -> String {
    let flat = flat(name);
    let is_name = |part: &&str| !part.is_empty() && !["const", "volatile", "&", "&&"].contains(part);
    let last = flat.rsplit([':', ' ']).find(is_name).unwrap_or_default();
    // The shim that calls a function through a table of methods has the function's own name.
    let last = last.strip_suffix("{{vtable.shim}}").unwrap_or(last);
    // The two schemes of Rust and its debug information write closures differently. The schemes also treat the body
    // of an async function as a closure.
    if ["{closure", "{{closure", "{async_", "{gen_"].iter().any(|start| last.starts_with(start)) {
        "{closure}".into()
    } else {
        last.into()
    }
}

/// Returns a name without the text in its angle brackets and parentheses: without generic types and arguments.
pub(super) fn flat(name: &str) -> String {
    let mut depth = 0_usize;
    let mut flat = String::new();
    // The arrow of a function's type is not a bracket. Rust's older scheme has no dash and writes a dot there.
    for letter in name.replace("->", "").replace(".>", "").chars() {
        match letter {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => flat.push(letter),
            _ => {}
        }
    }
    flat
}

/// Returns whether a name is only the last part of a function's name, without the path to the function.
pub(super) fn is_last_part(name: &str) -> bool {
    let end = name.find(['<', '(']).unwrap_or(name.len());
    end > 0 && !name[..end].contains("::") && !name.contains(">::")
}

fn shortened(mut name: String) -> String {
    if name.len() > MAX_SHOWN_NAME {
        let end = (0..=MAX_SHOWN_NAME).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        name.truncate(end);
        name.push('…');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_all_mangling_schemes_are_demangled() {
        let cpp = if cfg!(feature = "names") { "app::work(int)" } else { "_ZN3app4workEi" };
        for (symbol, name) in [
            ("_ZN3app4work17h0123456789abcdefE", "app::work"),
            ("_ZN3app4work17h0123456789abcdefE.llvm.1234567890", "app::work"),
            ("_ZN3app4work17h0123456789abcdefE.177", "app::work"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN3app4workEi", cpp),
            ("main", "main"),
            ("i", "i"),
            ("_Zebra", "_Zebra"),
            ("", ""),
            ("a\x1b[31m", "a\\x1b[31m"),
        ] {
            assert_eq!(demangled(symbol.as_bytes()), name);
        }
        assert_eq!(demangled(&[b'x', 0xff]), "x\u{fffd}");
        let long = "ä".repeat(5000);
        assert_eq!(demangled(long.as_bytes()), "ä".repeat(2048) + "…");
    }

    #[test]
    fn the_last_part_of_a_name_is_found() {
        for (name, last, is_alone) in [
            ("insert<&str, a::B>", "insert", true),
            ("<a::Map<K> as b::Insert>::insert", "insert", false),
            ("a::Map<K>::insert", "insert", false),
            ("void std::sort<int*>(int*, int*)", "sort", false),
            ("shapes::(anonymous namespace)::Square::Square(double)", "Square", false),
            ("a::Square::area() const", "area", false),
            ("fold<fn(&A) -> B, C>", "fold", true),
            ("core::ptr::drop_in_place<(&str,fn(&a::A) .> a::B<C>)>", "drop_in_place", false),
            ("a::FnOnce::call_once{{vtable.shim}}", "call_once", false),
            ("Square", "Square", true),
            ("a::b::{{closure}}", "{closure}", false),
            ("{closure#0}<a::B>", "{closure}", true),
            ("{async_fn#0}", "{closure}", true),
            ("{async_block#0}<a::B>", "{closure}", true),
            ("{gen_fn#0}", "{closure}", true),
            ("", "", false),
        ] {
            assert_eq!((last_part(name).as_str(), is_last_part(name)), (last, is_alone), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_symbol_is_demangled_without_panic(text in "(_R|_ZN|_Z)?[0-9A-Za-z_$.]{0,60}", bytes: Vec<u8>) {
            let name = demangled(text.as_bytes());
            let _ = (last_part(&name), is_last_part(&name));
            let _ = demangled(&bytes);
        }
    }
}
