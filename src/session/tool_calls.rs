//! Tool calls in the text of an answer, found while it streams.
//!
//! Text outside of calls passes at once, as far as it cannot begin a call. A call is held back
//! until it is complete and names a known tool; what turns out to be none becomes text again.

use std::ops::Range;

use serde::Serialize;
use serde_json::Value;

use super::random::uniform;

/// Openings that may turn out to be none before the rest of an answer is taken as text: each
/// costs another look at what follows it.
const MAX_FALSE_OPENINGS: usize = 64;

/// Characters of an id, as Mistral's templates want them.
const ID_LENGTH: u64 = 9;
const ID_ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// How a model writes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen, SmolLM3.
    Hermes,
    /// `{"name": …, "parameters": {…}}` as the answer, or behind `<|python_tag|>`: Llama 3.
    Llama,
    /// `[TOOL_CALLS] [{"name": …, "arguments": {…}}]`: Mistral.
    Mistral,
    /// `{"name": …, "parameters": {…}}` as the answer, or in a fenced block: Gemma, and models
    /// that were not told of a form of their own.
    Fenced,
}

impl ToolFormat {
    /// The format that a chat template writes.
    #[must_use]
    pub fn of_template(source: &str) -> Self {
        if source.contains("<tool_call>") {
            Self::Hermes
        } else if source.contains("[TOOL_CALLS]") {
            Self::Mistral
        } else if source.contains("<|python_tag|>") || source.contains("<|start_header_id|>") {
            Self::Llama
        } else {
            Self::Fenced
        }
    }

    /// What opens calls, with what closes each.
    fn markers(self) -> &'static [(&'static str, Option<&'static str>)] {
        match self {
            Self::Hermes => &[("<tool_call>", Some("</tool_call>"))],
            Self::Llama => &[("<|python_tag|>", None)],
            Self::Mistral => &[("[TOOL_CALLS]", None)],
            Self::Fenced => &[
                ("```tool_code", Some("```")),
                ("```tool_call", Some("```")),
                ("```json", Some("```")),
            ],
        }
    }

    /// Whether an answer may be a call without a marker.
    fn is_bare(self) -> bool {
        matches!(self, Self::Llama | Self::Fenced)
    }

    fn has_lists(self) -> bool {
        matches!(self, Self::Mistral | Self::Fenced)
    }

    /// Whether a control token's text is part of the format.
    pub(super) fn is_marker(self, text: &[u8]) -> bool {
        let mut markers = self.markers().iter();
        markers.any(|(open, close)| {
            open.as_bytes() == text || close.is_some_and(|close| close.as_bytes() == text)
        })
    }
}

/// A part of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallDelta {
    /// Which call of the answer, from 0.
    pub index: usize,
    /// What the tool's answer refers to.
    pub id: String,
    /// The tool, in the first part of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What this part adds to the arguments, a JSON object.
    pub arguments_delta: String,
}

/// What a piece of text led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) text: String,
    pub(super) calls: Vec<ToolCallDelta>,
}

/// Separates text from calls.
#[derive(Clone, Debug)]
pub(super) struct ToolParser {
    format: ToolFormat,
    names: Vec<String>,
    /// Makes ids differ between answers.
    seed: u64,
    calls: usize,
    false_openings: usize,
    /// What is not decided yet.
    held: String,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// `fresh`: only whitespace came since the answer's start or the last call.
    Text {
        fresh: bool,
    },
    Call(Opening),
}

