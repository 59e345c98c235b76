//! The page for a browser has the functions, numbers and messages of the trace, and no text of the trace becomes markup.
//! Chromium shows it, and is used as a person would: by mouse and keys.
#![cfg(feature = "html")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::spans_may_be_left_on_another_thread::made as left_elsewhere;
use crate::support::browser::Browser;
use crate::support::firefox::Firefox;
use crate::support::programs::{in_part, optional_readers};
use crate::support::{Everything, Place, Seeded, answers, everything, header, line, run, whole_file};

/// The lines of the page that have its data.
fn blocks(page: &str) -> Vec<&str> {
    page.lines().filter(|line| line.starts_with("<script>block(")).collect()
}

/// Returns the data of the overview, if a line of the page has it.
fn overview_data(line: &str) -> Option<&str> {
    line.strip_prefix("<script>overview(\"")?.strip_suffix("\")</script>")
}

/// Checks that the data of a page are base64 in a script, and nothing else.
pub fn check_data(page: &str) {
    assert!(page.starts_with("<!doctype html>"));
    assert!(page.contains("content=\"default-src 'none';"), "the page may not request anything");
    let blocks = blocks(page);
    assert!(!blocks.is_empty());
    for block in blocks {
        let data = block.strip_prefix("<script>block(").unwrap().strip_suffix(")</script>").unwrap();
        let is_data = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=,\"".contains(&byte);
        assert!(data.bytes().all(is_data), "{}", &data[..data.len().min(300)]);
    }
    for overview in page.lines().filter_map(overview_data) {
        assert!(overview.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)));
    }
    // The program's own parts are the same for all traces: only the blocks and the overview may have texts of a trace.
    let number = |what: &str| page.matches(what).count();
    assert_eq!(number("</script"), number("<script"));
}

/// The numbers of a function: calls, total, self, waiting, min, avg, p99, max.
pub type Numbers = [u64; 8];

/// Returns the numbers of each function by its name, as `report` has them.
pub fn reported(place: &Place, selection: &[&str]) -> BTreeMap<String, Vec<Numbers>> {
    let ran = place.merge([&["report", "--json", "--all-runs", "app"], selection].concat());
    assert!(ran.status.is_some_and(|status| status < 2), "{}", ran.err);
    let read: Value = serde_json::from_slice(&ran.out).unwrap();
    let mut all = BTreeMap::<String, Vec<Numbers>>::new();
    for row in read["functions"].as_array().unwrap() {
        let names =
            ["calls", "total_ns", "self_ns", "waiting_ns", "min_ns", "average_ns", "p99_ns", "max_ns"];
        let numbers = names.map(|name| row[name].as_u64().unwrap_or(0));
        all.entry(row["function"].as_str().unwrap().to_owned()).or_default().push(numbers);
    }
    all.values_mut().for_each(|rows| rows.sort_unstable());
    all
}

/// Returns the numbers of each function by its name, as the table of the page has them.
pub fn shown(browser: &mut Browser) -> BTreeMap<String, Vec<Numbers>> {
    let rows = browser.value(
        "[...document.querySelectorAll('#functions tbody tr')].map(row => \
         [...row.querySelectorAll('td')].map(cell => cell.dataset.value))",
    );
    let headings =
        browser.value("[...document.querySelectorAll('#functions th')].map(cell => cell.textContent)");
    let heading = |name: &str| {
        let is_it = |heading: &Value| heading.as_str().unwrap().split(' ').next() == Some(name);
        headings.as_array().unwrap().iter().position(is_it)
    };
    let columns = ["calls", "total", "self", "waiting", "min", "avg", "p99", "max"].map(heading);
    let function = heading("function").unwrap();
    let mut all = BTreeMap::<String, Vec<Numbers>>::new();
    for row in rows.as_array().unwrap() {
        let number = |column: Option<usize>| {
            column.map_or(0, |column| row[column].as_str().unwrap().parse::<u64>().unwrap())
        };
        all.entry(row[function].as_str().unwrap().to_owned()).or_default().push(columns.map(number));
    }
    all.values_mut().for_each(|rows| rows.sort_unstable());
    all
}

