// kv_table_ring.wgsl: blocks of a cache that is a ring of the last positions
//
// Needs     common/step.wgsl
fn cached_block(t: u32, position: u32) -> u32 {
    return row_ring_block(t, position);
}

// The same for the rows of one sequence only.
fn row_sequence(t: u32) -> u32 {
    return step_state[11u + 8u * t];
}
