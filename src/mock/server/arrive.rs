//! A request comes to the server: what it asks for, and whether it gets it.
//!
//! Long because every way in is here: the routes, what each reads of its request, admission, and
//! each answer that needs no generator.

use serde_json::Value;

use super::job::{Job, Phase};
use super::{Action, Head, MockServer, Request};
use crate::mock::admission::{Ask, Verdict};
use crate::mock::feed::Feed;
use crate::mock::hop::{self, Item};
use crate::mock::scenario::{Hop, RoleChunk, Tier};
use crate::mock::source::{Source, count_words};
use crate::mock::trace::What;
use crate::mock::wire::{Body, error_json};
use crate::openai::{
    CompletionRequest, CompletionWriter, DialectError, Endpoint, Head as DialectHead, Route,
    model_list,
};

/// What a request asks for.
pub(super) struct Wanted {
    pub(super) body: Body,
    pub(super) prompt: String,
    /// All messages; the prompt where there are none.
    pub(super) context: String,
    /// The model that is asked for.
    pub(super) model: Option<String>,
    pub(super) max_tokens: Option<u64>,
    pub(super) choices: usize,
}

/// An answer that is there at once.
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

enum Routed {
    Reply(Wanted),
    Answer(Answer),
}

impl Answer {
    fn json(body: String) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body,
        }
    }

    fn error(status: u16, code: &str, message: &str) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: error_json(status, code, message),
        }
    }
}

impl From<DialectError> for Answer {
    fn from(error: DialectError) -> Self {
        let allow = match &error {
            DialectError::Method { allowed, .. } => vec![("allow", (*allowed).to_owned())],
            _ => Vec::new(),
        };
        Self {
            status: error.status(),
            headers: allow,
            body: error.to_json(),
        }
    }
}