/// Returns the first and the last time of the shown period.
fn period(browser: &mut Browser) -> (f64, f64) {
    let period = browser.value("[view.from, view.to]");
    (period[0].as_f64().unwrap(), period[1].as_f64().unwrap())
}

fn messages(all: &Everything) -> usize {
    all.records.iter().filter(|of| of.kind == "message").count()
}

/// Returns the lines of messages as the page copies them.
pub const COPIED: &str = r"(async () => {
    const lines = [], { time, lane, entry } = trace.messages;
    for (let from = 0; from < time.length; from += 5000) {
        const numbers = Array.from({ length: Math.min(5000, time.length - from) }, (_, number) => from + number);
        for (const { number, text, ticks } of await ask({ what: 'rows', numbers })) {
            const { kind } = trace.dictionary[entry[number]];
            if (':~!'.includes(kind)) lines.push(mergedLines(trace.lanes[lane[number]].tid, ticks, kind, text));
        }
    }
    return lines.join('\n');
})()";

/// Returns the lines of messages in the merged file.
pub fn merged_messages(place: &Place) -> Vec<String> {
    let ran = place.merge(["--all-runs", "-o", "-", "app"]);
    let text = String::from_utf8(ran.out).unwrap();
    let mark = |line: &str| line.split(' ').nth(1).and_then(|mark| mark.chars().next());
    let is_message = |line: &&str| matches!(mark(line), Some(':' | '|' | '!'));
    text.lines().filter(is_message).map(str::to_owned).collect()
}

#[test]
fn the_page_has_the_numbers_of_the_report_and_the_messages() {
    let all = everything(20_000);
    let ran = all.place.merge(["--format", "html", "--all-runs", "app"]);
    // The trace is damaged in one place, and lacks records.
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    check_data(&all.place.text("app.html"));
    if crate::support::programs::installed_programs(["chromium"]).is_empty() {
        return;
    }
    let mut browser = Browser::start(&all.place);
    browser.open(&all.place.path("app.html"));
    assert_eq!(shown(&mut browser), reported(&all.place, &[]));

    // The table of messages, and its filter.
    browser.press("2");
    let kinds = browser.value(
        "trace.messages.time.length - [...trace.messages.entry].filter(entry => \
         ['#', '^'].includes(trace.dictionary[entry].kind)).length",
    );
    assert_eq!(kinds, json!(messages(&all)));
    browser.click("#filter");
    browser.type_text("[0-9]+$");
    browser.wait_for("document.getElementById('accepted').dataset.value === '0'");
    browser.click("#expression");
    browser.wait_for("Number(document.getElementById('accepted').dataset.value) > 0");
    let with_digits = browser.value(
        "[...document.querySelectorAll('#messages .row .text')].every(row => /[0-9]$/.test(row.textContent))",
    );
    assert_eq!(with_digits, json!(true));

    // The places in the source, alone and with a line.
    let at = |place: &str| {
        let of = ["--format", "jsonl", "--all-runs", "--site", place, "-o", "-", "app"];
        let text = String::from_utf8(all.place.merge(of).out).unwrap();
        let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.filter(|row| row["kind"] == "message" && row["line"].is_u64()).count()
    };
    let (of_file, of_line) = (at("net \"q\", é.rs"), at("net \"q\", é.rs:13"));
    assert!(of_line > 0 && of_line < of_file, "{of_line} of {of_file}");
    browser.value("byId('filter').value = table.pattern = ''");
    browser.click("#place");
    browser.type_text("é.rs:1");
    let accepts = |count: usize| format!("document.getElementById('accepted').dataset.value === '{count}'");
    browser.wait_for(&accepts(of_file));
    browser.type_text("3");
    browser.wait_for(&accepts(of_line));
    let places = browser.value(
        "[...new Set([...table.accepted].map(number => trace.dictionary[trace.messages.entry[number]].about[2]))]",
    );
    assert_eq!(places, json!(["src/net \"q\", é.rs:13"]));
    browser.value("byId('place').value = table.place = ''; filterMessages(); null");

    // Each message is copied as the merged file has it.
    let copied = browser.value(COPIED);
    let copied: Vec<&str> = copied.as_str().unwrap().split('\n').collect();
    let merged = merged_messages(&all.place);
    let differs = copied.iter().zip(&merged).position(|(copied, merged)| copied != merged);
    assert_eq!(differs.map(|at| (copied[at], &merged[at][..])), None);
    assert_eq!(copied.len(), merged.len());

    // The wheel zooms at the pointer, and keys zoom, move, and show everything again.
    browser.press("Escape");
    let whole = period(&mut browser);
    browser.wheel(800.0, 250.0, -500.0);
    browser.wait_for("view.to - view.from < (trace.last - trace.first) * 0.9");
    let zoomed = period(&mut browser);
    assert!(zoomed.0 > whole.0 && zoomed.1 < whole.1, "{zoomed:?} {whole:?}");
    browser.press("s");
    browser.press("w");
    browser.press("d");
    let moved = period(&mut browser);
    assert!(moved.0 > zoomed.0, "{moved:?} {zoomed:?}");
    browser.press("f");
    assert_eq!(period(&mut browser), whole);
    browser.wait_for("location.hash.startsWith('#view=')");

    // The lanes name the threads, and the pointer has exact times.
    let lanes = browser.value("document.querySelectorAll('#gutter .lane').length");
    assert_eq!(lanes, browser.value("trace.lanes.length"));
    check_accessibility(&mut browser);
    let errors = browser.events_of("Runtime.exceptionThrown");
    assert!(errors.is_empty(), "{errors:?}");
}

