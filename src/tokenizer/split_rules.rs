//! The regular expressions of the splitting rules, as llama.cpp lists them by name.
//!
//! Where its list adapts an expression to its own engine, the original of the model's
//! `tokenizer.json` stands here.

/// An expression, and what of a text it is sure to match.
pub(super) type Rule = (&'static str, Covers);

/// What an expression leaves no gap in.
#[derive(Clone, Copy)]
pub(super) enum Covers {
    /// Every text.
    All,
    /// Blanks.
    Blanks,
    /// It picks parts out; all else passes.
    Nothing,
}

impl Covers {
    /// Whether a gap that holds `text` cannot be.
    pub(super) fn forbids(self, text: &str) -> bool {
        match self {
            Self::All => true,
            Self::Blanks => text.contains(char::is_whitespace),
            Self::Nothing => false,
        }
    }
}

/// Contractions, words, numbers and signs with their leading space, blanks.
const GPT2_RULE: Rule = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    Covers::All,
);
const THREE_DIGITS: Rule = (r"[0-9][0-9][0-9]", Covers::Nothing);

pub(super) const GPT2: [Rule; 1] = [GPT2_RULE];
/// Each digit alone, then GPT-2's rule.
pub(super) const DIGITS_THEN_GPT2: [Rule; 2] = [(r"\p{N}", Covers::Nothing), GPT2_RULE];
/// Signs first, then GPT-2's rule, then numbers in groups of three.
pub(super) const DEFAULT: [Rule; 4] = [
    (r"[\p{P}\$\+<=>\^~\|]+", Covers::Nothing),
    GPT2_RULE,
    (r"\p{N}+", Covers::Nothing),
    THREE_DIGITS,
];
pub(super) const FALCON: [Rule; 3] = [
    (r"[\p{P}\$\+<=>\^~\|`]+", Covers::Nothing),
    GPT2_RULE,
    THREE_DIGITS,
];
/// Numbers in groups of up to three digits, line ends apart.
pub(super) const LLAMA3: [Rule; 1] = [(
    concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    Covers::All,
)];
/// Llama 3's with single digits.
pub(super) const QWEN2: [Rule; 1] = [(
    concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    Covers::All,
)];
/// Words are cut before a capital letter; contractions stay with their word.
pub(super) const GPT4O: [Rule; 1] = [(
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    Covers::All,
)];
/// GPT-4o's without contractions and with single digits.
pub(super) const TEKKEN: [Rule; 1] = [(
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    Covers::All,
)];
pub(super) const DEEPSEEK_V3: [Rule; 3] = [
    (r"\p{N}{1,3}", Covers::Nothing),
    (
        r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+",
        Covers::Nothing,
    ),
    (
        concat!(
            r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
            r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
            r"|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        Covers::Blanks,
    ),
];
pub(super) const DEEPSEEK_LLM: [Rule; 6] = [
    (r"[\r\n]", Covers::Nothing),
    (CASED_WORDS, Covers::Nothing),
    (
        concat!(
            r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}",
            r"\x{2018}-\x{201F}\x{3000}-\x{3002}]+"
        ),
        Covers::Nothing,
    ),
    (r"\s+$", Covers::Nothing),
    (
        r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
        Covers::Nothing,
    ),
    (r"\p{N}+", Covers::Nothing),
];
/// Letters that have a case, in the version of Unicode that the expression was made for.
const CASED_WORDS: &str = concat!(
    r"\s?[",
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}",
    r"\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}",
    r"\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}",
    r"\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}",
    r"\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}",
    r"\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}",
    r"\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}",
    r"\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}",
    r"\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}",
    r"\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}",
    r"\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}",
    r"\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}",
    r"\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}",
    r"\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}",
    r"\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}",
    r"\x{1E900}-\x{1E943}",
    r"]+",
);
