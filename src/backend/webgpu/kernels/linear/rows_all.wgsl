// rows_all.wgsl: products of every row
//
// Needs     common/step.wgsl
fn first_input_row() -> u32 {
    return 0u;
}

fn output_rows() -> u32 {
    return step_rows();
}
