//! What cannot be chosen from, what the host has not seen yet, and what a slot says.

use pollster::block_on;
use tokenbrook::backend::webgpu::check::Seeded;
use tokenbrook::backend::webgpu::sampler::{
    MAX_PENDING, MAX_TOP, Mode, SLOT_WORDS, SampleStep, read_slot,
};
use tokenbrook::backend::{
    Adjustments, BackendError, SampleParams, TokenBias, TokenUse, arg_max, sample,
};

use super::{draw, trials};

const GREEDY: SampleParams<'static> = SampleParams::GREEDY;

fn warm() -> SampleParams<'static> {
    SampleParams {
        temperature: 0.9,
        uniform: 0.6,
        logprobs: Some(3),
        ..GREEDY
    }
}

#[test]
fn rejects_logits_that_are_not_numbers() {
    for (variant, mut trial) in trials(300).take(2) {
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY] {
            for at in [0, 255, 299] {
                let mut logits = Seeded::new(3).values(300);
                logits[at] = bad;
                trial.write_row(0, &logits);
                for params in [GREEDY, warm()] {
                    let got = draw(&mut trial, &params, &SampleStep::default());
                    assert_eq!(
                        got,
                        Err(BackendError::NotFinite),
                        "{variant:?} {bad} at {at}"
                    );
                }
            }
        }
        trial.write_row(0, &[f32::NEG_INFINITY; 300]);
        for params in [GREEDY, warm()] {
            let got = draw(&mut trial, &params, &SampleStep::default());
            assert_eq!(got, Err(BackendError::NotFinite), "{variant:?}");
        }
    }
}

#[test]
fn rejects_a_mask_that_excludes_all_and_never_draws_what_a_mask_excludes() {
    for (variant, mut trial) in trials(70).take(2) {
        let mut logits = Seeded::new(5).values(70);
        logits[66] = f32::NEG_INFINITY;
        trial.write_row(0, &logits);
        // Bits beyond the vocabulary, a token that is impossible already, no words at all.
        for mask in [&[0, 0, 1 << 20][..], &[0, 0, 1 << 2], &[]] {
            for params in [GREEDY, warm()] {
                let adjust = Adjustments {
                    mask: Some(mask),
                    ..Adjustments::NONE
                };
                let params = SampleParams { adjust, ..params };
                let got = draw(&mut trial, &params, &SampleStep::default());
                let want = sample(&logits, &params);
                assert!(want.is_err());
                assert_eq!(got, want, "{variant:?} {mask:?}");
            }
        }
        let mask = [1 << 17 | 1 << 3, 1 << 31];
        for step in 0..40 {
            let adjust = Adjustments {
                mask: Some(&mask),
                ..Adjustments::NONE
            };
            let params = SampleParams {
                adjust,
                temperature: 50.0,
                uniform: f64::from(step) / 39.000_001,
                ..GREEDY
            };
            let got = draw(&mut trial, &params, &SampleStep::default());
            let id = got.expect("three may be chosen").id;
            assert!([3, 17, 63].contains(&id), "{variant:?}: {id}");
        }
    }
}

#[test]
fn the_lowest_id_wins_among_equal_logits_and_both_zeros_are_equal() {
    for (variant, mut trial) in trials(1000).take(2) {
        let mut logits = vec![-1.0; 1000];
        for (first, second) in [(0.0, -0.0), (-0.0, 0.0), (0.5, 0.5), (-1e-44, -1e-44)] {
            for (low, high) in [(0, 999), (255, 256), (511, 512), (998, 999)] {
                (logits[low], logits[high]) = (first, second);
                trial.write_row(0, &logits);
                let got = draw(&mut trial, &GREEDY, &SampleStep::default());
                assert_eq!(got.expect("finite").id as usize, low, "{variant:?}");
                (logits[low], logits[high]) = (-1.0, -1.0);
            }
        }
    }
}

/// What the host does once it has seen the pending tokens.
fn with_seen(used: &[TokenUse], seen: &[u32]) -> Vec<TokenUse> {
    let mut used = used.to_vec();
    for &id in seen {
        match used.iter_mut().find(|used| used.id == id) {
            Some(used) => used.in_answer += 1,
            None => used.push(TokenUse { id, in_answer: 1 }),
        }
    }
    used
}

