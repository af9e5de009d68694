//! What the fixtures are of, read from themselves.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tokenbrook::gguf::Header;
use tokenbrook::tokenizer::{SUPPORTED_PRE_TOKENIZERS, Tokenizer, Vocabulary};

use crate::common::gguf_files::header;
use crate::{read, root};

/// Folders of tiny models with logits to compare with, and the list of tests that runs on them.
/// Another folder is another line here.
pub(crate) const ARCHITECTURES: &[(&str, &str)] =
    &[("tests/data/architectures", "tests/architectures.rs")];

/// The same for what the compat engine runs.
pub(crate) const COMPAT: &[(&str, &str)] =
    &[("tests/data/architectures/compat", "tests/compat.rs")];

/// A tiny model's file.
pub(crate) struct Fixture {
    pub(crate) name: String,
    /// Where its test is listed.
    pub(crate) tests: &'static str,
    pub(crate) header: Header,
}

impl Fixture {
    pub(crate) fn architecture(&self) -> String {
        let name = self.header.metadata.str("general.architecture");
        name.ok().flatten().expect("it has one").to_owned()
    }

    /// The architecture as messages call it.
    pub(crate) fn kind(&self) -> String {
        let name = self.architecture();
        let experts = self.header.metadata.get(&format!("{name}.expert_count"));
        if experts.is_some() {
            format!("{name} with experts")
        } else {
            name
        }
    }

    pub(crate) fn has_tensor(&self, name: &str) -> bool {
        self.header.tensors.iter().any(|tensor| tensor.name == name)
    }

    /// The test that runs on it.
    pub(crate) fn test(&self) -> String {
        let source = read(self.tests);
        let end = format!(": \"{}\",", self.name);
        let line = source.lines().find(|line| line.ends_with(&end));
        let line = line.unwrap_or_else(|| panic!("{} lists no test of {}", self.tests, self.name));
        line.trim().trim_end_matches(&end).to_owned()
    }
}

pub(crate) fn all(folders: &[(&str, &'static str)]) -> Vec<Fixture> {
    let mut fixtures = Vec::new();
    for (folder, tests) in folders {
        for entry in std::fs::read_dir(root().join(folder)).expect("the folder reads") {
            let path = entry.expect("the entry reads").path();
            if path
                .extension()
                .is_some_and(|extension| extension == "gguf")
            {
                let file = std::fs::read(&path).expect("the file reads");
                let name = path
                    .file_stem()
                    .and_then(|name| name.to_str())
                    .expect("a name");
                fixtures.push(Fixture {
                    name: name.to_owned(),
                    tests,
                    header: header(&file).expect("it parses"),
                });
            }
        }
    }
    fixtures.sort_by(|a, b| a.name.cmp(&b.name));
    fixtures
}

#[derive(Deserialize)]
struct Rule {
    pre: String,
    tokens: Vec<String>,
    merges: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
}

/// Splitting rules whose ids are compared with those of Hugging Face, with the fixture of each.
pub(crate) fn rules() -> BTreeMap<String, &'static str> {
    let mut rules = BTreeMap::new();
    let folder = Path::new("tests/data/tokenizer");
    for name in [
        "gpt-2",
        "qwen2",
        "llama-bpe",
        "default",
        "gpt-4o",
        "deepseek-v3",
    ] {
        let rule: Rule = serde_json::from_str(&read(&format!("{}/{name}.json", folder.display())))
            .expect("valid data");
        rules.insert(rule.pre, "ids_equal_hugging_face_under_every_rule");
    }
    let more: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(&read("tests/data/tokenizer/rules.json")).expect("valid data");
    for pre in more.into_keys() {
        rules.insert(
            pre,
            "ids_of_one_vocabulary_equal_hugging_face_under_further_rules",
        );
    }
    rules.insert("smollm".to_owned(), "smollm2_ids_equal_hugging_face");
    rules
}

/// Rules that are others by another name: on a corpus that no two rules cut alike.
pub(crate) fn aliases() -> BTreeMap<&'static str, String> {
    let base: Rule =
        serde_json::from_str(&read("tests/data/tokenizer/llama-bpe.json")).expect("valid data");
    let cuts = |pre: &str| -> Vec<Vec<u32>> {
        let vocabulary = Vocabulary {
            model: "gpt2".to_owned(),
            pre: pre.to_owned(),
            ..Vocabulary::default()
        };
        let tokenizer = Tokenizer::new(&vocabulary, &base.tokens, &base.merges).expect("valid");
        let texts = base.cases.iter().map(|case| case.text.as_str());
        // Where rules part: contractions, signs, numbers, line ends, capitals, composed letters.
        let more = [
            "HelloWORLD it's",
            "12345 1",
            "a\r\n\r\n b",
            "$$a ++",
            "e\u{301}",
            "x/\n",
            "１２",
        ];
        texts
            .chain(more)
            .map(|text| tokenizer.encode(text, false).expect("it encodes"))
            .collect()
    };
    let proven: Vec<_> = rules()
        .into_keys()
        .map(|rule| (cuts(&rule), rule))
        .collect();
    let mut aliases = BTreeMap::new();
    for pre in SUPPORTED_PRE_TOKENIZERS {
        if proven.iter().all(|(_, rule)| rule != pre) {
            let own = cuts(pre);
            let like = proven.iter().find(|(cuts, _)| *cuts == own);
            let (_, like) = like.unwrap_or_else(|| panic!("no test knows the rule {pre}"));
            aliases.insert(pre, like.clone());
        }
    }
    aliases
}

#[test]
fn rules_by_other_names_cut_as_rules_that_hugging_face_confirms() {
    let (proven, aliases) = (rules(), aliases());
    for pre in SUPPORTED_PRE_TOKENIZERS {
        assert!(
            proven.contains_key(pre) || aliases.contains_key(pre),
            "{pre}"
        );
    }
    assert!(aliases.values().all(|like| proven.contains_key(like)));
    assert!(
        proven
            .keys()
            .all(|pre| SUPPORTED_PRE_TOKENIZERS.contains(&pre.as_str()))
    );
}