/// Checks that axe-core finds no serious fault in any page of the panel, in both themes.
fn check_accessibility(browser: &mut Browser) {
    let script = optional_readers().map(|readers| readers.join("node_modules/axe-core/axe.min.js"));
    let Some(script) = script.filter(|script| script.exists()) else {
        return in_part("axe-core (`bash .ci/readers`)");
    };
    let script = std::fs::read_to_string(script).unwrap();
    browser.value(&format!("{script}\n; typeof axe"));
    for (theme, pages) in [("light", "1234567"), ("dark", "123")] {
        for page in pages.chars() {
            browser.press(&page.to_string());
            let faults = browser.value(
                "axe.run(document, { resultTypes: ['violations'] }).then(found => found.violations \
                 .filter(({ impact }) => impact === 'serious' || impact === 'critical') \
                 .map(({ id, nodes }) => [id, nodes.map(node => node.html)]))",
            );
            assert_eq!(faults, json!([]), "page {page}, {theme}");
        }
        browser.press("t");
    }
}

/// Makes a trace of three threads, in which each call has its leave record, with messages between.
fn nested_calls() -> Place {
    let place = Place::new();
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for thread in 1..=3 {
        let (mut lines, mut ticks, mut open) =
            (header(&run(5, 1), thread), 1000 * thread, Vec::<String>::new());
        let mut put = |ticks: u64, mark: char, text: &str| {
            lines.extend(format!("{ticks:016x}-{thread:08} {mark} {text}\n").into_bytes());
        };
        for number in 0..3000 {
            ticks += 1 + random(5000);
            match random(4) {
                0 => put(ticks, ':', &format!("message {number} of {}", random(100))),
                1 if !open.is_empty() => put(ticks, '<', &open.pop().unwrap()),
                _ if open.len() < 6 => {
                    open.push(format!("app::f{} at src/main.rs:{}", random(9), 7));
                    put(ticks, '>', open.last().unwrap());
                }
                _ => put(ticks, '<', &open.pop().unwrap()),
            }
        }
        while let Some(function) = open.pop() {
            ticks += 1 + random(5000);
            put(ticks, '<', &function);
        }
        place.write(format!("app.trace.{thread}"), lines);
    }
    place
}

