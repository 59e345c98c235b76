//! Tests that format strings are read as the compiler reads them: it accepts, numbers and refuses the same.

use proptest::prelude::*;

use super::*;

/// Returns the position and the format in a format string with one placeholder.
fn only(text: &str) -> (Position, Spec) {
    match Template::parse(text).unwrap().pieces.remove(0) {
        Piece::Argument { position, spec } => (position, spec),
        literal => panic!("{literal:?}"),
    }
}

/// Returns a format string and the text that the compiler makes of it, which shows that the compiler accepts the
/// string.
macro_rules! compiled {
    ($format:literal $(, $args:expr)*) => { ($format, format!($format $(, $args)*)) };
}

#[test]
fn templates_that_the_compiler_accepts_are_parsed_and_written_back() {
    let (x, width, größe) = (1.5, 7, 3);
    for (text, _) in [
        compiled!("no argument"),
        compiled!(""),
        compiled!("{{}} {{{x}}}"),
        compiled!("{}{}", x, width),
        compiled!("{ } {0 } {0:? } {x\t}", x),
        compiled!("{x:.}"),
        compiled!("{x:0$} {x:00$}", 5),
        compiled!("{x:0width$.0} {x:0}"),
        compiled!("{x:width$.größe$e} {größe:>1$.*}", 1, 2),
        compiled!("{x:>>+#08.3?} {x:{<8} {x:}<8} {x:🦀^8} {x:+<+8} {x:0<0}"),
        compiled!("{width:x?} {width:#X?} {width:x} {width:-X} {width:#010b} {width:o} {width:e} {width:E}"),
        compiled!("{:p}", &x),
        compiled!("{:.*} {:1.*?}", 1, 2.5, 3, 4.5),
    ] {
        let template = Template::parse(text).unwrap();
        let written = template.to_string();
        assert_eq!(Template::parse(&written), Ok(template), "{text} written as {written}");
    }
}

#[test]
fn every_part_of_a_placeholder_is_read() {
    let (position, spec) = only("{name:*^+#0width$.3x?}");
    assert_eq!(position, Position::Name("name".into()));
    assert_eq!(
        spec,
        Spec {
            fill: Some('*'),
            align: Some(Align::Center),
            sign: Some(Sign::Plus),
            alternate: true,
            zero: true,
            width: CountSpec::Name("width".into()),
            precision: CountSpec::Is(3),
            debug_hex: Some(HexCase::Lower),
            by: Trait::Debug,
        }
    );
    assert_eq!(only("{:0$}").1, Spec { width: CountSpec::Index(0), ..Spec::default() });
    assert_eq!(only("{:00$}").1, Spec { zero: true, width: CountSpec::Index(0), ..Spec::default() });
    assert_eq!(only("{:07}").1, Spec { zero: true, width: CountSpec::Is(7), ..Spec::default() });
    // Older compilers do not accept this.
    assert_eq!(only("{0 :?}"), only("{0:?}"));
    assert_eq!(only("{:.*}").1, Spec { precision: CountSpec::Star, ..Spec::default() });
}

#[test]
fn templates_that_the_compiler_refuses_are_refused() {
    use TemplateErrorReason::{NoName, TooLarge, Unclosed, UnknownTrait, Unopened};
    for (text, at, reason) in [
        ("{", 1, Unclosed),
        ("a{0", 3, Unclosed),
        ("{ 0}", 2, Unclosed),
        ("{0: ?}", 4, Unclosed),
        ("{x.y}", 2, Unclosed),
        ("{x?}", 2, Unclosed),
        ("{r#type}", 2, Unclosed),
        ("{:?#}", 3, Unclosed),
        ("{:$}", 2, Unclosed),
        ("{:*}", 2, Unclosed),
        ("{}}", 2, Unopened),
        ("}", 0, Unopened),
        ("a } b", 2, Unopened),
        ("{:d}", 2, UnknownTrait),
        ("{:xx}", 2, UnknownTrait),
        ("{:größe}", 2, UnknownTrait),
        ("{_}", 1, NoName),
        ("{:99999999999999999999999}", 2, TooLarge),
    ] {
        assert_eq!(Template::parse(text), Err(TemplateError { at, reason }), "{text}");
    }
}

