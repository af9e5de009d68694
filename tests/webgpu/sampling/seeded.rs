//! Seeded logits and parameters.

use tokenbrook::backend::webgpu::check::Seeded;
use tokenbrook::backend::webgpu::kernels::sample::Variant;
use tokenbrook::backend::webgpu::kernels::sample_case::Trial;
use tokenbrook::backend::{Adjustments, SampleParams, TokenBias, TokenUse};

use super::expected::Expected;
use super::{Agreement, compare, trials};

fn below(seeded: &mut Seeded, bound: u64) -> usize {
    usize::try_from(seeded.bits() % bound).expect("a small number")
}

fn one_of<T: Copy>(seeded: &mut Seeded, values: &[T]) -> T {
    values[below(seeded, values.len() as u64)]
}

fn uniform(seeded: &mut Seeded) -> f64 {
    (seeded.bits() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Nearly normal.
fn bell(seeded: &mut Seeded) -> f32 {
    2.0 * (seeded.value() + seeded.value() + seeded.value() + seeded.value())
}

/// Logits of many shapes.
pub(super) fn logits(seeded: &mut Seeded, vocab: usize) -> (Vec<f32>, &'static str) {
    let mut bells: Vec<f32> = (0..vocab).map(|_| bell(seeded)).collect();
    let what = one_of(
        seeded,
        &[
            "bell", "bell", "peaked", "ties", "equal", "rising", "falling", "holes", "few", "flat",
            "zeros", "shifted",
        ],
    );
    match what {
        "peaked" => {
            for i in 0..vocab.min(40) {
                let at = below(seeded, vocab as u64);
                bells[at] = 20.0 - i as f32 / 3.0;
            }
        }
        "ties" => bells.iter_mut().for_each(|z| *z = (2.0 * *z).round() / 2.0),
        "equal" => bells.fill(seeded.value()),
        "rising" => bells.sort_by(f32::total_cmp),
        "falling" => bells.sort_by(|a, b| b.total_cmp(a)),
        "holes" => bells
            .iter_mut()
            .step_by(3)
            .for_each(|z| *z = f32::NEG_INFINITY),
        "few" => {
            let keep = below(seeded, vocab as u64);
            for (i, z) in bells.iter_mut().enumerate() {
                if i != keep && i % 97 != 5 {
                    *z = f32::NEG_INFINITY;
                }
            }
        }
        "flat" => bells.iter_mut().for_each(|z| *z *= 1e-3),
        "zeros" => bells.iter_mut().for_each(|z| *z = (*z * 0.2).trunc() * 1.0),
        "shifted" => bells.iter_mut().for_each(|z| *z = *z * 30.0 - 200.0),
        _ => {}
    }
    (bells, what)
}

/// Lists that [`params`] refers to.
#[derive(Default)]
pub(super) struct Lists {
    used: Vec<TokenUse>,
    biases: Vec<TokenBias>,
    mask: Option<Vec<u32>>,
}

fn lists(seeded: &mut Seeded, vocab: usize) -> Lists {
    let mut lists = Lists::default();
    if below(seeded, 3) > 0 {
        return lists;
    }
    let id = |seeded: &mut Seeded| u32::try_from(below(seeded, vocab as u64 + 2)).unwrap_or(0);
    if below(seeded, 2) == 0 {
        let mut ids: Vec<u32> = (0..below(seeded, 300)).map(|_| id(seeded)).collect();
        ids.sort_unstable();
        ids.dedup();
        let used = ids.into_iter().map(|id| TokenUse {
            id,
            in_answer: u32::try_from(below(seeded, 4)).unwrap_or(0),
        });
        lists.used = used.collect();
    }
    if below(seeded, 2) == 0 {
        let count = below(seeded, 40);
        lists.biases = (0..count)
            .map(|_| TokenBias {
                id: id(seeded),
                bias: one_of(seeded, &[-100.0, -1.3, 0.7, 5.0]),
            })
            .collect();
    }
    if below(seeded, 2) == 0 {
        let words = vocab.div_ceil(32) - below(seeded, 2);
        let dense = below(seeded, 2) == 0;
        let mask = (0..words).map(|_| {
            let bits = seeded.bits().to_le_bytes();
            let word = u32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]);
            let other = u32::from_le_bytes([bits[4], bits[5], bits[6], bits[7]]);
            if dense {
                word | other
            } else {
                word & other & 0x1111_1111
            }
        });
        lists.mask = Some(mask.collect());
    }
    lists
}

