//! KV cache of one kind on the device: places for blocks in one buffer a layer.
//!
//! A layer's buffer is `[places][keys, values][G][block_tokens]` rows of one head each, so
//! that the positions of one head follow one another and a larger buffer begins with the
//! smaller one. Rows are whole words and whole quads of elements, zeros after `D`.

use std::future::Future;
use std::pin::Pin;

use crate::backend::CacheBytes;
use crate::backend::ops::Cache;

use super::shader::{Constant, Shader};
use super::{Capabilities, Gpu, GpuError};

/// How the elements of a row are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvFormat {
    /// 32-bit floats.
    F32,
    /// 16-bit floats, two a word.
    F16,
    /// 8-bit integers, four a word, and one `f32` for 32 of them: their largest magnitude.
    Q8_0,
}

impl KvFormat {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Q8_0];

    pub(super) fn read_part(self) -> &'static str {
        match self {
            Self::F32 => include_str!("kernels/common/kv_read_f32.wgsl"),
            Self::F16 => include_str!("kernels/common/kv_read_f16.wgsl"),
            Self::Q8_0 => include_str!("kernels/common/kv_read_q8_0.wgsl"),
        }
    }

    pub(super) fn write_part(self) -> &'static str {
        match self {
            Self::F32 => include_str!("kernels/common/kv_write_f32.wgsl"),
            Self::F16 => include_str!("kernels/common/kv_write_f16.wgsl"),
            Self::Q8_0 => include_str!("kernels/common/kv_write_q8_0.wgsl"),
        }
    }

    /// The words of a row of one head.
    #[must_use]
    pub fn encode(self, row: &[f32]) -> Vec<u32> {
        let mut padded = row.to_vec();
        padded.resize(row.len().next_multiple_of(4), 0.0);
        match self {
            Self::F32 => padded.iter().map(|value| value.to_bits()).collect(),
            Self::F16 => padded
                .chunks(2)
                .map(|pair| {
                    let bits = |value: f32| u32::from(f16_of(value).to_bits());
                    bits(pair[0]) | bits(pair[1]) << 16
                })
                .collect(),
            Self::Q8_0 => {
                let codes = padded.chunks(32).flat_map(|group| {
                    let largest = largest(group);
                    group.chunks(4).map(move |quad| pack_codes(quad, largest))
                });
                let scales = padded.chunks(32).map(|group| largest(group).to_bits());
                codes.chain(scales).collect()
            }
        }
    }

    /// What is left of a row of one head once it is stored.
    #[must_use]
    pub fn round(self, row: &[f32]) -> Vec<f32> {
        match self {
            Self::F32 => row.to_vec(),
            Self::F16 => row.iter().map(|&value| f16_of(value).to_f32()).collect(),
            Self::Q8_0 => {
                let value = |code: i8, largest: f32| f32::from(code) / 127.0 * largest;
                row.chunks(32)
                    .flat_map(|group| {
                        let largest = largest(group);
                        group
                            .iter()
                            .map(move |&x| value(code_of(x, largest), largest))
                    })
                    .collect()
            }
        }
    }
}

fn f16_of(value: f32) -> half::f16 {
    half::f16::from_f32(value.clamp(-65504.0, 65504.0))
}

fn largest(group: &[f32]) -> f32 {
    group.iter().fold(0.0, |most, value| value.abs().max(most))
}

fn code_of(value: f32, largest: f32) -> i8 {
    if largest <= 1e-30 {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a number within 127")]
    let code = (value / largest * 127.0).round() as i8;
    code
}

fn pack_codes(quad: &[f32], largest: f32) -> u32 {
    let codes = quad
        .iter()
        .map(|&value| code_of(value, largest).to_le_bytes()[0]);
    codes
        .rev()
        .fold(0, |word, code| word << 8 | u32::from(code))
}

/// Shape of one layer of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLayout {
    /// How elements are stored.
    pub format: KvFormat,
    /// `G`.
    pub num_kv_heads: usize,
    /// `D`.
    pub head_dim: usize,
    /// Positions of a block.
    pub block_tokens: usize,
}

impl KvLayout {
    /// Quads of elements of a row.
    #[must_use]
    pub fn quads(&self) -> usize {
        self.head_dim.div_ceil(4)
    }

