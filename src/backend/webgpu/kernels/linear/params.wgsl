// params.wgsl: uniform of the products y[t,n] = sum_k x[t,k] * w[n,k]
struct Params {
    blocks: u32, // blocks of 32 in a row of weights
    rows: u32, // rows of the piece
    pair: u32, // from the first to the second row of an invocation
    x_stride: u32, // from row to row of x, elements
    y_stride: u32, // from row to row of y, elements
    column: u32, // where the piece begins in a row of y, elements
    first_row: u32, // first row of the piece in the matrix: bias
    scale: f32, // factor on what is added, or on logits
    cap: f32, // of logits; 0: none
}
