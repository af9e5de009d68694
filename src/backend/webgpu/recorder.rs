//! Dispatches recorded once and replayed: a pass creates no object of the device.
//!
//! A [`Recorder`] takes dispatches in order, each with its pipeline, its bind group and the
//! extents of its grid. Extents that depend on the step (rows of a pass, positions in the
//! cache) are computed when the [`Recording`] is encoded; everything else is fixed.

use std::collections::HashMap;

use super::shader::{Dialect, Shader};
use super::{Fault, Gpu, GpuError};

/// One extent of a grid, in workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Known when recorded.
    Fixed(u32),
    /// `ceil(T times / per_group)`.
    Rows {
        /// Work items of a row.
        times: u32,
        /// Work items of a workgroup.
        per_group: u32,
    },
    /// `ceil(logit rows times / per_group)`.
    LogitRows {
        /// Work items of a row.
        times: u32,
        /// Work items of a workgroup.
        per_group: u32,
    },
    /// `ceil(positions that the furthest row sees / per_group)`.
    Positions {
        /// Positions of a workgroup.
        per_group: u32,
        /// The most positions that a row sees: a window; `u32::MAX` for none.
        most: u32,
    },
}

/// What extents depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    /// `T`.
    pub rows: u32,
    /// Rows that get logits.
    pub logit_rows: u32,
    /// Positions of the longest sequence after this pass.
    pub positions: u32,
}

impl Extent {
    fn groups(self, extents: &Extents) -> u32 {
        match self {
            Self::Fixed(groups) => groups,
            Self::Rows { times, per_group } => (extents.rows * times).div_ceil(per_group),
            Self::LogitRows { times, per_group } => {
                (extents.logit_rows * times).div_ceil(per_group)
            }
            Self::Positions { per_group, most } => extents
                .positions
                .min(most.saturating_add(extents.rows))
                .div_ceil(per_group),
        }
    }
}

/// A buffer of a dispatch. Binding 0 is the first of the list.
#[derive(Clone, Copy, Debug)]
pub enum Bind<'a> {
    /// `var<storage, read>`.
    Read(&'a wgpu::Buffer),
    /// `var<storage, read_write>`.
    Write(&'a wgpu::Buffer),
    /// `var<uniform>`: written once, when recorded.
    Params(&'a [u8]),
}

/// What a dispatch reads of the device's memory and computes, counted by its wrapper. What is
/// small beside weights and cache (activations, parameters) is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes of weights.
    pub weight_bytes: u64,
    /// Rows of activations that one reading of the weights serves; 0 counts as 1.
    pub rows_a_read: u32,
    /// Multiplications with additions, of one row.
    pub macs: u64,
    /// Bytes of the cache, of one position.
    pub kv_bytes: u64,
    /// Rows that one reading of the cache serves; 0 counts as 1.
    pub rows_a_kv_read: u32,
    /// Multiplications with additions, of one row and position.
    pub kv_macs: u64,
    /// The most positions that a row sees; 0 for all.
    pub window: u32,
}

/// What a pass's dispatch reads and computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes.
    pub bytes: u64,
    /// Multiplications with additions.
    pub macs: u64,
}

impl Cost {
    /// In a pass of these extents; its rows are taken to belong to one sequence.
    #[must_use]
    pub fn at(&self, extents: &Extents) -> Work {
        let rows = u64::from(extents.rows);
        let seen = match self.window {
            0 => extents.positions,
            window => extents.positions.min(window.saturating_add(extents.rows)),
        };
        let reads = |rows_a_read: u32| rows.div_ceil(u64::from(rows_a_read.max(1)));
        Work {
            bytes: self.weight_bytes * reads(self.rows_a_read)
                + self.kv_bytes * u64::from(seen) * reads(self.rows_a_kv_read),
            macs: (self.macs + self.kv_macs * u64::from(seen)) * rows,
        }
    }
}

/// One dispatch.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// What it costs.
    pub cost: Cost,
    pipeline: wgpu::ComputePipeline,
    bind_group: wgpu::BindGroup,
    grid: [Extent; 3],
}

/// Pipelines by the text of their shader and the kinds of their bindings.
#[derive(Debug, Default)]
pub struct Pipelines {
    by_text: HashMap<(String, Vec<Kind>), Pipeline>,
    shaders: Vec<Shader>,
    fault: Option<Fault>,
}

#[derive(Clone, Debug)]
struct Pipeline {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Read,
    Write,
    Params,
}

impl Pipelines {
    /// None yet, and all that are made have this fault.
    #[must_use]
    pub fn with_fault(fault: Option<Fault>) -> Self {
        Self {
            fault,
            ..Self::default()
        }
    }

    /// Pipelines made so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_text.len()
    }

    /// The shaders of those, for a look at what another compiler says of them.
    #[must_use]
    pub fn shaders(&self) -> &[Shader] {
        &self.shaders
    }

    /// Whether none was made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_text.is_empty()
    }

    fn get(&mut self, gpu: &Gpu, shader: &Shader, kinds: Vec<Kind>) -> Pipeline {
        let mut text = shader.text(Dialect::HERE);
        if let Some(fault) = self.fault.filter(|fault| fault.kernel == shader.name) {
            text = text.replace(fault.from, fault.to);
        }
        let make = |(text, kinds): &(String, Vec<Kind>)| make(gpu, shader.name, text, kinds);
        let key = (text, kinds);
        if let Some(found) = self.by_text.get(&key) {
            return found.clone();
        }
        let made = make(&key);
        self.by_text.insert(key, made.clone());
        self.shaders.push(shader.clone());
        made
    }
}

