//! A matrix on the device: pieces by rows.

use std::future::Future;
use std::pin::Pin;

use super::{PlaneFormat, Rows, repack};
use crate::backend::webgpu::{Gpu, GpuError};
use crate::gguf::GgmlType;

/// Bytes repacked on the host before they are handed to the queue.
const STAGING_BYTES: u64 = 1 << 20;

/// Rows of a matrix that lie in buffers of their own.
#[derive(Clone, Debug)]
pub struct Piece {
    /// How they lie.
    pub format: PlaneFormat,
    /// First row, in the matrix.
    pub first_row: usize,
    /// Rows.
    pub rows: usize,
    planes: [Option<wgpu::Buffer>; 3],
}

impl Piece {
    /// The planes to bind: codes, scales, high bits. Where a format has no such plane, the
    /// codes stand in for it, and the shader does not look.
    #[must_use]
    pub fn planes(&self) -> Option<[&wgpu::Buffer; 3]> {
        let [codes, scales, high] = &self.planes;
        let codes = codes.as_ref()?;
        Some([
            codes,
            scales.as_ref().unwrap_or(codes),
            high.as_ref().unwrap_or(codes),
        ])
    }
}

/// A matrix `[N, K]`.
#[derive(Debug)]
pub struct Matrix {
    cols: usize,
    parts: Vec<Part>,
    pieces: Vec<Piece>,
}

/// Rows that arrive as one tensor.
#[derive(Debug)]
struct Part {
    first_row: usize,
    rows: usize,
    written: usize,
    has_pieces: bool,
}

type Scope = Pin<Box<dyn Future<Output = Option<wgpu::Error>>>>;

/// Allocations whose outcome the device has not told yet.
#[derive(Default)]
pub struct Allocations {
    /// Largest buffer, where it is to be less than the device allows.
    most_bytes: Option<u64>,
    pending: Vec<(String, u64, Scope)>,
}

impl std::fmt::Debug for Allocations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Allocations({} pending)", self.pending.len())
    }
}

impl Allocations {
    /// As on a device that binds no buffer larger than this.
    #[must_use]
    pub fn with_most_bytes(most_bytes: u64) -> Self {
        Self {
            most_bytes: Some(most_bytes),
            pending: Vec::new(),
        }
    }

    /// Largest buffer that a kernel can bind.
    fn largest(&self, gpu: &Gpu) -> u64 {
        let capabilities = gpu.capabilities();
        let most = capabilities
            .max_binding_bytes
            .min(capabilities.max_buffer_bytes);
        most.min(self.most_bytes.unwrap_or(u64::MAX))
    }

