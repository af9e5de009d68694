//! Variants chosen by a short measurement on the device at hand.
//!
//! Every variant of a role first computes one small case; the right ones are then timed on
//! shapes like the model's, smaller on a processor that plays a GPU. A product's time is the sum
//! over the quantizations of the model, weighted by their bytes. A second round repeats what is
//! near the best, since one dispatch of a GPU is shorter than its clock's grain.

use super::check::output;
use super::choice::{Choice, Role};
use super::kernels::attention_case::{self, AttentionCase};
use super::kernels::qk_rope_append_case::{self, AppendCase, Judged};
use super::kernels::{linear, rms_norm};
use super::operations::RowClass;
use super::plan::Plan;
use super::recorder::{Extents, Pipelines, Recorder, Recording};
use super::report::{Pace, Timing, Verdict};
use super::self_check::{Depth, Model, check};
use super::stopwatch::{Lap, time};
use super::{Capabilities, Gpu, GpuError};
use crate::backend::ops::Cache;
use crate::backend::{Outline, RopeKind};
use crate::gguf::GgmlType;

/// Roles that are measured. The sampler has its variant by the kind of the plan: what it takes
/// is a small part of a step.
const MEASURED: [Role; 8] = [
    Role::Norm,
    Role::Rope,
    Role::Linear(RowClass::One),
    Role::Linear(RowClass::Few),
    Role::Linear(RowClass::Many),
    Role::Attention(RowClass::One),
    Role::Attention(RowClass::Few),
    Role::Attention(RowClass::Many),
];

/// A variant has to be this much faster than the plan's own to take its place: less is chance.
const CLEARLY: f64 = 0.95;

/// What is slower than this many times the best is not timed again.
const NEAR: f64 = 2.0;

/// The most repeats of a dispatch, and the longest that they may take together, microseconds.
const MOST_REPEATS: f64 = 64.0;
const LAP_MICROS: f64 = 4000.0;

/// Types with a smaller share of the weights' bytes decide nothing.
const LEAST_SHARE: f64 = 0.05;

/// What came out.
#[derive(Clone, Debug, Default)]
pub(super) struct Tuned {
    pub(super) checks: Vec<Verdict>,
    pub(super) timings: Vec<Timing>,
    pub(super) pace: Option<Pace>,
}

/// One variant on one shape.
struct Entry {
    choice: Choice,
    format: Option<GgmlType>,
    /// What its time counts for.
    weight: f64,
    recording: Recording,
    extents: Extents,
    micros: f64,
}

