// kv_table_full.wgsl: blocks of a cache that holds all positions
//
// Needs     common/step.wgsl
fn cached_block(t: u32, position: u32) -> u32 {
    return row_block(t, position);
}

// The same for the rows of one sequence only.
fn row_sequence(t: u32) -> u32 {
    return step_state[10u + 8u * t];
}
