//! Random texts of several kinds.

use crate::common::Random;

/// One of a list.
pub(crate) fn one<'a, T: ?Sized>(random: &mut Random, list: &[&'a T]) -> &'a T {
    list[random.below(list.len())]
}

/// Up to `most - 1` parts of a list, joined.
pub(crate) fn soup(random: &mut Random, parts: &[&str], most: usize) -> String {
    (0..random.below(most))
        .map(|_| one(random, parts))
        .collect()
}

/// A character of any kind: common, of some script, or any at all.
pub(crate) fn character(random: &mut Random) -> char {
    const RANGES: [(u32, u32); 12] = [
        (0x20, 0x7e),
        (0x00, 0x1f),
        (0x80, 0xff),
        (0x0300, 0x036f),
        (0x0400, 0x04ff),
        (0x0590, 0x06ff),
        (0x0900, 0x0e7f),
        (0x2000, 0x206f),
        (0x3040, 0x9fff),
        (0xac00, 0xd7a3),
        (0x1_f300, 0x1_faff),
        (0x00, 0x10_ffff),
    ];
    loop {
        let (first, last) = RANGES[random.below(RANGES.len())];
        let span = usize::try_from(last - first + 1).expect("a small number");
        let code = first + u32::try_from(random.below(span)).expect("below the span");
        if let Some(c) = char::from_u32(code) {
            return c;
        }
    }
}

/// Text of up to `most - 1` parts: characters, runs, words and `special` texts.
pub(crate) fn text(random: &mut Random, special: &[&str], most: usize) -> String {
    let mut text = String::new();
    for _ in 0..random.below(most) {
        match random.below(6) {
            0 => {
                let (c, count) = (character(random), 1 + random.below(40));
                text.extend(std::iter::repeat_n(c, count));
            }
            1 if !special.is_empty() => {
                let part = one(random, special);
                let cut = random.below(4 * part.len() + 1).min(part.len());
                text.push_str(part.get(..cut).unwrap_or(part));
            }
            2 => text.push_str(one(
                random,
                &[
                    "the ",
                    "don't",
                    " 12345",
                    "\r\n",
                    "   ",
                    "▁",
                    "<0x41>",
                    "fn main(){}",
                    "ﬁ",
                    "👩‍👩‍👧",
                ],
            )),
            3 => text.push_str(&String::from_utf8_lossy(&random.bytes(5))),
            _ => text.push(character(random)),
        }
    }
    text
}

/// `source` with a few pieces removed, doubled, moved or replaced by `parts` or parts of `other`.
pub(crate) fn mutated(random: &mut Random, source: &str, other: &str, parts: &[&str]) -> String {
    let mut text: Vec<char> = source.chars().collect();
    for _ in 0..1 + random.below(5) {
        let from = random.below(text.len() + 1);
        let to = (from + random.below(12)).min(text.len());
        let new: Vec<char> = match random.below(5) {
            0 => Vec::new(),
            1 => text[from..to].repeat(2),
            2 => {
                let other: Vec<char> = other.chars().collect();
                let start = random.below(other.len() + 1);
                let end = (start + random.below(40)).min(other.len());
                other[start..end].to_vec()
            }
            3 => vec![character(random)],
            _ => one(random, parts).chars().collect(),
        };
        text.splice(from..to, new);
    }
    text.into_iter().collect()
}
