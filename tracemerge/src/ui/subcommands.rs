//! The names of the subcommands, and the search for the subcommand that a misspelt word resembles.

use std::path::Path;
use std::sync::OnceLock;

use similar::get_close_matches;

/// The names of the subcommands, as the definition of the command line has them.
static NAMES: OnceLock<Vec<String>> = OnceLock::new();

/// The least similarity of two words from which on one counts as a misspelling of the other. The similarity is 1 if the
/// words are equal, and 0 if they have nothing in common.
const SIMILAR: f32 = 0.6;

/// Sets the names of the subcommands. Later calls have no effect.
pub(crate) fn learn<'a>(names: impl Iterator<Item = &'a str>) {
    NAMES.get_or_init(|| names.map(str::to_owned).collect());
}

fn names() -> Vec<&'static str> {
    NAMES.get().into_iter().flatten().map(String::as_str).collect()
}

/// Returns whether `word` is the name of a subcommand.
#[must_use]
pub(crate) fn is_subcommand(word: &str) -> bool {
    names().contains(&word)
}

/// Returns the name of the subcommand that `given` probably misspells; `None` if `given` is the path of an existing
/// file, or resembles no name.
#[must_use]
pub(crate) fn subcommand_like(given: &Path) -> Option<&'static str> {
    let word = given.to_str().filter(|word| !word.contains(['/', '\\']) && !given.exists())?;
    get_close_matches(word, &names(), 1, SIMILAR).into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_subcommand_is_recognized_and_an_application_is_not() {
        learn(["merge", "check", "info", "snapshot"].into_iter());
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
