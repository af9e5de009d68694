//! Frequencies of draws: against a plain implementation and against candle's sampler.

use candle_core::{Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use tokenbrook::backend::{Adjustments, SampleParams, TokenBias, TokenUse};

use crate::{PLAIN, id};

const DRAWS: u32 = 20_000;

/// SplitMix64 (<https://prng.di.unimi.it/splitmix64.c>) as a uniform in `[0, 1)`.
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// 211 logits, some of them equal.
fn logits() -> Vec<f32> {
    let mut state = 20_261_129;
    #[expect(clippy::cast_possible_truncation, reason = "a logit")]
    let mut logits: Vec<f32> = (0..211)
        .map(|_| ((uniform(&mut state) + uniform(&mut state)) * 4.5) as f32)
        .collect();
    for at in [7, 90, 91, 210] {
        logits[at] = 6.5;
    }
    logits
}

/// Probabilities after all cuts, by whole sorts and a fresh sum at each step.
fn expected(logits: &[f32], params: &SampleParams<'_>) -> Vec<f64> {
    let weights = logits
        .iter()
        .map(|&z| (f64::from(z) / f64::from(params.temperature)).exp());
    let weights: Vec<f64> = weights.collect();
    let total: f64 = weights.iter().sum();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    // A stable sort leaves equal ones in order of id.
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    if params.top_k > 0 {
        order.truncate(params.top_k);
    }
    let reached = |count: usize| {
        order[..count]
            .iter()
            .map(|&i| weights[i] / total)
            .sum::<f64>()
    };
    let enough = (1..=order.len()).find(|&count| reached(count) >= f64::from(params.top_p));
    let enough = enough.unwrap_or(order.len());
    let largest = weights[order[0]];
    let kept = order[..enough]
        .iter()
        .filter(|&&i| weights[i] >= f64::from(params.min_p) * largest);
    let mut probabilities = vec![0.0; weights.len()];
    for &i in kept {
        probabilities[i] = weights[i];
    }
    let kept: f64 = probabilities.iter().sum();
    probabilities.iter_mut().for_each(|p| *p /= kept);
    probabilities
}

/// Asserts that counts fit probabilities: no impossible token, and a chi-square below what one
/// seed in two thousand exceeds. Tokens expected less than five times share one class.
fn assert_fits(counts: &[u32], probabilities: &[f64], what: &str) {
    let draws: f64 = counts.iter().map(|&n| f64::from(n)).sum();
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
        let (count, want) = (f64::from(count), p * draws);
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
    assert!(classes > 1.0, "{what}: {classes} classes");
    assert!(chi_square < limit, "{what}: {chi_square} of {limit}");
}

fn counts(logits: &[f32], params: &SampleParams<'_>, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut counts = vec![0; logits.len()];
    for _ in 0..DRAWS {
        let uniform = uniform(&mut state);
        counts[id(logits, SampleParams { uniform, ..*params }) as usize] += 1;
    }
    counts
}

/// Each cut alone, two together, all together.
fn cuts() -> Vec<(&'static str, SampleParams<'static>)> {
    let with = |temperature, top_k, top_p, min_p| SampleParams {
        temperature,
        top_k,
        top_p,
        min_p,
        ..PLAIN
    };
    vec![
        ("nothing", PLAIN),
        ("cold", with(0.6, 0, 1.0, 0.0)),
        ("hot", with(4.0, 0, 1.0, 0.0)),
        ("top-k", with(1.0, 17, 1.0, 0.0)),
        ("top-p", with(1.0, 0, 0.9, 0.0)),
        ("min-p", with(1.0, 0, 1.0, 0.07)),
        ("top-k, top-p", with(1.3, 60, 0.55, 0.0)),
        ("top-p, min-p", with(1.3, 0, 0.97, 0.1)),
        ("top-k, min-p", with(0.8, 90, 1.0, 0.02)),
        ("top-k, top-p, min-p", with(0.8, 40, 0.95, 0.05)),
        (
            "top-k wider than what the ranks begin with",
            with(3.0, 150, 0.9, 0.0),
        ),
    ]
}

#[test]
fn each_cut_alone_and_together_draws_as_a_plain_implementation_says() {
    let logits = logits();
    for (seed, (what, params)) in (1..).zip(cuts()) {
        let probabilities = expected(&logits, &params);
        assert_fits(&counts(&logits, &params, seed), &probabilities, what);
    }
}

#[test]
fn penalties_and_biases_come_before_the_cuts() {
    let logits = logits();
    let used =
        [(7, 0), (90, 3), (4, 1), (130, 2)].map(|(id, in_answer)| TokenUse { id, in_answer });
    let biases = [(12, 4.0), (91, -3.5)].map(|(id, bias)| TokenBias { id, bias });
    let mut by_hand = logits.clone();
    for used in used {
        let z = &mut by_hand[used.id as usize];
        *z = if *z > 0.0 { *z / 1.3 } else { *z * 1.3 };
        if used.in_answer > 0 {
            *z -= used.in_answer as f32 * 0.2 + 0.6;
        }
    }
    for bias in biases {
        by_hand[bias.id as usize] += bias.bias;
    }
    let adjust = Adjustments {
        repetition_penalty: 1.3,
        frequency_penalty: 0.2,
        presence_penalty: 0.6,
        used: &used,
        biases: &biases,
        mask: None,
    };
    for (seed, (what, params)) in (41..).zip(cuts()) {
        let probabilities = expected(&by_hand, &params);
        let params = SampleParams { adjust, ..params };
        assert_fits(&counts(&logits, &params, seed), &probabilities, what);
    }
}

#[test]
fn draws_are_distributed_as_those_of_candle() {
    let logits = logits();
    let tensor = Tensor::new(logits.as_slice(), &Device::Cpu).expect("a tensor");
    let params = |temperature: f32, top_k, top_p: f32| SampleParams {
        temperature,
        top_k,
        top_p,
        ..PLAIN
    };
    for (theirs, ours) in [
        (Sampling::All { temperature: 1.0 }, params(1.0, 0, 1.0)),
        (
            Sampling::TopK {
                k: 23,
                temperature: 0.75,
            },
            params(0.75, 23, 1.0),
        ),
        (
            Sampling::TopP {
                p: 0.875,
                temperature: 1.25,
            },
            params(1.25, 0, 0.875),
        ),
        (
            Sampling::TopKThenTopP {
                k: 60,
                p: 0.625,
                temperature: 1.5,
            },
            params(1.5, 60, 0.625),
        ),
    ] {
        let what = format!("{theirs:?}");
        // Evenly spaced uniforms: our probabilities to one part in sixty thousand.
        let fine = 3 * DRAWS;
        let mut ours_by_id = vec![0.0; logits.len()];
        for i in 0..fine {
            let uniform = (f64::from(i) + 0.5) / f64::from(fine);
            ours_by_id[id(&logits, SampleParams { uniform, ..ours }) as usize] += 1.0;
        }
        ours_by_id.iter_mut().for_each(|p| *p /= f64::from(fine));
        let mut processor = LogitsProcessor::from_sampling(1129, theirs);
        let mut counts = vec![0_u32; logits.len()];
        for _ in 0..DRAWS / 4 {
            counts[processor.sample(&tensor).expect("a draw") as usize] += 1;
        }
        assert_fits(&counts, &ours_by_id, &what);
    }
    let greedy = SampleParams::GREEDY;
    let mut processor = LogitsProcessor::from_sampling(0, Sampling::ArgMax);
    let theirs = processor.sample(&tensor).expect("a choice") as usize;
    // Among equal logits candle's choice is its own.
    assert_eq!(logits[theirs], logits[id(&logits, greedy) as usize]);
}
