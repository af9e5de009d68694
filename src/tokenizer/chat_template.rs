//! The chat template of a file: messages to a prompt, as Hugging Face renders it.
//!
//! The template comes with the model and is not trusted: its work, memory, output and recursion
//! are bounded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind};
use serde::{Deserialize, Serialize};

use super::error::TemplateError;
use super::guard::{self, Guard, Segment};
use super::json;
use super::strftime::{Now, strftime};
use super::template_bounds;
use super::tokens::Tokenizer;

const NAME: &str = "chat_template";
/// Real templates have 1 to 30 kB.
const MAX_SOURCE_BYTES: usize = 128 << 10;
/// Templates recurse into macros a few levels; each level costs stack.
const MAX_RECURSION: usize = 64;
/// Work that any template may do, and more for what it is given: a step, or 64 bytes written,
/// costs one. Real templates copy each byte about five times; this allows 32.
const BASE_FUEL: u64 = 250_000;
const BYTES_PER_FUEL: u64 = 2;
/// Values that checks of depth may visit, for each unit of fuel.
const VISITS_PER_FUEL: u64 = 2;
const BASE_OUTPUT_BYTES: usize = 1 << 20;
const OUTPUT_PER_BYTE: usize = 16;

/// One message of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who speaks, such as `system`, `user` or `assistant`.
    pub role: String,
    /// What is said; may be absent beside calls of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Calls of tools: `[{ id, type: "function", function: { name, arguments } }]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<serde_json::Value>,
    /// Which call a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Name of the speaker or the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ChatMessage {
    fn to_value(&self) -> Value {
        let content = self.content.as_deref().map_or(Value::from(()), Value::from);
        let mut pairs = vec![("role", Value::from(&*self.role)), ("content", content)];
        pairs.extend(
            self.tool_calls
                .iter()
                .map(|c| ("tool_calls", json::to_value(c))),
        );
        let id = self.tool_call_id.as_deref();
        pairs.extend(id.map(|id| ("tool_call_id", Value::from(id))));
        let name = self.name.as_deref();
        pairs.extend(name.map(|name| ("name", Value::from(name))));
        Value::from_pairs(pairs)
    }

    /// All texts but the role.
    fn texts<'a>(&'a self, texts: &mut Vec<&'a str>) {
        let fields = [&self.content, &self.tool_call_id, &self.name];
        texts.extend(fields.into_iter().flatten().map(String::as_str));
        if let Some(calls) = &self.tool_calls {
            guard::strings(calls, texts);
        }
    }

    fn changed(&self, change: &dyn Fn(&str) -> String) -> Self {
        Self {
            role: self.role.clone(),
            content: self.content.as_deref().map(change),
            tool_calls: self
                .tool_calls
                .as_ref()
                .map(|c| guard::map_strings(c, change)),
            tool_call_id: self.tool_call_id.as_deref().map(change),
            name: self.name.as_deref().map(change),
        }
    }
}

/// What a template is given besides the messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateOptions {
    /// Whether the prompt ends with the start of the assistant's answer.
    pub add_generation_prompt: bool,
    /// Further variables, such as `tools` or `enable_thinking`.
    pub variables: serde_json::Map<String, serde_json::Value>,
    /// The moment that `strftime_now` shows.
    pub now: Now,
}

/// A compiled chat template.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    bos_token: String,
    eos_token: String,
}

impl ChatTemplate {
    /// Compiles `source`; the tokens are what it sees as `bos_token` and `eos_token`.
    ///
    /// # Errors
    /// [`TemplateError::TooLong`], [`TemplateError::TooDeep`] or [`TemplateError::Syntax`].
    pub fn new(source: &str, bos_token: &str, eos_token: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE_BYTES {
            let (bytes, limit) = (source.len(), MAX_SOURCE_BYTES);
            return Err(TemplateError::TooLong { bytes, limit });
        }
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        let syntax = syntax.map_err(|error| syntax_error(&error))?;
        let bounded = template_bounds::bound(&without_generation_blocks(source), syntax.clone())?;
        environment.set_syntax(syntax);
        environment.set_recursion_limit(MAX_RECURSION);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", json::tojson);
        environment.add_function("raise_exception", raise_exception);
        // Compiling looks the filters up; each rendering has a budget of its own.
        template_bounds::install(&mut environment, 0);
        environment
            .add_template_owned(NAME, bounded)
            .map_err(|error| syntax_error(&error))?;
        Ok(Self {
            environment,
            source: source.to_owned(),
            bos_token: bos_token.to_owned(),
            eos_token: eos_token.to_owned(),
        })
    }

