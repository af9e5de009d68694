//! The sampler's dispatches. What they do together is told in
//! [`Sampler`](super::super::sampler::Sampler); their twin is the host's sampler.

use super::super::Capabilities;
use super::super::recorder::{Bind, Cost, Extent, Recorder};
use super::super::shader::{Constant, Needs, Shader};

/// Bins of the histogram of depths: an eighth of the temperature each.
pub(in super::super) const BINS: u32 = 256;

/// Words of the choice in the making before the joined histogram.
const PICK_HEAD_WORDS: u32 = 16;

/// Up to so many logits are listed whole; of more only the bin that decides.
const SHORT_LIST: u32 = 512;

/// Logits that a workgroup of the cooperative plan goes through.
const GROUP_LOGITS: u32 = 2048;

/// How the work is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Invocations that never wait for each other, and one that joins what they found: for
    /// processors that play a GPU.
    Serial,
    /// Workgroups that join through their memory.
    Tree,
}

impl Variant {
    /// All that a device can run.
    #[must_use]
    pub fn available(_: &Capabilities) -> Vec<Self> {
        vec![Self::Serial, Self::Tree]
    }

    /// Lanes of a workgroup that goes through the vocabulary.
    fn lanes(self) -> u32 {
        match self {
            Self::Serial => 8,
            Self::Tree => 256,
        }
    }

    /// Lanes of the one workgroup that joins.
    fn joining_lanes(self) -> u32 {
        match self {
            Self::Serial => 1,
            Self::Tree => 256,
        }
    }

    fn groups(self, vocab: u32) -> u32 {
        match self {
            Self::Serial => 4,
            Self::Tree => vocab.div_ceil(GROUP_LOGITS).clamp(1, 256),
        }
    }

    /// Parts of the vocabulary whose findings are joined.
    #[must_use]
    pub fn slices(self, vocab: u32) -> u32 {
        match self {
            Self::Serial => self.groups(vocab) * self.lanes(),
            Self::Tree => self.groups(vocab),
        }
    }
}

/// Buffers of the sampler's dispatches.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// `V`.
    pub vocab: u32,
    /// State of the step, written by the host.
    pub state: &'a wgpu::Buffer,
    /// Rows of logits.
    pub logits: &'a wgpu::Buffer,
    /// Copy of a row, changed.
    pub adjusted: &'a wgpu::Buffer,
    /// `[2, slices, 4]`.
    pub found: &'a wgpu::Buffer,
    /// `[slices, BINS + 1, 3]`.
    pub hist: &'a wgpu::Buffer,
    /// The choice in the making.
    pub pick: &'a wgpu::Buffer,
    /// `[V, 4]`.
    pub list: &'a wgpu::Buffer,
    /// Entries of the list.
    pub count: &'a wgpu::Buffer,
    /// `[slices, 2]`.
    pub sums: &'a wgpu::Buffer,
    /// Ring of tokens.
    pub ring: &'a wgpu::Buffer,
}

/// Words of the choice in the making.
pub(in super::super) const PICK_WORDS: u32 = PICK_HEAD_WORDS + 3 * (BINS + 1);

/// Words that a slice's histogram has.
pub(in super::super) const HIST_WORDS: u32 = 3 * (BINS + 1);

const COMMON: &str = include_str!("common/sample.wgsl");
const PICK: &str = include_str!("common/sample_pick.wgsl");
const WALK: &str = include_str!("common/sample_walk.wgsl");
const HALVING: &str = include_str!("common/sample_halving.wgsl");
const PENALTY: &str = include_str!("common/sample_penalty.wgsl");
const PENDING: &str = include_str!("common/sample_pending.wgsl");

/// Grid of a dispatch.
#[derive(Clone, Copy)]
enum Over {
    /// Through the vocabulary.
    Vocab,
    /// Through the host's lists.
    Lists,
    /// One workgroup.
    One,
}

/// One dispatch of those that share a list's work by its length.
#[derive(Clone, Copy)]
struct Joining {
    variant: Variant,
    lanes: u32,
    /// Lists that it takes.
    lengths: [u32; 2],
}

/// Lists up to this length are one invocation's, where it would not wait for others.
const LONELY_LIST: u32 = 512;

/// Lanes for the longer ones there: as few as keep the loops short enough, because `SwiftShader`
/// takes a millisecond to begin a workgroup of 256 lanes that has barriers, even an idle one.
fn few_lanes(vocab: u32) -> u32 {
    // 8 entries a round, at most 110 passes over the list.
    vocab.div_ceil(4096).next_power_of_two().clamp(16, 256)
}