/// Makes the trace of a thread whose guards are dropped in any order.
fn overlapping_calls(seed: u64) -> Place {
    let (place, mut random) = (Place::new(), Seeded::new(seed));
    let (mut open, mut lines, mut ticks, mut begun) = (Vec::new(), String::new(), 0, 0);
    while begun < 400 || !open.is_empty() {
        // Two records may have the same ticks.
        ticks += random.below(3) * 1000;
        if begun < 400 && open.len() < 12 && random.below(2) == 0 {
            begun += 1;
            let function = random.below(6);
            let call = match random.below(3) {
                0 => format!("span={begun} app::f{function} at src/main.rs:{function}"),
                _ => format!("app::g{function} at src/main.rs:{}", 10 + function),
            };
            lines += &format!("{ticks:016x}-00000001 > {call}\n");
            open.push(call);
        } else if !open.is_empty() {
            // Most guards are dropped in order.
            let at =
                if random.below(3) == 0 { random.below(open.len() as u64) as usize } else { open.len() - 1 };
            lines += &format!("{ticks:016x}-00000001 < {}\n", open.remove(at));
        }
    }
    place.write("app.trace.1", whole_file(&run(4, 0), 1, "one", lines.as_bytes()));
    place
}

#[test]
fn the_page_has_the_numbers_of_the_report_of_calls_that_overlap() {
    let made = (1..4).map(overlapping_calls);
    let places: Vec<Place> = made.chain((1..4).map(|seed| left_elsewhere(seed).0)).collect();
    for place in &places {
        let ran = place.merge(["--format", "html", "app"]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        check_data(&place.text("app.html"));
    }
    if crate::support::programs::installed_programs(["chromium"]).is_empty() {
        return;
    }
    let mut browser = Browser::start(&places[0]);
    for place in &places {
        browser.open(&place.path("app.html"));
        let whole = shown(&mut browser);
        assert_eq!(whole, reported(place, &[]));
        let open =
            browser.value("trace.lanes.some(lane => lane.flags.some(flags => (flags & OPEN_CALL) !== 0))");
        assert_eq!(open, json!(false), "another thread has left the call");
        let overlap = browser.value("trace.lanes.some(lane => lane.early.size > 0)");
        assert_eq!(overlap, json!(true));
        browser.press("3");
        let own: u64 = whole.values().flatten().map(|numbers| numbers[2]).sum();
        assert_eq!(browser.value("flames.root.total"), json!(own));
        browser.press("1");
        for (from, to) in [(3, 9), (0, 5), (5, 10)] {
            let period = browser.value(&format!(
                "(() => {{ const at = part => Math.round(trace.first + (trace.last - trace.first) * part / 10);
                view.selection = [at({from}), at({to})]; selectionChanged(); return view.selection; }})()"
            ));
            let (from, to) = (period[0].as_u64().unwrap(), period[1].as_u64().unwrap());
            browser.wait_for("document.getElementById('counted').textContent.includes('selected')");
            let seconds = |ns: u64| format!("{}.{:09}s", ns / 1_000_000_000, ns % 1_000_000_000);
            let selection = ["--since", &seconds(from), "--until", &seconds(to + 1)];
            assert_eq!(shown(&mut browser), reported(place, &selection), "{selection:?}");
        }
        browser.press("Escape");
    }
    let errors = browser.events_of("Runtime.exceptionThrown");
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn a_selected_period_has_the_numbers_of_the_report_of_that_period() {
    let place = nested_calls();
    let ran = place.merge(["--format", "html", "--all-runs", "app"]);
    assert!(ran.status.is_some_and(|status| status < 2), "{}", ran.err);
    check_data(&place.text("app.html"));
    if crate::support::programs::installed_programs(["chromium"]).is_empty() {
        return;
    }
    let mut browser = Browser::start(&place);
    browser.open(&place.path("app.html"));
    let whole = shown(&mut browser);
    assert_eq!(whole, reported(&place, &[]));
    // A drag on the time axis selects a period.
    let axis = browser.value(
        "(() => { const { x, y } = document.getElementById('scale').getBoundingClientRect(); return [x, y]; })()",
    );
    let (x, y) = (axis[0].as_f64().unwrap(), axis[1].as_f64().unwrap() + 10.0);
    browser.drag(&[(x + 300.0, y), (x + 400.0, y), (x + 700.0, y)]);
    browser.wait_for("document.getElementById('counted').textContent.includes('selected')");
    let selection = browser.value("view.selection");
    let (from, to) = (selection[0].as_u64().unwrap(), selection[1].as_u64().unwrap());
    let of_selection = shown(&mut browser);
    assert_ne!(of_selection, whole);
    let seconds = |ns: u64| format!("{}.{:09}s", ns / 1_000_000_000, ns % 1_000_000_000);
    // The end of a selection belongs to it, that of `--until` does not.
    assert_eq!(of_selection, reported(&place, &["--since", &seconds(from), "--until", &seconds(to + 1)]));

    // The flame graph has the calls of the selection. The other views show something, too.
    browser.press("3");
    let own: u64 = of_selection.values().flatten().map(|numbers| numbers[2]).sum();
    assert_eq!(browser.value("flames.root.total"), json!(own));
    browser.press("4");
    browser.wait_for("document.querySelectorAll('#swimlanes .row').length > 3");
    browser.press("Escape");
    browser.wait_for("view.selection === null");
    browser.press("1");
    assert_eq!(shown(&mut browser), whole);

    // A hidden lane is not counted, and the address says what is shown: another visit shows the same.
    browser.value("document.querySelector('.lane button[title=hide]').click()");
    let fewer = shown(&mut browser);
    assert_ne!(fewer, whole);
    browser.wait_for("location.hash.includes('hidden=')");
    let hash = browser.value("location.hash");
    let link = format!("file://{}{}", place.path("app.html").display(), hash.as_str().unwrap());
    browser.call("Page.navigate", json!({"url": "about:blank"}));
    browser.call("Page.navigate", json!({"url": link}));
    browser.wait_for("document.documentElement?.dataset.ready === 'yes'");
    assert_eq!(shown(&mut browser), fewer);

    // A name that is searched for, and the way to the next call of it.
    browser.press("/");
    browser.type_text("app::f3");
    browser.wait_for("/[1-9].* call/.test(document.getElementById('found').textContent)");
    browser.press("Escape");
    browser.press("n");
    browser.wait_for("document.getElementById('chosen').textContent.startsWith('app::f3 ')");
    let errors = browser.events_of("Runtime.exceptionThrown");
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn a_large_page_begins_with_an_overview_that_is_shown_before_the_records() {
    let place = Place::new();
    // The first thread is in calls in the first half of the trace. The other one writes messages in the second half.
    let (half, step) = (40_000_u64, 10);
    for thread in 1..=2 {
        let mut lines = header(&run(5, 1), thread);
        let mut put = |number: u64, what: &str| {
            let ticks = 1000 + step * number;
            lines.extend(format!("{ticks:016x}-{thread:08} {what}\n").into_bytes());
        };
        if thread == 1 {
            put(0, "> app::outer at src/main.rs:1");
            for number in 1..half / 2 {
                put(2 * number - 1, "> app::inner at src/main.rs:2");
                put(2 * number, "< app::inner at src/main.rs:2");
            }
            put(half, "< app::outer at src/main.rs:1");
        } else {
            (half + 1..=2 * half).for_each(|number| put(number, ": <b>message</b>"));
        }
        place.write(format!("app.trace.{thread}"), lines);
    }
    let ran = place.merge(["--format", "html", "--all-runs", "app"]);
    assert!(ran.status.is_some_and(|status| status < 2), "{}", ran.err);
    let page = place.text("app.html");
    check_data(&page);
    let first_block = page.find("<script>block(").unwrap();
    let before = &page[..first_block];
    let overview = before.lines().find_map(overview_data).unwrap();
    if crate::support::programs::installed_programs(["chromium"]).is_empty() {
        return;
    }
    let mut browser = Browser::start(&place);
    browser.open(&place.path("app.html"));
    let decode = format!("inflate('{overview}').then(bytes => JSON.parse(new TextDecoder().decode(bytes)))");
    let lanes = browser.value(&decode)["lanes"].take();
    let is_something = |text: &Value, from: usize, to: usize| {
        text.as_str().unwrap()[from..to].bytes().all(|digit| digit != b'0')
    };
    let (calls, messages) = (&lanes[0], &lanes[1]);
    assert_eq!(calls[1], json!(2), "rows of calls");
    assert!(is_something(&calls[2], 0, 299) && is_something(&messages[3], 302, 600), "{lanes}");
    assert_eq!(calls[2].as_str().unwrap()[302..], "0".repeat(298));
    assert_eq!(messages[3].as_str().unwrap()[..299], "0".repeat(299));
    assert_eq!(browser.value("trace.lanes[0].start.length"), json!(half / 2));
    let counts = "[document.getElementById('state').textContent, \
                  document.querySelectorAll('#functions tbody tr').length]";
    let expected = browser.value(counts);
    let state = expected[0].as_str().unwrap();
    assert!(state.contains(" 2 threads, 40,000 messages, "), "{state}");
    assert_eq!(expected[1], json!(2), "functions");
    if !crate::support::programs::installed_programs(["firefox-esr"]).is_empty() {
        let mut firefox = Firefox::start(&place);
        firefox.open(&place.path("app.html"));
        assert_eq!(firefox.value(counts), expected);
    }

    // A page whose records are still missing shows it.
    place.write("part.html", before);
    let part = format!("file://{}", place.path("part.html").display());
    browser.call("Page.navigate", json!({"url": part}));
    browser.wait_for("document.documentElement?.dataset.overview === 'yes'");
    assert_eq!(browser.value("document.querySelectorAll('#gutter .lane').length"), json!(2));
    let colour = |share: f64| {
        format!(
            "canvas.getContext('2d').getImageData(GUTTER + laneWidth() * {share}, 6, 1, 1).data.slice(0, 3).join()"
        )
    };
    let [busy, idle] = [0.25, 0.75].map(|share| browser.value(&colour(share)));
    assert_ne!(busy, idle);
    let errors = browser.events_of("Runtime.exceptionThrown");
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn two_periods_are_compared_and_the_call_tree_has_all_calls() {
    let place = nested_calls();
    let ran = place.merge(["--format", "html", "--all-runs", "app"]);
    assert!(ran.status.is_some_and(|status| status < 2), "{}", ran.err);
    // A period of the page has its end, that of the report has not.
    let (earlier, later) = ((500_000, 1_500_000), (2_000_000, 4_000_000));
    let report = |(from, to): (u64, u64)| {
        let seconds = |ns: u64| format!("0.{ns:09}s");
        reported(&place, &["--since", &seconds(from), "--until", &seconds(to + 1)])
    };
    let (reported_before, reported_after) = (report(earlier), report(later));
    assert!(!reported_before.is_empty() && reported_before != reported_after);
    if crate::support::programs::installed_programs(["chromium"]).is_empty() {
        return;
    }
    let mut browser = Browser::start(&place);
    let page = format!("file://{}", place.path("app.html").display());
    let link = format!("{page}#before={},{}&selection={},{}", earlier.0, earlier.1, later.0, later.1);
    browser.call("Page.navigate", json!({"url": link}));
    browser.wait_for("document.documentElement?.dataset.ready === 'yes'");
    let compared = |browser: &mut Browser, suffix: &str| {
        let names = ["calls", "total", "own", "average", "p99"].map(|name| format!("{name}{suffix}"));
        let rows = browser.value(&format!(
            "[...document.querySelectorAll('#functions tbody tr')].map(row => {{ \
             const cells = [...row.querySelectorAll('td')].map(cell => cell.dataset.value); \
             const columns = COMPARED.map(([name]) => name); \
             return [cells.at(-1), ...{}.map(name => Number(cells[columns.indexOf(name)]))]; }})",
            json!(names)
        ));
        let row = |row: &Value| {
            let numbers: Vec<u64> = (1..6).map(|at| row[at].as_u64().unwrap()).collect();
            (row[0].as_str().unwrap().to_owned(), numbers)
        };
        let all = rows.as_array().unwrap().iter().map(row).filter(|(_, numbers)| numbers[0] > 0);
        all.collect::<BTreeMap<_, _>>()
    };
    let expected = |report: &BTreeMap<String, Vec<Numbers>>| {
        let numbers = |all: &Vec<Numbers>| [0, 1, 2, 5, 6].map(|at| all[0][at]).to_vec();
        report.iter().map(|(name, all)| (name.clone(), numbers(all))).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(compared(&mut browser, "Before"), expected(&reported_before));
    assert_eq!(compared(&mut browser, ""), expected(&reported_after));

    // The call tree has each call once, below its callers.
    browser.press("5");
    browser.wait_for("document.querySelectorAll('#tree tbody tr').length > 5");
    browser.click("#calltree button[title='show all calls']");
    let rows = browser.value(
        "[...document.querySelectorAll('#tree tbody tr')].map(row => \
         [row.cells[4].dataset.value, Number(row.cells[0].dataset.value), Number(row.cells[2].dataset.value)])",
    );
    let mut calls = BTreeMap::<String, (u64, u64)>::new();
    for row in rows.as_array().unwrap() {
        let of = calls.entry(row[0].as_str().unwrap().to_owned()).or_default();
        of.0 += row[1].as_u64().unwrap();
        of.1 += row[2].as_u64().unwrap();
    }
    let selected = reported_after.iter().map(|(name, all)| (name.clone(), (all[0][0], all[0][2])));
    assert_eq!(calls, selected.collect());
    browser.click("#calltree button[title='show the outermost calls only']");
    let rows_in_page = "document.querySelectorAll('#tree tbody tr').length";
    let outermost = browser.value(rows_in_page).as_u64().unwrap();
    assert!((1..=9).contains(&outermost), "{outermost} rows of 9 functions");
    browser.click("#tree tbody tr");
    browser.wait_for(&format!("{rows_in_page} > {outermost}"));
    browser.press("1");

    // The page of another version is refused.
    let text = place.text("app.html");
    let refused = browser.value(&format!(
        "(async () => {{
            const columns = JSON.parse('[' + {}.slice('<script>block('.length, -')</script>'.length) + ']');
            const head = new TextDecoder().decode(await inflate(columns[1])).replace('\"version\":2', '\"version\":1');
            const packed = new Blob([head]).stream().pipeThrough(new CompressionStream('deflate-raw'));
            const bytes = new Uint8Array(await new Response(packed).arrayBuffer());
            columns[1] = btoa(String.fromCharCode(...bytes));
            await compareWithPage(new File(['<script>block(' + JSON.stringify(columns).slice(1, -1) + ')</script>'], 'old.html'));
            return byId('before').textContent;
        }})()",
        json!(blocks(&text)[0])
    ));
    let message =
        "old.html cannot be compared: another version of tracemerge has made it; make it again with this one";
    assert_eq!(refused, json!(message));

    // The button ends the comparison, and begins another one.
    browser.click("#compare");
    assert_eq!(shown(&mut browser), reported_after);
    browser.click("#compare");
    browser.press("Escape");
    assert_eq!(compared(&mut browser, "Before"), expected(&reported_after));
    assert_eq!(compared(&mut browser, ""), expected(&reported(&place, &[])));

    // So does the page of another trace.
    browser.click("#compare");
    let input = browser.call("Runtime.evaluate", json!({"expression": "byId('otherpage')"}));
    let object = input["result"]["objectId"].clone();
    let files = json!({"files": [place.path("app.html")], "objectId": object});
    browser.call("DOM.setFileInputFiles", files);
    browser.wait_for("document.getElementById('before').textContent === 'before: app.html'");
    assert_eq!(compared(&mut browser, "Before"), expected(&reported(&place, &[])));
    browser.click("#compare");
    let errors = browser.events_of("Runtime.exceptionThrown");
    assert!(errors.is_empty(), "{errors:?}");
}

