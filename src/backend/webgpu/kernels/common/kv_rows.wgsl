// kv_rows.wgsl: where a head's keys and values of a position lie in a layer's cache, as
// backend/webgpu/kv.rs lays it out
//
// Needs     KV_HEADS, BLOCK_TOKENS; common/kv_table_*.wgsl::cached_block
const KEYS: u32 = 0u;
const VALUES: u32 = 1u;

// From the row of a key to the row of its value.
const VALUES_OFFSET: u32 = KV_HEADS * BLOCK_TOKENS;

fn kv_row(t: u32, kind: u32, kv_head: u32, position: u32) -> u32 {
    let head = (cached_block(t, position) * 2u + kind) * KV_HEADS + kv_head;
    return head * BLOCK_TOKENS + position % BLOCK_TOKENS;
}
