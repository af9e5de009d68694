// finish_pairs.wgsl: both rows of an invocation are finished alike
//
// Needs     params.wgsl; finish_*.wgsl::finish_one
fn output_columns() -> u32 {
    return params.pair;
}

fn finish(t: u32, n: u32, first: f32, second: f32) {
    finish_one(t, n, first);
    // The last pair of an odd number of rows is incomplete.
    if n + params.pair < params.rows {
        finish_one(t, n + params.pair, second);
    }
}