    /// Bytes of a row: one head at one position, keys or values.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        let quads = self.quads() as u64;
        match self.format {
            KvFormat::F32 => 16 * quads,
            KvFormat::F16 => 8 * quads,
            KvFormat::Q8_0 => 4 * (quads + quads.div_ceil(8)),
        }
    }

    /// Bytes of a block of one layer.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        2 * self.num_kv_heads as u64 * self.block_tokens as u64 * self.row_bytes()
    }

    /// Bytes of a layer's buffer once `blocks` blocks are taken: it grows to twice its size, or
    /// to what can be bound.
    pub(super) fn grown_bytes(&self, capabilities: &Capabilities, blocks: u64) -> CacheBytes {
        let block = self.block_bytes().max(1);
        let most = capabilities
            .max_buffer_bytes
            .min(capabilities.max_binding_bytes);
        let places = blocks.checked_next_power_of_two().unwrap_or(blocks);
        let places = places.min((most / block).max(blocks));
        CacheBytes {
            held: block.saturating_mul(places),
            most,
        }
    }

    /// Constants that the parts of kernels name.
    pub(super) fn constants(&self) -> Vec<(&'static str, Constant)> {
        let count = |value: usize| Constant::U32(u32::try_from(value).unwrap_or(u32::MAX));
        vec![
            ("KV_HEADS", count(self.num_kv_heads)),
            ("HEAD_DIM", count(self.head_dim)),
            ("QUADS", count(self.quads())),
            ("BLOCK_TOKENS", count(self.block_tokens)),
        ]
    }

    /// Adds what every kernel on a cache needs.
    pub(super) fn complete(&self, shader: &mut Shader) {
        shader.constants.extend(self.constants());
        let rows = include_str!("kernels/common/kv_rows.wgsl");
        shader
            .parts
            .splice(0..0, [include_str!("kernels/common/step.wgsl"), rows]);
    }
}

/// The part that finds blocks of a cache of this kind.
pub(super) fn table_part(kind: Cache) -> &'static str {
    match kind {
        Cache::Full => include_str!("kernels/common/kv_table_full.wgsl"),
        Cache::Window => include_str!("kernels/common/kv_table_ring.wgsl"),
    }
}

/// A place that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The place.
    pub place: u32,
    /// Whether the layers have new buffers: recordings that bind the old ones are void.
    pub grown: bool,
}

type Verdict = Pin<Box<dyn Future<Output = Option<wgpu::Error>>>>;

/// Places of all layers of one cache kind.
pub struct KvPool {
    label: &'static str,
    layout: KvLayout,
    layers: Vec<wgpu::Buffer>,
    taken: Vec<bool>,
    free: Vec<u32>,
    /// Allocations that the device has not yet confirmed, with their bytes.
    pending: Vec<(u64, Verdict)>,
}

impl std::fmt::Debug for KvPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KvPool")
            .field("label", &self.label)
            .field("layout", &self.layout)
            .field("layers", &self.layers.len())
            .field("places", &self.taken.len())
            .field("free", &self.free.len())
            .finish_non_exhaustive()
    }
}

