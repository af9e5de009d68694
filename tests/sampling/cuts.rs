//! Temperature, cuts and draw against examples worked out by hand.

use tokenbrook::backend::{BackendError, SampleParams, arg_max, log_sum_exp, sample};

use crate::{PLAIN, id};

/// Logits whose probabilities are 0.5, 0.25, 0.125, 0.0625, 0.0625, in a shuffled order.
const HALVES: [f32; 5] = [3.0 * LN_2, 2.0 * LN_2, 4.0 * LN_2, LN_2, LN_2];
const HALVES_P: [f64; 5] = [0.25, 0.125, 0.5, 0.0625, 0.0625];
const LN_2: f32 = std::f32::consts::LN_2;

/// How often each token is drawn for `n` evenly spaced uniforms.
fn counts(logits: &[f32], params: SampleParams, n: u32) -> Vec<u32> {
    let mut counts = vec![0; logits.len()];
    for i in 0..n {
        let uniform = (f64::from(i) + 0.5) / f64::from(n);
        counts[id(logits, SampleParams { uniform, ..params }) as usize] += 1;
    }
    counts
}

#[test]
fn temperature_zero_takes_the_largest_logit_and_the_lowest_id_among_equals() {
    let greedy = SampleParams {
        temperature: 0.0,
        uniform: 0.999,
        ..PLAIN
    };
    assert_eq!(id(&[0.5, 2.0, -1.0, 2.0, 2.0], greedy), 1);
    assert_eq!(id(&[7.0, 7.0, 7.0], greedy), 0);
    assert_eq!(id(&[f32::NEG_INFINITY, -9.0], greedy), 1);
    assert_eq!(id(&[-0.0, 0.0], greedy), 0);
}

#[test]
fn draws_in_proportion_to_the_probabilities() {
    assert_eq!(counts(&HALVES, PLAIN, 1600), [400, 200, 800, 100, 100]);
    // Doubling the temperature takes roots: 1/2, 1/4 .. become sqrt(8) : 2 : sqrt(2) : 1 : 1,
    // here for ids 2, 0, 1, 3, 4.
    let warm = SampleParams {
        temperature: 2.0,
        ..PLAIN
    };
    let total = 8_f64.sqrt() * 2_f64.sqrt() + 8_f64.sqrt() + 2.0 + 2.0 * 2_f64.sqrt();
    let want = [8_f64.sqrt(), 2.0, 4.0, 2_f64.sqrt(), 2_f64.sqrt()];
    for (count, want) in counts(&HALVES, warm, 10_000).into_iter().zip(want) {
        assert!(
            (f64::from(count) - want / total * 10_000.0).abs() < 1.5,
            "{count} {want}"
        );
    }
}

#[test]
fn draws_follow_rank_with_equal_logits_in_order_of_id() {
    // The cumulated probabilities by rank: 2 to 0.5, 0 to 0.75, 1 to 0.875, 3 to 0.9375, 4.
    for (uniform, want) in [
        (0.0, 2),
        (0.499, 2),
        (0.501, 0),
        (0.76, 1),
        (0.9, 3),
        (0.93, 3),
        (0.94, 4),
        (0.999, 4),
    ] {
        assert_eq!(
            id(&HALVES, SampleParams { uniform, ..PLAIN }),
            want,
            "{uniform}"
        );
    }
}

#[test]
fn top_k_keeps_the_best_k() {
    let top_k = |top_k| counts(&HALVES, SampleParams { top_k, ..PLAIN }, 1400);
    assert_eq!(top_k(1), [0, 0, 1400, 0, 0]);
    // 0.5, 0.25, 0.125 renormalized: 4/7, 2/7, 1/7.
    assert_eq!(top_k(3), [400, 200, 800, 0, 0]);
    // Of the two equal ones the lower id stays.
    let four = top_k(4);
    assert!(four[3] > 0 && four[4] == 0, "{four:?}");
    for all in [0, 5, 6, usize::MAX] {
        assert_eq!(top_k(all), counts(&HALVES, PLAIN, 1400), "{all}");
    }
}

#[test]
fn top_p_keeps_the_smallest_set_that_reaches_it() {
    let kept = |top_p| counts(&HALVES, SampleParams { top_p, ..PLAIN }, 4000);
    assert_eq!(kept(1e-9), [0, 0, 4000, 0, 0]);
    assert_eq!(kept(0.49), [0, 0, 4000, 0, 0]);
    let two = kept(0.51);
    assert!(
        two[0] > 0 && two[1..] == [0, 4000 - two[0], 0, 0],
        "{two:?}"
    );
    let three = kept(0.8);
    assert!(three[1] > 0 && three[3..] == [0, 0], "{three:?}");
    let four = kept(0.9);
    assert!(four[3] > 0 && four[4] == 0, "{four:?}");
    assert_eq!(kept(1.0), counts(&HALVES, PLAIN, 4000));
}

#[test]
fn top_p_measures_the_probabilities_before_top_k() {
    // Of all the mass, three tokens hold 0.875: less than 0.9, so all three stay. Renormalized
    // to the three, the first two would hold 6/7 = 0.857 and the cut at 0.85 drop the third.
    let params = SampleParams {
        top_k: 3,
        top_p: 0.85,
        ..PLAIN
    };
    assert_eq!(counts(&HALVES, params, 1400), [400, 200, 800, 0, 0]);
}

