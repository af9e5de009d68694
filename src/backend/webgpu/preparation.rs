//! Which kernels a model runs on: chosen by measuring, checked, or known from an earlier load.
//!
//! All that is needed is in the model's header, so that this can go on while weights arrive: it
//! has a handle of the device of its own.

use std::collections::BTreeSet;

use super::choice::{Choice, Role};
use super::kernels::linear;
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
        let types = self.types();
        let model = Model {
            types: &types,
            fast: options.fast,
            layout,
            num_heads: self.outline.shape.heads.num_heads,
            has_window: self.outline.shape.window_layers > 0,
            width: self.outline.shape.hidden_size,
        };
        let mut plan = Plan::new(gpu.capabilities(), options, &layout, &model.formats());
        let given = self.choices(&model)?;
        for &choice in &given {
            plan.prefer(choice);
        }
        let mut pipelines = Pipelines::with_fault(options.fault);
        let key = self.key();
        let known = self.given.reports.iter().find(|report| report.key == key);
        if let Some(report) = known
            && let Some(choices) = self.known(report, &model)
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
            let what = (&model, &self.outline);
            let how = (&given[..], self.now_ms);
            tuned = tune(gpu, &mut pipelines, &mut plan, what, how).await?;
        }
        let tuned_at = (self.now_ms)();
        (self.phase)(Phase::Check);
        let verdicts = self_check(gpu, &mut pipelines, &mut plan, &model).await?;
        let report = Report {
            key,
            adapter: gpu.adapter().to_string(),
            variants: in_use(&plan, &model),
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

    /// Types of the weights, the one with most bytes first.
    fn types(&self) -> Vec<GgmlType> {
        let mut types = self.outline.types.clone();
        types.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        types.into_iter().map(|(ty, _)| ty).collect()
    }

    /// The variants that the caller names.
    fn choices(&self, model: &Model<'_>) -> Result<Vec<Choice>, GpuError> {
        let each = self.given.variants.iter();
        let each: Result<Vec<_>, _> = each.map(|it| self.wanted(it, model)).collect();
        Ok(each?.concat())
    }

    /// A variant in all roles of a name. Products that are never rounded take a fast one's
    /// division of work.
    fn wanted(&self, wanted: &InUse, model: &Model<'_>) -> Result<Vec<Choice>, GpuError> {
        let refuse = |known: Vec<String>| GpuError::Variant {
            role: wanted.role.clone(),
            variant: wanted.variant.clone(),
            known: known.join(", "),
        };
        let mut roles = model.roles();
        let mut names: Vec<_> = roles.iter().map(|role| role.name().to_owned()).collect();
        names.dedup();
        let is_meant = |role: &Role| wanted.format.is_none() || role.format() == wanted.format;
        roles.retain(|role| role.name() == wanted.role && is_meant(role));
        if roles.is_empty() {
            return Err(refuse(names));
        }
        let there = |role: Role| role.candidates(self.gpu.capabilities(), &model.layout);
        let named = |role, name: &str| there(role).into_iter().find(|it| it.name() == name);
        let exact = linear::Variant::named(&wanted.variant);
        let exact = exact.map(|variant| format!("{:?}", variant.exact()));
        let found = roles.iter().filter_map(|&role| {
            let same = named(role, &wanted.variant);
            same.or_else(|| named(role, exact.as_deref()?))
        });
        let found: Vec<_> = found.collect();
        if !found.iter().any(|choice| choice.name() == wanted.variant) {
            let known = roles.into_iter().flat_map(there).map(|it| it.name());
            let known: BTreeSet<_> = known.collect();
            return Err(refuse(known.into_iter().collect()));
        }
        Ok(found)
    }

    /// The variants of an earlier load, if all of them are still there.
    fn known(&self, report: &Report, model: &Model<'_>) -> Option<Vec<Choice>> {
        let capabilities = self.gpu.capabilities();
        let choices = model.roles().into_iter().map(|role| {
            let (name, format) = (role.full_name(), role.format());
            let mut kept = report.variants.iter();
            let kept = kept.find(|it| it.role == name && it.format == format)?;
            let mut there = role.candidates(capabilities, &model.layout).into_iter();
            there.find(|choice| choice.name() == kept.variant)
        });
        choices.collect()
    }
}

fn in_use(plan: &Plan, model: &Model<'_>) -> Vec<InUse> {
    let roles = model.roles().into_iter();
    let in_use = roles.map(|role| InUse {
        role: role.full_name(),
        format: role.format(),
        variant: plan.choice(role).name(),
    });
    in_use.collect()
}

/// Faults that were seen before a variant could be chosen, then the checks of the chosen ones.
fn join(mut earlier: Vec<Verdict>, verdicts: Vec<Verdict>) -> Vec<Verdict> {
    earlier.extend(verdicts);
    earlier
}
