// step.wgsl: the step state, as backend/webgpu/step.rs lays it out
//
// Needs     a kernel that declares binding 0 as below is to leave it to this part
@group(0) @binding(0) var<storage, read> step_state: array<u32>;

const IDS_GIVEN: u32 = 0xffffffffu;

// T
fn step_rows() -> u32 {
    return step_state[0];
}

fn step_first_logit_row() -> u32 {
    return step_state[1];
}

fn step_ring_slot() -> u32 {
    return step_state[2];
}

fn row_id(t: u32) -> u32 {
    return step_state[8u + 8u * t];
}

fn row_position(t: u32) -> u32 {
    return step_state[9u + 8u * t];
}

// Place of the block that holds a position of row t's sequence, BLOCK_TOKENS positions each.
fn row_block(t: u32, position: u32) -> u32 {
    return step_state[step_state[10u + 8u * t] + position / BLOCK_TOKENS];
}

// The same in the sequence's ring.
fn row_ring_block(t: u32, position: u32) -> u32 {
    let first = step_state[11u + 8u * t];
    let blocks = step_state[12u + 8u * t];
    return step_state[first + (position / BLOCK_TOKENS) % blocks];
}
