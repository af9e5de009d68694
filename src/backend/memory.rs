//! Allocation that can fail.

use super::BackendError;

/// A vector of the product of `dims` elements, all `value`.
pub(super) fn allocate(
    what: &'static str,
    dims: &[usize],
    value: f32,
) -> Result<Vec<f32>, BackendError> {
    let mut values = Vec::new();
    grow(&mut values, what, dims, value)?;
    Ok(values)
}

/// Lengthens `values` to the product of `dims` elements; a longer vector stays as it is.
pub(super) fn grow(
    values: &mut Vec<f32>,
    what: &'static str,
    dims: &[usize],
    value: f32,
) -> Result<(), BackendError> {
    let out_of_memory = |bytes| BackendError::OutOfMemory { what, bytes };
    let len = dims
        .iter()
        .try_fold(1_usize, |product, &dim| product.checked_mul(dim))
        .ok_or_else(|| out_of_memory(u64::MAX))?;
    if len > values.len() {
        values
            .try_reserve_exact(len - values.len())
            .map_err(|_| out_of_memory((len as u64).saturating_mul(4)))?;
        values.resize(len, value);
    }
    Ok(())
}

/// Bytes that a vector holds.
pub(super) fn bytes_of<T>(values: &Vec<T>) -> u64 {
    values.capacity() as u64 * size_of::<T>() as u64
}

/// Whether there is so much memory, which the allocator keeps for what is allocated next: a browser
/// takes about a millisecond to give some, however little it is, and a model is some hundreds of
/// allocations.
pub(crate) fn ask_for(bytes: u64) -> bool {
    let mut room: Vec<u8> = Vec::new();
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    let is_there = room.try_reserve_exact(len).is_ok();
    std::hint::black_box(&room);
    is_there
}