impl MockServer {
    pub(super) fn arrive(&mut self, connection: u64) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        let number = open.number;
        let Some(request) = open.request.take() else {
            return;
        };
        if self.resume(connection, &request) {
            return;
        }
        match self.route(&request, number) {
            Err(error) => self.refuse(connection, &Answer::from(error)),
            Ok(Routed::Answer(answer)) => self.answer(connection, &answer),
            Ok(Routed::Reply(wanted)) => self.accept(connection, request, wanted),
        }
    }

    fn route(&self, request: &Request, number: u64) -> Result<Routed, DialectError> {
        if let Some((_, name)) = request.path.rsplit_once("/lab/") {
            return self.lab(request, name);
        }
        let created = self.created();
        let model = &self.scenario.model;
        match Route::read(&request.method, &request.path)? {
            Route::Models => Ok(Routed::Answer(Answer::json(model_list(
                model, created, None,
            )?))),
            Route::Model(name) => {
                let entry = model_list(model, created, Some(&name))?;
                Ok(Routed::Answer(Answer::json(entry)))
            }
            Route::Embeddings => Err(DialectError::NoSuchPath {
                method: request.method.clone(),
                path: request.path.clone(),
            }),
            Route::Completion(endpoint) => {
                let wanted = self.completion(endpoint, &request.body, number)?;
                Ok(Routed::Reply(wanted))
            }
        }
    }

    /// What a request asks for, where it starts a generator.
    pub(super) fn wanted(&self, request: &Request, number: u64) -> Option<Wanted> {
        match self.route(request, number) {
            Ok(Routed::Reply(wanted)) => Some(wanted),
            _ => None,
        }
    }

    fn completion(
        &self,
        endpoint: Endpoint,
        body: &[u8],
        number: u64,
    ) -> Result<Wanted, DialectError> {
        let request = CompletionRequest::read(endpoint, body)?;
        let max_tokens = max_tokens(&request)?;
        let prefix = match endpoint {
            Endpoint::Chat => "chatcmpl",
            Endpoint::Text => "cmpl",
        };
        let head = DialectHead {
            id: format!("{prefix}-{}{number}", self.instance),
            created: self.created(),
            model: self.model_for(&request).to_owned(),
        };
        Ok(Wanted {
            body: Body::Dialect {
                writer: Box::new(CompletionWriter::new(head, &request)),
                is_stream: request.stream(),
            },
            prompt: request.input(0).map(prompt_of).unwrap_or_default(),
            context: request.input(0).map(context_of).unwrap_or_default(),
            model: request.model().map(str::to_owned),
            max_tokens,
            choices: request.choices(),
        })
    }

    /// The name that answers; a pinned one stays what it is.
    fn model_for(&self, request: &CompletionRequest) -> &str {
        let swap = self.scenario.swap.as_ref();
        let pinned = swap.and_then(|swap| swap.pinned.as_deref());
        let pinned = pinned.filter(|pinned| request.model() == Some(pinned));
        pinned.unwrap_or(&self.scenario.model)
    }

    /// Whether the scenario's other model answers the request with this number.
    fn is_swapped(&self, number: u64, model: Option<&str>) -> bool {
        self.scenario.swap.as_ref().is_some_and(|swap| {
            let is_pinned = swap.pinned.is_some() && swap.pinned.as_deref() == model;
            number >= swap.after_requests.get() && !is_pinned
        })
    }

    fn lab(&self, request: &Request, name: &str) -> Result<Routed, DialectError> {
        let body = match name.strip_suffix('/').unwrap_or(name) {
            "wait" => Body::Wait(String::new()),
            "stream" => Body::Stream(Vec::new()),
            "plain" => Body::Plain(Vec::new()),
            "trace" => return Ok(Routed::Answer(Answer::json(self.trace_json(None)))),
            "stats" => {
                let stats = serde_json::to_string(&self.stats()).unwrap_or_default();
                return Ok(Routed::Answer(Answer::json(stats)));
            }
            _ => {
                return Err(DialectError::NoSuchPath {
                    method: request.method.clone(),
                    path: request.path.clone(),
                });
            }
        };
        if !matches!(&*request.method, "GET" | "POST") {
            return Err(DialectError::Method {
                method: request.method.clone(),
                path: request.path.clone(),
                allowed: "GET, POST",
            });
        }
        let prompt = lab_prompt(request)?;
        Ok(Routed::Reply(Wanted {
            body,
            context: prompt.clone(),
            prompt,
            model: None,
            max_tokens: None,
            choices: 1,
        }))
    }

    /// The trace as a JSON array, of one reply or of all.
    #[must_use]
    pub fn trace_json(&self, reply: Option<u64>) -> String {
        let events = self.trace();
        let wanted: Vec<_> = events
            .filter(|event| reply.is_none_or(|reply| event.reply == reply))
            .collect();
        serde_json::to_string(&wanted).unwrap_or_default()
    }

    /// `created` of answers: a whole number of seconds on the server's clock, so that the same
    /// requests at the same times have the same answers.
    fn created(&self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturating; times are not negative"
        )]
        let seconds = (self.now_ms / 1000.0) as u64;
        seconds
    }

    /// Whether the scenario's faults hit the request with this number.
    pub(super) fn is_faulty(&self, number: u64) -> bool {
        let first = self.scenario.faults.first_requests;
        first.is_none_or(|first| number < first.get())
    }

    fn accept(&mut self, connection: u64, request: Request, wanted: Wanted) {
        let Some(open) = self.connections.get(&connection) else {
            return;
        };
        let number = open.number;
        let faulty = self.is_faulty(number);
        if faulty && let Some(fault) = self.scenario.faults.fail_before.clone() {
            self.trace
                .add(self.now_ms, number, What::Fault { kind: "before" });
            let mut answer = Answer::error(fault.status, "mock_failure", "The scenario says so.");
            let seconds = fault.retry_after_seconds;
            answer
                .headers
                .extend(seconds.map(|count| ("retry-after", count.get().to_string())));
            self.refuse(connection, &answer);
            return;
        }
        let tier = tier_of(&request);
        let job = self.job(number, request, wanted, tier);
        if self.never_fits(&job) {
            let message = "The prompt and its answer need more KV memory than there is.";
            let answer = Answer::error(400, "context_length_exceeded", message);
            self.refuse(connection, &answer);
            return;
        }
        let ask = self.ask(&job);
        match self.admission.ask(self.now_ms, ask) {
            Verdict::Refused {
                why,
                retry_after_ms,
            } => {
                let mut answer = Answer::error(429, why.code(), "Too many requests: try later.");
                let seconds = (retry_after_ms / 1000.0).ceil().max(1.0);
                answer.headers.push(("retry-after", format!("{seconds}")));
                self.stats.rate_limited += 1;
                self.refuse(connection, &answer);
            }
            Verdict::Seated => {
                self.start(connection, job);
                self.seated(number);
            }
            Verdict::Waits => {
                self.trace.add(self.now_ms, number, What::Queued);
                self.start(connection, job);
                self.plan_incident();
            }
        }
    }

    fn never_fits(&self, job: &Job) -> bool {
        let capacity = self.scenario.capacity.as_ref();
        capacity.is_some_and(|capacity| self.ask(job).seat_bytes > capacity.memory_bytes.get())
    }

    /// What `job` asks the admission for.
    pub(super) fn ask(&self, job: &Job) -> Ask {
        let capacity = self.scenario.capacity.as_ref();
        let per_token = capacity.map_or(0, |capacity| capacity.kv_bytes_per_token.get());
        let bytes = |tokens: u64| per_token.saturating_mul(tokens);
        // Without a limit in the request, as much again as the prompt is a guess; the bucket is
        // put right when the reply has ended.
        let most = job.max_tokens.unwrap_or(job.prompt_tokens.max(256));
        let reserved = match capacity {
            Some(capacity) if capacity.overcommit => job.positions().saturating_add(1),
            Some(capacity) => {
                let context = capacity
                    .context_tokens
                    .map(crate::mock::scenario::Count::get);
                context.unwrap_or(job.prompt_tokens.saturating_add(most))
            }
            None => 0,
        };
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let tokens = job.prompt_tokens.saturating_add(most) as f64;
        Ask {
            key: job.number,
            tier: job.tier,
            tokens,
            prompt_bytes: bytes(job.positions()),
            seat_bytes: bytes(reserved),
        }
    }

    /// A generator that has not begun.
    pub(super) fn job(&self, number: u64, request: Request, wanted: Wanted, tier: Tier) -> Job {
        let Wanted {
            body,
            prompt,
            context,
            model,
            max_tokens,
            choices,
        } = wanted;
        let swapped = self.is_swapped(number, model.as_deref());
        let faulty = self.is_faulty(number);
        let resumable = self.scenario.resume.is_some() && body.has_events();
        let reply = self.reply_name(&request, number);
        let head_waits = faulty && self.scenario.faults.fail_at.is_some() && !body.streams();
        let given = self.scenario.prefill.prompt_tokens;
        let counted = count_words(&context);
        Job {
            number,
            head: self.head_of(number, &body, &reply, faulty),
            reply,
            arrived_ms: self.now_ms,
            tier,
            prompt_tokens: given.map_or(counted, crate::mock::scenario::Count::get),
            max_tokens,
            choices_left: choices,
            is_first_choice: true,
            source: Source::new(&self.scenario, number, &prompt, swapped),
            prompt,
            context,
            cached_tokens: None,
            swapped,
            body,
            begun: false,
            feed: Feed::new(&self.scenario.delivery),
            phase: Phase::Queued,
            made: 0,
            produced: 0,
            unwritten: 0,
            reserved: 0,
            turn: 0,
            has_calls: !self.scenario.tool_calls.is_empty(),
            faulty,
            head_waits,
            kept: resumable.then(Vec::new),
            origin: resumable.then_some(request),
            readers_epoch: 0,
            readers: Vec::new(),
        }
    }

    fn head_of(&self, number: u64, body: &Body, reply: &str, faulty: bool) -> Head {
        let wrong = self.scenario.faults.content_type.as_deref();
        let right = body.content_type();
        let content_type = wrong.filter(|_| faulty).unwrap_or(right);
        let mut headers = vec![
            ("content-type".to_owned(), content_type.to_owned()),
            ("cache-control".to_owned(), "no-cache".to_owned()),
            ("x-reply-id".to_owned(), reply.to_owned()),
            // Whose events in the trace are this reply's.
            ("x-reply-number".to_owned(), number.to_string()),
        ];
        let hops = self.scenario.hops.iter().filter_map(Hop::mark);
        for (name, value) in hops {
            if headers.iter().all(|(known, _)| known != name) {
                headers.push((name.to_owned(), value.to_owned()));
            }
        }
        if body.streams() {
            headers.push(("x-accel-buffering".to_owned(), "no".to_owned()));
        }
        Head {
            status: 200,
            headers,
        }
    }

    /// Adds the generator and sends the head: it leaves before the first token.
    fn start(&mut self, connection: u64, job: Job) {
        let key = job.number;
        let early_role = self.scenario.faults.role_chunk == RoleChunk::AtOnce;
        self.jobs.insert(key, job);
        self.join(connection, key, true);
        if early_role && let Some(job) = self.jobs.get_mut(&key) {
            job.begun = true;
            job.body.begin();
            self.flush(key, 0);
        }
    }

    /// Connects a reader to a generator.
    pub(super) fn join(&mut self, connection: u64, key: u64, is_first: bool) {
        let (Some(job), Some(open)) = (
            self.jobs.get_mut(&key),
            self.connections.get_mut(&connection),
        ) else {
            return;
        };
        job.readers.push(connection);
        job.readers_epoch += 1;
        open.number = key;
        open.job = Some(key);
        open.head = job.head.clone();
        open.has_events = job.body.has_events();
        // Faults hit the first connection; who comes back after one gets the rest.
        let faulty = job.faulty && is_first;
        open.stages = hop::path(&self.scenario, faulty, job.body.streams());
        let retry_ms = self.scenario.resume.and_then(|resume| resume.retry_ms);
        let retry = retry_ms.filter(|_| job.kept.is_some());
        if !job.head_waits {
            self.send(connection, Item::Head);
        }
        if let Some(ms) = retry {
            let bytes = format!("retry: {}\n\n", ms.get().round()).into_bytes();
            self.send(connection, Item::Bytes { bytes, tokens: 0 });
        }
        self.watch(connection);
    }

    /// Watches over silence on the connection.
    fn watch(&mut self, connection: u64) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        let mut plans = Vec::new();
        for (stage, place) in open.stages.iter_mut().enumerate() {
            place.open(self.now_ms);
            if let Some((since_ms, limit_ms)) = place.idle() {
                plans.push((since_ms + limit_ms, Action::Idle { connection, stage }));
            }
        }
        if let Some(ms) = self.scenario.keep_alive_ms.filter(|_| open.has_events) {
            let at_ms = self.now_ms + ms.get().max(1.0);
            plans.push((at_ms, Action::KeepAlive(connection)));
        }
        for (at_ms, action) in plans {
            self.plan(at_ms, action);
        }
    }

    fn refuse(&mut self, connection: u64, answer: &Answer) {
        if let Some(open) = self.connections.get(&connection) {
            let what = What::Refused {
                status: answer.status,
            };
            self.trace.add(self.now_ms, open.number, what);
        }
        self.stats.refused += 1;
        self.answer(connection, answer);
    }

    /// Answers at once; only the way back takes time.
    fn answer(&mut self, connection: u64, answer: &Answer) {
        let path = hop::path(&self.scenario, false, false);
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        open.stages = path;
        let own = answer.headers.iter();
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        headers.extend(own.map(|(name, value)| ((*name).to_owned(), value.clone())));
        open.head = Head {
            status: answer.status,
            headers,
        };
        self.send(connection, Item::Head);
        if answer.status != 204 {
            let bytes = answer.body.clone().into_bytes();
            self.send(connection, Item::Bytes { bytes, tokens: 0 });
        }
        self.send(connection, Item::End);
    }

    /// A reply that is kept no more, or never was.
    pub(super) fn no_such_reply(&mut self, connection: u64) {
        let message = "No reply of this name is kept: ask anew.";
        let answer = Answer::error(404, "reply_not_found", message);
        self.refuse(connection, &answer);
    }

    /// Nothing is left to be shown: an `EventSource` stops asking at this status.
    pub(super) fn nothing_left(&mut self, connection: u64) {
        let answer = Answer {
            status: 204,
            headers: Vec::new(),
            body: String::new(),
        };
        self.answer(connection, &answer);
    }

    /// The generator fails before its body has begun: a status instead of the body.
    pub(super) fn answer_failure(&mut self, connection: u64, code: &str, message: &str) {
        if let Some(open) = self.connections.get_mut(&connection) {
            open.job = None;
        }
        self.answer(connection, &Answer::error(500, code, message));
    }
}