    /// A storage buffer, zeroed; whether there was memory for it is known to [`Self::settle`].
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] where the device's limits already exclude it.
    pub fn storage(&mut self, gpu: &Gpu, what: &str, bytes: u64) -> Result<wgpu::Buffer, GpuError> {
        let most = self.largest(gpu);
        if bytes > most {
            return Err(GpuError::OutOfMemory {
                what: what.to_owned(),
                bytes,
                max_buffer_bytes: most,
            });
        }
        let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = gpu.storage(what, bytes);
        self.pending
            .push((what.to_owned(), bytes, Box::pin(scope.pop())));
        Ok(buffer)
    }

    /// Waits for every allocation made so far.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] for the first that failed.
    pub async fn settle(&mut self, gpu: &Gpu) -> Result<(), GpuError> {
        let max_buffer_bytes = self.largest(gpu);
        let mut failed = None;
        for (what, bytes, scope) in self.pending.drain(..) {
            if scope.await.is_some() && failed.is_none() {
                failed = Some(GpuError::OutOfMemory {
                    what,
                    bytes,
                    max_buffer_bytes,
                });
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Matrix {
    /// A matrix of `cols` columns whose parts of `part_rows` rows are stacked in this order.
    /// Memory is taken when a part's first rows, and with them its type, arrive.
    #[must_use]
    pub fn new(cols: usize, part_rows: &[usize]) -> Self {
        let mut first_row = 0;
        let parts = part_rows.iter().map(|&rows| {
            let part = Part {
                first_row,
                rows,
                written: 0,
                has_pieces: false,
            };
            first_row += rows;
            part
        });
        Self {
            cols,
            parts: parts.collect(),
            pieces: Vec::new(),
        }
    }

    /// `N`.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// `K`.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Pieces in the order of their rows. Once every row is written, neighbours of one format
    /// are one piece as far as the device's largest binding allows.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Bytes on the device.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = |piece: &Piece| piece.rows as u64 * piece.format.row_bytes(self.cols);
        self.pieces.iter().map(bytes).sum()
    }

    /// Writes whole rows of a part, `first_row ..` within it, repacking them a megabyte at a
    /// time. Rows of a part come in order.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`]; [`GpuError::Validation`] where the blocks are no rows of this
    /// matrix.
    pub fn write(
        &mut self,
        gpu: &Gpu,
        allocations: &mut Allocations,
        part: usize,
        (ty, first_row, blocks): (GgmlType, usize, &[u8]),
    ) -> Result<(), GpuError> {
        let refuse = |why: &str| GpuError::Validation {
            what: format!("rows of type {ty}"),
            why: why.to_owned(),
        };
        let row_bytes = ty
            .row_bytes(self.cols as u64)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|&bytes| bytes > 0 && blocks.len().is_multiple_of(bytes))
            .ok_or_else(|| refuse("the blocks are not whole rows"))?;
        let rows = blocks.len() / row_bytes;
        let format = PlaneFormat::of(ty);
        let place = self
            .parts
            .get(part)
            .filter(|part| part.written == first_row && rows <= part.rows - first_row)
            .ok_or_else(|| refuse("the part has no such rows, or others come first"))?;
        let start = place.first_row + first_row;
        if !place.has_pieces {
            self.allocate(gpu, allocations, part, format)?;
        }
        let mut staged = Rows::default();
        let chunk = usize::try_from(STAGING_BYTES / format.row_bytes(self.cols).max(1))
            .unwrap_or(1)
            .max(1);
        for (i, bytes) in blocks.chunks(chunk * row_bytes).enumerate() {
            staged.clear();
            for row in bytes.chunks(row_bytes) {
                repack(ty, row, self.cols, &mut staged).map_err(|e| refuse(&e.to_string()))?;
            }
            let rows = bytes.len() / row_bytes;
            self.store(gpu, format, (start + i * chunk, rows), &staged)
                .ok_or_else(|| refuse("its earlier rows have another type"))?;
        }
        self.parts[part].written += rows;
        if self.parts.iter().all(|part| part.written == part.rows) {
            self.join(gpu, allocations)?;
        }
        Ok(())
    }

    /// Takes memory for a part, in pieces that can be bound.
    fn allocate(
        &mut self,
        gpu: &Gpu,
        allocations: &mut Allocations,
        part: usize,
        format: PlaneFormat,
    ) -> Result<(), GpuError> {
        let [first, count] = [self.parts[part].first_row, self.parts[part].rows];
        let most = self.most_rows(gpu, allocations, format);
        for start in (0..count).step_by(most) {
            let rows = most.min(count - start);
            let piece = self.piece(gpu, allocations, format, [first + start, rows])?;
            let at = self
                .pieces
                .partition_point(|other| other.first_row < piece.first_row);
            self.pieces.insert(at, piece);
        }
        self.parts[part].has_pieces = true;
        Ok(())
    }

    /// Rows whose largest plane can be bound.
    fn most_rows(&self, gpu: &Gpu, allocations: &Allocations, format: PlaneFormat) -> usize {
        let words = format.row_words(self.cols.div_ceil(32));
        let widest = words.into_iter().max().unwrap_or(0).max(1);
        // Indices of words are 32 bits wide in the shaders.
        let bytes = allocations.largest(gpu).min(u64::from(u32::MAX));
        usize::try_from(bytes / (4 * widest as u64))
            .unwrap_or(usize::MAX)
            .max(1)
    }

    fn piece(
        &self,
        gpu: &Gpu,
        allocations: &mut Allocations,
        format: PlaneFormat,
        [first_row, rows]: [usize; 2],
    ) -> Result<Piece, GpuError> {
        let mut planes = [None, None, None];
        let words = format.row_words(self.cols.div_ceil(32));
        for (plane, words) in planes.iter_mut().zip(words) {
            if words > 0 {
                let bytes = 4 * (words as u64).saturating_mul(rows as u64);
                *plane = Some(allocations.storage(gpu, "weights", bytes)?);
            }
        }
        Ok(Piece {
            format,
            first_row,
            rows,
            planes,
        })
    }

    /// Hands repacked rows to the queue; `None` where no piece of that format has them.
    fn store(
        &self,
        gpu: &Gpu,
        format: PlaneFormat,
        (start, rows): (usize, usize),
        staged: &Rows,
    ) -> Option<()> {
        let words = format.row_words(self.cols.div_ceil(32));
        let mut done = 0;
        while done < rows {
            let row = start + done;
            let piece = self.pieces.iter().find(|piece| {
                piece.format == format
                    && (piece.first_row..piece.first_row + piece.rows).contains(&row)
            })?;
            let count = (rows - done).min(piece.first_row + piece.rows - row);
            for (plane, (buffer, words)) in piece.planes.iter().zip(words).enumerate() {
                let Some(buffer) = buffer else { continue };
                let from = &staged.planes[plane][done * words..][..count * words];
                let offset = 4 * ((row - piece.first_row) * words) as u64;
                gpu.queue
                    .write_buffer(buffer, offset, bytemuck::cast_slice(from));
            }
            done += count;
        }
        Some(())
    }

    /// Makes one piece of neighbours that have one format, so that a product of stacked parts
    /// is one dispatch. The types of the parts are known only once they have arrived.
    fn join(&mut self, gpu: &Gpu, allocations: &mut Allocations) -> Result<(), GpuError> {
        let mut joined = Vec::with_capacity(self.pieces.len());
        let mut rest = self.pieces.as_slice();
        while let [first, ..] = rest {
            let most = self.most_rows(gpu, allocations, first.format);
            let (mut count, mut rows) = (0, 0);
            while let Some(piece) = rest.get(count)
                && piece.format == first.format
                && (count == 0 || piece.rows <= most - rows)
            {
                rows += piece.rows;
                count += 1;
            }
            let (run, others) = rest.split_at(count);
            rest = others;
            joined.push(match run {
                [one] => one.clone(),
                _ => {
                    let whole =
                        self.piece(gpu, allocations, first.format, [first.first_row, rows])?;
                    self.copy(gpu, run, &whole);
                    whole
                }
            });
        }
        self.pieces = joined;
        Ok(())
    }

    fn copy(&self, gpu: &Gpu, run: &[Piece], whole: &Piece) {
        let words = whole.format.row_words(self.cols.div_ceil(32));
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        for piece in run {
            let planes = piece.planes.iter().zip(&whole.planes).zip(words);
            for ((from, to), words) in planes {
                let (Some(from), Some(to)) = (from, to) else {
                    continue;
                };
                let bytes = |rows: usize| 4 * (rows * words) as u64;
                let at = bytes(piece.first_row - whole.first_row);
                encoder.copy_buffer_to_buffer(from, 0, to, at, bytes(piece.rows));
            }
        }
        gpu.queue.submit([encoder.finish()]);
    }
}
