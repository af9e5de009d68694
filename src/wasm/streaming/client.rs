//! `tokenbrook/client`: the decisions; requests, timers and streams are the face's.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::client::{
    Action, Alert, Backoff, BreakerLimits, Call, Failure, Heard, Ladder, Limits, Meters, Reply,
    Rung, Sample, retry_after_ms,
};
use crate::wasm::convert::{from_js, to_js};

/// Everything that is set once; times are in milliseconds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    /// One for each rung.
    deadlines_ms: Vec<Option<f64>>,
    retry: Retry,
    breaker: BreakerSettings,
    meters: MeterSettings,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Retry {
    attempts: Option<u32>,
    base_ms: Option<f64>,
    max_ms: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BreakerSettings {
    window: Option<usize>,
    least: Option<usize>,
    error_share: Option<f64>,
    p95_ms: Option<f64>,
    rest_ms: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MeterSettings {
    window: Option<usize>,
    least: Option<usize>,
    error_share: Option<f64>,
    p95_ms: Option<f64>,
    eval_share: Option<f64>,
    cached_share: Option<f64>,
    spend: Option<f64>,
    fallback_share: Option<f64>,
}

/// What the face does next.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
enum Next {
    #[serde(rename_all = "camelCase")]
    Try {
        rung: usize,
        wait_ms: f64,
        deadline_ms: Option<f64>,
    },
    Answer,
    Fall,
}

impl From<Action> for Next {
    fn from(action: Action) -> Self {
        match action {
            Action::Try {
                rung,
                wait_ms,
                deadline_ms,
            } => Self::Try {
                rung,
                wait_ms,
                deadline_ms,
            },
            Action::Answer => Self::Answer,
            Action::Fall => Self::Fall,
        }
    }
}

/// What the meters show, with names of the face.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    calls: usize,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    error_share: Option<f64>,
    cached_share: Option<f64>,
    spend: f64,
    eval_share: Option<f64>,
    rung_shares: Vec<f64>,
    alerts: Vec<&'static str>,
}

/// The state that the calls of a client share.
#[wasm_bindgen]
pub struct ClientCore {
    ladder: Ladder,
    backoff: Backoff,
    meters: Meters,
}

/// One call of a client.
#[wasm_bindgen]
pub struct ClientCall {
    call: Call,
    first: Action,
    reply: Reply,
}

#[wasm_bindgen]
impl ClientCore {
    /// # Errors
    /// Throws `invalid-option` for settings of the wrong kind.
    #[wasm_bindgen(constructor)]
    pub fn new(settings: JsValue) -> Result<Self, JsValue> {
        let settings: Settings = from_js(settings, "client", "an object of plain settings")?;
        let (usual, retry) = (Backoff::default(), settings.retry);
        let backoff = Backoff {
            attempts: retry.attempts.unwrap_or(usual.attempts),
            base_ms: retry.base_ms.unwrap_or(usual.base_ms),
            max_ms: retry.max_ms.unwrap_or(usual.max_ms),
        };
        let (usual, breaker) = (BreakerLimits::default(), settings.breaker);
        let breaker = BreakerLimits {
            window: breaker.window.unwrap_or(usual.window),
            least: breaker.least.unwrap_or(usual.least),
            error_share: breaker.error_share.unwrap_or(usual.error_share),
            p95_ms: breaker.p95_ms.unwrap_or(usual.p95_ms),
            rest_ms: breaker.rest_ms.unwrap_or(usual.rest_ms),
        };
        let deadlines = settings.deadlines_ms.into_iter();
        let rungs = deadlines.map(|deadline_ms| Rung { deadline_ms });
        let meters = settings.meters;
        let limits = Limits {
            least: meters.least.unwrap_or(20),
            error_share: meters.error_share,
            p95_ms: meters.p95_ms,
            eval_share: meters.eval_share,
            cached_share: meters.cached_share,
            spend: meters.spend,
            fallback_share: meters.fallback_share,
        };
        Ok(Self {
            ladder: Ladder::new(rungs.collect(), backoff, breaker),
            backoff,
            meters: Meters::new(limits, meters.window.unwrap_or(200)),
        })
    }

    /// Starts a call; its [`first`](ClientCall::first) says whom to ask.
    pub fn begin(&mut self, now_ms: f64, repeatable: bool) -> ClientCall {
        let (call, first) = self.ladder.begin(now_ms, repeatable);
        ClientCall {
            call,
            first,
            reply: Reply::default(),
        }
    }

    /// A response with another status than success.
    ///
    /// # Errors
    /// None: a plain value crosses the border.
    pub fn refused(
        &mut self,
        call: &mut ClientCall,
        now_ms: f64,
        status: u16,
        retry_after: Option<String>,
        now_unix_ms: f64,
        random: f64,
    ) -> Result<JsValue, JsValue> {
        let retry_after_ms = retry_after.and_then(|value| retry_after_ms(&value, now_unix_ms));
        let failure = Failure::Refused {
            status,
            retry_after_ms,
        };
        self.failed(call, now_ms, failure, random)
    }

    /// No response, or none that began as it should; `late`: the deadline has passed.
    ///
    /// # Errors
    /// None: a plain value crosses the border.
    #[wasm_bindgen(js_name = noAnswer)]
    pub fn no_answer(
        &mut self,
        call: &mut ClientCall,
        now_ms: f64,
        responded: bool,
        late: bool,
        random: f64,
    ) -> Result<JsValue, JsValue> {
        let failure = match (late, responded) {
            (true, _) => Failure::Late,
            (false, true) => Failure::Broken,
            (false, false) => Failure::Unreachable,
        };
        self.failed(call, now_ms, failure, random)
    }

    fn failed(
        &mut self,
        call: &mut ClientCall,
        now_ms: f64,
        failure: Failure,
        random: f64,
    ) -> Result<JsValue, JsValue> {
        call.reply = Reply::default();
        let rung = call.call.rung();
        let action = self.ladder.failed(&mut call.call, now_ms, failure, random);
        if action != Action::Answer {
            self.meters.record(Sample {
                rung,
                ..Sample::default()
            });
        }
        to_js(&Next::from(action))
    }

    /// The call has its first text; gives how long that took, in milliseconds.
    pub fn answered(&mut self, call: &ClientCall, now_ms: f64) -> f64 {
        self.ladder.answered(&call.call, now_ms)
    }

    /// Nobody wants the answer any more.
    pub fn abandoned(&mut self, call: &ClientCall, now_ms: f64) {
        self.ladder.abandoned(&call.call, now_ms);
    }

    /// How long to wait before a broken stream is asked for again; absent: not at all.
    #[wasm_bindgen(js_name = resumeWaitMs)]
    #[must_use]
    pub fn resume_wait_ms(&self, tried: u32, random: f64) -> Option<f64> {
        self.backoff.wait_ms(tried, None, random)
    }

    /// A call that had text is over. Prices are per token.
    pub fn record(
        &mut self,
        call: &ClientCall,
        first_text_ms: f64,
        prompt_price: f64,
        cached_price: f64,
        completion_price: f64,
    ) {
        let usage = call.reply.usage();
        let fresh = (usage.prompt_tokens - usage.cached_tokens).max(0.0);
        self.meters.record(Sample {
            rung: call.call.rung(),
            first_text_ms: Some(first_text_ms),
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            spend: fresh * prompt_price
                + usage.cached_tokens * cached_price
                + usage.completion_tokens * completion_price,
        });
    }

    /// One question of the evaluation set was asked.
    #[wasm_bindgen(js_name = recordEval)]
    pub fn record_eval(&mut self, passed: bool) {
        self.meters.record_eval(passed);
    }

    /// The state of all meters.
    ///
    /// # Errors
    /// None: a plain value crosses the border.
    pub fn meters(&self) -> Result<JsValue, JsValue> {
        let now = self.meters.summary();
        to_js(&Shown {
            calls: now.calls,
            p50_ms: now.p50_ms,
            p95_ms: now.p95_ms,
            error_share: now.error_share,
            cached_share: now.cached_share,
            spend: now.spend,
            eval_share: now.eval_share,
            rung_shares: now.rung_shares,
            alerts: self.meters.alerts().into_iter().map(name_of).collect(),
        })
    }
}

fn name_of(alert: Alert) -> &'static str {
    match alert {
        Alert::ErrorShare => "error-share",
        Alert::P95 => "p95",
        Alert::EvalShare => "eval-share",
        Alert::CachedShare => "cached-share",
        Alert::Spend => "spend",
        Alert::FallbackShare => "fallback-share",
    }
}

