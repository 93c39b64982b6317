//! A browser without a window (Debian's package `chromium`), driven over the DevTools protocol by
//! two pipes: no port, so that only this process drives it. It resolves no name.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};
use synod_local_cluster::find_program;

use crate::failure::{Failure, Outcome, Why, ensure};

/// Time limit for an answer, or for something on a page.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two questions to a page.
const PAUSE: Duration = Duration::from_millis(100);

/// The browser reads commands from descriptor 3 and writes to 4. Output of its own is not wanted.
const WITH_PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

/// Arguments for a browser that a test program runs, also as root, and that calls no other machine.
const ARGUMENTS: [&str; 9] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// A browser with one page; it ends when dropped.
#[derive(Debug)]
pub struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    /// Session of the page; empty before there is one.
    session: String,
    last_id: u64,
    requested: Vec<String>,
    complaints: VecDeque<String>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Browser {
    /// Starts a browser that keeps its files in `dir`.
    pub fn start(dir: &Path) -> Outcome<Browser> {
        let program = find_program("chromium", "chromium").why("finding the browser")?;
        let mut process = Command::new("sh")
            .args(["-c", WITH_PIPES])
            .arg(program)
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", dir.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .why("starting the browser")?;
        let commands = process.stdin.take().ok_or("no pipe").why("the browser")?;
        let output = process.stdout.take().ok_or("no pipe").why("the browser")?;
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let message = message.ok().map(|bytes| serde_json::from_slice(&bytes));
                let Some(Ok(message)) = message else { return };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser {
            process,
            commands,
            messages,
            session: String::new(),
            last_id: 0,
            requested: Vec::new(),
            complaints: VecDeque::new(),
        };
        browser.open_page()?;
        Ok(browser)
    }

    fn open_page(&mut self) -> Outcome {
        let made = self.call("Target.createTarget", json!({"url": "about:blank"}))?;
        let target = json!({"targetId": made["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", target)?;
        let session = attached["sessionId"].as_str().unwrap_or_default();
        self.session = session.to_owned();
        // Those of a desktop would stand in pictures.
        let hidden = json!({"hidden": true});
        self.call("Emulation.setScrollbarsHidden", hidden)?;
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(())
    }

    /// A command and its result. What happens meanwhile is noted.
    fn call(&mut self, method: &str, parameters: Value) -> Outcome<Value> {
        self.last_id += 1;
        let mut command = json!({"id": self.last_id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).why(method)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self
                .messages
                .recv_timeout(left)
                .map_err(|error| match error {
                    RecvTimeoutError::Timeout => "the browser does not answer",
                    RecvTimeoutError::Disconnected => "the browser has ended",
                });
            let message = message.why(method)?;
            if message["id"] != json!(self.last_id) {
                self.note(&message);
                continue;
            }
            ensure(message["error"].is_null(), || {
                format!("{method}: {}", message["error"])
            })?;
            return Ok(message["result"].clone());
        }
    }

    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                self.requested.push(url.to_owned());
            }
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => {
                self.complaints.push_back(parameters.to_string());
            }
            _ => {}
        }
    }

    pub fn open(&mut self, url: &str) -> Outcome {
        let opened = self.call("Page.navigate", json!({"url": url}))?;
        ensure(opened["errorText"].is_null(), || format!("{url}: {opened}"))
    }

    /// The value of an expression on the page.
    pub fn value(&mut self, expression: &str) -> Outcome<Value> {
        let parameters = json!({"expression": expression, "returnByValue": true});
        let result = self.call("Runtime.evaluate", parameters)?;
        ensure(result["exceptionDetails"].is_null(), || {
            format!("{expression}: {}", result["exceptionDetails"])
        })?;
        Ok(result["result"]["value"].clone())
    }

    /// Waits until an expression is true on the page. What it throws meanwhile counts as not true:
    /// an element may not be there yet.
    ///
    /// # Errors
    /// With the text of the page, when that takes too long.
    pub fn wait_until(&mut self, expression: &str) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let last = self.value(expression);
            if last == Ok(json!(true)) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let text = self.value("document.body.innerText")?;
                let text = text.as_str().unwrap_or_default();
                let why = format!("the page does not show {expression} ({last:?}):\n{text}");
                return Err(Failure(why));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Gives the page a size, in pixels; a phone's has a density of its own.
    pub fn resize(&mut self, width: u32, height: u32, is_phone: bool) -> Outcome {
        let size = json!({
            "width": width, "height": height, "mobile": is_phone,
            "deviceScaleFactor": if is_phone { 1.5 } else { 1.0 },
        });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        Ok(())
    }

    /// Makes the page see a system whose colours are `dark` or `light`.
    pub fn set_colours(&mut self, scheme: &str) -> Outcome {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}))?;
        Ok(())
    }

    /// The page as a picture (PNG): what is in its window.
    pub fn picture(&mut self) -> Outcome<Vec<u8>> {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}))?;
        let text = picture["data"].as_str().unwrap_or_default();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        bytes.why("the picture")
    }

    /// Addresses that were asked for so far.
    pub fn requested(&self) -> &[String] {
        &self.requested
    }

    /// Complaints of scripts and the browser since the last call.
    pub fn complaints(&mut self) -> Vec<String> {
        self.complaints.drain(..).collect()
    }
}
