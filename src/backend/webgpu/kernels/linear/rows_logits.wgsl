// rows_logits.wgsl: products of the rows that get logits
//
// Needs     common/step.wgsl
fn first_input_row() -> u32 {
    return step_first_logit_row();
}

fn output_rows() -> u32 {
    return step_rows() - step_first_logit_row();
}