#[test]
fn tokens_that_the_host_has_not_seen_count_as_used() {
    let used = [(3, 0), (9, 2), (70, 1)].map(|(id, in_answer)| TokenUse { id, in_answer });
    let biases = [TokenBias { id: 9, bias: 1.5 }];
    let mask = [u32::MAX, u32::MAX, u32::MAX, !(1 << 2)];
    let seeds = Seeded::new(77).values(MAX_PENDING);
    for (variant, mut trial) in trials(120).take(2) {
        let mut logits: Vec<f32> = Seeded::new(8).values(120).iter().map(|z| 3.0 * z).collect();
        // Some new, some listed, some twice, one masked.
        let pending = [9, 44, 44, 3, 98, 119, 44, 0];
        let slots = [5, 63, 1, 2, 30, 31, 32, 0];
        for (&id, &out_slot) in pending.iter().zip(&slots) {
            let mut one = vec![0.0; 120];
            one[id as usize] = 1.0;
            trial.write_row(1, &one);
            let step = SampleStep {
                row: 1,
                out_slot,
                pending: &[],
            };
            let got = draw(&mut trial, &GREEDY, &step);
            assert_eq!(got.expect("finite").id, id);
        }
        // Penalties decide among the largest.
        for (i, id) in [9, 44, 3, 98, 119, 0, 70, 60, 61].into_iter().enumerate() {
            logits[id] = 5.0 - 0.1 * i as f32;
        }
        trial.write_row(0, &logits);
        for number in 0..=MAX_PENDING {
            for (temperature, seed) in [(0.0, 0.0), (1.0, seeds[0].abs()), (2.0, seeds[1].abs())] {
                let adjust = Adjustments {
                    repetition_penalty: 1.3,
                    frequency_penalty: 0.45,
                    presence_penalty: 0.3,
                    used: &used,
                    biases: &biases,
                    mask: Some(&mask),
                };
                let params = SampleParams {
                    adjust,
                    temperature,
                    uniform: f64::from(seed),
                    logprobs: Some(4),
                    ..GREEDY
                };
                let step = SampleStep {
                    row: 0,
                    out_slot: 40,
                    pending: &slots[..number],
                };
                let got = draw(&mut trial, &params, &step).expect("finite").id;
                let seen = with_seen(&used, &pending[..number]);
                let adjust = Adjustments {
                    used: &seen,
                    ..adjust
                };
                let want = sample(&logits, &SampleParams { adjust, ..params });
                assert_eq!(
                    got,
                    want.expect("finite").id,
                    "{variant:?}, {number} pending"
                );
            }
        }
    }
}

/// Penalties change a logit to the same number as on the host, so greedy steps agree even
/// where another token is one unit in the last place away.
#[test]
fn penalties_round_as_on_the_host() {
    for (variant, mut trial) in trials(257).take(2) {
        let mut seeded = Seeded::new(20);
        for round in 0..150 {
            let z = 12.0 * seeded.value();
            let used = [TokenUse {
                id: 200,
                in_answer: round % 4,
            }];
            let adjust = Adjustments {
                repetition_penalty: 1.0 + 0.4 * seeded.value(),
                frequency_penalty: 0.5 * seeded.value(),
                presence_penalty: 0.5 * seeded.value(),
                used: &used,
                biases: &[TokenBias {
                    id: 200,
                    bias: seeded.value(),
                }],
                mask: None,
            };
            let params = SampleParams { adjust, ..GREEDY };
            let mut logits = vec![f32::MIN; 257];
            logits[200] = z;
            let exact = super::expected::adjusted(&logits, &params)[200];
            for (rival, wins) in [
                (exact.next_down(), 200),
                (exact, 100),
                (exact.next_up(), 100),
            ] {
                logits[100] = rival;
                trial.write_row(0, &logits);
                assert_eq!(sample(&logits, &params).expect("finite").id, wins);
                let got = draw(&mut trial, &params, &SampleStep::default());
                assert_eq!(got.expect("finite").id, wins, "{variant:?}, round {round}");
            }
        }
    }
}

