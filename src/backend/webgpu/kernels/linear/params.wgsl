// params.wgsl: uniform of the products y[t,n] = sum_k x[t,k] * w[n,k]
struct Params {
    blocks: u32, // blocks of 32 in a row of weights
    rows: u32, // rows of the piece
    quarter: u32, // from the first to the second row of four, rows
    half: u32, // from the first to the third row of four, rows
    x_stride: u32, // from row to row of x, elements
    y_stride: u32, // from row to row of y, elements
    column: u32, // where the piece begins in a row of y, elements
    first_row: u32, // first row of the piece in the matrix: bias
    scale: f32, // factor on what is added, or on logits
    cap: f32, // of logits; 0: none
    width: f32, // K, of which the mean square is taken
    eps: f32, // added to the mean square
}

// The four rows of an invocation. Where fewer are left, some come twice and are not finished.
fn rows_of(n: u32) -> vec4<u32> {
    let rows = n + vec4<u32>(0u, params.quarter, params.half, params.half + params.quarter);
    return min(rows, vec4<u32>(params.rows - 1u));
}