/// The end of a trace of `examples/bug_hunt.rs`: thread and message.
const HUNT: [(u64, &str); 14] = [
    (97, "take 1147: 0 queued"),
    (97, "take: look"),
    (97, "take: nothing queued, lock and wait"),
    (97, "take: 0 queued, wait for the producer"),
    (95, "put 1148: 1 queued"),
    (95, "put 1148: notify the worker"),
    (97, "take: notified"),
    (97, "take 1148: 0 queued"),
    (97, "take: look"),
    (97, "take: nothing queued, lock and wait"),
    (95, "put 1149: 1 queued"),
    (95, "put 1149: notify the worker"),
    (97, "take: 1 queued, wait for the producer"),
    (94, "hung: 1148 jobs done, and no more for 700ms"),
];

#[test]
fn the_picture_of_the_bug_hunt_shows_the_lost_notification() {
    let place = Place::new();
    for thread in 94..=97 {
        let mut lines = header(&run(5, 1), thread);
        for (number, (_, text)) in HUNT.iter().enumerate().filter(|(_, (of, _))| *of == thread) {
            lines.extend(line(1000 + 700 * number as u64, thread, text));
        }
        place.write(format!("app.trace.{thread}"), lines);
    }
    let ran = place.merge(["--format", "html", "app"]);
    assert!(ran.status.is_some_and(|status| status < 2), "{}", ran.err);
    check_data(&place.text("app.html"));
    let Some(readers) = optional_readers() else { return };
    let page = place.path("app.html");
    let picture = place.path("app.png");
    let paths = [&readers, &page, &picture].map(|path| path.to_str().unwrap());
    let answer = answers("node", "page.mjs", &paths).remove(0);
    assert_eq!(answer["errors"], json!([]));
    let rows: Vec<&str> =
        answer["rows"].as_array().unwrap().iter().map(|row| row.as_str().unwrap()).collect();
    let expected: Vec<&str> = HUNT[8..13].iter().map(|(_, text)| *text).collect();
    assert!(rows.ends_with(&expected), "{rows:?}");
    assert!(place.read("app.png").starts_with(b"\x89PNG"));
}

