//! The syntax of JSON (RFC 8259), checked character by character.

/// Levels that are followed: as far as `serde_json` reads.
const MAX_DEPTH: usize = 120;

/// What a character is to the text that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Char {
    /// Whitespace between the parts.
    Blank,
    /// The end of a key.
    KeyEnd,
    /// The end of a string that is a value.
    StringEnd,
    /// Anything else.
    Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    None,
    String,
    Escape,
    /// Hexadecimal digits that are still to come.
    Hex(u8),
    /// What is left of a word.
    Word(&'static str),
    Number(Number),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Number {
    fn is_complete(self) -> bool {
        matches!(
            self,
            Self::Zero | Self::Integer | Self::Fraction | Self::Exponent
        )
    }

    fn next(self, c: char) -> Option<Self> {
        match (self, c) {
            (Self::Minus, '0') => Some(Self::Zero),
            (Self::Minus, '1'..='9') | (Self::Integer, '0'..='9') => Some(Self::Integer),
            (Self::Zero | Self::Integer, '.') => Some(Self::Point),
            (Self::Point | Self::Fraction, '0'..='9') => Some(Self::Fraction),
            (Self::Zero | Self::Integer | Self::Fraction, 'e' | 'E') => Some(Self::E),
            (Self::E, '+' | '-') => Some(Self::Sign),
            (Self::E | Self::Sign | Self::Exponent, '0'..='9') => Some(Self::Exponent),
            _ => None,
        }
    }
}

/// A JSON text so far.
#[derive(Clone, Debug)]
pub(super) struct JsonSyntax {
    /// For each open bracket whether it is an object's.
    open: Vec<bool>,
    expect: Expect,
    token: Token,
    is_key: bool,
}

impl JsonSyntax {
    pub(super) fn new() -> Self {
        Self {
            open: Vec::new(),
            expect: Expect::Value,
            token: Token::None,
            is_key: false,
        }
    }

    /// Open brackets.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Takes a character; `None` where no JSON text goes on with it.
    pub(super) fn push(&mut self, c: char) -> Option<Char> {
        match self.token {
            Token::None => self.between(c),
            Token::String => self.in_string(c),
            Token::Escape => {
                self.token = match c {
                    'u' => Token::Hex(4),
                    '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => Token::String,
                    _ => return None,
                };
                Some(Char::Part)
            }
            Token::Hex(left) => {
                self.token = if left == 1 {
                    Token::String
                } else {
                    Token::Hex(left - 1)
                };
                c.is_ascii_hexdigit().then_some(Char::Part)
            }
            Token::Word(rest) => {
                let rest = rest.strip_prefix(c)?;
                self.token = if rest.is_empty() {
                    Token::None
                } else {
                    Token::Word(rest)
                };
                Some(Char::Part)
            }
            Token::Number(number) => match number.next(c) {
                Some(next) => {
                    self.token = Token::Number(next);
                    Some(Char::Part)
                }
                None if number.is_complete() => {
                    self.token = Token::None;
                    self.between(c)
                }
                None => None,
            },
        }
    }

    fn in_string(&mut self, c: char) -> Option<Char> {
        match c {
            '"' => {
                self.token = Token::None;
                Some(if self.is_key {
                    Char::KeyEnd
                } else {
                    Char::StringEnd
                })
            }
            '\\' => {
                self.token = Token::Escape;
                Some(Char::Part)
            }
            c if c < ' ' => None,
            _ => Some(Char::Part),
        }
    }

    fn between(&mut self, c: char) -> Option<Char> {
        if matches!(c, ' ' | '\n' | '\r' | '\t') {
            return Some(Char::Blank);
        }
        match (self.expect, c) {
            (Expect::Key | Expect::KeyOrEnd, '"') => {
                (self.token, self.is_key) = (Token::String, true);
                self.expect = Expect::Colon;
            }
            (Expect::Colon, ':') => self.expect = Expect::Value,
            (Expect::CommaOrEnd, ',') => {
                let in_object = *self.open.last()?;
                self.expect = if in_object {
                    Expect::Key
                } else {
                    Expect::Value
                };
            }
            (Expect::KeyOrEnd | Expect::CommaOrEnd, '}') if self.open.last() == Some(&true) => {
                self.close();
            }
            (Expect::ValueOrEnd | Expect::CommaOrEnd, ']') if self.open.last() == Some(&false) => {
                self.close();
            }
            (Expect::Value | Expect::ValueOrEnd, c) => return self.value(c),
            _ => return None,
        }
        Some(Char::Part)
    }

    fn close(&mut self) {
        self.open.pop();
        self.expect = Expect::CommaOrEnd;
    }

    fn value(&mut self, c: char) -> Option<Char> {
        self.expect = Expect::CommaOrEnd;
        self.token = match c {
            '{' | '[' => {
                if self.open.len() == MAX_DEPTH {
                    return None;
                }
                self.open.push(c == '{');
                self.expect = if c == '{' {
                    Expect::KeyOrEnd
                } else {
                    Expect::ValueOrEnd
                };
                Token::None
            }
            '"' => {
                self.is_key = false;
                Token::String
            }
            't' => Token::Word("rue"),
            'f' => Token::Word("alse"),
            'n' => Token::Word("ull"),
            '-' => Token::Number(Number::Minus),
            '0' => Token::Number(Number::Zero),
            '1'..='9' => Token::Number(Number::Integer),
            _ => return None,
        };
        Some(Char::Part)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    /// Whether `text`, an object or a list, passes from its first to its last character.
    fn passes(text: &str) -> bool {
        let mut syntax = JsonSyntax::new();
        let mut rest = text.trim().chars();
        let ok = rest
            .by_ref()
            .all(|c| syntax.push(c).is_some() && (syntax.depth() > 0 || matches!(c, '}' | ']')));
        ok && syntax.depth() == 0 && !text.trim().is_empty()
    }

    #[test]
    fn it_agrees_with_serde_json_on_texts_and_on_every_change_of_a_character() {
        let texts = [
            r#"{"a": [1, -0.5e+3, 0, 10E2, true, false, null], "b\n\u00e9\"": {}, "c": []}"#,
            r#"[{"x":"}]{["},{"y":[[[]]]} , "s"]"#,
        ];
        let (mut valid, mut invalid) = (0, 0);
        let alphabet: Vec<char> = "{}[]\",:0-1.eE+tfnu\\ \n\ta".chars().collect();
        for text in texts {
            let characters: Vec<_> = text.chars().collect();
            for at in 0..characters.len() {
                for insert in [false, true] {
                    for c in &alphabet {
                        let mut changed = characters.clone();
                        if insert {
                            changed.insert(at, *c);
                        } else {
                            changed[at] = *c;
                        }
                        let changed: String = changed.into_iter().collect();
                        let composed = changed.trim_start().starts_with(['{', '[']);
                        let want = composed && serde_json::from_str::<IgnoredAny>(&changed).is_ok();
                        assert_eq!(passes(&changed), want, "{changed}");
                        *(if want { &mut valid } else { &mut invalid }) += 1;
                    }
                }
            }
        }
        assert!(valid > 500 && invalid > 2000, "{valid} {invalid}");
    }

    #[test]
    fn levels_are_bounded() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(passes(&nested(MAX_DEPTH)));
        assert!(!passes(&nested(MAX_DEPTH + 1)));
    }
}
