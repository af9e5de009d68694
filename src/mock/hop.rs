//! The way from server to reader, as stages that pass items on, now or later.

use std::collections::VecDeque;

use super::scenario::{Cut, Hop, Scenario};

/// What travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// Status and headers.
    Head,
    /// Bytes of the body, and how many tokens end in them.
    Bytes { bytes: Vec<u8>, tokens: u64 },
    /// The body is complete.
    End,
    /// The connection breaks.
    Reset,
}

/// One place on the way.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    kind: Kind,
    /// What is held: bytes, and after how many of them how many tokens end.
    held: Vec<u8>,
    ends: VecDeque<(usize, u64)>,
    head_held: bool,
    /// Nothing leaves before what came earlier.
    last_out_ms: f64,
    /// Bytes that passed.
    passed: u64,
    /// When the last item came in.
    last_in_ms: f64,
    open: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// Collects so many bytes, or all; with or without the head.
    Hold {
        bytes: Option<usize>,
        head: bool,
    },
    Idle {
        ms: f64,
        reset: bool,
    },
    Narrow {
        bytes_per_ms: f64,
    },
    Cut(Cut),
    SplitUtf8 {
        ms: f64,
    },
    Transit {
        ms: f64,
    },
}

/// The stages from a server to a reader; `whole` replies have nothing to split, and `streams`
/// are what a proxy passes when it honours their header.
pub(super) fn path(scenario: &Scenario, faulty: bool, is_stream: bool) -> Vec<Stage> {
    let mut kinds = Vec::new();
    if faulty {
        let split = scenario.faults.split_utf8_ms;
        kinds.extend(split.map(|ms| Kind::SplitUtf8 { ms: ms.get() }));
        kinds.extend(scenario.faults.cut.map(Kind::Cut));
    }
    let hops = scenario.hops.iter();
    kinds.extend(hops.filter_map(|hop| Kind::of(hop, is_stream)));
    kinds.push(Kind::Transit {
        ms: scenario.transit.response_ms.get(),
    });
    kinds.into_iter().map(Stage::new).collect()
}

impl Kind {
    fn of(hop: &Hop, is_stream: bool) -> Option<Self> {
        Some(match hop {
            Hop::Proxy { honours_header, .. } if *honours_header && is_stream => return None,
            Hop::Proxy { buffer_bytes, .. } => Self::Hold {
                bytes: Some(buffer_bytes.len().max(1)),
                head: false,
            },
            Hop::Compression { block_bytes } => Self::Hold {
                bytes: Some(block_bytes.len().max(1)),
                head: false,
            },
            Hop::Cdn {} | Hop::Framework {} => Self::Hold {
                bytes: None,
                head: true,
            },
            Hop::Client {} => Self::Hold {
                bytes: None,
                head: false,
            },
            Hop::Idle { ms, reset } => Self::Idle {
                ms: ms.get(),
                reset: *reset,
            },
            Hop::Narrow { bytes_per_second } => Self::Narrow {
                bytes_per_ms: bytes_per_second.get() / 1000.0,
            },
        })
    }
}

