//! What a backend finds out before its first pass, and what it tells of itself.

use super::backend::WebGpuBackend;
use super::operations::RowClass;
use super::prepared::{Prepared, SLOT_BYTES};
use super::recorder::Recording as Recorded;
use super::{
    AdapterDescription, Given, Gpu, GpuError, Kernels, Phase, Preparation, Report, Verdict,
};
use crate::backend::{Outline, Outputs};
use crate::gguf::GgmlType;

/// Reads of nothing that are measured.
const READS_MEASURED: usize = 4;

/// Below this a read is not known to take.
const LEAST_READ_MS: f64 = 0.02;

impl WebGpuBackend {
    /// With what the caller brings along.
    #[must_use]
    pub fn with_given(mut self, given: Given) -> Self {
        self.given = given;
        self
    }

    /// Names of the adapter.
    #[must_use]
    pub fn adapter(&self) -> &AdapterDescription {
        self.gpu.adapter()
    }

    /// The device.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// How the checks of the kernels went that the model needs.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        self.report().map_or(&[], |report| &report.checks)
    }

    /// What was found out about the device; `None` before
    /// [`ready`](crate::backend::Backend::ready).
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.kernels.as_ref().map(|kernels| &kernels.report)
    }

    /// Whether an earlier load had found it.
    #[must_use]
    pub fn report_is_known(&self) -> bool {
        self.kernels
            .as_ref()
            .is_some_and(|kernels| kernels.is_known)
    }

    /// The work of finding the kernels of a model, which can be done while its weights arrive:
    /// [`adopt`](Self::adopt) takes what comes out.
    ///
    /// # Errors
    /// As [`Preparation::run`].
    pub fn preparation(
        &self,
        outline: Outline,
        phase: Box<dyn Fn(Phase)>,
    ) -> impl Future<Output = Result<Kernels, GpuError>> + use<> {
        let (gpu, options, given) = (self.gpu.clone(), self.options, self.given.clone());
        let now_ms = self.now_ms.clone();
        async move {
            let preparation = Preparation {
                gpu,
                options,
                given: &given,
                outline,
                now_ms: &*now_ms.0,
                phase: &*phase,
            };
            preparation.run().await
        }
    }

    /// Takes kernels that were found before all weights were there.
    pub fn adopt(&mut self, kernels: Kernels) {
        self.kernels = Some(kernels);
    }

    /// Kernels of a decode step in the order of their dispatches; empty before there was one.
    #[must_use]
    pub fn decode_dispatches(&self) -> Vec<&'static str> {
        let recordings = self.prepared.as_ref().map(|prepared| &prepared.recordings);
        let step = recordings.and_then(|all| all.get(&(RowClass::One, Outputs::LastRow)));
        let dispatches = step.map_or(&[][..], Recorded::dispatches);
        dispatches.iter().map(|dispatch| dispatch.kernel).collect()
    }

    /// Finds the kernels, where that was not done before, and sets up what they need.
    pub(super) async fn check_kernels(&mut self) -> Result<(), GpuError> {
        let Some(prepared) = &self.prepared else {
            return Ok(());
        };
        let shape = prepared.shape;
        let outline = Outline {
            shape,
            types: self.types.clone(),
            head: None,
        };
        // Another shard may have brought types that were not known.
        let suits = |kernels: &Kernels| {
            let known = &kernels.outline;
            let knows = |(ty, _): &(GgmlType, u64)| known.types.iter().any(|(it, _)| it == ty);
            known.shape == shape && outline.types.iter().all(knows)
        };
        let mut kernels = match self.kernels.take().filter(suits) {
            Some(kernels) => kernels,
            None => self.preparation(outline, Box::new(|_| ())).await?,
        };
        if !kernels.pipelines.is_empty() {
            self.pipelines = std::mem::take(&mut kernels.pipelines);
        }
        if kernels.plan != prepared.plan {
            let weights = (&self.matrices[..], &self.ledger.ropes[..]);
            let plan = Some(kernels.plan.clone());
            let prepared = Prepared::new(&self.gpu, &self.options, &shape, weights, plan)?;
            self.prepared = Some(prepared);
        }
        self.kernels = Some(kernels);
        Ok(())
    }

    /// Time that reading takes where there is no work to wait for: the least of a few.
    pub(super) async fn measure_reading(&mut self) -> Result<(), GpuError> {
        let Some(prepared) = &self.prepared else {
            return Ok(());
        };
        let mut least = f64::INFINITY;
        for _ in 0..READS_MEASURED {
            let started = (self.now_ms.0)();
            self.gpu.read(&prepared.ring, SLOT_BYTES).await?;
            least = least.min((self.now_ms.0)() - started);
        }
        // A clock too coarse to see it must not pretend that reading is free.
        self.read_ms = least.max(LEAST_READ_MS);
        Ok(())
    }
}
