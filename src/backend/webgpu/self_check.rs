//! The kernels that a model needs, on the device at hand, before the model is used.
//!
//! Each variant of the plan is compared with its plain twin on tiny seeded inputs, one long row
//! and one long context among them, all in one submission. A variant that is wrong, or that
//! the device refuses, gives way to the next safer one, which is checked in turn.

use super::check::{Case, Outcome, output, run_all};
use super::choice::{Choice, Products, Role};
use super::kernels::attention_case::{self, AttentionCase};
use super::kernels::qk_rope_append_case::{self, AppendCase, Judged};
use super::kernels::sample::Variant as SampleVariant;
use super::kernels::sample_case::{Trial, TrialError};
use super::kernels::{
    attention, embed, linear, norm_add, qk_rope_append, rms_norm, rms_norm_span, rope_table,
};
use super::kv::KvLayout;
use super::operations::RowClass;
use super::plan::Plan;
use super::planes::PlaneFormat;
use super::recorder::{Pipelines, Recorder};
use super::sampler::{SampleStep, read_slot};
use super::{Gpu, GpuError, Verdict};
use crate::backend::ops::{Activation, Cache};
use crate::backend::{RopeKind, SampleParams, sample};
use crate::gguf::GgmlType;

/// Seed of all inputs.
const SEED: u64 = 11;

/// A context that spans blocks and splits.
const LONG_CONTEXT: usize = 700;

/// A row long enough that errors of summation would show.
const LONG_ROW: usize = 8192;

/// What is checked.
#[derive(Clone, Debug)]
pub(super) struct Model<'a> {
    /// Types of the matrices, each once, the one with most bytes first.
    pub(super) types: &'a [GgmlType],
    /// Whether products may be rounded.
    pub(super) fast: bool,
    /// Shape of the cache.
    pub(super) layout: KvLayout,
    /// `H`.
    pub(super) num_heads: usize,
    /// Whether layers have windows.
    pub(super) has_window: bool,
    /// `C`.
    pub(super) width: usize,
}

impl Model<'_> {
    /// Formats of the weights, each once, the main one first.
    pub(super) fn formats(&self) -> Vec<PlaneFormat> {
        let mut formats = Vec::new();
        for format in self.types.iter().map(|&ty| PlaneFormat::of(ty)) {
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        formats
    }

    pub(super) fn roles(&self) -> Vec<Role> {
        Role::all(&self.formats(), self.fast)
    }

    /// Types that lie in a format.
    fn types_in(&self, format: PlaneFormat) -> impl Iterator<Item = GgmlType> {
        let types = self.types.iter().copied();
        types.filter(move |&ty| PlaneFormat::of(ty) == format)
    }

    fn is_main(&self, format: PlaneFormat) -> bool {
        self.types
            .first()
            .is_some_and(|&ty| PlaneFormat::of(ty) == format)
    }
}

/// Checks a plan, and changes it where a variant is wrong.
///
/// # Errors
/// [`GpuError::Wrong`] where no variant is right; the device's.
pub(super) async fn self_check(
    gpu: &Gpu,
    pipelines: &mut Pipelines,
    plan: &mut Plan,
    model: &Model<'_>,
) -> Result<Vec<Verdict>, GpuError> {
    let mut verdicts = Vec::new();
    let mut unchecked = model.roles();
    let shared = shared_cases(gpu, model)?;
    for outcome in run_all(gpu, pipelines, &shared).await? {
        if let Some(fault) = outcome.fault {
            return Err(wrong(&outcome.kernel, &fault));
        }
    }
    while !unchecked.is_empty() {
        let choices: Vec<_> = unchecked.iter().map(|&role| plan.choice(role)).collect();
        let mut again = Vec::new();
        let found = check(gpu, pipelines, model, &choices, Depth::Whole).await?;
        for (choice, verdict) in choices.into_iter().zip(found) {
            if let Some(fault) = &verdict.fault {
                let (role, name) = (choice.role(), choice.full_name());
                log::warn!("{name} is wrong on this device: {fault}");
                if !plan.demote(role) {
                    return Err(wrong(&name, fault));
                }
                again.push(role);
            }
            verdicts.push(verdict);
        }
        unchecked = again;
    }
    Ok(verdicts)
}

fn wrong(kernel: &str, fault: &str) -> GpuError {
    GpuError::Wrong {
        kernel: kernel.to_owned(),
        fault: fault.to_owned(),
    }
}

