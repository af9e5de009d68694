//! Tests as text: whether one of a name is there, and what it mentions.

use crate::read;

/// A test, and what in it is about an entry.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    pub(crate) file: String,
    pub(crate) test: String,
    pub(crate) mentions: String,
}

impl Proof {
    pub(crate) fn new(file: &str, test: &str, mentions: &str) -> Self {
        Self {
            file: file.to_owned(),
            test: test.to_owned(),
            mentions: mentions.to_owned(),
        }
    }

    /// Whether the test is there, runs, and mentions what it has to.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self {
            file,
            test,
            mentions,
        } = self;
        let source = read(file);
        let body = if file.ends_with(".ts") {
            browser_test(&source, test)
        } else {
            rust_test(&source, test).or_else(|| listed_test(&source, test))
        };
        let body = body.ok_or_else(|| format!("{file} has no test {test:?}"))?;
        if body.contains(mentions.as_str()) {
            Ok(())
        } else {
            Err(format!("{test:?} of {file} does not mention {mentions:?}"))
        }
    }
}

/// The text of a function that is a test and is not ignored.
fn rust_test<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let start = source.find(&format!("fn {name}()"))?;
    let (before, rest) = source.split_at(start);
    let attributes = before.rsplit("\n\n").next()?;
    let is_test = attributes.contains("#[test]") && !attributes.contains("#[ignore");
    // A function at any depth ends with the first brace of its own depth.
    let indent = before.rsplit('\n').next()?.len();
    let end = format!("\n{}}}", " ".repeat(indent));
    let end = rest.find(&end)?;
    is_test.then_some(&rest[..end])
}

/// A line of a macro that makes tests: `name: "what it runs on",`.
fn listed_test<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = source.lines();
    lines.find(|line| line.trim_start().starts_with(&format!("{name}: \"")))
}

/// A call of `test`, to the next one.
fn browser_test<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let starts = ["'", "\""].map(|quote| source.find(&format!("test({quote}{name}{quote}")));
    let start = starts.into_iter().flatten().next()?;
    let rest = &source[start..];
    let end = rest[1..].find("test(").map_or(rest.len(), |end| end + 1);
    Some(&rest[..end])
}

#[test]
fn tests_are_found_only_where_they_run() {
    let source = "#[test]\nfn a() {\n    one();\n}\n\nfn b() {\n    two();\n}\n\n\
        #[test]\n#[ignore]\nfn c() {\n    three();\n}\n\nlist! {\n    d: \"four\",\n}\n";
    assert!(
        rust_test(source, "a").is_some_and(|body| body.contains("one") && !body.contains("two"))
    );
    assert!(rust_test(source, "b").is_none() && rust_test(source, "c").is_none());
    assert_eq!(listed_test(source, "d"), Some("    d: \"four\","));
    let source = "test('a b', () => 1);\ntest(\"c\", () => 2);\n";
    assert_eq!(browser_test(source, "a b"), Some("test('a b', () => 1);\n"));
    assert_eq!(browser_test(source, "b"), None);
}
