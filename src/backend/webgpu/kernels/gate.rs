//! Gated activation of products that are already stored.

use super::super::recorder::{Bind, Cost, Extent, Recorder};
use super::super::row_stride;
use super::super::shader::{Constant, Needs, Shader};
use super::linear::activation_part;
use crate::backend::ops::Activation;

/// Lanes of a workgroup.
const WG_SIZE: u32 = 64;

/// Uniform of the shader.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    width: u32,
    products_stride: u32,
    y_stride: u32,
    padding: u32,
}

/// Arguments of [`gate`].
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    /// `[T, 2 F]`: gate, then up.
    pub products: &'a wgpu::Buffer,
    /// Of the gate.
    pub activation: Activation,
    /// `F`.
    pub width: usize,
    /// `[T, F]`.
    pub y: &'a wgpu::Buffer,
}

/// Records `y[t, f] = activation(products[t, f]) * products[t, F + f]`.
pub fn gate(recorder: &mut Recorder<'_>, op: &Gate<'_>) {
    let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let params = Params {
        width: word(op.width),
        products_stride: word(row_stride(2 * op.width)),
        y_stride: word(row_stride(op.width)),
        padding: 0,
    };
    let binds = [
        Bind::Params(bytemuck::bytes_of(&params)),
        Bind::Read(op.products),
        Bind::Write(op.y),
    ];
    let grid = [
        Extent::Fixed(params.width.div_ceil(WG_SIZE)),
        Extent::Rows {
            times: 1,
            per_group: 1,
        },
        Extent::Fixed(1),
    ];
    recorder.dispatch(&shader(op.activation), &binds, grid, Cost::default());
}

/// The text for an activation.
#[must_use]
pub fn shader(activation: Activation) -> Shader {
    Shader {
        name: "gate",
        parts: vec![activation_part(activation), include_str!("gate.wgsl")],
        constants: vec![("WG_SIZE", Constant::U32(WG_SIZE))],
        needs: Needs::default(),
    }
}
