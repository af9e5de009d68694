//! Bounds on what a chat template may make the engine's stack hold.
//!
//! The engine parses, compiles, prints, compares and frees by recursion: over the syntax tree,
//! whose depth the source decides, and over values, whose depth the running template decides. A
//! module of WebAssembly has one MiB of stack, and running out of it cannot be caught. So the
//! source is read token by token before it is parsed: nesting and chains past the limits are
//! refused, and every place that can put a value into another (list, dict and tuple literals,
//! `set`) goes through a filter that refuses values nested too deep.

use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State};

use super::error::TemplateError;

/// Levels of blocks, where each `elif` counts as one: real templates have up to about ten.
const MAX_BLOCKS: usize = 40;
/// Levels of brackets: real templates have up to about six.
const MAX_BRACKETS: usize = 24;
/// Operators, attributes, calls and filters that one expression may nest or chain.
const MAX_CHAIN: usize = 160;
/// Slices and reversals in one tag: they are iterators over iterators until something reads
/// them.
const MAX_LAZY: usize = 8;
/// Levels of lists and dicts in values.
pub(super) const MAX_VALUE_DEPTH: usize = 64;

/// Filters that the source is given; no template can define one.
const LITERAL: &str = "__literal";
const SET_NAME: &str = "__set_name";
const SET_ATTRIBUTE: &str = "__set_attribute";
/// They nest values or iterators without a literal, and no chat template uses them.
const REMOVED_FILTERS: [&str; 5] = ["batch", "chain", "groupby", "slice", "zip"];

/// `source` with its literals and assignments checked at run time.
///
/// # Errors
/// [`TemplateError::TooDeep`] names what exceeds its limit.
pub(super) fn bound(source: &str, syntax: SyntaxConfig) -> Result<String, TemplateError> {
    let mut scan = Scan::default();
    for token in tokenize(source, false, syntax) {
        // The parser reports it better.
        let Ok((token, span)) = token else { break };
        scan.token(&token, span.start_offset as usize, span.end_offset as usize)
            .map_err(|(what, limit)| TemplateError::TooDeep {
                line: usize::from(span.start_line),
                what,
                limit,
            })?;
    }
    let mut out = String::with_capacity(source.len() + 32 * scan.insertions.len());
    let mut from = 0;
    // Stable: at one place, what was found first comes first.
    scan.insertions.sort_by_key(|(at, _)| *at);
    for (at, text) in scan.insertions {
        out.push_str(source.get(from..at).unwrap_or_default());
        out.push_str(&text);
        from = at;
    }
    out.push_str(source.get(from..).unwrap_or_default());
    Ok(out)
}