/// `paid` unless the request says otherwise, by a header or in its query.
fn tier_of(request: &Request) -> Tier {
    let tier = request.header("x-tier").or_else(|| request.query("tier"));
    match tier {
        Some("free") => Tier::Free,
        _ => Tier::Paid,
    }
}

fn max_tokens(request: &CompletionRequest) -> Result<Option<u64>, DialectError> {
    let options = request.options(0);
    let Some(value) = options.get("maxTokens") else {
        return Ok(None);
    };
    let tokens = value.as_u64().filter(|tokens| *tokens > 0);
    tokens.map(Some).ok_or_else(|| DialectError::Invalid {
        param: request.parameter_of("maxTokens").unwrap_or_default(),
        value: value.to_string(),
        limit: "an integer from 1".to_owned(),
    })
}

/// The text of a prompt, or of the last message.
fn prompt_of(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        Value::Array(messages) => messages.last().map(content_of).unwrap_or_default(),
        _ => String::new(),
    }
}

/// The text of a prompt, or of all messages.
fn context_of(input: &Value) -> String {
    match input {
        Value::Array(messages) => {
            let texts: Vec<String> = messages.iter().map(content_of).collect();
            texts.join(" ")
        }
        _ => prompt_of(input),
    }
}

fn content_of(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}

/// The prompt of a lab request: in its query, or in a JSON body.
fn lab_prompt(request: &Request) -> Result<String, DialectError> {
    if let Some(prompt) = request.query("prompt") {
        return Ok(prompt.to_owned());
    }
    if request.body.is_empty() {
        return Ok(String::new());
    }
    let body: Value =
        serde_json::from_slice(&request.body).map_err(|why| DialectError::NotJson {
            why: why.to_string(),
        })?;
    match body.get("prompt") {
        None => Ok(String::new()),
        Some(Value::String(prompt)) => Ok(prompt.clone()),
        Some(other) => Err(DialectError::Invalid {
            param: "prompt".to_owned(),
            value: other.to_string(),
            limit: "a string".to_owned(),
        }),
    }
}