impl KvPool {
    /// `layers` buffers with room for `places` blocks each (at least one).
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] where a buffer passes the device's limits. What the device
    /// itself refuses is known once [`Self::settle`] is through.
    pub fn new(
        gpu: &Gpu,
        label: &'static str,
        layers: usize,
        layout: KvLayout,
        places: usize,
    ) -> Result<Self, GpuError> {
        let mut pool = Self {
            label,
            layout,
            layers: Vec::new(),
            taken: Vec::new(),
            free: Vec::new(),
            pending: Vec::new(),
        };
        let places = places.max(1);
        pool.layers = pool.allocate(gpu, layers, places)?;
        pool.add_places(places);
        Ok(pool)
    }

    /// Takes a place; where none is free, buffers of twice the size replace the old ones, whose
    /// contents the device copies after everything submitted so far.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] as [`Self::new`]; nothing has changed then.
    pub fn take(&mut self, gpu: &Gpu) -> Result<Taken, GpuError> {
        let grown = self.free.is_empty();
        if grown {
            self.grow(gpu)?;
        }
        let place = self.free.pop().expect("growth leaves free places");
        self.taken[place as usize] = true;
        Ok(Taken { place, grown })
    }

    /// Gives a place back; one that is not taken changes nothing.
    pub fn release(&mut self, place: u32) {
        if let Some(taken) = self.taken.get_mut(place as usize).filter(|taken| **taken) {
            *taken = false;
            self.free.push(place);
        }
    }

    /// Waits for the device's word on all allocations so far.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`]: the pool is not to be used any more.
    pub async fn settle(&mut self, gpu: &Gpu) -> Result<(), GpuError> {
        let mut refused = None;
        for (bytes, verdict) in self.pending.drain(..) {
            if verdict.await.is_some() {
                refused = Some(bytes);
            }
        }
        refused.map_or(Ok(()), |bytes| Err(self.out_of_memory(gpu, bytes)))
    }

    /// The buffer of a layer, by its ordinal among those of this cache.
    #[must_use]
    pub fn buffer(&self, layer: usize) -> &wgpu::Buffer {
        &self.layers[layer]
    }

    /// Shape of a layer.
    #[must_use]
    pub fn layout(&self) -> KvLayout {
        self.layout
    }

    /// Blocks that there is room for.
    #[must_use]
    pub fn places(&self) -> usize {
        self.taken.len()
    }

    /// Bytes held, free places included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.layers.iter().map(wgpu::Buffer::size).sum()
    }

    fn grow(&mut self, gpu: &Gpu) -> Result<(), GpuError> {
        let capabilities = gpu.capabilities();
        let largest = capabilities
            .max_buffer_bytes
            .min(capabilities.max_binding_bytes);
        // Twice as many, or what a binding has room for; one more, which is refused, beyond that.
        let most = largest / self.layout.block_bytes().max(1);
        let now = self.taken.len();
        let places = now
            .saturating_mul(2)
            .min(usize::try_from(most).unwrap_or(now));
        let places = places.max(now + 1);
        let layers = self.allocate(gpu, self.layers.len(), places)?;
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        for (old, new) in self.layers.iter().zip(&layers) {
            encoder.copy_buffer_to_buffer(old, 0, new, 0, old.size());
        }
        gpu.queue.submit([encoder.finish()]);
        self.layers = layers;
        self.add_places(places);
        Ok(())
    }

    fn add_places(&mut self, places: usize) {
        let first = self.taken.len();
        self.taken.resize(places, false);
        // The lowest is taken first.
        self.free.extend(
            (first..places)
                .rev()
                .filter_map(|place| u32::try_from(place).ok()),
        );
    }

    fn allocate(
        &mut self,
        gpu: &Gpu,
        layers: usize,
        places: usize,
    ) -> Result<Vec<wgpu::Buffer>, GpuError> {
        let bytes = self.layout.block_bytes().saturating_mul(places as u64);
        let capabilities = gpu.capabilities();
        if bytes
            > capabilities
                .max_buffer_bytes
                .min(capabilities.max_binding_bytes)
        {
            return Err(self.out_of_memory(gpu, bytes));
        }
        let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffers = (0..layers)
            .map(|_| gpu.storage(self.label, bytes))
            .collect();
        let all = bytes.saturating_mul(layers as u64);
        self.pending.push((all, Box::pin(scope.pop())));
        Ok(buffers)
    }

    fn out_of_memory(&self, gpu: &Gpu, bytes: u64) -> GpuError {
        let capabilities = gpu.capabilities();
        GpuError::OutOfMemory {
            what: self.label.to_owned(),
            bytes,
            max_buffer_bytes: capabilities
                .max_buffer_bytes
                .min(capabilities.max_binding_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;

    use super::*;

    #[test]
    fn growing_keeps_what_the_blocks_hold() {
        let layout = KvLayout {
            format: KvFormat::F32,
            num_kv_heads: 3,
            head_dim: 10,
            block_tokens: 5,
        };
        let gpu = block_on(Gpu::open(Default::default())).expect("xtask setup installs one");
        let mut pool = KvPool::new(&gpu, "the KV cache", 2, layout, 1).expect("it is small");
        pool.take(&gpu).expect("one is free");
        let bytes: Vec<u8> = (0..layout.block_bytes())
            .map(|i| i.to_le_bytes()[0])
            .collect();
        for layer in 0..2 {
            gpu.queue.write_buffer(pool.buffer(layer), 0, &bytes);
        }
        assert!(pool.take(&gpu).expect("it is small").grown);
        for layer in 0..2 {
            let read = block_on(gpu.read(pool.buffer(layer), layout.block_bytes()));
            assert_eq!(read.as_ref(), Ok(&bytes), "layer {layer}");
        }
    }
}
