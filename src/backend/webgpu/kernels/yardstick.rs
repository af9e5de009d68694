//! What a device can do at most: copies and multiplications with nothing else to do. The measure
//! of all other kernels.

use super::super::Gpu;
use super::super::check::Case;
use super::super::recorder::{Bind, Cost, Extent, Extents, Recorder};
use super::super::shader::{Constant, Needs, Shader};

const WG_SIZE: u32 = 64;

/// Rounds of an invocation of [`multiply`], of 8 multiplications with additions of four each.
const ROUNDS: u32 = 64;

/// Multiplications with additions of an invocation.
pub const MACS: u64 = ROUNDS as u64 * 8 * 4;

fn shader(name: &'static str, text: &'static str) -> Shader {
    Shader {
        name,
        parts: vec![text],
        constants: vec![
            ("WG_SIZE", Constant::U32(WG_SIZE)),
            ("ROUNDS", Constant::U32(ROUNDS)),
        ],
        needs: Needs::default(),
    }
}

/// Texts of the two kernels.
#[must_use]
pub fn shaders() -> [Shader; 2] {
    [
        shader("copy", include_str!("yardstick_copy.wgsl")),
        shader("multiply", include_str!("yardstick_multiply.wgsl")),
    ]
}

/// Records `y[i] = x[i]` for `invocations` times 16 bytes.
pub fn copy(recorder: &mut Recorder<'_>, x: &wgpu::Buffer, y: &wgpu::Buffer, invocations: u32) {
    let [shader, _] = shaders();
    record(
        recorder,
        &shader,
        &[Bind::Read(x), Bind::Write(y)],
        invocations,
    );
}

/// Records [`MACS`] for each of `invocations`, whose sums go to `y`, 16 bytes each.
pub fn multiply(recorder: &mut Recorder<'_>, y: &wgpu::Buffer, invocations: u32) {
    let [_, shader] = shaders();
    record(recorder, &shader, &[Bind::Write(y)], invocations);
}

fn record(recorder: &mut Recorder<'_>, shader: &Shader, binds: &[Bind<'_>], invocations: u32) {
    // Rows of 1024 workgroups: no grid is too long in one dimension.
    let groups = invocations.div_ceil(WG_SIZE);
    let grid = [
        Extent::Fixed(groups.min(1024)),
        Extent::Fixed(groups.div_ceil(1024)),
        Extent::Fixed(1),
    ];
    recorder.dispatch(shader, binds, grid, Cost::default());
}

/// The twin of [`multiply`], of one component of one invocation.
#[must_use]
pub fn plain(invocation: u32) -> f32 {
    let mut sums = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0_f32].map(|i| i + invocation as f32);
    for _ in 0..ROUNDS {
        for sum in &mut sums {
            *sum = *sum * 0.5 + 1.0;
        }
    }
    sums.iter().sum()
}

/// Sums of `invocations`, or a copy of them.
#[must_use]
pub fn case(gpu: &Gpu, copies: bool, invocations: u32) -> Case {
    let want: Vec<f32> = (0..invocations).flat_map(|i| [plain(i); 4]).collect();
    let x = gpu.storage_of("x", &want);
    Case {
        kernel: if copies { "copy" } else { "multiply" }.to_owned(),
        description: format!("{invocations} invocations"),
        extents: Extents::default(),
        rows: 1,
        width: want.len(),
        want,
        before: None,
        max_nmse: 1e-10,
        record: Box::new(move |recorder, y| {
            match copies {
                true => copy(recorder, &x, y, invocations),
                false => multiply(recorder, y, invocations),
            }
            Ok(())
        }),
    }
}