/// Times the variants of all roles but the `given` ones and changes the plan to the fastest.
///
/// # Errors
/// The device's.
pub(super) async fn tune(
    gpu: &Gpu,
    pipelines: &mut Pipelines,
    plan: &mut Plan,
    (model, outline, fast): (&Model<'_>, &Outline, bool),
    (given, now_ms): (&[Role], &dyn Fn() -> f64),
) -> Result<Tuned, GpuError> {
    let capabilities = gpu.capabilities();
    let roles = MEASURED.iter().filter(|role| !given.contains(role));
    let candidates: Vec<_> = roles
        .flat_map(|role| role.candidates(capabilities, &model.layout, fast))
        .collect();
    let checks = check(gpu, pipelines, model, &candidates, Depth::Glance).await?;
    let right = candidates.iter().zip(&checks);
    let right: Vec<_> = right
        .filter(|(_, verdict)| verdict.fault.is_none())
        .map(|(choice, _)| *choice)
        .collect();
    let workload = Workload::new(gpu, model, outline)?;
    let mut entries = Vec::new();
    for &choice in &right {
        workload.record(gpu, pipelines, choice, &mut entries)?;
    }
    measure(gpu, &mut entries, now_ms).await?;
    for role in MEASURED {
        let Some(best) = fastest(&entries, role) else {
            continue;
        };
        let kept = total(&entries, plan.choice(role));
        if kept.is_none_or(|kept| total(&entries, best).is_some_and(|best| best < CLEARLY * kept)) {
            plan.prefer(best);
        }
    }
    follow(plan, given);
    let faulty = checks.into_iter().filter(|it| it.fault.is_some());
    Ok(Tuned {
        checks: faulty.collect(),
        timings: entries.iter().map(Entry::timing).collect(),
        pace: workload.pace(&entries, plan, outline),
    })
}

/// The sampler divides its work as the norms do.
fn follow(plan: &mut Plan, given: &[Role]) {
    use super::kernels::sample;
    if given.contains(&Role::Sample) {
        return;
    }
    plan.prefer(Choice::Sample(match plan.norm() {
        rms_norm::Variant::Serial => sample::Variant::Serial,
        rms_norm::Variant::Tree | rms_norm::Variant::Subgroup => sample::Variant::Tree,
    }));
}

async fn measure(
    gpu: &Gpu,
    entries: &mut [Entry],
    now_ms: &dyn Fn() -> f64,
) -> Result<(), GpuError> {
    // What is run for the first time may be compiled for it: that run is not looked at.
    for round in 0..2 {
        let laps: Vec<_> = entries.iter().map(|entry| entry.lap(1)).collect();
        let times = time(gpu, &laps, now_ms).await?;
        for (entry, micros) in entries.iter_mut().zip(times) {
            entry.micros = micros;
        }
        if round == 0 && gpu.capabilities().is_software {
            continue;
        }
    }
    let near: Vec<_> = (0..entries.len())
        .filter(|&i| {
            let entry = &entries[i];
            let rivals = entries
                .iter()
                .filter(|it| it.choice.role() == entry.choice.role() && it.format == entry.format);
            let best = rivals.map(|it| it.micros).fold(f64::INFINITY, f64::min);
            entry.micros <= NEAR * best
        })
        .collect();
    let repeats = |micros: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 to 64"
        )]
        let repeats = (LAP_MICROS / micros.max(1.0)).clamp(1.0, MOST_REPEATS) as u32;
        repeats
    };
    let laps: Vec<_> = near
        .iter()
        .map(|&i| entries[i].lap(repeats(entries[i].micros)))
        .collect();
    let times = time(gpu, &laps, now_ms).await?;
    for (i, micros) in near.into_iter().zip(times) {
        let entry = &mut entries[i];
        // One run that was interrupted is no longer one; a short one was below the grain.
        entry.micros = match entry.micros > LAP_MICROS {
            true => entry.micros.min(micros),
            false => micros,
        };
    }
    Ok(())
}

/// Weighted time of a variant; `None` where it was not timed.
fn total(entries: &[Entry], choice: Choice) -> Option<f64> {
    let mine = entries.iter().filter(|entry| entry.choice == choice);
    let times: Vec<_> = mine.map(|entry| entry.weight * entry.micros).collect();
    (!times.is_empty()).then(|| times.iter().sum())
}

fn fastest(entries: &[Entry], role: Role) -> Option<Choice> {
    let mine = entries.iter().filter(|entry| entry.choice.role() == role);
    let timed = mine.filter_map(|entry| Some((total(entries, entry.choice)?, entry.choice)));
    timed
        .min_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, choice)| choice)
}

impl Entry {
    fn lap(&self, repeats: u32) -> Lap<'_> {
        Lap {
            recording: &self.recording,
            extents: self.extents,
            repeats,
        }
    }

    fn timing(&self) -> Timing {
        Timing {
            role: self.choice.role().name().to_owned(),
            variant: self.choice.name(),
            format: self.format.map(|ty| ty.name().to_owned()),
            micros: self.micros,
        }
    }
}

/// Shapes that are timed.
struct Workload<'a> {
    model: &'a Model<'a>,
    /// Types that matter, with their share of the bytes.
    types: Vec<(GgmlType, f64)>,
    /// `[T, K, N]` of each row class, and their buffers for each type.
    sizes: [[usize; 3]; 3],
    products: Vec<[linear::Timed; 3]>,
    width: usize,
}

impl<'a> Workload<'a> {
    fn new(gpu: &Gpu, model: &'a Model<'a>, outline: &Outline) -> Result<Self, GpuError> {
        let types = shares(&outline.types);
        // Whole superblocks, and no longer than the rows of a middling model.
        let width = outline.shape.hidden_size.next_multiple_of(256);
        let sizes = sizes(gpu.capabilities(), width.clamp(256, 2048));
        let mut products = Vec::new();
        for &(ty, _) in &types {
            let [one, few, many] = sizes.map(|size| linear::Timed::new(gpu, ty, size));
            products.push([one?, few?, many?]);
        }
        Ok(Self {
            model,
            types,
            sizes,
            products,
            width,
        })
    }