    /// The template as it was given.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The prompt for `messages`. Encode the result of [`ChatTemplate::render_segments`]
    /// instead where messages come from users.
    ///
    /// # Errors
    /// [`TemplateError::Raised`] when the template refuses the messages; otherwise what failed
    /// and in which line, or which limit was exceeded.
    pub fn render(
        &self,
        messages: &[ChatMessage],
        options: &TemplateOptions,
    ) -> Result<String, TemplateError> {
        check_roles(messages)?;
        check_variables(options)?;
        let given = given_bytes(messages, options);
        let fuel = BASE_FUEL.saturating_add(given as u64 / BYTES_PER_FUEL);
        let limit = BASE_OUTPUT_BYTES.saturating_add(OUTPUT_PER_BYTE.saturating_mul(given));
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel));
        template_bounds::install(&mut environment, fuel.saturating_mul(VISITS_PER_FUEL));
        let now = options.now;
        environment.add_function("strftime_now", move |format: &str| {
            strftime(format, now).map_err(carry)
        });
        let mut out = Limited {
            bytes: Vec::new(),
            limit,
        };
        environment
            .get_template(NAME)
            .and_then(|template| {
                template
                    .render_captured_to(self.context(messages, options), &mut out)
                    .map(drop)
            })
            .map_err(|error| render_error(&error, fuel, limit))?;
        Ok(String::from_utf8_lossy(&out.bytes).into_owned())
    }

    /// The prompt for `messages`, in parts that say where control tokens may be found.
    ///
    /// All parts together are what [`ChatTemplate::render`] gives, unless the template itself
    /// treats the name of a control token in a message differently: it then sees other
    /// characters in its place. No control token starts or ends in contents or in the strings of
    /// `options.variables`; roles may be inside one, since templates build `<|user|>` from them.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`], and [`TemplateError::NoFreeCharacters`].
    pub fn render_segments(
        &self,
        messages: &[ChatMessage],
        options: &TemplateOptions,
        tokenizer: &Tokenizer,
    ) -> Result<Vec<Segment>, TemplateError> {
        // Refuses what nests too deep before anything else walks it.
        let plain = self.render(messages, options)?;
        let edges = guard::edges(tokenizer.control_texts());
        let mut texts = Vec::new();
        messages
            .iter()
            .for_each(|message| message.texts(&mut texts));
        options
            .variables
            .values()
            .for_each(|value| guard::strings(value, &mut texts));
        if !texts
            .iter()
            .any(|text| text.chars().any(|c| edges.contains(&c)))
        {
            return Ok(vec![Segment {
                text: plain,
                special: true,
            }]);
        }
        texts.extend([&*plain, &*self.source]);
        let guard = Guard::new(&edges, tokenizer.control_texts(), &texts)?;

        let strict = self.render_changed(messages, options, &|text| guard.replace_all(text));
        if let Ok(strict) = strict
            && guard.restore(&strict) == plain
        {
            return Ok(guard.segments(&strict));
        }
        // The template looks for something in the content, such as `</think>`: leave it that.
        let literals = guard.literals(&self.source);
        let change = |text: &str| guard.replace_outside(text, &literals);
        Ok(guard.segments(&self.render_changed(messages, options, &change)?))
    }

    fn render_changed(
        &self,
        messages: &[ChatMessage],
        options: &TemplateOptions,
        change: &dyn Fn(&str) -> String,
    ) -> Result<String, TemplateError> {
        let messages: Vec<_> = messages
            .iter()
            .map(|message| message.changed(change))
            .collect();
        let variables = options
            .variables
            .iter()
            .map(|(name, value)| (name.clone(), guard::map_strings(value, change)))
            .collect();
        self.render(
            &messages,
            &TemplateOptions {
                variables,
                ..options.clone()
            },
        )
    }

    fn context(&self, messages: &[ChatMessage], options: &TemplateOptions) -> Value {
        // Hugging Face always defines the first four, so that `tools is not none` works.
        let mut context = BTreeMap::from([
            ("tools", Value::from(())),
            ("documents", Value::from(())),
            ("bos_token", Value::from(&*self.bos_token)),
            ("eos_token", Value::from(&*self.eos_token)),
        ]);
        for (name, value) in &options.variables {
            context.insert(name, json::to_value(value));
        }
        context.insert(
            "messages",
            messages.iter().map(ChatMessage::to_value).collect(),
        );
        context.insert(
            "add_generation_prompt",
            Value::from(options.add_generation_prompt),
        );
        Value::from_pairs(context)
    }
}