/// Long lists need many lanes on any device, the more so where loops are cut off (llvmpipe: at
/// 65,535 rounds).
fn joining(variant: Variant, vocab: u32, least: u32) -> Vec<Joining> {
    let part = |variant, lanes, lengths| Joining {
        variant,
        lanes,
        lengths,
    };
    let lanes = variant.joining_lanes();
    match variant {
        Variant::Serial => vec![
            part(Variant::Serial, lanes, [least, LONELY_LIST]),
            part(Variant::Tree, few_lanes(vocab), [LONELY_LIST + 1, u32::MAX]),
        ],
        Variant::Tree => vec![part(Variant::Tree, lanes, [least, u32::MAX])],
    }
}

impl Joining {
    fn shader(
        self,
        op: &Sample<'_>,
        slices: u32,
        name: &'static str,
        parts: &[&'static str],
    ) -> Shader {
        let parts = [&[PICK, group_part(self.variant)], parts].concat();
        let mut shader = shader(op, self.variant, Over::One, name, &parts);
        shader
            .constants
            .retain(|(name, _)| !["SLICES", "WG_SIZE"].contains(name));
        let [least, most] = self.lengths;
        for (name, value) in [
            ("WG_SIZE", self.lanes),
            ("SLICES", slices),
            ("LEAST_LIST", least),
            ("MOST_LIST", most),
        ] {
            shader.constants.push((name, Constant::U32(value)));
        }
        shader
    }
}

/// Workgroups that go through the host's lists.
const LIST_GROUPS: u32 = 16;

fn shader(
    op: &Sample<'_>,
    variant: Variant,
    over: Over,
    name: &'static str,
    parts: &[&'static str],
) -> Shader {
    let lanes = match over {
        Over::One => variant.joining_lanes(),
        Over::Vocab | Over::Lists => variant.lanes(),
    };
    let constants = [
        ("WG_SIZE", lanes),
        ("GROUPS", variant.groups(op.vocab)),
        ("LIST_GROUPS", LIST_GROUPS),
        ("SLICES", variant.slices(op.vocab)),
        ("VOCAB", op.vocab),
        ("BINS", BINS),
        ("SHORT_LIST", SHORT_LIST),
    ];
    Shader {
        name,
        parts: [&[COMMON], parts].concat(),
        constants: constants
            .map(|(name, value)| (name, Constant::U32(value)))
            .to_vec(),
        needs: Needs::default(),
    }
}

fn group_part(variant: Variant) -> &'static str {
    match variant {
        Variant::Serial => include_str!("common/sample_group_serial.wgsl"),
        Variant::Tree => include_str!("common/sample_group_tree.wgsl"),
    }
}

fn first_part(variant: Variant) -> &'static str {
    match variant {
        Variant::Serial => include_str!("common/sample_first_halving.wgsl"),
        Variant::Tree => include_str!("common/sample_first_ranking.wgsl"),
    }
}

fn bins_part(variant: Variant) -> &'static str {
    match variant {
        Variant::Serial => include_str!("common/sample_bins_serial.wgsl"),
        Variant::Tree => include_str!("common/sample_bins_shared.wgsl"),
    }
}