/// What may be a call, and how far the search for its end has come.
#[derive(Clone, Copy, Debug)]
struct Opening {
    /// Bytes of the held text up to the end of the marker.
    length: usize,
    /// What must follow the value.
    close: Option<&'static str>,
    /// Begins with the value itself.
    is_bare: bool,
    /// Where the value begins, once it has.
    start: Option<usize>,
    /// Where it ends, once it is complete and names known tools.
    end: Option<usize>,
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Opening {
    fn new(length: usize, close: Option<&'static str>, is_bare: bool) -> Self {
        Self {
            length,
            close,
            is_bare,
            start: None,
            end: None,
            at: length,
            depth: 0,
            in_string: false,
            escaped: false,
        }
    }

    /// Goes on to the end of the value and returns it; brackets may be of different kinds, which
    /// the reading of the value refuses.
    fn scan(&mut self, held: &[u8]) -> Option<usize> {
        while let Some(&byte) = held.get(self.at) {
            self.at += 1;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' | b'[' if !self.in_string => self.depth += 1,
                b'}' | b']' if !self.in_string => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(self.at);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

impl ToolParser {
    pub(super) fn new(format: ToolFormat, names: Vec<String>, seed: u64) -> Self {
        Self {
            format,
            names,
            seed,
            calls: 0,
            false_openings: 0,
            held: String::new(),
            state: State::Text { fresh: true },
        }
    }

    /// Calls that are complete.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    pub(super) fn is_marker(&self, text: &[u8]) -> bool {
        self.format.is_marker(text)
    }

    /// Takes a piece of the answer.
    pub(super) fn push(&mut self, piece: &str) -> Parsed {
        self.held.push_str(piece);
        self.run(false)
    }

    /// Gives what was held back, at the end of the answer.
    pub(super) fn finish(&mut self) -> Parsed {
        self.run(true)
    }

    fn run(&mut self, is_last: bool) -> Parsed {
        let mut out = Parsed::default();
        while self.step(is_last, &mut out) {}
        out
    }

    /// Decides about some of the held text; false when more is needed.
    fn step(&mut self, is_last: bool, out: &mut Parsed) -> bool {
        match self.state {
            _ if self.held.is_empty() => false,
            _ if self.false_openings > MAX_FALSE_OPENINGS => {
                out.text.push_str(&std::mem::take(&mut self.held));
                false
            }
            State::Text { fresh } => self.text(fresh, is_last, out),
            State::Call(opening) => self.call(opening, is_last, out),
        }
    }

    fn text(&mut self, fresh: bool, is_last: bool, out: &mut Parsed) -> bool {
        let blank = if fresh { self.blank() } else { 0 };
        if blank == self.held.len() {
            if is_last {
                let held = std::mem::take(&mut self.held);
                out.text.push_str(if self.calls == 0 { &held } else { "" });
            }
            return false;
        }
        if fresh && self.format.is_bare() && self.held[blank..].starts_with('{') {
            self.state = State::Call(Opening::new(blank, None, true));
            return true;
        }
        let markers = self.format.markers().iter();
        let first = markers
            .filter_map(|(open, close)| Some((self.held.find(open)?, open.len(), *close)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, length, close)) = first else {
            let end = if is_last {
                self.held.len()
            } else {
                self.possible_marker()
            };
            // Blanks before what may become a marker wait with it.
            return if end <= blank {
                false
            } else {
                self.emit(end, out)
            };
        };
        let before = if at > blank { at } else { 0 };
        if before > 0 {
            self.emit(before, out);
        }
        self.state = State::Call(Opening::new(at - before + length, close, false));
        true
    }

    /// Bytes of whitespace, and of what Llama separates calls with, at the start.
    fn blank(&self) -> usize {
        let separates = |c: char| self.calls > 0 && self.format == ToolFormat::Llama && c == ';';
        let rest = self
            .held
            .trim_start_matches(|c: char| c.is_whitespace() || separates(c));
        self.held.len() - rest.len()
    }

    /// Where the longest tail begins that some marker starts with.
    fn possible_marker(&self) -> usize {
        let markers = self.format.markers();
        let longest = markers.iter().map(|(open, _)| open.len()).max();
        let from = self.held.len().saturating_sub(longest.unwrap_or(0));
        (from..self.held.len())
            .filter(|&at| self.held.is_char_boundary(at))
            .find(|&at| {
                let tail = &self.held[at..];
                markers.iter().any(|(open, _)| open.starts_with(tail))
            })
            .unwrap_or(self.held.len())
    }

    /// Shows the first `end` bytes.
    fn emit(&mut self, end: usize, out: &mut Parsed) -> bool {
        let rest = self.held.split_off(end);
        out.text.push_str(&std::mem::replace(&mut self.held, rest));
        self.state = State::Text { fresh: false };
        true
    }

    /// What opened is no call: shows the opening and looks on behind it.
    fn give_back(&mut self, opening: Opening, out: &mut Parsed) -> bool {
        self.false_openings += 1;
        self.emit(opening.length + usize::from(opening.is_bare), out)
    }

    fn call(&mut self, mut opening: Opening, is_last: bool, out: &mut Parsed) -> bool {
        if opening.start.is_none() {
            let rest = self.held[opening.length..].trim_start();
            match rest.chars().next() {
                None if !is_last => return false,
                Some('{') => {}
                Some('[') if self.format.has_lists() => {}
                _ => return self.give_back(opening, out),
            }
            opening.at = self.held.len() - rest.len();
            opening.start = Some(opening.at);
        }
        let start = opening.start.unwrap_or(opening.at);
        if opening.end.is_none() {
            opening.end = opening.scan(self.held.as_bytes());
            match opening.end {
                Some(end) if self.read(&self.held[start..end]).is_some() => {}
                None if !is_last => {
                    self.state = State::Call(opening);
                    return false;
                }
                _ => return self.give_back(opening, out),
            }
        }
        let end = opening.end.unwrap_or(opening.at);
        let mut behind = end;
        if let Some(close) = opening.close {
            let rest = self.held[end..].trim_start();
            if rest.starts_with(close) {
                behind = self.held.len() - rest.len() + close.len();
            } else if !close.starts_with(rest) {
                return self.give_back(opening, out);
            } else if !is_last {
                self.state = State::Call(opening);
                return false;
            } else {
                // An answer may end before the closing marker, or within it.
                behind = self.held.len();
            }
        }
        self.take(start..end, behind, out)
    }

    /// Makes calls of a value and drops all up to `behind`.
    fn take(&mut self, value: Range<usize>, behind: usize, out: &mut Parsed) -> bool {
        for (name, arguments) in self.read(&self.held[value]).unwrap_or_default() {
            out.calls.push(ToolCallDelta {
                index: self.calls,
                id: self.id(self.calls),
                name: Some(name),
                arguments_delta: arguments,
            });
            self.calls += 1;
        }
        self.held.drain(..behind);
        self.state = State::Text { fresh: true };
        true
    }

    /// Names and arguments of the calls that a value holds; `None` unless all of it is calls.
    fn read(&self, text: &str) -> Option<Vec<(String, String)>> {
        let calls = match serde_json::from_str(text).ok()? {
            Value::Array(calls) if self.format.has_lists() && !calls.is_empty() => calls,
            call => vec![call],
        };
        calls.iter().map(|call| self.read_call(call)).collect()
    }

    fn read_call(&self, call: &Value) -> Option<(String, String)> {
        let call = call
            .get("function")
            .filter(|f| f.is_object())
            .unwrap_or(call);
        let name = call.get("name")?.as_str()?;
        if !self.names.iter().any(|known| known == name) {
            return None;
        }
        let arguments = call.get("arguments").or_else(|| call.get("parameters"));
        let arguments = match arguments {
            None | Some(Value::Null) => "{}".to_owned(),
            Some(Value::Object(object)) => serde_json::to_string(object).ok()?,
            // Some write the object as OpenAI does, as JSON within a string.
            Some(Value::String(text)) => {
                let object: serde_json::Map<String, Value> = serde_json::from_str(text).ok()?;
                serde_json::to_string(&object).ok()?
            }
            Some(_) => return None,
        };
        Some((name.to_owned(), arguments))
    }

    fn id(&self, call: usize) -> String {
        let first = ID_LENGTH.saturating_mul(call as u64);
        let digit = |at: u64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number from 0 to below 62"
            )]
            let index = (uniform(self.seed, first + at) * ID_ALPHABET.len() as f64) as usize;
            char::from(*ID_ALPHABET.get(index).unwrap_or(&b'0'))
        };
        (0..ID_LENGTH).map(digit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text and calls of an answer that comes in `pieces`.
    fn parse(format: ToolFormat, pieces: &[&str]) -> (String, Vec<(String, String)>) {
        let names = ["weather", "now"].map(str::to_owned).to_vec();
        let mut parser = ToolParser::new(format, names, 7);
        let mut parts: Vec<_> = pieces.iter().map(|piece| parser.push(piece)).collect();
        parts.push(parser.finish());
        let text = parts.iter().map(|part| part.text.as_str()).collect();
        let calls: Vec<_> = parts.into_iter().flat_map(|part| part.calls).collect();
        assert_eq!(calls.len(), parser.calls());
        for (index, call) in calls.iter().enumerate() {
            assert_eq!(call.index, index);
        }
        let calls = calls.into_iter();
        let calls = calls.map(|call| (call.name.unwrap_or_default(), call.arguments_delta));
        (text, calls.collect())
    }

    /// Checks an answer in one piece, in single characters and cut at every two places.
    fn assert_parses(format: ToolFormat, answer: &str, text: &str, calls: &[(&str, &str)]) {
        let calls: Vec<_> = calls
            .iter()
            .map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned()))
            .collect();
        let want = (text.to_owned(), calls);
        assert_eq!(parse(format, &[answer]), want, "{answer:?}");
        let characters: Vec<_> = answer.split("").collect();
        assert_eq!(parse(format, &characters), want, "{answer:?} by characters");
        let cuts = || (0..=answer.len()).filter(|&at| answer.is_char_boundary(at));
        for first in cuts() {
            for second in cuts().filter(|&second| second >= first) {
                let pieces = [&answer[..first], &answer[first..second], &answer[second..]];
                assert_eq!(parse(format, &pieces), want, "{pieces:?}");
            }
        }
    }

    const CITY: (&str, &str) = ("weather", "{\"city\":\"Zürich }\\\" {\",\"n\":[1.0,{}]}");
    const NOW: (&str, &str) = ("now", "{}");
    const CITY_JSON: &str = r#"{"city": "Zürich }\" {", "n": [1.0, {}]}"#;

    #[test]
    fn hermes_calls_come_out_of_their_tags_however_the_text_is_cut() {
        let call = format!(
            "Let me see.\n<tool_call>\n{{\"name\": \"weather\", \"arguments\": {CITY_JSON}}}\n\
             </tool_call>\n<tool_call>{{\"name\":\"now\"}}</tool_call>\n"
        );
        assert_parses(ToolFormat::Hermes, &call, "Let me see.\n", &[CITY, NOW]);
        let open = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool";
        assert_parses(ToolFormat::Hermes, open, "", &[NOW]);
        let behind = "<tool_call>{\"name\":\"now\"}</tool_call>\n done";
        assert_parses(ToolFormat::Hermes, behind, "\n done", &[NOW]);
        let quoted = r#"<tool_call>{"name":"now","arguments":"{ }"}</tool_call>"#;
        assert_parses(ToolFormat::Hermes, quoted, "", &[NOW]);
    }

    #[test]
    fn llama_calls_are_the_answer_itself_or_follow_the_tag() {
        let call = format!("\n{{\"name\": \"weather\", \"parameters\": {CITY_JSON}}}");
        assert_parses(ToolFormat::Llama, &call, "", &[CITY]);
        let tagged = format!("Well: <|python_tag|>{call};{{\"name\":\"now\"}}");
        assert_parses(ToolFormat::Llama, &tagged, "Well: ", &[CITY, NOW]);
        let wrapped = r#"{"type": "function", "function": {"name": "now"}}"#;
        assert_parses(ToolFormat::Llama, wrapped, "", &[NOW]);
        // In the middle of a text it is an example.
        let example = r#"Such as {"name":"now"}"#;
        assert_parses(ToolFormat::Llama, example, example, &[]);
    }

    #[test]
    fn mistral_calls_come_as_a_list() {
        let call = format!(
            "Yes[TOOL_CALLS] [{{\"name\": \"weather\", \"arguments\": {CITY_JSON}}}, \
             {{\"name\": \"now\", \"arguments\": {{}}}}]"
        );
        assert_parses(ToolFormat::Mistral, &call, "Yes", &[CITY, NOW]);
        let bare = r#"[TOOL_CALLS]{"name":"now"}"#;
        assert_parses(ToolFormat::Mistral, bare, "", &[NOW]);
    }

    #[test]
    fn gemma_calls_are_the_answer_itself_or_in_a_fenced_block() {
        let fenced = format!(
            "Ok.\n```tool_code\n{{\"name\": \"weather\", \"parameters\": {CITY_JSON}}}\n```"
        );
        assert_parses(ToolFormat::Fenced, &fenced, "Ok.\n", &[CITY]);
        let json = "```json\n[{\"name\":\"now\"},{\"name\":\"now\"}]\n```\n";
        assert_parses(ToolFormat::Fenced, json, "", &[NOW, NOW]);
        assert_parses(ToolFormat::Fenced, r#" {"name":"now"}"#, "", &[NOW]);
    }

    #[test]
    fn what_is_no_call_stays_text_to_the_last_byte() {
        for (format, answers) in [
            (
                ToolFormat::Hermes,
                &[
                    "",
                    " \n",
                    "\n<tool",
                    "<tool_call>",
                    "<tool_call>now()</tool_call>",
                    "<tool_call>{\"name\":\"unknown\"}</tool_call>",
                    "<tool_call>{\"name\":\"now\"",
                    "<tool_call>{\"name\":\"now\"} or so",
                    "<tool_call>{\"name\":\"now\",\"arguments\":[1]}</tool_call>",
                    "<tool_call>{\"name\":\"now\"]</tool_call>ü",
                    "<tool_call><tool_call><<tool_call>{",
                ][..],
            ),
            (
                ToolFormat::Llama,
                &[
                    "{}",
                    " {\"a\": 1}; {",
                    "<|python_tag|>print(1)",
                    "{{\"name\":\"now\"}",
                ][..],
            ),
            (
                ToolFormat::Mistral,
                &[
                    "[TOOL_CALLS]",
                    "[TOOL_CALLS][]",
                    "[TOOL_CALLS] [{\"name\":\"now\"}",
                ][..],
            ),
            (
                ToolFormat::Fenced,
                &[
                    "```json\n{\"a\": 1}\n```",
                    "```tool_code\nnow()\n```",
                    "[1]",
                ][..],
            ),
        ] {
            for answer in answers {
                assert_parses(format, answer, answer, &[]);
            }
        }
    }

    #[test]
    fn a_call_behind_a_false_opening_is_found() {
        let answer = "<tool_call>oh<tool_call>{\"name\":\"now\"}</tool_call>";
        assert_parses(ToolFormat::Hermes, answer, "<tool_call>oh", &[NOW]);
    }

    #[test]
    fn false_openings_without_end_cost_a_bounded_time() {
        let answer = "<tool_call>{".repeat(100_000);
        let (text, calls) = parse(ToolFormat::Hermes, &[&answer]);
        assert!(text == answer && calls.is_empty());
    }

    #[test]
    fn text_passes_as_soon_as_it_cannot_begin_a_call() {
        let mut parser = ToolParser::new(ToolFormat::Hermes, vec!["now".to_owned()], 0);
        let mut shown = |piece: &str| parser.push(piece).text;
        assert_eq!(shown("a <tool"), "a ");
        assert_eq!(shown("box"), "<toolbox");
        assert_eq!(shown("<tool_call>{\"name\""), "");
        assert_eq!(shown(" 7"), "");
        assert_eq!(shown("}"), "<tool_call>{\"name\" 7}");
    }

    #[test]
    fn ids_are_nine_letters_and_digits_that_differ() {
        let parser = |seed| ToolParser::new(ToolFormat::Hermes, Vec::new(), seed);
        let ids = [parser(1).id(0), parser(1).id(1), parser(2).id(0)];
        assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
        for id in ids {
            assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()));
        }
    }

    #[test]
    fn formats_are_told_by_the_template() {
        for (source, format) in [
            ("... <tool_call>\n ...", ToolFormat::Hermes),
            ("{{ '[TOOL_CALLS] [' }}", ToolFormat::Mistral),
            ("<|start_header_id|>", ToolFormat::Llama),
            ("<start_of_turn>", ToolFormat::Fenced),
        ] {
            assert_eq!(ToolFormat::of_template(source), format);
        }
    }
}