/// Checks that the indices are the compiler's: a resolved format string gives the same text if all its arguments are
/// given by number.
macro_rules! same_when_resolved {
    (
        $given:literal, $positional:literal, [$($name:ident),*],
        $resolved:literal, ($($argument:expr),*), [$($more:expr),*]
    ) => {{
        let mut names: Vec<String> = vec![$(stringify!($name).into()),*];
        let mut template = Template::parse($given).unwrap();
        template.resolve($positional, &mut names);
        assert_eq!(template.to_string(), $resolved);
        assert_eq!(
            format!($given $(, $argument)* $(, $name = $name)*),
            format!($resolved $(, $argument)* $(, $name)* $(, $more)*)
        );
    }};
}

#[test]
fn arguments_are_counted_as_by_the_compiler() {
    let (a, b, c) = (6, 2, 3.25);
    same_when_resolved!("{} {1} {} {0}", 2, [], "{0} {1} {1} {0}", (a, b), []);
    same_when_resolved!("{:.*} {} {:1$}", 4, [], "{1:.0$} {2} {3:1$}", (b, 4, "x", "y"), []);
    same_when_resolved!("{a} {} {b:>a$}", 1, [b], "{2} {0} {1:>2$}", (c), [a]);
    same_when_resolved!("{} {a} {c:.b$}", 1, [a], "{0} {1} {2:.3$}", (a), [c, b]);
}

fn count() -> impl Strategy<Value = CountSpec> {
    prop_oneof![
        Just(CountSpec::None),
        (1usize..70000).prop_map(CountSpec::Is),
        (0usize..20).prop_map(CountSpec::Index),
        "[a-zé_][a-z0-9_é]{1,4}".prop_map(CountSpec::Name),
    ]
}

prop_compose! {
    fn spec()(
        aligned in prop::option::of((
            prop::option::of(any::<char>()), prop::sample::select(vec![Align::Left, Align::Center, Align::Right])
        )),
        sign in prop::option::of(prop::sample::select(vec![Sign::Plus, Sign::Minus])),
        flags in any::<(bool, bool)>(),
        width in count(),
        precision in prop_oneof![count(), Just(CountSpec::Star)],
        debug_hex in prop::option::of(prop::sample::select(vec![HexCase::Lower, HexCase::Upper])),
        by in prop::sample::select(Trait::ALL.to_vec()),
    ) -> Spec {
        Spec {
            fill: aligned.and_then(|(fill, _)| fill),
            align: aligned.map(|(_, align)| align),
            sign,
            alternate: flags.0,
            // `0` and then `0$` is written in the same way; a number after the flag belongs to the width.
            zero: flags.1,
            width,
            precision,
            debug_hex: debug_hex.filter(|_| by == Trait::Debug),
            by,
        }
    }
}

fn position() -> impl Strategy<Value = Position> {
    prop_oneof![
        Just(Position::Next),
        (0usize..100).prop_map(Position::Index),
        "[a-zé_][a-z0-9_é]{1,4}".prop_map(Position::Name),
    ]
}

proptest! {
    #[test]
    fn a_template_parses_back(
        arguments in prop::collection::vec((prop::option::of("[^<]{1,5}"), position(), spec()), 0..5)
    ) {
        let pieces = arguments.into_iter().flat_map(|(literal, position, spec)| {
            literal.map(Piece::Literal).into_iter().chain([Piece::Argument { position, spec }])
        });
        let template = Template { pieces: pieces.collect() };
        let text = template.to_string();
        prop_assert_eq!(Template::parse(&text), Ok(template), "{}", text);
    }

    #[test]
    fn any_text_is_parsed_without_panic_and_reads_the_same_when_written(
        text in prop_oneof![any::<String>(), "[{}:.*$#?x0-9a-c<>^+_ -]{0,12}", r"\{[a0]?:?[<0é+#1$.*x?]{0,6}\}"]
    ) {
        if let Ok(mut template) = Template::parse(&text) {
            let written = template.to_string();
            let again = Template::parse(&written);
            prop_assert_eq!(again.as_ref(), Ok(&template), "{}", written);
            let mut names = Vec::new();
            template.resolve(0, &mut names);
            let resolved = template.to_string();
            prop_assert_eq!(Template::parse(&resolved), Ok(template));
        }
    }
}