impl Stage {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            held: Vec::new(),
            ends: VecDeque::new(),
            head_held: false,
            last_out_ms: 0.0,
            passed: 0,
            last_in_ms: 0.0,
            open: true,
        }
    }

    /// A place that passes nothing on.
    pub(super) fn closed() -> Self {
        Self {
            open: false,
            ..Self::new(Kind::Transit { ms: 0.0 })
        }
    }

    /// The connection is open: silence counts from now.
    pub(super) fn open(&mut self, now_ms: f64) {
        self.last_in_ms = now_ms;
        self.last_out_ms = now_ms;
    }

    /// Takes an item; `out` gets what leaves, each with its time.
    pub(super) fn accept(&mut self, now_ms: f64, item: Item, out: &mut Vec<(f64, Item)>) {
        if !self.open {
            return;
        }
        self.last_in_ms = now_ms;
        match self.kind {
            Kind::Hold { bytes, head } => self.hold(now_ms, bytes, head, item, out),
            Kind::Idle { .. } => self.leave(now_ms, item, out),
            Kind::Transit { ms } => self.leave(now_ms + ms, item, out),
            Kind::Narrow { bytes_per_ms } => {
                let start_ms = now_ms.max(self.last_out_ms);
                #[expect(clippy::cast_precision_loss, reason = "a write is below 2^53 bytes")]
                let took_ms = match &item {
                    Item::Bytes { bytes, .. } => bytes.len() as f64 / bytes_per_ms,
                    _ => 0.0,
                };
                self.leave(start_ms + took_ms, item, out);
            }
            Kind::Cut(cut) => self.cut(now_ms, cut, item, out),
            Kind::SplitUtf8 { ms } => self.split(now_ms, ms, item, out),
        }
    }

    /// Since when nothing passed, and how long that may last.
    pub(super) fn idle(&self) -> Option<(f64, f64)> {
        match self.kind {
            Kind::Idle { ms, .. } if self.open => Some((self.last_in_ms, ms)),
            _ => None,
        }
    }

    /// Closes the connection for its silence.
    pub(super) fn close_idle(&mut self, now_ms: f64, out: &mut Vec<(f64, Item)>) {
        let Kind::Idle { reset, .. } = self.kind else {
            return;
        };
        let end = if reset { Item::Reset } else { Item::End };
        self.leave(now_ms, end, out);
        self.open = false;
    }

    /// Tokens that are held here.
    pub(super) fn held_tokens(&self) -> u64 {
        self.ends.iter().map(|(_, tokens)| tokens).sum()
    }

    /// A cut: whoever writes may as well stop.
    pub(super) fn is_closed(&self) -> bool {
        !self.open
    }

    fn leave(&mut self, at_ms: f64, item: Item, out: &mut Vec<(f64, Item)>) {
        let at_ms = at_ms.max(self.last_out_ms);
        self.last_out_ms = at_ms;
        if let Item::Bytes { bytes, .. } = &item {
            self.passed = self.passed.saturating_add(bytes.len() as u64);
        }
        out.push((at_ms, item));
    }

    fn hold(
        &mut self,
        now_ms: f64,
        limit: Option<usize>,
        head: bool,
        item: Item,
        out: &mut Vec<(f64, Item)>,
    ) {
        match item {
            Item::Head if head => self.head_held = true,
            Item::Head => self.leave(now_ms, Item::Head, out),
            Item::Bytes { bytes, tokens } => {
                self.held.extend_from_slice(&bytes);
                self.ends.push_back((bytes.len(), tokens));
                while let Some(limit) = limit.filter(|limit| self.held.len() >= *limit) {
                    let full = self.first(limit);
                    self.leave(now_ms, full, out);
                }
            }
            Item::End => {
                if std::mem::take(&mut self.head_held) {
                    self.leave(now_ms, Item::Head, out);
                }
                if !self.held.is_empty() {
                    let rest = self.first(self.held.len());
                    self.leave(now_ms, rest, out);
                }
                self.leave(now_ms, Item::End, out);
            }
            // What was held is lost.
            Item::Reset => {
                self.held.clear();
                self.ends.clear();
                self.leave(now_ms, Item::Reset, out);
            }
        }
    }

    /// Takes the first `count` bytes out of what is held.
    fn first(&mut self, count: usize) -> Item {
        let rest = self.held.split_off(count);
        let bytes = std::mem::replace(&mut self.held, rest);
        let (mut left, mut tokens) = (count, 0);
        while let Some((length, ended)) = self.ends.front_mut() {
            if *length > left {
                *length -= left;
                break;
            }
            left -= *length;
            tokens += *ended;
            self.ends.pop_front();
        }
        Item::Bytes { bytes, tokens }
    }

    fn cut(&mut self, now_ms: f64, cut: Cut, item: Item, out: &mut Vec<(f64, Item)>) {
        let end = if cut.reset { Item::Reset } else { Item::End };
        let Item::Bytes { mut bytes, tokens } = item else {
            self.leave(now_ms, item, out);
            return;
        };
        let room = cut.byte.get().saturating_sub(self.passed);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        if bytes.len() < room {
            self.leave(now_ms, Item::Bytes { bytes, tokens }, out);
            return;
        }
        bytes.truncate(room);
        if !bytes.is_empty() {
            self.leave(now_ms, Item::Bytes { bytes, tokens }, out);
        }
        self.leave(now_ms, end, out);
        self.open = false;
    }

    /// Each write ends within a character, wherever it has one of several bytes.
    fn split(&mut self, now_ms: f64, ms: f64, item: Item, out: &mut Vec<(f64, Item)>) {
        let Item::Bytes { bytes, tokens } = item else {
            self.leave(now_ms, item, out);
            return;
        };
        let mut at_ms = now_ms.max(self.last_out_ms);
        let mut rest = bytes;
        while let Some(at) = rest.iter().skip(1).position(|byte| byte & 0xC0 == 0x80) {
            let tail = rest.split_off(at + 1);
            let first = Item::Bytes {
                bytes: std::mem::replace(&mut rest, tail),
                tokens: 0,
            };
            self.leave(at_ms, first, out);
            at_ms += ms;
        }
        let last = Item::Bytes {
            bytes: rest,
            tokens,
        };
        self.leave(at_ms, last, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(json: &str) -> Vec<Stage> {
        let scenario = Scenario::from_json(json).expect("it is valid");
        path(&scenario, true, true)
    }

    fn write(text: &str) -> Item {
        Item::Bytes {
            bytes: text.as_bytes().to_vec(),
            tokens: 1,
        }
    }

    /// Sends items at their times through all stages, one after the other.
    fn send(json: &str, items: &[(f64, Item)]) -> Vec<(f64, Item)> {
        let mut items = items.to_vec();
        for mut stage in stages(json) {
            let mut out = Vec::new();
            for (at_ms, item) in items {
                stage.accept(at_ms, item, &mut out);
            }
            items = out;
        }
        items
    }

    fn arrivals(items: &[(f64, Item)]) -> Vec<(f64, usize)> {
        let bytes = |(at_ms, item): &(f64, Item)| match item {
            Item::Bytes { bytes, .. } => Some((*at_ms, bytes.len())),
            _ => None,
        };
        items.iter().filter_map(bytes).collect()
    }

    fn ten_writes() -> Vec<(f64, Item)> {
        let mut items = vec![(0.0, Item::Head)];
        items.extend((1..=10).map(|n| (f64::from(n) * 10.0, write("0123456789"))));
        items.push((100.0, Item::End));
        items
    }

    #[test]
    fn a_proxy_passes_full_buffers_and_the_rest_at_the_end() {
        let out = send(
            r#"{"hops":[{"kind":"proxy","bufferBytes":32}]}"#,
            &ten_writes(),
        );
        assert_eq!(out[0], (0.0, Item::Head));
        assert_eq!(
            arrivals(&out),
            [(40.0, 32), (70.0, 32), (100.0, 32), (100.0, 4)]
        );
        let tokens = out.iter().map(|(_, item)| match item {
            Item::Bytes { tokens, .. } => *tokens,
            _ => 0,
        });
        assert_eq!(tokens.collect::<Vec<_>>(), [0, 3, 3, 3, 1, 0]);
        let honours = r#"{"hops":[{"kind":"proxy","honoursHeader":true}]}"#;
        assert_eq!(arrivals(&send(honours, &ten_writes())).len(), 10);
    }

    #[test]
    fn whole_holders_pass_everything_at_the_end_and_some_hold_the_head() {
        for (kind, head_ms) in [("cdn", 100.0), ("framework", 100.0), ("client", 0.0)] {
            let json = format!(r#"{{"hops":[{{"kind":"{kind}"}}]}}"#);
            let out = send(&json, &ten_writes());
            assert_eq!(out[0], (head_ms, Item::Head), "{kind}");
            assert_eq!(arrivals(&out), [(100.0, 100)], "{kind}");
        }
        let out = send(r#"{"hops":[{"kind":"compression"}]}"#, &ten_writes());
        assert_eq!(arrivals(&out), [(100.0, 100)]);
    }

    #[test]
    fn a_narrow_path_delays_what_it_cannot_carry_and_transit_adds_once() {
        let json = r#"{"hops":[{"kind":"narrow","bytesPerSecond":500}],
            "transit":{"responseMs":7}}"#;
        let out = send(json, &ten_writes());
        // Ten bytes take 20 ms; the first came at 10.
        let wanted: Vec<_> = (1..=10)
            .map(|n| (10.0 + f64::from(n) * 20.0 + 7.0, 10))
            .collect();
        assert_eq!(arrivals(&out), wanted);
        assert_eq!(out.last(), Some(&(217.0, Item::End)));
        // Wide enough: only its own 1 ms a write.
        let json = r#"{"hops":[{"kind":"narrow","bytesPerSecond":10000}]}"#;
        assert_eq!(arrivals(&send(json, &ten_writes()))[9], (101.0, 10));
    }

    #[test]
    fn an_idle_timeout_names_the_silence_and_closes_for_good() {
        let mut stage = stages(r#"{"hops":[{"kind":"idle","ms":50}]}"#).remove(0);
        let mut out = Vec::new();
        stage.accept(10.0, write("a"), &mut out);
        assert_eq!(stage.idle(), Some((10.0, 50.0)));
        stage.close_idle(60.0, &mut out);
        stage.accept(70.0, write("b"), &mut out);
        assert_eq!(out.len(), 2);
        assert_eq!(out[1], (60.0, Item::End));
        assert_eq!(stage.idle(), None);
    }

    #[test]
    fn a_cut_passes_exactly_so_many_bytes() {
        for byte in [0, 1, 10, 15, 99] {
            let json = format!(r#"{{"faults":{{"cut":{{"byte":{byte},"reset":true}}}}}}"#);
            let out = send(&json, &ten_writes());
            let passed: usize = arrivals(&out).iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(passed, byte);
            assert_eq!(out.last().map(|(_, item)| item), Some(&Item::Reset));
        }
        let beyond = r#"{"faults":{"cut":{"byte":101}}}"#;
        assert_eq!(send(beyond, &ten_writes()).len(), 12);
    }

    #[test]
    fn characters_are_split_between_their_bytes_and_nowhere_else() {
        let items = [(1.0, write("aé€😀b")), (2.0, write("plain"))];
        let out = send(r#"{"faults":{"splitUtf8Ms":5}}"#, &items);
        let parts: Vec<_> = out
            .iter()
            .filter_map(|(_, item)| match item {
                Item::Bytes { bytes, .. } => Some(bytes.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(parts.concat(), "aé€😀bplain".as_bytes());
        // Six continuation bytes, so six cuts, each inside a character.
        assert_eq!(parts.len(), 8);
        assert!(
            parts[..6]
                .iter()
                .all(|part| std::str::from_utf8(part).is_err())
        );
        assert_eq!(arrivals(&out).last(), Some(&(31.0, 5)));
    }
}