#[test]
fn rows_slots_and_modes_do_not_disturb_each_other() {
    for (variant, mut trial) in trials(255).take(2) {
        let rows = [Seeded::new(1).values(255), Seeded::new(2).values(255)];
        for (row, logits) in rows.iter().enumerate() {
            trial.write_row(row, logits);
        }
        for round in 0..12 {
            let (row, out_slot) = (round % 2, 7 + u32::try_from(round).expect("small"));
            let params = if round % 3 == 0 { GREEDY } else { warm() };
            let step = SampleStep {
                row,
                out_slot,
                pending: &[],
            };
            let got = draw(&mut trial, &params, &step).expect("finite");
            let want = sample(&rows[row], &params).expect("finite");
            assert_eq!(got.id, want.id, "{variant:?}, round {round}");
            assert_eq!(got.logprobs.is_some(), params.logprobs.is_some());
        }
    }
}

#[test]
fn refuses_more_than_a_slot_or_the_state_holds() {
    let Some((_, mut trial)) = trials(7).next() else {
        panic!("there is a variant");
    };
    trial.write_row(0, &[0.0; 7]);
    let many = SampleParams {
        logprobs: Some(MAX_TOP + 1),
        ..GREEDY
    };
    assert!(block_on(trial.submit(&many, &SampleStep::default(), 1)).is_err());
    let pending = [0; MAX_PENDING + 1];
    let step = SampleStep {
        pending: &pending,
        ..SampleStep::default()
    };
    assert!(block_on(trial.submit(&GREEDY, &step, 1)).is_err());
    // A token may have many biases; the list has an end all the same.
    let biases = vec![TokenBias { id: 6, bias: 0.25 }; 40];
    let adjust = Adjustments {
        biases: &biases,
        ..Adjustments::NONE
    };
    let biased = SampleParams { adjust, ..GREEDY };
    let got = draw(&mut trial, &biased, &SampleStep::default());
    assert_eq!(got.expect("finite").id, 6);
    let biases = vec![TokenBias { id: 6, bias: 0.25 }; 5000];
    let adjust = Adjustments {
        biases: &biases,
        ..Adjustments::NONE
    };
    let biased = SampleParams { adjust, ..GREEDY };
    assert!(block_on(trial.submit(&biased, &SampleStep::default(), 1)).is_err());
}

#[test]
fn a_slot_is_read_as_it_was_written() {
    let mut words = [0; SLOT_WORDS];
    words[0] = 17;
    words[2] = 0x7fc0_0000;
    let sampled = read_slot(&words).expect("no fault");
    assert_eq!((sampled.id, sampled.logprobs), (17, None));
    words[2] = (-0.5_f32).to_bits();
    words[3] = 2;
    (words[4], words[5]) = (17, 4);
    (words[24], words[25]) = ((-0.5_f32).to_bits(), (-1.5_f32).to_bits());
    let logprobs = read_slot(&words).expect("no fault").logprobs;
    let logprobs = logprobs.expect("they are there");
    assert_eq!(logprobs.chosen, -0.5);
    let top: Vec<_> = logprobs.top.iter().map(|t| (t.id, t.logprob)).collect();
    assert_eq!(top, [(17, -0.5), (4, -1.5)]);
    words[1] = 1;
    assert_eq!(read_slot(&words), Err(BackendError::NotFinite));
    words[1] = 2;
    assert_eq!(
        read_slot(&words).map_err(|error| error.code()),
        Err("internal")
    );
    assert!(read_slot(&words[1..]).is_err());
}

#[test]
fn modes_follow_the_parameters() {
    let plain = Mode::of(&GREEDY, &[]);
    assert!(!plain.adjusts && !plain.draws && !plain.logprobs);
    let all = Mode::of(&warm(), &[3]);
    assert!(all.adjusts && all.draws && all.logprobs);
    assert_eq!(arg_max(&[1.0, 2.0]), Ok(1));
}
