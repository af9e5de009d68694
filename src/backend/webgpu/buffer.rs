//! Buffers with a purpose.

use super::Gpu;

/// Elements from one row of activations to the next: whole blocks of 32, so that every row is
/// aligned for wide loads. What lies between a row's end and the next row stays zero.
#[must_use]
pub const fn row_stride(width: usize) -> usize {
    width.next_multiple_of(32)
}

impl Gpu {
    /// A zeroed storage buffer of `bytes`, at least one element.
    #[must_use]
    pub fn storage(&self, label: &str, bytes: u64) -> wgpu::Buffer {
        self.count_object();
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            // 16: the widest element.
            size: bytes.max(16).next_multiple_of(16),
            usage: wgpu::BufferUsages::STORAGE
                | wgpu::BufferUsages::COPY_DST
                | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        })
    }

    /// A storage buffer that holds `words`.
    #[must_use]
    pub fn storage_of<T: bytemuck::Pod>(&self, label: &str, words: &[T]) -> wgpu::Buffer {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let buffer = self.storage(label, bytes.len() as u64);
        self.queue.write_buffer(&buffer, 0, bytes);
        buffer
    }
}