fn params<'a>(seeded: &mut Seeded, lists: &'a Lists) -> SampleParams<'a> {
    SampleParams {
        adjust: Adjustments {
            repetition_penalty: one_of(seeded, &[1.0, 1.1, 1.37, 0.8]),
            frequency_penalty: one_of(seeded, &[0.0, 0.3, -0.21]),
            presence_penalty: one_of(seeded, &[0.0, 0.4]),
            used: &lists.used,
            biases: &lists.biases,
            mask: lists.mask.as_deref(),
        },
        temperature: one_of(seeded, &[0.0, 0.8, 1.0, 0.2, 0.01, 1.7, 5.0, 100.0]),
        top_k: one_of(seeded, &[0, 0, 1, 2, 40, 40, 100, 128, 700, 5000]),
        top_p: one_of(seeded, &[1.0, 1.0, 0.95, 0.9, 0.5, 0.01, 0.999]),
        min_p: one_of(seeded, &[0.0, 0.0, 0.05, 0.5, 1.0, 1e-4]),
        uniform: match below(seeded, 12) {
            0 => 0.0,
            1 => 1.0 - f64::EPSILON / 2.0,
            _ => uniform(seeded),
        },
        logprobs: one_of(seeded, &[None, None, Some(0), Some(1), Some(5), Some(20)]),
        pending: &[],
    }
}

fn rounds(trial: &mut (Variant, Trial), vocab: usize, count: u64) {
    let mut agreement = Agreement::default();
    let (variant, trial) = trial;
    let mut row = (vec![], "");
    for seed in 0..count {
        let mut seeded = Seeded::new(seed * 7919 + vocab as u64);
        // Making logits of a large vocabulary takes longer than sampling.
        if vocab < 10_000 || seed % 4 == 0 {
            row = logits(&mut seeded, vocab);
            trial.write_row(0, &row.0);
        }
        let lists = lists(&mut seeded, vocab);
        let params = params(&mut seeded, &lists);
        let what = format!(
            "V {vocab}, seed {seed}, {}, T {} k {} p {} min {} u {}",
            row.1, params.temperature, params.top_k, params.top_p, params.min_p, params.uniform
        );
        compare(&mut agreement, (*variant, trial), &row.0, &params, &what);
    }
    // Draws near a boundary are rare.
    assert!(
        agreement.same > 0 && agreement.excused * 100 <= agreement.same + 100,
        "{variant:?}, V {vocab}: {agreement:?}"
    );
}

#[test]
fn agrees_with_the_host_on_small_vocabularies() {
    for vocab in [1, 7, 255, 257, 1000] {
        // The kernels need neither subgroups nor f16, so the set-ups differ in limits alone.
        for (at, mut trial) in trials(vocab).enumerate() {
            rounds(&mut trial, vocab, if at < 2 { 180 } else { 20 });
        }
    }
}

#[test]
fn agrees_with_the_host_on_a_real_vocabulary() {
    for mut trial in trials(49_152).take(2) {
        rounds(&mut trial, 49_152, 100);
    }
}

#[test]
fn agrees_with_the_host_on_the_largest_vocabulary() {
    for mut trial in trials(262_144).take(2) {
        rounds(&mut trial, 262_144, 24);
    }
}

/// The agreement is no looser than it is said to be: right beside a boundary the device and the
/// host part nowhere but at the boundary itself.
#[test]
fn agrees_with_the_host_right_beside_a_boundary() {
    let vocab = 5000;
    for (variant, mut trial) in trials(vocab).take(2) {
        let mut seeded = Seeded::new(404);
        let bells: Vec<f32> = (0..vocab).map(|_| bell(&mut seeded)).collect();
        trial.write_row(0, &bells);
        for (temperature, top_k, top_p) in [(1.0, 40, 1.0), (0.7, 0, 0.9), (3.0, 0, 1.0)] {
            let mut agreement = Agreement::default();
            let params = SampleParams {
                temperature,
                top_k,
                top_p,
                ..SampleParams::GREEDY
            };
            let boundaries = Expected::new(&bells, &params).boundaries(&params);
            for at in [0, 1, 7, 30] {
                for beside in [-1.1e-5, 1.1e-5] {
                    let uniform = boundaries[at] + beside;
                    let params = SampleParams { uniform, ..params };
                    let what = format!("boundary {at}, {beside}, T {temperature}");
                    compare(
                        &mut agreement,
                        (variant, &mut trial),
                        &bells,
                        &params,
                        &what,
                    );
                }
            }
            assert_eq!(agreement.same, 8, "{variant:?}, T {temperature}");
        }
    }
}
