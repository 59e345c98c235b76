//! Firefox without a window, by its protocol Marionette: messages are JSON, behind their length and a colon.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Place;

/// The time after which the browser, or a page, has failed that is not ready. The machine may be loaded, and the browser
/// starts ten processes.
const PATIENCE: Duration = Duration::from_secs(600);
/// The settings: the browser chooses a port, which it writes into a file, and starts no more than it needs.
const SETTINGS: &str = r#"user_pref("marionette.port", 0);
user_pref("dom.ipc.processPrelaunch.enabled", false);
user_pref("dom.ipc.processCount", 1);
user_pref("browser.newtab.preload", false);
user_pref("browser.startup.page", 0);
user_pref("browser.startup.homepage", "about:blank");
"#;

/// A browser with one page.
pub struct Firefox {
    child: Child,
    stream: TcpStream,
    calls: u64,
}

impl Firefox {
    /// Starts the browser. Its own files are in the place.
    pub fn start(place: &Place) -> Firefox {
        let profile = place.path("tmp/firefox");
        std::fs::create_dir_all(&profile).unwrap();
        std::fs::write(profile.join("user.js"), SETTINGS).unwrap();
        let mut command = place.program("firefox-esr");
        command.args(["--headless", "--no-remote", "--marionette", "--profile"]).arg(&profile);
        command.env("HOME", &profile).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let began = Instant::now();
        let port = loop {
            let text = std::fs::read_to_string(profile.join("MarionetteActivePort")).unwrap_or_default();
            if let Ok(port) = text.trim().parse::<u16>() {
                break port;
            }
            assert!(began.elapsed() < PATIENCE, "firefox-esr has not started");
            sleep(Duration::from_millis(50));
        };
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut firefox = Firefox { child, stream, calls: 0 };
        firefox.receive();
        firefox.call("WebDriver:NewSession", &json!({"capabilities": {}}));
        firefox
    }

    fn receive(&mut self) -> Value {
        let (mut length, mut byte) = (0, [0]);
        loop {
            self.stream.read_exact(&mut byte).unwrap();
            if byte == *b":" {
                break;
            }
            length = length * 10 + usize::from(byte[0] - b'0');
        }
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn call(&mut self, name: &str, parameters: &Value) -> Value {
        self.calls += 1;
        let message = json!([0, self.calls, name, parameters]).to_string();
        self.stream.write_all(format!("{}:{message}", message.len()).as_bytes()).unwrap();
        let mut answer = self.receive();
        assert!(answer[2].is_null(), "{name}: {answer}");
        answer[3].take()
    }

    /// Opens a page of `tracemerge`, and waits until it shows its trace.
    pub fn open(&mut self, page: &Path) {
        self.call("WebDriver:Navigate", &json!({"url": format!("file://{}", page.display())}));
        let began = Instant::now();
        while self.value("document.documentElement.dataset.ready") != json!("yes") {
            assert!(
                began.elapsed() < PATIENCE,
                "{}",
                self.value("document.getElementById('state').textContent")
            );
            sleep(Duration::from_millis(50));
        }
    }

    /// Returns the value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let script = json!({"script": format!("return ({expression})"), "args": []});
        self.call("WebDriver:ExecuteScript", &script)["value"].take()
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