type Exceeded = (&'static str, usize);

/// What a bracket is.
#[derive(Clone, Copy, PartialEq)]
enum Bracket {
    /// A subscript, the arguments of a call, or the whole tag.
    Other,
    /// A list or dict.
    Literal,
    /// A group, or a tuple once there is a comma.
    Group { has_comma: bool },
}

struct Level {
    bracket: Bracket,
    start: usize,
    links: usize,
}

/// What came before, as far as the next token's meaning depends on it.
#[derive(Clone, Copy, Default, PartialEq)]
enum Before {
    #[default]
    Operator,
    Operand,
    Dot,
    Pipe,
}

#[derive(Default)]
struct Scan {
    blocks: Vec<(String, usize)>,
    /// Open brackets of the current tag, below them the tag itself.
    levels: Vec<Level>,
    before: Before,
    /// The word after `{%`, and whether the tag is about to name it.
    keyword: String,
    awaits_keyword: bool,
    /// In `set`: whether its target is an attribute, and where its value starts.
    target_has_dot: bool,
    value_start: Option<usize>,
    in_target: bool,
    /// Slices and reversals in this tag.
    lazy: usize,
    insertions: Vec<(usize, String)>,
}

impl Scan {
    fn token(&mut self, token: &Token<'_>, start: usize, end: usize) -> Result<(), Exceeded> {
        match token {
            Token::TemplateData(_) => return Ok(()),
            Token::VariableStart | Token::BlockStart => {
                self.open_tag(matches!(token, Token::BlockStart), end);
                return Ok(());
            }
            Token::VariableEnd => self.levels.clear(),
            Token::BlockEnd => return self.close_block_tag(start),
            Token::Ident(word) if self.awaits_keyword => {
                self.awaits_keyword = false;
                self.keyword = (*word).to_owned();
                self.in_target = matches!(*word, "set" | "for");
                return Ok(());
            }
            Token::Ident(word) => self.word(word)?,
            Token::BracketOpen | Token::BraceOpen | Token::ParenOpen => self.open(token, start)?,
            Token::BracketClose | Token::BraceClose | Token::ParenClose => self.close(end),
            Token::Comma => self.comma(),
            Token::Assign if self.in_target && self.levels.len() == 1 => {
                self.in_target = false;
                self.value_start = Some(end);
                self.before = Before::Operator;
            }
            Token::Str(_) | Token::String(_) => self.before = Before::Operand,
            Token::Int(_) | Token::Int128(_) | Token::Float(_) => self.before = Before::Operand,
            operator => {
                let opens = self.levels.get(1..).and_then(<[Level]>::last);
                if matches!(operator, Token::Colon)
                    && opens.is_some_and(|level| level.bracket == Bracket::Other)
                {
                    self.lazy()?;
                }
                self.target_has_dot |= self.in_target && matches!(operator, Token::Dot);
                self.before = match operator {
                    Token::Dot => Before::Dot,
                    Token::Pipe => Before::Pipe,
                    _ => Before::Operator,
                };
                self.link()?;
            }
        }
        Ok(())
    }

    fn open_tag(&mut self, is_block: bool, end: usize) {
        self.levels.clear();
        self.levels.push(Level {
            bracket: Bracket::Other,
            start: end,
            links: 0,
        });
        self.before = Before::Operator;
        self.keyword.clear();
        self.awaits_keyword = is_block;
        (self.in_target, self.target_has_dot) = (false, false);
        self.value_start = None;
        self.lazy = 0;
    }

    fn close_block_tag(&mut self, start: usize) -> Result<(), Exceeded> {
        self.levels.clear();
        let is_assignment = self.value_start.is_some();
        if let Some(from) = self.value_start.take() {
            let filter = if self.target_has_dot {
                SET_ATTRIBUTE
            } else {
                SET_NAME
            };
            self.insertions.push((from, "(".to_owned()));
            self.insertions.push((start, format!(")|{filter} ")));
        }
        let keyword = std::mem::take(&mut self.keyword);
        match &*keyword {
            "set" if is_assignment => {}
            "set" | "for" | "if" | "with" | "autoescape" | "filter" | "block" | "macro"
            | "call" => self.blocks.push((keyword, 1)),
            "elif" => {
                if let Some((_, levels)) = self.blocks.last_mut() {
                    *levels += 1;
                }
            }
            end => {
                // An end that does not fit is an error of syntax later on.
                let open = self.blocks.last().map(|(name, _)| &**name);
                if open.is_some() && end.strip_prefix("end") == open {
                    self.blocks.pop();
                }
            }
        }
        let levels: usize = self.blocks.iter().map(|(_, levels)| levels).sum();
        check(levels, MAX_BLOCKS, "blocks")
    }

    fn lazy(&mut self) -> Result<(), Exceeded> {
        self.lazy += 1;
        check(self.lazy, MAX_LAZY, "slices in one tag")
    }

    fn word(&mut self, word: &str) -> Result<(), Exceeded> {
        if self.before == Before::Pipe && word == "reverse" {
            self.lazy()?;
        }
        let is_name = matches!(self.before, Before::Dot | Before::Pipe);
        if self.keyword == "for" && word == "in" && self.in_target && self.levels.len() == 1 {
            self.in_target = false;
        }
        let is_operator = matches!(
            word,
            "and" | "or" | "not" | "in" | "is" | "if" | "else" | "recursive"
        );
        if is_operator && !is_name {
            self.before = Before::Operator;
            return self.link();
        }
        self.before = Before::Operand;
        Ok(())
    }

    fn link(&mut self) -> Result<(), Exceeded> {
        if let Some(level) = self.levels.last_mut() {
            level.links += 1;
        }
        let links: usize = self.levels.iter().map(|level| level.links).sum();
        check(links, MAX_CHAIN, "operators in one expression")
    }

    fn open(&mut self, token: &Token<'_>, start: usize) -> Result<(), Exceeded> {
        self.link()?;
        let is_value = self.before == Before::Operator && !self.in_target;
        let bracket = match token {
            Token::ParenOpen if is_value => Bracket::Group { has_comma: false },
            Token::BraceOpen => Bracket::Literal,
            Token::BracketOpen if is_value => Bracket::Literal,
            _ => Bracket::Other,
        };
        self.levels.push(Level {
            bracket,
            start,
            links: 0,
        });
        self.before = Before::Operator;
        check(self.levels.len() - 1, MAX_BRACKETS, "brackets")
    }

    fn close(&mut self, end: usize) {
        self.before = Before::Operand;
        // The tag itself stays: a bracket too many is an error of syntax later on.
        if self.levels.len() < 2 {
            return;
        }
        let Some(level) = self.levels.pop() else {
            return;
        };
        let makes_value = Bracket::Group { has_comma: true };
        if level.bracket == Bracket::Literal || level.bracket == makes_value {
            self.insertions.push((level.start, "(".to_owned()));
            self.insertions.push((end, format!("|{LITERAL})")));
        }
    }

    fn comma(&mut self) {
        self.before = Before::Operator;
        if let Some(level) = self.levels.last_mut() {
            level.links = 0;
            if let Bracket::Group { has_comma } = &mut level.bracket {
                *has_comma = true;
            }
        }
    }
}

fn check(found: usize, limit: usize, what: &'static str) -> Result<(), Exceeded> {
    if found > limit {
        return Err((what, limit));
    }
    Ok(())
}

/// Puts the filters that [`bound`] names into an environment; together they visit at most
/// `budget` values.
pub(super) fn install(environment: &mut Environment<'_>, budget: u64) {
    for name in REMOVED_FILTERS {
        environment.remove_filter(name);
    }
    let left = std::sync::Arc::new(AtomicU64::new(budget));
    let shared = left.clone();
    let check = move |value: Value| plain(&value, 0, &shared);
    environment.add_filter(LITERAL, check.clone());
    environment.add_filter(SET_ATTRIBUTE, check.clone());
    let any = check.clone();
    environment.add_filter(SET_NAME, move |value: Value| match value.kind() {
        // A namespace, a macro or a loop may be renamed; only what holds values is checked.
        ValueKind::Map if !is_plain_map(&value) => Ok(value),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => any(value),
        _ => Ok(value),
    });
    let arguments = move |values: &[Value]| -> Result<(), Error> {
        for value in values {
            plain(value, 0, &left)?;
        }
        Ok(())
    };
    for (name, function) in [
        (
            "namespace",
            Value::from_function(minijinja::functions::namespace),
        ),
        ("dict", Value::from_function(minijinja::functions::dict)),
    ] {
        let arguments = arguments.clone();
        environment.add_function(
            name,
            move |state: &mut State<'_, '_>, values: Rest<ValueOrKwargs>| {
                let values = values.into_values();
                arguments(&values)?;
                function.call(state, &values)
            },
        );
    }
}

/// Whether a map is one of data: a namespace could be put into itself.
fn is_plain_map(value: &Value) -> bool {
    // A type that is not known is refused, so a change in the engine cannot open this.
    let name = value.as_object().map_or("", |object| object.type_name());
    ["IndexMap<", "BTreeMap<", "MergeDict", "KwargsValues"]
        .iter()
        .any(|plain| name.contains(plain))
}

/// `value` where it is data of bounded depth; iterators in it become lists.
fn plain(value: &Value, depth: usize, left: &AtomicU64) -> Result<Value, Error> {
    Ok(changed(value, depth, left)?.unwrap_or_else(|| value.clone()))
}

/// What `value` must become, `None` where it may stay.
fn changed(value: &Value, depth: usize, left: &AtomicU64) -> Result<Option<Value>, Error> {
    let refuse = |reason: String| Error::new(ErrorKind::InvalidOperation, reason);
    let spent = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    spent.map_err(|_| Error::from(ErrorKind::OutOfFuel))?;
    if depth > MAX_VALUE_DEPTH {
        let levels = format!("values nest at most {MAX_VALUE_DEPTH} levels deep");
        return Err(refuse(levels));
    }
    let kind = value.kind();
    match kind {
        ValueKind::Seq | ValueKind::Iterable => {
            let mut is_new = kind == ValueKind::Iterable;
            let mut items = Vec::new();
            for item in value.try_iter()? {
                let new = changed(&item, depth + 1, left)?;
                is_new |= new.is_some();
                items.push(new.unwrap_or(item));
            }
            Ok(is_new.then(|| items.into()))
        }
        ValueKind::Map if is_plain_map(value) => {
            let mut is_new = false;
            let mut pairs = Vec::new();
            for key in value.try_iter()? {
                let item = value.get_item(&key)?;
                let new = changed(&item, depth + 1, left)?;
                is_new |= new.is_some();
                pairs.push((key, new.unwrap_or(item)));
            }
            Ok(is_new.then(|| pairs.into_iter().collect()))
        }
        ValueKind::Map | ValueKind::Plain => Err(refuse(format!(
            "a {kind} cannot be put into a list, a dict or an attribute"
        ))),
        _ => Ok(None),
    }
}