/// Texts that would do harm if they became markup or script.
const HOSTILE: [&str; 8] = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)>",
    "\"'`${alert(4)}",
    "a\\x00b\\x1b[31m",
    "<!--<script>",
    "line\u{2028}separator",
    "\\xff\\xfe<b>not UTF-8</b>",
];

#[test]
fn no_text_of_a_trace_becomes_markup_or_script() {
    let place = Place::new();
    let mut lines = header(&run(5, 1), 9);
    for (number, text) in HOSTILE.iter().enumerate() {
        lines.extend(line(1001 + number as u64 * 10, 9, text));
        let name = text.replace(' ', "_");
        for mark in ['>', '<'] {
            let ticks = 1002 + number as u64 * 10;
            lines.extend(format!("{ticks:016x}-{:08} {mark} {name} at src/<b>.rs:7\n", 9).into_bytes());
        }
    }
    place.write("app.trace.9", lines);
    let ran = place.merge(["--format", "html", "app"]);
    assert!(ran.status.is_some_and(|status| status < 2), "{}", ran.err);
    let page = place.text("app.html");
    check_data(&page);
    for text in ["alert(1)", "onerror"] {
        assert!(!page.contains(text), "{text} is in no place that the browser reads as markup");
    }
    if crate::support::programs::installed_programs(["chromium"]).is_empty() {
        return;
    }
    let mut browser = Browser::start(&place);
    browser.open(&place.path("app.html"));
    for key in ["2", "3", "4", "1"] {
        browser.press(key);
    }
    browser.press("2");
    browser.wait_for(&format!("document.querySelectorAll('#messages .row').length >= {}", HOSTILE.len()));
    let rows =
        browser.value("[...document.querySelectorAll('#messages .row .text')].map(row => row.textContent)");
    let rows: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row.as_str().unwrap()).collect();
    for text in HOSTILE {
        assert!(rows.contains(&text), "{text:?} in {rows:?}");
    }
    let names = browser
        .value("[...document.querySelectorAll('#functions td.text')].map(cell => cell.dataset.value ?? '')");
    let name = "<script>alert(1)</script>";
    assert!(names.as_array().unwrap().contains(&json!(name)), "{names}");
    let foreign =
        browser.value("document.querySelectorAll('img, iframe, object, embed, link, b:not(#tip b)').length");
    assert_eq!(foreign, json!(0));
    assert_eq!(browser.events_of("Page.javascriptDialogOpening"), [&json!(null); 0]);
    let requests = browser.events_of("Network.requestWillBeSent");
    let urls: Vec<&str> = requests.iter().map(|of| of["request"]["url"].as_str().unwrap()).collect();
    assert!(
        urls.iter().all(|url| ["file://", "blob:", "about:"].iter().any(|own| url.starts_with(own))),
        "{urls:?}"
    );
    let errors = browser.events_of("Runtime.exceptionThrown");
    assert!(errors.is_empty(), "{errors:?}");
}
