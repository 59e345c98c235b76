//! Tests with format strings, descriptors and payloads that no program has written.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::SitePlan;
use crate::capture::descriptor::{ARRAY, NAMED, SLICE, STR, TUPLE, U8, U64, VOID};
use crate::capture::tests::{any_type, write_type};
use crate::fields::{MAX_MESSAGE, PayloadError, PlanError};
use crate::template::{TemplateError, TemplateErrorReason};

fn render(format: &str, descriptor: &[u8], payload: &[u8]) -> Result<Vec<u8>, PayloadError> {
    let mut out = b"before".to_vec();
    let result = SitePlan::new(format, descriptor).unwrap().render(payload, &mut out);
    assert_eq!(&out[..6], b"before");
    assert!(result.is_ok() || out.len() == 6);
    result.map(|()| out.split_off(6))
}

#[test]
fn formats_that_do_not_fit_their_descriptors_make_no_plan() {
    let unclosed = TemplateError { at: 1, reason: TemplateErrorReason::Unclosed };
    for (format, descriptor, error) in [
        ("{", &b""[..], PlanError::Template(unclosed)),
        ("{}", b"", PlanError::NoArgument(0)),
        ("{} {}", b"h", PlanError::NoArgument(1)),
        ("{name}", b"h", PlanError::NoArgument(1)),
        ("{:1$}", b"h", PlanError::NoArgument(1)),
        ("{:1$}", b"hh", PlanError::Unformattable(1)),
        ("{:p}", b"h", PlanError::Unformattable(0)),
        ("{:x}", b"d", PlanError::Unformattable(0)),
        ("{:x}", b"e", PlanError::Unformattable(0)),
        ("{}", b"D", PlanError::Unformattable(0)),
        ("{:x}", b"I", PlanError::Unformattable(0)),
        ("{:p}", b"K", PlanError::Unformattable(0)),
        ("{}", b"u", PlanError::Unformattable(0)),
        ("{}", b"P", PlanError::Unformattable(0)),
        ("{}", b"Oh", PlanError::Unformattable(0)),
        ("{:5?}", b"Oh", PlanError::Unformattable(0)),
        ("{:70000}", b"h", PlanError::CountTooLarge(70_000)),
    ] {
        assert_eq!(SitePlan::new(format, descriptor).unwrap_err(), error, "{format}");
    }
    assert!(matches!(SitePlan::new("{}", b"z"), Err(PlanError::Descriptor(_))));
}

#[test]
fn payloads_that_do_not_fit_the_arguments_are_refused() {
    use PayloadError::{CountTooLarge, Cut, Excess, NoValue};
    for (format, descriptor, payload, error) in [
        ("{}", &b"y"[..], &[1, 2, 3][..], Cut),
        ("{:>3}", b"y", &[1, 2, 3], Cut),
        ("{}", b"h", &[1, 2], Excess),
        ("none", b"", &[1], Excess),
        ("{}", b"b", &[2], NoValue),
        ("{:?}", b"Ob", &[1, 2], NoValue),
        ("{:?}", b"Ob", &[2, 1], NoValue),
        ("{}", b"c", &[0, 0xd8, 0, 0], NoValue),
        ("{}", b"e", &[5, 0, b'a'], Cut),
        ("{}", b"e", &[1, 0, 0xff], NoValue),
        ("{:?}", b"Se", &[2, 0, 1, 0, b'a', 1, 0, 0xff], NoValue),
        ("{:?}", b"E\x01\0U\x01\0A", &[1, 0], NoValue),
        ("{:?}", b"E\0\0", &[0, 0], NoValue),
        ("{:?}", b"Su", &[2, 0, 0], Cut),
        ("{:?}", b"D", &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0xca, 0x9a, 0x3b], NoValue),
        ("{:?}", b"D", &[0; 11], Cut),
        ("{}", b"I", &[5, 0, 0, 0, 0], NoValue),
        ("{}", b"I", &[6, 0, 0, 0, 0], Cut),
        ("{}", b"I", &[4, 0, 0, 0, 0, 0], Excess),
        ("{:?}", b"OK", &[1, 4, 0, 0, 0, 0, 0], Cut),
        ("{}", b"K", &[6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], Cut),
        ("{:1$}", b"hy", &[1, 0, 0, 1, 0, 0, 0, 0, 0], CountTooLarge),
        ("{:.1$}", b"dy", &[0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255], CountTooLarge),
    ] {
        assert_eq!(render(format, descriptor, payload), Err(error), "{format} {descriptor:?}");
    }
}