#[wasm_bindgen]
impl ClientCall {
    /// What to do first.
    ///
    /// # Errors
    /// None: a plain value crosses the border.
    pub fn first(&self) -> Result<JsValue, JsValue> {
        to_js(&Next::from(self.first))
    }

    /// Reads an event; `own_id` where it has an id of its own. Gives `news`, `again`, `done`,
    /// or the sentence of a failure after `failed: `.
    #[must_use]
    pub fn hear(&mut self, event: &str, data: &str, own_id: Option<String>) -> String {
        let id = match own_id {
            Some(id) => Rc::from(id),
            None => self.reply.last_id(),
        };
        match self.reply.hear(event, data, &id) {
            Heard::News { .. } => "news".to_owned(),
            Heard::Again => "again".to_owned(),
            Heard::Done => "done".to_owned(),
            Heard::Failed { message } => format!("failed: {message}"),
        }
    }

    /// Reads a whole reply; false where it is none.
    #[wasm_bindgen(js_name = hearWhole)]
    pub fn hear_whole(&mut self, body: &str) -> bool {
        self.reply.hear_whole(body)
    }

    /// What a new connection sends as `Last-Event-ID`, where the reply can go on.
    pub fn reconnect(&mut self) -> Option<String> {
        self.reply.reconnect()
    }

    /// Whether the reply is whole.
    #[wasm_bindgen(getter, js_name = isComplete)]
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.reply.is_complete()
    }

    /// Whether there was text, or a part of a tool call.
    #[wasm_bindgen(getter, js_name = hasText)]
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.reply.has_text()
    }
}
