//! The standard's own algorithm, word by word: decode all of it, cut it into lines, take the
//! lines one at a time.

use std::rc::Rc;

use tokenbrook::sse::{Item, Message};

pub(crate) fn parse(stream: &[u8]) -> Vec<Item> {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let text = String::from_utf8_lossy(stream);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    // What follows the last line end is no line.
    lines.pop();
    let mut items = Vec::new();
    let (mut data, mut event, mut id) = (String::new(), String::new(), String::new());
    for line in lines {
        if line.is_empty() {
            if !data.is_empty() {
                data.pop();
                let name = if event.is_empty() { "message" } else { &event };
                items.push(Item::Event(Message {
                    event: name.to_owned(),
                    data: std::mem::take(&mut data),
                    id: Rc::from(&*id),
                }));
            }
            event.clear();
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" => items.push(Item::Comment(value.to_owned())),
            "data" => {
                data.push_str(value);
                data.push('\n');
            }
            "event" => value.clone_into(&mut event),
            "id" if !value.contains('\0') => value.clone_into(&mut id),
            "retry" if !value.is_empty() && value.chars().all(|c| c.is_ascii_digit()) => {
                items.push(Item::Retry(value.parse().unwrap_or(u64::MAX)));
            }
            _ => {}
        }
    }
    items
}
