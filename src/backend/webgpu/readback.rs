//! From the device to the host.

use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use super::{Gpu, GpuError};

/// What a mapping's callback leaves for who waits.
#[derive(Debug, Default)]
struct Mapping {
    result: Option<Result<(), wgpu::BufferAsyncError>>,
    waker: Option<Waker>,
}

/// A buffer that carries bytes to the host, over and over.
#[derive(Debug)]
pub(super) struct Readback {
    buffer: wgpu::Buffer,
    mapping: Arc<Mutex<Mapping>>,
    /// Whether a mapping was asked for and not given back.
    mapped: bool,
    submission: Option<wgpu::SubmissionIndex>,
}

impl Readback {
    pub(super) fn new(gpu: &Gpu, bytes: u64) -> Self {
        gpu.count_object();
        let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size: bytes.next_multiple_of(4),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Self {
            buffer,
            mapping: Arc::default(),
            mapped: false,
            submission: None,
        }
    }

    /// Copies from `source`, from `offset` on, as many bytes as this holds.
    pub(super) fn copy(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        source: &wgpu::Buffer,
        offset: u64,
    ) {
        self.reset();
        encoder.copy_buffer_to_buffer(source, offset, &self.buffer, 0, self.buffer.size());
    }

    /// Asks for the bytes as soon as the copy is submitted.
    pub(super) fn start(&mut self, submission: wgpu::SubmissionIndex) {
        self.mapped = true;
        self.submission = Some(submission);
        self.mapping = Arc::default();
        let done = Arc::clone(&self.mapping);
        self.buffer
            .map_async(wgpu::MapMode::Read, .., move |result| {
                let Ok(mut done) = done.lock() else { return };
                done.result = Some(result);
                if let Some(waker) = done.waker.take() {
                    waker.wake();
                }
            });
    }

    /// Waits for the bytes.
    ///
    /// # Errors
    /// [`GpuError::Lost`].
    pub(super) async fn finish(&mut self, gpu: &Gpu) -> Result<Vec<u8>, GpuError> {
        gpu.wait_for(self.submission.take())?;
        let _nudge = gpu.nudge();
        let result = std::future::poll_fn(|context| {
            let Ok(mut mapping) = self.mapping.lock() else {
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
        gpu.check()?;
        result.map_err(|error| GpuError::Lost(error.to_string()))?;
        let view = self.buffer.slice(..).get_mapped_range();
        let bytes = view.map(|view| view.to_vec());
        self.reset();
        bytes.map_err(|error| GpuError::Lost(error.to_string()))
    }

    /// Gives a mapping back, also one that nobody waited for.
    fn reset(&mut self) {
        if std::mem::take(&mut self.mapped) {
            self.buffer.unmap();
        }
    }
}

impl Gpu {
    /// Copies a buffer's first `bytes` to the host.
    ///
    /// # Errors
    /// [`GpuError::Lost`].
    pub async fn read(&self, buffer: &wgpu::Buffer, bytes: u64) -> Result<Vec<u8>, GpuError> {
        let mut readback = Readback::new(self, bytes);
        let mut encoder = self
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        readback.copy(&mut encoder, buffer, 0);
        readback.start(self.queue.submit([encoder.finish()]));
        readback.finish(self).await
    }

    /// Waits until all submitted work is done.
    ///
    /// # Errors
    /// [`GpuError::Lost`].
    pub(super) async fn idle(&self, submission: wgpu::SubmissionIndex) -> Result<(), GpuError> {
        let mapping = Arc::new(Mutex::new(Mapping::default()));
        let done = Arc::clone(&mapping);
        self.queue.on_submitted_work_done(move || {
            let Ok(mut done) = done.lock() else { return };
            done.result = Some(Ok(()));
            if let Some(waker) = done.waker.take() {
                waker.wake();
            }
        });
        self.wait_for(Some(submission))?;
        let _nudge = self.nudge();
        std::future::poll_fn(|context| {
            let Ok(mut mapping) = mapping.lock() else {
                return Poll::Pending;
            };
            if mapping.result.is_some() {
                return Poll::Ready(());
            }
            mapping.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        self.check()
    }

    /// Natively nothing happens unless the device is polled; a browser polls by itself.
    fn wait_for(&self, submission: Option<wgpu::SubmissionIndex>) -> Result<(), GpuError> {
        if cfg!(target_arch = "wasm32") {
            return Ok(());
        }
        let poll = wgpu::PollType::Wait {
            submission_index: submission,
            timeout: None,
        };
        let polled = self.device.poll(poll);
        polled.map_err(|error| GpuError::Lost(error.to_string()))?;
        Ok(())
    }
}