    fn record(
        &self,
        gpu: &Gpu,
        pipelines: &mut Pipelines,
        choice: Choice,
        entries: &mut Vec<Entry>,
    ) -> Result<(), GpuError> {
        let mut add = |format, weight, recording, extents| {
            entries.push(Entry {
                choice,
                format,
                weight,
                recording,
                extents,
                micros: f64::INFINITY,
            });
        };
        let case = match choice {
            Choice::Linear(class, variant) => {
                for (&(ty, share), timed) in self.types.iter().zip(&self.products) {
                    let timed = &timed[class as usize];
                    let mut recorder = Recorder::new(gpu, pipelines);
                    timed.record(&mut recorder, variant)?;
                    add(Some(ty), share, recorder.finish(), timed.extents());
                }
                return Ok(());
            }
            Choice::Norm(variant) => rms_norm::case(gpu, variant, [1, self.width], 5),
            Choice::Rope(variant) => {
                let shape = self.append();
                qk_rope_append_case::case(gpu, variant, (&shape, Judged::Qkv), 5)
            }
            Choice::Attention(class, variant) => {
                attention_case::case(gpu, variant, &self.attention(gpu, class), 5)
            }
            Choice::Sample(_) => return Ok(()),
        };
        let mut recorder = Recorder::new(gpu, pipelines);
        (case.record)(&mut recorder, &output(gpu, &case))?;
        add(None, 1.0, recorder.finish(), case.extents);
        Ok(())
    }

    fn append(&self) -> AppendCase {
        let pairs = self.model.layout.head_dim / 2;
        AppendCase {
            layout: self.model.layout,
            kind: Cache::Full,
            num_heads: self.model.num_heads,
            window: None,
            rope: (pairs > 0).then_some((RopeKind::Interleaved, pairs)),
            norms: [false; 2],
            sequences: vec![[1, 255]],
        }
    }

    fn attention(&self, gpu: &Gpu, class: RowClass) -> AttentionCase {
        let context = match gpu.capabilities().is_software {
            true => 100,
            false => 500,
        };
        AttentionCase {
            layout: self.model.layout,
            kind: Cache::Full,
            num_heads: self.model.num_heads,
            window: None,
            soft_cap: None,
            sequences: vec![[self.sizes[class as usize][0], context]],
        }
    }

    /// What the model would take a token: products by their bytes, the rest by the layers.
    fn pace(&self, entries: &[Entry], plan: &Plan, outline: &Outline) -> Option<Pace> {
        let of = |class: RowClass| {
            let [t, cols, n] = self.sizes[class as usize];
            let per_weight = total(entries, plan.choice(Role::Linear(class)))? / (cols * n) as f64;
            let layers = outline.shape.num_layers + outline.shape.window_layers;
            let attention = total(entries, plan.choice(Role::Attention(class)))?;
            // Norm and rotation are measured on one row; more rows share the device.
            let rest = total(entries, plan.choice(Role::Norm))? * 2.0
                + total(entries, plan.choice(Role::Rope))?;
            let micros = outline.weights() * per_weight
                + layers as f64 * (attention + rest * if t > 1 { 2.0 } else { 1.0 });
            Some(micros / t as f64 / 1000.0)
        };
        Some(Pace {
            decode_ms: of(RowClass::One)?,
            prefill_ms: of(RowClass::Many)?,
        })
    }
}

/// `[T, K, N]` of each row class: enough work that a GPU is busy, little enough that a processor
/// is done with it in milliseconds.
fn sizes(capabilities: &Capabilities, cols: usize) -> [[usize; 3]; 3] {
    match capabilities.is_software {
        true => [[1, cols, 512], [5, cols, 128], [16, cols, 128]],
        false => [[1, cols, 4096], [5, cols, 4096], [64, cols, 2048]],
    }
}

/// Types with their share of the bytes, small ones left out.
fn shares(types: &[(GgmlType, u64)]) -> Vec<(GgmlType, f64)> {
    let all: u64 = types.iter().map(|(_, bytes)| bytes).sum();
    let shares = types
        .iter()
        .map(|&(ty, bytes)| (ty, bytes as f64 / all.max(1) as f64));
    shares.filter(|(_, share)| *share >= LEAST_SHARE).collect()
}