/// Makes the pipelines of a plan without waiting for them or running anything: the device
/// compiles while weights arrive.
///
/// # Errors
/// The device's.
pub(super) fn compile(
    gpu: &Gpu,
    pipelines: &mut Pipelines,
    plan: &Plan,
    model: &Model<'_>,
) -> Result<(), GpuError> {
    let mut cases = shared_cases(gpu, model)?;
    for role in model.roles() {
        cases.extend(cases_of(gpu, model, plan.choice(role), Depth::Pipelines)?);
    }
    for case in cases {
        let mut recorder = Recorder::new(gpu, pipelines);
        (case.record)(&mut recorder, &output(gpu, &case))?;
    }
    Ok(())
}

/// How much of a variant is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// All that a model may ask of it.
    Whole,
    /// One small case: enough to be timed.
    Glance,
    /// Small cases that make all pipelines.
    Pipelines,
}

/// The first fault of each variant, all of them in one submission.
///
/// # Errors
/// The device's.
pub(super) async fn check(
    gpu: &Gpu,
    pipelines: &mut Pipelines,
    model: &Model<'_>,
    choices: &[Choice],
    depth: Depth,
) -> Result<Vec<Verdict>, GpuError> {
    let mut cases = Vec::new();
    let mut owners = Vec::new();
    for (index, &choice) in choices.iter().enumerate() {
        let mut mine = cases_of(gpu, model, choice, depth)?;
        if depth == Depth::Glance {
            mine.truncate(1);
        }
        owners.extend(mine.iter().map(|_| index));
        cases.extend(mine);
    }
    let outcomes = run_all(gpu, pipelines, &cases).await?;
    let mut verdicts: Vec<_> = choices
        .iter()
        .map(|choice| Verdict {
            role: choice.role().full_name(),
            format: choice.role().format(),
            variant: choice.name(),
            fault: None,
        })
        .collect();
    for (
        Outcome {
            fault, description, ..
        },
        owner,
    ) in outcomes.into_iter().zip(owners)
    {
        let fault = fault.map(|fault| format!("{description}: {fault}"));
        let known = &mut verdicts[owner].fault;
        *known = known.take().or(fault);
    }
    for (choice, verdict) in choices.iter().zip(&mut verdicts) {
        if let Choice::Sample(variant) = choice {
            verdict.fault = sampler_fault(gpu, *variant).await?;
        }
    }
    Ok(verdicts)
}

/// Kernels that have one variant.
fn shared_cases(gpu: &Gpu, model: &Model<'_>) -> Result<Vec<Case>, GpuError> {
    let mut cases = vec![rope_table::case(gpu, [3, LONG_CONTEXT, 19])];
    for &ty in model.types {
        cases.push(embed::case(gpu, &[(ty, 9)], [3, 256], None, SEED)?);
    }
    Ok(cases)
}

fn cases_of(
    gpu: &Gpu,
    model: &Model<'_>,
    choice: Choice,
    depth: Depth,
) -> Result<Vec<Case>, GpuError> {
    match choice {
        Choice::Norm(variant) if depth == Depth::Pipelines => {
            Ok(vec![rms_norm::case(gpu, variant, [1, 64], SEED)])
        }
        Choice::Norm(variant) => Ok(norms(gpu, variant)),
        Choice::Rope(variant) => Ok(ropes(gpu, variant, model)),
        Choice::Sample(_) => Ok(Vec::new()),
        Choice::Linear(its, variant) if depth == Depth::Glance => {
            let (store, size) = (linear::Shape::Store(0, true), [rows(its.class), 256]);
            let parts: Vec<_> = model.types_in(its.format).map(|ty| (ty, 9)).collect();
            let case = linear::case(gpu, variant, store, &parts, size, SEED)?;
            Ok(vec![case])
        }
        Choice::Linear(its, variant) if depth == Depth::Pipelines => {
            certain_products(gpu, variant, model, its)
        }
        Choice::Linear(its, variant) => products(gpu, variant, model, its),
        Choice::Attention(class, variant) => Ok(attentions(gpu, variant, model, (class, depth))),
    }
}

fn norms(gpu: &Gpu, variant: rms_norm::Variant) -> Vec<Case> {
    vec![
        rms_norm::case(gpu, variant, [3, 577], SEED),
        norm_add::case(gpu, variant, [3, 577], SEED),
        rms_norm_span::case(gpu, variant, [3, 160, 32, 65], SEED),
    ]
}

/// Rows of a pass of a class, an odd number of them.
fn rows(class: RowClass) -> usize {
    match class {
        RowClass::One => 1,
        RowClass::Few => 5,
        RowClass::Many => 21,
    }
}

