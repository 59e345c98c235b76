//! Chromium without a window, as a person uses it: by its debugging pipe, whose messages are JSON and end with NUL.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Place;

/// The time after which a page has failed that is not ready. The machine may be loaded.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    calls: u64,
    /// The events so far: requests, dialogs, errors of scripts.
    pub events: Vec<Value>,
}

impl Browser {
    /// Starts the browser. Its own files are in the place.
    pub fn start(place: &Place) -> Browser {
        // The browser reads from its descriptor 3, and writes to 4.
        let mut command = place.program("sh");
        command.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"]);
        // As root, the browser has no sandbox of its own.
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", place.path("tmp/browser").display())).arg("about:blank");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Browser { child, to, from, session: None, calls: 0, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Network.enable"] {
            browser.call(domain, json!({}));
        }
        let size = json!({"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", size);
        browser
    }

    /// Calls a method of the browser. Returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let mut answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] != json!(self.calls) {
                self.events.push(answer);
                continue;
            }
            assert!(answer["error"].is_null(), "{method}: {answer}");
            return answer["result"].take();
        }
    }

    /// Opens a page of `tracemerge`, and waits until it shows its trace.
    pub fn open(&mut self, page: &Path) {
        self.call("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        self.wait_for("document.documentElement?.dataset.ready === 'yes'");
    }

    /// Returns the value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut found = self.call("Runtime.evaluate", params);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].take()
    }

    /// Returns the text of the first element that a selector finds.
    pub fn text(&mut self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({}).textContent", json!(selector)));
        text.as_str().unwrap().to_owned()
    }

    /// Waits until an expression is true in the page.
    pub fn wait_for(&mut self, expression: &str) {
        let began = Instant::now();
        while self.value(&format!("Boolean({expression})")) != json!(true) {
            let state = self.value("document.getElementById('state')?.textContent");
            assert!(began.elapsed() < PATIENCE, "{expression} is not so: {state}, {:?}", self.events);
            sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key that stands for a character, or one with a name.
    pub fn press(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        self.call("Input.dispatchKeyEvent", json!({"type": "keyDown", "key": key, "text": text}));
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    /// Types a text.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Turns the wheel at a place of the window.
    pub fn wheel(&mut self, x: f64, y: f64, by: f64) {
        let params = json!({"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": by});
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Presses the button of the mouse at the first place, and releases it at the last one.
    pub fn drag(&mut self, places: &[(f64, f64)]) {
        let event = |kind: &str, (x, y): (f64, f64)| {
            let buttons = u8::from(kind != "mouseReleased");
            json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1})
        };
        self.call("Input.dispatchMouseEvent", event("mousePressed", places[0]));
        for place in &places[1..] {
            self.call("Input.dispatchMouseEvent", event("mouseMoved", *place));
        }
        self.call("Input.dispatchMouseEvent", event("mouseReleased", places[places.len() - 1]));
    }

    /// Clicks on the first element that a selector finds.
    pub fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const {{ x, y, width, height }} = document.querySelector({}).getBoundingClientRect(); \
             return [x + width / 2, y + height / 2]; }})()",
            json!(selector)
        ));
        let at = (place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
        self.drag(&[at]);
    }

    /// Returns the events of this name.
    pub fn events_of(&self, method: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["method"] == method).map(|event| &event["params"]).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
