//! `tracemerge diff` compares threads of one name, ignoring numbers in it, as one set of messages, by sorts of
//! messages. The sorts are the sites of messages if all traces record them.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::{BTreeMap, HashMap};

use crate::support::{Place, line, meta, raw_file_of_sites, run};
use serde_json::{Value, json};
use trace_format::meta::{ClockKind, Meta, RingPlace, Thread};
use trace_format::sites::Site;

/// A message: its thread, its site and its text.
type Made = (u64, u32, String);

/// The sites of the program.
const SITES: [(u32, &str); 4] =
    [(1, "open {}"), (2, "searched {}: {} matches"), (3, "steal from {}"), (4, "done with {}")];

/// Writes the trace of a first thread and a pool `rg` with the messages `made`, in their order; as text or
/// raw.
fn write(place: &Place, directory: &str, raw: bool, made: &[Made]) {
    write_named(place, directory, raw, made, |_| "rg".to_owned());
}

/// Does the same with threads whose names `name` makes from their ids.
fn write_named(place: &Place, directory: &str, raw: bool, made: &[Made], name: impl Fn(u64) -> String) {
    std::fs::create_dir(place.path(directory)).unwrap();
    let run = run(5, 1);
    let mut threads: BTreeMap<u64, Vec<(u64, u32, String)>> = BTreeMap::new();
    for (ticks, (tid, site, text)) in (10..).zip(made) {
        threads.entry(*tid).or_default().push((ticks * 1000, *site, text.clone()));
    }
    threads.insert(5, vec![(2, 0, "begin".to_owned()), (900_000_000, 0, "end".to_owned())]);
    for (tid, messages) in threads {
        let run = Meta::Run(trace_format::meta::Run { clock: ClockKind::System, ..run.clone() });
        let name = if tid == 5 { "app".to_owned() } else { name(tid) };
        let thread = Thread { name: name.into(), ring: RingPlace::Shared, why: Vec::new(), file: None };
        let thread = Meta::Thread(thread);
        let bytes = if raw {
            let site = |(id, template): (u32, &str)| Site {
                id,
                line: 10 * id,
                module: "rg::search".to_owned(),
                file: "src/search.rs".to_owned(),
                template: template.to_owned(),
                ..Site::default()
            };
            raw_file_of_sites(tid, &[(1, &run), (1, &thread)], &SITES.map(site), messages)
        } else {
            let mut bytes = [meta(1, tid, &run), meta(1, tid, &thread)].concat();
            messages.iter().for_each(|(ticks, _, text)| bytes.extend(line(*ticks, tid, text)));
            bytes
        };
        place.write(format!("{directory}/app.trace.{tid}"), bytes);
    }
}

/// Returns numbers that look random.
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let next =
        |n: &u64| Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(seed), next).map(|n| n >> 33)
}

/// Returns a word without digits for a number.
fn word(mut number: u64) -> String {
    let mut word = String::new();
    while number > 0 {
        word.push(char::from(b'g' + u8::try_from(number % 20).unwrap()));
        number /= 20;
    }
    word
}

/// Returns the messages of a search of `files` files, which `threads` threads share in a random way.
fn search(seed: u64, threads: u64, files: u64) -> Vec<Made> {
    let mut numbers = numbers(seed);
    let mut next = |below: u64| numbers.next().unwrap() % below;
    let mut order: Vec<u64> = (1..=files).collect();
    (1..order.len()).rev().for_each(|at| order.swap(at, usize::try_from(next(at as u64 + 1)).unwrap()));
    let mut made = Vec::new();
    for file in order {
        let (tid, path) = (10 * seed + next(threads), format!("/src/{}.rs", word(file)));
        made.push((tid, 1, format!("open {path}")));
        made.push((tid, 2, format!("searched {path}: {} matches", next(90))));
        if file % 3 == 0 {
            made.push((tid, 3, format!("steal from {}", next(threads))));
        }
        made.push((tid, 4, format!("done with {path}")));
    }
    made
}

fn compare(place: &Place, args: &[&str]) -> (Option<i32>, Value, String, String) {
    let text = place.merge(["diff", "a", "b"].iter().chain(args));
    let json = place.merge(["diff", "a", "b", "--json"].iter().chain(args));
    assert_eq!((json.status, &json.err), (text.status, &text.err));
    let out = String::from_utf8(text.out).unwrap();
    (text.status, serde_json::from_slice(&json.out).unwrap(), out, text.err)
}

#[test]
fn the_same_work_compares_equal_whichever_pool_threads_do_it() {
    for raw in [false, true] {
        let place = Place::new();
        let (a, b) = (search(1, 8, 200), search(2, 5, 200));
        write(&place, "a", raw, &a);
        write(&place, "b", raw, &b);
        let (status, json, text, err) = compare(&place, &[]);
        assert_eq!((status, err.as_str()), (Some(0), ""), "{text}");
        assert_eq!((&json["same"], &json["by_site"]), (&json!(true), &json!(raw)));
        let records = a.len();
        assert_eq!(json["pools"][0]["name"], "rg");
        assert_eq!(json["pools"][0]["a"], json!({"threads": 8, "records": records}));
        assert_eq!(json["pools"][0]["b"], json!({"threads": 5, "records": records}));
        assert!(text.contains("1 thread the same, 2 records\n"), "{text}");
        assert!(
            text.contains(&format!("pool \"rg\" (A 8 threads, B 5): the same {records} records\n")),
            "{text}"
        );
    }
}