fn products(
    gpu: &Gpu,
    variant: linear::Variant,
    model: &Model<'_>,
    its: Products,
) -> Result<Vec<Case>, GpuError> {
    use linear::Shape;
    let rows = rows(its.class);
    let (store, size) = (Shape::Store(0, true), [rows, 768]);
    let mut cases = Vec::new();
    for ty in model.types_in(its.format) {
        cases.push(linear::case(gpu, variant, store, &[(ty, 70)], size, SEED)?);
    }
    // What becomes of products has nothing to do with how weights lie.
    let main = model
        .types_in(its.format)
        .filter(|_| model.is_main(its.format));
    for ty in main.take(1) {
        for shape in [
            Shape::Add(true),
            Shape::Gate(Activation::Silu),
            Shape::Gate(Activation::GeluTanh),
            Shape::Logits(1, true),
        ] {
            let variant = match shape {
                Shape::Logits(..) => variant.exact(),
                _ => variant,
            };
            cases.push(linear::case(gpu, variant, shape, &[(ty, 70)], size, SEED)?);
        }
        let size = [rows, LONG_ROW];
        cases.push(linear::case(gpu, variant, store, &[(ty, 8)], size, SEED)?);
    }
    Ok(cases)
}

/// Small cases of the products that most models have: without biases, and rows as long as the
/// model's, on which the lanes of a workgroup depend.
fn certain_products(
    gpu: &Gpu,
    variant: linear::Variant,
    model: &Model<'_>,
    its: Products,
) -> Result<Vec<Case>, GpuError> {
    use linear::Shape;
    let size = [rows(its.class), model.width.next_multiple_of(256)];
    let mut cases = Vec::new();
    for ty in model.types_in(its.format).take(1) {
        for shape in [
            Shape::Store(0, false),
            Shape::Add(false),
            Shape::Gate(Activation::Silu),
        ] {
            cases.push(linear::case(gpu, variant, shape, &[(ty, 8)], size, SEED)?);
        }
    }
    Ok(cases)
}

fn ropes(gpu: &Gpu, variant: qk_rope_append::Variant, model: &Model<'_>) -> Vec<Case> {
    let pairs = model.layout.head_dim / 2;
    let mut cases = Vec::new();
    for (kind, norms) in [(RopeKind::Interleaved, false), (RopeKind::Halves, true)] {
        let shape = AppendCase {
            layout: model.layout,
            kind: Cache::Full,
            num_heads: model.num_heads,
            window: None,
            rope: (pairs > 0).then_some((kind, pairs)),
            norms: [norms; 2],
            sequences: vec![[3, 255]],
        };
        for judged in [Judged::Qkv, Judged::Cache] {
            let case = qk_rope_append_case::case(gpu, variant, (&shape, judged), SEED);
            cases.push(case);
        }
    }
    cases
}

fn attentions(
    gpu: &Gpu,
    variant: attention::Variant,
    model: &Model<'_>,
    (class, depth): (RowClass, Depth),
) -> Vec<Case> {
    let rows = rows(class);
    let long = match depth {
        Depth::Whole => LONG_CONTEXT,
        Depth::Glance | Depth::Pipelines => 20,
    };
    let full = AttentionCase {
        layout: model.layout,
        kind: Cache::Full,
        num_heads: model.num_heads,
        window: None,
        soft_cap: None,
        sequences: vec![[rows, long]],
    };
    let mut shapes = vec![
        AttentionCase {
            soft_cap: Some(30.0),
            sequences: vec![[rows, 0]],
            ..full.clone()
        },
        full.clone(),
    ];
    if model.has_window {
        shapes.push(AttentionCase {
            kind: Cache::Window,
            window: Some(37),
            ..full
        });
    }
    let cases = shapes.iter();
    cases
        .map(|shape| attention_case::case(gpu, variant, shape, SEED))
        .collect()
}

/// Greedy and drawn tokens against the host's sampler.
async fn sampler_fault(gpu: &Gpu, variant: SampleVariant) -> Result<Option<String>, GpuError> {
    const VOCAB: usize = 1001;
    let mut seeded = super::check::Seeded::new(SEED);
    let logits: Vec<f32> = (0..VOCAB).map(|_| 6.0 * seeded.value()).collect();
    let mut trial = Trial::new(gpu, variant, VOCAB, 1);
    trial.write_row(0, &logits);
    let drawn = SampleParams {
        temperature: 0.8,
        top_k: 40,
        top_p: 0.95,
        // Far from any boundary between tokens of these logits would be luck; the two samplers
        // round alike, so that any number does.
        uniform: 0.371,
        ..SampleParams::GREEDY
    };
    for params in [SampleParams::GREEDY, drawn] {
        match trial.submit(&params, &SampleStep::default(), 1).await {
            Ok(()) => {}
            Err(TrialError::Gpu(error @ GpuError::Lost(_))) => return Err(error),
            Err(error) => return Ok(Some(error.to_string())),
        }
        let ring = trial.ring().await?;
        let (got, want) = (read_slot(&ring[0]), sample(&logits, &params));
        if got != want {
            return Ok(Some(format!("{got:?} instead of {want:?}")));
        }
    }
    Ok(None)
}
