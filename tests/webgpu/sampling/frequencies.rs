//! Frequencies of draws against exact probabilities.

use pollster::block_on;
use tokenbrook::backend::SampleParams;
use tokenbrook::backend::webgpu::check::Seeded;
use tokenbrook::backend::webgpu::kernels::sample_case::Trial;
use tokenbrook::backend::webgpu::sampler::{SampleStep, read_slot};

use super::expected::Expected;
use super::trials;

const DRAWS: u32 = 10_000;

#[test]
fn draws_are_distributed_as_the_probabilities_say() {
    let cuts = [(0, 1.0, 0.0), (40, 0.95, 0.02)];
    for ((variant, mut trial), (top_k, top_p, min_p)) in trials(211).zip(cuts) {
        let mut seeded = Seeded::new(1129);
        let mut logits: Vec<f32> = seeded.values(211).iter().map(|z| 4.0 * z).collect();
        for at in [7, 90, 91, 210] {
            logits[at] = 4.5;
        }
        trial.write_row(0, &logits);
        let params = SampleParams {
            temperature: 1.1,
            top_k,
            top_p,
            min_p,
            ..SampleParams::GREEDY
        };
        let probabilities = Expected::new(&logits, &params).probabilities(&params, 211);
        let counts = counts(&mut trial, &params, &mut seeded);
        assert_fits(&counts, &probabilities, &format!("{variant:?}"));
    }
}

/// How often each id is drawn; a ring's worth of draws is read at once.
fn counts(trial: &mut Trial, params: &SampleParams<'_>, seeded: &mut Seeded) -> Vec<u32> {
    let mut counts = vec![0_u32; 211];
    let mut left = DRAWS;
    while left > 0 {
        let slots = (0..64).take(left as usize);
        for out_slot in slots.clone() {
            let uniform = (seeded.bits() >> 11) as f64 / (1_u64 << 53) as f64;
            let params = SampleParams { uniform, ..*params };
            let step = SampleStep {
                out_slot,
                ..SampleStep::default()
            };
            block_on(trial.submit(&params, &step, 1)).expect("the device works");
            left -= 1;
        }
        let ring = block_on(trial.ring()).expect("the device works");
        for words in &ring[..slots.count()] {
            counts[read_slot(words).expect("finite").id as usize] += 1;
        }
    }
    counts
}

/// No impossible token, and a chi-square below what one seed in two thousand exceeds. Tokens
/// expected less than five times share one class.
fn assert_fits(counts: &[u32], probabilities: &[f64], what: &str) {
    let (mut chi_square, mut classes) = (0.0, 0.0);
    let (mut rare_count, mut rare_want) = (0.0, 0.0);
    let mut class = |count: f64, want: f64| {
        chi_square += (count - want).powi(2) / want;
        classes += 1.0;
    };
    for (token, (&count, &p)) in counts.iter().zip(probabilities).enumerate() {
        assert!(
            p > 0.0 || count == 0,
            "{what}: {token} was drawn {count} times"
        );
        let (count, want) = (f64::from(count), p * f64::from(DRAWS));
        if want >= 5.0 {
            class(count, want);
        } else {
            rare_count += count;
            rare_want += want;
        }
    }
    if rare_want > 0.0 {
        class(rare_count, rare_want.max(1e-9));
    }
    // Wilson and Hilferty's approximation of the 99.95 % point.
    let freedom: f64 = classes - 1.0;
    let ninth = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - ninth + 3.29 * ninth.sqrt()).powi(3);
    assert!(classes > 10.0, "{what}: {classes} classes");
    assert!(chi_square < limit, "{what}: {chi_square} of {limit}");
}