fn make(gpu: &Gpu, name: &'static str, text: &str, kinds: &[Kind]) -> Pipeline {
    gpu.count_object();
    let module = gpu
        .device
        .create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(name),
            source: wgpu::ShaderSource::Wgsl(text.into()),
        });
    let entries: Vec<_> = kinds.iter().zip(0..).map(layout_entry).collect();
    let layout = gpu
        .device
        .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some(name),
            entries: &entries,
        });
    let pipeline_layout = gpu
        .device
        .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some(name),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
    let pipeline = gpu
        .device
        .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(name),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some(name),
            compilation_options: wgpu::PipelineCompilationOptions {
                // Workgroup memory is written before it is read.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
    Pipeline { pipeline, layout }
}

fn layout_entry((kind, binding): (&Kind, u32)) -> wgpu::BindGroupLayoutEntry {
    let ty = match kind {
        Kind::Read => wgpu::BufferBindingType::Storage { read_only: true },
        Kind::Write => wgpu::BufferBindingType::Storage { read_only: false },
        Kind::Params => wgpu::BufferBindingType::Uniform,
    };
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty,
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    }
}

/// Takes dispatches in order.
#[derive(Debug)]
pub struct Recorder<'a> {
    gpu: &'a Gpu,
    pipelines: &'a mut Pipelines,
    recording: Recording,
}

impl<'a> Recorder<'a> {
    /// An empty recording.
    pub fn new(gpu: &'a Gpu, pipelines: &'a mut Pipelines) -> Self {
        Self {
            gpu,
            pipelines,
            recording: Recording::default(),
        }
    }

    /// Continues one.
    pub fn resume(gpu: &'a Gpu, pipelines: &'a mut Pipelines, recording: Recording) -> Self {
        Self {
            gpu,
            pipelines,
            recording,
        }
    }

    /// What kernels may use.
    #[must_use]
    pub fn gpu(&self) -> &'a Gpu {
        self.gpu
    }

    /// Appends a dispatch.
    pub fn dispatch(&mut self, shader: &Shader, binds: &[Bind<'_>], grid: [Extent; 3], cost: Cost) {
        let kinds = binds.iter().map(|bind| match bind {
            Bind::Read(_) => Kind::Read,
            Bind::Write(_) => Kind::Write,
            Bind::Params(_) => Kind::Params,
        });
        let made = self.pipelines.get(self.gpu, shader, kinds.collect());
        let uniforms: Vec<_> = binds.iter().map(|bind| self.uniform(bind)).collect();
        let entries: Vec<_> = binds
            .iter()
            .zip(&uniforms)
            .zip(0..)
            .map(|((bind, uniform), binding)| wgpu::BindGroupEntry {
                binding,
                resource: match (bind, uniform) {
                    (Bind::Read(buffer) | Bind::Write(buffer), _) => buffer.as_entire_binding(),
                    (Bind::Params(_), uniform) => uniform
                        .as_ref()
                        .expect("a uniform was made for it")
                        .as_entire_binding(),
                },
            })
            .collect();
        self.gpu.count_object();
        let bind_group = self
            .gpu
            .device
            .create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(shader.name),
                layout: &made.layout,
                entries: &entries,
            });
        self.recording.dispatches.push(Dispatch {
            kernel: shader.name,
            cost,
            pipeline: made.pipeline,
            bind_group,
            grid,
        });
    }

    fn uniform(&self, bind: &Bind<'_>) -> Option<wgpu::Buffer> {
        let Bind::Params(bytes) = bind else {
            return None;
        };
        self.gpu.count_object();
        let buffer = self.gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("params"),
            // Uniforms end at a multiple of 16.
            size: bytes.len().next_multiple_of(16) as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        self.gpu.queue.write_buffer(&buffer, 0, bytes);
        Some(buffer)
    }

    /// The recording.
    #[must_use]
    pub fn finish(self) -> Recording {
        self.recording
    }
}

/// Dispatches in order.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    dispatches: Vec<Dispatch>,
}

impl Recording {
    /// The dispatches.
    #[must_use]
    pub fn dispatches(&self) -> &[Dispatch] {
        &self.dispatches
    }

    /// Those dispatches alone that pass the test.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&Dispatch) -> bool) -> Self {
        let dispatches = self.dispatches.iter().filter(|it| wanted(it));
        Self {
            dispatches: dispatches.cloned().collect(),
        }
    }

    /// Encodes all dispatches for these extents into a pass.
    pub fn encode(&self, pass: &mut wgpu::ComputePass<'_>, extents: &Extents) {
        let mut current = None;
        for dispatch in &self.dispatches {
            let [x, y, z] = dispatch.grid.map(|extent| extent.groups(extents));
            if x == 0 || y == 0 || z == 0 {
                continue;
            }
            if current != Some(&dispatch.pipeline) {
                pass.set_pipeline(&dispatch.pipeline);
                current = Some(&dispatch.pipeline);
            }
            pass.set_bind_group(0, &dispatch.bind_group, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
    }

    /// Whether every grid is within the device's limit for these extents.
    ///
    /// # Errors
    /// [`GpuError::Validation`] with the kernel's name.
    pub fn check(&self, gpu: &Gpu, extents: &Extents) -> Result<(), GpuError> {
        let most = gpu.capabilities().max_groups;
        for dispatch in &self.dispatches {
            let grid = dispatch.grid.map(|extent| extent.groups(extents));
            if grid.iter().any(|&groups| groups > most) {
                return Err(GpuError::Validation {
                    what: dispatch.kernel.to_owned(),
                    why: format!("a grid of {grid:?} workgroups where {most} are allowed"),
                });
            }
        }
        Ok(())
    }
}
