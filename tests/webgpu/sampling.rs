//! The sampler on the device against the host's, on the same logits.

mod expected;
mod faults;
mod frequencies;
mod seeded;

use pollster::block_on;
use tokenbrook::backend::webgpu::kernels::sample::Variant;
use tokenbrook::backend::webgpu::kernels::sample_case::Trial;
use tokenbrook::backend::webgpu::sampler::{SampleStep, read_slot};
use tokenbrook::backend::{BackendError, SampleParams, Sampled, sample};

use crate::gpu::{ALL, open};
use expected::Expected;

/// Samples on the device from row 0 into a slot.
fn draw(
    trial: &mut Trial,
    params: &SampleParams<'_>,
    step: &SampleStep<'_>,
) -> Result<Sampled, BackendError> {
    block_on(trial.submit(params, step, 1)).expect("the device works");
    let ring = block_on(trial.ring()).expect("the device works");
    read_slot(&ring[step.out_slot as usize])
}

/// Every variant on every way to use the adapter.
fn trials(vocab: usize) -> impl Iterator<Item = (Variant, Trial)> {
    ALL.into_iter().flat_map(move |options| {
        let gpu = open(options);
        let variants = Variant::available(gpu.capabilities());
        let trial = move |variant| (variant, Trial::new(&gpu, variant, vocab, 2));
        variants.into_iter().map(trial)
    })
}

/// How often the device's choice was the host's, and how often it was excused.
#[derive(Debug, Default)]
struct Agreement {
    same: usize,
    excused: usize,
}

/// Compares one choice; `pending` is what the slots of `step` hold.
fn compare(
    agreement: &mut Agreement,
    (variant, trial): (Variant, &mut Trial),
    logits: &[f32],
    params: &SampleParams<'_>,
    what: &str,
) {
    let got = draw(trial, params, &SampleStep::default());
    let want = sample(logits, params);
    let what = format!("{variant:?}, {what}");
    let (got, want) = match (got, want) {
        (Ok(got), Ok(want)) => (got, want),
        (got, want) => {
            assert_eq!(got.err(), want.err(), "{what}");
            return;
        }
    };
    if got.id == want.id {
        agreement.same += 1;
    } else {
        let expected = Expected::new(logits, params);
        assert!(
            params.temperature > 0.0 && expected.allows(got.id, params),
            "{what}: {} instead of {}",
            got.id,
            want.id
        );
        agreement.excused += 1;
    }
    expected::assert_logprobs(logits, &got, &want, &what);
}
