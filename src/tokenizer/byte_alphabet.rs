//! The byte alphabet of GPT-2: one printable letter for each byte.
//!
//! Bytes that print keep their Latin-1 character; the other 68 take U+0100 upwards in order.
//! Vocabulary entries of byte-level BPE are spelled in these letters.

const LETTERS: [char; 256] = letters();
const FIRST_SHIFTED: u32 = 0x100;
const LAST: usize = 0x144;
const NO_BYTE: u16 = u16::MAX;
const BYTES: [u16; LAST] = bytes();

const fn prints(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

const fn letters() -> [char; 256] {
    let mut table = ['\0'; 256];
    let mut shifted = FIRST_SHIFTED;
    let mut byte = 0_u8;
    loop {
        let code = if prints(byte) {
            byte as u32
        } else {
            shifted += 1;
            shifted - 1
        };
        table[byte as usize] = match char::from_u32(code) {
            Some(letter) => letter,
            None => unreachable!(),
        };
        if byte == u8::MAX {
            return table;
        }
        byte += 1;
    }
}

const fn bytes() -> [u16; LAST] {
    let mut table = [NO_BYTE; LAST];
    let mut byte = 0_u16;
    while byte < 256 {
        table[LETTERS[byte as usize] as usize] = byte;
        byte += 1;
    }
    table
}

/// Appends the letters of `text`'s bytes to `out`.
pub(super) fn spell(text: &str, out: &mut String) {
    out.extend(text.bytes().map(|byte| LETTERS[usize::from(byte)]));
}

/// Appends the bytes that `letters` spell to `out`; false, and `out` as it was, when a
/// character is no letter of the alphabet.
pub(super) fn unspell(letters: &str, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    for letter in letters.chars() {
        let byte = BYTES.get(letter as usize).copied().unwrap_or(NO_BYTE);
        match u8::try_from(byte) {
            Ok(byte) => out.push(byte),
            Err(_) => {
                out.truncate(start);
                return false;
            }
        }
    }
    true
}