#[test]
fn threads_whose_names_differ_only_in_numbers_form_one_pool() {
    let place = Place::new();
    let (a, b) = (search(1, 8, 200), search(2, 5, 200));
    // Each thread has a name of its own; the numbers of the second trace continue those of the first.
    write_named(&place, "a", true, &a, |tid| format!("worker-{}", tid - 9));
    write_named(&place, "b", true, &b, |tid| format!("worker-{}", tid + 80));
    let (status, json, text, _) = compare(&place, &[]);
    assert_eq!((status, &json["same"]), (Some(0), &json!(true)), "{text}");
    assert_eq!((json["threads"].as_array().unwrap().len(), json["pools"].as_array().unwrap().len()), (1, 1));
    let pool = &json["pools"][0];
    assert_eq!((&pool["name"], &pool["numbered"]), (&json!("worker-#"), &json!(true)));
    assert_eq!((&pool["a"]["threads"], &pool["b"]["threads"]), (&json!(8), &json!(5)));
    let records = a.len();
    assert!(
        text.contains(&format!("pool \"worker-#\" (A 8 threads, B 5): the same {records} records\n")),
        "{text}"
    );
    // One message more is reported as one, whichever thread has it.
    let mut more = b;
    more.push((22, 4, "done with one more".to_owned()));
    let place = Place::new();
    write_named(&place, "a", true, &a, |tid| format!("worker-{tid}"));
    write_named(&place, "b", true, &more, |tid| format!("worker-{tid}"));
    let (status, json, ..) = compare(&place, &[]);
    let pool = &json["pools"][0];
    assert_eq!((status, &pool["only_a"], &pool["only_b"]), (Some(1), &json!(0), &json!(1)));
    // A number in a name that all threads have is a part of the name.
    let place = Place::new();
    write_named(&place, "a", true, &a, |_| "http2".to_owned());
    write_named(&place, "b", true, &a, |_| "http2".to_owned());
    let (_, json, ..) = compare(&place, &[]);
    let pool = &json["pools"][0];
    assert_eq!((&pool["name"], &pool["numbered"]), (&json!("http2"), &json!(false)));
}

#[test]
fn a_message_more_frequent_in_one_run_is_reported_with_its_counts() {
    let place = Place::new();
    let (a, mut b) = (search(1, 8, 300), search(2, 8, 300));
    // Some work is not done in the second run, and some is done again.
    b.retain(|(_, site, text)| *site != 3 || !text.ends_with('3'));
    b.extend((0..40).map(|n| (20 + n % 8, 4, format!("done with /src/{}.rs", word(7)))));
    write(&place, "a", true, &a);
    write(&place, "b", true, &b);
    let (status, json, text, _) = compare(&place, &[]);
    assert_eq!(status, Some(1), "{text}");
    let counts = |made: &[Made]| {
        let mut counts: HashMap<&str, u64> = HashMap::new();
        for (_, site, _) in made {
            *counts.entry(SITES[*site as usize - 1].1).or_default() += 1;
        }
        counts
    };
    let (of_a, of_b) = (counts(&a), counts(&b));
    let mut expected: Vec<Value> = SITES
        .iter()
        .filter(|(_, template)| of_a[template] != of_b[template])
        .map(|(id, template)| {
            let (a, b) = (of_a[template], of_b[template]);
            json!({"message": template, "file": "src/search.rs", "line": 10 * id, "a": a, "b": b})
        })
        .collect();
    assert_eq!(expected.len(), 2);
    let pool = &json["pools"][0];
    let mut found = pool["messages"].as_array().unwrap().clone();
    for messages in [&mut expected, &mut found] {
        messages.sort_by_key(|sort| sort["line"].as_u64());
    }
    assert_eq!(found, expected);
    let less = of_a["steal from {}"] - of_b["steal from {}"];
    assert_eq!((&pool["only_a"], &pool["only_b"], &pool["same"]), (&json!(less), &json!(40), &json!(false)));
    // The report for people has the same numbers.
    let told = format!("; {less} only in A, 40 only in B\n");
    assert!(text.contains(&told), "{text}");
    assert!(text.contains("  300  340  done with {}  (search.rs:40)\n"), "{text}");
}

