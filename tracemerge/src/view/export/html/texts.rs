//! Splits texts into a template and arguments, so that texts that differ only in their numbers have one template.

/// The byte that stands in a template for a number.
pub(super) const NUMBER: u8 = 1;
/// The byte that stands in a template for a word that contains digits but is no number.
pub(super) const WORD: u8 = 2;
/// The maximum number of digits of a number. Every number with so few digits is exact as a floating-point number of the
/// page's scripts.
const MAX_DIGITS: usize = 15;
/// The length of a template, in bytes, above which the whole text becomes one argument.
const MAX_TEMPLATE: usize = 500;

/// A text that is split into a template and its arguments.
#[derive(Debug, Default)]
pub(super) struct Split {
    /// The template, after the bytes that the caller has passed to `begin`.
    pub template: Vec<u8>,
    /// The numbers, in order.
    pub numbers: Vec<u64>,
    /// The lengths in bytes of the words that are arguments, in order; `words` has the bytes of these words.
    pub lengths: Vec<usize>,
    pub words: Vec<u8>,
}

impl Split {
    /// Begins another text, whose template begins with the bytes `head`.
    pub(super) fn begin(&mut self, head: &[u8]) {
        self.template.clear();
        self.template.extend_from_slice(head);
        self.numbers.clear();
        self.lengths.clear();
        self.words.clear();
    }

    /// Splits a text and appends its parts to the template and the arguments. If `all_words` is set, every word becomes
    /// an argument, so that texts that differ in words have one template, too.
    pub(super) fn split(&mut self, text: &str, all_words: bool) {
        let head = self.template.len();
        let mut rest = text.as_bytes();
        while let Some(&byte) = rest.first() {
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            if byte == NUMBER || byte == WORD || self.template.len() > head + MAX_TEMPLATE {
                return self.take_whole(head, text);
            }
            let length = rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len()).max(1);
            let (word, behind) = rest.split_at(length);
            rest = behind;
            let is_argument = word.iter().any(u8::is_ascii_digit) || (all_words && is_word(&word[0]));
            if !is_argument {
                self.template.extend_from_slice(word);
            } else if let Some(number) = number(word) {
                self.template.push(NUMBER);
                self.numbers.push(number);
            } else {
                self.template.push(WORD);
                self.lengths.push(word.len());
                self.words.extend_from_slice(word);
            }
        }
    }

    /// Makes the whole text one argument. The template is its first `head` bytes and one byte for the argument.
    pub(super) fn take_whole(&mut self, head: usize, text: &str) {
        self.template.truncate(head);
        self.template.push(WORD);
        self.numbers.clear();
        self.lengths.clear();
        self.lengths.push(text.len());
        self.words.clear();
        self.words.extend_from_slice(text.as_bytes());
    }
}

/// Returns the number whose decimal form is `word`, if there is one.
fn number(word: &[u8]) -> Option<u64> {
    if word.len() > MAX_DIGITS || (word[0] == b'0' && word.len() > 1) {
        return None;
    }
    let digit = |sum: u64, byte: &u8| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0'));
    word.iter().try_fold(0, digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(text: &str, all_words: bool) -> (String, Vec<u64>, Vec<String>) {
        let mut split = Split::default();
        split.begin(b"");
        split.split(text, all_words);
        let mut words = &split.words[..];
        let mut word = |length: &usize| {
            let (word, rest) = words.split_at(*length);
            words = rest;
            String::from_utf8(word.to_vec()).unwrap()
        };
        let all = split.lengths.iter().map(&mut word).collect();
        (String::from_utf8(split.template).unwrap(), split.numbers, all)
    }

    fn joined(text: &str, all_words: bool) -> String {
        let (template, numbers, words) = split(text, all_words);
        let (mut numbers, mut words) = (numbers.into_iter(), words.into_iter());
        let part = |character: char| match character {
            '\u{1}' => numbers.next().unwrap().to_string(),
            '\u{2}' => words.next().unwrap(),
            other => other.to_string(),
        };
        template.chars().map(part).collect()
    }

    #[test]
    fn numbers_and_words_with_digits_are_arguments() {
        let (template, numbers, words) = split("id=47 of 0x7f took 1.050 ms, größe 0", false);
        assert_eq!(template, "id=\u{1} of \u{2} took \u{1}.\u{2} ms, größe \u{1}");
        assert_eq!(numbers, [47, 1, 0]);
        assert_eq!(words, ["0x7f", "050"]);
        let (template, _, words) = split("18446744073709551616", false);
        assert_eq!((&template[..], &words[0][..]), ("\u{2}", "18446744073709551616"));
        let (template, numbers, words) = split("key send of 7", true);
        assert_eq!((&template[..], &numbers[..]), ("\u{2} \u{2} \u{2} \u{1}", &[7][..]));
        assert_eq!(words, ["key", "send", "of"]);
    }

    #[test]
    fn texts_that_make_no_good_template_are_arguments_as_a_whole() {
        for text in ["a \u{1} of 7", &"long ".repeat(200)] {
            assert_eq!(split(text, false), ("\u{2}".to_owned(), vec![], vec![text.to_owned()]));
        }
    }

    proptest! {
        #[test]
        fn each_text_can_be_joined_again(text in "([a-z0-9 _\\PC\u{1}\u{2}]|[0-9]{1,20}){0,30}") {
            prop_assert_eq!(joined(&text, false), &text[..]);
            prop_assert_eq!(joined(&text, true), text);
        }
    }
}
