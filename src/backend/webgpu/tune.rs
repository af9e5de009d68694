//! Variants chosen by a short measurement on the device at hand.
//!
//! Every variant of a role first computes one small case; the right ones are then timed on
//! shapes like the model's, smaller on a processor that plays a GPU. Products are timed for each
//! quantization of the model by itself, and each has a variant of its own. A second round repeats
//! what is near the best, since one dispatch of a GPU is shorter than its clock's grain.

use super::check::output;
use super::choice::{Choice, Products, Role};
use super::kernels::attention_case::{self, AttentionCase};
use super::kernels::qk_rope_append_case::{self, AppendCase, Judged};
use super::kernels::{linear, rms_norm, sample};
use super::operations::RowClass;
use super::plan::Plan;
use super::planes::PlaneFormat;
use super::recorder::{Extents, Pipelines, Recorder, Recording};
use super::report::{Timing, Verdict};
use super::self_check::{Depth, Model, check};
use super::stopwatch::{Lap, time};
use super::{Capabilities, Gpu, GpuError};
use crate::backend::ops::Cache;
use crate::backend::{Outline, Pace, RopeKind};
use crate::gguf::GgmlType;

/// Rows of the products that decide between variants with barriers and without.
const DECIDING: RowClass = RowClass::One;

/// A variant has to be this much faster than the plan's own to take its place: less is chance.
const CLEARLY: f64 = 0.95;

/// What is slower than this many times the best is not timed again.
const NEAR: f64 = 2.0;

/// Runs of each variant by itself.
const SINGLE_RUNS: usize = 3;

/// The most repeats of a dispatch, and the longest that they may take together, microseconds.
const MOST_REPEATS: f64 = 64.0;
const LAP_MICROS: f64 = 4000.0;

/// Rows of a prompt that are normalized.
const PROMPT_ROWS: usize = 16;

/// Formats with a smaller share of the weights' bytes are not timed: they take what the main one
/// does.
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
    (model, outline): (&Model<'_>, &Outline),
    (given, now_ms): (&[Role], &dyn Fn() -> f64),
) -> Result<Tuned, GpuError> {
    let mut search = Search {
        gpu,
        pipelines,
        model,
        workload: Workload::new(gpu, model, outline)?,
        now_ms,
        entries: Vec::new(),
        faulty: Vec::new(),
    };
    let measured = search.workload.measured();
    // Decode's products first: they tell whether this device is one for barriers, and so which
    // half of the others need not even be compiled.
    let (first, others): (Vec<Role>, Vec<Role>) = measured.into_iter().partition(decides);
    search.time_all(&first, |_| true).await?;
    let suits = search.division();
    for &role in others.iter().filter(|role| !given.contains(role)) {
        let suits = |choice: &Choice| role == Role::Norm || suits(choice);
        search.time_all(&[role], suits).await?;
    }
    for role in model.roles() {
        if !given.contains(&role)
            && let Some(best) = search.better(plan.choice(role))
        {
            plan.prefer(best);
        }
    }
    if !given.contains(&Role::Sample) {
        // The sampler divides its work as the products do.
        let cooperates = plan.main_linear(DECIDING).is_cooperative();
        let variants = [sample::Variant::Serial, sample::Variant::Tree];
        plan.prefer(Choice::Sample(variants[usize::from(cooperates)]));
    }
    let timings = search.entries.iter().map(Entry::timing).collect();
    Ok(Tuned {
        timings,
        pace: search.workload.pace(&search.entries, plan, outline),
        checks: search.faulty,
    })
}

fn decides(role: &Role) -> bool {
    matches!(role, Role::Linear(products) if products.class == DECIDING)
}

/// Variants being timed.
struct Search<'a> {
    gpu: &'a Gpu,
    pipelines: &'a mut Pipelines,
    model: &'a Model<'a>,
    workload: Workload<'a>,
    now_ms: &'a dyn Fn() -> f64,
    entries: Vec<Entry>,
    faulty: Vec<Verdict>,
}

