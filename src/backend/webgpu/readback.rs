//! From the device to the host.

use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use super::{Gpu, GpuError};

/// What a mapping's callback leaves for who waits.
#[derive(Default)]
struct Mapping {
    result: Option<Result<(), wgpu::BufferAsyncError>>,
    waker: Option<Waker>,
}

impl Gpu {
    /// Copies a buffer's first `bytes` to the host.
    ///
    /// # Errors
    /// [`GpuError::Lost`].
    pub async fn read(&self, buffer: &wgpu::Buffer, bytes: u64) -> Result<Vec<u8>, GpuError> {
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size: bytes.next_multiple_of(4),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, bytes.next_multiple_of(4));
        self.queue.submit([encoder.finish()]);
        self.map(&staging).await?;
        let view = staging
            .slice(..)
            .get_mapped_range()
            .map_err(|error| GpuError::Lost(error.to_string()))?;
        let copied = view.to_vec();
        drop(view);
        staging.unmap();
        Ok(copied)
    }

    /// Maps a buffer for reading and waits until it is.
    ///
    /// # Errors
    /// [`GpuError::Lost`].
    pub(super) async fn map(&self, buffer: &wgpu::Buffer) -> Result<(), GpuError> {
        let mapping = Arc::new(Mutex::new(Mapping::default()));
        let done = Arc::clone(&mapping);
        buffer.map_async(wgpu::MapMode::Read, .., move |result| {
            let Ok(mut done) = done.lock() else { return };
            done.result = Some(result);
            if let Some(waker) = done.waker.take() {
                waker.wake();
            }
        });
        // Natively nothing happens unless the device is polled; a browser polls by itself.
        if cfg!(not(target_arch = "wasm32")) {
            self.device
                .poll(wgpu::PollType::wait_indefinitely())
                .map_err(|error| GpuError::Lost(error.to_string()))?;
        }
        let result = std::future::poll_fn(|context| {
            let Ok(mut mapping) = mapping.lock() else {
                return Poll::Pending;
            };
            match mapping.result.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    mapping.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        self.check()?;
        result.map_err(|error| GpuError::Lost(error.to_string()))
    }
}