#[test]
fn addresses_are_shown_in_their_own_width() {
    assert_eq!(
        render("{:p} {0:#?} {0:20p}|", b"p", &[16, 0, 0, 0]).unwrap(),
        b"0x10 0x00000010                 0x10|"
    );
    assert_eq!(
        render("{:?} {0:#?}", b"Op", &[1, 16, 0, 0, 0]).unwrap(),
        b"Some(0x10) Some(\n    0x00000010,\n)"
    );
}

#[test]
#[cfg_attr(miri, ignore = "bounds a time that Miri multiplies")]
fn small_inputs_cause_bounded_work() {
    let start = Instant::now();
    // This stands for arrays of arrays of nothing: four thousand million elements at each level.
    let mut nothing = Vec::new();
    for _ in 0..10 {
        nothing.push(ARRAY);
        nothing.extend([0xff; 4]);
    }
    nothing.push(VOID);
    assert_eq!(render("{:?}", &nothing, &[0; 65_535]), Err(PayloadError::Cut));

    // This shows a long text often.
    let often = "{0}".repeat(100_000);
    let text = [&[0xff, 0xff][..], &[b'a'; 65_535]].concat();
    assert_eq!(render(&often, &[STR], &text), Err(PayloadError::TooLong));
    let wide = "{0:65535}".repeat(100_000);
    assert_eq!(render(&wide, &[U64], &[0; 8]), Err(PayloadError::TooLong));

    // These are many values with long names.
    let mut named = vec![SLICE];
    for _ in 0..3 {
        named.push(TUPLE);
        named.extend([0xff, 0xff]);
        named.extend([b'n'; 65_535]);
        named.extend([1, 0]);
    }
    named.push(U8);
    assert_eq!(render("{:#?}", &named, &[0xff; 65_537]), Err(PayloadError::TooLong));

    // These are many fields of nothing, in many elements.
    let mut fields = vec![SLICE, NAMED, 0, 0, 0xff, 0xff];
    fields.extend([0, 0, VOID].repeat(65_535));
    let payload = [&[0xff, 0xff][..], &[0; 65_535]].concat();
    assert_eq!(render("{:?}", &fields, &payload), Err(PayloadError::TooLong));
    assert!(start.elapsed() < Duration::from_secs(60));
}

proptest! {
    #[test]
    fn any_payload_of_any_types_is_rendered_or_refused(
        types in prop::collection::vec(any_type(), 0..4),
        payload in prop_oneof![
            prop::collection::vec(0u8..3, 0..60),
            any::<Vec<u8>>(),
        ],
        flags in prop::sample::select(vec!["", "#", "+", "x", "#.3"]),
    ) {
        let mut descriptor = Vec::new();
        types.iter().for_each(|ty| write_type(ty, &mut descriptor));
        let format = format!("a{}", format!("{{:{flags}?}} ").repeat(types.len()));
        let plan = SitePlan::new(&format, &descriptor).unwrap();
        let mut out = Vec::new();
        match plan.render(&payload, &mut out) {
            Ok(()) => prop_assert!(std::str::from_utf8(&out).is_ok()),
            Err(_) => prop_assert_eq!(out.len(), 0),
        }
        prop_assert!(out.len() < MAX_MESSAGE);
    }

    #[test]
    fn any_site_makes_a_plan_or_is_refused(
        format in prop_oneof![any::<String>(), "([a-z]?[{][0-2]?(:[<>^+#0-9$.x?ebp]{0,4})?[}]){0,4}"],
        descriptor in prop_oneof![
            any::<Vec<u8>>(),
            prop::collection::vec(prop::sample::select(b"lyedOSPhbc".to_vec()), 0..5),
        ],
        payload in prop::collection::vec(0u8..3, 0..40),
    ) {
        if let Ok(plan) = SitePlan::new(&format, &descriptor) {
            let mut out = Vec::new();
            let _ = plan.render(&payload, &mut out);
        }
    }
}
