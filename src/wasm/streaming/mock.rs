//! `tokenbrook/mock`: the server, driven from outside with times.

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::Error;
use crate::mock::{self, Kept, LoadRun, Request, Scenario, Taken};
use crate::wasm::convert::throw;

/// A mock server. Times are Unix milliseconds; connections and replies are whole numbers.
#[wasm_bindgen]
#[derive(Debug)]
pub struct MockServer {
    server: mock::MockServer,
}

#[wasm_bindgen]
impl MockServer {
    /// A server for a scenario as JSON.
    ///
    /// # Errors
    /// Throws `invalid-option` with the place of what is refused.
    #[wasm_bindgen(constructor)]
    pub fn new(scenario: &str, instance: &str, now_ms: f64) -> Result<Self, JsValue> {
        let scenario = Scenario::from_json(scenario).map_err(refuse)?;
        Ok(Self {
            server: mock::MockServer::new(scenario, instance, now_ms),
        })
    }

    /// Takes a request: method in capitals, path, `{ query, headers }` as JSON arrays of pairs,
    /// body. Gives its connection.
    ///
    /// # Errors
    /// Throws `invalid-option` where `pairs` is something else.
    pub fn request(
        &mut self,
        now_ms: f64,
        method: String,
        path: String,
        pairs: &str,
        body: Vec<u8>,
    ) -> Result<f64, JsValue> {
        let (query, headers) = serde_json::from_str(pairs).map_err(|_| {
            throw(&Error::Kind {
                name: "request",
                expected: "a request",
            })
        })?;
        let request = Request {
            method,
            path,
            query,
            headers,
            body,
        };
        Ok(number(self.server.request(now_ms, request)))
    }

    /// When something happens next by itself.
    #[wasm_bindgen(js_name = nextMs)]
    pub fn next_ms(&mut self) -> Option<f64> {
        self.server.next_ms()
    }

    /// Lets happen all that is due.
    pub fn advance(&mut self, now_ms: f64) {
        self.server.advance(now_ms);
    }

    /// `{ status, headers }` as JSON, once it has arrived.
    #[must_use]
    pub fn head(&self, connection: f64) -> Option<String> {
        self.server.head(key(connection)).map(json)
    }

    /// The next part of a body: bytes; `undefined` when there is none yet; `true` at its end;
    /// `false` where the connection broke.
    pub fn take(&mut self, now_ms: f64, connection: f64) -> JsValue {
        match self.server.take(now_ms, key(connection)) {
            Taken::Nothing => JsValue::UNDEFINED,
            Taken::Bytes(bytes) => js_sys::Uint8Array::from(bytes.as_slice()).into(),
            Taken::End => JsValue::TRUE,
            Taken::Reset => JsValue::FALSE,
        }
    }

    /// The reader left.
    pub fn cancel(&mut self, now_ms: f64, connection: f64) {
        self.server.cancel(now_ms, key(connection));
    }

    /// Connections for which something has arrived.
    pub fn changed(&mut self) -> Vec<f64> {
        self.server.changed().into_iter().map(number).collect()
    }

    /// Replies that wait for a token from outside.
    #[must_use]
    pub fn wanting(&self) -> Vec<f64> {
        self.server.wanting().into_iter().map(number).collect()
    }

    /// The reply that a connection reads from, while it is made.
    #[wasm_bindgen(js_name = replyOf)]
    #[must_use]
    pub fn reply_of(&self, connection: f64) -> Option<f64> {
        self.server.reply_of(key(connection)).map(number)
    }

    /// Whether a reply is still being made.
    #[wasm_bindgen(js_name = isActive)]
    #[must_use]
    pub fn is_active(&self, reply: f64) -> bool {
        self.server.is_active(key(reply))
    }

    /// Hands in a token; false where none is wanted any more.
    pub fn push(&mut self, now_ms: f64, reply: f64, text: &str) -> bool {
        self.server.push(now_ms, key(reply), text)
    }

    /// No more tokens come; with `failure`, because of it.
    pub fn end(&mut self, now_ms: f64, reply: f64, failure: Option<String>) {
        self.server.end(now_ms, key(reply), failure.as_deref());
    }

    /// What happened, as a JSON array, of one reply or of all.
    #[must_use]
    pub fn trace(&self, reply: Option<f64>) -> String {
        self.server.trace_json(reply.map(key))
    }

    /// Counts, as JSON.
    #[must_use]
    pub fn stats(&self) -> String {
        json(&self.server.stats())
    }

    /// The scenario with all its fields, as JSON.
    #[must_use]
    pub fn scenario(&self) -> String {
        self.server.scenario().to_json()
    }

    /// Records of kept replies, as a JSON array.
    #[must_use]
    pub fn kept(&self) -> String {
        json(&self.server.kept())
    }

    /// Makes the replies of such records again, up to now; gives how many could be.
    ///
    /// # Errors
    /// Throws `invalid-option` where `records` are none.
    pub fn restore(&mut self, now_ms: f64, records: &str) -> Result<usize, JsValue> {
        let records: Vec<Kept> = serde_json::from_str(records).map_err(|_| {
            throw(&Error::Kind {
                name: "records",
                expected: "records of kept replies",
            })
        })?;
        let restored = records
            .into_iter()
            .filter_map(|record| self.server.restore(now_ms, record).ok());
        Ok(restored.count())
    }
}

/// Runs a load on the admission alone: see [`LoadRun`]; JSON in, JSON out.
///
/// # Errors
/// Throws `invalid-option` with the place of what is refused.
#[wasm_bindgen(js_name = simulateLoad)]
pub fn simulate_load(run: &str) -> Result<String, JsValue> {
    let run = LoadRun::from_json(run).map_err(refuse)?;
    Ok(json(&run.run()))
}

fn refuse(error: mock::MockError) -> JsValue {
    throw(&Error::from(error))
}

fn json<T: serde::Serialize>(value: &T) -> String {
    // Only maps with keys that are not text and writers that fail make an error.
    serde_json::to_string(value).unwrap_or_default()
}

/// Keys count from 0 and stay far below 2^53.
fn number(key: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    let number = key as f64;
    number
}

fn key(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturating: a number that is no key names nothing"
    )]
    let key = number as u64;
    key
}
