//! The words that are subcommands, now or later, and the search for the subcommand that a misspelt word resembles.

use std::path::Path;

use similar::get_close_matches;

/// The subcommands.
pub const SUBCOMMANDS: [&str; 17] = [
    "merge",
    "show",
    "stats",
    "tree",
    "report",
    "locks",
    "open",
    "run",
    "check",
    "info",
    "diff",
    "snapshot",
    "on",
    "off",
    "clean",
    "completions",
    "man",
];

/// The similarity from which on a word counts as another one that is misspelt: 1 is the same word.
const SIMILAR: f32 = 0.6;

/// Returns the subcommand that a word probably means, unless the word is the path of an existing file.
#[must_use]
pub fn subcommand_like(given: &Path) -> Option<&'static str> {
    let word = given.to_str().filter(|word| !word.contains(['/', '\\']) && !given.exists())?;
    get_close_matches(word, &SUBCOMMANDS, 1, SIMILAR).into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_subcommand_is_recognized_and_an_application_is_not() {
        let like = |word: &str| subcommand_like(Path::new(word));
        for (word, name) in
            [("chek", "check"), ("mrege", "merge"), ("inof", "info"), ("snapshots", "snapshot")]
        {
            assert_eq!(like(word), Some(name), "{word}");
        }
        for word in ["server", "a", "word_count", "./chek", "app"] {
            assert_eq!(like(word), None, "{word}");
        }
    }
}
