//! Which kernels a model runs on: chosen by measuring, checked, or known from an earlier load.
//!
//! All that is needed is in the model's header, so that this can go on while weights arrive: it
//! has a handle of the device of its own.

use super::choice::{Choice, Role};
use super::plan::Plan;
use super::recorder::Pipelines;
use super::report::{InUse, Report, Verdict};
use super::self_check::{Model, compile, self_check};
use super::tune::{Tuned, tune};
use super::{Gpu, GpuError, WebGpuOptions, platform};
use crate::backend::Outline;
use crate::gguf::GgmlType;

/// What a caller brings along.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// Variants by role, instead of the measured ones.
    pub variants: Vec<InUse>,
    /// Reports of earlier loads.
    pub reports: Vec<Report>,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Variants are made and measured.
    Compile,
    /// The chosen ones are checked.
    Check,
}

/// Kernels of a model, ready to be recorded.
#[derive(Debug)]
pub struct Kernels {
    pub(super) plan: Plan,
    pub(super) pipelines: Pipelines,
    pub(super) outline: Outline,
    /// What was found.
    pub report: Report,
    /// Whether an earlier load found it.
    pub is_known: bool,
}

/// The work of finding them.
pub struct Preparation<'a> {
    pub(super) gpu: Gpu,
    pub(super) options: WebGpuOptions,
    pub(super) given: &'a Given,
    pub(super) outline: Outline,
    pub(super) now_ms: &'a dyn Fn() -> f64,
    pub(super) phase: &'a dyn Fn(Phase),
}

impl Preparation<'_> {
    /// Finds the kernels.
    ///
    /// # Errors
    /// [`GpuError::Wrong`] where no variant is right, [`GpuError::Variant`] for one that is not
    /// to be had; the device's.
    pub async fn run(self) -> Result<Kernels, GpuError> {
        let (gpu, options) = (&self.gpu, &self.options);
        let layout = options.layout(gpu.capabilities(), &self.outline.shape);
        let mut plan = Plan::new(gpu.capabilities(), options, &layout);
        let given = self.choices(&layout)?;
        for &choice in &given {
            plan.prefer(choice);
        }
        let types: Vec<GgmlType> = self.outline.types.iter().map(|(ty, _)| *ty).collect();
        let model = Model {
            types: &types,
            layout,
            num_heads: self.outline.shape.heads.num_heads,
            has_window: self.outline.shape.window_layers > 0,
            width: self.outline.shape.hidden_size,
        };
        let mut pipelines = Pipelines::with_fault(options.fault);
        let key = self.key();
        let known = self.given.reports.iter().find(|report| report.key == key);
        if let Some(report) = known
            && let Some(choices) = self.known(report, &layout)
        {
            choices.into_iter().for_each(|choice| plan.prefer(choice));
            (self.phase)(Phase::Compile);
            compile(gpu, &mut pipelines, &plan, &model)?;
            return Ok(Kernels {
                plan,
                pipelines,
                outline: self.outline,
                report: report.clone(),
                is_known: true,
            });
        }
        let started = (self.now_ms)();
        (self.phase)(Phase::Compile);
        let mut tuned = Tuned::default();
        // A plan that was asked for by its kind is taken as it is.
        if options.plan.is_none() {
            let given: Vec<_> = given.iter().map(|choice| choice.role()).collect();
            let what = (&model, &self.outline, options.fast);
            let how = (&given[..], self.now_ms);
            tuned = tune(gpu, &mut pipelines, &mut plan, what, how).await?;
        }
        let tuned_at = (self.now_ms)();
        (self.phase)(Phase::Check);
        let verdicts = self_check(gpu, &mut pipelines, &mut plan, &model).await?;
        let report = Report {
            key,
            adapter: gpu.adapter().to_string(),
            variants: in_use(&plan),
            checks: join(tuned.checks, verdicts),
            timings: tuned.timings,
            pace: tuned.pace,
            check_ms: (self.now_ms)() - tuned_at,
            tune_ms: tuned_at - started,
        };
        Ok(Kernels {
            plan,
            pipelines,
            outline: self.outline,
            report,
            is_known: false,
        })
    }

    /// All that a report depends on.
    fn key(&self) -> String {
        let mut types: Vec<_> = self.outline.types.iter().map(|(ty, _)| ty.name()).collect();
        types.sort_unstable();
        let shape = &self.outline.shape;
        format!(
            "{} | {} | {} | {:?} | {:?} | {:?} | {:?}, C {}, windows {} | {}",
            env!("CARGO_PKG_VERSION"),
            platform::agent(),
            self.gpu.adapter(),
            self.gpu.capabilities(),
            self.options,
            self.given.variants,
            shape.heads,
            shape.hidden_size,
            shape.window_layers > 0,
            types.join(" "),
        )
    }

    /// The variants that the caller names.
    fn choices(&self, layout: &super::kv::KvLayout) -> Result<Vec<Choice>, GpuError> {
        let wanted = self.given.variants.iter();
        wanted
            .map(|it| {
                let unknown = |known: Vec<String>| GpuError::Variant {
                    role: it.role.clone(),
                    variant: it.variant.clone(),
                    known: known.join(", "),
                };
                let role = Role::named(&it.role).ok_or_else(|| {
                    unknown(Role::ALL.map(|role| role.name().to_owned()).to_vec())
                })?;
                let there = role.candidates(self.gpu.capabilities(), layout, true);
                let found = there.iter().find(|choice| choice.name() == it.variant);
                let names = || there.iter().map(|choice| choice.name()).collect();
                found.copied().ok_or_else(|| unknown(names()))
            })
            .collect()
    }

    /// The variants of an earlier load, if all of them are still there.
    fn known(&self, report: &Report, layout: &super::kv::KvLayout) -> Option<Vec<Choice>> {
        let capabilities = self.gpu.capabilities();
        let fast = self.options.fast;
        let choices = report.variants.iter().map(|it| {
            let there = Role::named(&it.role)?.candidates(capabilities, layout, fast);
            there.into_iter().find(|choice| choice.name() == it.variant)
        });
        choices.collect()
    }
}

fn in_use(plan: &Plan) -> Vec<InUse> {
    let choices = Role::ALL.map(|role| plan.choice(role));
    let in_use = choices.map(|choice| InUse {
        role: choice.role().name().to_owned(),
        variant: choice.name(),
    });
    in_use.to_vec()
}

/// Faults that were seen before a variant could be chosen, then the checks of the chosen ones.
fn join(mut earlier: Vec<Verdict>, verdicts: Vec<Verdict>) -> Vec<Verdict> {
    earlier.extend(verdicts);
    earlier
}