impl Search<'_> {
    /// Times the candidates for roles that suit and compute a small case right.
    async fn time_all(
        &mut self,
        roles: &[Role],
        suits: impl Fn(&Choice) -> bool,
    ) -> Result<(), GpuError> {
        let of = |role: &Role| role.candidates(self.gpu.capabilities(), &self.model.layout);
        let mut choices: Vec<_> = roles.iter().flat_map(of).collect();
        choices.retain(suits);
        let checks = check(
            self.gpu,
            self.pipelines,
            self.model,
            &choices,
            Depth::Glance,
        )
        .await?;
        let first = self.entries.len();
        for (choice, verdict) in choices.into_iter().zip(checks) {
            if verdict.fault.is_some() {
                self.faulty.push(verdict);
                continue;
            }
            let entries = &mut self.entries;
            self.workload
                .record(self.gpu, self.pipelines, choice, entries)?;
        }
        measure(self.gpu, &mut self.entries[first..], self.now_ms).await
    }

    /// Which other variants are worth a look: those with barriers, those without, or all.
    fn division(&self) -> impl Fn(&Choice) -> bool + use<> {
        let roles = self.workload.measured().into_iter().filter(decides);
        let roles: Vec<_> = roles.collect();
        let best = |cooperates: bool| -> f64 {
            let each = roles.iter().map(|&role| {
                let mine = self.entries.iter().filter(|entry| {
                    entry.choice.role() == role && entry.choice.cooperates() == cooperates
                });
                let times = mine.map(|entry| entry.weight * entry.micros);
                times.fold(f64::INFINITY, f64::min)
            });
            each.sum()
        };
        let (apart, together) = (best(false), best(true));
        move |choice| match choice.cooperates() {
            true => together <= NEAR * apart,
            false => apart <= NEAR * together,
        }
    }

    /// The fastest variant in the role of one that it clearly beats.
    fn better(&self, kept: Choice) -> Option<Choice> {
        let timed = self.workload.timed_role(kept.role());
        let timed_choice = |choice: Choice| choice.in_role(timed);
        let rivals = self.entries.iter().map(|entry| entry.choice);
        let rivals = rivals.filter(|choice| choice.role() == timed);
        let rivals = rivals.filter_map(|choice| Some((choice.in_role(kept.role())?, choice)));
        let times = rivals.filter_map(|(mine, choice)| Some((total(&self.entries, choice)?, mine)));
        let (micros, best) = times.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let kept = timed_choice(kept).and_then(|kept| total(&self.entries, kept));
        kept.is_none_or(|kept| micros < CLEARLY * kept)
            .then_some(best)
    }
}

