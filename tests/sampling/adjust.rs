//! Penalties, biases and masks, worked out by hand.

use tokenbrook::backend::{
    Adjustments, BackendError, SampleParams, TokenBias, TokenUse, arg_max, sample,
};

use crate::{PLAIN, id};

/// A token's logit after the adjustments, found as the bias with which it overtakes token 0,
/// whose logit is 0 and stays so.
fn margin(logits: &[f32], adjust: Adjustments<'_>, token: u32) -> f32 {
    let (mut low, mut high) = (-50.0_f32, 50.0_f32);
    for _ in 0..40 {
        let middle = f32::midpoint(low, high);
        let mut biases = adjust.biases.to_vec();
        biases.push(TokenBias {
            id: token,
            bias: middle,
        });
        // Everything else is far below the two.
        let others = (1..u32::try_from(logits.len()).unwrap()).filter(|&other| other != token);
        biases.extend(others.map(|id| TokenBias { id, bias: -1e4 }));
        let adjust = Adjustments {
            biases: &biases,
            ..adjust
        };
        let params = SampleParams {
            adjust,
            ..SampleParams::GREEDY
        };
        if id(logits, params) == token {
            high = middle;
        } else {
            low = middle;
        }
    }
    -high
}

fn used(id: u32, in_answer: u32) -> TokenUse {
    TokenUse { id, in_answer }
}

#[test]
fn penalties_give_the_logits_worked_out_by_hand() {
    let logits = [0.0, 3.0, -2.0, 3.0, -2.0, 0.5];
    let adjust = Adjustments {
        repetition_penalty: 1.5,
        frequency_penalty: 0.25,
        presence_penalty: 0.5,
        used: &[used(1, 0), used(2, 0), used(3, 2), used(4, 1)],
        ..Adjustments::NONE
    };
    for (token, want) in [
        // In the prompt only: 3 / 1.5 and -2 * 1.5.
        (1, 2.0),
        (2, -3.0),
        // Twice in the answer: 3 / 1.5 - 2 * 0.25 - 0.5; once: -2 * 1.5 - 0.25 - 0.5.
        (3, 1.0),
        (4, -3.75),
        // Not used.
        (5, 0.5),
    ] {
        let got = margin(&logits, adjust, token);
        assert!((got - want).abs() < 1e-4, "{token}: {got} {want}");
    }
    // Below 1 it rewards.
    let reward = Adjustments {
        repetition_penalty: 0.5,
        used: &[used(1, 0), used(2, 0)],
        ..Adjustments::NONE
    };
    assert!((margin(&logits, reward, 1) - 6.0).abs() < 1e-4);
    assert!((margin(&logits, reward, 2) + 1.0).abs() < 1e-4);
}

#[test]
fn biases_are_added_after_the_penalties() {
    let logits = [0.0, 4.0, -1.0];
    let biases = [
        TokenBias { id: 1, bias: -3.0 },
        TokenBias { id: 2, bias: 2.5 },
        // Outside the vocabulary.
        TokenBias { id: 900, bias: 9.0 },
    ];
    let adjust = Adjustments {
        repetition_penalty: 2.0,
        used: &[used(1, 0), used(77, 1)],
        biases: &biases,
        ..Adjustments::NONE
    };
    // 4 / 2 - 3, where adding first would give (4 - 3) / 2.
    assert!((margin(&logits, adjust, 1) + 1.0).abs() < 1e-4);
    assert!((margin(&logits, adjust, 2) - 1.5).abs() < 1e-4);
}

#[test]
fn log_probabilities_ignore_all_adjustments() {
    let logits = [0.3, 1.7, -0.4, 0.9];
    let biases = [TokenBias { id: 2, bias: 50.0 }];
    let params = SampleParams {
        adjust: Adjustments {
            repetition_penalty: 3.0,
            used: &[used(1, 4)],
            biases: &biases,
            mask: Some(&[0b0110]),
            ..Adjustments::NONE
        },
        logprobs: Some(2),
        ..PLAIN
    };
    let sampled = sample(&logits, &params).unwrap();
    let total: f64 = logits.iter().map(|&z: &f32| f64::from(z).exp()).sum();
    let softmax = |id: usize| f64::from(logits[id]) - total.ln();
    let logprobs = sampled.logprobs.unwrap();
    assert_eq!(sampled.id, 2);
    assert!((logprobs.chosen - softmax(2)).abs() < 1e-9);
    let top: Vec<u32> = logprobs.top.iter().map(|token| token.id).collect();
    assert_eq!(top, [1, 3]);
    assert!((logprobs.top[0].logprob - softmax(1)).abs() < 1e-9);
}

#[test]
fn a_mask_lets_through_its_bits_and_nothing_beyond_its_end() {
    // 77 tokens: two words and a part; the largest logits are the last ones.
    let logits: Vec<f32> = (0..77_u8).map(f32::from).collect();
    let greedy = |mask: &[u32]| {
        let adjust = Adjustments {
            mask: Some(mask),
            ..Adjustments::NONE
        };
        id(
            &logits,
            SampleParams {
                adjust,
                ..SampleParams::GREEDY
            },
        )
    };
    assert_eq!(greedy(&[u32::MAX; 3]), 76);
    assert_eq!(greedy(&[u32::MAX; 2]), 63);
    assert_eq!(greedy(&[0, 1 << 7, 0]), 39);
    assert_eq!(greedy(&[1, 0, 1 << 13 | 1 << 3]), 67);
    assert_eq!(greedy(&[0x8000_0000]), 31);
    for temperature in [0.0, 0.7, 1e30] {
        for uniform in [0.0, 0.5, 1.0 - f64::EPSILON] {
            let params = SampleParams {
                adjust: Adjustments {
                    mask: Some(&[0, 0b1010, 0]),
                    ..Adjustments::NONE
                },
                temperature,
                uniform,
                ..PLAIN
            };
            assert!([33, 35].contains(&id(&logits, params)));
        }
    }
    // Bits past the vocabulary are no tokens.
    let params = SampleParams {
        adjust: Adjustments {
            mask: Some(&[0, 0, 1 << 13, u32::MAX]),
            ..Adjustments::NONE
        },
        ..PLAIN
    };
    let error = sample(&logits, &params).unwrap_err();
    assert!(
        matches!(error, BackendError::Usage { op: "sample", .. }),
        "{error}"
    );
}

#[test]
fn adjustments_neither_revive_an_impossible_token_nor_make_infinities() {
    let logits = [f32::NEG_INFINITY, 3e38, -3e38];
    let biases = [TokenBias { id: 0, bias: 100.0 }];
    let params = SampleParams {
        adjust: Adjustments {
            repetition_penalty: 1e-3,
            used: &[used(0, 1), used(1, 1), used(2, 1)],
            biases: &biases,
            ..Adjustments::NONE
        },
        ..PLAIN
    };
    assert_eq!(id(&logits, params), 1);
    assert_eq!(arg_max(&logits), Ok(1));
}