#[test]
fn a_message_order_that_one_run_never_has_is_reported() {
    let place = Place::new();
    let (a, mut b) = (search(1, 8, 100), search(2, 8, 100));
    // One thread opens a file after it has searched it, and nothing is missing.
    let at = b.iter().position(|(_, site, _)| *site == 1).unwrap();
    b.swap(at, at + 1);
    write(&place, "a", true, &a);
    write(&place, "b", true, &b);
    let pairs = |made: &[Made]| {
        let mut last: HashMap<u64, u32> = HashMap::new();
        let mut pairs: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (tid, site, _) in made {
            if let Some(before) = last.insert(*tid, *site) {
                *pairs.entry((before, *site)).or_default() += 1;
            }
        }
        pairs
    };
    let (of_a, of_b) = (pairs(&a), pairs(&b));
    let only = of_b.iter().filter(|(pair, _)| !of_a.contains_key(pair)).count();
    assert!(only > 0 && of_a.keys().all(|pair| of_b.contains_key(pair)));
    let (status, json, text, _) = compare(&place, &[]);
    assert_eq!(status, Some(0), "{text}");
    let pool = &json["pools"][0];
    assert_eq!(pool["orders"], json!(only));
    for found in pool["successions"].as_array().unwrap() {
        let id = |side: &str| u32::try_from(found[side]["line"].as_u64().unwrap() / 10).unwrap();
        let pair = (id("first"), id("second"));
        assert_eq!((&found["a"], &found["b"]), (&json!(0), &json!(of_b[&pair])));
    }
    let told = "  only in B, 1 time: 'searched {}: {} matches', then 'open {}' in the same thread\n";
    assert!(text.contains(told), "{text}");
}

#[test]
fn messages_are_grouped_by_site_only_if_all_traces_record_sites() {
    for (raw, by_site) in [([true, true], true), ([true, false], false), ([false, true], false)] {
        let place = Place::new();
        let made = search(1, 1, 50);
        write(&place, "a", raw[0], &made);
        write(&place, "b", raw[1], &made);
        let (status, json, text, err) = compare(&place, &[]);
        assert_eq!((status, &json["by_site"]), (Some(0), &json!(by_site)), "{text}");
        assert_eq!(err.contains("2 of 4 files do not record where messages come from"), !by_site, "{err}");
        // With shapes, each path makes three separate sorts.
        let sorts = if by_site { SITES.len() + 2 } else { 3 * 50 + 1 + 2 };
        assert_eq!(json["sorts"], json!(sorts), "{text}");
        // A message is shown without the words that lead to its site.
        assert_eq!(json["threads"].as_array().unwrap().len(), 2);
    }
    let place = Place::new();
    let made = search(1, 1, 50);
    write(&place, "a", true, &made);
    write(&place, "b", true, &made[1..]);
    let (_, json, ..) = compare(&place, &[]);
    let next = &json["threads"][1]["a"]["next"];
    assert_eq!([&next[0]["text"], &next[1]["text"]], [&json!(made[0].2), &json!(made[1].2)]);
}

#[test]
fn sorts_that_occur_once_are_counted_and_not_listed_first() {
    let place = Place::new();
    let a = search(1, 8, 400);
    // The second run finds other files after the first 300, and steals as often.
    let mut b: Vec<Made> = search(2, 8, 300);
    b.extend((0..33).map(|n| (20, 3, format!("steal from {n}"))));
    b.extend((0..70).map(|n| (20 + n % 8, 1, format!("open /other/{}.rs", word(1000 + n)))));
    write(&place, "a", false, &a);
    write(&place, "b", false, &b);
    let (status, json, text, _) = compare(&place, &[]);
    assert_eq!(status, Some(1));
    let of = |made: &[Made]| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (_, _, text) in made {
            // The numbers of these messages are behind the last colon, or at the end.
            let shape: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
            *counts.entry(shape).or_default() += 1;
        }
        counts
    };
    let (of_a, of_b) = (of(&a), of(&b));
    let once_in = |one: &BTreeMap<String, u64>, other: &BTreeMap<String, u64>| {
        one.iter().filter(|(shape, count)| **count == 1 && !other.contains_key(*shape)).count()
    };
    let (once_a, once_b) = (once_in(&of_a, &of_b), once_in(&of_b, &of_a));
    assert_eq!((once_a, once_b), (300, 70));
    assert_eq!((&json["once_a"], &json["once_b"]), (&json!(once_a), &json!(once_b)));
    // The messages of the first thread are in both, too.
    assert_eq!(json["once_both"], json!(3 * 300 + 2));
    for counted in [&json["messages"], &json["pools"][0]["messages"]] {
        for sort in counted.as_array().unwrap() {
            let count = |side: &str| sort[side].as_u64().or(sort[side]["count"].as_u64()).unwrap();
            assert!(count("a").max(count("b")) > 1, "{sort}");
        }
    }
    assert_eq!(json["messages"][0]["message"], "steal from #");
    for told in [
        "\n300 sorts of messages come once in A and never in B\n",
        "\n70 sorts of messages come once in B and never in A\n",
        "\n902 sorts of messages come once in A and once in B\n",
        "\n  300 sorts of messages come once in A and never in B\n",
    ] {
        assert!(text.contains(told), "{told} in {text}");
    }
    assert!(text.lines().count() < 20, "{text}");
    // If all fit, each is shown.
    let (_, json, text, _) = compare(&place, &["--rows", "2000"]);
    assert_eq!(json["messages"].as_array().unwrap().len() as u64, json["sorts"].as_u64().unwrap());
    let last = json["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["a"]["count"].as_u64().unwrap() + last["b"]["count"].as_u64().unwrap(), 1);
    assert_eq!(text.matches("come once in A and once in B").count(), 0);
}