#[test]
fn min_p_drops_what_is_small_beside_the_largest() {
    let kept = |min_p| counts(&HALVES, SampleParams { min_p, ..PLAIN }, 1400);
    assert_eq!(kept(0.0), counts(&HALVES, PLAIN, 1400));
    assert_eq!(kept(0.2), [400, 200, 800, 0, 0]);
    assert_eq!(kept(0.3)[1], 0);
    assert_eq!(kept(1.0), [0, 0, 1400, 0, 0]);
    // Equals of the largest survive even a bound of 1.
    let twins = counts(
        &[1.0, 3.0, 3.0],
        SampleParams {
            min_p: 1.0,
            ..PLAIN
        },
        100,
    );
    assert_eq!(twins, [0, 50, 50]);
}

#[test]
fn cuts_apply_in_order() {
    // top-k leaves ids 2, 0, 1, 3; top-p 0.8 leaves 2, 0, 1; min-p 0.3 leaves 2, 0.
    let params = SampleParams {
        top_k: 4,
        top_p: 0.8,
        min_p: 0.3,
        ..PLAIN
    };
    assert_eq!(counts(&HALVES, params, 1500), [500, 0, 1000, 0, 0]);
}

#[test]
fn log_probabilities_are_of_the_raw_logits() {
    for temperature in [0.0, 0.3, 5.0] {
        let params = SampleParams {
            temperature,
            top_k: 2,
            min_p: 0.1,
            logprobs: Some(4),
            ..PLAIN
        };
        let sampled = sample(&HALVES, &params).unwrap();
        let logprobs = sampled.logprobs.unwrap();
        let close = |got: f64, id: u32| (got - HALVES_P[id as usize].ln()).abs() < 1e-6;
        assert!(close(logprobs.chosen, sampled.id), "{logprobs:?}");
        // Of the two equal ones the lower id stays.
        let ids: Vec<u32> = logprobs.top.iter().map(|token| token.id).collect();
        assert_eq!(ids, [2, 0, 1, 3]);
        assert!(
            logprobs.top.iter().all(|t| close(t.logprob, t.id)),
            "{logprobs:?}"
        );
    }
    let asked = |logits: &[f32], count| {
        let params = SampleParams {
            logprobs: Some(count),
            ..PLAIN
        };
        sample(logits, &params).unwrap().logprobs.unwrap()
    };
    assert_eq!(asked(&[3e38, 1.0], 0).chosen, 0.0);
    assert_eq!(asked(&HALVES, 0).top, []);
    // What cannot come is no alternative, and there are no more than the vocabulary has.
    assert_eq!(asked(&[0.5, f32::NEG_INFINITY], 20).top.len(), 1);
    assert_eq!(sample(&HALVES, &PLAIN).unwrap().logprobs, None);
    assert!((log_sum_exp(&HALVES, HALVES[2]) - (16.0_f64 * 2.0).ln()).abs() < 1e-6);
}

#[test]
fn rejects_logits_that_are_not_numbers() {
    for temperature in [0.0, 1.0] {
        let params = SampleParams {
            temperature,
            ..PLAIN
        };
        for logits in [
            &[1.0, f32::NAN, 2.0][..],
            &[f32::NAN],
            &[1.0, f32::INFINITY],
            &[f32::NEG_INFINITY; 3],
            &[],
        ] {
            assert_eq!(
                sample(logits, &params),
                Err(BackendError::NotFinite),
                "{logits:?}"
            );
            assert_eq!(arg_max(logits), Err(BackendError::NotFinite));
        }
    }
}

#[test]
fn never_chooses_what_a_mask_excludes() {
    let logits = [
        f32::NEG_INFINITY,
        0.1,
        f32::NEG_INFINITY,
        0.2,
        f32::NEG_INFINITY,
    ];
    for uniform in [0.0, 0.3, 0.999_999_999, 1.0 - f64::EPSILON / 2.0] {
        for temperature in [1e-30, 0.1, 1.0, 1e30] {
            let params = SampleParams {
                temperature,
                uniform,
                ..PLAIN
            };
            assert_eq!(id(&logits, params) % 2, 1);
        }
    }
    // Even a uniform outside its range stays among what the cuts left.
    assert_eq!(
        id(
            &logits,
            SampleParams {
                uniform: 1.0,
                ..PLAIN
            }
        ),
        1
    );
    assert_eq!(
        id(
            &logits,
            SampleParams {
                uniform: f64::NAN,
                ..PLAIN
            }
        ),
        1
    );
    assert_eq!(
        id(
            &logits,
            SampleParams {
                min_p: 2.0,
                ..PLAIN
            }
        ),
        3
    );
}

#[test]
fn a_vocabulary_of_one_leaves_no_choice() {
    for params in [
        PLAIN,
        SampleParams {
            temperature: 0.0,
            ..PLAIN
        },
        SampleParams {
            top_k: 1,
            top_p: 0.1,
            min_p: 1.0,
            uniform: 0.99,
            ..PLAIN
        },
    ] {
        assert_eq!(id(&[-4.0], params), 0);
    }
}