fn record(
    recorder: &mut Recorder<'_>,
    op: &Sample<'_>,
    variant: Variant,
    over: Over,
    shader: &Shader,
    binds: &[Bind<'_>],
) {
    let groups = match over {
        Over::Vocab => variant.groups(op.vocab),
        Over::Lists => LIST_GROUPS,
        Over::One => 1,
    };
    let grid = [groups, 1, 1].map(Extent::Fixed);
    recorder.dispatch(shader, binds, grid, Cost::default());
}

/// Records the changes to a row: the copy, the penalties, the biases.
pub fn adjust(recorder: &mut Recorder<'_>, variant: Variant, op: &Sample<'_>) {
    let (state, logits, ring) = (
        Bind::Read(op.state),
        Bind::Read(op.logits),
        Bind::Read(op.ring),
    );
    let adjusted = Bind::Write(op.adjusted);
    let text = include_str!("sample_adjust.wgsl");
    let parts = [PENALTY, PENDING, text];
    let copy = shader(op, variant, Over::Vocab, "sample_adjust", &parts);
    let binds = [state, logits, ring, adjusted];
    record(recorder, op, variant, Over::Vocab, &copy, &binds);
    let text = include_str!("sample_penalize.wgsl");
    let parts = [PENALTY, PENDING, text];
    let penalize = shader(op, variant, Over::Lists, "sample_penalize", &parts);
    record(recorder, op, variant, Over::Lists, &penalize, &binds);
    let parts = [PENALTY, include_str!("sample_bias.wgsl")];
    let bias = shader(op, variant, Over::Lists, "sample_bias", &parts);
    let binds = [state, adjusted];
    record(recorder, op, variant, Over::Lists, &bias, &binds);
}

/// Records the search for the largest logit, of the row as it came and, where it `is_adjusted`,
/// of the copy; a greedy choice is made with it.
pub fn greedy(recorder: &mut Recorder<'_>, variant: Variant, op: &Sample<'_>, is_adjusted: bool) {
    let (state, found) = (Bind::Read(op.state), Bind::Write(op.found));
    let parts = [group_part(variant), include_str!("sample_scan.wgsl")];
    let scan = shader(op, variant, Over::Vocab, "sample_scan", &parts);
    let row = source(false, 0);
    let binds = [Bind::Params(&row), state, Bind::Read(op.logits), found];
    record(recorder, op, variant, Over::Vocab, &scan, &binds);
    let params = source(is_adjusted, 0);
    if is_adjusted {
        let adjusted = Bind::Read(op.adjusted);
        let binds = [Bind::Params(&params), state, adjusted, found];
        record(recorder, op, variant, Over::Vocab, &scan, &binds);
    }
    let parts = [PICK, group_part(variant), include_str!("sample_head.wgsl")];
    let head = shader(op, variant, Over::One, "sample_head", &parts);
    let binds = [
        Bind::Params(&params),
        state,
        Bind::Read(op.found),
        Bind::Write(op.pick),
        Bind::Write(op.count),
        Bind::Write(op.ring),
    ];
    record(recorder, op, variant, Over::One, &head, &binds);
}

/// Records cuts and draw, after [`greedy`].
pub fn draw(recorder: &mut Recorder<'_>, variant: Variant, op: &Sample<'_>, is_adjusted: bool) {
    let params = source(is_adjusted, 0);
    let (params, state) = (Bind::Params(&params), Bind::Read(op.state));
    let z = Bind::Read(if is_adjusted { op.adjusted } else { op.logits });
    let (group, bins) = (group_part(variant), bins_part(variant));

    let parts = [PICK, group, bins, include_str!("sample_hist.wgsl")];
    let hist = shader(op, variant, Over::Vocab, "sample_hist", &parts);
    let binds = [params, state, z, Bind::Read(op.pick), Bind::Write(op.hist)];
    record(recorder, op, variant, Over::Vocab, &hist, &binds);

    let parts = [PICK, WALK, group, include_str!("sample_bound.wgsl")];
    let bound = shader(op, variant, Over::One, "sample_bound", &parts);
    let binds = [state, Bind::Read(op.hist), Bind::Write(op.pick)];
    record(recorder, op, variant, Over::One, &bound, &binds);

    let parts = [PICK, include_str!("sample_gather.wgsl")];
    let gather = shader(op, variant, Over::Vocab, "sample_gather", &parts);
    let z = Bind::Read(if is_adjusted { op.adjusted } else { op.logits });
    let slices = variant.slices(op.vocab);
    // The second round is for a draw that falls into another bin than the cut; it is rare.
    for round in 0..2 {
        let params = source(is_adjusted, round);
        let binds = [
            Bind::Params(&params),
            state,
            z,
            Bind::Read(op.pick),
            Bind::Write(op.list),
            Bind::Write(op.count),
        ];
        record(recorder, op, variant, Over::Vocab, &gather, &binds);
        let params = [round, 0, 0, 0];
        let binds = [
            Bind::Params(&params),
            state,
            Bind::Read(op.list),
            Bind::Read(op.count),
            Bind::Write(op.pick),
            Bind::Write(op.ring),
        ];
        for part in joining(variant, op.vocab, 1) {
            let first = first_part(variant);
            let parts = [WALK, HALVING, first, include_str!("sample_choose.wgsl")];
            let choose = part.shader(op, slices, "sample_choose", &parts);
            record(recorder, op, variant, Over::One, &choose, &binds);
        }
    }
}

/// Records the log-probabilities, after the choice.
pub fn logprobs(recorder: &mut Recorder<'_>, variant: Variant, op: &Sample<'_>) {
    let (state, logits, pick) = (
        Bind::Read(op.state),
        Bind::Read(op.logits),
        Bind::Read(op.pick),
    );
    let group = group_part(variant);
    let parts = [PICK, group, include_str!("sample_tops.wgsl")];
    let tops = shader(op, variant, Over::Vocab, "sample_tops", &parts);
    let (sums, list) = (Bind::Write(op.sums), Bind::Write(op.list));
    let binds = [state, logits, pick, sums, list, Bind::Write(op.count)];
    record(recorder, op, variant, Over::Vocab, &tops, &binds);
    let (sums, list) = (Bind::Read(op.sums), Bind::Read(op.list));
    let ring = Bind::Write(op.ring);
    let binds = [state, logits, sums, list, pick, Bind::Read(op.count), ring];
    let parts = [include_str!("sample_logprobs.wgsl")];
    for part in joining(variant, op.vocab, 0) {
        let slices = variant.slices(op.vocab);
        let end = part.shader(op, slices, "sample_logprobs", &parts);
        record(recorder, op, variant, Over::One, &end, &binds);
    }
}

/// Uniform of the shaders that read a row or its adjusted copy: which, and the round of lists.
fn source(is_adjusted: bool, round: u8) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[0] = u8::from(!is_adjusted);
    bytes[4] = round;
    bytes
}