async fn measure(
    gpu: &Gpu,
    entries: &mut [Entry],
    now_ms: &dyn Fn() -> f64,
) -> Result<(), GpuError> {
    // What is run for the first time may be compiled for it: that run is not looked at. Of the
    // others the shortest counts, since a busy machine interrupts some.
    for round in 0..=SINGLE_RUNS {
        let laps: Vec<_> = entries.iter().map(|entry| entry.lap(1)).collect();
        let times = time(gpu, &laps, now_ms).await?;
        for (entry, micros) in entries.iter_mut().zip(times) {
            if round > 0 {
                entry.micros = entry.micros.min(micros);
            }
        }
    }
    let near: Vec<_> = (0..entries.len())
        .filter(|&i| {
            let entry = &entries[i];
            let rivals = entries
                .iter()
                .filter(|it| it.choice.role() == entry.choice.role());
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
    let first = time(gpu, &laps, now_ms).await?;
    let second = time(gpu, &laps, now_ms).await?;
    for (i, (first, second)) in near.into_iter().zip(first.into_iter().zip(second)) {
        // A single run was below the clock's grain, or is as good as several.
        let entry = &mut entries[i];
        let repeated = first.min(second);
        entry.micros = match entry.micros > LAP_MICROS {
            true => entry.micros.min(repeated),
            false => repeated,
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
            // Whose activations may be rounded has nothing to do with times.
            role: self.choice.role().name().to_owned(),
            variant: self.choice.name(),
            format: self.choice.role().format(),
            micros: self.micros,
        }
    }
}

/// Shapes that are timed.
struct Workload<'a> {
    model: &'a Model<'a>,
    /// Formats that are timed, the main one first, with their share of the bytes.
    formats: Vec<(PlaneFormat, f64)>,
    /// `[T, K, N]` of each row class, and their buffers for each format.
    sizes: [[usize; 3]; 3],
    products: Vec<[linear::Timed; 3]>,
    width: usize,
}

impl<'a> Workload<'a> {
    fn new(gpu: &Gpu, model: &'a Model<'a>, outline: &Outline) -> Result<Self, GpuError> {
        let shares = shares(&outline.types);
        // Whole superblocks, and no longer than the rows of a middling model.
        let width = outline.shape.hidden_size.next_multiple_of(256);
        let sizes = sizes(gpu.capabilities(), width.clamp(256, 2048));
        let mut products = Vec::new();
        for &(ty, _) in &shares {
            let [one, few, many] = sizes.map(|size| linear::Timed::new(gpu, ty, size));
            products.push([one?, few?, many?]);
        }
        Ok(Self {
            model,
            formats: shares
                .iter()
                .map(|&(ty, share)| (PlaneFormat::of(ty), share))
                .collect(),
            sizes,
            products,
            width,
        })
    }

    /// What is timed. The sampler's share of a step is small.
    fn measured(&self) -> Vec<Role> {
        let formats: Vec<_> = self.formats.iter().map(|&(format, _)| format).collect();
        let mut roles = Role::all(&formats, self.model.fast);
        roles.retain(|&role| role != Role::Sample && self.timed_role(role) == role);
        roles
    }

    /// The role whose times tell of another: products that may be rounded are timed with those
    /// of the same rows that may not be, and formats of few bytes with the main one.
    fn timed_role(&self, role: Role) -> Role {
        let Role::Linear(products) = role else {
            return role;
        };
        let is_timed = |format| self.formats.iter().any(|&(it, _)| it == format);
        let main = self.formats.first().map(|&(format, _)| format);
        Role::Linear(Products {
            rounds: self.model.fast,
            format: match main {
                Some(main) if !is_timed(products.format) => main,
                _ => products.format,
            },
            ..products
        })
    }

    fn record(
        &self,
        gpu: &Gpu,
        pipelines: &mut Pipelines,
        choice: Choice,
        entries: &mut Vec<Entry>,
    ) -> Result<(), GpuError> {
        let mut add = |weight, recording, extents| {
            entries.push(Entry {
                choice,
                weight,
                recording,
                extents,
                micros: f64::INFINITY,
            });
        };
        let case = match choice {
            Choice::Linear(its, variant) => {
                for (&(format, share), timed) in self.formats.iter().zip(&self.products) {
                    if format == its.format {
                        let timed = &timed[its.class as usize];
                        let mut recorder = Recorder::new(gpu, pipelines);
                        timed.record(&mut recorder, variant)?;
                        add(share, recorder.finish(), timed.extents());
                    }
                }
                return Ok(());
            }
            // As in decode, and as in prefill: a variant serves both.
            Choice::Norm(variant) => {
                let few = rms_norm::case(gpu, variant, [1, self.width], 5);
                let many = rms_norm::case(gpu, variant, [PROMPT_ROWS, self.width], 5);
                for case in [few, many] {
                    let mut recorder = Recorder::new(gpu, pipelines);
                    (case.record)(&mut recorder, &output(gpu, &case))?;
                    add(0.5, recorder.finish(), case.extents);
                }
                return Ok(());
            }
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
        add(1.0, recorder.finish(), case.extents);
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
            let per_weight = self.products_micros(entries, plan, class)? / (cols * n) as f64;
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

    /// Time of one product, over the formats by their shares.
    fn products_micros(&self, entries: &[Entry], plan: &Plan, class: RowClass) -> Option<f64> {
        let each = self.formats.iter().map(|&(format, _)| {
            let rounds = self.model.fast;
            let role = Role::Linear(Products {
                class,
                format,
                rounds,
            });
            total(entries, plan.choice(role))
        });
        each.sum()
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

/// A type of each format with the format's share of the bytes, the main one first, small ones left
/// out.
fn shares(types: &[(GgmlType, u64)]) -> Vec<(GgmlType, f64)> {
    let all: u64 = types.iter().map(|(_, bytes)| bytes).sum();
    let mut shares: Vec<(GgmlType, f64)> = Vec::new();
    for &(ty, bytes) in types {
        let share = bytes as f64 / all.max(1) as f64;
        let same = |it: &&mut (GgmlType, f64)| PlaneFormat::of(it.0) == PlaneFormat::of(ty);
        match shares.iter_mut().find(same) {
            Some((_, known)) => *known += share,
            None => shares.push((ty, share)),
        }
    }
    shares.retain(|(_, share)| *share >= LEAST_SHARE);
    shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    shares
}
