// What this browser offers, as one JSON: for bug reports, and for pages that explain themselves.

import { readReports } from './gpu-reports.js';
import type { AdapterDiagnosis, Diagnosis, StorageDiagnosis } from './types.js';

/** Modules that are valid only where WebAssembly has the feature of their name. */
const WASM_PROBES = {
  // A function whose result is a `v128`.
  simd: [
    0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253,
    15, 253, 98, 11,
  ],
  // The same, by `i8x16.relaxed_swizzle`.
  relaxedSimd: [
    0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253,
    15, 65, 2, 253, 15, 253, 128, 2, 11,
  ],
  // A memory that is shared.
  threads: [0, 97, 115, 109, 1, 0, 0, 0, 5, 4, 1, 3, 1, 1],
  // A memory of 64-bit addresses.
  memory64: [0, 97, 115, 109, 1, 0, 0, 0, 5, 3, 1, 4, 1],
} as const;

/** The longest that one answer of the browser is waited for, ms. */
const PATIENCE_MS = 5000;

/**
 * Tells what there is here for models: secure context, isolation, GPU, WebAssembly, storage, and
 * what earlier loads found out about GPUs. It loads nothing, and never rejects: what cannot be
 * told is `null`.
 */
export async function diagnose(): Promise<Diagnosis> {
  const { navigator } = globalThis as { navigator?: Navigator };
  const [webgpu, storage, gpuReports] = await Promise.all([
    told(adapter(navigator), null),
    told(storageOf(navigator), null),
    told(readReports(), []),
  ]);
  return {
    userAgent: navigator?.userAgent ?? null,
    secureContext: globalThis.isSecureContext ?? null,
    crossOriginIsolated: globalThis.crossOriginIsolated ?? false,
    hardwareConcurrency: navigator?.hardwareConcurrency ?? null,
    deviceMemoryGiB: (navigator as { deviceMemory?: number } | undefined)?.deviceMemory ?? null,
    webgpu,
    wasm: {
      simd: has('simd'),
      relaxedSimd: has('relaxedSimd'),
      threads: has('threads'),
      memory64: has('memory64'),
      jspi: typeof WebAssembly !== 'undefined' && 'Suspending' in WebAssembly,
    },
    storage,
    gpuReports,
  };
}

function has(feature: keyof typeof WASM_PROBES): boolean {
  try {
    return WebAssembly.validate(Uint8Array.from(WASM_PROBES[feature]));
  } catch {
    return false;
  }
}

/** What a promise gives, or something else where it fails or takes too long. */
async function told<T>(answer: Promise<T>, otherwise: T): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<T>((resolve) => {
    timer = setTimeout(() => resolve(otherwise), PATIENCE_MS);
  });
  try {
    return await Promise.race([answer, late]);
  } catch {
    return otherwise;
  } finally {
    clearTimeout(timer);
  }
}

interface Adapter {
  readonly features: Iterable<string>;
  readonly limits: object;
  readonly info: Record<string, unknown>;
}

interface Gpu {
  readonly wgslLanguageFeatures?: Iterable<string>;
  requestAdapter(options: { powerPreference: 'high-performance' }): Promise<Adapter | null>;
}

async function adapter(navigator: Navigator | undefined): Promise<AdapterDiagnosis | null> {
  const gpu = (navigator as { gpu?: Gpu } | undefined)?.gpu;
  const found = await gpu?.requestAdapter({ powerPreference: 'high-performance' });
  if (gpu === undefined || found === undefined || found === null) return null;
  const limits: Record<string, number> = {};
  for (const name in found.limits) {
    const value = (found.limits as Record<string, unknown>)[name];
    if (typeof value === 'number') limits[name] = value;
  }
  const text = (name: string): string => String(found.info[name] ?? '');
  return {
    vendor: text('vendor'),
    architecture: text('architecture'),
    device: text('device'),
    description: text('description'),
    isFallbackAdapter: found.info['isFallbackAdapter'] === true,
    features: [...found.features].sort(),
    wgslLanguageFeatures: [...(gpu.wgslLanguageFeatures ?? [])].sort(),
    limits,
  };
}

async function storageOf(navigator: Navigator | undefined): Promise<StorageDiagnosis | null> {
  const storage = navigator?.storage;
  if (storage === undefined) return null;
  const { usage = null, quota = null } = await storage.estimate();
  return {
    usageBytes: usage,
    quotaBytes: quota,
    persisted: await storage.persisted(),
    opfs: 'getDirectory' in storage,
  };
}
