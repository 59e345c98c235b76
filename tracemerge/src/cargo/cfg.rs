//! The conditions `cfg(..)` of a target.

/// Returns whether a condition such as `cfg(all(unix, target_arch = "x86_64"))` is true where the compiler prints
/// these lines for `--print cfg`. A condition that is not understood is false.
pub fn matches(condition: &str, printed: &str) -> bool {
    let tokens = tokens(condition);
    let mut rest = &tokens[..];
    let is_true = operand(&mut rest, printed);
    rest.is_empty() && is_true == Some(true)
}

/// Splits a condition into names, texts in quotes, and single characters.
fn tokens(condition: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = condition.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_name = |char: char| char.is_alphanumeric() || char == '_';
        let length = match first {
            '"' => rest[1..].find('"').map_or(rest.len(), |at| at + 2),
            _ if is_name(first) => rest.find(|char| !is_name(char)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Takes a condition from the front of `rest`; returns whether it is true, or `None` if it is not understood.
fn operand(rest: &mut &[&str], printed: &str) -> Option<bool> {
    let (name, behind) = rest.split_first()?;
    *rest = behind;
    match rest.split_first() {
        Some((&"=", behind)) => {
            let (value, behind) = behind.split_first()?;
            *rest = behind;
            Some(printed.lines().any(|line| line.split_once('=') == Some((name, value))))
        }
        Some((&"(", behind)) => {
            *rest = behind;
            let mut values = Vec::new();
            while !take(rest, ")") {
                values.push(operand(rest, printed)?);
                if !take(rest, ",") && rest.first() != Some(&")") {
                    return None;
                }
            }
            match (*name, &values[..]) {
                ("all", values) => Some(values.iter().all(|value| *value)),
                ("any", values) => Some(values.iter().any(|value| *value)),
                ("not", [value]) => Some(!value),
                ("cfg", [value]) => Some(*value),
                _ => None,
            }
        }
        _ if *name == "true" || *name == "false" => Some(*name == "true"),
        _ => Some(printed.lines().any(|line| line == *name)),
    }
}

/// Takes this token from the front of `rest`; returns whether it was there.
fn take(rest: &mut &[&str], token: &str) -> bool {
    let is_there = rest.first() == Some(&token);
    *rest = &rest[usize::from(is_there)..];
    is_there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_true_as_in_the_reference_of_rust() {
        let printed = "unix\ntarget_os=\"linux\"\ntarget_feature=\"sse\"\ntarget_feature=\"sse2\"";
        for condition in [
            "cfg(unix)",
            "cfg( target_os = \"linux\" )",
            "cfg(target_os=\"linux\")",
            "cfg(all())",
            "cfg(all(unix, not(windows), target_feature = \"sse2\",))",
            "cfg(any(windows, all(unix, any(target_os = \"macos\", target_os = \"linux\"))))",
            "cfg(true)",
        ] {
            assert!(matches(condition, printed), "{condition}");
        }
        for condition in [
            "cfg(windows)",
            "cfg(target_os = \"lin\")",
            "cfg(target_os)",
            "cfg(any())",
            "cfg(not(unix))",
            "cfg(not(unix, windows))",
            "cfg(false)",
            "cfg(unix",
            "cfg(unix))",
            "cfg(unix windows)",
            "cfg(target_os = )",
            "",
        ] {
            assert!(!matches(condition, printed), "{condition}");
        }
    }
}
