//! What a caller may choose of the backend.

use super::kv::KvLayout;
use super::{Capabilities, DeviceOptions, KvFormat};
use crate::backend::ModelShape;

/// Choices of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebGpuOptions {
    /// What to leave unused of the device.
    pub device: DeviceOptions,
    /// How the KV cache is kept; `None`: in f16, on a software adapter in f32.
    pub kv: Option<KvFormat>,
    /// Round activations to int8 where the device multiplies bytes fast.
    pub fast: bool,
    /// Which kernels; `None`: those for the kind of adapter.
    pub plan: Option<PlanKind>,
    /// A fault to plant in a kernel, for tests that see it found.
    pub fault: Option<Fault>,
}

impl WebGpuOptions {
    /// Which kernels a device runs.
    pub(super) fn plan_kind(&self, capabilities: &Capabilities) -> PlanKind {
        self.plan.unwrap_or(if capabilities.is_software {
            PlanKind::Software
        } else {
            PlanKind::Hardware
        })
    }

    /// Shape of the KV cache of a model.
    pub(super) fn layout(&self, capabilities: &Capabilities, shape: &ModelShape) -> KvLayout {
        KvLayout {
            format: self.kv_format(capabilities),
            num_kv_heads: shape.heads.num_kv_heads,
            head_dim: shape.heads.head_dim,
            block_tokens: shape.block_tokens,
        }
    }

    /// How the KV cache is kept: half the bytes, where bytes decide; a processor is rather
    /// spared the conversion.
    pub(super) fn kv_format(&self, capabilities: &Capabilities) -> KvFormat {
        self.kv.unwrap_or(match self.plan_kind(capabilities) {
            PlanKind::Software => KvFormat::F32,
            PlanKind::Hardware => KvFormat::F16,
        })
    }
}

/// A change of a shader's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Entry point of the shader.
    pub kernel: &'static str,
    /// What is replaced.
    pub from: &'static str,
    /// What it becomes.
    pub to: &'static str,
}

/// Two kinds of adapters, two ways to share out the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanKind {
    /// One invocation an output, no barriers: for processors that play a GPU.
    Software,
    /// Workgroups that share the work on an output: for GPUs.
    Hardware,
}
