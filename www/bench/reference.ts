// What known models say, as computed apart from this engine: in float32 on dequantized weights.
// `tests/data/reference/` has the whole of it.

export interface Reference {
  /** Whose tokens these are, for people. */
  of: string;
  promptIds: readonly number[];
  /** What follows greedily. */
  ids: readonly number[];
}

/** Which model a reference belongs to. */
export interface KnownModel extends Reference {
  architecture: string;
  quantization: string;
  parameters: number;
}

export const KNOWN: readonly KnownModel[] = [
  {
    of: 'SmolLM2-135M-Instruct',
    architecture: 'llama',
    quantization: 'Q4_1',
    parameters: 134_515_008,
    promptIds: [
      1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018,
      411, 407, 19712, 8182, 2, 198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47,
      2, 198, 1, 520, 9531, 198,
    ],
    ids: [
      504, 3575, 282, 4649, 314, 7042, 30, 2, 198, 2, 1, 9690, 198, 2, 198, 1,
    ],
  },
  {
    of: 'Gemma 3 270M',
    architecture: 'gemma3',
    quantization: 'Q4_K_M',
    parameters: 268_098_176,
    promptIds: [
      2, 818, 5279, 529, 7001, 563,
    ],
    ids: [
      506, 5279, 529, 506, 2891, 529, 7001, 236761, 1030, 563, 506, 7488, 3207, 528,
      7001, 532,
    ],
  },
];

interface Described {
  architecture: string;
  quantization: string;
  parameters: number;
}

/** The reference of a loaded model; `undefined` where none is known. */
export function knownReference(info: Described): Reference | undefined {
  return KNOWN.find(({ architecture, quantization, parameters }) =>
    architecture === info.architecture && quantization === info.quantization &&
    parameters === info.parameters);
}

/** What scoring a text gives, as far as it is used. */
export interface Score {
  top1Logprob: ArrayLike<number>;
  nextLogprob: ArrayLike<number>;
}

export interface Check {
  /** Whose tokens were asked for. */
  against: string;
  agrees: boolean;
  /** The farthest that a token of the reference lies below the likeliest one, in nats. */
  worstNats: number;
  limitNats: number;
}

/** Rounding moves log-probabilities: this much with 32-bit activations, this much with 8 bits. */
const LIMIT_NATS = { exact: 0.1, fast: 0.5 };

/** Judges the score of prompt and reply together: position i predicts token i + 1. */
export function judge(reference: Reference, score: Score, precision: string): Check {
  const limitNats = precision === 'exact' ? LIMIT_NATS.exact : LIMIT_NATS.fast;
  const first = reference.promptIds.length - 1;
  let worstNats = 0;
  for (let at = first; at < first + reference.ids.length; at += 1) {
    const gap = (score.top1Logprob[at] ?? NaN) - (score.nextLogprob[at] ?? NaN);
    // What is no number agrees with nothing.
    worstNats = Math.max(worstNats, Number.isNaN(gap) ? Infinity : gap);
  }
  return { against: reference.of, agrees: worstNats <= limitNats, worstNats, limitNats };
}
