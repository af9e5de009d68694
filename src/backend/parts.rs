//! What has been written of a matrix.

use super::{BackendError, MatrixSpec};
use crate::gguf::GgmlType;

/// Progress of a matrix `[N, K]` whose parts arrive by rows.
#[derive(Debug)]
pub(super) struct Parts {
    /// `K`.
    pub(super) cols: usize,
    /// `N`.
    pub(super) rows: usize,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    name: String,
    /// Row of the matrix where the part begins.
    first_row: usize,
    rows: usize,
    written: usize,
    ggml_type: Option<GgmlType>,
}

/// Rows of a write, in the matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowRange {
    pub(super) first: usize,
    pub(super) count: usize,
}

impl Parts {
    pub(super) fn new(spec: &MatrixSpec) -> Result<Self, BackendError> {
        let usage = |why| BackendError::Usage {
            op: "create_matrix",
            why,
        };
        if spec.cols == 0 || spec.parts.is_empty() || spec.parts.iter().any(|p| p.rows == 0) {
            return Err(usage("a matrix or a part without elements"));
        }
        let mut rows = 0_usize;
        let mut parts = Vec::with_capacity(spec.parts.len());
        for part in &spec.parts {
            parts.push(Part {
                name: part.name.clone(),
                first_row: rows,
                rows: part.rows,
                written: 0,
                ggml_type: None,
            });
            rows = rows
                .checked_add(part.rows)
                .filter(|rows| rows.checked_mul(spec.cols).is_some())
                .ok_or_else(|| usage("a matrix beyond the address space"))?;
        }
        Ok(Self {
            cols: spec.cols,
            rows,
            parts,
        })
    }

    /// Name of a part, for errors.
    pub(super) fn name(&self, part: usize) -> &str {
        self.parts.get(part).map_or("", |part| part.name.as_str())
    }

    /// Checks a write of `bytes` of `part`; [`Parts::commit`] counts it once it has succeeded.
    pub(super) fn accept(
        &self,
        part: usize,
        ggml_type: GgmlType,
        first_row: usize,
        bytes: usize,
    ) -> Result<RowRange, BackendError> {
        let part = self.parts.get(part).ok_or(BackendError::Usage {
            op: "write_rows",
            why: "the matrix has no such part",
        })?;
        let row_bytes = ggml_type
            .row_bytes(self.cols as u64)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|&bytes| bytes > 0);
        let count = row_bytes.map_or(0, |row_bytes| bytes / row_bytes);
        let refuse = |why: String| BackendError::Rows {
            tensor: part.name.clone(),
            first_row,
            end_row: first_row.saturating_add(count),
            why,
        };
        let Some(row_bytes) = row_bytes else {
            let blocks = ggml_type.block_elements();
            let cols = self.cols;
            return Err(refuse(format!(
                "{cols} columns are no multiple of {blocks}"
            )));
        };
        if bytes == 0 || !bytes.is_multiple_of(row_bytes) {
            return Err(refuse(format!(
                "{bytes} bytes are not whole rows of {row_bytes} bytes ({})",
                ggml_type.name()
            )));
        }
        if part.ggml_type.is_some_and(|earlier| earlier != ggml_type) {
            return Err(refuse(format!(
                "{} differs from earlier rows",
                ggml_type.name()
            )));
        }
        if first_row != part.written {
            return Err(refuse(format!("row {} is next", part.written)));
        }
        if count > part.rows - part.written {
            return Err(refuse(format!("the tensor has {} rows", part.rows)));
        }
        Ok(RowRange {
            first: part.first_row + first_row,
            count,
        })
    }

    /// Counts rows as written.
    pub(super) fn commit(&mut self, part: usize, ggml_type: GgmlType, rows: RowRange) {
        if let Some(part) = self.parts.get_mut(part) {
            part.written += rows.count;
            part.ggml_type = Some(ggml_type);
        }
    }

    /// Refuses a matrix that lacks rows, and names the first that do.
    pub(super) fn check_complete(&self) -> Result<(), BackendError> {
        match self.parts.iter().find(|part| part.written < part.rows) {
            None => Ok(()),
            Some(part) => Err(BackendError::Rows {
                tensor: part.name.clone(),
                first_row: part.written,
                end_row: part.rows,
                why: "never written".to_owned(),
            }),
        }
    }
}
