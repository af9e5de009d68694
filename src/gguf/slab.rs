use super::Reader;

/// The rows that are being collected. Words rather than bytes, so that what the sink gets is
/// aligned for every block type.
#[derive(Debug, Default)]
pub(super) struct Slab {
    words: Vec<u64>,
    /// Bytes in use.
    pub(super) len: usize,
}

impl Slab {
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        let start = self.len;
        let end = start.saturating_add(bytes.len());
        let words = end.div_ceil(size_of::<u64>());
        if words > self.words.len() {
            let limit = Reader::MAX_SLAB_BYTES.div_ceil(size_of::<u64>());
            // Each growth copies what is there.
            let roomy = self.words.len().saturating_mul(4).min(limit).max(words);
            self.words
                .reserve_exact(roomy.saturating_sub(self.words.len()));
            self.words.resize(roomy, 0);
        }
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        if let Some(place) = all.get_mut(start..end) {
            place.copy_from_slice(bytes);
        }
        self.len = end;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice::<u64, u8>(&self.words)
            .get(..self.len)
            .unwrap_or_default()
    }
}