/// Refuses roles that could be more than a name.
fn check_roles(messages: &[ChatMessage]) -> Result<(), TemplateError> {
    for (index, message) in messages.iter().enumerate() {
        let role = &message.role;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if role.is_empty() || role.len() > 64 || !role.chars().all(is_name) {
            let role = role.chars().take(64).collect();
            return Err(TemplateError::InvalidRole { index, role });
        }
    }
    Ok(())
}

/// Refuses variables deeper than what templates may build.
fn check_variables(options: &TemplateOptions) -> Result<(), TemplateError> {
    let limit = template_bounds::MAX_VALUE_DEPTH;
    for (name, value) in &options.variables {
        if guard::nests_deeper(value, limit) {
            let name = name.clone();
            return Err(TemplateError::VariableTooDeep { name, limit });
        }
    }
    Ok(())
}

/// Bytes that the template is given, and so may need to copy.
fn given_bytes(messages: &[ChatMessage], options: &TemplateOptions) -> usize {
    let mut texts = Vec::new();
    messages
        .iter()
        .for_each(|message| message.texts(&mut texts));
    options
        .variables
        .values()
        .for_each(|value| guard::strings(value, &mut texts));
    // A message costs some steps even when it is empty.
    messages.len() * 256 + texts.iter().map(|text| text.len() + 256).sum::<usize>()
}

/// `{% generation %}` marks the assistant's tokens for training and writes nothing: it becomes
/// an `if` that is always true, with the same blanks around it.
fn without_generation_blocks(source: &str) -> Cow<'_, str> {
    if !source.contains("generation") {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        // The sign that opens a tag does not close it: `{%}` has no end.
        let Some(length) = tag[2..].find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(length + 4);
        let name =
            tag[2..2 + length].trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        match name {
            "generation" => out.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => out.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(carry(TemplateError::Raised { message }))
}

/// Takes one of our errors through the engine, to be found again by [`render_error`].
fn carry(error: TemplateError) -> Error {
    Error::new(ErrorKind::InvalidOperation, error.to_string()).with_source(error)
}

fn reason(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

fn syntax_error(error: &Error) -> TemplateError {
    TemplateError::Syntax {
        line: error.line().unwrap_or(0),
        reason: reason(error),
    }
}

fn render_error(error: &Error, fuel: u64, limit: usize) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(ours) = inner.downcast_ref::<TemplateError>() {
            return ours.clone();
        }
        match inner.downcast_ref::<Error>().map(Error::kind) {
            Some(ErrorKind::OutOfFuel) => return TemplateError::OutOfFuel { fuel },
            Some(ErrorKind::WriteFailure) => return TemplateError::OutputTooLong { limit },
            _ => cause = inner.source(),
        }
    }
    TemplateError::Render {
        line: error.line().unwrap_or(0),
        reason: reason(error),
    }
}

/// A buffer that refuses to grow past its limit.
struct Limited {
    bytes: Vec<u8>,
    limit: usize,
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            return Err(io::Error::other("the output limit is reached"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
